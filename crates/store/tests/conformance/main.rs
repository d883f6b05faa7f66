//! The behaviour that all stores share: one suite, run over the reference store in memory, over SQLite, in a file and in
//! memory, and over PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

/// The facts, over every store.
macro_rules! in_every_store {
    ($($fact:ident)*) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                super::$fact(std::sync::Arc::new(fermata_engine::store::InMemoryStore::new())).await;
            })*
        }

        mod sqlite_file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                let folder = crate::fixtures::Folder::new();
                let store = fermata_store::SqlStore::open(&folder.url()).await.unwrap();
                super::$fact(std::sync::Arc::new(store.clone())).await;
                store.close().await;
            })*
        }

        mod sqlite_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                let store = fermata_store::SqlStore::open("sqlite::memory:").await.unwrap();
                super::$fact(std::sync::Arc::new(store.clone())).await;
                store.close().await;
            })*
        }

        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                let Some(postgres) = crate::test_database::TestDatabase::schema().await else { return };
                let database = postgres.open().await;
                super::$fact(database.store.clone()).await;
                database.close().await;
            })*
        }
    };
}

mod approvals;
mod audit_chains;
mod channel_records;
mod evidence;
mod fixtures;
mod instances;
mod large_values;
mod memories;
mod memory_vectors;
mod notes;
mod odd_text;
mod outbox;
mod pgvector;
mod plans;
mod postgres;
mod proxy;
mod sqlite;
mod summaries;
mod test_database;
mod tool_calls;
mod usage;
mod versions;

use std::{collections::BTreeSet, sync::Arc};

use fermata_engine::{
    Store,
    store::{
        AuditEntry, Change, ChatPage, ChatQuery, Files, Listing, StoreError,
        memories::{MemoryAuthor, MemoryChange, MemoryId},
    },
};
use fermata_protocol::{
    AnswerKind, AnswerTarget, ApprovalId, ChatId, GrantedFor, MessageId, Profile, Role, ToolCallId, UiMessage,
};
use fermata_tools::{
    Asking, AuditAction, AuditEvent, Call, CallState, Cancelled, Confirmation, ErrorType, Grant, GrantEnd,
    Grants, Owner, RunBy, Scope, Work,
};
use fixtures::*;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

in_every_store! {
    a_new_store_is_ready_and_empty
    a_chat_is_read_as_it_was_made
    a_commit_without_changes_changes_nothing
    a_message_put_again_keeps_its_place
    messages_are_dropped_from_the_end
    messages_are_outlined_and_read_in_part
    a_message_is_found_by_its_id_and_by_what_it_is
    a_message_of_one_chat_does_not_touch_another_with_its_id
    an_open_run_is_read_with_its_state_log_and_calls
    what_a_run_was_asked_for_is_kept_beside_its_state
    the_number_of_attempts_to_resume_a_run_is_saved
    a_run_can_be_ended_without_being_read
    a_call_put_again_keeps_its_place
    a_chat_has_one_open_run
    a_closed_run_is_gone_from_the_chat_and_takes_nothing_more
    a_call_is_found_by_both_its_ids_also_when_its_run_is_over
    a_call_is_not_found_in_another_chat
    a_call_belongs_to_one_run
    a_log_has_no_overlap_and_keeps_its_gaps
    a_call_is_read_as_it_was_put_whatever_it_says
    a_call_keeps_its_history_and_times_through_all_its_states
    an_answer_is_known_again_however_the_call_ended
    what_people_said_is_kept_in_order_and_whole
    what_is_allowed_for_always_outlives_its_run
    what_was_taken_back_is_allowed_again_by_what_is_said_later_only
    a_grant_of_one_scope_is_revoked_and_another_stays
    grants_of_an_owner_outlive_their_chat_and_are_replaced_and_revoked_one_by_one
    decisions_are_forgotten_by_their_own_age_alone
    a_failing_change_leaves_nothing
    what_does_not_fit_is_a_conflict
    chats_are_listed_newest_first_by_owner
    pages_neither_repeat_nor_skip_chats_of_the_same_time
    a_cursor_that_no_page_gave_is_refused
    a_chat_is_called_after_its_first_user_message
    pinned_chats_come_first_and_archived_ones_are_listed_apart
    a_listed_chat_is_open_while_its_run_can_be_followed
    a_listed_chat_counts_what_waits_for_somebody
    a_chat_is_due_when_its_open_run_is
    a_deadline_between_two_microseconds_is_not_early
    a_deleted_chat_leaves_nothing_and_its_id_is_free
    many_chats_change_at_once
}

type AnyStore = Arc<dyn Store>;

async fn commit(store: &AnyStore, id: &ChatId, changes: Vec<Change>) {
    commit_at(&**store, id, at(0), changes).await.unwrap();
}

/// A chat of alice's with one open run.
async fn with_run(store: &AnyStore) -> ChatId {
    let id = chat("a");
    commit(store, &id, vec![create(alice()), open("r")]).await;
    id
}

async fn owner(store: &AnyStore, id: &ChatId) -> Option<Owner> {
    store.owner_of(id).await.unwrap().map(|found| found.owner)
}

async fn messages(store: &AnyStore, id: &ChatId) -> Vec<UiMessage> {
    store.messages(id).await.unwrap()
}

async fn refused(store: &AnyStore, id: &ChatId, changes: Vec<Change>) {
    let before = store.chat(id).await.unwrap();
    let shown = format!("{changes:?}");
    let result = commit_at(&**store, id, at(1), changes).await;
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{shown} gave {result:?}");
    assert_eq!(store.chat(id).await.unwrap(), before, "{shown} left something");
}

fn ids(page: &ChatPage) -> Vec<&str> {
    page.chats.iter().map(|chat| chat.id.as_str()).collect()
}

async fn a_new_store_is_ready_and_empty(store: AnyStore) {
    store.ready().await.unwrap();
    let id = chat("a");
    assert_eq!(store.chat(&id).await.unwrap(), None);
    assert_eq!(store.owner_of(&id).await.unwrap(), None);
    assert_eq!(store.call(&id, &AnswerTarget::Call(ToolCallId::new("c"))).await.unwrap(), None);
    assert_eq!(
        store.chats(ChatQuery::new(&alice(), 10)).await.unwrap(),
        ChatPage { chats: vec![], next: None }
    );
    assert_eq!(store.due(Timestamp::MAX, 10).await.unwrap(), vec![]);
    delete(&*store, &id).await;
}

async fn a_chat_is_read_as_it_was_made(store: AnyStore) {
    let id = chat("a");
    let said = [
        message("s", Role::System, "Be kind."),
        user("u", "Grüße \u{0} \u{1f980}"),
        message("m", Role::Assistant, ""),
    ];
    commit(&store, &id, vec![create(alice()), put(said[0].clone()), put(said[1].clone())]).await;
    commit(&store, &id, vec![Change::Posted { profile: Profile::V7 }, put(said[2].clone())]).await;
    let record = store.chat(&id).await.unwrap().unwrap();
    assert_eq!(record.head.owner, alice());
    assert_eq!(record.head.profile, Profile::V7);
    for profile in [Profile::V5, Profile::V6, Profile::V7, Profile::of_version("7.0.173").unwrap()] {
        commit(&store, &id, vec![Change::Posted { profile }]).await;
        assert_eq!(store.chat(&id).await.unwrap().unwrap().head.profile, profile);
    }
    let choose = |assistant: Option<&str>, model: Option<&str>| Change::Choose {
        assistant: assistant.map(str::to_owned),
        model: model.map(str::to_owned),
    };
    let chosen = async || {
        let record = store.chat(&id).await.unwrap().unwrap();
        (record.head.assistant, record.head.model)
    };
    assert_eq!(chosen().await, (None, None));
    commit(&store, &id, vec![choose(Some("Grüße \u{0}"), None)]).await;
    assert_eq!(chosen().await, (Some("Grüße \u{0}".into()), None));
    commit(&store, &id, vec![choose(None, Some("large"))]).await;
    assert_eq!(chosen().await, (Some("Grüße \u{0}".into()), Some("large".into())), "the assistant stays");
    assert_eq!(store.chat(&id).await.unwrap().unwrap().context, Value::Null);
    let context = json!({"fit": {"leftOut": 2, "instructions": ["\u{0} ü"]}});
    commit(&store, &id, vec![Change::PutContext { context: context.clone() }]).await;
    assert_eq!(store.chat(&id).await.unwrap().unwrap().context, context);
    assert_eq!(messages(&store, &id).await, said);
    assert_eq!(record.confirmations, []);
    assert_eq!(record.open_run, None);
    assert_eq!(owner(&store, &id).await, Some(alice()));
}

async fn a_commit_without_changes_changes_nothing(store: AnyStore) {
    let id = chat("a");
    commit(&store, &id, vec![]).await;
    assert_eq!(store.chat(&id).await.unwrap(), None);
}

async fn a_message_put_again_keeps_its_place(store: AnyStore) {
    let id = chat("a");
    commit(
        &store,
        &id,
        vec![create(alice()), put(user("1", "one")), put(user("2", "two")), put(user("3", "three"))],
    )
    .await;
    commit(&store, &id, vec![put(user("2", "changed")), put(user("4", "four"))]).await;
    let expected = [user("1", "one"), user("2", "changed"), user("3", "three"), user("4", "four")];
    assert_eq!(messages(&store, &id).await, expected);
}

async fn messages_are_dropped_from_the_end(store: AnyStore) {
    let id = chat("a");
    commit(
        &store,
        &id,
        vec![create(alice()), put(user("1", "one")), put(user("2", "two")), put(user("3", "three"))],
    )
    .await;
    commit(&store, &id, vec![Change::TruncateMessages { keep: 7 }]).await;
    assert_eq!(messages(&store, &id).await.len(), 3);
    commit(&store, &id, vec![Change::TruncateMessages { keep: 1 }, put(user("3", "again"))]).await;
    assert_eq!(messages(&store, &id).await, [user("1", "one"), user("3", "again")]);
    commit(&store, &id, vec![Change::TruncateMessages { keep: 0 }]).await;
    assert_eq!(messages(&store, &id).await, []);
}

async fn messages_are_outlined_and_read_in_part(store: AnyStore) {
    let id = chat("a");
    assert_eq!(store.outline(&id).await.unwrap(), []);
    assert_eq!(store.messages_at(&id, 0..9, Files::Inline).await.unwrap(), []);
    let said = [user("1", "one"), user("2", "zwölf \u{1f980}"), user("3\u{0}", "x".repeat(100_000).as_str())];
    commit(&store, &id, [vec![create(alice())], said.clone().map(put).to_vec()].concat()).await;
    let outline = store.outline(&id).await.unwrap();
    for (outlined, said) in outline.iter().zip(&said) {
        assert_eq!(outlined.id, said.id);
        assert_eq!(outlined.bytes, serde_json::to_string(said).unwrap().len());
    }
    assert_eq!(outline.len(), 3);
    assert_eq!(store.messages_at(&id, 0..9, Files::Inline).await.unwrap(), said);
    assert_eq!(store.messages_at(&id, 1..2, Files::Inline).await.unwrap(), said[1..2]);
    assert_eq!(store.messages_at(&id, 3..9, Files::Inline).await.unwrap(), []);
}

async fn a_message_is_found_by_its_id_and_by_what_it_is(store: AnyStore) {
    let id = chat("a");
    let last = async |before: usize, role: Option<Role>| store.last_message(&id, before, role).await.unwrap();
    assert_eq!(last(usize::MAX, None).await, None);
    let said = [user("1", "one"), message("2\u{0}", Role::Assistant, "two"), user("3", "three")];
    commit(&store, &id, [vec![create(alice())], said.clone().map(put).to_vec()].concat()).await;
    commit(&store, &chat("b"), vec![create(alice()), put(user("4", "elsewhere"))]).await;
    for (position, message) in said.into_iter().enumerate() {
        assert_eq!(store.message(&id, &message.id).await.unwrap(), Some((position, message)));
    }
    assert_eq!(store.message(&id, &MessageId::new("4")).await.unwrap(), None);
    assert_eq!(last(usize::MAX, None).await, Some((2, MessageId::new("3"))));
    assert_eq!(last(2, None).await, Some((1, MessageId::new("2\u{0}"))));
    assert_eq!(last(2, Some(Role::User)).await, Some((0, MessageId::new("1"))));
    assert_eq!(last(0, None).await, None);
    assert_eq!(last(usize::MAX, Some(Role::System)).await, None);
}

async fn a_message_of_one_chat_does_not_touch_another_with_its_id(store: AnyStore) {
    let (one, other) = (chat("a"), chat("b"));
    commit(&store, &one, vec![create(alice()), put(user("m", "one"))]).await;
    commit(&store, &other, vec![create(alice()), put(user("m", "other"))]).await;
    commit(&store, &other, vec![Change::TruncateMessages { keep: 0 }]).await;
    assert_eq!(messages(&store, &one).await, [user("m", "one")]);
}

async fn an_open_run_is_read_with_its_state_log_and_calls(store: AnyStore) {
    let id = with_run(&store).await;
    let opened = store.chat(&id).await.unwrap().unwrap().open_run.unwrap();
    assert_eq!((opened.id, opened.state), (run("r"), Value::Null));
    let state = json!({"z": [1, 0.1, null], "a": "ü"});
    let chunks = [r#"{"type":"start"}"#, "{\n}", r#""\u001e""#];
    let first = call("c1", awaiting_approval());
    let second = changed(call("b", CallState::Success { output: Value::Null }), |call| {
        call.approval_request = None;
    });
    commit(&store, &id, vec![append("r", 1, &chunks[..2]), put_call("r", &first), put_call("r", &second)])
        .await;
    commit(
        &store,
        &id,
        vec![append("r", 3, &chunks[2..]), append("r", 4, &[]), save("r", state.clone(), None)],
    )
    .await;
    let record = store.chat(&id).await.unwrap().unwrap().open_run.unwrap();
    assert_eq!(record.state.to_string(), state.to_string(), "the order of keys is kept");
    assert_eq!(record.message, MessageId::new("answer"));
    assert_eq!(record.texts(), chunks);
    assert_eq!(record.calls, [first, second]);
}

async fn what_a_run_was_asked_for_is_kept_beside_its_state(store: AnyStore) {
    let id = with_run(&store).await;
    let kept = async || {
        let run = store.chat(&id).await.unwrap().unwrap().open_run.unwrap();
        (run.settings, run.state)
    };
    commit(&store, &id, vec![save("r", json!({"z": 1, "a": 2}), None)]).await;
    assert_eq!(kept().await, (json!(null), json!({"z": 1, "a": 2})));
    let settings = json!({"z": "\u{0}", "a": [1.5]});
    commit(&store, &id, vec![put_settings("r", settings.clone())]).await;
    commit(&store, &id, vec![save("r", json!(7), None)]).await;
    assert_eq!(kept().await, (settings, json!(7)));
    commit(&store, &id, vec![close("r")]).await;
    refused(&store, &id, vec![put_settings("r", json!(1))]).await;
    commit(&store, &id, vec![open("s")]).await;
    assert_eq!(kept().await.0, json!(null), "another run was asked for something else");
}

async fn the_number_of_attempts_to_resume_a_run_is_saved(store: AnyStore) {
    let id = with_run(&store).await;
    let kept = async || {
        let run = store.chat(&id).await.unwrap().unwrap().open_run.unwrap();
        (run.attempts, run.waiting)
    };
    assert_eq!(kept().await, (0, false));
    for attempts in [1, 2] {
        let owner = Some(instance("one"));
        commit(&store, &id, vec![Change::SetRunOwner { run: run("r"), owner, attempts }]).await;
        assert_eq!(kept().await, (attempts, false));
    }
    commit(&store, &id, vec![wait("r", None, None)]).await;
    assert_eq!(kept().await, (0, true));
}

/// The changes that end a run whose state no instance survives reading: its calls, an end of its log far behind what is saved, and its row.
async fn a_run_can_be_ended_without_being_read(store: AnyStore) {
    let id = with_run(&store).await;
    let calls = [call("a", executing()), call("b", awaiting_approval()), call("c", scheduled())];
    let mut changes = vec![append("r", 1, &["1", "2"]), save("r", json!({"seq": 2}), Some(at(9)))];
    changes.extend(calls.iter().map(|call| put_call("r", call)));
    changes.push(Change::SetRunOwner { run: run("r"), owner: Some(instance("one")), attempts: 6 });
    commit(&store, &id, changes).await;

    let far = (1 << 32) + 2;
    let mut saved = store.chat(&id).await.unwrap().unwrap().open_run.unwrap();
    assert_eq!(saved.attempts, 6);
    for call in &mut saved.calls {
        call.enter(CallState::Cancelled { cancelled: Cancelled::RunEnded }, at(10));
    }
    let mut changes: Vec<_> = saved.calls.iter().map(|call| put_call("r", call)).collect();
    changes.push(append("r", far, &["3"]));
    changes.push(Change::CloseRun { run: run("r"), outcome: "crash_loop" });
    commit(&store, &id, changes).await;

    let chat = store.chat(&id).await.unwrap().unwrap();
    assert_eq!((chat.open_run, chat.run_owner), (None, None));
    for call in &saved.calls {
        let of = AnswerTarget::Call(call.id.clone());
        assert_eq!(store.call(&id, &of).await.unwrap().as_ref(), Some(call));
    }
    let places = [(1, "1"), (2, "2"), (far, "3")].map(|(place, text)| (place, text.to_owned()));
    assert_eq!(store.finished_log(&id, &run("r")).await.unwrap().as_deref(), Some(places.as_slice()));
    assert_eq!(store.due(Timestamp::MAX, 10).await.unwrap(), vec![]);
    assert_eq!(store.orphans(10).await.unwrap(), vec![]);
    commit(&store, &id, vec![open("s")]).await;
}

async fn a_call_put_again_keeps_its_place(store: AnyStore) {
    let id = with_run(&store).await;
    let calls = [call("z", executing()), call("a", executing())];
    commit(&store, &id, calls.iter().map(|call| put_call("r", call)).collect()).await;
    let failed = CallState::Error { error_type: ErrorType::Network, error_text: "no".into() };
    let settled = changed(call("z", failed), |call| call.approval_request = None);
    commit(&store, &id, vec![put_call("r", &settled)]).await;
    let record = store.chat(&id).await.unwrap().unwrap().open_run.unwrap();
    assert_eq!(record.calls, [settled, calls[1].clone()]);
    let gone = AnswerTarget::Approval(ApprovalId::new("question-z"));
    assert_eq!(store.call(&id, &gone).await.unwrap(), None, "a question that was taken back names nothing");
}

async fn a_chat_has_one_open_run(store: AnyStore) {
    let id = with_run(&store).await;
    refused(&store, &id, vec![open("other")]).await;
    commit(&store, &id, vec![close("r"), open("other")]).await;
    assert_eq!(store.chat(&id).await.unwrap().unwrap().open_run.unwrap().id, run("other"));
    commit(&store, &id, vec![close("other")]).await;
    refused(&store, &id, vec![open("r")]).await;
}

async fn a_closed_run_is_gone_from_the_chat_and_takes_nothing_more(store: AnyStore) {
    let id = with_run(&store).await;
    commit(&store, &id, vec![append("r", 1, &["1"]), save("r", json!(1), Some(at(0))), close("r")]).await;
    assert_eq!(store.chat(&id).await.unwrap().unwrap().open_run, None);
    assert_eq!(store.due(Timestamp::MAX, 10).await.unwrap(), vec![]);
    for change in [save("r", json!(1), None), append("r", 1, &["1"]), append("r", 2, &["1"]), close("r")] {
        refused(&store, &id, vec![change]).await;
    }
}

async fn a_call_is_found_by_both_its_ids_also_when_its_run_is_over(store: AnyStore) {
    let id = with_run(&store).await;
    let waiting = call("c", awaiting_approval());
    commit(&store, &id, vec![put_call("r", &waiting)]).await;
    let by_id = AnswerTarget::Call(ToolCallId::new("c"));
    let by_question = AnswerTarget::Approval(ApprovalId::new("question-c"));
    assert_eq!(store.call(&id, &by_id).await.unwrap().as_ref(), Some(&waiting));
    assert_eq!(store.call(&id, &by_question).await.unwrap().as_ref(), Some(&waiting));
    let settled = call("c", CallState::Success { output: json!({"b": 1, "a": 2}) });
    commit(&store, &id, vec![close("r"), put_call("r", &settled), open("next")]).await;
    assert_eq!(store.call(&id, &by_id).await.unwrap().as_ref(), Some(&settled));
    assert_eq!(store.call(&id, &by_question).await.unwrap().as_ref(), Some(&settled));
    assert_eq!(store.chat(&id).await.unwrap().unwrap().open_run.unwrap().calls, []);
}

async fn a_call_is_not_found_in_another_chat(store: AnyStore) {
    let id = with_run(&store).await;
    let other = chat("b");
    commit(&store, &id, vec![put_call("r", &call("c", executing()))]).await;
    commit(&store, &other, vec![create(bob()), open("r")]).await;
    for target in
        [AnswerTarget::Call(ToolCallId::new("c")), AnswerTarget::Approval(ApprovalId::new("question-c"))]
    {
        assert_eq!(store.call(&other, &target).await.unwrap(), None);
    }
    for target in
        [AnswerTarget::Call(ToolCallId::new("question-c")), AnswerTarget::Approval(ApprovalId::new("c"))]
    {
        assert_eq!(store.call(&id, &target).await.unwrap(), None, "the two kinds of id are kept apart");
    }
}

async fn a_call_belongs_to_one_run(store: AnyStore) {
    let id = with_run(&store).await;
    commit(&store, &id, vec![put_call("r", &call("c", executing())), close("r"), open("next")]).await;
    refused(&store, &id, vec![put_call("next", &call("c", executing()))]).await;
    let taken = changed(call("c", executing()), |call| call.id = ToolCallId::new("d"));
    refused(&store, &id, vec![put_call("next", &taken)]).await;
}

async fn a_log_has_no_overlap_and_keeps_its_gaps(store: AnyStore) {
    let id = with_run(&store).await;
    for first in [0, u64::MAX] {
        refused(&store, &id, vec![append("r", first, &["1"])]).await;
    }
    commit(&store, &id, vec![append("r", 1, &["1", "2"]), append("r", 3, &["3"])]).await;
    for first in [1, 2, 3] {
        refused(&store, &id, vec![append("r", first, &["4"])]).await;
    }
    commit(&store, &id, vec![append("r", 7, &["4"])]).await;
    assert_eq!(
        store.chat(&id).await.unwrap().unwrap().open_run.unwrap().chunks,
        [(1, "1"), (2, "2"), (3, "3"), (7, "4")].map(|(place, text)| (place, text.to_owned()))
    );
}

async fn a_call_is_read_as_it_was_put_whatever_it_says(store: AnyStore) {
    let id = with_run(&store).await;
    let calls = calls_of_all_kinds();
    commit(&store, &id, calls.iter().map(|call| put_call("r", call)).collect()).await;
    assert_eq!(store.chat(&id).await.unwrap().unwrap().open_run.unwrap().calls, calls);
    commit(&store, &id, vec![close("r")]).await;
    for call in calls {
        let found = store.call(&id, &AnswerTarget::Call(call.id.clone())).await.unwrap().unwrap();
        assert_eq!(found, call, "after the end of its run");
        assert_eq!(found.input.to_string(), call.input.to_string(), "the order of keys is kept");
        assert_eq!(format!("{:?}", found.state()), format!("{:?}", call.state()), "and of the outcome's");
    }
}

async fn a_call_keeps_its_history_and_times_through_all_its_states(store: AnyStore) {
    let id = with_run(&store).await;
    let restored = async || store.chat(&id).await.unwrap().unwrap().open_run.unwrap().calls.remove(0);
    let mut made = Call::new(ToolCallId::new("c"), 1, "t".into(), Some(RunBy::Server), moment(0));
    let ways = [
        awaiting_approval(),
        awaiting_approval(),
        scheduled(),
        executing(),
        executing(),
        CallState::Success { output: json!(1) },
    ];
    for (n, state) in (1..).zip(ways) {
        commit(&store, &id, vec![put_call("r", &made)]).await;
        let mut call = restored().await;
        assert_eq!(call, made);
        // Another process goes on with what it read.
        call.enter(state.clone(), moment(n));
        made.enter(state, moment(n));
        assert_eq!(call.history(), made.history());
        made = call;
    }
    commit(&store, &id, vec![put_call("r", &made)]).await;
    let settled = restored().await;
    assert_eq!((settled.history().len(), settled.times_run(), settled.since()), (7, 2, moment(6)));
}

async fn an_answer_is_known_again_however_the_call_ended(store: AnyStore) {
    let id = with_run(&store).await;
    let output = |value| AnswerKind::Output { output: value };
    let failure = |text: &str| AnswerKind::Failure { error_text: text.into() };
    let failed = CallState::Error { error_type: ErrorType::Network, error_text: "no".into() };
    let ends = [
        (CallState::Success { output: json!({"b": 1, "a": null}) }, output(json!({"b": 1, "a": null}))),
        (CallState::Success { output: json!("cut") }, output(json!("cut short"))),
        (CallState::Success { output: json!("no") }, failure("no")),
        (failed.clone(), failure("no")),
        (failed, failure("not at all")),
        (CallState::Cancelled { cancelled: Cancelled::Expired }, output(json!(1))),
    ];
    for (n, (state, answer)) in ends.into_iter().enumerate() {
        let answered = changed(call(&n.to_string(), state), |call| call.note_answer(&answer));
        commit(&store, &id, vec![put_call("r", &answered)]).await;
        let found = store.call(&id, &AnswerTarget::Call(answered.id.clone())).await.unwrap();
        assert_eq!(found, Some(answered));
    }
}

async fn what_people_said_is_kept_in_order_and_whole(store: AnyStore) {
    let id = with_run(&store).await;
    let said = [
        confirm("r", "b", true, true),
        confirm("r", "a", true, false),
        confirm("r", "a", false, false),
        confirm("r", "b", false, true),
    ];
    commit(&store, &id, said[..2].to_vec()).await;
    commit_at(&*store, &id, at(3), said[2..].to_vec()).await.unwrap();
    let history = store.chat(&id).await.unwrap().unwrap().confirmations;
    let answers: Vec<_> =
        history.iter().map(|said| (said.tool.as_str(), said.approved, said.terms.is_some())).collect();
    assert_eq!(answers, [("b", true, true), ("a", true, false), ("a", false, false), ("b", false, false)]);
    let last = Confirmation {
        tool: "b".into(),
        call: ToolCallId::new("c"),
        approved: false,
        by: alice(),
        at: at(2) + SignedDuration::from_micros(1),
        reason: Some("because".into()),
        terms: None,
    };
    assert_eq!(history.last(), Some(&last));
    assert_eq!(history[0].terms, Some(terms(Scope::TOOL, GrantedFor::Chat)));
}

async fn what_is_allowed_for_always_outlives_its_run(store: AnyStore) {
    let id = with_run(&store).await;
    let allowed = async || allowed(&store, &id).await;
    commit(&store, &id, vec![confirm("r", "once", true, false), confirm("r", "never", false, true)]).await;
    assert!(allowed().await.is_empty());
    commit(&store, &id, vec![confirm("r", "a", true, true), close("r"), open("next")]).await;
    commit(&store, &id, vec![confirm("next", "a", false, false)]).await;
    assert_eq!(allowed().await, ["a"], "a denial of one call takes back nothing");
}

/// The tools that are allowed for always.
async fn allowed(store: &AnyStore, id: &ChatId) -> Vec<String> {
    let record = store.chat(id).await.unwrap().unwrap();
    let grants = Grants::of_history(&record.confirmations, &record.grant_ends);
    grants.iter().map(|grant| grant.tool.clone()).collect()
}

async fn what_was_taken_back_is_allowed_again_by_what_is_said_later_only(store: AnyStore) {
    let id = with_run(&store).await;
    commit(&store, &id, vec![confirm("r", "a", true, true), confirm("r", "b", true, true)]).await;
    commit_at(&*store, &id, at(7), vec![end_grant("a")]).await.unwrap();
    assert_eq!(allowed(&store, &id).await, ["b"]);
    let ends = store.chat(&id).await.unwrap().unwrap().grant_ends;
    assert_eq!(ends, [GrantEnd { tool: "a".into(), scope: None, by: alice(), at: at(7), after: 2 }]);
    commit(&store, &id, vec![confirm("r", "a", true, true), end_grant("b")]).await;
    assert_eq!(allowed(&store, &id).await, ["a"]);
}

async fn a_grant_of_one_scope_is_revoked_and_another_stays(store: AnyStore) {
    let id = with_run(&store).await;
    let confirmed = |scope: &str| match confirm("r", "a", true, true) {
        Change::Confirm { run, call, decision, .. } => {
            Change::Confirm { run, call, decision, terms: Some(Box::new(terms(scope, GrantedFor::Chat))) }
        }
        other => other,
    };
    let end = Change::EndGrant { tool: "a".into(), scope: Some("host:a".into()), by: alice() };
    commit(&store, &id, vec![confirmed("host:a"), confirmed("host:\u{0}"), end]).await;
    let record = store.chat(&id).await.unwrap().unwrap();
    let grants = Grants::of_history(&record.confirmations, &record.grant_ends);
    let scopes: Vec<_> = grants.iter().map(|grant| grant.terms.scope.id.clone()).collect();
    assert_eq!(scopes, ["host:\u{0}"]);
}

async fn grants_of_an_owner_outlive_their_chat_and_are_replaced_and_revoked_one_by_one(store: AnyStore) {
    let id = with_run(&store).await;
    let grant = |tool: &str, scope: &str, second| Grant {
        tool: tool.into(),
        since: at(second),
        terms: terms(scope, GrantedFor::Owner),
    };
    let to = |owner, grant: &Grant| Change::GrantToOwner { owner, grant: Box::new(grant.clone()) };
    let (first, other, again) = (grant("f", "host:a", 1), grant("f", "host:b", 2), grant("f", "host:a", 3));
    commit(&store, &id, vec![to(alice(), &first), to(alice(), &other), to(bob(), &first)]).await;
    assert_eq!(store.owner_grants(&alice()).await.unwrap(), [first.clone(), other.clone()]);
    commit(&store, &id, vec![to(alice(), &again)]).await;
    assert_eq!(store.owner_grants(&alice()).await.unwrap(), [other, again.clone()]);
    let end = |scope: Option<&str>| Change::EndGrantToOwner {
        owner: alice(),
        tool: "f".into(),
        scope: scope.map(Into::into),
    };
    commit(&store, &id, vec![end(Some("host:b"))]).await;
    let version = store.chat(&id).await.unwrap().unwrap().head.version;
    store.delete(&id, version, at(9), Vec::new()).await.unwrap();
    assert_eq!(store.owner_grants(&alice()).await.unwrap(), [again]);
    let id = with_run(&store).await;
    commit(&store, &id, vec![end(None)]).await;
    assert_eq!(store.owner_grants(&alice()).await.unwrap(), []);
    assert_eq!(store.owner_grants(&bob()).await.unwrap(), [first]);
}

async fn decisions_are_forgotten_by_their_own_age_alone(store: AnyStore) {
    let id = with_run(&store).await;
    for second in [1, 2, 3] {
        commit_at(&*store, &id, at(second), vec![audit("yes")]).await.unwrap();
    }
    let version = store.chat(&id).await.unwrap().unwrap().head.version;
    store.delete(&id, version, at(2), AuditEntry::of_deletion(&alice(), &id, None, None)).await.unwrap();
    let export = AuditEntry::of_owner(&alice(), AuditEvent::new(AuditAction::DataExported));
    let start = AuditEntry::of_server(AuditEvent::new(AuditAction::RulesLoaded));
    store.add_audit(at(2), vec![export, start]).await.unwrap();
    // A memory that is saved, taken back, and deleted with all others.
    let author = MemoryAuthor::default();
    let memory = memories::new("a", "Likes tea.");
    let saved = store.change_memories(&alice(), at(2), vec![MemoryChange::Save(memory)], 9, &author).await;
    assert_eq!(saved.unwrap().len(), 1);
    store.undo_memory(&alice(), &MemoryId("a".into()), at(2), &author).await.unwrap();
    store.delete_memories(&alice(), at(2), &author).await.unwrap();
    assert_eq!(store.forget_audit(at(2), 99).await.unwrap(), 1);
    for second in [1, 2, 3] {
        assert_eq!(store.forget_audit(at(second), 99).await.unwrap(), if second == 3 { 7 } else { 0 });
    }
    assert_eq!(store.forget_audit(at(9), 99).await.unwrap(), 1);
    assert_eq!(store.forget_audit(at(9), 99).await.unwrap(), 0);
}

async fn a_failing_change_leaves_nothing(store: AnyStore) {
    let id = with_run(&store).await;
    commit(&store, &id, vec![put(user("1", "one")), append("r", 1, &["1"])]).await;
    let before = store.chats(ChatQuery::new(&alice(), 10)).await.unwrap();
    let fine = vec![
        Change::Posted { profile: Profile::V5 },
        Change::TruncateMessages { keep: 0 },
        put(user("2", "two")),
        append("r", 2, &["2"]),
        put_call("r", &call("c", executing())),
        confirm("r", "a", true, true),
        save("r", json!(1), Some(at(0))),
        close("r"),
        open("next"),
        save("no such run", json!(1), None),
    ];
    refused(&store, &id, fine).await;
    assert_eq!(store.chats(ChatQuery::new(&alice(), 10)).await.unwrap(), before);
    assert_eq!(store.call(&id, &AnswerTarget::Call(ToolCallId::new("c"))).await.unwrap(), None);
    assert_eq!(store.due(Timestamp::MAX, 10).await.unwrap(), vec![]);
    let new = chat("new");
    refused(&store, &new, vec![create(alice()), put(user("1", "one")), close("r")]).await;
}

async fn what_does_not_fit_is_a_conflict(store: AnyStore) {
    let nowhere = chat("nowhere");
    let undecided = call("c", awaiting_approval());
    let unknown_run = || {
        vec![
            save("x", json!(1), None),
            append("x", 1, &["1"]),
            put_call("x", &undecided),
            confirm("x", "a", true, true),
            close("x"),
        ]
    };
    let of_a_chat = vec![
        Change::Posted { profile: Profile::V5 },
        Change::TruncateMessages { keep: 0 },
        put(user("1", "one")),
        open("r"),
    ];
    for change in of_a_chat.into_iter().chain(unknown_run()) {
        refused(&store, &nowhere, vec![change]).await;
    }
    let id = with_run(&store).await;
    for change in unknown_run() {
        refused(&store, &id, vec![change]).await;
    }
    refused(&store, &id, vec![create(alice())]).await;
    refused(&store, &id, vec![create(bob())]).await;
}

async fn chats_are_listed_newest_first_by_owner(store: AnyStore) {
    for (second, id, owner) in [(1, "a", alice()), (2, "b", alice()), (3, "c", bob()), (4, "d", alice())] {
        commit_at(&*store, &chat(id), at(second), vec![create(owner)]).await.unwrap();
    }
    commit_at(&*store, &chat("a"), at(5), vec![put(user("1", "hi")), Change::Touched]).await.unwrap();
    let saved = vec![put(user("2", "hello"))];
    commit_at(&*store, &chat("a"), at(6), saved).await.unwrap();
    let page = store.chats(ChatQuery::new(&alice(), 10)).await.unwrap();
    assert_eq!(ids(&page), ["a", "d", "b"]);
    assert_eq!(page.next, None);
    assert_eq!((page.chats[0].created_at, page.chats[0].updated_at), (at(1), at(5)));
    let first = store.chats(ChatQuery::new(&alice(), 2)).await.unwrap();
    assert_eq!(ids(&first), ["a", "d"]);
    let second = store
        .chats(ChatQuery { before: first.next.as_deref(), ..ChatQuery::new(&alice(), 2) })
        .await
        .unwrap();
    assert_eq!(ids(&second), ["b"]);
    assert_eq!(second.next, None);
    assert_eq!(
        store.chats(ChatQuery::new(&alice(), 3)).await.unwrap().next,
        None,
        "the last page may be full"
    );
    assert_eq!(ids(&store.chats(ChatQuery::new(&alice(), usize::MAX)).await.unwrap()).len(), 3);
    assert_eq!(ids(&store.chats(ChatQuery::new(&alice(), 0)).await.unwrap()).len(), 0);
}

async fn pages_neither_repeat_nor_skip_chats_of_the_same_time(store: AnyStore) {
    let all: BTreeSet<String> = (0..25).map(|n| format!("chat-{n}")).collect();
    for id in &all {
        // Times that differ by less than a microsecond are the same to a list.
        let at = at(0) + SignedDuration::from_nanos(id.len() as i64);
        commit_at(&*store, &chat(id), at, vec![create(alice())]).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = store
            .chats(ChatQuery { before: before.as_deref(), ..ChatQuery::new(&alice(), 4) })
            .await
            .unwrap();
        seen.extend(page.chats.iter().map(|chat| chat.id.to_string()));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, all.into_iter().rev().collect::<Vec<_>>());
}

async fn a_cursor_that_no_page_gave_is_refused(store: AnyStore) {
    with_run(&store).await;
    for wrong in ["", "x", "' or 1=1 --", "1~", "~a", "1~a"] {
        let result = store.chats(ChatQuery { before: Some(wrong), ..ChatQuery::new(&alice(), 1) }).await;
        assert!(matches!(result, Err(StoreError::BadCursor)), "{wrong:?} gave {result:?}");
    }
}

async fn pinned_chats_come_first_and_archived_ones_are_listed_apart(store: AnyStore) {
    for (second, id) in (1..).zip(["a", "b", "c", "d", "e"]) {
        commit_at(&*store, &chat(id), at(second), vec![create(alice()), put(user(id, "hi"))]).await.unwrap();
    }
    let put_listing = async |id: &str, listing: &Listing| {
        commit_at(&*store, &chat(id), at(9), vec![Change::PutListing(listing.clone())]).await.unwrap();
    };
    let named = Listing { title: Some("Zeit\0 東京".into()), archived: false, pinned: true };
    put_listing("b", &named).await;
    put_listing("d", &Listing { pinned: true, ..Listing::default() }).await;
    put_listing("c", &Listing { archived: true, ..Listing::default() }).await;
    assert_eq!(store.chat(&chat("b")).await.unwrap().unwrap().head.listing, named);
    let listed = async |archived| {
        let (mut ids, mut before) = (Vec::new(), None);
        loop {
            // Pages of one chat, so that each border is tried.
            let owner = alice();
            let query = ChatQuery { archived, before: before.as_deref(), ..ChatQuery::new(&owner, 1) };
            let page = store.chats(query).await.unwrap();
            ids.extend(page.chats.iter().map(|chat| chat.id.to_string()));
            before = page.next;
            if before.is_none() {
                return ids.concat();
            }
        }
    };
    assert_eq!(listed(Some(false)).await, "dbea");
    assert_eq!(listed(Some(true)).await, "c");
    assert_eq!(listed(None).await, "dbeca");
    let page = store.chats(ChatQuery::new(&alice(), 9)).await.unwrap();
    assert_eq!((&page.chats[1].listing, page.chats[1].updated_at), (&named, at(2)), "it stays where it was");
    put_listing("b", &Listing::default()).await;
    let page = store.chats(ChatQuery::new(&alice(), 9)).await.unwrap();
    assert_eq!(page.chats[3].listing, Listing { title: Some("hi".into()), ..Listing::default() });
}

async fn a_chat_is_called_after_its_first_user_message(store: AnyStore) {
    let id = chat("a");
    let title =
        async || store.chats(ChatQuery::new(&alice(), 1)).await.unwrap().chats[0].listing.title.clone();
    commit(&store, &id, vec![create(alice()), put(message("s", Role::System, "Be kind."))]).await;
    assert_eq!(title().await, None);
    commit(&store, &id, vec![put(user("1", " Where is it? ")), put(user("2", "And now?"))]).await;
    assert_eq!(title().await.as_deref(), Some("Where is it?"));
    commit(&store, &id, vec![put(user("1", "What is it?"))]).await;
    assert_eq!(title().await.as_deref(), Some("What is it?"));
    commit(&store, &id, vec![put(user("1", " "))]).await;
    assert_eq!(title().await, None, "a first message without words gives no title, whatever follows");
    commit(&store, &id, vec![Change::TruncateMessages { keep: 1 }]).await;
    assert_eq!(title().await, None);
}

async fn a_listed_chat_is_open_while_its_run_can_be_followed(store: AnyStore) {
    let id = chat("a");
    let listed = async || {
        let page = store.chats(ChatQuery::new(&alice(), 9)).await.unwrap();
        page.chats.iter().map(|chat| (chat.id.to_string(), chat.open)).collect::<Vec<_>>()
    };
    let is_open = async || listed().await.contains(&("a".into(), true));
    let saved = |waiting, detached| Change::SaveRun {
        run: run("r"),
        state: json!(1),
        expires: None,
        waiting,
        detached,
        questions: 0,
        owner: None,
        attempts: 0,
    };
    commit(&store, &id, vec![create(alice())]).await;
    assert!(!is_open().await, "nothing has begun");
    commit(&store, &id, vec![open("r")]).await;
    assert!(is_open().await);
    commit(&store, &id, vec![saved(true, false)]).await;
    assert!(is_open().await, "what waits can be followed while its readers are held");
    commit(&store, &id, vec![saved(true, true)]).await;
    assert!(!is_open().await, "the readers were sent away");
    commit(&store, &id, vec![saved(false, false)]).await;
    assert!(is_open().await, "it goes on");
    commit(&store, &chat("b"), vec![create(alice())]).await;
    assert_eq!(listed().await, [("b".into(), false), ("a".into(), true)]);
    commit(&store, &id, vec![saved(true, true), close("r")]).await;
    assert!(!is_open().await);
    commit(&store, &id, vec![open("next")]).await;
    assert!(is_open().await, "the next run is not held to what became of the one before");
}

async fn a_listed_chat_counts_what_waits_for_somebody(store: AnyStore) {
    let id = with_run(&store).await;
    let listed = async || {
        let page = store.chats(ChatQuery::new(&alice(), 9)).await.unwrap();
        page.chats.iter().map(|chat| (chat.id.to_string(), chat.pending)).collect::<Vec<_>>()
    };
    let made = |id: &str, by: RunBy, states: Vec<CallState>| {
        let mut call = Call::new(ToolCallId::new(id), 1, "t".into(), Some(by), at(0));
        states.into_iter().for_each(|state| call.enter(state, at(0)));
        put_call("r", &call)
    };
    let running = || vec![scheduled(), executing()];
    assert_eq!(listed().await, [("a".into(), 0)]);
    commit(
        &store,
        &id,
        vec![
            made("validating", RunBy::Browser, vec![]),
            made("asked", RunBy::Server, vec![awaiting_approval()]),
            made("asked-too", RunBy::Browser, vec![awaiting_approval()]),
            made("withheld", RunBy::Browser, vec![scheduled()]),
            made("parked", RunBy::Browser, vec![scheduled(), parked()]),
            made("running", RunBy::Server, running()),
            made("running-elsewhere", RunBy::Mcp, running()),
        ],
    )
    .await;
    assert_eq!(listed().await, [("a".into(), 3)]);
    let done = || [running(), vec![CallState::Success { output: json!(1) }]].concat();
    commit(&store, &id, vec![made("parked", RunBy::Browser, done())]).await;
    assert_eq!(listed().await, [("a".into(), 2)]);
    let asking = |questions, owner: &str| Change::SaveRun {
        run: run("r"),
        state: json!(1),
        expires: None,
        waiting: true,
        detached: false,
        questions,
        owner: Some(instance(owner)),
        attempts: 0,
    };
    store.join(&instance("alive")).await.unwrap();
    commit(&store, &id, vec![asking(3, "alive")]).await;
    assert_eq!(listed().await, [("a".into(), 5)], "what a running call asks waits beside the calls");
    commit(&store, &id, vec![asking(3, "dead")]).await;
    assert_eq!(
        listed().await,
        [("a".into(), 2)],
        "and as long as there is somebody who would hear the answer"
    );
    commit(&store, &id, vec![asking(0, "alive")]).await;
    assert_eq!(listed().await, [("a".into(), 2)]);
    let mut own = Call::new(ToolCallId::new("own"), 1, "ask_user".into(), Some(RunBy::Server), at(0));
    let asks = Work::Asking { about: Asking::Call, expires: at(99) };
    [scheduled(), CallState::Executing { work: asks }].into_iter().for_each(|state| own.enter(state, at(0)));
    commit(&store, &id, vec![put_call("r", &own), asking(1, "alive")]).await;
    assert_eq!(listed().await, [("a".into(), 3)], "a question of the run itself is counted once");
    commit(&store, &id, vec![asking(1, "dead")]).await;
    assert_eq!(listed().await, [("a".into(), 3)], "and outlives its process");
    own.enter(CallState::Success { output: json!(1) }, at(0));
    commit(&store, &id, vec![put_call("r", &own), asking(0, "alive")]).await;
    assert_eq!(listed().await, [("a".into(), 2)]);
    commit(
        &store,
        &chat("b"),
        vec![create(alice()), open("r"), made("parked", RunBy::Browser, vec![scheduled(), parked()])],
    )
    .await;
    assert_eq!(listed().await, [("b".into(), 1), ("a".into(), 2)]);
    commit(&store, &chat("b"), vec![asking(1, "alive"), close("r")]).await;
    assert_eq!(listed().await, [("b".into(), 0), ("a".into(), 2)], "nothing waits in a run that is over");
}

async fn a_chat_is_due_when_its_open_run_is(store: AnyStore) {
    for (id, expires) in [("late", Some(at(30))), ("never", None), ("b", Some(at(10))), ("a", Some(at(20)))] {
        commit(&store, &chat(id), vec![create(alice()), open("r"), save("r", json!(1), expires)]).await;
    }
    let due = async |second, limit| store.due(at(second), limit).await.unwrap();
    assert_eq!(due(9, 10).await, []);
    assert_eq!(due(10, 10).await, [chat("b")]);
    assert_eq!(due(20, 10).await, [chat("b"), chat("a")], "the earliest comes first");
    assert_eq!(due(99, 2).await, [chat("b"), chat("a")]);
    commit(&store, &chat("b"), vec![save("r", json!(2), None)]).await;
    commit(&store, &chat("a"), vec![close("r")]).await;
    assert_eq!(due(99, 10).await, [chat("late")]);
}

async fn a_deadline_between_two_microseconds_is_not_early(store: AnyStore) {
    let id = with_run(&store).await;
    let expires = at(0) + SignedDuration::from_nanos(1_500);
    commit(&store, &id, vec![save("r", json!(1), Some(expires))]).await;
    let early = expires - SignedDuration::from_nanos(1);
    assert_eq!(store.due(early, 1).await.unwrap(), []);
    assert_eq!(store.due(expires + SignedDuration::from_micros(1), 1).await.unwrap(), [id]);
}

async fn a_deleted_chat_leaves_nothing_and_its_id_is_free(store: AnyStore) {
    let (id, other) = (with_run(&store).await, chat("b"));
    let waiting = call("c", awaiting_approval());
    let full = vec![
        put(user("1", "one")),
        append("r", 1, &["1"]),
        put_call("r", &waiting),
        confirm("r", "a", true, true),
        save("r", json!(1), Some(at(0))),
    ];
    commit(&store, &id, full.clone()).await;
    commit(&store, &other, [vec![create(alice()), open("r")], full].concat()).await;
    let kept = store.chat(&other).await.unwrap();
    delete(&*store, &id).await;
    assert_eq!(store.chat(&id).await.unwrap(), None);
    assert_eq!(store.owner_of(&id).await.unwrap(), None);
    assert_eq!(store.call(&id, &AnswerTarget::Call(waiting.id.clone())).await.unwrap(), None);
    assert_eq!(store.due(at(1), 10).await.unwrap(), std::slice::from_ref(&other));
    refused(&store, &id, vec![put(user("2", "two"))]).await;
    commit(&store, &id, vec![create(bob()), open("r")]).await;
    let fresh = store.chat(&id).await.unwrap().unwrap();
    assert_eq!(
        (fresh.head.owner, messages(&store, &id).await.len(), fresh.confirmations.len()),
        (bob(), 0, 0)
    );
    assert_eq!(fresh.open_run.unwrap().chunks.len(), 0);
    assert_eq!(store.chat(&other).await.unwrap(), kept);
}

async fn many_chats_change_at_once(store: AnyStore) {
    let writers: Vec<_> = (0..24)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let id = chat(&format!("chat-{n}"));
                commit(&store, &id, vec![create(alice()), open("r")]).await;
                for place in 1..=10 {
                    let text = place.to_string();
                    commit(&store, &id, vec![append("r", place, &[&text]), put(user(&text, &text))]).await;
                    assert_eq!(messages(&store, &id).await.len() as u64, place);
                }
                let record = store.chat(&id).await.unwrap().unwrap();
                let places: Vec<_> = (1..=10).map(|place| place.to_string()).collect();
                assert_eq!(record.open_run.unwrap().texts(), places);
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(store.chats(ChatQuery::new(&alice(), 100)).await.unwrap().chats.len(), 24);
}
