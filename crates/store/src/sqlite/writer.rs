//! The connection that writes to a SQLite file, and the task that owns it.
//!
//! All work that waits when a transaction begins is done in that transaction, one after the other, so the disk is synchronised once for all of
//! it. Each piece of work has a savepoint. Each statement of ours costs two switches of threads, because sqlx has a thread for the connection,
//! so those that follow one another are sent as one.
//!
//! Invariants: work that fails undoes only itself; nobody is told that work is done, or that it failed, before the transaction is committed;
//! a connection on which the transaction itself has failed is not used again, because SQLite may have ended it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use backon::{ExponentialBuilder, Retryable};
use fermata_engine::store::StoreError;
use sqlx::{ConnectOptions, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::{
    connection::Turn,
    error::{Fault, failed},
};

/// The most pieces of work in one transaction. The first of them waits for the last.
const GROUP: usize = 64;
/// The pieces of work that wait before whoever comes next has to wait for a place in the queue.
const QUEUE: usize = 1024;
/// The time that work waits for its turn.
const PATIENCE: Duration = Duration::from_secs(15);
/// The time before the first new attempt at work that was undone because of other work.
const PAUSE: Duration = Duration::from_millis(5);
/// The number of new attempts.
const ATTEMPTS: usize = 4;

/// Hands out the connection that writes. Clones share it; when the last of them is gone, or when it is closed, so is the connection.
#[derive(Clone, Debug)]
pub struct Writer {
    // Held for a copy or a change. `None` once it is closed.
    task: Arc<Mutex<Option<Task>>>,
}

#[derive(Debug)]
struct Task {
    queue: mpsc::Sender<Work>,
    end: JoinHandle<()>,
}

/// Work that waits for its turn.
struct Work {
    turn: oneshot::Sender<Turn>,
    /// Receives `true` if what the work has written is to be kept. If nothing is sent, the work is undone.
    is_kept: oneshot::Receiver<bool>,
    /// Is told whether the transaction was committed. Work that was not kept is told, too, because what it has read may have been undone.
    outcome: oneshot::Sender<Result<(), Fault>>,
}

// === impl Writer ===

impl Writer {
    /// Takes a connection over, and opens another one with the same options if it can no longer be used.
    pub fn new(connection: SqliteConnection, options: SqliteConnectOptions) -> Self {
        let (queue, work) = mpsc::channel(QUEUE);
        let end = tokio::spawn(serve(work, connection, options));
        Self { task: Arc::new(Mutex::new(Some(Task { queue, end }))) }
    }

    /// Does the work in a transaction, which it may share with other work. If it was undone because of other work, it is done again.
    ///
    /// # Errors
    /// Returns [`StoreError::Unclear`] if the transaction may be on the disk although it failed.
    pub async fn transact<T, W>(&self, work: impl Fn(Turn) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        let pauses = ExponentialBuilder::new().with_min_delay(PAUSE).with_max_times(ATTEMPTS).with_jitter();
        let attempt = || self.attempt(&work);
        Ok(attempt.retry(pauses).when(|fault| matches!(fault, Fault::Collided(_))).await?)
    }

    async fn attempt<T, W>(&self, work: &impl Fn(Turn) -> W) -> Result<T, Fault>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        let queue = self.lock().as_ref().map(|task| task.queue.clone());
        let queue = queue.ok_or_else(closed)?;
        let (turn, mut granted) = oneshot::channel();
        let (keep, is_kept) = oneshot::channel();
        let (outcome, mut told) = oneshot::channel();
        let granting = async {
            queue.send(Work { turn, is_kept, outcome }).await.map_err(|_| closed())?;
            match (&mut granted).await {
                Ok(turn) => Ok(turn),
                // No transaction has begun, and the reason was told.
                Err(_) => {
                    Err((&mut told).await.unwrap_or_else(|_| Err(closed())).err().unwrap_or_else(closed))
                }
            }
        };
        let turn = tokio::time::timeout(PATIENCE, granting).await.unwrap_or_else(|_| Err(late()))?;
        let done = work(turn).await;
        let is_kept = done.is_ok();
        // If nobody listens, nobody tells the outcome either.
        let _ = keep.send(is_kept);
        match told.await {
            Ok(Ok(())) => done,
            Ok(Err(fault)) => Err(fault),
            Err(_) if is_kept => {
                Err(StoreError::Unclear("the connection that writes was closed".into()).into())
            }
            Err(_) => done,
        }
    }

    /// Waits for the work that has its turn or waits for it, and closes the connection.
    pub async fn close(&self) {
        let task = self.lock().take();
        if let Some(Task { queue, end }) = task {
            drop(queue);
            // It fails only if the runtime ends, and then the connection is closed as well.
            let _ = end.await;
        }
    }

    /// The number of pieces of work that wait for their turn.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.lock().as_ref().map_or(0, |task| task.queue.max_capacity() - task.queue.capacity())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Task>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> Fault {
    StoreError::Unavailable("the database is closed".into()).into()
}

fn late() -> Fault {
    StoreError::Unavailable(format!("no turn to write within {} s", PATIENCE.as_secs())).into()
}

/// Does the work that comes, until nobody can send any.
async fn serve(mut queue: mpsc::Receiver<Work>, connection: SqliteConnection, options: SqliteConnectOptions) {
    let mut usable = Some(connection);
    while let Some(first) = queue.recv().await {
        match begin(usable.take(), &options).await {
            Ok(connection) => usable = do_group(connection, first, &mut queue).await,
            Err(fault) => {
                // Whoever waits already would wait as long once more, for the same reason.
                let mut refused = Some(first);
                while let Some(work) = refused {
                    // The outcome stands before the turn is refused.
                    let _ = work.outcome.send(Err(fault.clone()));
                    drop(work.turn);
                    refused = queue.try_recv().ok();
                }
            }
        }
    }
    if let Some(connection) = usable {
        // The file is left as it is if this fails, and is read when it is opened again.
        let _ = connection.close().await;
    }
}

/// Begins a transaction on the connection, or on a new one, with a savepoint for the first work. It takes the lock at once, because one that
/// begins by reading could not become a writing one while another process writes.
async fn begin(
    usable: Option<SqliteConnection>,
    options: &SqliteConnectOptions,
) -> Result<SqliteConnection, Fault> {
    let mut connection = match usable {
        Some(connection) => connection,
        None => options.connect().await.map_err(failed)?,
    };
    execute(&mut connection, "begin immediate; savepoint work").await?;
    Ok(connection)
}

/// Does the first work and what waits behind it, commits, and tells everybody the outcome. Returns the connection if it can be used again.
async fn do_group(
    connection: SqliteConnection,
    first: Work,
    queue: &mut mpsc::Receiver<Work>,
) -> Option<SqliteConnection> {
    let connection = Arc::new(tokio::sync::Mutex::new(connection));
    let mut in_turn = Arc::clone(&connection).lock_owned().await;
    let mut outcomes = Vec::new();
    let mut next = Some(first);
    let committed = loop {
        let Some(Work { turn, is_kept, outcome }) = next else {
            break execute(&mut in_turn, "release work; commit").await;
        };
        // If nobody waits for it any longer, it is back at once.
        drop(turn.send(in_turn));
        in_turn = Arc::clone(&connection).lock_owned().await;
        let is_kept = is_kept.await.unwrap_or(false);
        next = if outcomes.len() + 1 < GROUP { queue.try_recv().ok() } else { None };
        let prepared = match (is_kept, &next) {
            // The savepoint stays, for the next work.
            (false, _) => execute(&mut in_turn, "rollback to work").await,
            (true, Some(_)) => execute(&mut in_turn, "release work; savepoint work").await,
            (true, None) => Ok(()),
        };
        if let Err(fault) = prepared {
            if is_kept {
                outcomes.push(outcome);
            } else {
                // It knows its own error, which is the cause.
                let _ = outcome.send(Ok(()));
            }
            outcomes.extend(next.map(|work| work.outcome));
            return undo(outcomes, &fault);
        }
        outcomes.push(outcome);
    };
    let committed = committed.map_err(|fault| match fault {
        Fault::NotWritten(_) => fault,
        // A commit that could not be made durable may be on the disk all the same.
        fault => StoreError::Unclear(StoreError::from(fault).to_string()).into(),
    });
    drop(in_turn);
    for outcome in outcomes {
        let _ = outcome.send(committed.clone());
    }
    committed.ok().and_then(|()| Arc::into_inner(connection)).map(tokio::sync::Mutex::into_inner)
}

/// Tells that the transaction was undone for no fault of this work, and returns no connection.
fn undo(outcomes: Vec<oneshot::Sender<Result<(), Fault>>>, fault: &Fault) -> Option<SqliteConnection> {
    tracing::warn!("SQLite has ended a transaction by itself, so its connection is replaced");
    for outcome in outcomes {
        let _ = outcome.send(Err(Fault::Collided(StoreError::from(fault.clone()).to_string())));
    }
    None
}

async fn execute(connection: &mut SqliteConnection, statement: &'static str) -> Result<(), Fault> {
    sqlx::query(statement).execute(connection).await.map_err(failed)?;
    Ok(())
}
