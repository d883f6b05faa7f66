//! The lock of a server on its SQLite file, so that two servers never use one file by mistake.
//!
//! The lock is on a file beside the database, because the database is locked by SQLite itself. The system lets go of it when the process
//! ends, however it ends. Commands such as a backup do not take it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use super::open::{PRIVATE, file_of};

/// The lock. Dropping it lets the next server begin.
#[derive(Debug)]
pub struct DatabaseLock(#[expect(dead_code, reason = "it is held")] File);

/// The reason why the database cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another server uses the file.
    #[error(
        "another server uses the database {}{}; give this one a database of its own (DATABASE_URL), or share a PostgreSQL database",
        .file.display(), of_process(.process)
    )]
    Taken {
        /// The database.
        file: PathBuf,
        /// The id of the other process, if it is known.
        process: String,
    },
    /// The file of the lock cannot be used.
    #[error("cannot lock {}", file.display())]
    Failed {
        /// The file of the lock.
        file: PathBuf,
        /// The failure.
        source: io::Error,
    },
}

/// The time that a server has to end before the next one gives up, as when it is started again.
const PATIENCE: Duration = Duration::from_secs(5);
/// The interval between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

fn of_process(id: &str) -> String {
    if id.is_empty() { String::new() } else { format!(" (process {id})") }
}

/// Locks the database of this URL for a server, as soon as another one has let go of it. Returns `None` if it is not a SQLite file. It may
/// block for seconds.
///
/// # Errors
/// Returns an error if another server uses the file.
pub fn lock(url: &str) -> Result<Option<DatabaseLock>, LockError> {
    let Some(database) = file_of(url) else { return Ok(None) };
    let mut name = database.clone().into_os_string();
    name.push("-lock");
    let path = PathBuf::from(name);
    // Where no file can be made, the database cannot be opened either, and its error says more.
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(PRIVATE).open(&path);
    let Ok(mut file) = opened else { return Ok(None) };
    let deadline = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                // Without the number the error is still clear.
                let _ = file.read_to_string(&mut process);
                return Err(LockError::Taken { file: database, process: process.trim().to_owned() });
            }
            // A file system without locks, such as some network mounts.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(LockError::Failed { file: path, source: error }),
        }
    }
    // The number is for the error of another server. On a full disk it is missing there.
    let _ =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(Some(DatabaseLock(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_for_one_server_at_a_time_and_memory_is_not_locked() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/chats.db", folder.path().display());
        let held = lock(&url).unwrap().expect("a lock");
        let refused = lock(&url).unwrap_err().to_string();
        assert!(
            refused.contains("chats.db") && refused.contains(&format!("(process {})", std::process::id())),
            "{refused}"
        );
        drop(held);
        assert!(lock(&url).unwrap().is_some());
        assert!(lock("sqlite::memory:").unwrap().is_none());
        assert!(lock("postgres://u@h/d").unwrap().is_none());
    }
}
