//! The records of channels: messages are found again, links work once, and devices belong to one user.

use fermata_protocol::ApprovalId;
use fermata_store::{ChannelRecords, MailLink, PushDevice, SentMessage, SqlStore};
use fermata_tools::Owner;
use serde_json::json;

use crate::{AnyStore, commit_at, fixtures::*};

macro_rules! in_every_database {
    ($($fact:ident)*) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $fact() {
                let store = super::SqlStore::open("sqlite::memory:").await.unwrap();
                super::$fact(store.channel_records(), std::sync::Arc::new(store.clone())).await;
            })*
        }

        mod on_postgres {
            $(#[tokio::test]
            async fn $fact() {
                let Some(postgres) = crate::test_database::TestDatabase::schema().await else { return };
                let database = postgres.open().await;
                super::$fact(database.channel_records.clone(), database.store.clone()).await;
                database.close().await;
            })*
        }
    };
}

in_every_database! {
    a_message_is_found_until_it_is_deleted
    a_used_link_is_known_as_used
    messages_and_links_go_with_their_approval
    a_device_belongs_to_the_user_who_registered_it_last
    a_user_has_no_more_devices_than_may_be
    the_first_push_key_is_kept
}

const MOST: usize = 10;

fn approval(id: &str) -> ApprovalId {
    ApprovalId::new(id)
}

fn link(hash: &str) -> MailLink {
    MailLink {
        hash: hash.into(),
        channel: "mail".into(),
        approval: approval("question-1"),
        input_hash: "abc".into(),
        recipient: alice(),
        approves: true,
    }
}

/// A chat of Alice's with two calls that wait for approvals, `question-1` and `question-2`.
async fn asked(store: &AnyStore) {
    let calls = ["1", "2"].map(|id| put_call("r", &call(id, awaiting_approval())));
    let changes = [create(alice()), put(user("m", "Hello")), open("r")].into_iter().chain(calls).collect();
    commit_at(&**store, &chat("c"), at(0), changes).await.unwrap();
}

fn device(endpoint: &str, owner: Owner) -> PushDevice {
    let subscription = json!({"endpoint": endpoint, "keys": {"auth": "a"}});
    PushDevice { endpoint: endpoint.into(), owner, groups: vec!["finance".into()], subscription }
}

async fn a_message_is_found_until_it_is_deleted(records: ChannelRecords, store: AnyStore) {
    asked(&store).await;
    let id = approval("question-1");
    for (recipient, ts) in [("b@example.com", 1), ("a@example.com", 2), ("b@example.com", 3)] {
        records.note_message("mail", &id, recipient, &json!({"ts": ts}), at(ts)).await.unwrap();
    }
    records.note_message("mail", &approval("question-2"), "", &json!(2), at(1)).await.unwrap();
    records.note_message("finance", &id, "", &json!(3), at(1)).await.unwrap();
    let sent =
        |recipient: &str, ts| SentMessage { recipient: recipient.into(), reference: json!({"ts": ts}) };
    assert_eq!(
        records.messages("mail", &id).await.unwrap(),
        [sent("a@example.com", 2), sent("b@example.com", 3)]
    );
    records.delete_messages("mail", &id).await.unwrap();
    assert_eq!(records.messages("mail", &id).await.unwrap(), []);
    assert_eq!(records.messages("mail", &approval("question-2")).await.unwrap().len(), 1);
    assert_eq!(records.messages("finance", &id).await.unwrap().len(), 1);
}

async fn a_used_link_is_known_as_used(records: ChannelRecords, store: AnyStore) {
    asked(&store).await;
    records.add_link(&link("h1"), at(0)).await.unwrap();
    let denies = MailLink { approves: false, ..link("h2") };
    records.add_link(&denies, at(0)).await.unwrap();
    assert_eq!(records.link("mail", "h1").await.unwrap(), Some((link("h1"), false)));
    assert_eq!(records.link("other", "h1").await.unwrap(), None);
    records.use_link("h1", at(1)).await.unwrap();
    records.use_link("h3", at(2)).await.unwrap();
    assert_eq!(records.link("mail", "h1").await.unwrap(), Some((link("h1"), true)));
    assert_eq!(records.link("mail", "h2").await.unwrap(), Some((denies, false)));
}

async fn messages_and_links_go_with_their_approval(records: ChannelRecords, store: AnyStore) {
    asked(&store).await;
    let id = approval("question-1");
    records.note_message("mail", &id, "a@example.com", &json!(1), at(1)).await.unwrap();
    records.add_link(&link("h1"), at(1)).await.unwrap();
    delete(&*store, &chat("c")).await;
    // A channel was sending when the chat was deleted.
    records.note_message("mail", &id, "b@example.com", &json!(2), at(2)).await.unwrap();
    records.add_link(&link("h2"), at(2)).await.unwrap();
    assert_eq!(records.messages("mail", &id).await.unwrap(), []);
    for hash in ["h1", "h2"] {
        assert_eq!(records.link("mail", hash).await.unwrap(), None);
    }
}

async fn a_device_belongs_to_the_user_who_registered_it_last(records: ChannelRecords, _: AnyStore) {
    for owner in [alice(), bob()] {
        assert!(records.put_device(&device("https://push.example/1", owner), at(0), MOST).await.unwrap());
    }
    assert!(records.put_device(&device("https://push.example/2", alice()), at(1), MOST).await.unwrap());
    let expected = [device("https://push.example/2", alice()), device("https://push.example/1", bob())];
    assert_eq!(records.devices().await.unwrap(), expected);
    assert!(!records.delete_device(&alice(), "https://push.example/1").await.unwrap());
    assert!(records.delete_device(&bob(), "https://push.example/1").await.unwrap());
    records.drop_device("https://push.example/2").await.unwrap();
    assert_eq!(records.devices().await.unwrap(), []);
}

async fn a_user_has_no_more_devices_than_may_be(records: ChannelRecords, _: AnyStore) {
    for (endpoint, is_added) in [("1", true), ("2", true), ("3", false), ("1", true)] {
        let added = records.put_device(&device(endpoint, alice()), at(0), 2).await.unwrap();
        assert_eq!(added, is_added, "{endpoint}");
    }
    assert!(records.put_device(&device("3", bob()), at(0), 2).await.unwrap());
    records.delete_devices(&alice()).await.unwrap();
    assert_eq!(records.devices().await.unwrap(), [device("3", bob())]);
}

async fn the_first_push_key_is_kept(records: ChannelRecords, _: AnyStore) {
    assert_eq!(records.push_key("first").await.unwrap(), "first");
    assert_eq!(records.push_key("second").await.unwrap(), "first");
}
