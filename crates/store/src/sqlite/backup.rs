//! Copies of a SQLite file: made while a server uses it, and put back in its place.
//!
//! Invariant: a file of the final name is complete and on the disk, because it is written under another name first.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rusqlite::{Connection, OpenFlags};

use super::open::{PRIVATE, Place};
use crate::{OpenError, postgres::is_postgres};

/// The reason why a database was not backed up or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The database is one of PostgreSQL, which has programs of its own for this.
    #[error(
        "DATABASE_URL names a PostgreSQL database; back it up with pg_dump --format=custom --file=<file>, and restore it with pg_restore \
         into an empty database"
    )]
    Postgres,
    /// The database is in memory.
    #[error("DATABASE_URL names a database in memory, which ends with its process")]
    InMemory,
    /// The URL cannot be used.
    #[error(transparent)]
    Url(#[from] OpenError),
    /// There is no database to copy.
    #[error("there is no file {}", .0.display())]
    NoFile(PathBuf),
    /// The target exists.
    #[error("{} exists, and nothing is overwritten; choose another name, or move it away first", .0.display())]
    Exists(PathBuf),
    /// The target is the database that a server may be using.
    #[error(
        "the database {} exists; stop the server, move the file and those beside it (-wal, -shm) away, and restore again", .0.display()
    )]
    InPlace(PathBuf),
    /// The file is no database of Fermata, or is damaged.
    #[error("{} cannot be restored: {reason}", .path.display())]
    Unusable {
        /// The path of the file.
        path: PathBuf,
        /// The reason, as SQLite gives it.
        reason: String,
    },
    /// The copy failed.
    #[error("the copy could not be made ({0}); nothing was changed")]
    Failed(String),
    /// A file could not be read or written.
    #[error("{} cannot be used: {error}", .path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

/// Copies the database that the URL names into a new file, as of one moment. Servers may use it meanwhile. Returns the number of bytes.
///
/// This blocks until the copy is on the disk.
///
/// # Errors
/// If the URL names no file, if the target exists, or if the copy cannot be made; then there is no target.
pub fn back_up(url: &str, to: &Path) -> Result<u64, BackupError> {
    let from = place(url)?;
    if !from.path.exists() {
        return Err(BackupError::NoFile(from.path));
    }
    if to.exists() {
        return Err(BackupError::Exists(to.to_owned()));
    }
    let part = Part::make(to)?;
    // Unlike a copy of the file, this has what is still in the write-ahead log, and nothing that was deleted.
    from.connect()
        .and_then(|connection| connection.execute("vacuum into ?1", [part.name()]))
        .map_err(|error| BackupError::Failed(error.to_string()))?;
    check(&part.path)?;
    part.finish(to)
}

/// Copies a backup to where the URL says that the database is, which must not exist. Returns the number of bytes.
///
/// This blocks until the copy is on the disk.
///
/// # Errors
/// If the URL names no file, if there is a database, or if the backup is none or is damaged; then nothing is changed.
pub fn restore(url: &str, from: &Path) -> Result<u64, BackupError> {
    let to = place(url)?.path;
    if !from.exists() {
        return Err(BackupError::NoFile(from.to_owned()));
    }
    for ending in ["", "-wal"] {
        let mut file = to.clone().into_os_string();
        file.push(ending);
        if Path::new(&file).exists() {
            return Err(BackupError::InPlace(to));
        }
    }
    check(from)?;
    let part = Part::make(&to)?;
    fs::copy(from, &part.path).map_err(|error| BackupError::File { path: part.path.clone(), error })?;
    part.finish(&to)
}

fn place(url: &str) -> Result<Place, BackupError> {
    if is_postgres(url) {
        return Err(BackupError::Postgres);
    }
    let place = Place::parse(url)?;
    if place.is_in_memory { Err(BackupError::InMemory) } else { Ok(place) }
}

/// Looks whether a file is a database of Fermata, and whole.
fn check(path: &Path) -> Result<(), BackupError> {
    /// The characters that have a meaning in SQLite's URIs.
    const SPECIAL: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#');
    let unusable = |reason: String| BackupError::Unusable { path: path.to_owned(), reason };
    let look = || {
        // A backup is one file, and nothing is to be made beside it.
        let uri = format!("file:{}?immutable=1", utf8_percent_encode(&path.to_string_lossy(), SPECIAL));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(uri, flags)?;
        let found: String = connection.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
        let tables = "select count(*) from sqlite_schema where name in ('chats', 'schema_floor')";
        Ok((found, connection.query_row(tables, [], |row| row.get::<_, i64>(0))?))
    };
    let (found, tables) = look().map_err(|error: rusqlite::Error| unusable(error.to_string()))?;
    if found != "ok" {
        return Err(unusable(found));
    }
    if tables == 2 { Ok(()) } else { Err(unusable("it is no database of Fermata".into())) }
}

/// A file that is being written, and is removed unless it is finished.
struct Part {
    path: PathBuf,
}

// === impl Part ===

impl Part {
    /// Makes the file beside its target, readable by its owner only.
    fn make(target: &Path) -> Result<Self, BackupError> {
        let mut path = target.to_owned().into_os_string();
        path.push(".part");
        let path = PathBuf::from(path);
        let made = OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE).open(&path);
        match made {
            Ok(_) => Ok(Self { path }),
            Err(error) => Err(BackupError::File { path, error }),
        }
    }

    fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Waits until the file is on the disk, and gives it its name. Returns the number of its bytes.
    fn finish(self, target: &Path) -> Result<u64, BackupError> {
        let finished = || {
            let file = File::open(&self.path)?;
            file.sync_all()?;
            // Unlike a rename, this fails if somebody else has made a file of that name.
            fs::hard_link(&self.path, target)?;
            let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
            Ok(file.metadata()?.len())
        };
        finished().map_err(|error| BackupError::File { path: target.to_owned(), error })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // If it is there all the same, the next attempt begins with it.
        let _ = fs::remove_file(&self.path);
    }
}
