//! The migrations of a database. They decide if this program may use it.
//!
//! Two versions of the program may share a database while one replaces the other, so a migration that this version does not know is no
//! fault by itself. The table `schema_floor` says which migration a program has to know.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use sqlx::migrate::{Migrate, MigrateError, Migrator};

/// The table where sqlx notes the applied migrations.
const APPLIED: &str = "_sqlx_migrations";

/// Finds the oldest migration that a program has to know.
pub const FLOOR: &str = "select migration from schema_floor";

/// The migrations that were applied to bring a database up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The number and the name of each migration that was applied, in order; empty if none was missing.
    pub applied: Vec<String>,
}

/// A connection to a database that is migrated.
pub trait Schema: Migrate + Send + Sized {
    /// Returns `true` if there is a table with this name.
    fn has_table(&mut self, name: &'static str) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Waits until no other process migrates the database, and removes what one that was stopped has left of these migrations. A process
    /// that waits must not keep a query under way, because an index that is built `concurrently` waits for the queries of all others.
    fn wait_for_turn(
        &mut self,
        migrations: &Migrator,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// The migration that a program has to know, as [`FLOOR`] finds it.
    fn floor(&mut self) -> impl Future<Output = Result<i64, sqlx::Error>> + Send;
}

/// The reason why a database cannot be used as it is.
pub enum SchemaError {
    /// The database needs a program that knows this migration.
    Newer(i64),
    /// The database lacks migrations.
    Behind,
    /// The database was made before there was a release.
    Unreleased,
    /// The database has failed.
    Failed(MigrateError),
}

/// Applies the missing migrations. One process does it at a time. If it fails, the connection is not to be used any more.
pub async fn migrate<S: Schema>(connection: &mut S, migrations: &Migrator) -> Result<Migrated, SchemaError> {
    // If nothing is missing, the user needs no right to change the schema.
    match check(connection, migrations).await {
        Ok(()) => return Ok(Migrated { applied: Vec::new() }),
        Err(SchemaError::Behind) => {}
        Err(fault @ (SchemaError::Newer(_) | SchemaError::Unreleased | SchemaError::Failed(_))) => {
            return Err(fault);
        }
    }
    connection.wait_for_turn(migrations).await?;
    connection.lock().await?;
    check_floor(connection, migrations).await?;
    connection.ensure_migrations_table(APPLIED).await?;
    let known = applied(connection).await?;
    let migrator = Migrator {
        migrations: migrations.migrations.clone(),
        // Later versions may have applied migrations of their own, and the lock is held already.
        ignore_missing: true,
        locking: false,
        ..Migrator::DEFAULT
    };
    // `run` calls this; on a borrowed connection the future of `run` itself is not `Send`.
    migrator.run_direct(None, connection, false).await?;
    connection.unlock().await?;
    let new = migrations.iter().filter(|migration| !known.contains_key(&migration.version));
    let applied = new.map(|migration| format!("{:04} {}", migration.version, migration.description));
    Ok(Migrated { applied: applied.collect() })
}

/// Succeeds if the database has all migrations of this program, and as this program knows them.
pub async fn check<S: Schema>(connection: &mut S, migrations: &Migrator) -> Result<(), SchemaError> {
    if !connection.has_table(APPLIED).await? {
        return Err(SchemaError::Behind);
    }
    if let Some(half) = connection.dirty_version(APPLIED).await? {
        return Err(MigrateError::Dirty(half).into());
    }
    let applied = applied(connection).await?;
    // The first migration of a release never changes. The databases of earlier builds had another one, and a floor that means nothing here.
    let first = migrations.iter().next();
    if let Some(first) = first
        && applied.get(&first.version).is_some_and(|checksum| *checksum != first.checksum)
    {
        return Err(SchemaError::Unreleased);
    }
    check_floor(connection, migrations).await?;
    for migration in migrations.iter() {
        match applied.get(&migration.version) {
            Some(checksum) if *checksum == migration.checksum => {}
            Some(_) => return Err(MigrateError::VersionMismatch(migration.version).into()),
            None => return Err(SchemaError::Behind),
        }
    }
    Ok(())
}

async fn check_floor<S: Schema>(connection: &mut S, migrations: &Migrator) -> Result<(), SchemaError> {
    if !connection.has_table("schema_floor").await? {
        return Ok(());
    }
    let floor = connection.floor().await?;
    let knows_it = migrations.iter().any(|migration| migration.version >= floor);
    if knows_it { Ok(()) } else { Err(SchemaError::Newer(floor)) }
}

/// The number and the checksum of each migration that was applied.
async fn applied<S: Schema>(connection: &mut S) -> Result<BTreeMap<i64, Cow<'static, [u8]>>, SchemaError> {
    let applied = connection.list_applied_migrations(APPLIED).await?;
    Ok(applied.into_iter().map(|migration| (migration.version, migration.checksum)).collect())
}

// === impl Migrated ===

impl fmt::Display for Migrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.applied.is_empty() {
            return f.write_str("the database is up to date; there was nothing to do");
        }
        write!(f, "applied {}", self.applied.join(", "))
    }
}

// === impl SchemaError ===

impl SchemaError {
    /// Returns the error of the query that has failed, if one has.
    pub fn query_error(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Failed(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => {
                Some(error)
            }
            Self::Newer(_) | Self::Behind | Self::Unreleased | Self::Failed(_) => None,
        }
    }
}

impl From<MigrateError> for SchemaError {
    fn from(error: MigrateError) -> Self {
        Self::Failed(error)
    }
}

impl From<sqlx::Error> for SchemaError {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error.into())
    }
}
