//! Summaries of chats, the times when they are due, and what the last post of a chat asked for.

use std::collections::BTreeSet;

use fermata_engine::store::{Change, ChatQuery};
use fermata_protocol::{ChatId, RunStatus, Show, Stage};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{AnyStore, commit, fixtures::*};

in_every_store! {
    the_summary_of_the_most_messages_counts
    a_summary_goes_with_the_messages_that_it_covers
    a_summary_that_is_put_again_is_replaced
    a_chat_is_listed_when_its_summary_is_due
    what_the_last_post_asked_for_is_kept
    the_status_of_a_run_is_kept_and_listed_for_a_client_that_asks
}

async fn newest(store: &AnyStore, id: &ChatId) -> Option<usize> {
    store.summary(id, usize::MAX).await.unwrap().map(|summary| summary.messages)
}

async fn the_summary_of_the_most_messages_counts(store: AnyStore) {
    let id = chat("a");
    assert_eq!(store.summary(&id, usize::MAX).await.unwrap(), None);
    commit(&store, &id, vec![create(alice())]).await;
    assert_eq!(store.chat(&id).await.unwrap().unwrap().head.messages, 0);
    for count in 1..=5 {
        commit(&store, &id, vec![put(user(&format!("m{count}"), "words"))]).await;
        assert_eq!(store.chat(&id).await.unwrap().unwrap().head.messages, count);
    }
    let content = json!({"goal": "Grüße \u{0} \u{1f980}"});
    commit(&store, &id, vec![put_summary(4, content.clone()), put_summary(2, Value::Null)]).await;
    assert_eq!(store.summary(&id, usize::MAX).await.unwrap(), Some(summary(4, content.clone())));
    assert_eq!(store.summary(&id, 4).await.unwrap(), Some(summary(4, content)));
    assert_eq!(store.summary(&id, 3).await.unwrap(), Some(summary(2, Value::Null)));
    assert_eq!(store.summary(&id, 1).await.unwrap(), None);
    assert_eq!(store.summary(&chat("b"), usize::MAX).await.unwrap(), None);
}

async fn a_summary_goes_with_the_messages_that_it_covers(store: AnyStore) {
    let id = chat("a");
    commit(&store, &id, vec![create(alice())]).await;
    commit(&store, &id, (1..=5).map(|count| put(user(&format!("m{count}"), "words"))).collect()).await;
    commit(&store, &id, vec![put_summary(2, Value::Null), put_summary(4, Value::Null)]).await;
    commit(&store, &id, vec![Change::TruncateMessages { keep: 4 }]).await;
    assert_eq!(newest(&store, &id).await, Some(4), "everything that it covers is there");
    commit(&store, &id, vec![Change::TruncateMessages { keep: 3 }]).await;
    assert_eq!(newest(&store, &id).await, Some(2));
    delete(&*store, &id).await;
    assert_eq!(newest(&store, &id).await, None);
}

async fn a_summary_that_is_put_again_is_replaced(store: AnyStore) {
    let id = chat("a");
    commit(&store, &id, vec![create(alice()), put_summary(2, json!("first"))]).await;
    commit(&store, &id, vec![put_summary(2, json!("second"))]).await;
    assert_eq!(store.summary(&id, 2).await.unwrap(), Some(summary(2, json!("second"))));
}

async fn a_chat_is_listed_when_its_summary_is_due(store: AnyStore) {
    let due = async |now: Timestamp, limit: usize| {
        let chats = store.due_summaries(now, limit).await.unwrap();
        chats.iter().map(|(chat, owner)| format!("{chat} of {owner}")).collect::<Vec<_>>()
    };
    let schedule = |due| vec![Change::ScheduleSummary { due }];
    for id in ["a", "b", "c"] {
        commit(&store, &chat(id), vec![create(alice())]).await;
    }
    assert_eq!(due(Timestamp::MAX, 10).await, [""; 0]);
    commit(&store, &chat("a"), schedule(Some(at(3)))).await;
    commit(&store, &chat("b"), schedule(Some(at(2)))).await;
    assert_eq!(due(at(1), 10).await, [""; 0]);
    assert_eq!(due(at(2), 10).await, ["b of alice"]);
    assert_eq!(due(at(3), 10).await, ["b of alice", "a of alice"]);
    assert_eq!(due(at(3), 1).await, ["b of alice"]);
    commit(&store, &chat("b"), schedule(Some(at(9)))).await;
    assert_eq!(due(at(3), 10).await, ["a of alice"]);
    commit(&store, &chat("a"), schedule(None)).await;
    delete(&*store, &chat("b")).await;
    assert_eq!(due(Timestamp::MAX, 10).await, [""; 0]);
}

async fn the_status_of_a_run_is_kept_and_listed_for_a_client_that_asks(store: AnyStore) {
    let id = chat("a");
    commit(&store, &id, vec![create(alice())]).await;
    let kept = async || store.chat(&id).await.unwrap().unwrap().head.status;
    let listed = async || store.chats(ChatQuery::new(&alice(), 10)).await.unwrap().chats.remove(0).status;
    assert_eq!((kept().await, listed().await), (RunStatus::default(), None));
    commit(&store, &id, vec![Change::PutShow { show: BTreeSet::from([Show::Run]) }]).await;
    assert_eq!(listed().await, Some(RunStatus::default()));
    for stage in Stage::ALL {
        let status = RunStatus {
            waits_for: None,
            stage,
            takes_reply: false,
            gate_closed: false,
            requires_confirm: stage == Stage::ToolCall,
            confirm_words: Vec::new(),
            last_tool: Some("a\0b".into()),
            last_result: Some("\u{0} \u{1a} \u{1f980}".into()),
        };
        commit(&store, &id, vec![Change::PutStatus { status: status.clone() }]).await;
        assert_eq!((kept().await, listed().await), (status.clone(), Some(status)));
    }
    commit(&store, &id, vec![Change::PutStatus { status: RunStatus::default() }]).await;
    assert_eq!(kept().await, RunStatus::default());
}

async fn what_the_last_post_asked_for_is_kept(store: AnyStore) {
    let id = chat("a");
    commit(&store, &id, vec![create(alice())]).await;
    let shown = async || store.chat(&id).await.unwrap().unwrap().head.show;
    assert_eq!(shown().await, BTreeSet::new());
    for show in [BTreeSet::from(Show::ALL), BTreeSet::from([Show::Context]), BTreeSet::new()] {
        commit(&store, &id, vec![Change::PutShow { show: show.clone() }]).await;
        assert_eq!(shown().await, show);
    }
}
