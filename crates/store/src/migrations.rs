//! The migrations that this version knows. They are part of the binary.
//!
//! The macro of sqlx could include them as well, but it builds sqlx with both databases and their TLS a second time, for the compiler.

use std::sync::LazyLock;

use sqlx::{
    SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

macro_rules! migrations {
    ($folder:literal: $($file:literal)+) => {
        LazyLock::new(|| {
            migrator(&[$(($file, include_str!(concat!("../../../migrations/", $folder, "/", $file, ".sql")))),+])
        })
    };
}

/// The migrations of a SQLite database.
pub static SQLITE: LazyLock<Migrator> = migrations!("sqlite": "0001_init");

/// The migrations of a PostgreSQL database.
pub static POSTGRES: LazyLock<Migrator> = migrations!("postgres": "0001_init");

/// Returns the migrations of these files, whose names are a number and a description.
fn migrator(files: &[(&str, &'static str)]) -> Migrator {
    let mut migrations = Vec::new();
    for (name, sql) in files {
        let (version, description) = name.split_once('_').unwrap_or((name, ""));
        migrations.push(Migration::new(
            version.parse().unwrap_or_default(),
            description.replace('_', " ").into(),
            MigrationType::Simple,
            sql.into_sql_str(),
            sql.starts_with("-- no-transaction"),
        ));
    }
    Migrator { migrations: migrations.into(), ..Migrator::DEFAULT }
}

/// Returns the migrations of a program that is newer than the one that has `first`.
#[cfg(test)]
pub fn with_later(first: &Migrator, later: &[(&str, &'static str)]) -> Migrator {
    let mut migrations = first.migrations.to_vec();
    migrations.extend(migrator(later).migrations.iter().cloned());
    Migrator { migrations: migrations.into(), ..Migrator::DEFAULT }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_file_is_a_migration_and_they_are_in_order() {
        for (folder, migrations) in [("sqlite", &SQLITE), ("postgres", &POSTGRES)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations").join(folder);
            let mut files: Vec<_> = fs::read_dir(folder)
                .unwrap()
                .map(|file| file.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            let known: Vec<_> = migrations
                .iter()
                .map(|migration| {
                    format!("{:04}_{}.sql", migration.version, migration.description.replace(' ', "_"))
                })
                .collect();
            assert_eq!(known, files);
        }
    }
}
