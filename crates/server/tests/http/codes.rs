//! Codes for pages in place of the server's English: why a call has no output, what asks about a call, and which places do not fit.

use axum::http::Method;
use serde_json::{Value, json};

use crate::{
    TestApp,
    app::{Stream, says, says_with_location},
    scripted::{self, calls},
};

/// The oldest release of each version of the AI SDK.
const CLIENTS: [u8; 3] = [5, 6, 7];

fn note() -> Value {
    json!({"title": "Milk", "body": "Two litres."})
}

fn from_client(client: u8, mut body: Value) -> Value {
    body["fermata"] = json!({ "client": client });
    body
}

/// Returns the metadata of the calls in the stream, merged as clients merge it.
fn told_live(stream: &Stream) -> Value {
    let mut told = json!({});
    for chunk in &stream.chunks {
        for (call, about) in chunk["messageMetadata"]["calls"].as_object().into_iter().flatten() {
            for (field, value) in about.as_object().expect("an object") {
                told[call][field] = value.clone();
            }
        }
    }
    told
}

/// Returns the metadata of the calls in the record, for the chat's message at this place.
async fn told_after_a_reload(app: &TestApp, message: usize) -> Value {
    app.get("/api/chat/c").await.json()["messages"][message]["metadata"]["calls"].clone()
}

#[tokio::test]
async fn a_stopped_call_says_so_live_and_after_a_reload_to_every_version() {
    for client in CLIENTS {
        let app = TestApp::new([calls(&[("get_location", json!({}))])]).await;
        let mut stream = app.open(from_client(client, says_with_location("c", "where?"))).await;
        let call = stream.until("tool-input-available").await["toolCallId"].as_str().unwrap().to_owned();
        app.post("/api/chat/c/stop", json!(null)).await;
        stream.end().await;
        let mut expected = json!({});
        expected[&call] = json!({"state": "cancelled", "code": "stopped"});
        assert_eq!(told_live(&stream), expected, "version {client}");
        assert_eq!(told_after_a_reload(&app, 1).await, expected, "version {client}");
        // The code comes before the outcome, and the outcome has no field that the version does not know.
        let kinds = stream.kinds();
        let place = |kind: &str| kinds.iter().position(|known| *known == kind);
        assert!(place("message-metadata") < place("tool-output-error"), "{kinds:?}");
        let outcome = stream.until("tool-output-error").await;
        let fields: Vec<&str> = outcome.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, ["type", "toolCallId", "errorText"]);
    }
}

#[tokio::test]
async fn a_denial_says_so_also_to_version_5_which_is_shown_an_error() {
    for client in CLIENTS {
        let app = TestApp::new([calls(&[("write_note", note())]), scripted::says("I left it.")]).await;
        let mut stream = app.open(from_client(client, says("c", "note"))).await;
        let call = stream.until("tool-input-available").await["toolCallId"].as_str().unwrap().to_owned();
        app.post(
            "/chat/tool-result",
            json!({"chatId": "c", "toolCallId": call, "approved": false, "reason": "Not today"}),
        )
        .await;
        stream.end().await;
        let kind = if client == 5 { "tool-output-error" } else { "tool-output-denied" };
        assert!(stream.kinds().contains(&kind), "{:?}", stream.kinds());
        let expected = json!({"state": "cancelled", "code": "denied", "reason": "Not today"});
        assert_eq!(told_live(&stream)[&call], expected, "version {client}");
        assert_eq!(told_after_a_reload(&app, 1).await[&call], expected, "version {client}");
    }
}

#[tokio::test]
async fn a_failure_has_its_type_whatever_its_text_says() {
    let app = TestApp::new([calls(&[("get_location", json!({}))]), scripted::says("Never mind.")]).await;
    let mut stream = app.open(says_with_location("c", "where?")).await;
    let call = stream.until("tool-input-available").await["toolCallId"].as_str().unwrap().to_owned();
    let failed =
        json!({"chatId": "c", "toolCallId": call, "errorText": "Cancelled: it is what the page says."});
    app.post("/chat/tool-result", failed).await;
    stream.end().await;
    let told = &told_live(&stream)[&call];
    assert_eq!((&told["state"], &told["code"]), (&json!("error"), &json!("internal")), "{told}");
    assert_eq!(told_after_a_reload(&app, 1).await[&call], *told);
}

#[tokio::test]
async fn a_call_that_a_message_leaves_behind_says_so_in_the_record() {
    let app = TestApp::new([calls(&[("get_location", json!({}))]), scripted::says("Fine.")]).await;
    let mut stream = app.open(says_with_location("c", "where?")).await;
    let call = stream.until("tool-input-available").await["toolCallId"].as_str().unwrap().to_owned();
    let next = json!({"id": "c", "messages": [{"role": "user", "content": "never mind"}], "fermata": {"exists": true}});
    app.open(next).await.end().await;
    let expected = json!({"state": "cancelled", "code": "superseded"});
    assert_eq!(told_after_a_reload(&app, 1).await[&call], expected);
}

#[tokio::test]
async fn what_asks_about_a_call_has_a_code() {
    let step = [("current_time", json!({})), ("write_note", note())];
    let app = TestApp::with(&["--chain", "ask"], [calls(&step), scripted::says("Done.")]).await;
    let mut stream = app.open(from_client(7, says("c", "note"))).await;
    stream.until("tool-approval-request").await;
    let pending = app.pending("c").await;
    assert_eq!((&pending[0]["tool"], &pending[0]["reasonCode"]), (&json!("write_note"), &json!("chain")));
    assert_eq!(pending[0]["reason"], "it is not the first call of the turn");
}

#[tokio::test]
async fn an_edit_that_does_not_fit_is_refused_with_the_places() {
    let app = TestApp::new([calls(&[("write_note", note())]), scripted::says("Written.")]).await;
    let mut stream = app.open(says("c", "note")).await;
    let call = stream.until("tool-approval-request").await["toolCallId"].clone();
    let edited = |input: Value| json!({"chatId": "c", "toolCallId": call, "approved": true, "input": input});
    let refused = app.post("/chat/tool-result", edited(json!({"title": 1, "body": "b"}))).await;
    let detail = refused.problem(422, "invalid_request");
    let errors = refused.json()["errors"].clone();
    assert_eq!((&errors[0]["pointer"], errors.as_array().unwrap().len()), (&json!("/title"), 1));
    assert!(detail.contains(errors[0]["detail"].as_str().unwrap()), "{detail}");
    // A refusal for another reason names none.
    let other = app.post("/chat/tool-result", json!({"chatId": "c", "toolCallId": call, "output": 1})).await;
    other.problem(409, "wrong_answer");
    assert_eq!(other.json().get("errors"), None);
    assert_eq!(app.pending("c").await.len(), 1);
}

#[tokio::test]
async fn the_server_names_its_own_tools_even_if_the_assistant_has_none_of_them() {
    let app = TestApp::with(&["--builtin", "time"], []).await;
    let listed = app.ask(Method::GET, "/api/tools", &[], "").await.json();
    let own = json!({
        "makePlan": "make_plan", "updatePlan": "update_plan", "remember": "remember", "forget": "forget",
    });
    assert_eq!(listed["own"], own);
    let names: Vec<&Value> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["current_time"]);
}
