//! The behaviour of a SQLite file when work shares a transaction, and when the disk is full or fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use fermata_engine::store::{Change, ChatStore, Version};
use fermata_protocol::{ChatId, MessageId, RunId, UiMessage};
use fermata_tools::Owner;
use jiff::Timestamp;

use super::*;
use crate::{SqlStore, backend::Backend, connection::Transaction, postgres::Effect, queries::changes};

async fn opened(url: &str) -> (SqliteDatabase, SqlStore) {
    let database = open::open(url, true).await.unwrap();
    (database.clone(), SqlStore::new(Backend::Sqlite(database), None))
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
    let open =
        Change::OpenRun { run: RunId::new("r"), message: MessageId::new("m"), owner: InstanceId::new("i") };
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
    store.commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, append(1, "x".into())).await.unwrap();
}

/// Changes that make SQLite end the whole transaction by itself if there is no room.
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
    let full =
        store.commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, say("x".repeat(1_000_000))).await;
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
            .commit(chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, say("x".repeat(1_000_000 * attempt)))
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
    store.delete(&chat, Version(2), Timestamp::UNIX_EPOCH, Vec::new()).await.unwrap();
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
    store.commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, append(1, "y".into())).await.unwrap();
    assert_eq!(store.chat(&chat).await.unwrap().unwrap().open_run.unwrap().texts(), ["y"]);
}

/// Begins work that keeps its turn until the test ends it, so that later work waits.
async fn hold(database: &SqliteDatabase) -> (tokio::sync::oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
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
            let hold = move |_: &mut SqliteConnection| {
                counted.fetch_add(1, Ordering::Relaxed);
                let _ = began.send(());
                // The second time nobody is there to wait for.
                let _ = ended.lock().unwrap().recv();
                Ok(())
            };
            database.commit(hold).await.unwrap();
            assert_eq!(times.load(Ordering::Relaxed), 2);
        });
        spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
        let end: Box<dyn FnOnce()> = Box::new(move || drop(end));
        (end, holding)
    })
    .await;
}

type Held = (Box<dyn FnOnce()>, tokio::task::JoinHandle<()>);

async fn a_group_is_written_together_but_for_one_that_is_fenced(hold: impl AsyncFn(SqliteDatabase) -> Held) {
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
        let refuses = move |_: &mut SqliteConnection| {
            times.fetch_add(1, Ordering::Relaxed);
            Err(conflict("by what it has read"))
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
    let panics = |connection: &mut SqliteConnection| {
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
            store.commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, append(1, "x".into())).await
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

/// Returns the name of a thread, which is empty if the thread has ended.
#[cfg(target_os = "linux")]
fn name_of_thread(task: &std::io::Result<std::fs::DirEntry>) -> String {
    std::fs::read_to_string(task.as_ref().unwrap().path().join("comm")).unwrap_or_default()
}

/// A read that leaves the thread of its task starts another thread, which takes over the other tasks. So this counts threads.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_thread_is_changed_only_for_a_large_chat() {
    let file = std::env::temp_dir().join(format!("fermata-threads-{}.db", uuid::Uuid::new_v4()));
    let url = format!("sqlite://{}", file.display());
    // To open it takes another thread as well, so another runtime does that.
    let opening = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(opened(&url)).1
    });
    let store = opening.join().unwrap();
    let read = async |name: &str, words: &str| {
        let (store, chat, said) = (store.clone(), ChatId::new(name), say(words.into()));
        begin(&store, &chat).await;
        store.commit(&chat, Version(1), Version(2), Timestamp::UNIX_EPOCH, said).await.unwrap();
        let threads = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap();
            // Others come and go.
            tasks.filter(|task| name_of_thread(task).starts_with("tokio-rt")).count()
        };
        let reading = tokio::spawn(async move {
            let before = threads();
            assert_eq!(store.messages(&chat).await.unwrap().len(), 1);
            threads() - before
        });
        reading.await.unwrap()
    };
    assert_eq!(read("small", "x").await, 0);
    assert_eq!(read("large", &"x".repeat(100_000)).await, 1);
    store.close().await;
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn what_may_be_much_is_read_and_written_on_another_thread() {
    let file = std::env::temp_dir().join(format!("fermata-much-{}.db", uuid::Uuid::new_v4()));
    let (_, store) = opened(&format!("sqlite://{}", file.display())).await;
    let here = std::thread::current().id();
    let there = store.backend.read((), |_, _| async { Ok(std::thread::current().id()) });
    assert_ne!(there.await.unwrap(), here, "a runtime of one thread goes on meanwhile");
    let there = |turn, _: Arc<()>| async { Ok((turn, std::thread::current().id())) };
    assert_ne!(store.backend.transact(Effect::Once, (), there).await.unwrap(), here);
    let panics = store.backend.read((), |_, _| async { panic!("on purpose") });
    let panicked: Result<Result<(), _>, _> = std::panic::AssertUnwindSafe(panics).catch_unwind().await;
    assert!(panicked.is_err(), "whoever asks learns of it");
    let panics = |mut turn: Transaction, _: Arc<()>| async move {
        instances::remove(&mut turn.get(), &InstanceId::new("none")).await?;
        panic!("on purpose");
    };
    let panics = store.backend.transact::<_, (), _>(Effect::Once, (), panics);
    assert!(std::panic::AssertUnwindSafe(panics).catch_unwind().await.is_err());
    begin(&store, &ChatId::new("goes on")).await;
    store.close().await;
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn what_is_given_up_on_another_thread_is_undone() {
    let (_, store, chat) = in_memory().await;
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let begun = Mutex::new(Some(begun));
    let (end, may_end) = std::sync::mpsc::channel();
    let may_end = Arc::new(Mutex::new(may_end));
    let delete = |mut turn: Transaction, chat: Arc<ChatId>| {
        let (begun, may_end) = (begun.lock().unwrap().take().unwrap(), may_end.clone());
        async move {
            changes::delete(&mut turn.get(), &chat, Version(1), Timestamp::UNIX_EPOCH, &[]).await?;
            begun.send(()).unwrap();
            may_end.lock().unwrap().recv().unwrap();
            Ok((turn, ()))
        }
    };
    let deleting = store.backend.transact(Effect::Once, chat.clone(), delete);
    tokio::select! {
        _ = deleting => panic!("it waits"),
        begun = has_begun => begun.unwrap(),
    }
    end.send(()).unwrap();
    assert_eq!(store.version(&chat).await.unwrap(), Some(Version(1)));
}
