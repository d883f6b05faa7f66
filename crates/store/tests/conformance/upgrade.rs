//! What older versions wrote is there after an upgrade, and answerable as it was.

use std::{borrow::Cow, path::Path};

use fermata_engine::store::{ChatStore, Version};
use fermata_protocol::{AnswerKind, AnswerTarget, ApprovalId, ToolCallId};
use fermata_store::SqlStore;
use fermata_tools::{
    ApprovalDecision, ApprovalRequest, Call, CallState, Cancelled, Decision, DecisionSource, ErrorType,
    Owner, PolicyDecision, Refusal, RunBy, StateName, ValidAnswer,
};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection, migrate::Migrator};

use crate::{
    fixtures::*,
    sqlite::{count, execute, opened},
    test_database::TestDatabase,
};

/// The last migration before calls had columns.
const BEFORE_TOOL_CALLS: i64 = 4;

const ROWS: &str = "
insert into chats (id, owner, profile, created_at, updated_at) values ('a', 'alice', 6, 1, 1);
insert into runs (chat_id, id, message_id, state, started_at, ended_at, outcome)
    values ('a', 'over', 'm1', null, 1, 2, 'finished');
insert into runs (chat_id, id, message_id, state, started_at) values ('a', 'r', 'm2', '{\"step\":1}', 3);
insert into run_chunks (chat_id, run_id, first, next, chunks) values ('a', 'r', 1, 2, char(30) || '{}' || char(10));
insert into confirmations
    (chat_id, position, run_id, call_id, tool, approval_id, input, approved, always, reason, decided_by, decided_at)
    values
    ('a', 0, 'over', 'c0', 'once', 'q0', '{}', 1, 0, null, 'alice', 10),
    ('a', 1, 'over', 'c1', 'always', 'q1', '{\"z\":1,\"a\":2}', 1, 1, 'go on', 'alice', 11),
    ('a', 2, 'over', 'c2', 'always', null, '1', 0, 0, 'no', 'alice', 12),
    ('a', 3, 'over', 'c3', 'never', 'q3', '1', 0, 1, null, 'alice', 13);
";

/// A file of a version that had only the migrations up to [`BEFORE_TOOL_CALLS`].
async fn old_file(calls: &[(&str, &str, Value)]) -> Folder {
    let folder = Folder::new();
    let mut connection = SqliteConnection::connect(&format!("{}?mode=rwc", folder.url())).await.unwrap();
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/sqlite");
    let migrations = Migrator::new(migrations).await.unwrap();
    let old: Vec<_> =
        migrations.iter().filter(|migration| migration.version <= BEFORE_TOOL_CALLS).cloned().collect();
    let migrator = Migrator { migrations: Cow::Owned(old), ..Migrator::DEFAULT };
    migrator.run(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    execute(&folder, ROWS).await.unwrap();
    for (position, (run, state, body)) in calls.iter().enumerate() {
        put_old(&folder, position, run, state, &body.to_string(), body).await;
    }
    folder
}

async fn put_old(folder: &Folder, position: usize, run: &str, state: &str, text: &str, body: &Value) {
    let mut connection = SqliteConnection::connect(&folder.url()).await.unwrap();
    sqlx::query(
        "insert into calls (chat_id, run_id, position, id, step, tool, state, approval_id, expires_at, body)
         values ('a', $1, $2, $3, 1, $4, $5, $6, $7, $8)",
    )
    .bind(run)
    .bind(position as i64)
    .bind(body["id"].as_str().unwrap())
    .bind(body["tool"].as_str().unwrap_or("t"))
    .bind(state)
    .bind(body["question"]["id"].as_str())
    .bind(body["expires"].as_str().map(|_| 1_700_000_060_000_000_i64))
    .bind(text)
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
}

/// A body as older versions wrote it: the state as an object, and no history.
fn old_body(id: &str, state: Value, others: Value) -> Value {
    let mut body =
        json!({"id": id, "step": 1, "tool": "t", "run_by": "browser", "input": {"z": 1, "a": "ü"}});
    body["state"] = state;
    body["since"] = json!("2023-11-14T22:13:20.123456789Z");
    body.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
    body
}

async fn found(store: &SqlStore, id: &str) -> Call {
    store.call(&chat("a"), &AnswerTarget::Call(ToolCallId::new(id))).await.unwrap().unwrap()
}

#[tokio::test]
async fn old_calls_are_found_and_answered_as_before() {
    let output = json!({"b": [1.5, "\u{0}"], "a": null});
    let answer = json!({"kind": "output", "output": output});
    let question = json!({"id": "q", "required": true});
    let folder = old_file(&[
        (
            "over",
            "success",
            old_body("done", json!({"state": "success", "output": output}), json!({"answer": answer})),
        ),
        (
            "over",
            "error",
            old_body(
                "failed",
                json!({"state": "error", "error_text": "no"}),
                json!({"answer": {"kind": "failure", "error_text": "no"}}),
            ),
        ),
        (
            "over",
            "cancelled",
            old_body(
                "denied",
                json!({"state": "cancelled", "cancelled": {"why": "denied", "reason": "not now"}}),
                json!({"run_by": "server", "question": {"id": "q-denied", "required": false}, "edited": [1],
                    "decided": {"approved": false, "reason": "not now", "always": false}}),
            ),
        ),
        (
            "over",
            "cancelled",
            old_body(
                "late",
                json!({"state": "cancelled", "cancelled": {"why": "expired"}}),
                json!({"run_by": null, "input": "{not json"}),
            ),
        ),
        (
            "r",
            "awaiting_approval",
            old_body(
                "asked",
                json!({"state": "awaiting_approval"}),
                json!({"question": question, "expires": "2023-11-14T22:14:20Z"}),
            ),
        ),
        ("r", "executing", old_body("runs", json!({"state": "executing"}), json!({"run_by": "server"}))),
    ])
    .await;
    let store = opened(&folder).await;

    let done = found(&store, "done").await;
    assert_eq!(done.state(), &CallState::Success { output: output.clone() });
    assert_eq!(
        done.validate_answer(&AnswerKind::Output { output: output.clone() }),
        Ok(ValidAnswer::Repeated)
    );
    assert_eq!(done.validate_answer(&AnswerKind::Output { output: json!(2) }), Err(Refusal::AlreadyAnswered));
    assert_eq!((done.run_by, done.input.to_string()), (Some(RunBy::Browser), r#"{"z":1,"a":"ü"}"#.into()));
    assert_eq!(done.since(), "2023-11-14T22:13:20.123456789Z".parse().unwrap());

    let failed = found(&store, "failed").await;
    let error = CallState::Error { error_type: ErrorType::Internal, error_text: "no".into() };
    assert_eq!(failed.state(), &error);
    assert_eq!(
        failed.validate_answer(&AnswerKind::Failure { error_text: "no".into() }),
        Ok(ValidAnswer::Repeated)
    );

    let denied =
        store.call(&chat("a"), &AnswerTarget::Approval(ApprovalId::new("q-denied"))).await.unwrap().unwrap();
    let reason = Some("not now".to_owned());
    assert_eq!(
        denied.state(),
        &CallState::Cancelled { cancelled: Cancelled::Denied { reason: reason.clone() } }
    );
    let by = Owner::new("alice");
    assert_eq!(
        denied.approval_decision,
        Some(ApprovalDecision { by, approved: false, reason, always: false, how: None })
    );
    assert_eq!(
        denied.approval_request,
        Some(ApprovalRequest { id: ApprovalId::new("q-denied"), required: false })
    );
    assert_eq!((denied.edited, denied.run_by), (Some(json!([1]).into()), Some(RunBy::Server)));

    assert_eq!(count(&folder, "tool_calls where answered = 1").await, 2, "no output is kept twice");

    let late = found(&store, "late").await;
    assert_eq!(late.validate_answer(&AnswerKind::Output { output }), Err(Refusal::Gone));
    assert_eq!((late.run_by, late.input), (None, json!("{not json").into()));
    store.close().await;
}

#[tokio::test]
async fn an_old_open_run_goes_on() {
    let expires = json!({"question": {"id": "q", "required": true}, "expires": "2023-11-14T22:14:20Z"});
    let folder = old_file(&[
        ("r", "awaiting_approval", old_body("asked", json!({"state": "awaiting_approval"}), expires)),
        ("r", "executing", old_body("runs", json!({"state": "executing"}), json!({"run_by": "server"}))),
    ])
    .await;
    let store = opened(&folder).await;
    assert_eq!(store.orphans(9).await.unwrap(), [chat("a")], "nobody owns it, and it may be at work");
    assert_eq!(version(&store, &chat("a")).await, Version(1));
    let run = store.chat(&chat("a")).await.unwrap().unwrap().open_run.unwrap();
    assert_eq!((run.state, run.chunks.len()), (json!({"step": 1}), 1));
    let [mut asked, runs] = <[Call; 2]>::try_from(run.calls).unwrap();
    assert!(asked.awaits_approval() && asked.accepts_decision());
    assert_eq!(asked.state().expires(), Some("2023-11-14T22:14:20Z".parse().unwrap()));
    assert_eq!(runs.times_run(), 1, "it has begun to run, and must not begin again");
    asked.enter(scheduled(), asked.since() + jiff::SignedDuration::from_secs(2));
    let states: Vec<_> = asked.history().iter().map(|entered| entered.state).collect();
    assert_eq!(states, [StateName::AwaitingApproval, StateName::Scheduled]);
    commit_at(&store, &chat("a"), at(0), vec![put_call("r", &asked)]).await.unwrap();
    assert_eq!(found(&store, "asked").await, asked);
    store.close().await;
    assert_eq!(
        count(
            &folder,
            "tool_calls where id = 'asked' and waited_for_approval = 2000000 and created_at is null"
        )
        .await,
        1
    );
    assert_eq!(count(&folder, "tool_calls where id = 'runs' and started_at = 1700000000123456").await, 1);
}

#[tokio::test]
async fn times_of_old_calls_are_read_whatever_their_fractions() {
    for (since, ended_at) in [
        ("2023-11-14T22:13:20Z", 1_700_000_000_000_000_i64),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000_500_000),
        ("2023-11-14T22:13:20.000001Z", 1_700_000_000_000_001),
        ("2023-11-14T22:13:20.999999999Z", 1_700_000_000_999_999),
    ] {
        let state = json!({"state": "success", "output": null});
        let folder = old_file(&[("over", "success", old_body("c", state, json!({"since": since})))]).await;
        opened(&folder).await.close().await;
        let row =
            format!("tool_calls where ended_at = {ended_at} and started_at is null and outcome = 'null'");
        assert_eq!(count(&folder, &row).await, 1, "{since}");
    }
}

#[tokio::test]
async fn a_history_that_is_there_already_is_kept() {
    let mut call = call("c", CallState::Success { output: json!([1]) });
    call.answer = Some(AnswerKind::Output { output: json!([1]) });
    call.policy_decision = Some(PolicyDecision {
        decision: Decision::Ask,
        reason: Some("why".into()),
        by: DecisionSource::Rule(2),
    });
    call.approval_decision =
        Some(ApprovalDecision { by: bob(), approved: true, reason: None, always: true, how: None });
    let folder = old_file(&[("r", "success", serde_json::to_value(&call).unwrap())]).await;
    let store = opened(&folder).await;
    assert_eq!(found(&store, "c").await, call);
    assert_eq!(count(&folder, "tool_calls where created_at = 1700000000000000 and answered = 1").await, 1);
    store.close().await;
}

#[tokio::test]
async fn a_call_that_nobody_can_read_stands_in_the_way_of_its_own_chat_only() {
    let folder = old_file(&[]).await;
    put_old(&folder, 0, "r", "success", "{broken", &json!({"id": "c"})).await;
    let store = opened(&folder).await;
    assert!(store.chat(&chat("a")).await.is_err());
    commit_at(&store, &chat("b"), at(0), vec![create(alice())]).await.unwrap();
    assert!(store.chat(&chat("b")).await.unwrap().is_some());
    store.close().await;
}

#[tokio::test]
async fn old_confirmations_are_carried_over_and_stay_append_only() {
    let folder = old_file(&[]).await;
    let store = opened(&folder).await;
    let said = store.chat(&chat("a")).await.unwrap().unwrap().confirmations;
    let answers: Vec<_> = said.iter().map(|said| (said.approved, said.terms.is_some())).collect();
    assert_eq!(answers, [(true, false), (true, false), (false, false), (false, false)], "no grant has terms");
    assert_eq!(said[1].reason.as_deref(), Some("go on"));
    assert_eq!(count(&folder, r#"confirmations where position = 1 and input = '{"z":1,"a":2}'"#).await, 1);
    assert_eq!(said[3].at.as_microsecond(), 13);
    for statement in ["update confirmations set answer = 'yes_always'", "delete from confirmations"] {
        assert!(execute(&folder, statement).await.is_err(), "{statement}");
    }
    delete(&store, &chat("a")).await;
    assert_eq!(count(&folder, "confirmations").await, 0);
    store.close().await;
}

// === runs that are older than their owners ===

/// A PostgreSQL database of a version that had only the migrations before those, with a thousand open runs and one that is over.
async fn old_postgres() -> Option<TestDatabase> {
    let postgres = TestDatabase::schema().await?;
    let mut connection = postgres.raw().await;
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/postgres");
    let migrations = Migrator::new(migrations).await.unwrap();
    let old = migrations.iter().filter(|migration| migration.version < OWNERS_OF_RUNS).cloned().collect();
    let migrator = Migrator { migrations: Cow::Owned(old), locking: false, ..Migrator::DEFAULT };
    // An index that is built `concurrently` waits for the queries of other tests, so this waits for its turn without one.
    let take = format!("select cast(pg_try_advisory_lock({MIGRATING}) as int)");
    while sqlx::query_scalar::<_, i32>(AssertSqlSafe(take.as_str())).fetch_one(&mut connection).await.unwrap()
        == 0
    {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    migrator.run(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    for rows in [
        "insert into chats (id, fence, owner, profile, created_at, updated_at)
         select 'c' || n, 1, case when n % 2 = 0 then 'alice' else 'bob' end, 6, 1, 1 from generate_series(1, 2501) as n",
        "insert into runs (chat_id, id, message_id, state, driver, waiting, started_at)
         select 'c' || n, 'r', 'm', 'null', 'gone', false, 1 from generate_series(1, 2500) as n",
        "insert into runs (chat_id, id, message_id, waiting, started_at, ended_at, outcome)
         values ('c2501', 'r', 'm', false, 1, 2, 'finished')",
    ] {
        postgres.execute(rows).await.unwrap();
    }
    Some(postgres)
}

const OWNERS_OF_RUNS: i64 = 20;
/// The advisory lock of the process that migrates a database.
const MIGRATING: i64 = 0x0046_6572_6d61_7461;

#[tokio::test]
async fn open_runs_of_an_older_version_have_owners_and_so_have_those_that_it_goes_on_to_open() {
    let Some(postgres) = old_postgres().await else { return };
    let database = postgres.open().await;
    assert_eq!(runs_elsewhere(&*database.store, &alice(), "one").await, 1250);
    assert_eq!(runs_elsewhere(&*database.store, &bob(), "one").await, 1250);
    let as_before = "insert into runs (chat_id, id, message_id, state, driver, waiting, started_at)
         values ('c2501', 'r2', 'm', 'null', 'old', false, 1)";
    postgres.execute(as_before).await.unwrap();
    assert_eq!(runs_elsewhere(&*database.store, &bob(), "one").await, 1251);
    assert_eq!(runs_elsewhere(&*database.store, &bob(), "old").await, 1250);
    database.close().await;
}

#[tokio::test]
async fn a_migration_does_not_make_others_wait_behind_a_long_query() {
    let Some(postgres) = old_postgres().await else { return };
    let mut long_query = postgres.raw().await;
    sqlx::raw_sql("begin; select count(*) from runs").execute(&mut long_query).await.unwrap();
    let opening = postgres.open();
    let commits = async {
        // The migration waits for the table; whoever comes behind it goes on once it gives up.
        postgres
            .until("select count(*) from pg_locks where not granted and relation = to_regclass('runs')", 1)
            .await;
        postgres.execute("update runs set attempts = 1 where chat_id = 'c1'").await.unwrap();
        sqlx::raw_sql("commit").execute(&mut long_query).await.unwrap();
    };
    let (database, ()) = tokio::join!(opening, commits);
    assert_eq!(runs_elsewhere(&*database.store, &alice(), "one").await, 1250);
    database.close().await;
}

#[tokio::test]
async fn an_index_that_was_built_by_half_is_built_again() {
    let Some(postgres) = TestDatabase::schema().await else { return };
    postgres.open().await.close().await;
    let half = "update pg_index set indisvalid = false where indexrelid = to_regclass('runs_open_by_owner')";
    postgres.execute(half).await.unwrap();
    postgres.execute("delete from _sqlx_migrations where version = 22").await.unwrap();
    postgres.open().await.close().await;
    let valid =
        "select count(*) from pg_index where indisvalid and indexrelid = to_regclass('runs_open_by_owner')";
    assert_eq!(postgres.number(valid).await, 1);
}
