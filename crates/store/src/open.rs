//! Opening a SQLite file: where it is, how it behaves, and its migrations.
//!
//! Invariants: one connection writes, so writers wait in the pool's queue and not in SQLite's busy loop; a commit is on the
//! disk before it returns (WAL with `synchronous = full`), so what was acknowledged survives a power cut.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use backon::{ExponentialBuilder, Retryable};
use sqlx::{
    SqlitePool,
    migrate::{MigrateError, Migrator},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::error::primary_code;

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

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

/// Why a database cannot be opened, in words for the operator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another database is named.
    #[error(
        "DATABASE_URL names a PostgreSQL database, which is not supported yet; use sqlite://<path of a file>"
    )]
    PostgresNotSupported,
    /// The URL is none of SQLite's.
    #[error(
        "DATABASE_URL is not understood ({0}); write sqlite://<path of a file>, for example sqlite://fermata.db"
    )]
    BadUrl(String),
    /// The folder of the file is not there.
    #[error("the folder {} of the database does not exist (DATABASE_URL); create it first", .0.display())]
    NoFolder(PathBuf),
    /// The file cannot be created, opened or written.
    #[error("the database {} cannot be opened for writing ({reason}); check DATABASE_URL and the permissions of the file and its folder", .path.display())]
    NotWritable {
        /// Which file.
        path: PathBuf,
        /// What the database said.
        reason: String,
    },
    /// The file is something else.
    #[error("{} is not a SQLite database (DATABASE_URL)", .0.display())]
    NotADatabase(PathBuf),
    /// A newer version of this program has migrated the file.
    #[error("the database {} was migrated by a newer version of Fermata (migration {migration}); use that version, or another file", .path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// The first migration that this version does not know.
        migration: i64,
    },
    /// Anything else.
    #[error("the database {} cannot be opened: {reason}", .path.display())]
    Failed {
        /// Which file.
        path: PathBuf,
        /// What the database said.
        reason: String,
    },
}

/// The connections to one database.
pub struct Pools {
    /// The one that writes.
    pub writer: SqlitePool,
    /// Those that read; the writer itself where the database is in memory.
    pub readers: SqlitePool,
}

/// Opens the database that the URL names, creates and migrates it where needed.
pub async fn open(url: &str) -> Result<Pools, OpenError> {
    let options = options(url)?;
    let path = options.get_filename().to_owned();
    if is_in_memory(url) {
        let writer = writer(options, &path).await?;
        return Ok(Pools { readers: writer.clone(), writer });
    }
    check_place(&path)?;
    let writer = writer(options.clone(), &path).await?;
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .max_lifetime(None)
        .acquire_timeout(QUEUE)
        .test_before_acquire(false)
        .connect_lazy_with(options.create_if_missing(false).pragma("query_only", "on"));
    Ok(Pools { writer, readers })
}

fn options(url: &str) -> Result<SqliteConnectOptions, OpenError> {
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        return Err(OpenError::PostgresNotSupported);
    }
    let Some(rest) = url.strip_prefix("sqlite:") else {
        return Err(OpenError::BadUrl("it does not begin with sqlite:".into()));
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

async fn writer(options: SqliteConnectOptions, path: &Path) -> Result<SqlitePool, OpenError> {
    // While another process turns a new file into one with a write-ahead log, SQLite says "locked" at once, whatever the time that
    // it was told to wait.
    let pauses =
        ExponentialBuilder::new().with_min_delay(PAUSE).with_total_delay(Some(BUSY)).without_max_times();
    let open = || connect(options.clone());
    open.retry(pauses).when(is_busy).await.map_err(|error| not_migrated(path, error))
}

fn is_busy(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    error.as_database_error().and_then(primary_code) == Some(code::BUSY)
}

async fn connect(options: SqliteConnectOptions) -> Result<SqlitePool, MigrateError> {
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
    migrate(&writer).await?;
    Ok(writer)
}

/// Migrates in one transaction that holds the write lock, so that two processes that start together do not both do it.
async fn migrate(writer: &SqlitePool) -> Result<(), MigrateError> {
    let mut transaction = writer.begin_with("begin immediate").await?;
    // What `run` calls; on a borrowed connection the future of `run` itself is not `Send`.
    MIGRATIONS.run_direct(None, &mut *transaction, false).await?;
    transaction.commit().await?;
    Ok(())
}

fn not_migrated(path: &Path, error: MigrateError) -> OpenError {
    let path = path.to_owned();
    match error {
        MigrateError::VersionMissing(migration) => OpenError::Newer { path, migration },
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => refused(&path, &error),
        other => OpenError::Failed { path, reason: other.to_string() },
    }
}

fn refused(path: &Path, error: &sqlx::Error) -> OpenError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match error.as_database_error().and_then(primary_code) {
        Some(code::READ_ONLY | code::CANNOT_OPEN) => OpenError::NotWritable { path, reason },
        Some(code::NOT_A_DATABASE) => OpenError::NotADatabase(path),
        Some(_) | None => OpenError::Failed { path, reason },
    }
}
