//! The size of chats, and what is stored for an owner.

use fermata_engine::store::{AnswerRoute, Change, OwnerUsage, StoreError, Version, WantedUsage, json_bytes};
use fermata_protocol::{ChatId, Role, UiMessage};

use crate::{AnyStore, fixtures::*};

in_every_store! {
    a_chat_knows_how_large_it_is
    a_run_knows_how_large_its_message_is_in_the_chat
    a_change_that_fails_leaves_the_size_as_it_was
    what_is_stored_for_an_owner_is_counted
    what_is_deleted_and_forgotten_makes_room
    runs_that_this_instance_does_not_own_are_counted
    nothing_is_counted_beyond_what_is_asked_for
    what_an_owners_client_has_shown_is_kept
}

async fn bytes(store: &AnyStore, id: &ChatId) -> usize {
    store.chat(id).await.unwrap().unwrap().head.bytes
}

fn sum(messages: &[UiMessage]) -> usize {
    messages.iter().map(json_bytes).sum()
}

async fn usage(store: &AnyStore, owner: fermata_tools::Owner) -> (usize, usize) {
    let wanted = WantedUsage { chats: Some(usize::MAX), bytes: true, runs_elsewhere: None };
    let usage = store.usage(&owner, &instance("one"), wanted).await.unwrap();
    assert_eq!(usage.runs_elsewhere, 0, "nobody has asked");
    (usage.chats, usage.bytes)
}

async fn a_chat_knows_how_large_it_is(store: AnyStore) {
    let id = chat("a");
    let said = [user("1", "Grüße \u{0} \u{1f980}"), user("2", &"x".repeat(100_000)), user("3", "three")];
    commit_at(&*store, &id, at(0), vec![create(alice())]).await.unwrap();
    assert_eq!(bytes(&store, &id).await, 0);
    commit_at(&*store, &id, at(1), said.clone().map(put).to_vec()).await.unwrap();
    assert_eq!(bytes(&store, &id).await, sum(&said));
    let shorter = user("2", "two");
    commit_at(&*store, &id, at(2), vec![put(shorter.clone()), put(said[2].clone())]).await.unwrap();
    assert_eq!(bytes(&store, &id).await, sum(&[said[0].clone(), shorter, said[2].clone()]));
    let last = user("4", "ü");
    let changes = vec![Change::TruncateMessages { keep: 1 }, put(last.clone())];
    commit_at(&*store, &id, at(3), changes).await.unwrap();
    assert_eq!(bytes(&store, &id).await, sum(&[said[0].clone(), last]));
    commit_at(&*store, &id, at(4), vec![Change::TruncateMessages { keep: 0 }]).await.unwrap();
    assert_eq!(bytes(&store, &id).await, 0);
}

async fn a_run_knows_how_large_its_message_is_in_the_chat(store: AnyStore) {
    let id = chat("a");
    let message_bytes = async || store.chat(&id).await.unwrap().unwrap().open_run.unwrap().message_bytes;
    commit_at(&*store, &id, at(0), vec![create(alice()), put(user("1", "one")), open("r")]).await.unwrap();
    assert_eq!(message_bytes().await, 0);
    let answer = message("answer", Role::Assistant, "ü");
    commit_at(&*store, &id, at(1), vec![put(answer.clone())]).await.unwrap();
    assert_eq!(message_bytes().await, json_bytes(&answer));
}

async fn a_change_that_fails_leaves_the_size_as_it_was(store: AnyStore) {
    let id = chat("a");
    commit_at(&*store, &id, at(0), vec![create(alice()), put(user("1", "one"))]).await.unwrap();
    let failed = commit_at(&*store, &id, at(1), vec![put(user("2", "two")), close("none")]).await;
    assert!(matches!(failed, Err(StoreError::Conflict(_))), "{failed:?}");
    assert_eq!(bytes(&store, &id).await, json_bytes(&user("1", "one")));
}

async fn what_is_stored_for_an_owner_is_counted(store: AnyStore) {
    assert_eq!(usage(&store, alice()).await, (0, 0));
    let (one, two) = (user("1", "one"), user("2", "zwölf"));
    for (id, owner, said) in [
        ("a", alice(), vec![one.clone()]),
        ("b", alice(), vec![]),
        ("c", alice(), vec![one.clone(), two.clone()]),
        ("d", bob(), vec![two.clone()]),
    ] {
        let changes = [vec![create(owner)], said.into_iter().map(put).collect()].concat();
        store.commit_next(&chat(id), Version::NONE, at(0), changes).await.unwrap();
    }
    assert_eq!(usage(&store, alice()).await, (3, sum(&[one.clone(), one, two.clone()])));
    assert_eq!(usage(&store, bob()).await, (1, json_bytes(&two)));
}

async fn what_is_deleted_and_forgotten_makes_room(store: AnyStore) {
    let said = user("1", "one");
    for (n, id) in (0..).zip(["a", "b", "c"]) {
        let changes = vec![create(alice()), put(said.clone())];
        store.commit_next(&chat(id), Version::NONE, at(n), changes).await.unwrap();
    }
    delete(&*store, &chat("c")).await;
    assert_eq!(usage(&store, alice()).await, (2, 2 * json_bytes(&said)));
    store.forget(at(1), 9).await.unwrap();
    assert_eq!(usage(&store, alice()).await, (1, json_bytes(&said)));
}

async fn runs_that_this_instance_does_not_own_are_counted(store: AnyStore) {
    for id in ["one", "two"] {
        store.join(&instance(id)).await.unwrap();
    }
    for (id, owner, changes) in [
        ("a", alice(), vec![open_by("r", "one")]),
        ("b", alice(), vec![open_by("r", "two")]),
        ("c", alice(), vec![open_by("r", "two"), wait("r", Some("two"), None)]),
        ("d", alice(), vec![open_by("r", "gone")]),
        ("e", alice(), vec![open_by("r", "two"), close("r")]),
        ("f", alice(), vec![open_by("r", "one"), wait("r", None, None)]),
        ("g", bob(), vec![open_by("r", "two")]),
    ] {
        store
            .commit_next(&chat(id), Version::NONE, at(0), [vec![create(owner)], changes].concat())
            .await
            .unwrap();
    }
    let elsewhere = async |owner, id: &str| runs_elsewhere(&*store, &owner, id).await;
    assert_eq!(
        elsewhere(alice(), "one").await,
        4,
        "two of another, one of an instance that is gone, one of nobody"
    );
    assert_eq!(elsewhere(alice(), "two").await, 3);
    assert_eq!((elsewhere(bob(), "one").await, elsewhere(bob(), "two").await), (1, 0));
    store.leave(&instance("two")).await.unwrap();
    assert_eq!(elsewhere(alice(), "one").await, 4, "they are open, whoever goes on with them");
}

async fn nothing_is_counted_beyond_what_is_asked_for(store: AnyStore) {
    for id in ["a", "b", "c"] {
        let changes = vec![create(alice()), put(user("1", "one")), open("r")];
        store.commit_next(&chat(id), Version::NONE, at(0), changes).await.unwrap();
    }
    let wanted = WantedUsage { chats: Some(2), bytes: false, runs_elsewhere: Some(1) };
    let usage = store.usage(&alice(), &instance("other"), wanted).await.unwrap();
    assert_eq!(usage, OwnerUsage { chats: 2, bytes: 0, runs_elsewhere: 1 });
}

async fn what_an_owners_client_has_shown_is_kept(store: AnyStore) {
    let id = chat("a");
    commit_at(&*store, &id, at(0), vec![create(alice())]).await.unwrap();
    assert_eq!(store.answer_route(&alice()).await.unwrap(), None);
    let (repost, result) = (AnswerRoute::Repost, AnswerRoute::ToolResult);
    for (second, route) in [(1, repost), (2, repost), (3, result), (4, result), (5, repost), (6, result)] {
        let answered = Change::Answered { owner: alice(), route };
        commit_at(&*store, &id, at(second), vec![answered]).await.unwrap();
        assert_eq!(store.answer_route(&alice()).await.unwrap(), Some(route));
    }
    assert_eq!(store.answer_route(&bob()).await.unwrap(), None);
    let version = store.version(&id).await.unwrap().unwrap();
    store.delete(&id, version, at(9), Vec::new()).await.unwrap();
    assert_eq!(
        store.answer_route(&alice()).await.unwrap(),
        Some(result),
        "it is about the owner, not about the chat"
    );
}
