//! `POST /chat/tool-result`: parked calls and their answers.

use serde_json::{Value, json};

use crate::{
    TestApp,
    app::{says, says_with_location},
    scripted::{self, calls},
};

fn note() -> Value {
    json!({"title": "Milk", "body": "Two litres."})
}

#[tokio::test]
async fn an_approved_call_runs_and_its_stream_continues() {
    let app = TestApp::new([calls(&[("write_note", note())]), scripted::says("Written.")]).await;
    let mut stream = app.open(says("c", "note")).await;
    let question = stream.until("tool-approval-request").await;
    let answer = json!({"chatId": "c", "approvalId": question["approvalId"], "approved": true});
    let taken = app.post("/chat/tool-result", answer).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    let taken = taken.json();
    assert_eq!(taken["calls"][0]["toolCallId"], question["toolCallId"]);
    assert_eq!(taken["calls"][0]["waitingFor"], json!([]));
    stream.end().await;
    let output = stream.until("tool-output-available").await;
    assert_eq!(output["output"]["saved"], true, "{output}");
    assert_eq!(stream.text(), "Written.");
}

#[tokio::test]
async fn a_note_is_found_in_the_step_that_wrote_it() {
    let step = [("write_note", note()), ("search_notes", json!({"query": "milk"}))];
    let app = TestApp::new([calls(&step), scripted::says("Found.")]).await;
    let mut stream = app.open(says("c", "note")).await;
    let question = stream.until("tool-approval-request").await;
    app.post(
        "/chat/tool-result",
        json!({"chatId": "c", "approvalId": question["approvalId"], "approved": true}),
    )
    .await;
    stream.end().await;
    let outputs: Vec<_> =
        stream.chunks.iter().filter(|chunk| chunk["type"] == "tool-output-available").collect();
    assert_eq!(outputs.len(), 2);
    assert_eq!(outputs[1]["output"]["notes"][0]["body"], "Two litres.");
}

#[tokio::test]
async fn pending_calls_are_listed_with_their_kind() {
    let app = TestApp::new([
        calls(&[("write_note", note())]),
        calls(&[("get_location", json!({}))]),
        scripted::says("ok"),
    ])
    .await;
    let mut stream = app.open(says_with_location("c", "go")).await;
    let question = stream.until("tool-approval-request").await;
    let pending = app.pending("c").await;
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0]["id"], question["toolCallId"]);
    assert_eq!(pending[0]["approvalId"], question["approvalId"]);
    assert_eq!(
        (&pending[0]["kind"], &pending[0]["state"]),
        (&json!("approval"), &json!("awaiting_approval"))
    );
    assert_eq!((&pending[0]["tool"], &pending[0]["input"]), (&json!("write_note"), &note()));
    assert!(pending[0]["since"].is_string() && pending[0]["expires"].is_string());
    app.post(
        "/chat/tool-result",
        json!({"chatId": "c", "toolCallId": question["toolCallId"], "approved": false}),
    )
    .await;
    loop {
        let pending = app.pending("c").await;
        if pending.first().is_some_and(|call| call["tool"] == "get_location") {
            assert_eq!((&pending[0]["kind"], &pending[0]["state"]), (&json!("output"), &json!("executing")));
            assert_eq!(app.get("/api/chat/c").await.json()["pending"], json!(pending));
            app.post(
                "/chat/tool-result",
                json!({"chatId": "c", "toolCallId": pending[0]["id"], "output": 1}),
            )
            .await;
            break;
        }
        assert!(stream.read_more().await, "the stream ended");
    }
    stream.end().await;
}

#[tokio::test]
async fn a_repeated_answer_is_accepted_and_a_different_one_is_not() {
    let app = TestApp::new([calls(&[("get_location", json!({}))]), scripted::says("ok")]).await;
    let mut stream = app.open(says_with_location("c", "where?")).await;
    let call = stream.until("tool-input-available").await["toolCallId"].clone();
    let answer = |output: i32| json!({"chatId": "c", "toolCallId": call, "output": output});
    app.post("/chat/tool-result", json!({"chatId": "c", "toolCallId": call, "approved": true}))
        .await
        .problem(409, "wrong_answer");
    for path in ["/chat/tool-result", "/api/chat/tool-result"] {
        assert_eq!(app.post(path, answer(1)).await.status, 200);
    }
    let refused = app.post("/chat/tool-result", answer(2)).await;
    refused.problem(409, "already_answered");
    assert!(refused.json()["state"].is_string(), "{}", refused.text);
    stream.end().await;
    assert_eq!(stream.kinds().iter().filter(|kind| **kind == "tool-output-available").count(), 1);
}

#[tokio::test]
async fn an_answer_to_what_is_not_there_is_not_found() {
    let app = TestApp::new([calls(&[("get_location", json!({}))]), scripted::says("ok")]).await;
    let mut stream = app.open(says_with_location("c", "where?")).await;
    let call = stream.until("tool-input-available").await["toolCallId"].clone();
    for (chat, call) in [("other", &call), ("c", &json!("other"))] {
        let answer = json!({"chatId": chat, "toolCallId": call, "output": 1});
        app.post("/chat/tool-result", answer).await.problem(404, "not_found");
    }
    app.post("/api/chat/c/stop", json!(null)).await;
    stream.end().await;
    app.post("/chat/tool-result", json!({"chatId": "c", "toolCallId": call, "output": 1}))
        .await
        .problem(410, "gone");
}

#[tokio::test]
async fn a_call_is_previewed_with_another_input() {
    let app = TestApp::new([calls(&[("write_note", note())]), scripted::says("Written.")]).await;
    let mut stream = app.open(says("c", "note")).await;
    let question = stream.until("tool-approval-request").await;
    let preview = |input: Value| json!({"chatId": "c", "toolCallId": question["toolCallId"], "preview": {"input": input}});
    let edited = json!({"title": "milk", "body": "two litres"});
    let shown = app.post("/chat/tool-result", preview(edited.clone())).await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    assert_eq!(shown.json()["decision"], "ask");
    assert!(shown.json()["description"].as_str().unwrap().contains("milk"), "{}", shown.text);
    assert!(shown.json()["details"]["after"].as_str().unwrap().contains("two litres"), "{}", shown.text);
    let by_text = json!({"chatId": "c", "approvalId": question["approvalId"], "preview": {"inputText": edited.to_string()}});
    assert_eq!(app.post("/api/chat/tool-result", by_text).await.json(), shown.json());
    let pending = app.pending("c").await;
    assert_eq!((pending.len(), &pending[0]["input"]), (1, &note()), "nothing has changed");

    let misfit = app.post("/chat/tool-result", preview(json!({"title": 7}))).await;
    misfit.problem(422, "invalid_request");
    assert!(misfit.text.contains("title"), "{}", misfit.text);
    for wrong in [
        json!({"chatId": "c", "toolCallId": question["toolCallId"], "preview": {}}),
        json!({"chatId": "c", "toolCallId": question["toolCallId"], "preview": {"inputText": "{"}}),
        json!({"chatId": "c", "toolCallId": question["toolCallId"], "preview": {"input": edited}, "approved": true}),
        json!({"chatId": "c", "toolCallId": question["toolCallId"], "preview": {"input": edited}, "editing": true}),
        json!({"chatId": "c", "preview": {"input": edited}}),
    ] {
        let refused = app.post("/chat/tool-result", wrong.clone()).await;
        assert_eq!(refused.status, 422, "{wrong} {}", refused.text);
        assert!(refused.text.contains("preview"), "{}", refused.text);
    }
    let unknown = json!({"chatId": "c", "toolCallId": "other", "preview": {"input": edited}});
    app.post("/chat/tool-result", unknown).await.problem(404, "not_found");

    let answer = json!({"chatId": "c", "approvalId": question["approvalId"], "approved": true});
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
    stream.end().await;
    app.post("/chat/tool-result", preview(edited)).await.problem(409, "wrong_answer");
}

#[tokio::test]
async fn that_an_input_is_edited_is_no_answer() {
    let app = TestApp::new([calls(&[("write_note", note())]), scripted::says("Written.")]).await;
    let mut body = says("c", "note");
    body["fermata"] = json!({"show": ["call"]});
    let mut stream = app.open(body).await;
    let question = stream.until("tool-approval-request").await;
    let edited = |editing| json!({"chatId": "c", "approvalId": question["approvalId"], "editing": editing});
    let taken = app.post("/api/chat/tool-result", edited(true)).await;
    assert_eq!(taken.status, 200, "{}", taken.text);
    assert_eq!(taken.json()["calls"][0]["state"], "awaiting_approval");
    while !stream.chunks.iter().any(|chunk| chunk["data"]["editing"] == true) {
        assert!(stream.read_more().await, "{:?}", stream.kinds());
    }
    assert_eq!(app.pending("c").await.len(), 1, "it waits as before");
    let answer = json!({"chatId": "c", "approvalId": question["approvalId"], "approved": true});
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
    stream.end().await;
    let late = app.post("/chat/tool-result", edited(true)).await;
    assert_eq!(late.status, 410, "{}", late.text);
    assert_eq!(late.json()["code"], "gone");
    let both =
        json!({"chatId": "c", "toolCallId": question["toolCallId"], "approved": true, "editing": true});
    assert_eq!(app.post("/chat/tool-result", both).await.status, 422);
}
