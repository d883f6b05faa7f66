//! A SQLite file: its connections, and how queries run on them.
//!
//! Statements run with rusqlite, on the thread that asks: sqlx would change threads twice for each statement, because its connections have
//! threads of their own.
//!
//! Invariants: all writes go through one connection, whose thread commits them; a file has one server: an instance that joins takes the place
//! of all others.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fermata_engine::store::{InstanceId, Joined, Renewed, StoreError};
use sqlx::SqlitePool;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

use crate::{
    connection::{Connection, Turn, readers::Readers},
    error::{Fault, failed_in_sqlite},
    migrations::{SQLITE, newest},
    queries::{clock_marks, instances},
    text::text,
};
use writer::Writer;

pub mod backup;
pub mod open;
pub mod writer;

/// The time for which a failed write is reason enough to say that the store cannot be used.
const DISTRUST: Duration = Duration::from_secs(10);

/// The time for which nothing could be written after which the process is said to be broken.
const BROKEN: Duration = Duration::from_secs(120);

/// The time after a write at which the write-ahead log is emptied, so that what was deleted is not in it for long.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);

/// The number of attempts to empty the log after a deletion, and the pause after each in which somebody reads.
const READER_CHECKS: usize = 5;
const READER_PAUSE: Duration = Duration::from_millis(30);

/// An open SQLite database. Clones share its connections.
#[derive(Clone)]
pub struct SqliteDatabase {
    /// The connection that writes.
    pub writer: Writer,
    /// The connections that read. A database in memory has none: whoever reads waits for the writer.
    pub readers: Option<Readers>,
    /// A connection beside the others. A database in memory lives as long as it has a connection, and the writer's may be replaced. In a
    /// file this one empties the write-ahead log.
    pub aside: SqlitePool,
    /// The failure of the last write, unless one has worked since: the disk may be full. The lock is held for a copy or a change.
    failure: Arc<Mutex<Option<WriteFailure>>>,
    /// The time at which the write-ahead log is to be emptied: it holds what was deleted. Held for a copy or a change.
    checkpoint_at: Arc<Mutex<Option<Instant>>>,
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
        work: impl Fn(&mut rusqlite::Connection) -> Result<(), Fault> + Send + Sync + 'static,
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
                let probe = async |turn: Turn| {
                    turn.execute_batch("pragma user_version = 0").map_err(failed_in_sqlite)
                };
                self.writer.transact(probe).await
            }
        }
    }

    /// Fails if nothing could be written for minutes, and nothing can be now.
    pub async fn check_lasting_failure(&self) -> Result<(), StoreError> {
        let is_lasting =
            self.lock_failure().as_ref().is_some_and(|failure| failure.first.elapsed() >= BROKEN);
        if is_lasting { self.check_writes().await } else { Ok(()) }
    }

    /// Removes what was deleted from the write-ahead log: now, or with one of the next heartbeats if somebody goes on reading.
    pub async fn forget_deleted(&self) {
        *self.lock_checkpoint() = Some(Instant::now());
        for _ in 0..READER_CHECKS {
            self.empty_log().await;
            if self.lock_checkpoint().is_none_or(|at| at > Instant::now()) {
                break;
            }
            tokio::time::sleep(READER_PAUSE).await;
        }
    }

    /// Moves the write-ahead log into the file and empties it, if it is time. If somebody reads just now, it stays due.
    async fn empty_log(&self) {
        if self.lock_checkpoint().is_none_or(|at| at > Instant::now()) {
            return;
        }
        let checkpoint = sqlx::query_as::<_, (i64, i64, i64)>("pragma wal_checkpoint(truncate)");
        match checkpoint.fetch_one(&self.aside).await {
            Ok((0, _, _)) => *self.lock_checkpoint() = None,
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "the write-ahead log could not be emptied; it is tried again")
            }
        }
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
        self.empty_log().await;
        Ok(renewed)
    }
}

/// Does work that blocks the thread. On a runtime of several threads the others take over what else this one has to do.
pub async fn blocking<W: Future>(work: W) -> W::Output {
    let runtime = Handle::current();
    match runtime.runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(|| runtime.block_on(work)),
        _ => work.await,
    }
}

/// Notes that the instance is alive; true if its row was not there.
async fn renew(connection: &mut Connection<'_>, instance: &InstanceId) -> Result<bool, Fault> {
    // A heartbeat that finds its row changes nothing: with one server nobody asks how long ago it was heard of, and a write is a
    // synchronisation with the disk.
    let added = connection
        .query(
            "insert into instances (id, joined_at, knows)
             values ($1, cast(unixepoch('subsec') * 1000000 as integer), $2)
             on conflict (id) do nothing",
        )
        .bind(text(instance.as_str()))
        .bind(newest(&SQLITE))
        .count()
        .await?;
    Ok(added == 1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use fermata_engine::store::{Change, ChatStore, Version};
    use fermata_protocol::{ChatId, MessageId, RunId, UiMessage};
    use fermata_tools::Owner;
    use jiff::Timestamp;

    use super::*;
    use crate::{SqlStore, backend::Backend, queries::changes};

    async fn opened(url: &str) -> (SqliteDatabase, SqlStore) {
        let database = open::open(url, true).await.unwrap();
        (database.clone(), SqlStore { backend: Backend::Sqlite(database) })
    }

    async fn in_memory() -> (SqliteDatabase, SqlStore, ChatId) {
        let (database, store) = opened("sqlite::memory:").await;
        let chat = ChatId::new("a");
        begin(&store, &chat).await;
        (database, store, chat)
    }

    /// A chat with an open run.
    async fn begin(store: &SqlStore, chat: &ChatId) {
        let create = Change::CreateChat { owner: Owner::anyone(), profile: fermata_protocol::Profile::V6 };
        let open = Change::OpenRun {
            run: RunId::new("r"),
            message: MessageId::new("m"),
            owner: InstanceId::new("i"),
        };
        store
            .commit(chat, Version::NONE, Version(1), Timestamp::UNIX_EPOCH, [create, open].into())
            .await
            .unwrap();
    }

    fn append(first: u64, chunk: String) -> Arc<[Change]> {
        [Change::AppendChunks { run: RunId::new("r"), first, chunks: vec![chunk] }].into()
    }

    async fn set(database: &SqliteDatabase, pragma: &'static str) {
        let run = async |turn: Turn| turn.execute_batch(pragma).map_err(failed_in_sqlite);
        database.writer.transact(run).await.unwrap();
    }

    #[tokio::test]
    async fn a_full_database_is_unavailable_and_goes_on_when_there_is_room() {
        let (database, store, chat) = in_memory().await;
        set(&database, "pragma max_page_count = 1").await;
        let full = store
            .commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, append(1, "x".repeat(1_000_000)))
            .await;
        assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
        set(&database, "pragma max_page_count = 1000000").await;
        store
            .commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, append(1, "x".into()))
            .await
            .unwrap();
    }

    /// Changes for which SQLite, if there is no room, ends the whole transaction by itself.
    fn say(words: String) -> Arc<[Change]> {
        [Change::PutMessage(Box::new(UiMessage {
            id: MessageId::new(format!("m{}", words.len())),
            role: fermata_protocol::Role::User,
            metadata: None,
            created_at: None,
            parts: vec![fermata_protocol::UiPart::Text {
                text: words,
                streaming: None,
                provider_metadata: None,
                extra: serde_json::Map::new(),
            }],
        }))]
        .into()
    }

    #[tokio::test]
    async fn who_could_write_nothing_for_minutes_is_not_healthy_until_it_can() {
        let (database, store, chat) = in_memory().await;
        set(&database, "pragma max_page_count = 1").await;
        let full = store
            .commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, say("x".repeat(1_000_000)))
            .await;
        assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
        store.healthy().await.unwrap();
        let long_ago = Instant::now().checked_sub(BROKEN).unwrap();
        database.lock_failure().as_mut().unwrap().first = long_ago;
        assert!(store.healthy().await.is_err());
        set(&database, "pragma max_page_count = 1000000").await;
        database.lock_failure().as_mut().unwrap().last = long_ago;
        store.healthy().await.unwrap();
    }

    async fn fills_up_and_goes_on(database: &SqliteDatabase, store: &SqlStore, chat: &ChatId) {
        for attempt in 1..=3 {
            set(database, "pragma max_page_count = 1").await;
            let full = store
                .commit(
                    chat,
                    Version(1),
                    Version(2),
                    Timestamp::UNIX_EPOCH,
                    say("x".repeat(1_000_000 * attempt)),
                )
                .await;
            assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
            assert!(store.ready().await.is_err(), "it says that it cannot write");
        }
        set(database, "pragma max_page_count = 1000000").await;
        store.commit(chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, say("x".into())).await.unwrap();
        assert_eq!(store.messages(chat).await.unwrap().len(), 1, "what failed has left nothing");
        store.ready().await.unwrap();
    }

    #[tokio::test]
    async fn a_transaction_that_sqlite_has_ended_by_itself_leaves_a_writer_that_works() {
        let (database, store, chat) = in_memory().await;
        fills_up_and_goes_on(&database, &store, &chat).await;
        let file = std::env::temp_dir().join(format!("fermata-full-{}.db", uuid::Uuid::new_v4()));
        let (database, store) = opened(&format!("sqlite://{}", file.display())).await;
        begin(&store, &chat).await;
        fills_up_and_goes_on(&database, &store, &chat).await;
        store.delete(&chat, Version(2)).await.unwrap();
        store.close().await;
        std::fs::remove_file(file).unwrap();
    }

    #[tokio::test]
    async fn a_commit_that_is_given_up_halfway_leaves_nothing_and_blocks_nobody() {
        let (database, store, chat) = in_memory().await;
        let (wrote, has_written) = tokio::sync::oneshot::channel();
        let wrote = Mutex::new(Some(wrote));
        let never_ends = database.write(async |mut turn: Turn| {
            let mut connection = Connection::Sqlite(&mut turn);
            let x = append(1, "x".into());
            changes::make(&mut connection, &chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, &x).await?;
            wrote.lock().unwrap().take().unwrap().send(()).unwrap();
            std::future::pending::<Result<(), Fault>>().await
        });
        tokio::select! {
            _ = never_ends => unreachable!(),
            written = has_written => written.unwrap(),
        }
        store
            .commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, append(1, "y".into()))
            .await
            .unwrap();
        assert_eq!(store.chat(&chat).await.unwrap().unwrap().open_run.unwrap().texts(), ["y"]);
    }

    /// Begins work that has its turn until it is told to end, so that what comes meanwhile waits.
    async fn hold(
        database: &SqliteDatabase,
    ) -> (tokio::sync::oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
        let (end, ended) = tokio::sync::oneshot::channel();
        let (began, has_begun) = tokio::sync::oneshot::channel();
        let (ended, began) = (Mutex::new(Some(ended)), Mutex::new(Some(began)));
        let database = database.clone();
        let holding = tokio::spawn(async move {
            let held = database.writer.transact(|turn| {
                let first = ended.lock().unwrap().take().zip(began.lock().unwrap().take());
                async move {
                    if let Some((ended, began)) = first {
                        began.send(()).unwrap();
                        ended.await.unwrap();
                    }
                    drop(turn);
                    Ok(())
                }
            });
            held.await.unwrap();
        });
        has_begun.await.unwrap();
        (end, holding)
    }

    /// The commits that stand in the write-ahead log: the frames that have a size of the database.
    fn commits_in_log(file: &std::path::Path) -> usize {
        let log = std::fs::read(format!("{}-wal", file.display())).unwrap();
        let page = u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
        let frames = log[32..].chunks_exact(24 + page);
        frames.filter(|frame| frame[8..16] == log[16..24] && frame[4..8] != [0; 4]).count()
    }

    #[tokio::test]
    async fn commits_that_wait_are_written_to_the_disk_together_and_one_that_is_fenced_undoes_only_itself() {
        a_group_is_written_together_but_for_one_that_is_fenced(async |database| {
            let (end, holding) = hold(&database).await;
            let end: Box<dyn FnOnce()> = Box::new(move || end.send(()).unwrap());
            (end, holding)
        })
        .await;
    }

    /// All of them have no savepoint until one fails.
    #[tokio::test]
    async fn commits_behind_another_one_are_done_again_with_it_if_one_is_fenced() {
        a_group_is_written_together_but_for_one_that_is_fenced(async |database| {
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let (began, has_begun) = std::sync::mpsc::channel();
            let (ended, times) = (Mutex::new(ended), Arc::new(AtomicUsize::new(0)));
            let counted = times.clone();
            let holding = tokio::spawn(async move {
                let hold = move |_: &mut rusqlite::Connection| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    let _ = began.send(());
                    // The second time nobody is there to wait for.
                    let _ = ended.lock().unwrap().recv();
                    Ok(())
                };
                database.commit(hold).await.unwrap();
                assert_eq!(times.load(Ordering::Relaxed), 2);
            });
            tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
            let end: Box<dyn FnOnce()> = Box::new(move || drop(end));
            (end, holding)
        })
        .await;
    }

    type Held = (Box<dyn FnOnce()>, tokio::task::JoinHandle<()>);

    async fn a_group_is_written_together_but_for_one_that_is_fenced(
        hold: impl AsyncFn(SqliteDatabase) -> Held,
    ) {
        let file = std::env::temp_dir().join(format!("fermata-group-{}.db", uuid::Uuid::new_v4()));
        let (database, store) = opened(&format!("sqlite://{}", file.display())).await;
        let chats: Vec<_> = (0..20).map(|n| ChatId::new(format!("c{n}"))).collect();
        for chat in &chats {
            begin(&store, chat).await;
        }
        let before = commits_in_log(&file);
        let (end, holding) = hold(database.clone()).await;
        let commits: Vec<_> = chats
            .iter()
            .enumerate()
            .map(|(n, chat)| {
                let (store, chat) = (store.clone(), chat.clone());
                let from = if n == 7 { Version(99) } else { Version(1) };
                tokio::spawn(async move {
                    let change = append(1, "x".into());
                    store.commit(&chat, from, Version(2), Timestamp::UNIX_EPOCH, change).await
                })
            })
            .collect();
        while database.writer.waiting() < chats.len() {
            tokio::task::yield_now().await;
        }
        end();
        for (n, commit) in commits.into_iter().enumerate() {
            let done = commit.await.unwrap();
            assert_eq!(done, if n == 7 { Err(StoreError::Fenced) } else { Ok(()) }, "{n}");
        }
        holding.await.unwrap();
        assert_eq!(commits_in_log(&file), before + 1);
        for (n, chat) in chats.iter().enumerate() {
            let version = store.version(chat).await.unwrap();
            assert_eq!(version, Some(if n == 7 { Version(1) } else { Version(2) }));
        }
        store.close().await;
        std::fs::remove_file(file).unwrap();
    }

    #[tokio::test]
    async fn what_shared_a_transaction_that_sqlite_has_ended_is_done_again() {
        let (database, store, chat) = in_memory().await;
        let (end, holding) = hold(&database).await;
        let small = {
            let (store, chat) = (store.clone(), chat.clone());
            tokio::spawn(async move {
                store.commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, say("x".into())).await
            })
        };
        while database.writer.waiting() < 1 {
            tokio::task::yield_now().await;
        }
        let large = {
            let database = database.clone();
            tokio::spawn(async move {
                let ends_it = async |turn: Turn| {
                    turn.execute_batch("rollback").map_err(failed_in_sqlite)?;
                    Err::<(), _>(Fault::NotWritten("the disk is full".into()))
                };
                database.write(ends_it).await
            })
        };
        while database.writer.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        end.send(()).unwrap();
        small.await.unwrap().unwrap();
        assert_eq!(large.await.unwrap(), Err(StoreError::Unavailable("the disk is full".into())));
        holding.await.unwrap();
        assert_eq!(store.messages(&chat).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn what_has_failed_in_a_transaction_that_sqlite_has_ended_is_looked_at_again() {
        let (database, _, _) = in_memory().await;
        let (end, holding) = hold(&database).await;
        let times = Arc::new(AtomicUsize::new(0));
        let refused = {
            let (database, times) = (database.clone(), times.clone());
            let refuses = move |_: &mut rusqlite::Connection| {
                times.fetch_add(1, Ordering::Relaxed);
                Err(crate::error::conflict("by what it has read"))
            };
            tokio::spawn(async move { database.commit(refuses).await })
        };
        while database.writer.waiting() < 1 {
            tokio::task::yield_now().await;
        }
        let ending = {
            let database = database.clone();
            let ends_it = async |turn: Turn| {
                turn.execute_batch("rollback").map_err(failed_in_sqlite)?;
                Err::<(), _>(Fault::NotWritten("the disk is full".into()))
            };
            tokio::spawn(async move { database.write(ends_it).await })
        };
        while database.writer.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        end.send(()).unwrap();
        assert!(matches!(refused.await.unwrap(), Err(StoreError::Conflict(_))));
        assert!(times.load(Ordering::Relaxed) >= 2, "what it had read the first time was undone");
        assert!(ending.await.unwrap().is_err());
        holding.await.unwrap();
    }

    #[tokio::test]
    async fn a_commit_that_panics_is_undone_and_the_thread_goes_on() {
        let (database, store, chat) = in_memory().await;
        let panics = |connection: &mut rusqlite::Connection| {
            connection.execute_batch("delete from chats").map_err(failed_in_sqlite)?;
            panic!("the test says so")
        };
        assert!(matches!(database.commit(panics).await, Err(StoreError::Unavailable(_))));
        assert_eq!(store.version(&chat).await.unwrap(), Some(Version(1)));
        let change = append(1, "x".into());
        store.commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, change).await.unwrap();
    }

    #[tokio::test]
    async fn a_commit_that_is_given_up_before_its_turn_is_not_made() {
        let (database, store, chat) = in_memory().await;
        let (end, holding) = hold(&database).await;
        let given_up = {
            let (store, chat) = (store.clone(), chat.clone());
            tokio::spawn(async move {
                let change = append(1, "x".into());
                store.commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, change).await
            })
        };
        while database.writer.waiting() < 1 {
            tokio::task::yield_now().await;
        }
        given_up.abort();
        assert!(given_up.await.unwrap_err().is_cancelled());
        end.send(()).unwrap();
        holding.await.unwrap();
        assert_eq!(store.version(&chat).await.unwrap(), Some(Version(1)));
    }

    #[tokio::test]
    async fn a_value_belongs_to_its_number_wherever_that_stands() {
        let (database, ..) = in_memory().await;
        let found = database.writer.transact(async |mut turn: Turn| {
            let mut connection = Connection::Sqlite(&mut turn);
            let query = connection.query("select $2, $1, $2").bind("first").bind(2_i64);
            query.fetch_one::<(i64, String, i64)>().await
        });
        assert_eq!(found.await.unwrap(), (2, "first".to_owned(), 2));
        let lacking = database.writer.transact(async |mut turn: Turn| {
            Connection::Sqlite(&mut turn).query("select $2").bind("first").fetch_one::<(String,)>().await
        });
        assert!(matches!(lacking.await, Err(StoreError::Conflict(_))));
    }

    #[tokio::test]
    async fn closing_waits_for_what_is_queued_and_refuses_what_comes_later() {
        let (database, store, chat) = in_memory().await;
        let (end, holding) = hold(&database).await;
        let queued = {
            let store = store.clone();
            tokio::spawn(async move {
                store
                    .commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, append(1, "x".into()))
                    .await
            })
        };
        while database.writer.waiting() < 1 {
            tokio::task::yield_now().await;
        }
        let closing = {
            let store = store.clone();
            tokio::spawn(async move { store.close().await })
        };
        end.send(()).unwrap();
        queued.await.unwrap().unwrap();
        closing.await.unwrap();
        holding.await.unwrap();
        let late = store.version(&ChatId::new("a")).await;
        assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    }
}
