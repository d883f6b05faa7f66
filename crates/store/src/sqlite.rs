//! A SQLite file: its connections, and how queries run on them.
//!
//! Statements run on the thread that asks, because a change of threads takes longer than most of them. Large reads and writes run on a
//! thread for that, so that nobody waits for it on a runtime of one thread.
//!
//! Invariants: all writes go through one connection, whose thread commits them; a file has one server: an instance that joins takes the place
//! of all others.

use std::{
    panic::resume_unwind,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fermata_engine::store::{InstanceId, Joined, Renewed, StoreError};
use futures::FutureExt;
use tokio::task::spawn_blocking;

use crate::{
    connection::{Connection, SqliteConnection, Turn, readers::Readers},
    error::{Fault, conflict, failed_in_sqlite},
    queries::{clock_marks, instances},
    text::text,
};
use remains::Sweep;
use writer::Writer;

pub mod backup;
pub mod lock;
pub mod open;
mod remains;
pub mod writer;

/// The store counts as unusable for this long after a failed write.
const DISTRUST: Duration = Duration::from_secs(10);

/// The process counts as broken if nothing could be written for this long.
const BROKEN: Duration = Duration::from_secs(120);

/// The delay between a write and the emptying of the write-ahead log, so that deleted data is not in it for long.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);

/// The number of attempts to empty the log after a deletion, and the pause after each that meets a reader.
const READER_CHECKS: usize = 5;
const READER_PAUSE: Duration = Duration::from_millis(30);

/// An open SQLite database. Clones share its connections.
#[derive(Clone)]
pub struct SqliteDatabase {
    /// The connection that writes.
    pub writer: Writer,
    /// The connections that read. A database in memory has none: its readers wait for the writer.
    pub readers: Option<Readers>,
    /// A connection beside the others. A database in memory lives as long as it has a connection, and the writer's may be replaced. In a
    /// file this one empties the write-ahead log. Held while it does that; `None` once it is closed.
    aside: Arc<Mutex<Option<rusqlite::Connection>>>,
    /// The failure of the last write, unless one has worked since: the disk may be full. The lock is held for a copy or a change.
    failure: Arc<Mutex<Option<WriteFailure>>>,
    /// The time when the write-ahead log is to be emptied: it holds what was deleted. Held for a copy or a change.
    checkpoint_at: Arc<Mutex<Option<Instant>>>,
    /// The pages that may still hold remains of a deleted row. Held for a copy or a change.
    sweep: Arc<Mutex<Sweep>>,
}

/// Writes that have failed one after the other.
#[derive(Clone, Debug)]
struct WriteFailure {
    first: Instant,
    last: Instant,
    reason: String,
}

// === impl SqliteDatabase ===

impl SqliteDatabase {
    /// Does work that writes, all of it or nothing, and remembers whether it could.
    pub async fn write<T, W>(&self, work: impl Fn(Turn) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        let written = self.writer.transact(work).await;
        self.note(&written);
        written
    }

    /// Makes a commit, all of it or nothing, and remembers whether it could. The work must not wait for anything but its queries.
    pub async fn commit(
        &self,
        work: impl Fn(&mut SqliteConnection) -> Result<(), Fault> + Send + Sync + 'static,
    ) -> Result<(), StoreError> {
        let written = self.writer.commit(work).await;
        self.note(&written);
        written
    }

    /// Remembers if a write has worked, for [`SqliteDatabase::check_writes`].
    fn note<T>(&self, written: &Result<T, StoreError>) {
        let mut failure = self.lock_failure();
        match written {
            Ok(_) => {
                *failure = None;
                self.lock_checkpoint().get_or_insert_with(|| Instant::now() + CHECKPOINT_INTERVAL);
            }
            Err(StoreError::Unavailable(reason) | StoreError::Unclear(reason)) => {
                let last = Instant::now();
                let first = failure.as_ref().map_or(last, |before| before.first);
                *failure = Some(WriteFailure { first, last, reason: reason.clone() });
            }
            Err(_) => {}
        }
    }

    /// Fails if the database cannot be written to, or if a write has failed shortly before.
    pub async fn check_writes(&self) -> Result<(), StoreError> {
        let failure = self.lock_failure().clone();
        match failure {
            // Taking the write lock is what fails on a disk or a file that can only be read.
            None => self.writer.transact(async |_turn| Ok(())).await,
            // There may be room for a small write where a larger one has failed just now.
            Some(failure) if failure.last.elapsed() < DISTRUST => {
                Err(StoreError::Unavailable(failure.reason))
            }
            // Only a write tells if there is room again. This one changes nothing but goes to the disk like any other.
            Some(_) => {
                self.writer
                    .transact(async |turn| {
                        turn.execute_batch("pragma user_version = 0").map_err(failed_in_sqlite)
                    })
                    .await
            }
        }
    }

    /// Fails if nothing could be written for minutes, and nothing can be now.
    pub async fn check_lasting_failure(&self) -> Result<(), StoreError> {
        let is_lasting =
            self.lock_failure().as_ref().is_some_and(|failure| failure.first.elapsed() >= BROKEN);
        if is_lasting { self.check_writes().await } else { Ok(()) }
    }

    /// Removes what was deleted from the write-ahead log: now, or with one of the next heartbeats if somebody goes on reading. What is left of
    /// it in unused parts of pages is overwritten with the next heartbeats.
    pub async fn forget_deleted(&self) {
        self.lock_sweep().restart();
        *self.lock_checkpoint() = Some(Instant::now());
        for _ in 0..READER_CHECKS {
            self.empty_log().await;
            if self.lock_checkpoint().is_none_or(|at| at > Instant::now()) {
                break;
            }
            tokio::time::sleep(READER_PAUSE).await;
        }
    }

    /// Overwrites what is left of deleted rows in the whole file, if rows were deleted since.
    pub async fn sweep(&self) {
        while self.overwrite_remains().await {}
        *self.lock_checkpoint() = Some(Instant::now());
        self.empty_log().await;
    }

    /// Overwrites what is left of deleted rows in some pages. Returns whether there are more to look at.
    async fn overwrite_remains(&self) -> bool {
        let sweep = *self.lock_sweep();
        if sweep.is_over() {
            return false;
        }
        // A database in memory leaves nothing behind.
        let Some(readers) = self.readers.clone() else { return false };
        let look = async move {
            let reader = readers.acquire().await?;
            on_another_thread(async move { sweep.look(&reader).map_err(failed_in_sqlite) }).await
        };
        let overwritten = async {
            let (found, rest) = look.await.map_err(StoreError::from)?;
            for pages in found.chunks(remains::GROUP) {
                let pages = pages.to_vec();
                self.writer
                    .commit(move |connection| {
                        remains::overwrite(connection, &pages).map_err(failed_in_sqlite)
                    })
                    .await?;
            }
            if !found.is_empty() {
                // Earlier images of these pages are in the log.
                *self.lock_checkpoint() = Some(Instant::now());
            }
            Ok::<_, StoreError>(rest)
        };
        match overwritten.await {
            Ok(rest) => {
                let mut now = self.lock_sweep();
                now.go_on(rest);
                !now.is_over()
            }
            Err(error) => {
                tracing::debug!(%error, "what is left of deleted rows could not be overwritten; it is tried again");
                false
            }
        }
    }

    fn lock_sweep(&self) -> MutexGuard<'_, Sweep> {
        self.sweep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the write-ahead log into the file and empties it, if it is time. If somebody reads just now, it stays due.
    async fn empty_log(&self) {
        if self.lock_checkpoint().is_none_or(|at| at > Instant::now()) {
            return;
        }
        let aside = self.aside.clone();
        let emptied = on_another_thread(async move {
            let aside = aside.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(connection) = &*aside else { return Ok(false) };
            connection
                .query_row("pragma wal_checkpoint(truncate)", [], |row| row.get::<_, i64>(0))
                .map(|busy| busy == 0)
                .map_err(failed_in_sqlite)
        });
        match emptied.await.map_err(StoreError::from) {
            Ok(true) => *self.lock_checkpoint() = None,
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(%error, "the write-ahead log could not be emptied; it is tried again")
            }
        }
    }

    /// Closes all connections. One that reads is closed when it is given back.
    pub async fn close(&self) {
        if let Some(readers) = &self.readers {
            readers.close();
        }
        self.writer.close().await;
        let aside = self.aside.clone();
        // The last connection removes the write-ahead log.
        let _ = spawn_blocking(move || aside.lock().unwrap_or_else(PoisonError::into_inner).take()).await;
    }

    fn lock_checkpoint(&self) -> MutexGuard<'_, Option<Instant>> {
        self.checkpoint_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_failure(&self) -> MutexGuard<'_, Option<WriteFailure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts this instance as alive, and no other.
    pub async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError> {
        self.write(async |mut turn: Turn| {
            let mut connection = Connection::Sqlite(&mut turn);
            connection
                .query("delete from instances where id <> $1")
                .bind(text(instance.as_str()))
                .execute()
                .await?;
            renew(&mut connection, instance).await?;
            let mark = clock_marks::find(&mut connection).await?;
            Ok(Joined { now: None, mark })
        })
        .await
    }

    /// Sees to it that the instance counts as alive.
    pub async fn heartbeat(&self, instance: &InstanceId) -> Result<Renewed, StoreError> {
        // Not noted: a heartbeat that finds its row writes nothing, so that it works says little.
        let renewed = self
            .writer
            .transact(async |mut turn: Turn| {
                let mut connection = Connection::Sqlite(&mut turn);
                let was_dead = renew(&mut connection, instance).await?;
                let alive = instances::alive(&mut connection).await?;
                Ok(Renewed { was_dead, has_failed_over: false, alive, now: None })
            })
            .await?;
        self.overwrite_remains().await;
        self.empty_log().await;
        Ok(renewed)
    }
}

/// Does work that waits for nothing but SQLite, on a thread for that.
pub async fn on_another_thread<T, W>(work: W) -> Result<T, Fault>
where
    T: Send + 'static,
    W: Future<Output = Result<T, Fault>> + Send + 'static,
{
    match spawn_blocking(move || work.now_or_never()).await {
        Ok(Some(done)) => done,
        Ok(None) => Err(conflict("a query waits for something else")),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(StoreError::Unavailable("the server ends".into()).into()),
        },
    }
}

/// Notes that the instance is alive; true if its row was not there.
async fn renew(connection: &mut Connection<'_>, instance: &InstanceId) -> Result<bool, Fault> {
    // A heartbeat that finds its row changes nothing: with one server nobody asks how long ago it was heard of, and a write is a
    // synchronisation with the disk.
    let added = connection
        .query(
            "insert into instances (id, joined_at)
             values ($1, cast(unixepoch('subsec') * 1000000 as integer))
             on conflict (id) do nothing",
        )
        .bind(text(instance.as_str()))
        .count()
        .await?;
    Ok(added == 1)
}

#[cfg(test)]
mod tests;
