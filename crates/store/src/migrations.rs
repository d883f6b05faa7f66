//! The migrations that this version has. They are part of the binary.

use fermata_tools::sha256;

/// A change of the schema.
#[derive(Clone, Debug)]
pub struct Migration {
    /// Its position in the order of all.
    pub number: i64,
    /// Its name, such as `init`.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}

macro_rules! migrations {
    ($folder:literal: $($number:literal $name:literal $file:literal)+) => {
        &[$(Migration {
            number: $number,
            name: $name,
            sql: include_str!(concat!("../migrations/", $folder, "/", $file)),
        }),+]
    };
}

/// The migrations of a SQLite database.
pub const SQLITE: &[Migration] = migrations!("sqlite": 1 "init" "0001_init.sql");

/// The migrations of a PostgreSQL database.
pub const POSTGRES: &[Migration] = migrations!("postgres": 1 "init" "0001_init.sql");

// === impl Migration ===

impl Migration {
    /// Returns the SHA-256 of the statements, in hexadecimal.
    pub fn checksum(&self) -> String {
        sha256(self.sql.as_bytes())
    }

    /// Returns `true` if all statements are one transaction. PostgreSQL builds an index `concurrently` outside of one.
    pub fn is_transaction(&self) -> bool {
        !self.sql.starts_with("-- no-transaction")
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_file_is_a_migration_and_they_are_in_order() {
        for (folder, migrations) in [("sqlite", SQLITE), ("postgres", POSTGRES)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(folder);
            let mut files: Vec<_> = fs::read_dir(folder)
                .unwrap()
                .map(|file| file.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            let known: Vec<_> = migrations
                .iter()
                .map(|migration| format!("{:04}_{}.sql", migration.number, migration.name))
                .collect();
            assert_eq!(known, files);
        }
    }
}
