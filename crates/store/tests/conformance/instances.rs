//! The instances that are alive, the runs that they own, and what is left to others when an instance ends.

use std::slice;

use fermata_engine::store::{Change, ChatOwner, ChatQuery, ClockMark, InstanceId, StoreError, Version};
use fermata_protocol::{ChatId, RunId};
use fermata_tools::{Owner, ResourceKey};
use jiff::Timestamp;
use serde_json::json;

use crate::{AnyStore, fixtures::*, ids};

in_every_store! {
    a_heartbeat_tells_who_is_alive
    who_was_taken_for_dead_learns_it
    how_far_time_has_come_is_known_at_the_next_start
    a_run_is_owned_by_who_is_alive
    a_run_that_is_over_has_no_owner
    a_chat_is_at_the_instance_that_owns_its_open_run
    only_an_open_run_changes_its_owner
    orphans_are_at_work_and_nobodys
    only_a_run_that_nobody_owns_is_due
    an_instance_releases_its_runs_that_wait
    going_on_with_a_run_is_no_news
    a_lock_has_one_holder
    locks_end_with_their_holder
    who_is_not_alive_takes_no_lock
    what_is_old_and_over_is_forgotten
    forgetting_is_done_in_parts
    the_log_of_a_run_that_is_over_stays_until_it_is_forgotten
}

/// Has all of them alive, even in a store that takes the one that joins for the only one.
async fn alive(store: &AnyStore, instances: &[&str]) {
    for id in instances {
        store.join(&instance(id)).await.unwrap();
    }
    for id in instances {
        store.heartbeat(&instance(id)).await.unwrap();
    }
}

async fn chat_with(store: &AnyStore, id: &str, changes: Vec<Change>) -> ChatId {
    let id = chat(id);
    let mut all = vec![create(alice())];
    all.extend(changes);
    store.commit_next(&id, Version::NONE, at(0), all).await.unwrap();
    id
}

async fn run_owner(store: &AnyStore, id: &ChatId) -> Option<String> {
    let run_owner = store.chat(id).await.unwrap().unwrap().run_owner;
    let found = store.owner_of(id).await.unwrap().unwrap();
    assert_eq!((found.owner, &found.run_owner), (alice(), &run_owner), "both queries tell the same");
    run_owner.map(|instance| instance.to_string())
}

async fn a_heartbeat_tells_who_is_alive(store: AnyStore) {
    alive(&store, &["two", "one"]).await;
    let in_order = vec![instance("two"), instance("one")];
    for id in ["one", "two", "one"] {
        let mut renewed = store.heartbeat(&instance(id)).await.unwrap();
        if !store.is_shared() {
            // Its instances follow each other in one millisecond here, and have no order.
            renewed.alive.sort_by(|one, other| other.cmp(one));
        }
        assert_eq!((renewed.was_dead, &renewed.alive), (false, &in_order));
    }
    store.leave(&instance("two")).await.unwrap();
    let renewed = store.heartbeat(&instance("one")).await.unwrap();
    assert_eq!((renewed.was_dead, renewed.alive), (false, vec![instance("one")]));
    store.leave(&instance("two")).await.unwrap();
    store.leave(&instance("nobody")).await.unwrap();
}

async fn who_was_taken_for_dead_learns_it(store: AnyStore) {
    store.join(&instance("one")).await.unwrap();
    store.join(&instance("one")).await.unwrap();
    assert!(!store.heartbeat(&instance("one")).await.unwrap().was_dead);
    store.leave(&instance("one")).await.unwrap();
    let renewed = store.heartbeat(&instance("one")).await.unwrap();
    assert_eq!((renewed.was_dead, renewed.alive), (true, vec![instance("one")]));
    assert!(!store.heartbeat(&instance("one")).await.unwrap().was_dead, "once is enough");
}

async fn how_far_time_has_come_is_known_at_the_next_start(store: AnyStore) {
    assert_eq!(store.join(&instance("one")).await.unwrap().mark, None);
    for (noted, kept) in [
        ((at(1), None), (at(1), None)),
        ((at(3), Some(at(900))), (at(3), Some(at(900)))),
        // Time does not go back, and another instance may be ahead.
        ((at(2), Some(at(901))), (at(3), Some(at(901)))),
        ((at(2), None), (at(3), None)),
    ] {
        store.note_time(ClockMark { reached: noted.0, doubted: noted.1 }).await.unwrap();
        let mark = store.join(&instance("two")).await.unwrap().mark;
        assert_eq!(mark, Some(ClockMark { reached: kept.0, doubted: kept.1 }));
    }
}

async fn a_run_is_owned_by_who_is_alive(store: AnyStore) {
    alive(&store, &["one", "two"]).await;
    let id = chat_with(&store, "a", vec![open_by("r", "one")]).await;
    assert_eq!(run_owner(&store, &id).await.as_deref(), Some("one"));
    store.leave(&instance("one")).await.unwrap();
    assert_eq!(run_owner(&store, &id).await, None);
    assert!(store.chat(&id).await.unwrap().unwrap().open_run.is_some());
    store.heartbeat(&instance("one")).await.unwrap();
    assert_eq!(run_owner(&store, &id).await.as_deref(), Some("one"), "nobody has resumed it meanwhile");
    commit_at(&*store, &id, at(1), vec![set_run_owner("r", Some("two"))]).await.unwrap();
    assert_eq!(run_owner(&store, &id).await.as_deref(), Some("two"));
    commit_at(&*store, &id, at(2), vec![set_run_owner("r", None)]).await.unwrap();
    assert_eq!(run_owner(&store, &id).await, None);
}

async fn a_run_that_is_over_has_no_owner(store: AnyStore) {
    alive(&store, &["one"]).await;
    let id = chat_with(&store, "a", vec![open("r")]).await;
    commit_at(&*store, &id, at(1), vec![close("r")]).await.unwrap();
    assert_eq!(run_owner(&store, &id).await, None);
    assert_eq!(runs_elsewhere(&*store, &alice(), "two").await, 0);
    assert_eq!(store.orphans(9).await.unwrap(), []);
}

async fn a_chat_is_at_the_instance_that_owns_its_open_run(store: AnyStore) {
    alive(&store, &["one", "two"]).await;
    assert_eq!(store.owner_of(&chat("a")).await.unwrap(), None, "there is no such chat");
    let id = chat_with(&store, "a", vec![]).await;
    let at_instance = |id: Option<&str>, run: Option<&str>| {
        let (owner, run_owner, created_at) = (alice(), id.map(InstanceId::new), at(0));
        Some(ChatOwner { owner, run_owner, created_at, open_run: run.map(RunId::new) })
    };
    assert_eq!(store.owner_of(&id).await.unwrap(), at_instance(None, None), "it has no run");
    commit_at(&*store, &id, at(1), vec![open_by("r", "one"), close("r"), open_by("s", "two")]).await.unwrap();
    assert_eq!(store.owner_of(&id).await.unwrap(), at_instance(Some("two"), Some("s")));
    store.leave(&instance("two")).await.unwrap();
    assert_eq!(store.owner_of(&id).await.unwrap(), at_instance(None, Some("s")), "its instance has ended");
    commit_at(&*store, &id, at(2), vec![set_run_owner("s", Some("one"))]).await.unwrap();
    assert_eq!(store.owner_of(&id).await.unwrap(), at_instance(Some("one"), Some("s")));
    commit_at(&*store, &id, at(3), vec![close("s")]).await.unwrap();
    assert_eq!(store.owner_of(&id).await.unwrap(), at_instance(None, None), "its runs are over");
    delete(&*store, &id).await;
    assert_eq!(store.owner_of(&id).await.unwrap(), None, "it was deleted");
}

async fn only_an_open_run_changes_its_owner(store: AnyStore) {
    let id = chat_with(&store, "a", vec![open("r"), close("r")]).await;
    for change in [
        set_run_owner("r", Some("one")),
        set_run_owner("r", None),
        set_run_owner("x", Some("one")),
        wait("r", None, None),
    ] {
        let result = commit_at(&*store, &id, at(1), vec![change]).await;
        assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
    }
}

async fn orphans_are_at_work_and_nobodys(store: AnyStore) {
    alive(&store, &["one", "two"]).await;
    for (id, second, changes) in [
        ("owned", 0, vec![open_by("r", "two")]),
        ("waits", 1, vec![open_by("r", "gone"), wait("r", None, None)]),
        ("over", 2, vec![open_by("r", "gone"), close("r")]),
        ("quiet", 3, vec![]),
        ("let-go", 5, vec![open_by("r", "two"), set_run_owner("r", None)]),
        ("b", 4, vec![open_by("r", "gone")]),
        ("a", 4, vec![open_by("r", "gone"), wait("r", None, None), save("r", json!(1), None)]),
        ("last", 6, vec![open_by("r", "one")]),
    ] {
        let all = [vec![create(alice())], changes].concat();
        store.commit_next(&chat(id), Version::NONE, at(second), all).await.unwrap();
    }
    let orphans = async |limit| store.orphans(limit).await.unwrap();
    assert_eq!(orphans(9).await, ["a", "b", "let-go"].map(chat), "the oldest run comes first");
    assert_eq!(orphans(2).await, ["a", "b"].map(chat));
    assert_eq!(orphans(0).await, []);
    store.leave(&instance("one")).await.unwrap();
    assert_eq!(orphans(9).await, ["a", "b", "let-go", "last"].map(chat));
    commit_at(&*store, &chat("a"), at(9), vec![set_run_owner("r", Some("two"))]).await.unwrap();
    assert_eq!(orphans(9).await, ["b", "let-go", "last"].map(chat));
}

async fn only_a_run_that_nobody_owns_is_due(store: AnyStore) {
    alive(&store, &["one"]).await;
    let waits = |owner| vec![open_by("r", owner), wait("r", Some(owner), Some(at(5)))];
    chat_with(&store, "here", waits("one")).await;
    chat_with(&store, "left", waits("gone")).await;
    chat_with(&store, "at-work", vec![open_by("r", "gone"), save("r", json!(1), Some(at(3)))]).await;
    let due = async || store.due(at(9), 9).await.unwrap();
    assert_eq!(due().await, ["at-work", "left"].map(chat));
    store.leave(&instance("one")).await.unwrap();
    assert_eq!(due().await, ["at-work", "here", "left"].map(chat));
}

async fn an_instance_releases_its_runs_that_wait(store: AnyStore) {
    alive(&store, &["one", "two"]).await;
    let waits = |owner| vec![open_by("r", owner), wait("r", Some(owner), Some(at(5)))];
    let mine = chat_with(&store, "a", waits("one")).await;
    let at_work = chat_with(&store, "b", vec![open_by("r", "one")]).await;
    let theirs = chat_with(&store, "c", waits("two")).await;
    let known = version(&*store, &mine).await;
    store.release(&instance("one")).await.unwrap();
    assert_eq!(run_owner(&store, &mine).await, None);
    assert_eq!(run_owner(&store, &at_work).await.as_deref(), Some("one"));
    assert_eq!(run_owner(&store, &theirs).await.as_deref(), Some("two"));
    assert_eq!(
        (store.due(at(9), 9).await.unwrap(), store.orphans(9).await.unwrap()),
        (vec![mine.clone()], vec![])
    );
    assert_eq!(version(&*store, &mine).await, known, "nobody has to read it again");
}

fn resource(name: &str, owner: Option<Owner>) -> ResourceKey {
    ResourceKey { named_by: fermata_tools::NamedBy::Settings, name: name.into(), owner }
}

async fn a_lock_has_one_holder(store: AnyStore) {
    alive(&store, &["one", "two"]).await;
    let (one, two) = (instance("one"), instance("two"));
    let key = resource("file", None);
    for _ in 0..2 {
        assert!(store.try_lock(&key, &one).await.unwrap(), "who has it, has it");
    }
    assert!(!store.try_lock(&key, &two).await.unwrap());
    for other in [resource("file", Some(alice())), resource("file", Some(bob())), resource("file2", None)] {
        assert!(store.try_lock(&other, &two).await.unwrap(), "{other:?} is another one");
    }
    assert_eq!(store.locks_of(&one).await.unwrap(), slice::from_ref(&key));
    assert_eq!(store.locks_of(&two).await.unwrap().len(), 3);
    store.unlock(&key, &two).await.unwrap();
    assert!(!store.try_lock(&key, &two).await.unwrap(), "only its holder gives it back");
    store.unlock(&key, &one).await.unwrap();
    store.unlock(&key, &one).await.unwrap();
    let takers: Vec<_> = (0..20)
        .map(|n| {
            let (store, key, taker) = (store.clone(), key.clone(), [one.clone(), two.clone()][n % 2].clone());
            tokio::spawn(async move { store.try_lock(&key, &taker).await.unwrap() })
        })
        .collect();
    let mut taken = 0;
    for taker in takers {
        taken += usize::from(taker.await.unwrap());
    }
    assert_eq!(taken, 10, "all of one instance");
}

async fn going_on_with_a_run_is_no_news(store: AnyStore) {
    chat_with(&store, "b", vec![open_by("r", "one")]).await;
    commit_at(&*store, &chat("a"), at(1), vec![create(alice())]).await.unwrap();
    let going_on = vec![wait("r", None, None), append("r", 1, &["1"]), set_run_owner("r", Some("two"))];
    commit_at(&*store, &chat("b"), at(2), going_on).await.unwrap();
    assert_eq!(ids(&store.chats(ChatQuery::new(&alice(), 10)).await.unwrap()), ["a", "b"]);
    commit_at(&*store, &chat("b"), at(3), vec![close("r")]).await.unwrap();
    assert_eq!(ids(&store.chats(ChatQuery::new(&alice(), 10)).await.unwrap()), ["a", "b"]);
    commit_at(&*store, &chat("b"), at(4), vec![Change::Touched]).await.unwrap();
    assert_eq!(ids(&store.chats(ChatQuery::new(&alice(), 10)).await.unwrap()), ["b", "a"]);
}

async fn locks_end_with_their_holder(store: AnyStore) {
    alive(&store, &["one", "two"]).await;
    let (one, two) = (instance("one"), instance("two"));
    let keys = [resource("a", None), resource("b", None)];
    for key in &keys {
        assert!(store.try_lock(key, &one).await.unwrap());
    }
    store.leave(&one).await.unwrap();
    for key in &keys {
        assert!(store.try_lock(key, &two).await.unwrap());
    }
    store.heartbeat(&one).await.unwrap();
    store.unlock(&keys[0], &one).await.unwrap();
    assert!(!store.try_lock(&keys[0], &one).await.unwrap(), "it is another's now");
}

async fn who_is_not_alive_takes_no_lock(store: AnyStore) {
    let (one, key) = (instance("one"), resource("a", None));
    assert!(!store.try_lock(&key, &one).await.unwrap());
    store.join(&one).await.unwrap();
    assert!(store.try_lock(&key, &one).await.unwrap());
    store.leave(&one).await.unwrap();
    assert!(!store.try_lock(&key, &one).await.unwrap());
}

async fn what_is_old_and_over_is_forgotten(store: AnyStore) {
    let full = vec![
        put(user("1", "one")),
        open("r"),
        put_call("r", &call("c", awaiting_approval())),
        confirm("r", "tool", true, true),
        append("r", 1, &["1"]),
        close("r"),
    ];
    for (id, second, changes) in [
        ("c", 3, full.clone()),
        ("a", 1, full),
        ("b", 2, vec![open("r")]),
        ("edge", 10, vec![]),
        ("new", 11, vec![]),
    ] {
        let all = [vec![create(alice())], changes].concat();
        store.commit_next(&chat(id), Version::NONE, at(second), all).await.unwrap();
    }
    let left = async || {
        let page = store.chats(ChatQuery::new(&alice(), 9)).await.unwrap();
        page.chats.into_iter().map(|chat| chat.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(store.forget(Timestamp::MIN, 9).await.unwrap(), 0);
    assert_eq!(store.forget(at(10), 0).await.unwrap(), 0);
    assert_eq!(store.forget(at(10), 1).await.unwrap(), 1);
    assert_eq!(left().await, ["new", "edge", "c", "b"], "the oldest goes first");
    assert_eq!(store.forget(at(10), 9).await.unwrap(), 1);
    assert_eq!(left().await, ["new", "edge", "b"], "a run that is open keeps its chat");
    assert_eq!(store.forget(at(10), 9).await.unwrap(), 0);
    assert_eq!(version(&*store, &chat("a")).await, Version::NONE, "its id is free");
}

async fn forgetting_is_done_in_parts(store: AnyStore) {
    for n in 0..120 {
        store
            .commit_next(&chat(&format!("chat-{n}")), Version::NONE, at(n), vec![create(alice())])
            .await
            .unwrap();
    }
    assert_eq!(store.forget(at(110), 105).await.unwrap(), 105);
    assert_eq!(store.forget(at(110), usize::MAX).await.unwrap(), 5);
    assert_eq!(store.chats(ChatQuery::new(&alice(), 99)).await.unwrap().chats.len(), 10);
}

async fn the_log_of_a_run_that_is_over_stays_until_it_is_forgotten(store: AnyStore) {
    let id =
        chat_with(&store, "a", vec![open("r"), append("r", 1, &["1", "2"]), append("r", 7, &["3"])]).await;
    let log = async |id: &ChatId, name: &str| store.finished_log(id, &run(name)).await.unwrap();
    assert_eq!(log(&id, "r").await, None, "it is open");
    commit_at(
        &*store,
        &id,
        at(5),
        vec![close("r"), open("empty"), close("empty"), open("s"), append("s", 1, &["4"])],
    )
    .await
    .unwrap();
    commit_at(&*store, &id, at(8), vec![close("s")]).await.unwrap();
    let places = [(1, "1"), (2, "2"), (7, "3")].map(|(place, text)| (place, text.to_owned()));
    assert_eq!(log(&id, "r").await.as_deref(), Some(places.as_slice()));
    assert_eq!(
        (log(&id, "empty").await, log(&id, "x").await, log(&chat("b"), "r").await),
        (None, None, None)
    );
    assert_eq!(store.forget_logs(at(5), 9).await.unwrap(), 0);
    assert_eq!(store.forget_logs(at(9), 0).await.unwrap(), 0);
    assert_eq!(store.forget_logs(at(6), 9).await.unwrap(), 1);
    assert_eq!((log(&id, "r").await, log(&id, "s").await), (None, Some(vec![(1, "4".to_owned())])));
    assert_eq!(store.forget_logs(at(9), 9).await.unwrap(), 1);
    assert_eq!((log(&id, "s").await, store.forget_logs(at(9), 9).await.unwrap()), (None, 0));
}
