//! The migrations of a database. They decide if this program may use it.
//!
//! Two versions of the program may share a database while one replaces the other, so a migration that this version does not know is no
//! fault by itself. The table `schema_floor` says which migration a program has to know.
//!
//! This module reads no database: each backend looks into its own and applies what [`Schema::missing`] returns.

use std::{collections::BTreeMap, fmt};

use crate::{OpenError, migrations::Migration};

/// The table of the migrations that were applied.
pub const MIGRATIONS_TABLE: &str = "schema_migrations";
/// The table that says which migration a program has to know.
pub const FLOOR_TABLE: &str = "schema_floor";
/// The table that only a database from before the first release has.
pub const UNRELEASED_TABLE: &str = "_sqlx_migrations";

/// Makes the table of applied migrations.
pub const CREATE: &str = "create table if not exists schema_migrations (
    number bigint not null primary key, name text not null, checksum text not null
)";
/// Finds the number and the checksum of each migration that was applied.
pub const APPLIED: &str = "select number, checksum from schema_migrations";
/// Notes that a migration was applied.
pub const NOTE: &str = "insert into schema_migrations (number, name, checksum) values ($1, $2, $3)";
/// Finds the oldest migration that a program has to know.
pub const FLOOR: &str = "select migration from schema_floor";

/// The migrations that were applied to bring a database up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The number and the name of each migration that was applied, in order; empty if none was missing.
    pub applied: Vec<String>,
}

/// The schema of a database, as it was found there.
#[derive(Debug)]
pub struct Schema {
    /// The number and the checksum of each migration that was applied.
    pub applied: BTreeMap<i64, String>,
    /// The oldest migration that a program has to know.
    pub floor: Option<i64>,
    /// `true` if the database was made before the first release.
    pub is_unreleased: bool,
}

/// The reason why the schema of a database does not fit this program.
#[derive(Debug)]
pub enum Misfit {
    /// The database needs a program that knows this migration.
    Newer(i64),
    /// The database was made before there was a release.
    Unreleased,
    /// This migration was applied with other statements.
    Changed(i64),
}

// === impl Migrated ===

impl Migrated {
    pub(crate) fn of(migrations: &[&Migration]) -> Self {
        let names = migrations.iter().map(|migration| format!("{:04} {}", migration.number, migration.name));
        Self { applied: names.collect() }
    }
}

impl fmt::Display for Migrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.applied.is_empty() {
            return f.write_str("the database is up to date; there was nothing to do");
        }
        write!(f, "applied {}", self.applied.join(", "))
    }
}

// === impl Schema ===

impl Schema {
    /// Returns the migrations that the database lacks, of those that this program knows.
    ///
    /// # Errors
    /// If the program must not use the database, or cannot bring it up to date.
    pub fn missing<'m>(&self, known: &'m [Migration]) -> Result<Vec<&'m Migration>, Misfit> {
        if self.is_unreleased {
            return Err(Misfit::Unreleased);
        }
        if let Some(floor) = self.floor
            && known.iter().all(|migration| migration.number < floor)
        {
            return Err(Misfit::Newer(floor));
        }
        let mut missing = Vec::new();
        for migration in known {
            match self.applied.get(&migration.number) {
                Some(checksum) if *checksum == migration.checksum() => {}
                Some(_) => return Err(Misfit::Changed(migration.number)),
                None => missing.push(migration),
            }
        }
        Ok(missing)
    }
}

// === impl Misfit ===

impl Misfit {
    /// Returns the error for the operator.
    pub fn of(self, database: String) -> OpenError {
        match self {
            Self::Newer(migration) => OpenError::Newer { database, migration },
            Self::Unreleased => OpenError::Unreleased { database },
            Self::Changed(number) => {
                let reason =
                    format!("migration {number} was applied with other statements than this version has");
                OpenError::Failed { database, reason }
            }
        }
    }
}
