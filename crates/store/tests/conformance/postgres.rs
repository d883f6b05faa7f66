//! Behaviour and failures that only PostgreSQL has: sessions that end, transactions that collide, and what the schema itself refuses.

use std::{sync::Arc, time::Duration};

use fermata_engine::{
    Store,
    store::{Change, ChatQuery, InstanceId, StoreError, Version},
};
use fermata_store::{Database, OpenError, OpenOptions, WriteNoteError};
use fermata_tools::ResourceKey;
use serde_json::json;
use tokio_rustls::rustls::{ServerConfig, crypto::aws_lc_rs};

use crate::{
    AnyStore,
    fixtures::*,
    proxy::{Withholding, with_tls},
    test_database::TestDatabase,
};

/// Sessions of the store that wait for a lock.
const WAITING: &str = "select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'fermata' and wait_event_type = 'Lock'";

/// A chat with something in every table.
async fn fill(store: &dyn Store) {
    let changes = vec![
        create(alice()),
        put(user("1", "one")),
        put_summary(1, json!({"goal": "tea"})),
        schedule_summary(60),
        open("r"),
        append("r", 1, &["1", "2"]),
        put_call("r", &call("c", awaiting_approval())),
        confirm("r", "tool", true, true),
        end_grant("tool"),
        audit("yes"),
        save("r", json!({"step": 1}), Some(at(60))),
    ];
    store.commit_next(&chat("a"), Version::NONE, at(0), changes).await.unwrap();
}

async fn alive(store: &dyn Store, id: &str) -> Vec<InstanceId> {
    let mut alive = store.heartbeat(&instance(id)).await.unwrap().alive;
    alive.sort();
    alive
}

/// Ends the session of an instance and waits until the server has seen it go.
async fn end_session(postgres: &TestDatabase, id: &str) {
    let pid = postgres
        .number(&format!(
            "select pid::bigint from pg_locks join instances on objid::bigint = session
             where locktype = 'advisory' and objsubid = 2 and instances.id = '{id}'"
        ))
        .await;
    postgres.number(&format!("select pg_terminate_backend({pid})::int::bigint")).await;
    postgres.until(&format!("select count(*) from pg_stat_activity where pid = {pid}"), 0).await;
}

/// Ends all sessions of the store, as a restart of the server does.
async fn end_all_sessions(postgres: &TestDatabase) {
    let others = "from pg_stat_activity where datname = current_database() and application_name = 'fermata'";
    postgres.number(&format!("select count(pg_terminate_backend(pid)) {others}")).await;
    postgres.until(&format!("select count(*) {others}"), 0).await;
}

/// Has instances not have been heard of for some seconds.
async fn silence(postgres: &TestDatabase, ids: &str, seconds: i64) {
    let beat_at = format!("(extract(epoch from clock_timestamp()) * 1000000)::bigint - {seconds}000000");
    postgres
        .execute(&format!("update heartbeats set beat_at = {beat_at} where instance in ({ids})"))
        .await
        .unwrap();
}

/// Sends heartbeats of an instance until it counts only these as alive. It judges nobody in its first seconds.
async fn sees_only(store: &dyn Store, id: &str, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|id| instance(id)).collect();
    for _ in 0..600 {
        if alive(store, id).await == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{id} sees {:?} alive, not {expected:?}", alive(store, id).await);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_container_that_is_started_again_takes_the_place_of_its_earlier_self_at_once() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open().await;
    let store = &*database.store;
    let ids = ["earlier", "restarted", "neighbour"];
    for id in ids {
        store.join(&instance(id)).await.unwrap();
    }
    // Neighbours may even share the name of the host, but this one was heard of since.
    assert_eq!(alive(store, "neighbour").await.len(), 3);
    let elsewhere = "update instances set process = regexp_replace(process, 'pid:\\[[0-9]+\\]', 'pid:[1]') where id <> 'restarted'";
    postgres.execute(elsewhere).await.unwrap();
    for id in ["earlier", "neighbour"] {
        end_session(&postgres, id).await;
    }
    assert_eq!(alive(store, "restarted").await, ["neighbour", "restarted"].map(instance));
    database.close().await;
}

#[tokio::test]
async fn an_instance_whose_session_ends_is_reaped_when_it_is_silent() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open().await;
    let store = &*database.store;
    for id in ["one", "two"] {
        store.join(&instance(id)).await.unwrap();
    }
    let key = ResourceKey { named_by: fermata_tools::NamedBy::Settings, name: "file".into(), owner: None };
    assert!(store.try_lock(&key, &instance("two")).await.unwrap());
    store
        .commit_next(&chat("a"), Version::NONE, at(0), vec![create(alice()), open_by("r", "two")])
        .await
        .unwrap();
    assert_eq!(alive(store, "one").await, [instance("one"), instance("two")]);
    end_session(&postgres, "two").await;
    assert_eq!(store.orphans(9).await.unwrap(), [], "nobody has looked yet");
    silence(&postgres, "'two'", 6).await;
    sees_only(store, "one", &["one"]).await;
    assert_eq!(store.orphans(9).await.unwrap(), [chat("a")]);
    assert!(store.try_lock(&key, &instance("one")).await.unwrap(), "its locks are free");
    let back = store.heartbeat(&instance("two")).await.unwrap();
    assert_eq!((back.was_dead, back.alive), (true, vec![instance("one"), instance("two")]));
    assert!(!store.heartbeat(&instance("two")).await.unwrap().was_dead);
    assert_eq!(alive(store, "one").await, [instance("one"), instance("two")], "its new session is known");
    database.close().await;
}

#[tokio::test]
async fn a_session_that_ends_is_no_death_while_heartbeats_come() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open().await;
    let store = &*database.store;
    for id in ["one", "two", "three"] {
        store.join(&instance(id)).await.unwrap();
    }
    // This one is dead, so that its end shows that "one" judges.
    end_session(&postgres, "three").await;
    end_session(&postgres, "two").await;
    silence(&postgres, "'three'", 6).await;
    silence(&postgres, "'two'", 0).await;
    for _ in 0..600 {
        silence(&postgres, "'two'", 2).await;
        let alive = alive(store, "one").await;
        assert!(alive.contains(&instance("two")));
        if !alive.contains(&instance("three")) {
            database.close().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nobody is ever judged");
}

#[tokio::test]
async fn who_joins_or_was_late_itself_judges_nobody_at_first() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let (ends, stays) = (postgres.open().await, postgres.open().await);
    ends.store.join(&instance("one")).await.unwrap();
    ends.close().await;
    postgres.until("select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())", 0).await;
    silence(&postgres, "'one'", 60).await;
    stays.store.join(&instance("two")).await.unwrap();
    let both = [instance("one"), instance("two")];
    assert_eq!(alive(&*stays.store, "two").await, both, "the server may have been started again just now");
    sees_only(&*stays.store, "two", &["two"]).await;

    stays.store.join(&instance("one")).await.unwrap();
    silence(&postgres, "'one'", 60).await;
    let stall = postgres.raw().await;
    stall.batch_execute("begin; select 1 from heartbeats where instance = 'two' for update").await.unwrap();
    // Each is given up after some seconds, and goes on waiting in its session.
    for _ in 0..2 {
        let late = stays.store.heartbeat(&instance("two")).await;
        assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    }
    stall.batch_execute("commit").await.unwrap();
    stall.close().await;
    assert_eq!(alive(&*stays.store, "two").await, both, "one may have stood still as well");
    sees_only(&*stays.store, "two", &["two"]).await;
    stays.close().await;
}

#[tokio::test]
async fn a_heartbeat_that_was_given_up_learns_of_a_death_for_the_next_one() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open().await;
    let store = &*database.store;
    store.join(&instance("one")).await.unwrap();
    let stall = postgres.raw().await;
    stall
        .batch_execute(
            "begin; delete from instances where id = 'one'; lock table heartbeats in access exclusive mode",
        )
        .await
        .unwrap();
    let late = store.heartbeat(&instance("one")).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    stall.batch_execute("commit").await.unwrap();
    stall.close().await;
    // It goes on by itself, makes the row again, and has told it as soon as it is over.
    let mut was_dead = 0;
    for _ in 0..50 {
        was_dead += usize::from(store.heartbeat(&instance("one")).await.unwrap().was_dead);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(was_dead, 1, "once is enough");
    database.close().await;
}

#[tokio::test]
async fn who_is_not_heard_of_for_a_lease_is_dead_although_its_session_lives() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open().await;
    let store = &*database.store;
    for id in ["one", "two", "three"] {
        store.join(&instance(id)).await.unwrap();
    }
    silence(&postgres, "'two'", 11).await;
    sees_only(store, "one", &["one", "three"]).await;
    assert!(store.heartbeat(&instance("two")).await.unwrap().was_dead);
    database.close().await;
}

#[tokio::test]
async fn joining_and_each_heartbeat_tell_the_time_of_the_database() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open().await;
    let one = instance("one");
    let clock = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
    let mut before = postgres.number(clock).await;
    let joined = database.store.join(&one).await.unwrap().now;
    let mut told = vec![joined];
    // The last one finds no row.
    for _ in 0..2 {
        told.push(database.store.heartbeat(&one).await.unwrap().now);
    }
    postgres.execute("delete from instances").await.unwrap();
    told.push(database.store.heartbeat(&one).await.unwrap().now);
    for now in told {
        let now = now.unwrap().as_microsecond();
        assert!(before <= now, "{before} {now}");
        before = now;
    }
    assert!(before <= postgres.number(clock).await);
    database.close().await;
}

#[tokio::test]
async fn after_a_restart_of_the_server_nobody_is_reaped_before_they_can_come_back() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open().await;
    let store = &*database.store;
    fill(store).await;
    for id in ["one", "two"] {
        store.join(&instance(id)).await.unwrap();
    }
    end_all_sessions(&postgres).await;
    silence(&postgres, "'two'", 60).await;
    for id in ["one", "one", "two", "one"] {
        let renewed = store.heartbeat(&instance(id)).await.unwrap();
        assert_eq!((renewed.was_dead, renewed.alive), (false, vec![instance("one"), instance("two")]));
    }
    database.close().await;
}

#[tokio::test]
async fn what_was_confirmed_is_on_the_disk_even_if_the_database_says_otherwise() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let off = "do $$ begin execute format(
        'alter database %I set synchronous_commit = off', current_database()); end $$";
    postgres.execute(off).await.unwrap();
    let database = postgres.open_durably().await;
    // What a session of the store sees, told by a table that it writes to.
    let tells = "create table durability (value text);
        create function tell() returns trigger language plpgsql as $$
        begin insert into durability values (current_setting('synchronous_commit')); return new; end $$;
        create trigger tells before insert on chats for each row execute function tell()";
    postgres.raw().await.batch_execute(tells).await.unwrap();
    fill(&*database.store).await;
    assert_eq!(postgres.number("select count(*) from durability where value = 'on'").await, 1);
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_to_a_server_that_takes_no_writes_is_replaced() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open_with(1).await;
    fill(&*database.store).await;
    let (chat, known) = (chat("a"), version(&*database.store, &chat("a")).await);
    database.store.join(&instance("one")).await.unwrap();
    // The setting counts for new sessions, so it is taken back before there is another one.
    let read_only = "do $$ begin execute format(
        'alter database %I set default_transaction_read_only = on', current_database()); end $$";
    postgres.execute(read_only).await.unwrap();
    end_all_sessions(&postgres).await;
    database.store.messages(&chat).await.unwrap();
    assert!(database.store.heartbeat(&instance("one")).await.is_err());
    let takes_writes = "do $$ begin execute format(
        'alter database %I set default_transaction_read_only = off', current_database()); end $$";
    let other = postgres.raw().await;
    other.batch_execute("set default_transaction_read_only = off").await.unwrap();
    other.batch_execute(takes_writes).await.unwrap();
    other.close().await;
    let write = async || database.store.commit_next(&chat, known, at(1), vec![put(user("1", "mine"))]).await;
    let refused = write().await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    write().await.unwrap();
    let renewed = database.store.heartbeat(&instance("one")).await.unwrap();
    assert!(!renewed.was_dead, "its session is replaced, too");
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_were_ended_are_replaced() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open().await;
    let store = database.store.clone();
    fill(&*store).await;
    for _ in 0..3 {
        let reading: Vec<_> = (0..8)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { store.messages(&chat("a")).await.unwrap() })
            })
            .collect();
        for read in reading {
            assert_eq!(read.await.unwrap().len(), 1);
        }
        end_all_sessions(&postgres).await;
        commit_at(&*store, &chat("a"), at(1), vec![put(user("1", "again"))]).await.unwrap();
    }
    database.close().await;
}

/// The URL of the same database behind a proxy at this port, and where the server itself is.
fn behind(url: &str, port: u16) -> String {
    let (_, rest) = url.split_once('@').unwrap();
    let (_, path) = rest.split_once('/').unwrap();
    format!("postgres://postgres@127.0.0.1:{port}/{path}")
}

/// Opens the database with one connection, through the proxy.
async fn open_behind(postgres: &TestDatabase, proxy: &Withholding) -> Database {
    let url = behind(&postgres.url, proxy.start(address(&postgres.url)).await) + "&sslmode=disable";
    fermata_store::open(&url, &OpenOptions { migrate: true, connections: 1, audit_key: None }).await.unwrap()
}

fn address(url: &str) -> String {
    let (_, rest) = url.split_once('@').unwrap();
    let (address, _) = rest.split_once('/').unwrap();
    if address.contains(':') { address.to_owned() } else { format!("{address}:5432") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_sent_as_a_whole_before_the_first_answer() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    let proxy = Withholding::default();
    let database = open_behind(&postgres, &proxy).await;
    let store = &*database.store;
    let turn =
        |run: &str, id: &str| vec![put(user(id, "hello")), open(run), append(run, 1, &["1"]), close(run)];
    let made = store.commit_next(&chat("a"), Version::NONE, at(0), vec![create(alice())]).await.unwrap();
    // The first time the statements are prepared.
    let warm = store.commit_next(&chat("a"), made, at(1), turn("r1", "1")).await.unwrap();
    proxy.withhold();
    let version = store.commit_next(&chat("a"), warm, at(2), turn("r2", "2")).await.unwrap();
    // As it was before, so the whole of it is refused.
    proxy.withhold();
    let fenced = store.commit_next(&chat("a"), warm, at(3), turn("r3", "3")).await;
    assert_eq!(fenced, Err(StoreError::Fenced));
    proxy.withhold();
    let refused = store
        .commit_next(&chat("a"), version, at(3), vec![Change::Touched, put(user("3", "no")), close("r2")])
        .await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(store.messages(&chat("a")).await.unwrap().len(), 2);
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_lost_its_answer_is_repeated_if_it_can_be_and_unclear_otherwise() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    let proxy = Withholding::default();
    let database = open_behind(&postgres, &proxy).await;
    let (store, notes) = (&*database.store, &database.notes);
    let made = store.commit_next(&chat("a"), Version::NONE, at(0), vec![create(alice())]).await.unwrap();
    // The first time the statements are prepared.
    let warm = store.commit_next(&chat("a"), made, at(1), vec![put(user("1", "one"))]).await.unwrap();
    assert_eq!(store.messages(&chat("a")).await.unwrap().len(), 1);
    let write = async |id| notes.write(id, &alice(), "title", "body", at(0), 9).await;
    proxy.lose_next_answer();
    store.commit_next(&chat("a"), warm, at(2), vec![put(user("2", "two"))]).await.unwrap();
    proxy.lose_next_answer();
    assert_eq!(store.messages(&chat("a")).await.unwrap().len(), 2);
    write("n1").await.unwrap();
    proxy.lose_next_answer();
    let unclear = write("n2").await;
    assert!(matches!(unclear, Err(WriteNoteError::Store(StoreError::Unclear(_)))), "{unclear:?}");
    assert_eq!(notes.search(&alice(), "", 9).await.unwrap().len(), 2, "it was written all the same");
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_reached_through_tls() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    let folder = Folder::new();
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, certified.cert.pem()).unwrap();
    let key = certified.signing_key.serialize_der().try_into().unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let port = with_tls(config, address(&postgres.url)).await;
    let url = format!("{}&sslmode=verify-full&sslrootcert={}", behind(&postgres.url, port), root.display());
    let database = fermata_store::open(&url, &OpenOptions::default()).await.unwrap();
    fill(&*database.store).await;
    database.store.join(&instance("one")).await.unwrap();
    assert_eq!(alive(&*database.store, "one").await, [instance("one")]);
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_heartbeats_at_once_reap_the_dead_once() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let databases = [postgres.open_with(2).await, postgres.open_with(2).await];
    let ids: Vec<_> = (0..6).map(|n| instance(&format!("i{n}"))).collect();
    for (n, id) in ids.iter().enumerate() {
        databases[n % 2].store.join(id).await.unwrap();
    }
    for id in ["i0", "i1"] {
        end_session(&postgres, id).await;
    }
    silence(&postgres, "'i0', 'i1'", 60).await;
    let renewing: Vec<_> = (2..6)
        .map(|n| {
            let (store, id) = (databases[n % 2].store.clone(), ids[n].clone());
            tokio::spawn(async move {
                for _ in 0..600 {
                    let renewed = store.heartbeat(&id).await.unwrap();
                    assert!(!renewed.was_dead);
                    if renewed.alive.len() == 4 {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
        })
        .collect();
    for done in renewing {
        done.await.unwrap();
    }
    assert_eq!(alive(&*databases[0].store, "i2").await, ids[2..]);
    for database in databases {
        database.close().await;
    }
}

/// Writes for one who knows the chat at this version.
fn write(store: &AnyStore, version: Version) -> tokio::task::JoinHandle<Result<Version, StoreError>> {
    let store = store.clone();
    tokio::spawn(
        async move { store.commit_next(&chat("a"), version, at(1), vec![put(user("1", "mine"))]).await },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_serialisation_failure_is_done_again() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let strict = "do $$ begin execute format(
        'alter database %I set default_transaction_isolation = serializable', current_database()); end $$";
    postgres.execute(strict).await.unwrap();
    let database = postgres.open().await;
    fill(&*database.store).await;
    let other = postgres.raw().await;
    other.batch_execute("begin; update chats set profile = 7 where id = 'a'").await.unwrap();
    let writer = write(&database.store, version(&*database.store, &chat("a")).await);
    postgres.until(WAITING, 1).await;
    other.batch_execute("commit").await.unwrap();
    let written = writer.await.unwrap().expect("what the other did is no change of the version");
    other.batch_execute("begin; update chats set version = 7 where id = 'a'").await.unwrap();
    let writer = write(&database.store, written);
    postgres.until(WAITING, 1).await;
    other.batch_execute("commit").await.unwrap();
    assert_eq!(writer.await.unwrap(), Err(StoreError::Fenced));
    other.close().await;
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_that_changes_while_old_ones_are_forgotten_stays() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open().await;
    for id in ["a", "b"] {
        commit_at(&*database.store, &chat(id), at(0), vec![create(alice())]).await.unwrap();
    }
    let other = postgres.raw().await;
    // A change that is no news, which tells only by the version.
    other.batch_execute("begin; update chats set version = 7 where id = 'a'").await.unwrap();
    let store = database.store.clone();
    let forgetting = tokio::spawn(async move { store.forget(at(9), 1).await });
    postgres.until(WAITING, 1).await;
    other.batch_execute("commit").await.unwrap();
    assert_eq!(forgetting.await.unwrap().unwrap(), 0);
    assert_eq!(postgres.number("select count(*) from chats").await, 2);
    assert_eq!(database.store.forget(at(9), 9).await.unwrap(), 2);
    other.close().await;
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_done_again() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open().await;
    fill(&*database.store).await;
    let other = postgres.raw().await;
    // The store is to be the one that notices.
    other
        .batch_execute("set deadlock_timeout = '60s'; begin; update messages set title = 'x'")
        .await
        .unwrap();
    let writer = write(&database.store, version(&*database.store, &chat("a")).await);
    postgres.until(WAITING, 1).await;
    other.batch_execute("update chats set profile = 7; commit").await.unwrap();
    writer.await.unwrap().unwrap();
    other.close().await;
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_without_a_free_connection_is_unavailable_and_heals() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open_with(1).await;
    fill(&*database.store).await;
    let other = postgres.raw().await;
    other.batch_execute("begin; update chats set profile = 7").await.unwrap();
    let writer = write(&database.store, version(&*database.store, &chat("a")).await);
    postgres.until(WAITING, 1).await;
    let full = database.store.messages(&chat("a")).await;
    assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
    other.batch_execute("rollback").await.unwrap();
    writer.await.unwrap().unwrap();
    assert_eq!(database.store.messages(&chat("a")).await.unwrap().len(), 1);
    other.close().await;
    database.close().await;
}

#[tokio::test]
async fn a_database_that_is_gone_is_unavailable() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let database = postgres.open().await;
    database.store.join(&instance("one")).await.unwrap();
    database.close().await;
    let store = &*database.store;
    assert!(matches!(store.chat(&chat("a")).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.ready().await, Err(StoreError::Unavailable(_))));
    let commit = store.commit_next(&chat("a"), Version::NONE, at(0), vec![create(alice())]).await;
    assert!(matches!(commit, Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn a_confirmation_is_never_changed_and_goes_only_with_its_chat() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    let database = postgres.open().await;
    fill(&*database.store).await;
    for statement in [
        "update confirmations set approved = false",
        "delete from confirmations",
        "delete from runs",
        "truncate confirmations",
        "truncate chats cascade",
        "insert into confirmations select * from confirmations on conflict (chat_id, position) do update set approved = false",
    ] {
        assert!(postgres.execute(statement).await.is_err(), "{statement}");
        assert_eq!(postgres.number("select count(*) from confirmations").await, 1, "{statement}");
    }
    for statement in ["update grant_ends set tool = 'x'", "delete from grant_ends", "truncate grant_ends"] {
        assert!(postgres.execute(statement).await.is_err(), "{statement}");
    }
    for statement in
        ["update audit_events set owner = 'bob'", "delete from audit_events", "truncate audit_events"]
    {
        assert!(postgres.execute(statement).await.is_err(), "{statement}");
    }
    delete(&*database.store, &chat("a")).await;
    assert_eq!(postgres.number("select count(*) from audit_events where chat_id = 'c'").await, 1);
    for table in [
        "chats",
        "messages",
        "summaries",
        "due_summaries",
        "runs",
        "run_chunks",
        "tool_calls",
        "confirmations",
        "grant_ends",
    ] {
        assert_eq!(postgres.number(&format!("select count(*) from {table}")).await, 0, "{table}");
    }
    database.close().await;
}

#[tokio::test]
async fn both_databases_have_the_same_tables_and_columns() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    postgres.open().await.close().await;
    let columns = "select table_name || '.' || column_name || case is_nullable when 'YES' then ' may be null' else '' end
        from information_schema.columns where table_schema = current_schema()
        and table_name not in ('schema_migrations', 'heartbeats') and (table_name, column_name) not in (('instances', 'session'), ('instances', 'process'), ('instances', 'version'))";
    let mut here: Vec<String> = postgres.column(columns).await;
    let folder = Folder::new();
    crate::sqlite::opened(&folder).await.close().await;
    let columns =
        "select t.name || '.' || c.name || case c.\"notnull\" when 0 then ' may be null' else '' end
        from sqlite_schema as t, pragma_table_info(t.name) as c
        where t.type in ('table', 'view') and t.name <> 'schema_migrations'";
    let mut there: Vec<String> = crate::sqlite::column(&folder, 0, columns);
    here.sort();
    there.sort();
    assert_eq!(here, there);
}

#[tokio::test]
async fn what_cannot_be_read_is_corrupt_and_not_a_panic() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    let database = postgres.open().await;
    let store = &*database.store;
    for statement in [
        "update messages set body = '{'",
        "update messages set id = 'm' || chr(26), body = '1'",
        "update summaries set content = '{'",
        "update summaries set created_at = 9223372036854775807",
        "update chats set show = '{'",
        "update chats set profile = 99",
        "update chats set profile = 9000",
        "update runs set state = 'x'",
        "update calls set call = '[]'",
        "update calls set call = replace(call, 'history', 'story')",
        "update chats set created_at = 9223372036854775807",
    ] {
        fill(store).await;
        postgres.execute(statement).await.unwrap();
        let errors = [
            store.chat(&chat("a")).await.err(),
            store.messages(&chat("a")).await.err(),
            store.summary(&chat("a"), 1).await.err(),
            store.chats(ChatQuery::new(&alice(), 1)).await.err(),
        ];
        let mut errors = errors.into_iter().flatten().peekable();
        assert!(errors.peek().is_some(), "{statement}: nothing minds");
        assert!(errors.all(|error| matches!(error, StoreError::Corrupt(_))), "{statement}");
        postgres.execute("delete from chats").await.unwrap();
    }
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_start_together_migrate_once() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    let postgres = Arc::new(postgres);
    let starting: Vec<_> = (0..4)
        .map(|_| {
            let postgres = postgres.clone();
            tokio::spawn(async move { fermata_store::migrate(&postgres.url).await.unwrap() })
        })
        .collect();
    let mut applied = 0;
    for start in starting {
        applied += usize::from(!start.await.unwrap().applied.is_empty());
    }
    assert_eq!(applied, 1);
    assert_eq!(fermata_store::migrate(&postgres.url).await.unwrap().applied, [""; 0]);
}

const AS_IT_IS: OpenOptions = OpenOptions { migrate: false, connections: 2, audit_key: None };

#[tokio::test]
async fn a_database_is_migrated_only_when_wanted() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    let error = fermata_store::open(&postgres.url, &AS_IT_IS).await.err().unwrap();
    assert!(matches!(error, OpenError::Behind { .. }), "{error}");
    assert!(error.to_string().ends_with("run fermata migrate"), "{error}");
    assert_eq!(
        postgres.number("select count(*) from pg_tables where schemaname = current_schema()").await,
        0
    );
    assert_eq!(fermata_store::migrate(&postgres.url).await.unwrap().applied, ["0001 init"]);
    let database = fermata_store::open(&postgres.url, &AS_IT_IS).await.unwrap();
    database.store.ready().await.unwrap();
    database.close().await;
}

#[tokio::test]
async fn a_newer_database_opens_unless_it_says_otherwise() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    postgres.open().await.close().await;
    postgres.execute(crate::sqlite::LATER).await.unwrap();
    let database = postgres.open().await;
    fill(&*database.store).await;
    database.close().await;
    fermata_store::open(&postgres.url, &AS_IT_IS).await.unwrap().close().await;
    postgres.execute("update schema_floor set migration = 9000").await.unwrap();
    for error in [
        fermata_store::open(&postgres.url, &AS_IT_IS).await.err(),
        fermata_store::open(&postgres.url, &OpenOptions::default()).await.err(),
        fermata_store::migrate(&postgres.url).await.err(),
    ] {
        assert!(matches!(error, Some(OpenError::Newer { migration: 9000, .. })), "{error:?}");
    }
}

#[tokio::test]
async fn a_database_from_before_the_first_release_is_refused() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    postgres.open().await.close().await;
    // Builds from before kept their migrations in this table.
    postgres.execute("create table _sqlx_migrations (version bigint)").await.unwrap();
    for error in [
        fermata_store::open(&postgres.url, &AS_IT_IS).await.err(),
        fermata_store::open(&postgres.url, &OpenOptions::default()).await.err(),
        fermata_store::migrate(&postgres.url).await.err(),
    ] {
        assert!(matches!(error, Some(OpenError::Unreleased { .. })), "{error:?}");
    }
}

/// The URL with another part for one of its own.
pub fn with(url: &str, user: &str, database: Option<&str>) -> String {
    let (_, rest) = url.split_once("://").unwrap();
    let (authority, path) = rest.split_once('/').unwrap();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("postgres://{user}:secret@{host}/{}", database.unwrap_or(path))
}

#[tokio::test]
async fn what_cannot_be_opened_says_why_in_one_line() {
    let Some(postgres) = TestDatabase::database().await else { return };
    let role = format!("fermata_store_{}", std::process::id());
    let raw = postgres.raw().await;
    raw.batch_execute(&format!("create role {role}_out nologin; create role {role}_poor login"))
        .await
        .unwrap();
    let mut errors = Vec::new();
    for url in [
        "postgres://u:secret@127.0.0.1:1/db".to_owned(),
        "postgres://u:secret@host:port/db".to_owned(),
        with(&postgres.url, &format!("{role}_out"), None),
        with(&postgres.url, &format!("{role}_poor"), None),
        with(&postgres.url, &format!("{role}_poor"), Some("fermata_no_such_database")),
    ] {
        errors.push(fermata_store::open(&url, &OpenOptions::default()).await.err().unwrap());
    }
    let drop = format!("drop role {role}_out; drop role {role}_poor");
    raw.batch_execute(&drop).await.unwrap();
    raw.close().await;
    for error in &errors {
        let words = error.to_string();
        assert!(!words.contains("secret") && !words.contains('\n'), "{words}");
    }
    let [unreachable, bad, out, poor, none] = <[OpenError; 5]>::try_from(errors).unwrap();
    assert!(matches!(unreachable, OpenError::Unreachable { .. }), "{unreachable}");
    assert!(matches!(bad, OpenError::BadUrl(_)), "{bad}");
    assert!(matches!(out, OpenError::NotLetIn { .. }), "{out}");
    assert!(matches!(poor, OpenError::NotPermitted { .. }), "{poor}");
    assert!(matches!(none, OpenError::NoDatabase { .. }), "{none}");
}

#[tokio::test]
async fn who_may_not_change_the_schema_opens_a_database_that_is_up_to_date() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    fermata_store::migrate(&postgres.url).await.unwrap();
    let role = format!("fermata_store_plain_{}", std::process::id());
    let grants = format!(
        "do $$ begin
            create role {role} login;
            execute format('grant usage on schema %I to {role}', current_schema());
            execute format('grant select, insert, update, delete on all tables in schema %I to {role}', current_schema());
         end $$"
    );
    postgres.execute(&grants).await.unwrap();
    let opened = fermata_store::open(&with(&postgres.url, &role, None), &OpenOptions::default()).await;
    if let Ok(database) = &opened {
        fill(&*database.store).await;
        database.store.join(&instance("one")).await.unwrap();
        assert_eq!(alive(&*database.store, "one").await, [instance("one")]);
        delete(&*database.store, &chat("a")).await;
        database.close().await;
    }
    postgres.execute(&format!("drop owned by {role}; drop role {role}")).await.unwrap();
    assert!(opened.is_ok(), "{:?}", opened.err());
}

#[tokio::test]
async fn instances_on_one_database_get_the_same_key_whoever_asks_first() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    let (one, two) = (postgres.open().await, postgres.open().await);
    let (first, second) = tokio::join!(one.cluster_key("first"), two.cluster_key("second"));
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(one.cluster_key("third").await.unwrap(), two.cluster_key("fourth").await.unwrap());
    one.close().await;
    two.close().await;
}
