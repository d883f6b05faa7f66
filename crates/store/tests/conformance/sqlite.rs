//! Behaviour and failures that only a SQLite file has: opening, reopening, sharing, and what the schema itself refuses.

use std::os::unix::fs::PermissionsExt;

use crate::{
    fixtures::{open as open_run, *},
    large_values::{picture, with_files},
};
use fermata_engine::store::{ChatQuery, ChatStore, InstanceId, Membership, StoreError, Version};
use fermata_protocol::{AnswerTarget, Role, ToolCallId};
use fermata_store::{OpenError, OpenOptions, SqlStore, open};
use rusqlite::{Connection, types::FromSql};
use serde_json::json;

pub async fn opened(folder: &Folder) -> SqlStore {
    SqlStore::open(&folder.url()).await.unwrap()
}

/// Executes statements on a connection that knows nothing of the store.
pub fn execute(folder: &Folder, statements: &str) -> rusqlite::Result<()> {
    let connection = Connection::open(folder.file())?;
    connection.pragma_update(None, "foreign_keys", "on")?;
    connection.execute_batch(statements)
}

/// The column of this number of all rows.
pub fn column<T: FromSql>(folder: &Folder, column: usize, query: &str) -> Vec<T> {
    let connection = Connection::open(folder.file()).unwrap();
    let mut query = connection.prepare(query).unwrap();
    let rows = query.query_map([], |row| row.get(column)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// The first column of the only row.
pub fn one<T: FromSql>(folder: &Folder, query: &str) -> T {
    column(folder, 0, query).pop().unwrap()
}

pub fn count(folder: &Folder, table: &str) -> i64 {
    one(folder, &format!("select count(*) from {table}"))
}

/// Saves a chat with something in every table.
async fn fill(store: &SqlStore) {
    let changes = vec![
        create(alice()),
        put(with_files("1", Role::User, &[&picture("A")])),
        put_summary(1, json!({"goal": "tea"})),
        schedule_summary(60),
        open_run("r"),
        append("r", 1, &["1", "2"]),
        put_call("r", &call("c", awaiting_approval())),
        confirm("r", "tool", true, true),
        end_grant("tool"),
        audit("yes"),
        put_plan("r", &plan("Tidy up", &["s1"])),
        put_settings("r", json!({"system": "\u{0}"})),
        save("r", json!({"step": 1}), Some(at(60))),
    ];
    commit_at(store, &chat("a"), at(0), changes).await.unwrap();
}

#[tokio::test]
async fn a_file_opened_again_has_everything() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    fill(&store).await;
    let written = store.chat(&chat("a")).await.unwrap();
    store.close().await;
    let store = opened(&folder).await;
    assert_eq!(store.chat(&chat("a")).await.unwrap(), written);
    assert_eq!(store.due(at(60), 1).await.unwrap(), [chat("a")]);
    let target = AnswerTarget::Call(ToolCallId::new("c"));
    assert_eq!(store.call(&chat("a"), &target).await.unwrap(), Some(call("c", awaiting_approval())));
    store.close().await;
}

const ALL_PRIVATE: [(&str, u32); 3] =
    [("fermata.db", 0o600), ("fermata.db-shm", 0o600), ("fermata.db-wal", 0o600)];

fn assert_private(folder: &Folder) {
    let mut modes = Vec::new();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        modes.push((file.file_name().into_string().unwrap(), mode));
    }
    modes.sort();
    assert_eq!(modes, ALL_PRIVATE.map(|(name, mode)| (name.to_owned(), mode)));
}

#[tokio::test]
async fn the_files_of_a_database_are_its_owners_only() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    fill(&store).await;
    assert_private(&folder);
    // As they are after a process that made them with a wider mode was killed.
    for (name, _) in ALL_PRIVATE {
        let wider = std::fs::Permissions::from_mode(0o664);
        std::fs::set_permissions(folder.path().join(name), wider).unwrap();
    }
    let again = opened(&folder).await;
    assert_private(&folder);
    assert_eq!(again.chat(&chat("a")).await.unwrap(), store.chat(&chat("a")).await.unwrap());
    store.close().await;
    again.close().await;
}

#[tokio::test]
async fn a_file_that_may_only_be_read_is_not_made_writable() {
    let folder = Folder::new();
    opened(&folder).await.close().await;
    std::fs::set_permissions(folder.file(), std::fs::Permissions::from_mode(0o444)).unwrap();
    // The user that runs the tests may be allowed to write to everything, so it may be opened or not.
    if let Ok(store) = SqlStore::open(&folder.url()).await {
        store.close().await;
    }
    assert_eq!(folder.file().metadata().unwrap().permissions().mode() & 0o777, 0o400);
}

#[tokio::test]
async fn what_was_committed_is_there_without_a_clean_end() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    fill(&store).await;
    let copy = Folder::new();
    for ending in ["", "-wal"] {
        let name = format!("fermata.db{ending}");
        std::fs::copy(folder.path().join(&name), copy.path().join(&name)).unwrap();
    }
    let survivor = opened(&copy).await;
    assert_eq!(survivor.chat(&chat("a")).await.unwrap(), store.chat(&chat("a")).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_share_one_file() {
    let folder = Folder::new();
    let (one, other) = tokio::join!(opened(&folder), opened(&folder));
    let write = async |store: &SqlStore, name: &str| {
        for n in 0..20 {
            let id = chat(&format!("{name}-{n}"));
            commit_at(store, &id, at(n), vec![create(alice()), put(user("1", name))]).await.unwrap();
        }
    };
    tokio::join!(write(&one, "one"), write(&other, "other"));
    for store in [&one, &other] {
        assert_eq!(store.chats(ChatQuery::new(&alice(), 100)).await.unwrap().chats.len(), 40);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_start_together_on_a_new_file_all_open_it() {
    for _ in 0..5 {
        let folder = Folder::new();
        let starting: Vec<_> = (0..4)
            .map(|_| {
                let url = folder.url();
                tokio::spawn(async move { SqlStore::open(&url).await })
            })
            .collect();
        for store in starting {
            store.await.unwrap().unwrap().ready().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_confirmation_is_never_changed_and_goes_only_with_its_chat() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    fill(&store).await;
    for statement in [
        "update confirmations set approved = 0",
        "update confirmations set position = 7",
        "delete from confirmations",
        "delete from runs",
        "insert or replace into confirmations select * from confirmations",
        "update or replace chats set id = 'b'",
    ] {
        assert!(execute(&folder, statement).is_err(), "{statement}");
        assert_eq!(count(&folder, "confirmations"), 1, "{statement}");
    }
    for statement in [
        "update grant_ends set tool = 'x'",
        "delete from grant_ends",
        "insert or replace into grant_ends select * from grant_ends",
    ] {
        assert!(execute(&folder, statement).is_err(), "{statement}");
        assert_eq!(count(&folder, "grant_ends"), 1, "{statement}");
    }
    delete(&store, &chat("a")).await;
    assert_eq!(count(&folder, "confirmations"), 0);
}

#[tokio::test]
async fn a_decision_on_record_is_never_changed_and_outlives_its_chat() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    fill(&store).await;
    for statement in [
        "update audit_events set owner = 'bob'",
        "delete from audit_events",
        "insert or replace into audit_events select * from audit_events",
        "insert or replace into audit_events (at, owner, chat_id, tool, event, chain, position, hash)
            select at, owner, chat_id, tool, event, chain, position, hash from audit_events",
    ] {
        assert!(execute(&folder, statement).is_err(), "{statement}");
    }
    delete(&store, &chat("a")).await;
    let kept = "select count(*) from audit_events where at = 1700000000000000 and owner = 'alice' and principal = 'alice'
        and address = '127.0.0.1' and chat_id = 'c' and run_id = 'r' and call_id = 'c' and tool = 'tool'
        and event = 'approved' and rule = 'rule 3' and reason = 'yes'
        and input_hash = '015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862'
        and groups = '[\"finance \\u0000\",\"managers\"]' and channel = 'words' and approval_id = 'appr' and outcome = 'counted'
        and shown_hash = '7e8059f495589fcd981232cc11d00b00da3802c01d688fa1cf1f6bed6e5bb33c'";
    assert_eq!(one::<i64>(&folder, kept), 1);
}

#[tokio::test]
async fn a_deleted_chat_has_no_row_left() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    fill(&store).await;
    let query = "select name from sqlite_schema where type = 'table' and (name = 'chats' or exists (
                     select 1 from pragma_table_info(sqlite_schema.name) as c where c.name = 'chat_id'
                 )) and name not in ('audit_events', 'memories') order by name";
    let tables: Vec<String> = column(&folder, 0, query);
    assert_eq!(
        tables,
        [
            "approvals",
            "calls",
            "chats",
            "confirmations",
            "due_summaries",
            "files",
            "grant_ends",
            "messages",
            "plan_steps",
            "plans",
            "run_chunks",
            "run_settings",
            "runs",
            "summaries"
        ]
    );
    for table in &tables {
        assert_eq!(count(&folder, table), 1, "{table}");
    }
    delete(&store, &chat("a")).await;
    for table in &tables {
        assert_eq!(count(&folder, table), 0, "{table}");
    }
}

#[tokio::test]
async fn no_word_of_a_deleted_chat_is_left_in_the_files() {
    const WORDS: &str = "the quick brown fox of alice";
    let folder = Folder::new();
    let store = opened(&folder).await;
    let words_in_files = || {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        let bytes = files.map(|file| std::fs::read(file).unwrap());
        bytes
            .map(|bytes| bytes.windows(WORDS.len()).filter(|window| *window == WORDS.as_bytes()).count())
            .sum::<usize>()
    };
    let id = chat("a");
    commit_at(&store, &id, at(0), vec![create(alice())]).await.unwrap();
    for n in 0..50 {
        // Some are small, and some have pages of their own.
        let said = WORDS.repeat(1 + n % 7 * 100);
        commit_at(&store, &id, at(n as i64), vec![put(user(&n.to_string(), &said))]).await.unwrap();
    }
    commit_at(&store, &id, at(50), vec![open_by("r", "one"), append("r", 1, &[WORDS]), close("r")])
        .await
        .unwrap();
    assert!(words_in_files() > 1_000);
    delete(&store, &id).await;
    assert_eq!(words_in_files(), 0);
}

/// SQLite moves rows when it makes room in a page, and leaves copies where they were.
#[tokio::test]
async fn no_word_of_a_deleted_chat_is_left_where_its_rows_were_before() {
    const WORDS: &str = "the quick brown fox of alice";
    let folder = Folder::new();
    let store = opened(&folder).await;
    let bytes_of = |words: &'static str| {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        let bytes = files.map(|file| std::fs::read(file).unwrap());
        bytes.map(|bytes| memchr::memmem::find_iter(&bytes, words).count()).sum::<usize>()
    };
    let (deleted, kept) = (chat("deleted"), chat("kept"));
    for (id, words) in [(&deleted, WORDS), (&kept, "a slow one of carol")] {
        commit_at(&store, id, at(0), vec![create(alice())]).await.unwrap();
        let n = 0;
        commit_at(&store, id, at(0), vec![put(user(&n.to_string(), words))]).await.unwrap();
    }
    for n in 1..300_usize {
        // The sizes vary, so that pages are divided and put together in many ways.
        let (id, words) = if n % 3 == 0 { (&kept, "a slow one of carol ") } else { (&deleted, WORDS) };
        let said = words.repeat(1 + n * 7 % 23);
        commit_at(&store, id, at(n as i64), vec![put(user(&n.to_string(), &said))]).await.unwrap();
        if n > 10 && n % 5 == 0 {
            // A message that grows moves.
            let longer = words.repeat(1 + n * 11 % 37);
            let earlier = if n % 3 == 0 { n - 3 } else { n - 5 };
            let earlier = if (earlier % 3 == 0) == (n % 3 == 0) { earlier } else { n };
            commit_at(&store, id, at(n as i64), vec![put(user(&earlier.to_string(), &longer))])
                .await
                .unwrap();
        }
    }
    let of_carol = store.messages(&kept).await.unwrap();
    delete(&store, &deleted).await;
    store.heartbeat(&InstanceId::new("one")).await.unwrap();
    assert_eq!(bytes_of(WORDS), 0);
    assert_eq!(store.messages(&kept).await.unwrap(), of_carol);
    assert_eq!(one::<String>(&folder, "pragma integrity_check"), "ok");
}

#[tokio::test]
async fn what_a_run_was_asked_for_is_not_written_again_with_each_change() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    fill(&store).await;
    let large = json!({"system": "x".repeat(200_000)});
    commit_at(&store, &chat("a"), at(0), vec![put_settings("r", large.clone())]).await.unwrap();
    let written = || folder.path().join("fermata.db-wal").metadata().unwrap().len();
    let before = written();
    for step in 0..4 {
        let changes = vec![save("r", json!({ "step": step }), None)];
        commit_at(&store, &chat("a"), at(step), changes).await.unwrap();
    }
    let grown = written() - before;
    assert!(grown < 200_000, "four saves have written {grown} bytes");
    let run = store.chat(&chat("a")).await.unwrap().unwrap().open_run.unwrap();
    assert_eq!(run.settings, large);
}

#[tokio::test]
async fn a_closed_run_keeps_its_row_and_its_calls_only() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    fill(&store).await;
    commit_at(&store, &chat("a"), at(9), vec![close("r")]).await.unwrap();
    assert_eq!(count(&folder, "run_chunks"), 1, "readers may look for the rest of it");
    assert_eq!(store.forget_logs(at(10), 1).await.unwrap(), 1);
    assert_eq!(count(&folder, "run_chunks"), 0);
    assert_eq!(count(&folder, "run_settings"), 0);
    assert_eq!(count(&folder, "tool_calls"), 1);
    assert_eq!(
        count(&folder, "runs where state is null and outcome = 'finished' and ended_at > started_at"),
        1
    );
}

#[tokio::test]
async fn what_cannot_be_read_is_corrupt_and_not_a_panic() {
    for statement in [
        "update messages set body = '{'",
        "update messages set body = '{\"id\":1}'",
        "update messages set elsewhere = '{'",
        "update messages set elsewhere = '[{\"at\":\"/parts/9\",\"input\":\"c\"}]'",
        "update messages set elsewhere = '[{\"at\":\"/parts/1/url\",\"file\":\"no\"}]'",
        "update summaries set content = '{'",
        "update summaries set created_at = 9223372036854775807",
        "update chats set show = '{'",
        "update chats set profile = 99",
        "update runs set state = 'x'",
        "update calls set call = '[]'",
        "update calls set call = json_set(call, '$.history', json('{}'))",
        "update calls set call = json_set(call, '$.state', 'success')",
        "update calls set call = json_set(call, '$.state', 'odd')",
        "update calls set call = json_set(call, '$.step', -1)",
        "drop trigger confirmations_are_not_changed; update confirmations set decided_at = 9223372036854775807",
        "update chats set created_at = 9223372036854775807",
    ] {
        let folder = Folder::new();
        let store = opened(&folder).await;
        fill(&store).await;
        execute(&folder, statement).unwrap();
        let errors = [
            store.chat(&chat("a")).await.err(),
            store.messages(&chat("a")).await.err(),
            store.summary(&chat("a"), 1).await.err(),
            store.chats(ChatQuery::new(&alice(), 1)).await.err(),
        ];
        let mut errors = errors.into_iter().flatten().peekable();
        assert!(errors.peek().is_some(), "{statement}: nothing minds");
        assert!(errors.all(|error| matches!(error, StoreError::Corrupt(_))), "{statement}");
    }
}

#[tokio::test]
async fn a_database_that_is_gone_is_unavailable() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    store.close().await;
    assert!(matches!(store.chat(&chat("a")).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.ready().await, Err(StoreError::Unavailable(_))));
    assert!(matches!(
        store.commit_next(&chat("a"), Version::NONE, at(0), vec![create(alice())]).await,
        Err(StoreError::Unavailable(_))
    ));
}

#[tokio::test]
async fn every_form_of_the_url_opens() {
    let folder = Folder::new();
    let path = folder.file();
    for url in [format!("sqlite://{}", path.display()), format!("sqlite:{}", path.display())] {
        SqlStore::open(&url).await.unwrap().close().await;
        assert!(path.is_file());
        std::fs::remove_file(&path).unwrap();
    }
    for url in ["sqlite::memory:", "sqlite://:memory:"] {
        let (one, other) = (SqlStore::open(url).await.unwrap(), SqlStore::open(url).await.unwrap());
        fill(&one).await;
        assert_eq!(other.version(&chat("a")).await.unwrap(), None, "each store in memory is its own");
    }
}

#[tokio::test]
async fn what_cannot_be_opened_says_why_in_words() {
    let folder = Folder::new();
    let not_sqlite = folder.path().join("text.db");
    std::fs::write(&not_sqlite, "This is a text and no database at all.".repeat(100)).unwrap();
    let missing = format!("sqlite://{}/no/such/place.db", folder.path().display());
    let a_folder = format!("sqlite://{}", folder.path().display());
    let text = format!("sqlite://{}", not_sqlite.display());
    for (url, said) in [
        ("mysql://u:secret@host/db", "begins neither with sqlite: nor with postgres:"),
        ("fermata.db", "begins neither with sqlite: nor with postgres:"),
        ("sqlite:", "names no file"),
        ("sqlite://", "names no file"),
        ("sqlite://x.db?mode=odd", "is not a parameter of a SQLite file"),
        (&missing, "does not exist"),
        (&a_folder, "cannot be opened for writing"),
        (&text, "is not a SQLite database"),
    ] {
        let error = SqlStore::open(url).await.unwrap_err().to_string();
        assert!(error.contains(said), "{url}: {error}");
        assert!(error.contains("DATABASE_URL"), "{url}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

/// The row that a migration of a later version leaves behind.
pub const LATER: &str = "insert into schema_migrations (number, name, checksum) values (9000, 'later', '')";

#[tokio::test]
async fn a_file_that_a_newer_version_has_added_to_still_opens() {
    let folder = Folder::new();
    opened(&folder).await.close().await;
    execute(&folder, LATER).unwrap();
    let store = opened(&folder).await;
    fill(&store).await;
    store.close().await;
    assert_eq!(fermata_store::migrate(&folder.url()).await.unwrap().applied, [""; 0]);
    open(&folder.url(), &OpenOptions { migrate: false, ..OpenOptions::default() }).await.unwrap();
}

#[tokio::test]
async fn a_file_that_needs_a_newer_version_is_refused() {
    let folder = Folder::new();
    opened(&folder).await.close().await;
    execute(&folder, LATER).unwrap();
    execute(&folder, "update schema_floor set migration = 9000").unwrap();
    for error in [
        SqlStore::open(&folder.url()).await.err(),
        fermata_store::migrate(&folder.url()).await.err(),
        open(&folder.url(), &OpenOptions { migrate: false, ..OpenOptions::default() }).await.err(),
    ] {
        assert!(matches!(error, Some(OpenError::Newer { migration: 9000, .. })), "{error:?}");
    }
}

#[tokio::test]
async fn a_file_is_migrated_once_and_only_when_wanted() {
    let folder = Folder::new();
    let as_it_is = OpenOptions { migrate: false, ..OpenOptions::default() };
    let behind = async || {
        let error = open(&folder.url(), &as_it_is).await.err().unwrap();
        assert!(matches!(error, OpenError::Behind { .. }), "{error}");
        assert!(error.to_string().ends_with("run fermata migrate"), "{error}");
    };
    behind().await;
    assert!(!folder.file().exists(), "what is refused is not made");
    execute(&folder, "create table t (x)").unwrap();
    behind().await;
    let migrated = fermata_store::migrate(&folder.url()).await.unwrap();
    assert_eq!(migrated.applied, ["0001 init"]);
    assert_eq!(migrated.to_string(), format!("applied {}", migrated.applied[0]));
    let again = fermata_store::migrate(&folder.url()).await.unwrap();
    assert_eq!(again.applied, [""; 0]);
    assert_eq!(again.to_string(), "the database is up to date; there was nothing to do");
    let database = open(&folder.url(), &as_it_is).await.unwrap();
    database.store.ready().await.unwrap();
    database.close().await;
    assert!(database.store.ready().await.is_err());
    execute(&folder, "delete from schema_migrations where number = 1").unwrap();
    behind().await;
}

#[tokio::test]
async fn a_file_from_before_the_first_release_is_refused_and_stays_as_it_is() {
    let folder = Folder::new();
    opened(&folder).await.close().await;
    // Builds from before kept their migrations in this table.
    execute(&folder, "create table _sqlx_migrations (version bigint)").unwrap();
    let before = std::fs::read(folder.file()).unwrap();
    for error in [
        SqlStore::open(&folder.url()).await.err(),
        fermata_store::migrate(&folder.url()).await.err(),
        open(&folder.url(), &OpenOptions { migrate: false, ..OpenOptions::default() }).await.err(),
    ] {
        let error = error.unwrap();
        assert!(matches!(error, OpenError::Unreleased { .. }), "{error}");
        let (path, sentence) = (folder.file().display().to_string(), error.to_string());
        assert!(sentence.contains(&path) && sentence.contains("move it away"), "{sentence}");
    }
    assert_eq!(std::fs::read(folder.file()).unwrap(), before);
}

/// As one with a list of more than two values does, for each row.
#[tokio::test]
async fn no_check_fills_a_table_of_its_own() {
    let folder = Folder::new();
    SqlStore::open(&folder.url()).await.unwrap().close().await;
    let tables: Vec<String> = column(&folder, 0, "select name from sqlite_schema where type = 'table'");
    assert!(tables.iter().any(|table| table == "messages"), "{tables:?}");
    for table in tables {
        let operations: Vec<String> =
            column(&folder, 1, &format!("explain insert into {table} default values"));
        assert!(!operations.contains(&"OpenEphemeral".to_owned()), "{table}");
    }
}
