//! Grants, and the reasons for approval requests.

use axum::{body::Body, http::Method};
use serde_json::{Value, json};

use crate::{
    TestApp,
    app::{Settings, Stream, says},
    scripted::{Turn, calls, says as model_says},
};

fn note(title: &str) -> Value {
    json!({"title": title, "body": "b"})
}

fn writes(title: &str) -> [Turn; 2] {
    [calls(&[("write_note", note(title))]), model_says("ok")]
}

/// Makes the model write a note, and also approves this for all later calls.
async fn allow_for_always(app: &TestApp) {
    let mut stream = app.open(says("c", "go")).await;
    let question = stream.until("tool-approval-request").await;
    let answer =
        json!({"chatId": "c", "approvalId": question["approvalId"], "approved": true, "always": true});
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
    stream.end().await;
}

fn is_asked(stream: &Stream) -> bool {
    stream.kinds().contains(&"tool-approval-request")
}

async fn grants(app: &TestApp, chat: &str) -> Value {
    app.get(&format!("/api/chat/{chat}/grants")).await.json()["grants"].clone()
}

#[tokio::test]
async fn grants_are_listed_and_can_be_revoked() {
    let app = TestApp::new([writes("one"), writes("two"), writes("three")].concat()).await;
    allow_for_always(&app).await;
    let listed = grants(&app, "c").await;
    assert_eq!(listed[0]["tool"], "write_note");
    assert!(listed[0]["since"].as_str().is_some_and(|since| since.ends_with('Z')), "{listed}");
    let mut stream = app.open(says("c", "again")).await;
    stream.end().await;
    assert!(!is_asked(&stream));
    let end = async |path: &str| app.ask(Method::DELETE, path, &[], Body::empty()).await;
    assert_eq!(end("/api/chat/c/grants/write_note").await.status, 204);
    assert_eq!(grants(&app, "c").await, json!([]));
    assert_eq!(end("/api/chat/c/grants/write_note").await.status, 204, "nothing is left to take back");
    let mut stream = app.open(says("c", "once more")).await;
    stream.until("tool-approval-request").await;
    for path in ["/api/chat/unknown/grants/write_note", "/api/chat/b%20d/grants/x"] {
        end(path).await.problem(404, "not_found");
    }
    app.get("/api/chat/unknown/grants").await.problem(404, "not_found");
}

fn fetches(url: &str) -> [Turn; 2] {
    [calls(&[("fetch_url", json!({ "url": url }))]), model_says("ok")]
}

/// Returns the entry of the call that waits in a chat after a post.
async fn waiting(app: &TestApp, chat: &str) -> Value {
    let mut stream = app.open(says(chat, "go")).await;
    stream.until("tool-approval-request").await;
    app.pending(chat).await[0].clone()
}

async fn approve(app: &TestApp, chat: &str, call: &Value, always: Value) {
    let answer =
        json!({"chatId": chat, "toolCallId": call["toolCallId"], "approved": true, "always": always});
    let reply = app.post("/chat/tool-result", answer).await;
    assert_eq!(reply.status, 200, "{:?}", reply.json());
}

#[tokio::test]
async fn always_for_a_page_of_the_web_covers_its_host_and_no_other() {
    let file = Settings::new("builtin = [\"web\"]\n");
    let hosts = ["docs.example.com", "docs.example.com", "evil.example.org"];
    let turns: Vec<_> = hosts.iter().flat_map(|host| fetches(&format!("https://{host}/a"))).collect();
    let app = TestApp::with(&["--config", file.path()], turns).await;
    let mut first = app.open(says("c", "go")).await;
    first.until("tool-approval-request").await;
    let call = app.pending("c").await[0].clone();
    assert_eq!(call["scopes"].as_array().map(Vec::len), Some(1), "{call}");
    assert_eq!(call["scopes"][0]["id"], "host:docs.example.com");
    let unknown = json!({
        "chatId": "c", "toolCallId": call["toolCallId"], "approved": true, "always": {"scope": "tool"}
    });
    app.post("/chat/tool-result", unknown).await.problem(422, "unknown_scope");
    approve(&app, "c", &call, json!(true)).await;
    first.end().await;
    let mut stream = app.open(says("c", "again")).await;
    stream.end().await;
    assert!(!is_asked(&stream));
    let call = waiting(&app, "c").await;
    assert_eq!(call["input"]["url"], "https://evil.example.org/a");
}

#[tokio::test]
async fn a_grant_of_the_owner_holds_in_other_chats_and_is_revoked_in_any() {
    let turns = [writes("one"), writes("two"), writes("three")].concat();
    let app = TestApp::new(turns).await;
    let call = waiting(&app, "a").await;
    approve(&app, "a", &call, json!({"scope": "tool", "for": "owner", "until": "24h"})).await;
    let mut stream = app.open(says("b", "go")).await;
    stream.end().await;
    assert!(!is_asked(&stream));
    let listed = grants(&app, "b").await;
    assert_eq!((&listed[0]["for"], &listed[0]["scope"]), (&json!("owner"), &json!("tool")), "{listed}");
    assert!(listed[0]["until"].is_string() && listed[0]["covers"].is_string(), "{listed}");
    let end = async |query: &str| {
        let path = format!("/api/chat/b/grants/write_note?{query}");
        assert_eq!(app.ask(Method::DELETE, &path, &[], Body::empty()).await.status, 204);
    };
    end("scope=other").await;
    end("for=chat").await;
    assert_eq!(grants(&app, "a").await.as_array().map(Vec::len), Some(1));
    end("scope=tool&for=owner").await;
    assert_eq!(grants(&app, "a").await, json!([]));
    waiting(&app, "c").await;
}

#[tokio::test]
async fn always_does_not_answer_a_rule_that_asks_and_its_reason_reaches_the_person() {
    let file = Settings::new(
        "[[policy]]\ntool = \"write_*\"\ninput = { title = \"*salary*\" }\ndecision = \"ask\"\nreason = \"Salaries are private.\"\n",
    );
    let turns = [writes("milk"), writes("salary of bob")].concat();
    let app = TestApp::with(&["--config", file.path()], turns).await;
    allow_for_always(&app).await;
    let mut stream = app.open(says("c", "again")).await;
    stream.until("tool-approval-request").await;
    let pending = app.pending("c").await;
    assert_eq!(pending[0]["reason"], "Salaries are private.");
}

#[tokio::test]
async fn version_5_reads_the_reason_in_its_data_part() {
    let file =
        Settings::new("[[policy]]\ntool = \"write_*\"\ndecision = \"ask\"\nreason = \"Look at it.\"\n");
    let app = TestApp::with(&["--config", file.path()], writes("milk")).await;
    let mut post = says("c", "go");
    post["fermata"] = json!({"client": 5, "hold": "0s"});
    let mut stream = app.open(post).await;
    let asked = stream.until("data-tool-approval").await;
    assert_eq!(asked["data"]["reason"], "Look at it.");
    stream.end().await;
    let messages = app.get("/api/chat/c").await.json()["messages"].to_string();
    assert!(messages.contains("Look at it."), "the message is as the stream made it: {messages}");
}

#[tokio::test]
async fn version_7_reads_the_reason_from_the_release_that_knows_it_on() {
    let file =
        Settings::new("[[policy]]\ntool = \"write_*\"\ndecision = \"ask\"\nreason = \"Look at it.\"\n");
    for (client, reason) in [
        (json!(7), Value::Null),
        (json!("7.0.81"), Value::Null),
        (json!("7.0.82"), json!("Look at it.")),
        (json!("7.0.173"), json!("Look at it.")),
        (json!(6), Value::Null),
    ] {
        let app = TestApp::with(&["--config", file.path()], writes("milk")).await;
        let mut post = says("c", "go");
        post["fermata"] = json!({"client": client, "hold": "0s"});
        let mut stream = app.open(post).await;
        let asked = stream.until("tool-approval-request").await;
        assert_eq!(asked["reason"], reason, "{client}");
        stream.end().await;
        let messages = app.get("/api/chat/c").await.json()["messages"].to_string();
        assert_eq!(
            messages.contains("\"requestReason\":\"Look at it.\""),
            reason.is_string(),
            "{client}: {messages}"
        );
    }
}

#[tokio::test]
async fn a_version_that_is_not_served_is_refused_with_those_that_are() {
    let app = TestApp::new([]).await;
    for client in [json!("7.0"), json!("8.0.0"), json!(8), json!("latest"), json!("7")] {
        let mut post = says("c", "go");
        post["fermata"] = json!({ "client": client });
        let detail = app.post("/api/chat", post).await.problem(422, "invalid_request");
        assert!(detail.contains("5, 6, 7 or a whole version such as \"7.0.173\""), "{detail}");
    }
}
