//! Approvals: each row follows from its call, and lists have those that a person may see, in their order.

use std::sync::Arc;

use fermata_engine::{
    ApprovalState,
    store::{
        ApprovalList, ApprovalRecord, Change, ListedFor, ListedState, Listing, SavedTerms,
        page::ApprovalCursor,
    },
};
use fermata_protocol::ApprovalId;
use fermata_tools::{
    ApprovalDecision, ApprovalTerms, Approver, Call, CallState, Decider, DecisionChannel, Owner, Pattern,
    Wait,
};

use crate::{AnyStore, commit_at, fixtures::*};

in_every_store! {
    an_approval_follows_from_its_call
    lists_have_their_order_and_go_on_where_a_page_ended
    a_list_has_what_concerns_a_person
    a_call_that_is_asked_about_again_has_two_approvals
    changes_are_read_in_their_order
    terms_change_while_an_approval_waits
    an_approval_has_the_title_that_its_chat_was_given
    an_approval_goes_with_its_chat
}

fn terms() -> Arc<ApprovalTerms> {
    let by = vec![Approver::Group(Pattern::new("finance \u{0}"))];
    Arc::new(ApprovalTerms { by, quorum: 2, ..ApprovalTerms::default() })
}

/// A call of Alice's that waits since a second.
fn asked(id: &str, second: i64, terms: Option<Arc<ApprovalTerms>>) -> Call {
    let mut call = call(id, awaiting_approval());
    let request = call.approval_request.take().unwrap();
    call.approval_request = Some(fermata_tools::ApprovalRequest { at: at(second), terms, ..request });
    call
}

fn bob_decides() -> Decider {
    Decider::new(Owner::new("bob"), DecisionChannel::Api, None)
}

fn denied(mut call: Call, second: i64) -> Call {
    call.approval_decision = Some(ApprovalDecision::of(&bob_decides(), false, at(second)));
    call.enter(
        CallState::Cancelled { cancelled: fermata_tools::Cancelled::Denied { reason: None } },
        at(second),
    );
    call
}

/// A chat with a run and these calls, all committed at a second.
async fn chat_with(store: &AnyStore, id: &str, second: i64, calls: &[Call]) {
    let mut changes = vec![create(alice()), put(user("m", "Hello")), open("r")];
    changes.extend(calls.iter().map(|call| put_call("r", call)));
    commit_at(&**store, &chat(id), at(second), changes).await.unwrap();
}

async fn save(store: &AnyStore, id: &str, second: i64, call: &Call) {
    commit_at(&**store, &chat(id), at(second), vec![put_call("r", call)]).await.unwrap();
}

async fn list(store: &AnyStore, of: ListedFor<'_>, state: ListedState) -> Vec<String> {
    ids(&store.approvals(whole(&alice(), of, state)).await.unwrap())
}

fn whole<'a>(viewer: &'a Owner, of: ListedFor<'a>, state: ListedState) -> ApprovalList<'a> {
    ApprovalList { viewer, of, state, tool: None, after: None, limit: 100 }
}

fn ids(records: &[ApprovalRecord]) -> Vec<String> {
    records.iter().map(|record| record.id.to_string()).collect()
}

async fn an_approval_follows_from_its_call(store: AnyStore) {
    let call = asked("a", 3, Some(terms()));
    chat_with(&store, "c", 4, std::slice::from_ref(&call)).await;
    let id = ApprovalId::new("question-a");
    let record = store.approval(&id, &alice()).await.unwrap().unwrap();
    let expected = ApprovalRecord {
        id: id.clone(),
        state: ApprovalState::Waiting,
        chat: chat("c"),
        title: Some("Hello".into()),
        requested_at: at(3),
        settled_at: None,
        changed_at: at(4),
        terms: Some(SavedTerms::from(terms()).hash),
        has_voted: false,
        call: call.clone(),
    };
    assert_eq!(record, expected);
    let settled = denied(call, 7);
    let decision = Box::new(settled.approval_decision.clone().unwrap());
    let confirm = Change::Confirm { run: run("r"), call: Box::new(settled.clone()), decision, terms: None };
    commit_at(&*store, &chat("c"), at(8), vec![put_call("r", &settled), confirm]).await.unwrap();
    let record = store.approval(&id, &Owner::new("bob")).await.unwrap().unwrap();
    assert_eq!(
        (record.state, record.settled_at, record.has_voted),
        (ApprovalState::Denied, Some(at(7)), true)
    );
    assert!(!store.approval(&id, &alice()).await.unwrap().unwrap().has_voted);
    assert_eq!(store.approval(&ApprovalId::new("question"), &alice()).await.unwrap(), None);
}

async fn lists_have_their_order_and_go_on_where_a_page_ended(store: AnyStore) {
    let calls: Vec<Call> = (1..=5).map(|n| asked(&n.to_string(), n, None)).collect();
    chat_with(&store, "c", 6, &calls).await;
    for (n, second) in [(1, 20), (4, 10)] {
        save(&store, "c", second, &denied(calls[n - 1].clone(), second)).await;
    }
    let (of, viewer) = (ListedFor::Requester, alice());
    for (state, expected) in [
        (ListedState::Waiting, ["2", "3", "5"].as_slice()),
        (ListedState::Settled, &["1", "4"]),
        (ListedState::All, &["5", "4", "3", "2", "1"]),
    ] {
        let expected: Vec<String> = expected.iter().map(|n| format!("question-{n}")).collect();
        assert_eq!(list(&store, of, state).await, expected, "{state:?}");
        let (mut pages, mut after) = (Vec::new(), None::<ApprovalRecord>);
        loop {
            let begins = after.as_ref().map(|record| (state.time_of(record), &record.id));
            let page = ApprovalList { after: begins, limit: 1, ..whole(&viewer, of, state) };
            let page = store.approvals(page).await.unwrap();
            pages.extend(ids(&page));
            match page.into_iter().next_back() {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        assert_eq!(pages, expected, "{state:?}, page by page");
    }
}

async fn a_list_has_what_concerns_a_person(store: AnyStore) {
    let other = Arc::new(ApprovalTerms { quorum: 3, ..ApprovalTerms::default() });
    let mut calls = [asked("a", 1, None), asked("b", 2, Some(terms())), asked("c", 3, Some(other.clone()))];
    calls[1].tool = "refund".into();
    chat_with(&store, "c", 4, &calls).await;
    let (own, others) = (SavedTerms::from(terms()).hash, SavedTerms::from(other).hash);
    let under = async |hashes: &[String]| list(&store, ListedFor::Terms(hashes), ListedState::Waiting).await;
    assert_eq!(under(std::slice::from_ref(&own)).await, ["question-b"]);
    assert_eq!(under(&[own, others]).await, ["question-b", "question-c"]);
    assert_eq!(under(&["0".repeat(64)]).await, [""; 0]);
    assert_eq!(list(&store, ListedFor::Anyone, ListedState::Waiting).await.len(), 3);
    let bob = Owner::new("bob");
    let of_tool =
        ApprovalList { tool: Some("refund"), ..whole(&bob, ListedFor::Anyone, ListedState::Waiting) };
    assert_eq!(ids(&store.approvals(of_tool).await.unwrap()), ["question-b"]);
    let mut known: Vec<u32> =
        store.approval_terms().await.unwrap().iter().map(|saved| saved.terms.quorum).collect();
    known.sort_unstable();
    assert_eq!(known, [2, 3]);
    let of_bob =
        async || ids(&store.approvals(whole(&bob, ListedFor::Voter, ListedState::All)).await.unwrap());
    assert_eq!(of_bob().await, [""; 0]);
    let decision = Box::new(ApprovalDecision::of(&bob_decides(), true, at(5)));
    let vote = Change::Confirm { run: run("r"), call: Box::new(calls[1].clone()), decision, terms: None };
    commit_at(&*store, &chat("c"), at(5), vec![vote]).await.unwrap();
    assert_eq!(of_bob().await, ["question-b"]);
    let of_bob = whole(&bob, ListedFor::Requester, ListedState::All);
    assert_eq!(store.approvals(of_bob).await.unwrap(), []);
}

async fn a_call_that_is_asked_about_again_has_two_approvals(store: AnyStore) {
    let mut call = asked("a", 1, Some(terms()));
    chat_with(&store, "c", 2, std::slice::from_ref(&call)).await;
    call.asked_before = vec![ApprovalId::new("question-a")];
    call.approval_request = Some(fermata_tools::ApprovalRequest { at: at(3), ..request("again") });
    save(&store, "c", 3, &call).await;
    let state = async |id: &str| {
        let record = store.approval(&ApprovalId::new(id), &alice()).await.unwrap().unwrap();
        (record.state, record.settled_at)
    };
    assert_eq!(state("question-a").await, (ApprovalState::Cancelled, Some(at(3))));
    assert_eq!(state("again").await, (ApprovalState::Waiting, None));
}

async fn changes_are_read_in_their_order(store: AnyStore) {
    let call = asked("a", 1, None);
    chat_with(&store, "c", 2, std::slice::from_ref(&call)).await;
    chat_with(&store, "d", 3, &[asked("b", 1, None)]).await;
    let changed_after =
        async |place: ApprovalCursor, limit| ids(&store.changed_approvals(&place, limit).await.unwrap());
    let changed = async |after: i64| changed_after(ApprovalCursor::after(at(after)), 10).await;
    assert_eq!(changed(1).await, ["question-a", "question-b"]);
    assert_eq!(changed(2).await, ["question-b"]);
    save(&store, "c", 4, &call).await;
    assert_eq!(changed(2).await, ["question-b", "question-a"], "a vote is a change");
    let mut settled = denied(call, 5);
    save(&store, "c", 5, &settled).await;
    settled.retried_as = Some(fermata_protocol::ToolCallId::new("x"));
    save(&store, "c", 6, &settled).await;
    assert_eq!(changed(5).await, [""; 0], "what happens to a call later is none");

    let together: Vec<Call> = (1..=3).map(|n| asked(&n.to_string(), 7, None)).collect();
    chat_with(&store, "e", 7, &together).await;
    let first = changed_after(ApprovalCursor::after(at(6)), 2).await;
    assert_eq!(first, ["question-1", "question-2"]);
    let place = ApprovalCursor { at: at(7), id: ApprovalId::new("question-2") };
    assert_eq!(changed_after(place, 2).await, ["question-3"], "changes of one commit, on two pages");
}

async fn terms_change_while_an_approval_waits(store: AnyStore) {
    let call = asked("a", 1, None);
    chat_with(&store, "c", 2, std::slice::from_ref(&call)).await;
    let (id, saved) = (ApprovalId::new("question-a"), SavedTerms::from(terms()));
    store.put_approval_terms(&id, Some(&saved), at(3)).await.unwrap();
    let record = store.approval(&id, &alice()).await.unwrap().unwrap();
    assert_eq!((record.terms.as_ref(), record.changed_at), (Some(&saved.hash), at(3)));
    assert_eq!(list(&store, ListedFor::Terms(&[saved.hash]), ListedState::Waiting).await, ["question-a"]);
    store.put_approval_terms(&id, None, at(4)).await.unwrap();
    assert_eq!(store.approval(&id, &alice()).await.unwrap().unwrap().terms, None);
}

async fn an_approval_has_the_title_that_its_chat_was_given(store: AnyStore) {
    chat_with(&store, "c", 2, &[asked("a", 1, None)]).await;
    let listing = Listing { title: Some("Refunds".into()), ..Listing::default() };
    commit_at(&*store, &chat("c"), at(3), vec![Change::PutListing(listing)]).await.unwrap();
    let record = store.approval(&ApprovalId::new("question-a"), &alice()).await.unwrap().unwrap();
    assert_eq!(record.title.as_deref(), Some("Refunds"));
}

async fn an_approval_goes_with_its_chat(store: AnyStore) {
    let mut call = asked("a", 1, None);
    chat_with(&store, "c", 2, std::slice::from_ref(&call)).await;
    call.approval_decision = Some(ApprovalDecision::of(&bob_decides(), true, at(3)));
    call.enter(CallState::scheduled(Wait::Gate), at(3));
    save(&store, "c", 3, &call).await;
    delete(&*store, &chat("c")).await;
    assert_eq!(store.approval(&ApprovalId::new("question-a"), &alice()).await.unwrap(), None);
}
