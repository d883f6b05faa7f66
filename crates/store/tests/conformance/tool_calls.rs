//! The tool calls as an operator reads them with plain SQL.

use fermata_engine::store::ChatStore;
use fermata_protocol::{AnswerKind, ToolCallId};
use fermata_store::SqlStore;
use fermata_tools::{
    ApprovalDecision, Call, CallState, Cancelled, Decision, DecisionChannel, DecisionSource, ErrorType,
    Owner, PolicyDecision, RunBy,
};
use jiff::Timestamp;
use serde_json::json;

use crate::{
    fixtures::*,
    sqlite::{column, count, one, opened},
    test_database::TestDatabase,
};

/// The first column of the first row, as text; `null` as such.
fn read(folder: &Folder, query: &str) -> String {
    one(folder, &format!("select coalesce(cast(({query}) as text), 'null')"))
}

async fn stored(calls: &[Call]) -> (Folder, SqlStore) {
    let folder = Folder::new();
    let store = opened(&folder).await;
    let mut changes = vec![create(alice()), open("r")];
    changes.extend(calls.iter().map(|call| put_call("r", call)));
    commit_at(&store, &chat("a"), at(0), changes).await.unwrap();
    (folder, store)
}

fn microsecond(n: i64) -> Timestamp {
    Timestamp::from_microsecond(n).unwrap()
}

#[tokio::test]
async fn a_settled_call_stands_there_column_by_column() {
    let mut call =
        Call::new(ToolCallId::new("c"), 2, "write_note".into(), Some(RunBy::Server), microsecond(100));
    for (state, at) in [
        (awaiting_approval(), 110),
        (scheduled(), 1_000),
        (executing(), 1_500),
        (CallState::Success { output: json!({"b": 1, "a": "ü"}) }, 9_000),
    ] {
        call.enter(state, microsecond(at));
    }
    call.input = json!({"title": "x"}).into();
    call.edited = Some(json!({"title": "y"}).into());
    call.policy_decision = Some(PolicyDecision {
        decision: Decision::Ask,
        reason: Some("careful".into()),
        by: DecisionSource::Rule(3),
        terms: None,
    });
    call.approval_request = Some(request("q"));
    call.approval_decision = Some(ApprovalDecision {
        by: Owner::new("bob"),
        at: at(1),
        approved: true,
        reason: Some("fine".into()),
        always: true,
        how: Some(DecisionChannel::Words),
    });
    let (folder, _store) = stored(&[call]).await;
    for (column, value) in [
        ("tool", "write_note"),
        ("run_by", "server"),
        ("step", "2"),
        ("state", "success"),
        ("created_at", "100"),
        ("started_at", "1500"),
        ("ended_at", "9000"),
        ("waited_for_approval", "890"),
        ("waited_for_turn", "500"),
        ("ran_for", "7500"),
        ("policy_decision", "ask"),
        ("policy_source", "rule 3"),
        ("policy_reason", "careful"),
        ("approval_id", "q"),
        ("approved", "1"),
        ("always", "1"),
        ("decided_by", "bob"),
        ("decided_reason", "fine"),
        ("decided_how", "words"),
        ("input", r#"{"title":"x"}"#),
        ("edited_input", r#"{"title":"y"}"#),
        ("outcome", r#"{"b":1,"a":"ü"}"#),
        ("error_type", "null"),
        ("expires_at", "null"),
        ("json_array_length(states)", "5"),
        ("states ->> '$[4].state'", "success"),
        ("states ->> '$[4].at'", "1970-01-01T00:00:00.009Z"),
    ] {
        assert_eq!(read(&folder, &format!("select {column} from tool_calls")), value, "{column}");
    }
}

#[tokio::test]
async fn a_wait_is_measured_across_the_end_of_the_process() {
    let mut waits = Call::new(ToolCallId::new("c"), 1, "t".into(), Some(RunBy::Server), microsecond(100));
    waits.enter(awaiting_approval(), microsecond(110));
    let (folder, store) = stored(&[waits]).await;
    let durations = "select waited_for_approval || ' ' || coalesce(waited_for_turn, 'null') from tool_calls";
    assert_eq!(read(&folder, durations), "null", "it still waits");
    store.close().await;
    let store = opened(&folder).await;
    let mut call = store.chat(&chat("a")).await.unwrap().unwrap().open_run.unwrap().calls.remove(0);
    call.enter(scheduled(), microsecond(5_000));
    commit_at(&store, &chat("a"), at(0), vec![put_call("r", &call)]).await.unwrap();
    assert_eq!(read(&folder, durations), "4890 null");
    assert_eq!(read(&folder, "select created_at from tool_calls"), "100");
}

#[tokio::test]
async fn what_has_not_happened_is_null() {
    let mut call = Call::new(ToolCallId::new("c"), 1, "no_such_tool".into(), None, microsecond(5));
    let columns = [
        "run_by",
        "started_at",
        "ended_at",
        "waited_for_approval",
        "waited_for_turn",
        "ran_for",
        "policy_decision",
        "policy_source",
        "approval_id",
        "approved",
        "decided_by",
        "edited_input",
        "outcome",
        "error_type",
    ];
    let (folder, store) = stored(std::slice::from_ref(&call)).await;
    for column in columns {
        assert_eq!(read(&folder, &format!("select {column} from tool_calls")), "null", "{column}");
    }
    let failed = CallState::Error { error_type: ErrorType::InvalidFormat, error_text: "no such tool".into() };
    call.enter(failed, microsecond(7));
    commit_at(&store, &chat("a"), at(0), vec![put_call("r", &call)]).await.unwrap();
    for (column, value) in [
        ("state", "error"),
        ("created_at", "5"),
        ("ended_at", "7"),
        ("started_at", "null"),
        ("outcome", "\"no such tool\""),
        ("error_type", "invalid_format"),
    ] {
        assert_eq!(read(&folder, &format!("select {column} from tool_calls")), value, "{column}");
    }
}

#[tokio::test]
async fn why_a_call_never_ran_is_its_outcome() {
    let denied = Cancelled::Denied { reason: Some("not now".into()) };
    for (cancelled, outcome, error_type) in [
        (denied, r#"{"why":"denied","reason":"not now"}"#, "denied"),
        (Cancelled::Expired, r#"{"why":"expired"}"#, "cancelled"),
    ] {
        let (folder, _store) = stored(&[call("c", CallState::Cancelled { cancelled })]).await;
        assert_eq!(read(&folder, "select outcome from tool_calls"), outcome);
        assert_eq!(read(&folder, "select error_type from tool_calls"), error_type);
    }
}

#[tokio::test]
async fn neither_input_nor_output_is_kept_twice() {
    let long = |mark: &str| format!("{mark}{}", "x".repeat(1_000));
    let output = json!({"text": long("output")});
    let settled = changed(call("c", CallState::Success { output: output.clone() }), |call| {
        call.run_by = Some(RunBy::Browser);
        call.input = json!({"text": long("input")}).into();
        call.edited = Some(json!({"text": long("edited")}).into());
        call.note_answer(&AnswerKind::Output { output });
    });
    let (folder, _store) = stored(&[settled]).await;
    let columns: Vec<String> =
        column(&folder, 0, "select name from pragma_table_xinfo('calls') where name != 'chat_id'");
    let row = columns.iter().map(|column| format!("coalesce({column}, '')")).collect::<Vec<_>>().join(" || ");
    let row = read(&folder, &format!("select {row} from calls"));
    for mark in ["outputx", "inputx", "editedx"] {
        assert_eq!(row.matches(mark).count(), 1, "{mark}");
    }
}

#[tokio::test]
async fn the_questions_of_operators_have_an_index() {
    let (folder, _store) = stored(&[]).await;
    for question in [
        "select state from tool_calls where chat_id = 'a'",
        "select state from tool_calls where approval_id = 'q'",
        "select state from tool_calls where chat_id = 'a' and approval_id = 'q'",
        "select state from tool_calls where tool = 't' and created_at > 5 order by created_at desc",
        "select approved from confirmations where chat_id = 'a' order by position",
    ] {
        let plan: Vec<String> = column(&folder, 3, &format!("explain query plan {question}"));
        assert!(plan.iter().all(|step| step.starts_with("SEARCH")), "{question}: {plan:?}");
    }
}

#[tokio::test]
async fn calls_of_all_kinds_fit_the_constraints_of_the_table() {
    let calls = calls_of_all_kinds();
    let (folder, _store) = stored(&calls).await;
    assert_eq!(count(&folder, "tool_calls"), calls.len() as i64);
    assert!(count(&folder, "tool_calls where policy_source = 'rule 12'") > 0);
}

#[tokio::test]
async fn both_databases_show_operators_the_same() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    let calls = calls_of_all_kinds();
    let (folder, _store) = stored(&calls).await;
    let database = postgres.open().await;
    let mut changes = vec![create(alice()), open("r")];
    changes.extend(calls.iter().map(|call| put_call("r", call)));
    commit_at(&*database.store, &chat("a"), at(0), changes).await.unwrap();
    database.close().await;
    for name in [
        "step",
        "states",
        "policy_decision",
        "policy_source",
        "policy_reason",
        "cast(approved as integer)",
        "cast(always as integer)",
        "decided_by",
        "decided_reason",
        "decided_how",
        "input",
        "edited_input",
        // PostgreSQL has no U+0000.
        r"replace(outcome, '\u001a0', '\u0000')",
    ] {
        let query =
            format!("select coalesce(cast({name} as text), 'null') from tool_calls order by position");
        let here: Vec<String> = column(&folder, 0, &query);
        assert_eq!(postgres.column::<String>(&query).await, here, "{name}");
        assert!(here.iter().any(|value| value != "null"), "{name}");
    }
}
