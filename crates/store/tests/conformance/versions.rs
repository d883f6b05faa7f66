//! The versions of chats: a writer that does not know the newest one is refused.

use std::{collections::BTreeSet, sync::Arc};

use fermata_engine::store::{ChatQuery, StoreError, Version};

use crate::{AnyStore, fixtures::*, owner};

in_every_store! {
    a_commit_gives_the_chat_its_version
    who_is_behind_or_ahead_changes_nothing
    a_chat_that_is_there_is_not_made_again
    a_chat_that_is_not_there_is_not_changed
    only_who_knows_a_chat_as_it_is_deletes_it
    of_many_with_the_same_version_one_wins
    of_many_that_make_a_chat_one_does
    many_that_read_again_write_one_after_the_other
    the_version_is_read_without_the_chat
    a_commit_that_is_repeated_is_made_once
    a_chat_that_was_made_again_is_another_one
}

async fn a_commit_gives_the_chat_its_version(store: AnyStore) {
    let id = chat("a");
    let made = store.commit_next(&id, Version::NONE, at(0), vec![create(alice()), open("r")]).await.unwrap();
    assert_eq!(store.chat(&id).await.unwrap().unwrap().head.version, made);
    let next = store.commit_next(&id, made, at(1), vec![put(user("1", "one")), close("r")]).await.unwrap();
    assert_eq!(version(&*store, &id).await, next);
    for known in [Version::NONE, made, next, Version(77)] {
        assert_eq!(
            store.commit_next(&id, known, at(9), vec![]).await.unwrap(),
            known,
            "nothing is asked of it"
        );
    }
    assert_eq!(version(&*store, &id).await, next);
}

async fn who_is_behind_or_ahead_changes_nothing(store: AnyStore) {
    let id = chat("a");
    let made = store.commit_next(&id, Version::NONE, at(0), vec![create(alice()), open("r")]).await.unwrap();
    store.commit_next(&id, made, at(1), vec![put(user("1", "one"))]).await.unwrap();
    let before = (store.chat(&id).await.unwrap(), store.chats(ChatQuery::new(&alice(), 9)).await.unwrap());
    for other in [Version::NONE, made, new_version(), Version(i64::MAX as u64), Version(u64::MAX)] {
        for changes in [vec![put(user("2", "two"))], vec![close("r")], vec![append("r", 0, &["misfit"])]] {
            let result = store.commit_next(&id, other, at(5), changes).await;
            assert_eq!(result, Err(StoreError::Fenced), "{other:?}");
        }
    }
    let after = (store.chat(&id).await.unwrap(), store.chats(ChatQuery::new(&alice(), 9)).await.unwrap());
    assert_eq!(after, before);
    assert_eq!(store.messages(&id).await.unwrap().len(), 1);
}

async fn a_chat_that_is_there_is_not_made_again(store: AnyStore) {
    let id = chat("a");
    let made = store.commit_next(&id, Version::NONE, at(0), vec![create(alice())]).await.unwrap();
    let again = async |version, changes| store.commit_next(&id, version, at(1), changes).await;
    assert_eq!(again(Version::NONE, vec![create(bob())]).await, Err(StoreError::Fenced));
    assert!(matches!(again(made, vec![create(bob())]).await, Err(StoreError::Conflict(_))));
    assert!(matches!(again(made, vec![open("r"), create(bob())]).await, Err(StoreError::Conflict(_))));
    assert_eq!((owner(&store, &id).await, version(&*store, &id).await), (Some(alice()), made));
}

async fn a_chat_that_is_not_there_is_not_changed(store: AnyStore) {
    let id = chat("a");
    for known in [Version(1), Version(7), Version(u64::MAX)] {
        for changes in [vec![put(user("1", "one"))], vec![create(alice())]] {
            assert_eq!(store.commit_next(&id, known, at(0), changes).await, Err(StoreError::Fenced));
        }
    }
    let unknown = store.commit_next(&id, Version::NONE, at(0), vec![put(user("1", "one"))]).await;
    assert!(matches!(unknown, Err(StoreError::Conflict(_))), "{unknown:?}");
    assert_eq!(store.chat(&id).await.unwrap(), None);
}

async fn only_who_knows_a_chat_as_it_is_deletes_it(store: AnyStore) {
    let id = chat("a");
    for known in [Version::NONE, Version(1)] {
        store.delete(&id, known, at(9), Vec::new()).await.unwrap();
    }
    let made = store.commit_next(&id, Version::NONE, at(0), vec![create(alice())]).await.unwrap();
    let now = store.commit_next(&id, made, at(0), vec![open("r")]).await.unwrap();
    for other in [Version::NONE, made, new_version(), Version(u64::MAX)] {
        assert_eq!(store.delete(&id, other, at(9), Vec::new()).await, Err(StoreError::Fenced));
    }
    assert_eq!(version(&*store, &id).await, now);
    store.delete(&id, now, at(9), Vec::new()).await.unwrap();
    assert_eq!(store.chat(&id).await.unwrap(), None);
}

async fn of_many_with_the_same_version_one_wins(store: AnyStore) {
    let id = chat("a");
    let mut known = store.commit_next(&id, Version::NONE, at(0), vec![create(alice())]).await.unwrap();
    for round in 0..5 {
        let writers: Vec<_> = (0..20)
            .map(|n| {
                let (store, id) = (store.clone(), id.clone());
                let changes = vec![put(user(&format!("{round}-{n}"), "mine"))];
                tokio::spawn(async move { store.commit_next(&id, known, at(n), changes).await })
            })
            .collect();
        let mut won = 0;
        for writer in writers {
            match writer.await.unwrap() {
                Ok(next) => (won, known) = (won + 1, next),
                Err(error) => assert_eq!(error, StoreError::Fenced),
            }
        }
        assert_eq!((won, store.messages(&id).await.unwrap().len()), (1, round + 1));
        assert_eq!(version(&*store, &id).await, known);
    }
}

async fn of_many_that_make_a_chat_one_does(store: AnyStore) {
    for round in 0..5 {
        let id = chat(&format!("chat-{round}"));
        let writers: Vec<_> = (0..20)
            .map(|n| {
                let (store, id) = (store.clone(), id.clone());
                let changes = vec![create(alice()), put(user(&n.to_string(), "mine"))];
                tokio::spawn(async move { store.commit_next(&id, Version::NONE, at(n), changes).await })
            })
            .collect();
        let mut results = Vec::new();
        for writer in writers {
            results.push(writer.await.unwrap());
        }
        results.sort_by_key(Result::is_err);
        assert_eq!(results[0], Ok(version(&*store, &id).await));
        assert!(results[1..].iter().all(|result| *result == Err(StoreError::Fenced)), "{results:?}");
        assert_eq!(store.messages(&id).await.unwrap().len(), 1);
    }
}

async fn many_that_read_again_write_one_after_the_other(store: AnyStore) {
    let id = chat("a");
    store.commit_next(&id, Version::NONE, at(0), vec![create(alice())]).await.unwrap();
    let writers: Vec<_> = (0..20)
        .map(|n| {
            let (store, id) = (store.clone(), id.clone());
            tokio::spawn(async move {
                loop {
                    let known = version(&*store, &id).await;
                    match store.commit_next(&id, known, at(n), vec![put(user(&n.to_string(), "mine"))]).await
                    {
                        Ok(next) => return next,
                        Err(error) => assert_eq!(error, StoreError::Fenced),
                    }
                }
            })
        })
        .collect();
    let mut versions = BTreeSet::new();
    for writer in writers {
        versions.insert(writer.await.unwrap());
    }
    assert_eq!(versions.len(), 20);
    assert_eq!(store.messages(&id).await.unwrap().len(), 20);
}

async fn the_version_is_read_without_the_chat(store: AnyStore) {
    let (id, other) = (chat("a"), chat("b"));
    assert_eq!(store.version(&id).await.unwrap(), None, "there is no such chat");
    let made = store.commit_next(&id, Version::NONE, at(0), vec![create(alice())]).await.unwrap();
    assert_eq!(store.version(&id).await.unwrap(), Some(made), "it has no run");
    let opened = store.commit_next(&id, made, at(0), vec![open("r")]).await.unwrap();
    assert_eq!(store.version(&id).await.unwrap(), Some(opened));
    store.commit_next(&id, made, at(0), vec![close("r")]).await.unwrap_err();
    assert_eq!(store.version(&id).await.unwrap(), Some(opened), "a commit that was fenced raises nothing");
    let closed = store.commit_next(&id, opened, at(0), vec![close("r")]).await.unwrap();
    assert_eq!(store.version(&id).await.unwrap(), Some(closed));
    assert_eq!(store.version(&other).await.unwrap(), None);
    store.delete(&id, closed, at(9), Vec::new()).await.unwrap();
    assert_eq!(store.version(&id).await.unwrap(), None, "it was deleted");
}

async fn a_commit_that_is_repeated_is_made_once(store: AnyStore) {
    let id = chat("a");
    let (made, opened, later) = (new_version(), new_version(), new_version());
    let create: Arc<[_]> = [create(alice()), open("r")].into();
    for _ in 0..3 {
        store.commit(&id, Version::NONE, made, at(0), create.clone()).await.unwrap();
    }
    let append: Arc<[_]> = [append("r", 1, &["one"]), put(user("1", "one"))].into();
    for _ in 0..3 {
        store.commit(&id, made, opened, at(1), append.clone()).await.unwrap();
    }
    assert_eq!(version(&*store, &id).await, opened);
    assert_eq!(store.chat(&id).await.unwrap().unwrap().open_run.unwrap().texts(), ["one"]);
    assert_eq!(store.messages(&id).await.unwrap().len(), 1);
    // Somebody else has written since: a caller that repeats it now learns that it is out of date.
    store.commit(&id, opened, later, at(2), [close("r")].into()).await.unwrap();
    assert_eq!(store.commit(&id, made, opened, at(1), append.clone()).await, Err(StoreError::Fenced));
    assert_eq!(store.commit(&id, Version::NONE, made, at(0), create.clone()).await, Err(StoreError::Fenced));
}

async fn a_chat_that_was_made_again_is_another_one(store: AnyStore) {
    let id = chat("a");
    let first = store.commit_next(&id, Version::NONE, at(0), vec![create(alice())]).await.unwrap();
    store.delete(&id, first, at(9), Vec::new()).await.unwrap();
    let second = store.commit_next(&id, Version::NONE, at(1), vec![create(alice())]).await.unwrap();
    let late = store.commit_next(&id, first, at(2), vec![put(user("1", "late"))]).await;
    assert_eq!(
        (late, store.delete(&id, first, at(9), Vec::new()).await),
        (Err(StoreError::Fenced), Err(StoreError::Fenced))
    );
    assert_eq!(version(&*store, &id).await, second);
}
