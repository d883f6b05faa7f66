//! The audit as an operator reads it: the rows of the table `audit_events`.

use std::collections::BTreeSet;

use axum::{body::Body, http::Method};
use fermata_tools::AuditAction;
use serde_json::{Value, json};

use crate::{
    TestApp,
    app::says,
    database::Database,
    scripted::{self, calls},
};

const ALICE: (&str, &str) = ("authorization", "Bearer alice-0123456789abcdef");
const BOB: (&str, &str) = ("authorization", "Bearer bob-0123456789abcdefgh");
const OPTIONS: &[&str] = &[
    "--auth",
    "token",
    "--tokens",
    "alice:alice-0123456789abcdef,bob:bob-0123456789abcdefgh",
    "--builtin",
    "notes,memory",
    "--hold",
    "0s",
];

/// Returns the events of a chat, or of no chat, in order.
fn events(file: &Database, chat: &str) -> Vec<String> {
    let database = file.read();
    let mut query =
        database.prepare("select event from audit_events where chat_id = $1 order by id").expect("a query");
    let rows = query.query_map([chat], |row| row.get(0)).expect("rows");
    rows.map(|event| event.expect("an event")).collect()
}

async fn post(app: &TestApp, path: &str, body: Value) {
    let answer = app.ask(Method::POST, path, &[ALICE], body.to_string()).await;
    assert!(answer.status.is_success(), "{path}: {}", answer.text);
}

#[tokio::test]
async fn after_its_chat_is_deleted_it_is_known_whether_an_approved_call_ran() {
    let file = Database::new();
    let write = || calls(&[("write_note", json!({"title": "milk", "body": "two"}))]);
    let app = TestApp::on(&file.url(), OPTIONS, [write(), scripted::says("Written.")]).await;
    post(&app, "/api/chat", says("c", "note it")).await;
    let pending = app.ask(Method::GET, "/api/chat/c/pending", &[ALICE], Body::empty()).await.json();
    let call = pending["pending"][0]["toolCallId"].clone();
    let approve = json!({"chatId": "c", "toolCallId": call, "approved": true});
    let refused = app.ask(Method::POST, "/chat/tool-result", &[BOB], approve.to_string()).await;
    assert_eq!(refused.status, 404, "{}", refused.text);
    while events(&file, "c").len() < 2 {
        tokio::task::yield_now().await;
    }
    post(&app, "/chat/tool-result", approve).await;
    while !events(&file, "c").contains(&"succeeded".to_owned()) {
        tokio::task::yield_now().await;
    }
    let deleted = app.ask(Method::DELETE, "/api/chat/c", &[ALICE], Body::empty()).await;
    assert_eq!(deleted.status, 204, "{}", deleted.text);
    assert_eq!(
        events(&file, "c"),
        ["rule_asked", "refused_to_other", "approved", "started", "succeeded", "chat_deleted"]
    );
    // What others have tried is for the operator, and no part of the owner's data.
    let exported = app.ask(Method::GET, "/api/me/data", &[ALICE], Body::empty()).await.text;
    assert!(exported.contains("succeeded") && !exported.contains("refused_to_other"), "{exported}");
    assert!(!exported.contains("bob"), "{exported}");
}

#[tokio::test]
async fn what_happens_to_memories_and_to_all_data_is_noted_with_who_did_it() {
    let file = Database::new();
    let remembers = [calls(&[("remember", json!({"text": "Likes tea."}))]), scripted::says("Noted.")];
    let app = TestApp::on(&file.url(), OPTIONS, remembers).await;
    post(&app, "/api/chat", says("c", "I like tea.")).await;
    let listed = app.ask(Method::GET, "/api/memories", &[ALICE], Body::empty()).await.json();
    let origin = &listed["memories"][0]["origin"];
    assert_eq!((&origin["by"], &origin["tool"]), (&json!("tool"), &json!("remember")), "{listed}");
    assert_eq!(events(&file, "c"), ["rule_allowed", "memory_saved"]);

    let saved = app.ask(Method::POST, "/api/memories", &[ALICE], json!({"text": "Has a cat."}).to_string());
    let saved = saved.await.json();
    assert_eq!(saved["origin"], json!({"by": "person"}));
    let id = saved["id"].as_str().expect("an id");
    let path = format!("/api/memories/{id}");
    app.ask(Method::PATCH, &path, &[ALICE], json!({"text": "Has a dog."}).to_string()).await;
    app.ask(Method::DELETE, &path, &[ALICE], Body::empty()).await;
    app.ask(Method::POST, &format!("{path}/undo"), &[ALICE], Body::empty()).await;
    app.ask(Method::DELETE, "/api/memories", &[ALICE], Body::empty()).await;
    app.ask(Method::GET, "/api/me/data", &[ALICE], Body::empty()).await;
    app.ask(Method::DELETE, "/api/me/data", &[ALICE], Body::empty()).await;
    assert_eq!(
        events(&file, ""),
        [
            "rules_loaded",
            "memory_saved",
            "memory_changed",
            "memory_forgotten",
            "memory_saved",
            "memories_deleted",
            "data_exported",
            "memories_deleted",
            "data_deleted"
        ]
    );
    let database = file.read();
    let by: String = database
        .query_row(
            "select group_concat(distinct subject || principal || owner) from audit_events where event = 'memory_changed'",
            [],
            |row| row.get(0),
        )
        .expect("a row");
    assert_eq!(by, format!("{id}alicealice"));
    let hash: String = database
        .query_row("select input_hash from audit_events where event = 'rules_loaded'", [], |row| row.get(0))
        .expect("a row");
    assert_eq!(hash.len(), 64);
}

/// The page for operators has a row for each event, and no other.
#[test]
fn every_event_is_documented() {
    let page = include_str!("../../../../docs/guide/audit.md");
    let documented: BTreeSet<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with("| event |"))
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(event, _)| event)
        .collect();
    let schema = schemars::schema_for!(AuditAction).to_value().to_string();
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    let known: BTreeSet<&str> = schema["oneOf"]
        .as_array()
        .expect("a list of events")
        .iter()
        .map(|event| event["const"].as_str().expect("a name"))
        .collect();
    assert_eq!(documented, known);
}
