//! Opens a SQLite file: finds it, sets up its connections and applies its migrations.
//!
//! Invariants: one connection writes, so writers wait in its queue and not in SQLite's busy loop; a commit is on the disk before it
//! returns (WAL with `synchronous = full`), so what was acknowledged survives a power cut; the files of the database can be read and
//! written by their owner only.

use std::{
    collections::BTreeMap,
    fs::{OpenOptions, Permissions},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use backon::{BlockingRetryable, ExponentialBuilder};
use percent_encoding::percent_decode_str;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, config::DbConfig, params};
use tokio::task::spawn_blocking;

use super::{SqliteDatabase, writer::Writer};
use crate::{
    Migrated, OpenError,
    chain::{Chain, draw_start},
    connection::{SqliteConnection, readers::Readers},
    migrations::{Migration, SQLITE},
    schema::{APPLIED, CREATE, FLOOR, FLOOR_TABLE, MIGRATIONS_TABLE, NOTE, Schema, UNRELEASED_TABLE},
};

/// The time that a query waits for another process that writes to the file.
const BUSY: Duration = Duration::from_secs(5);
/// The time before the first new attempt to open a file that another process is making.
const PAUSE: Duration = Duration::from_millis(20);
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

/// The place of a database.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The path of the file, or the name of a database in memory.
    pub(super) path: PathBuf,
    pub(super) is_in_memory: bool,
}

/// Opens the database that the URL names: `sqlite://<path>`, `sqlite:<path>` or `sqlite::memory:`. If `migrate` is set, a file that is not
/// there is created and the database is brought up to date.
pub async fn open(url: &str, migrate: bool) -> Result<SqliteDatabase, OpenError> {
    let place = Place::parse(url)?;
    blocking(move || place.open(migrate)).await
}

/// Brings the file that the URL names up to date.
pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
    let place = Place::parse(url)?;
    blocking(move || {
        place.make()?;
        // The migrations are committed; what is not closed in order is read from the write-ahead log.
        let (_, migrated) = place.bring_up(SQLITE, true)?;
        Ok(migrated)
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
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

/// Looks what the schema of the database is.
fn look(connection: &Connection) -> rusqlite::Result<Schema> {
    let has_table = |name: &str| {
        let find = "select exists (select 1 from sqlite_schema where type = 'table' and name = ?1)";
        connection.query_row(find, [name], |row| row.get::<_, bool>(0))
    };
    let mut schema =
        Schema { applied: BTreeMap::new(), floor: None, is_unreleased: has_table(UNRELEASED_TABLE)? };
    if has_table(MIGRATIONS_TABLE)? {
        let mut applied = connection.prepare(APPLIED)?;
        let rows = applied.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        schema.applied = rows.collect::<Result<_, _>>()?;
    }
    if has_table(FLOOR_TABLE)? {
        schema.floor = Some(connection.query_row(FLOOR, [], |row| row.get(0))?);
    }
    Ok(schema)
}

/// Returns the file of a SQLite database; `None` if the URL is another one.
pub fn file_of(url: &str) -> Option<PathBuf> {
    let place = Place::parse(url).ok()?;
    (!place.is_in_memory).then_some(place.path)
}

// === impl Place ===

impl Place {
    /// Reads the URL of a database.
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        let Some(rest) = url.strip_prefix("sqlite:") else {
            return Err(OpenError::BadUrl("it begins neither with sqlite: nor with postgres:".into()));
        };
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        // SQLite takes an empty name for a temporary database.
        if path.is_empty() {
            return Err(OpenError::BadUrl("it names no file".into()));
        }
        let mut is_in_memory = path == ":memory:";
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter {
                "mode=rwc" | "mode=rw" => {}
                "mode=memory" => is_in_memory = true,
                other => {
                    let reason =
                        format!("{other:?} is not a parameter of a SQLite file; use mode=rwc or none");
                    return Err(OpenError::BadUrl(reason));
                }
            }
        }
        if is_in_memory {
            // All connections share it by its name, and no other database of this process has that.
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("file:fermata-{number}?mode=memory&cache=shared");
            return Ok(Self { path: name.into(), is_in_memory });
        }
        let path = percent_decode_str(path).decode_utf8();
        let path = path.map_err(|_| OpenError::BadUrl("the path is not UTF-8".into()))?;
        Ok(Self { path: PathBuf::from(&*path), is_in_memory })
    }

    fn open(self, migrate: bool) -> Result<SqliteDatabase, OpenError> {
        if migrate {
            self.make()?;
        } else if !self.path.exists() && !self.is_in_memory {
            check_folder(&self.path)?;
            return Err(OpenError::Behind { database: self.name() });
        } else {
            make_private(&self.path);
        }
        // No other process could have migrated a database in memory.
        let (aside, _) = self.bring_up(SQLITE, migrate || self.is_in_memory)?;
        // A writer must not wait for a checkpoint that waits for a reader.
        aside.busy_timeout(Duration::ZERO).map_err(|error| self.refused(&error))?;
        let writer = {
            let (place, start) = (self.clone(), draw_start());
            let connect =
                move || place.connect_writer().map(|connection| connection.with_chain(Chain::only(&start)));
            let connection = connect().map_err(|error| self.refused(&error))?;
            Writer::new(connection, connect)
                .map_err(|error| OpenError::Failed { database: self.name(), reason: error.to_string() })?
        };
        let readers =
            if self.is_in_memory { None } else { Some(Readers::new(move || self.connect_reader())) };
        Ok(SqliteDatabase {
            writer,
            readers,
            aside: Arc::new(Mutex::new(Some(aside))),
            failure: Arc::default(),
            checkpoint_at: Arc::default(),
            sweep: Arc::default(),
        })
    }

    /// Makes the file, unless it is there.
    fn make(&self) -> Result<(), OpenError> {
        if self.is_in_memory {
            return Ok(());
        }
        check_folder(&self.path)?;
        make_private(&self.path);
        Ok(())
    }

    /// Opens a connection, and applies the migrations that are missing if that is asked for.
    fn bring_up(&self, known: &[Migration], migrate: bool) -> Result<(Connection, Migrated), OpenError> {
        let database = self.name();
        let attempt = || {
            let mut connection = self.connect()?;
            // The transaction holds the write lock, so of two processes that start together one migrates.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let missing = match look(&transaction)?.missing(known) {
                Ok(missing) if missing.is_empty() || migrate => missing,
                Ok(_) => return Ok(Err(OpenError::Behind { database: database.clone() })),
                Err(misfit) => return Ok(Err(misfit.of(database.clone()))),
            };
            if !missing.is_empty() {
                transaction.execute_batch(CREATE)?;
            }
            for migration in &missing {
                transaction.execute_batch(migration.sql)?;
                transaction.execute(NOTE, params![migration.number, migration.name, migration.checksum()])?;
            }
            transaction.commit()?;
            Ok(Ok((connection, Migrated::of(&missing))))
        };
        // While another process turns a new file into one with a write-ahead log, SQLite reports "locked" at once, in spite of the busy timeout.
        let pauses =
            ExponentialBuilder::new().with_min_delay(PAUSE).with_total_delay(Some(BUSY)).without_max_times();
        let done: rusqlite::Result<_> = attempt.retry(pauses).sleep(std::thread::sleep).when(is_busy).call();
        done.unwrap_or_else(|error| Err(self.refused(&error)))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn refused(&self, error: &rusqlite::Error) -> OpenError {
        let (path, reason) = (self.path.clone(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) => OpenError::NotWritable { path, reason },
            Some(ErrorCode::NotADatabase) => OpenError::NotADatabase(path),
            Some(_) | None => OpenError::Failed { database: self.name(), reason },
        }
    }

    /// Opens the connection that writes.
    ///
    /// # Errors
    /// If the file cannot be opened.
    fn connect_writer(&self) -> rusqlite::Result<SqliteConnection> {
        let connection = self.connect()?;
        // What a savepoint may have to put back is kept in memory, and not in a file that is made for each. Migrations, which sort whole
        // tables, have connections of their own.
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        Ok(connection.into())
    }

    /// Opens a connection that reads.
    ///
    /// # Errors
    /// If the file cannot be opened.
    fn connect_reader(&self) -> rusqlite::Result<Connection> {
        let connection = self.connect()?;
        connection.pragma_update(None, "query_only", "on")?;
        Ok(connection)
    }

    pub(super) fn connect(&self) -> rusqlite::Result<Connection> {
        let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_READ_WRITE;
        // The file was made before. The name of a database in memory is a URI.
        flags.set(OpenFlags::SQLITE_OPEN_URI, self.is_in_memory);
        let connection = Connection::open_with_flags(&self.path, flags)?;
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

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_upgraded_and_read_by_the_version_before_until_the_floor_is_raised() {
        let path = std::env::temp_dir().join(format!("fermata-upgrade-{}.db", uuid::Uuid::new_v4()));
        let place = Place::parse(&format!("sqlite://{}", path.display())).unwrap();
        place.make().unwrap();
        let (number, name) = (2, "expand");
        let expand = Migration { number, name, sql: "alter table chats add column mood text;" };
        let (number, name) = (3, "contract");
        let sql = "alter table chats drop column mood; update schema_floor set migration = 3;";
        let contract = Migration { number, name, sql };
        let second = [SQLITE, &[expand]].concat();
        let third = [&second[..], &[contract]].concat();
        let chat = |id| {
            format!(
                "insert into chats (id, owner, version, profile, created_at, updated_at)
                 values ('{id}', 'alice', 1, '7', 1, 1)"
            )
        };

        let (connection, migrated) = place.bring_up(SQLITE, true).unwrap();
        assert_eq!(migrated.applied, ["0001 init"]);
        connection.execute_batch(&chat("a")).unwrap();
        let behind = place.bring_up(&second, false).err();
        assert!(matches!(behind, Some(OpenError::Behind { .. })), "{behind:?}");

        let (connection, migrated) = place.bring_up(&second, true).unwrap();
        assert_eq!(migrated.applied, ["0002 expand"]);
        let read = "select count(*) from chats where id = 'a' and mood is null";
        assert_eq!(connection.query_one(read, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
        let (before, migrated) = place.bring_up(SQLITE, true).unwrap();
        assert_eq!(migrated.applied, [""; 0]);
        before.execute_batch(&chat("b")).unwrap();

        place.bring_up(&third, true).unwrap();
        for older in [SQLITE, &second] {
            for migrate in [false, true] {
                let refused = place.bring_up(older, migrate).err();
                assert!(matches!(refused, Some(OpenError::Newer { migration: 3, .. })), "{refused:?}");
            }
        }
        let mut edited = third.clone();
        edited[0].sql = "select 1";
        let refused = place.bring_up(&edited, true).err();
        assert!(refused.is_some_and(|error| error.to_string().contains("migration 1 ")));
        let (connection, _) = place.bring_up(&third, false).unwrap();
        let count = "select count(*) from chats";
        assert_eq!(connection.query_one(count, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
        drop((connection, before));
        for ending in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{ending}", path.display()));
        }
    }
}
