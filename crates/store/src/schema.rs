//! Which migrations a database has, and whether this program may use it.
//!
//! Two versions of the program may share a database while one replaces the other, so a migration that this one does not know is no fault
//! by itself. The table `schema_floor` says which migration a program has to know.

use std::{borrow::Cow, collections::BTreeMap};

use sqlx::migrate::{Migrate, MigrateError, Migrator};

use super::{Connection, MIGRATIONS, TABLE_EXISTS};
use crate::database::Migrated;

/// Where sqlx notes what was applied.
const APPLIED: &str = "_sqlx_migrations";

/// Why a database cannot be used as it is.
pub enum Misfit {
    /// It needs a program that knows this migration.
    Newer(i64),
    /// It lacks migrations.
    Behind,
    /// It has failed.
    Failed(MigrateError),
}

/// Applies what is missing. One process does it at a time; where it fails, the connection is not to be used any more.
pub async fn migrate(connection: &mut Connection) -> Result<Migrated, Misfit> {
    // Where nothing is missing, no right to change the schema is needed.
    match check(connection).await {
        Ok(()) => return Ok(Migrated { applied: Vec::new() }),
        Err(Misfit::Behind) => {}
        Err(misfit @ (Misfit::Newer(_) | Misfit::Failed(_))) => return Err(misfit),
    }
    connection.lock().await?;
    check_floor(connection).await?;
    connection.ensure_migrations_table(APPLIED).await?;
    let known = applied(connection).await?;
    // What `run` calls; on a borrowed connection the future of `run` itself is not `Send`.
    migrator().run_direct(None, connection, false).await?;
    connection.unlock().await?;
    let new = MIGRATIONS.iter().filter(|migration| !known.contains_key(&migration.version));
    let applied = new.map(|migration| format!("{:04} {}", migration.version, migration.description));
    Ok(Migrated { applied: applied.collect() })
}

/// Whether the database has all that this program needs, and as this program knows it.
pub async fn check(connection: &mut Connection) -> Result<(), Misfit> {
    check_floor(connection).await?;
    if !exists(connection, APPLIED).await? {
        return Err(Misfit::Behind);
    }
    if let Some(half) = connection.dirty_version(APPLIED).await? {
        return Err(MigrateError::Dirty(half).into());
    }
    let applied = applied(connection).await?;
    for migration in MIGRATIONS.iter() {
        match applied.get(&migration.version) {
            Some(checksum) if *checksum == migration.checksum => {}
            Some(_) => return Err(MigrateError::VersionMismatch(migration.version).into()),
            None => return Err(Misfit::Behind),
        }
    }
    Ok(())
}

async fn check_floor(connection: &mut Connection) -> Result<(), Misfit> {
    if !exists(connection, "schema_floor").await? {
        return Ok(());
    }
    let floor: i64 =
        sqlx::query_scalar("select migration from schema_floor").fetch_one(&mut *connection).await?;
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
    if newest < floor { Err(Misfit::Newer(floor)) } else { Ok(()) }
}

/// The checksum of each.
async fn applied(connection: &mut Connection) -> Result<BTreeMap<i64, Cow<'static, [u8]>>, Misfit> {
    let applied = connection.list_applied_migrations(APPLIED).await?;
    Ok(applied.into_iter().map(|migration| (migration.version, migration.checksum)).collect())
}

async fn exists(connection: &mut Connection, table: &str) -> Result<bool, Misfit> {
    Ok(sqlx::query_scalar(TABLE_EXISTS).bind(table).fetch_one(&mut *connection).await?)
}

/// Ours, without a lock of its own, and at ease with migrations of later versions.
fn migrator() -> Migrator {
    Migrator {
        migrations: Cow::Borrowed(&*MIGRATIONS.migrations),
        ignore_missing: true,
        locking: false,
        ..Migrator::DEFAULT
    }
}

// === impl Misfit ===

impl From<MigrateError> for Misfit {
    fn from(error: MigrateError) -> Self {
        Self::Failed(error)
    }
}

impl From<sqlx::Error> for Misfit {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error.into())
    }
}
