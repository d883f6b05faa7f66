//! The connection that writes to a SQLite file, and the thread that owns it.
//!
//! All work that waits when a transaction begins is done in that transaction, one after the other, so the disk is synchronised once for all of
//! it. If some of it fails, which is rare, the transaction is undone, and all is done again, with a savepoint for each: for a savepoint, SQLite
//! copies each page that is changed after it.
//!
//! The thread does commits to chats itself: each is handed over as a whole, so it costs two switches of threads, however many statements it
//! has. For everything else the connection is lent.
//!
//! Invariants: work that fails undoes only itself; no caller learns that work is done or failed before the transaction is committed;
//! a connection whose transaction itself has failed is not used again, because SQLite may have ended it.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use backon::{ExponentialBuilder, Retryable};
use fermata_engine::store::StoreError;
use tokio::sync::{mpsc, oneshot};

use crate::{
    connection::{SqliteConnection, Turn},
    error::{Fault, failed_in_sqlite},
};

/// The most pieces of work in one transaction. The first of them waits for the last.
const GROUP: usize = 64;
/// The pieces of work that the queue holds. The sender of the next one waits for a place.
const QUEUE: usize = 1024;
/// The time that work waits for its turn.
const PATIENCE: Duration = Duration::from_secs(15);
/// The time before the first new attempt at work that was undone because of other work.
const PAUSE: Duration = Duration::from_millis(5);
/// The number of new attempts.
const ATTEMPTS: usize = 4;

/// Hands work to the thread that writes. Clones share it; when the last of them is gone, or when it is closed, the thread ends.
#[derive(Clone, Debug)]
pub struct Writer {
    // Held for a copy or a change. `None` once it is closed.
    thread: Arc<Mutex<Option<WriterThread>>>,
}

#[derive(Debug)]
struct WriterThread {
    queue: mpsc::Sender<Work>,
    /// Fails when the thread has ended.
    ended: oneshot::Receiver<()>,
}

/// Work that the thread does itself, with everything that it needs.
type OwnedWork = Box<dyn Fn(&mut SqliteConnection) -> Done + Send>;

/// The outcome of work, or of its transaction. It says why it could not be done.
type Done = Result<(), Fault>;

/// Work that waits for its turn.
struct Work {
    job: Job,
    /// Set by the first of two: the thread when it begins the work, or its sender when that gives up.
    is_decided: Arc<AtomicBool>,
    /// Resolves when the transaction is committed, even for work that was not kept, because its reads may have been undone.
    outcome: oneshot::Sender<Done>,
}

enum Job {
    /// Work that the thread does.
    Owned(OwnedWork),
    /// Work that its sender does with the connection, which it is lent.
    Lent {
        turn: oneshot::Sender<Turn>,
        /// Receives `true` if what the work has written is to be kept. If nothing is sent, the work is undone.
        is_kept: oneshot::Receiver<bool>,
    },
}

/// The work of the transaction that is under way.
#[derive(Default)]
struct Group {
    members: Vec<Member>,
    /// The index of the member that was begun last.
    at_work: usize,
}

struct Member {
    outcome: oneshot::Sender<Done>,
    done: Done,
    /// `None` if the connection was lent for it.
    work: Option<OwnedWork>,
}

// === impl Writer ===

impl Writer {
    /// Takes a connection over, and opens another one with `connect` whenever it can no longer be used.
    ///
    /// # Errors
    /// If there can be no further thread.
    pub fn new(
        connection: SqliteConnection,
        connect: impl Fn() -> rusqlite::Result<SqliteConnection> + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, work) = mpsc::channel(QUEUE);
        let (end, ended) = oneshot::channel();
        let serve = move || {
            serve(work, connection, connect);
            drop::<oneshot::Sender<()>>(end);
        };
        thread::Builder::new().name("sqlite-writer".into()).spawn(serve)?;
        Ok(Self { thread: Arc::new(Mutex::new(Some(WriterThread { queue, ended }))) })
    }

    /// Has the thread do the work in a transaction, which it may share with other work. If it was undone because of other work, it is done
    /// again.
    ///
    /// # Errors
    /// Returns [`StoreError::Unclear`] if the transaction may be on the disk although it failed.
    pub async fn commit(
        &self,
        work: impl Fn(&mut SqliteConnection) -> Done + Send + Sync + 'static,
    ) -> Result<(), StoreError> {
        let work = Arc::new(work);
        let attempt = || {
            let work = work.clone();
            self.attempt(Job::Owned(Box::new(move |connection| work(connection))))
        };
        Ok(attempt.retry(pauses()).when(is_collision).await?)
    }

    /// Does the work in a transaction, as [`Writer::commit`], but where it is, with the connection lent to it. Its statements block the thread.
    ///
    /// # Errors
    /// As for [`Writer::commit`].
    pub async fn transact<T, W>(&self, work: impl Fn(Turn) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        Ok((|| self.attempt_lent(&work)).retry(pauses()).when(is_collision).await?)
    }

    async fn attempt_lent<T, W>(&self, work: &impl Fn(Turn) -> W) -> Result<T, Fault>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        let (turn, granted) = oneshot::channel();
        let (keep, is_kept) = oneshot::channel();
        let working = async {
            // If it is never granted, the outcome holds the reason.
            let done = work(granted.await.ok()?).await;
            // If nobody listens, nobody tells the outcome either.
            let _ = keep.send(done.is_ok());
            Some(done)
        };
        let mut attempt = pin!(self.attempt(Job::Lent { turn, is_kept }));
        tokio::select! {
            biased;
            // The work has not begun, or it could not have an outcome yet.
            refused = &mut attempt => Err(refused.err().unwrap_or_else(closed)),
            done = working => match (attempt.await, done) {
                (Ok(()), Some(done)) => done,
                (Ok(()), None) => Err(closed()),
                (Err(fault), _) => Err(fault),
            },
        }
    }

    /// Hands work over, and waits until its transaction is committed.
    async fn attempt(&self, job: Job) -> Done {
        let queue = self.lock().as_ref().map(|thread| thread.queue.clone());
        let queue = queue.ok_or_else(closed)?;
        let (outcome, mut told) = oneshot::channel();
        let is_decided = Arc::new(AtomicBool::new(false));
        let work = Work { job, is_decided: is_decided.clone(), outcome };
        let handed_over = async {
            queue.send(work).await.map_err(|_| closed())?;
            (&mut told).await.map_err(|_| vanished())?
        };
        match tokio::time::timeout(PATIENCE, handed_over).await {
            Ok(outcome) => outcome,
            Err(_) if is_decided.swap(true, Ordering::AcqRel) => told.await.map_err(|_| vanished())?,
            Err(_) => Err(late()),
        }
    }

    /// Waits for the work that has its turn or waits for it, and closes the connection.
    pub async fn close(&self) {
        let thread = self.lock().take();
        if let Some(WriterThread { queue, ended }) = thread {
            drop(queue);
            let _ = ended.await;
        }
    }

    /// The number of pieces of work that wait for their turn.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.lock().as_ref().map_or(0, |thread| thread.queue.max_capacity() - thread.queue.capacity())
    }

    fn lock(&self) -> MutexGuard<'_, Option<WriterThread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pauses() -> ExponentialBuilder {
    ExponentialBuilder::new().with_min_delay(PAUSE).with_max_times(ATTEMPTS).with_jitter()
}

fn is_collision(fault: &Fault) -> bool {
    matches!(fault, Fault::Collided(_))
}

fn closed() -> Fault {
    StoreError::Unavailable("the database is closed".into()).into()
}

fn late() -> Fault {
    StoreError::Unavailable(format!("no turn to write within {} s", PATIENCE.as_secs())).into()
}

fn vanished() -> Fault {
    StoreError::Unclear("the connection that writes was closed".into()).into()
}

// === the thread ===

/// Does the work that comes, until nobody can send any.
fn serve(
    mut queue: mpsc::Receiver<Work>,
    connection: SqliteConnection,
    connect: impl Fn() -> rusqlite::Result<SqliteConnection>,
) {
    let mut usable = Some(connection);
    while let Some(first) = queue.blocking_recv() {
        match begin(usable.take().map_or_else(&connect, Ok)) {
            Ok(connection) => usable = do_group(connection, first, &mut queue),
            Err(fault) => {
                // Work that waits already would wait as long once more, for the same reason.
                let mut refused = Some(first);
                while let Some(Work { job, outcome, .. }) = refused {
                    // The outcome stands before the turn is refused.
                    let _ = outcome.send(Err(fault.clone()));
                    drop(job);
                    refused = queue.try_recv().ok();
                }
            }
        }
    }
}

/// Begins a transaction on the connection, if it could be opened. It takes the lock at once, because one that begins by reading could not
/// become a writing one while another process writes.
fn begin(connection: rusqlite::Result<SqliteConnection>) -> Result<SqliteConnection, Fault> {
    let connection = connection.map_err(failed_in_sqlite)?;
    execute(&connection, "begin immediate")?;
    Ok(connection)
}

/// Does the first work and what waits behind it, commits, and tells everybody the outcome. Returns the connection if it can be used again.
fn do_group(
    connection: SqliteConnection,
    first: Work,
    queue: &mut mpsc::Receiver<Work>,
) -> Option<SqliteConnection> {
    let connection = Arc::new(tokio::sync::Mutex::new(connection));
    let mut group = Group::default();
    if let Err(fault) = do_work(&connection, first, queue, &mut group) {
        tracing::warn!("SQLite has ended a transaction by itself, so its connection is replaced");
        for (index, Member { outcome, done, .. }) in group.members.into_iter().enumerate() {
            let undone = Err(Fault::Collided(StoreError::from(fault.clone()).to_string()));
            // The one that was at work is the cause if it has failed. The reads of others were undone, so they have to look again.
            let _ = outcome.send(if index == group.at_work { done.and(undone) } else { undone });
        }
        return None;
    }
    let committed = execute(&connection.blocking_lock(), "commit").map_err(|fault| match fault {
        Fault::NotWritten(_) => fault,
        // A commit that could not be made durable may be on the disk all the same.
        fault => StoreError::Unclear(StoreError::from(fault).to_string()).into(),
    });
    for Member { outcome, done, .. } in group.members {
        let _ = outcome.send(committed.clone().and(done));
    }
    committed.ok().and_then(|()| Arc::into_inner(connection)).map(tokio::sync::Mutex::into_inner)
}

/// Does the first work and what waits behind it.
///
/// # Errors
/// Fails if the transaction has.
fn do_work(
    connection: &Arc<tokio::sync::Mutex<SqliteConnection>>,
    first: Work,
    queue: &mut mpsc::Receiver<Work>,
    group: &mut Group,
) -> Result<(), Fault> {
    let mut in_turn = Arc::clone(connection).blocking_lock_owned();
    // Until one fails that can be done again with all others.
    let mut has_savepoints = false;
    let mut next = Some(first);
    while let Some(Work { job, is_decided, outcome }) = next {
        if !outcome.is_closed() && !is_decided.swap(true, Ordering::AcqRel) {
            // If work fails that was lent the connection, its sender knows why.
            let mut member = Member { outcome, done: Ok(()), work: None };
            group.at_work = group.members.len();
            match job {
                Job::Owned(work) if has_savepoints => {
                    member.work = Some(work);
                    let done = do_in_savepoint(&mut in_turn, &mut member);
                    group.members.push(member);
                    done?;
                }
                Job::Owned(work) => {
                    member.done = run(&work, &mut in_turn);
                    let has_failed = member.done.is_err();
                    member.work = Some(work);
                    group.members.push(member);
                    if has_failed {
                        has_savepoints = true;
                        execute(&in_turn, "rollback")?;
                        in_turn.forget_head();
                        execute(&in_turn, "begin immediate")?;
                        for (index, member) in group.members.iter_mut().enumerate() {
                            group.at_work = index;
                            do_in_savepoint(&mut in_turn, member)?;
                        }
                    }
                }
                Job::Lent { turn, is_kept } => {
                    // Only its sender could do it again.
                    has_savepoints = true;
                    group.members.push(member);
                    execute(&in_turn, "savepoint work")?;
                    // If nobody waits for it any longer, it is back at once.
                    drop(turn.send(in_turn));
                    in_turn = Arc::clone(connection).blocking_lock_owned();
                    let is_kept = is_kept.blocking_recv().unwrap_or(false);
                    if let Err(fault) = end_savepoint(&mut in_turn, is_kept) {
                        // Its own error is the cause.
                        if let Some(Member { outcome, .. }) = group.members.pop_if(|_| !is_kept) {
                            let _ = outcome.send(Ok(()));
                        }
                        return Err(fault);
                    }
                }
            }
        }
        next = if group.members.len() < GROUP { next_work(queue) } else { None };
    }
    Ok(())
}

/// Does work such that it undoes only itself if it fails.
///
/// # Errors
/// Fails if the transaction has.
fn do_in_savepoint(connection: &mut SqliteConnection, member: &mut Member) -> Result<(), Fault> {
    let Some(work) = &member.work else { return Ok(()) };
    execute(connection, "savepoint work")?;
    member.done = run(work, connection);
    end_savepoint(connection, member.done.is_ok())
}

fn run(work: &OwnedWork, connection: &mut SqliteConnection) -> Done {
    catch_unwind(AssertUnwindSafe(|| work(connection))).unwrap_or_else(|_| Err(panicked()))
}

fn end_savepoint(connection: &mut SqliteConnection, is_kept: bool) -> Done {
    if !is_kept {
        connection.forget_head();
    }
    execute(connection, if is_kept { "release work" } else { "rollback to work" })
}

/// Returns the next work that waits. If none does, a task about to send some on this core goes first: one synchronisation with the disk
/// costs more than all the work that it may serve.
fn next_work(queue: &mut mpsc::Receiver<Work>) -> Option<Work> {
    queue.try_recv().ok().or_else(|| {
        thread::yield_now();
        queue.try_recv().ok()
    })
}

fn panicked() -> Fault {
    StoreError::Unavailable("a change to the database has panicked, and was undone".into()).into()
}

fn execute(connection: &SqliteConnection, statement: &'static str) -> Done {
    connection
        .prepare_cached(statement)
        .and_then(|mut statement| statement.execute([]))
        .map_err(failed_in_sqlite)?;
    Ok(())
}
