//! The outbox: a notice is due with the commit of its cause, is claimed once at a time, and is done in order.

use fermata_engine::store::{Attempt, Change, ClaimedNotice, Notice, NoticeEvent};
use fermata_protocol::ApprovalId;
use jiff::Timestamp;
use serde_json::json;

use crate::{AnyStore, commit_at, fixtures::*};

in_every_store! {
    a_notice_is_claimed_as_it_was_committed
    a_notice_of_a_commit_that_fails_is_not_there
    a_claimed_notice_is_nobody_elses_until_the_claim_ends
    a_channel_claims_its_own_notices_alone
    a_notice_waits_for_an_earlier_one_of_its_approval_and_channel
    a_failed_notice_is_due_again_at_its_time
    the_result_of_an_old_claim_changes_nothing
    a_notice_that_was_given_up_is_listed_and_can_be_retried
    old_notices_that_were_given_up_are_deleted
    a_commit_of_a_notice_wakes_the_sender
}

fn notice(id: &str, channel: &str, approval: Option<&str>) -> Notice {
    Notice {
        id: id.into(),
        channel: channel.into(),
        event: NoticeEvent::ApprovalRequested,
        at: at(0),
        approval: approval.map(ApprovalId::new),
        data: json!({"zeta": "odd \u{0} text", "alpha": [1, 0.1]}),
    }
}

/// Commits notices in a chat of their own, which are due at this second.
async fn post(store: &AnyStore, second: i64, notices: &[Notice]) {
    let id = chat(&notices[0].id);
    let mut changes = vec![create(alice())];
    changes.extend(notices.iter().map(|notice| Change::Notify(Box::new(notice.clone()))));
    commit_at(&**store, &id, at(second), changes).await.unwrap();
}

async fn claim(store: &AnyStore, channel: &str, second: i64) -> Vec<ClaimedNotice> {
    store.claim_notices(channel, at(second), at(second + 30), 10).await.unwrap()
}

async fn claimed_ids(store: &AnyStore, channel: &str, second: i64) -> Vec<String> {
    claim(store, channel, second).await.into_iter().map(|claimed| claimed.notice.id).collect()
}

async fn note(store: &AnyStore, claimed: &ClaimedNotice, second: i64, attempt: Attempt) {
    store.note_attempt(claimed, at(second), attempt).await.unwrap();
}

fn failed(next: Timestamp) -> Attempt {
    Attempt::Failed { next, error: "no \u{0} answer".into() }
}

async fn a_notice_is_claimed_as_it_was_committed(store: AnyStore) {
    let made = notice("n1", "ops", Some("appr_1"));
    post(&store, 5, std::slice::from_ref(&made)).await;
    assert_eq!(store.next_notice().await.unwrap(), Some(at(5)));
    assert_eq!(store.due_channels(at(4)).await.unwrap(), [""; 0]);
    assert_eq!(store.due_channels(at(5)).await.unwrap(), ["ops"]);
    assert_eq!(claim(&store, "ops", 4).await, []);
    assert_eq!(claim(&store, "ops", 5).await, [ClaimedNotice { notice: made, attempt: 1 }]);
    assert_eq!(store.open_notices().await.unwrap(), 1);
}

async fn a_notice_of_a_commit_that_fails_is_not_there(store: AnyStore) {
    let changes = vec![create(alice()), Change::Notify(Box::new(notice("n1", "ops", None))), close("r")];
    commit_at(&*store, &chat("a"), at(0), changes).await.unwrap_err();
    assert_eq!(store.next_notice().await.unwrap(), None);
    assert_eq!(store.notices(10).await.unwrap(), []);
}

async fn a_claimed_notice_is_nobody_elses_until_the_claim_ends(store: AnyStore) {
    post(&store, 0, &[notice("n1", "ops", None)]).await;
    let first = claim(&store, "ops", 0).await;
    assert_eq!(claim(&store, "ops", 29).await, []);
    assert_eq!(store.next_notice().await.unwrap(), Some(at(30)));
    let again = claim(&store, "ops", 30).await;
    assert_eq!((first[0].attempt, again[0].attempt), (1, 2));
    assert_eq!(again[0].notice, first[0].notice);
}

async fn a_channel_claims_its_own_notices_alone(store: AnyStore) {
    post(&store, 0, &[notice("n1", "slow", None), notice("n2", "slow", None), notice("n3", "quick", None)])
        .await;
    assert_eq!(store.due_channels(at(0)).await.unwrap(), ["quick", "slow"]);
    let one = store.claim_notices("slow", at(0), at(30), 1).await.unwrap();
    assert_eq!(one.len(), 1);
    assert_eq!(claimed_ids(&store, "quick", 0).await, ["n3"]);
    assert_eq!(store.due_channels(at(0)).await.unwrap(), ["slow"]);
}

async fn a_notice_waits_for_an_earlier_one_of_its_approval_and_channel(store: AnyStore) {
    let others = [notice("n3", "mail", Some("appr_1")), notice("n4", "ops", Some("appr_2"))];
    post(&store, 0, &[notice("n1", "ops", Some("appr_1"))]).await;
    post(&store, 1, &[notice("n2", "ops", Some("appr_1"))]).await;
    post(&store, 2, &others).await;
    let claimed = claim(&store, "ops", 3).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.notice.id.as_str()).collect::<Vec<_>>(), ["n1", "n4"]);
    assert_eq!(claimed_ids(&store, "mail", 3).await, ["n3"], "another channel waits for nothing");
    note(&store, &claimed[0], 3, failed(at(100))).await;
    note(&store, &claimed[1], 3, Attempt::Sent).await;
    assert_eq!(claimed_ids(&store, "ops", 99).await, [""; 0], "the first one is open");
    let claimed = claim(&store, "ops", 100).await;
    note(&store, &claimed[0], 100, Attempt::GivenUp { error: "gone".into() }).await;
    assert_eq!(claimed_ids(&store, "ops", 100).await, ["n2"]);
}

async fn a_failed_notice_is_due_again_at_its_time(store: AnyStore) {
    post(&store, 0, &[notice("n1", "ops", None)]).await;
    let claimed = claim(&store, "ops", 0).await;
    note(&store, &claimed[0], 1, failed(at(6))).await;
    let [saved] = store.notices(10).await.unwrap().try_into().unwrap();
    assert_eq!((saved.attempts, saved.next, saved.given_up_at), (1, Some(at(6)), None));
    assert_eq!(saved.error.as_deref(), Some("no \u{0} answer"));
    assert_eq!(claim(&store, "ops", 5).await, []);
    let claimed = claim(&store, "ops", 6).await;
    assert_eq!(claimed[0].attempt, 2);
    note(&store, &claimed[0], 7, Attempt::Sent).await;
    assert_eq!(store.notices(10).await.unwrap(), []);
    assert_eq!(store.open_notices().await.unwrap(), 0);
}

async fn the_result_of_an_old_claim_changes_nothing(store: AnyStore) {
    post(&store, 0, &[notice("n1", "ops", None)]).await;
    let late = claim(&store, "ops", 0).await;
    let new = claim(&store, "ops", 30).await;
    note(&store, &late[0], 31, failed(at(32))).await;
    assert_eq!(store.next_notice().await.unwrap(), Some(at(60)));
    note(&store, &late[0], 31, Attempt::GivenUp { error: "gone".into() }).await;
    assert_eq!(store.next_notice().await.unwrap(), Some(at(60)));
    note(&store, &late[0], 31, Attempt::Sent).await;
    note(&store, &new[0], 31, failed(at(32))).await;
    assert_eq!(store.notices(10).await.unwrap(), [], "it was sent by one of the instances");
}

async fn a_notice_that_was_given_up_is_listed_and_can_be_retried(store: AnyStore) {
    post(&store, 0, &[notice("n1", "ops", None), notice("n2", "ops", None)]).await;
    let claimed = claim(&store, "ops", 0).await;
    assert!(!store.retry_notice("n1", at(1)).await.unwrap(), "it is open");
    let first = claimed.iter().find(|claimed| claimed.notice.id == "n1").unwrap();
    note(&store, first, 2, Attempt::GivenUp { error: "the endpoint is gone".into() }).await;
    let listed = store.notices(10).await.unwrap();
    assert_eq!(listed.iter().map(|saved| saved.notice.id.as_str()).collect::<Vec<_>>(), ["n2", "n1"]);
    assert_eq!((listed[1].next, listed[1].given_up_at), (None, Some(at(2))));
    assert_eq!(listed[1].error.as_deref(), Some("the endpoint is gone"));
    assert_eq!(store.open_notices().await.unwrap(), 1);
    assert!(!store.retry_notice("n3", at(3)).await.unwrap());
    assert!(store.retry_notice("n1", at(3)).await.unwrap());
    let again = claim(&store, "ops", 3).await;
    assert_eq!((again[0].notice.id.as_str(), again[0].attempt), ("n1", 1));
}

async fn old_notices_that_were_given_up_are_deleted(store: AnyStore) {
    post(&store, 0, &[notice("n1", "ops", None), notice("n2", "ops", None), notice("n3", "ops", None)]).await;
    for (second, claimed) in (1..).zip(&claim(&store, "ops", 0).await[..2]) {
        note(&store, claimed, second, Attempt::GivenUp { error: "gone".into() }).await;
    }
    assert_eq!(store.forget_notices(at(1), 10).await.unwrap(), 0);
    assert_eq!(store.forget_notices(at(3), 1).await.unwrap(), 1);
    assert_eq!(store.forget_notices(at(3), 10).await.unwrap(), 1);
    assert_eq!(store.notices(10).await.unwrap().len(), 1, "the one that is open stays");
}

async fn a_commit_of_a_notice_wakes_the_sender(store: AnyStore) {
    commit_at(&*store, &chat("a"), at(0), vec![create(alice())]).await.unwrap();
    let mut woken = Box::pin(store.notice_added());
    assert!(futures::poll!(&mut woken).is_pending(), "a commit without a notice");
    post(&store, 0, &[notice("n1", "ops", None)]).await;
    woken.await;
}
