//! Opens a SQLite file: finds it, sets up its connections and applies its migrations.
//!
//! Invariants: one connection writes, so writers wait in its queue and not in SQLite's busy loop; a commit is on the disk before it
//! returns (WAL with `synchronous = full`), so what was acknowledged survives a power cut; the files of the database can be read and
//! written by their owner only.

use std::{
    fs::{OpenOptions, Permissions},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use backon::{ExponentialBuilder, Retryable};
use rusqlite::{OpenFlags, config::DbConfig};
use sqlx::{
    ConnectOptions, Connection as _, SqliteConnection,
    migrate::{MigrateError, Migrator},
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

use super::{SqliteDatabase, writer::Writer};
use crate::{
    Migrated, OpenError,
    connection::readers::Readers,
    error::primary_code,
    migrations::SQLITE,
    schema::{self, FLOOR, Schema, SchemaError},
};

/// The time that a query waits for another process that writes to the file.
const BUSY: Duration = Duration::from_secs(5);
/// The time before the first new attempt to open a file that another process is making.
const PAUSE: Duration = Duration::from_millis(20);
/// The time that a query waits for a connection of this process.
const QUEUE: Duration = Duration::from_secs(15);
/// The mode of each file of the database, because nobody but the owner of the files may read the chats.
pub(super) const PRIVATE: u32 = 0o600;

/// The settings of every connection.
const PRAGMAS: [(&str, &str); 5] = [
    ("journal_mode", "wal"),
    ("synchronous", "full"),
    ("foreign_keys", "on"),
    // macOS writes data to the disk only if it is asked in this way; elsewhere the setting has no effect.
    ("fullfsync", "on"),
    // What is deleted is overwritten.
    ("secure_delete", "on"),
];
/// The memory for the pages of the connection that writes, in KiB. A transaction of many commits changes up to 2 MB of them, and what
/// does not fit is written twice.
const CACHE_KIB: i64 = 8_000;
/// A commit moves a write-ahead log of at least this size into the file. A page that was changed many times since is moved once.
const CHECKPOINT_PAGES: i64 = 4_000;
/// The number of prepared statements that a connection keeps. There are fewer queries.
const STATEMENTS: usize = 256;

/// SQLite's primary result codes for a file that cannot be used as it is.
mod code {
    pub const BUSY: u32 = 5;
    pub const READ_ONLY: u32 = 8;
    pub const CANNOT_OPEN: u32 = 14;
    pub const NOT_A_DATABASE: u32 = 26;
}

/// The file behind the connections.
struct DatabaseFile {
    path: PathBuf,
    flags: OpenFlags,
    vfs: Option<String>,
}

/// Opens the database that the URL names: `sqlite://<path>`, `sqlite:<path>` or `sqlite::memory:`. If `migrate` is set, a file that is not
/// there is created and the database is brought up to date.
pub async fn open(url: &str, migrate: bool) -> Result<SqliteDatabase, OpenError> {
    let options = options(url)?;
    let path = options.get_filename().to_owned();
    if is_in_memory(url) {
        // No other process could have migrated it.
        let (migrating, _) = connect(&options, &path, &SQLITE, true).await?;
        let aside = SqlitePoolOptions::new()
            .max_connections(1)
            .min_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .acquire_timeout(QUEUE)
            .test_before_acquire(false)
            .connect_with(options.clone())
            .await
            .map_err(|error| refused(&path, &error))?;
        let writer = writer(&options, url)?;
        let _ = migrating.close().await;
        return Ok(SqliteDatabase {
            readers: None,
            writer,
            aside,
            failure: Arc::default(),
            checkpoint_at: Arc::default(),
            sweep: Arc::default(),
        });
    }
    check_folder(&path)?;
    if !migrate && !path.exists() {
        return Err(OpenError::Behind { database: path.display().to_string() });
    }
    make_private(&path);
    let (migrating, _) = connect(&options, &path, &SQLITE, migrate).await?;
    let options = options.create_if_missing(false);
    let writer = writer(&options, url)?;
    // The file is left as it is if this fails.
    let _ = migrating.close().await;
    // A writer must not wait for a checkpoint that waits for a reader.
    let waits_for_nobody = options.clone().busy_timeout(Duration::ZERO);
    let aside = SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(QUEUE)
        .test_before_acquire(false)
        .connect_lazy_with(waits_for_nobody);
    let file = DatabaseFile::of(&options, url);
    let readers = Readers::new(move || file.connect_reader());
    Ok(SqliteDatabase {
        writer,
        readers: Some(readers),
        aside,
        failure: Arc::default(),
        checkpoint_at: Arc::default(),
        sweep: Arc::default(),
    })
}

/// Brings the file that the URL names up to date.
pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
    let options = options(url)?;
    let path = options.get_filename().to_owned();
    if !is_in_memory(url) {
        check_folder(&path)?;
        make_private(&path);
    }
    let (connection, migrated) = connect(&options, &path, &SQLITE, true).await?;
    // The migrations are committed; what is not closed in order is read from the write-ahead log.
    let _ = connection.close().await;
    Ok(migrated)
}

pub(super) fn options(url: &str) -> Result<SqliteConnectOptions, OpenError> {
    let Some(rest) = url.strip_prefix("sqlite:") else {
        return Err(OpenError::BadUrl("it begins neither with sqlite: nor with postgres:".into()));
    };
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    // SQLite takes an empty name for a temporary database.
    if rest.is_empty() || rest.starts_with('?') {
        return Err(OpenError::BadUrl("it names no file".into()));
    }
    let options =
        SqliteConnectOptions::from_str(url).map_err(|error| OpenError::BadUrl(error.to_string()))?;
    let options = options.create_if_missing(true).busy_timeout(BUSY);
    Ok(PRAGMAS.iter().fold(options, |options, (name, value)| options.pragma(*name, *value)))
}

/// Opens the connection that writes.
fn writer(options: &SqliteConnectOptions, url: &str) -> Result<Writer, OpenError> {
    let path = options.get_filename();
    let failed = |reason: String| OpenError::Failed { database: path.display().to_string(), reason };
    let file = DatabaseFile::of(options, url);
    let connection = file.connect_writer().map_err(|error| failed(error.to_string()))?;
    Writer::new(connection, move || file.connect_writer()).map_err(|error| failed(error.to_string()))
}

pub(super) fn is_in_memory(url: &str) -> bool {
    url.contains(":memory:")
        || url.split_once('?').is_some_and(|(_, parameters)| parameters.contains("mode=memory"))
}

fn check_folder(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(OpenError::NoFolder(folder.to_owned())),
        Some(_) | None => Ok(()),
    }
}

/// Makes the file if there is none, and removes the permissions of others from the files of the database. SQLite gives the files beside it
/// the mode of the database.
///
/// If something goes wrong here, SQLite reports it when it opens the file; if the file can be used all the same, the log does.
fn make_private(path: &Path) {
    let made = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path);
    if made.is_ok() {
        return;
    }
    for ending in ["", "-wal", "-shm", "-journal"] {
        let mut file = path.as_os_str().to_owned();
        file.push(ending);
        let file = PathBuf::from(file);
        let mode = match file.metadata() {
            Ok(metadata) if metadata.is_file() => metadata.permissions().mode() & 0o777,
            Ok(_) | Err(_) => continue,
        };
        if mode & 0o077 == 0 {
            continue;
        }
        // The owner's own permissions stay: a file that can only be read stays one.
        match std::fs::set_permissions(&file, Permissions::from_mode(mode & PRIVATE)) {
            Ok(()) => tracing::info!(
                file = %file.display(),
                "others could read this file of the database (mode {mode:04o}), and no longer can"
            ),
            Err(error) => tracing::warn!(
                file = %file.display(),
                %error,
                "others can read this file of the database, and its mode cannot be changed to 0600"
            ),
        }
    }
}

/// Opens a connection, and brings the database up to date if that is asked for.
async fn connect(
    options: &SqliteConnectOptions,
    path: &Path,
    migrations: &Migrator,
    migrate: bool,
) -> Result<(SqliteConnection, Migrated), OpenError> {
    // While another process turns a new file into one with a write-ahead log, SQLite reports "locked" at once, in spite of the busy timeout.
    let pauses =
        ExponentialBuilder::new().with_min_delay(PAUSE).with_total_delay(Some(BUSY)).without_max_times();
    let open = async || {
        let mut connection = options.connect().await?;
        // The transaction holds the write lock, so of two processes that start together one migrates.
        let mut transaction = connection.begin_with("begin immediate").await?;
        let migrated = if migrate {
            schema::migrate(&mut *transaction, migrations).await?
        } else {
            schema::check(&mut *transaction, migrations).await?;
            Migrated { applied: Vec::new() }
        };
        transaction.commit().await?;
        Ok((connection, migrated))
    };
    let database = path.display().to_string();
    open.retry(pauses).when(is_busy).await.map_err(|error| match error {
        SchemaError::Newer(migration) => OpenError::Newer { database, migration },
        SchemaError::Behind => OpenError::Behind { database },
        SchemaError::Unreleased => OpenError::Unreleased { database },
        SchemaError::Failed(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => {
            refused(path, &error)
        }
        SchemaError::Failed(other) => OpenError::Failed { database, reason: other.to_string() },
    })
}

fn is_busy(fault: &SchemaError) -> bool {
    let code = fault.query_error().and_then(|error| primary_code(error.as_database_error()?));
    code == Some(code::BUSY)
}

fn refused(path: &Path, error: &sqlx::Error) -> OpenError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match error.as_database_error().and_then(primary_code) {
        Some(code::READ_ONLY | code::CANNOT_OPEN) => OpenError::NotWritable { path, reason },
        Some(code::NOT_A_DATABASE) => OpenError::NotADatabase(path),
        Some(_) | None => OpenError::Failed { database: path.display().to_string(), reason },
    }
}

// === impl DatabaseFile ===

impl DatabaseFile {
    /// Returns the file that sqlx would open with these options, which were read from the URL.
    fn of(options: &SqliteConnectOptions, url: &str) -> Self {
        let mut is_read_only = false;
        let mut shares_cache = is_in_memory(url);
        let mut vfs = None;
        let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
        for parameter in parameters.split('&') {
            match parameter.split_once('=').unwrap_or_default() {
                ("mode", "ro") | ("immutable", "true" | "1") => is_read_only = true,
                ("cache", kind) => shares_cache = kind == "shared",
                ("vfs", name) => vfs = Some(name.to_owned()),
                _ => {}
            }
        }
        let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        flags.set(OpenFlags::SQLITE_OPEN_READ_ONLY, is_read_only);
        flags.set(OpenFlags::SQLITE_OPEN_READ_WRITE, !is_read_only);
        flags.set(OpenFlags::SQLITE_OPEN_MEMORY | OpenFlags::SQLITE_OPEN_CREATE, is_in_memory(url));
        flags.set(OpenFlags::SQLITE_OPEN_SHARED_CACHE, shares_cache);
        Self { path: options.get_filename().to_owned(), flags, vfs }
    }

    /// Opens the connection that writes.
    ///
    /// # Errors
    /// If the file cannot be opened.
    fn connect_writer(&self) -> rusqlite::Result<rusqlite::Connection> {
        let connection = self.connect()?;
        // What a savepoint may have to put back is kept in memory, and not in a file that is made for each. Migrations, which sort whole
        // tables, have connections of their own.
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        Ok(connection)
    }

    /// Opens a connection that reads.
    ///
    /// # Errors
    /// If the file cannot be opened.
    fn connect_reader(&self) -> rusqlite::Result<rusqlite::Connection> {
        let connection = self.connect()?;
        connection.pragma_update(None, "query_only", "on")?;
        Ok(connection)
    }

    fn connect(&self) -> rusqlite::Result<rusqlite::Connection> {
        let connection = match &self.vfs {
            Some(vfs) => rusqlite::Connection::open_with_flags_and_vfs(&self.path, self.flags, vfs.as_str())?,
            None => rusqlite::Connection::open_with_flags(&self.path, self.flags)?,
        };
        connection.busy_timeout(BUSY)?;
        // Otherwise each statement with `limit $1` is planned again for each value.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        for (name, value) in PRAGMAS {
            connection.pragma_update(None, name, value)?;
        }
        Ok(connection)
    }
}

// === impl SqliteConnection ===

impl Schema for SqliteConnection {
    async fn has_table(&mut self, name: &'static str) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar("select exists (select 1 from sqlite_schema where type = 'table' and name = $1)")
            .bind(name)
            .fetch_one(self)
            .await
    }

    async fn wait_for_turn(&mut self, _: &Migrator) -> Result<(), sqlx::Error> {
        // This transaction is the only one that writes.
        Ok(())
    }

    async fn floor(&mut self) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(FLOOR).fetch_one(self).await
    }
}

#[cfg(test)]
mod tests {
    use sqlx::AssertSqlSafe;

    use super::*;
    use crate::migrations::with_later;

    const EXPAND: (&str, &str) = ("0002_expand", "alter table chats add column mood text;");
    const CONTRACT: (&str, &str) =
        ("0003_contract", "alter table chats drop column mood; update schema_floor set migration = 3;");

    #[tokio::test]
    async fn a_file_is_upgraded_and_read_by_the_version_before_until_the_floor_is_raised() {
        let path = std::env::temp_dir().join(format!("fermata-upgrade-{}.db", uuid::Uuid::new_v4()));
        let options = options(&format!("sqlite://{}", path.display())).unwrap();
        let (second, third) = (with_later(&SQLITE, &[EXPAND]), with_later(&SQLITE, &[EXPAND, CONTRACT]));
        let chat = |id| {
            format!(
                "insert into chats (id, owner, version, profile, created_at, updated_at)
                 values ('{id}', 'alice', 1, '7', 1, 1)"
            )
        };

        let (mut connection, migrated) = connect(&options, &path, &SQLITE, true).await.unwrap();
        assert_eq!(migrated.applied, ["0001 init"]);
        sqlx::raw_sql(AssertSqlSafe(chat("a"))).execute(&mut connection).await.unwrap();
        let behind = connect(&options, &path, &second, false).await.err();
        assert!(matches!(behind, Some(OpenError::Behind { .. })), "{behind:?}");

        let (mut connection, migrated) = connect(&options, &path, &second, true).await.unwrap();
        assert_eq!(migrated.applied, ["0002 expand"]);
        let read = "select count(*) from chats where id = 'a' and mood is null";
        assert_eq!(sqlx::query_scalar::<_, i64>(read).fetch_one(&mut connection).await.unwrap(), 1);
        let (mut before, migrated) = connect(&options, &path, &SQLITE, true).await.unwrap();
        assert_eq!(migrated.applied, [""; 0]);
        sqlx::raw_sql(AssertSqlSafe(chat("b"))).execute(&mut before).await.unwrap();

        connect(&options, &path, &third, true).await.unwrap();
        for older in [&*SQLITE, &second] {
            for migrate in [false, true] {
                let refused = connect(&options, &path, older, migrate).await.err();
                assert!(matches!(refused, Some(OpenError::Newer { migration: 3, .. })), "{refused:?}");
            }
        }
        let (mut connection, _) = connect(&options, &path, &third, false).await.unwrap();
        let count = sqlx::query_scalar::<_, i64>("select count(*) from chats");
        assert_eq!(count.fetch_one(&mut connection).await.unwrap(), 2);
        drop((connection, before));
        for ending in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{ending}", path.display()));
        }
    }
}
