//! Decisions in messages, and the record of how each decision was made.

use axum::http::Method;
use serde_json::{Value, json};

use crate::{
    TestApp,
    app::{Stream, says},
    scripted::{calls, says as model_says},
};

async fn writing() -> TestApp {
    let note = json!({"title": "t", "body": "b"});
    TestApp::new(vec![calls(&[("write_note", note)]), model_says("ok")]).await
}

/// Has the model write a note. Returns the stream, and the id of the approval that waits.
async fn asked(app: &TestApp) -> (Stream, Value) {
    let mut stream = app.open(says("c", "go")).await;
    let id = stream.until("tool-approval-request").await["approvalId"].clone();
    (stream, id)
}

/// Posts words as a page that shows these approvals.
fn says_of(words: &str, approvals: &Value) -> Value {
    let mut body = says("c", words);
    body["fermata"] = json!({ "decides": approvals });
    body
}

/// Returns how calls were decided by people, according to the owner's stored data.
async fn how_decided(app: &TestApp) -> Value {
    let data = app.get("/api/me/data").await.json();
    let decisions = data["decisions"].as_array().expect("a list").iter();
    let is_decision = |row: &&Value| matches!(row["event"].as_str(), Some("approved" | "denied"));
    decisions.filter(is_decision).map(|row| row["channel"].clone()).collect()
}

#[tokio::test]
async fn a_stale_decision_is_refused_with_what_waits_now() {
    let app = writing().await;
    let (_stream, id) = asked(&app).await;
    for shown in [json!(["appr_old"]), json!([]), json!([id, "appr_old"])] {
        let refused = app.post("/api/chat", says_of("yes", &shown)).await;
        refused.problem(409, "decision_is_stale");
        assert_eq!(refused.json()["waiting"], json!([id]), "{shown}");
    }
    assert_eq!(how_decided(&app).await, json!([]));
    let refused = app.post("/api/chat", says_of("yes", &json!("appr"))).await;
    assert!(refused.problem(422, "invalid_request").contains("`fermata.decides`"));
}

#[tokio::test]
async fn a_decision_is_recorded_with_the_way_in_which_it_came() {
    for (headers, how) in [
        (&[][..], "api"),
        (&[("origin", "http://127.0.0.1:3000")][..], "button"),
        (&[("sec-fetch-site", "same-origin")][..], "button"),
    ] {
        let app = writing().await;
        let (mut stream, id) = asked(&app).await;
        let body = json!({"chatId": "c", "approvalId": id, "approved": true}).to_string();
        let answer = app.ask(Method::POST, "/chat/tool-result", headers, body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        stream.end().await;
        assert_eq!(how_decided(&app).await, json!([how]));
    }

    let app = writing().await;
    let (_stream, id) = asked(&app).await;
    app.open(says_of("no", &json!([id]))).await.end().await;
    assert_eq!(how_decided(&app).await, json!(["words"]));

    let app = writing().await;
    let mut post = says("c", "go");
    post["fermata"] = json!({"hold": "0s"});
    app.open(post).await.end().await;
    let mut messages = app.get("/api/chat/c").await.json()["messages"].clone();
    let part = &mut messages[1]["parts"][1];
    part["state"] = "approval-responded".into();
    part["approval"]["approved"] = true.into();
    app.open(json!({"id": "c", "messages": messages})).await.end().await;
    assert_eq!(how_decided(&app).await, json!(["message"]));
}
