//! Opening a SQLite file: where it is, how it behaves, and its migrations.
//!
//! Invariants: one connection writes, so writers wait in the pool's queue and not in SQLite's busy loop; a commit is on the
//! disk before it returns (WAL with `synchronous = full`), so what was acknowledged survives a power cut.

use std::{path::Path, str::FromStr, time::Duration};

use backon::{ExponentialBuilder, Retryable};
use sqlx::{
    SqlitePool,
    migrate::MigrateError,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::queries::schema::{self, Misfit};
use crate::{Migrated, OpenError, error::primary_code};

/// How long another process that writes to the file is waited for.
const BUSY: Duration = Duration::from_secs(5);
/// How long to wait at first before trying again to open a file that is being made.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a connection of this process is waited for.
const QUEUE: Duration = Duration::from_secs(15);
/// Each connection has a thread of its own.
const READERS: u32 = 4;

/// SQLite's primary result codes for a file that cannot be used as it is.
mod code {
    pub const BUSY: u32 = 5;
    pub const READ_ONLY: u32 = 8;
    pub const CANNOT_OPEN: u32 = 14;
    pub const NOT_A_DATABASE: u32 = 26;
}

/// The connections to one database.
pub struct Pools {
    /// The one that writes.
    pub writer: SqlitePool,
    /// Those that read; the writer itself where the database is in memory.
    pub readers: SqlitePool,
}

/// Opens the database that the URL names; creates and migrates it where needed and wanted.
pub async fn open(url: &str, migrate: bool) -> Result<Pools, OpenError> {
    let options = options(url)?;
    let path = options.get_filename().to_owned();
    if is_in_memory(url) {
        // Nobody else could have migrated it.
        let (writer, _) = writer(options, &path, true).await?;
        return Ok(Pools { readers: writer.clone(), writer });
    }
    check_place(&path)?;
    if !migrate && !path.exists() {
        return Err(OpenError::Behind { database: path.display().to_string() });
    }
    let (writer, _) = writer(options.clone(), &path, migrate).await?;
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .max_lifetime(None)
        .acquire_timeout(QUEUE)
        .test_before_acquire(false)
        .connect_lazy_with(options.create_if_missing(false).pragma("query_only", "on"));
    Ok(Pools { writer, readers })
}

/// Brings the file that the URL names up to date.
pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
    let options = options(url)?;
    let path = options.get_filename().to_owned();
    if !is_in_memory(url) {
        check_place(&path)?;
    }
    let (writer, migrated) = writer(options, &path, true).await?;
    writer.close().await;
    Ok(migrated)
}

fn options(url: &str) -> Result<SqliteConnectOptions, OpenError> {
    let Some(rest) = url.strip_prefix("sqlite:") else {
        return Err(OpenError::BadUrl("it begins neither with sqlite: nor with postgres:".into()));
    };
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    // SQLite takes an empty name for a database that is thrown away at the end.
    if rest.is_empty() || rest.starts_with('?') {
        return Err(OpenError::BadUrl("it names no file".into()));
    }
    let options =
        SqliteConnectOptions::from_str(url).map_err(|error| OpenError::BadUrl(error.to_string()))?;
    Ok(options
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // macOS hands data to the disk only when asked in this way; elsewhere it means nothing.
        .pragma("fullfsync", "on")
        .busy_timeout(BUSY))
}

fn is_in_memory(url: &str) -> bool {
    url.contains(":memory:")
        || url.split_once('?').is_some_and(|(_, parameters)| parameters.contains("mode=memory"))
}

fn check_place(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(OpenError::NoFolder(folder.to_owned())),
        Some(_) | None => Ok(()),
    }
}

async fn writer(
    options: SqliteConnectOptions,
    path: &Path,
    migrate: bool,
) -> Result<(SqlitePool, Migrated), OpenError> {
    // While another process turns a new file into one with a write-ahead log, SQLite says "locked" at once, whatever the time that
    // it was told to wait.
    let pauses =
        ExponentialBuilder::new().with_min_delay(PAUSE).with_total_delay(Some(BUSY)).without_max_times();
    let open = || connect(options.clone(), migrate);
    open.retry(pauses).when(is_busy).await.map_err(|misfit| not_opened(path, misfit))
}

fn is_busy(misfit: &Misfit) -> bool {
    let Misfit::Failed(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = misfit
    else {
        return false;
    };
    error.as_database_error().and_then(primary_code) == Some(code::BUSY)
}

async fn connect(options: SqliteConnectOptions, migrate: bool) -> Result<(SqlitePool, Migrated), Misfit> {
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        // A database in memory lives as long as its connection.
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .acquire_timeout(QUEUE)
        .test_before_acquire(false)
        .connect_with(options)
        .await?;
    let migrated = bring_up(&writer, migrate).await?;
    Ok((writer, migrated))
}

/// Migrates in one transaction that holds the write lock, so that two processes that start together do not both do it.
async fn bring_up(writer: &SqlitePool, migrate: bool) -> Result<Migrated, Misfit> {
    let mut transaction = writer.begin_with("begin immediate").await?;
    let migrated = if migrate {
        schema::migrate(&mut transaction).await?
    } else {
        schema::check(&mut transaction).await?;
        Migrated { applied: Vec::new() }
    };
    transaction.commit().await?;
    Ok(migrated)
}

fn not_opened(path: &Path, misfit: Misfit) -> OpenError {
    let database = path.display().to_string();
    match misfit {
        Misfit::Newer(migration) => OpenError::Newer { database, migration },
        Misfit::Behind => OpenError::Behind { database },
        Misfit::Failed(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => {
            refused(path, &error)
        }
        Misfit::Failed(other) => OpenError::Failed { database, reason: other.to_string() },
    }
}

fn refused(path: &Path, error: &sqlx::Error) -> OpenError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match error.as_database_error().and_then(primary_code) {
        Some(code::READ_ONLY | code::CANNOT_OPEN) => OpenError::NotWritable { path, reason },
        Some(code::NOT_A_DATABASE) => OpenError::NotADatabase(path),
        Some(_) | None => OpenError::Failed { database: path.display().to_string(), reason },
    }
}
