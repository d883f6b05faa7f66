//! The limits on the data of an owner and of a chat.

use axum::http::{Method, header};
use serde_json::{Value, json};

use crate::{
    TestApp,
    app::{says, says_with_location},
    scripted::{self, calls, goes_on_for_ever},
};

/// Returns the outcomes of the calls of a run with the approval mode `auto`.
async fn outcomes(app: &TestApp, chat: &str) -> Vec<Value> {
    let mut stream = app.open(says(chat, "hi")).await;
    stream.end().await;
    let is_outcome =
        |chunk: &&Value| chunk["type"].as_str().is_some_and(|kind| kind.starts_with("tool-output-"));
    stream.chunks.iter().filter(is_outcome).cloned().collect()
}

fn note(title: &str, body: &str) -> (&'static str, Value) {
    ("write_note", json!({"title": title, "body": body}))
}

#[tokio::test]
async fn a_note_that_is_too_long_is_not_written() {
    let step = [note("12345", "678901"), note("12345", "67890")];
    let options = ["--approval", "auto", "--max-note", "10"];
    let app = TestApp::with(&options, [calls(&step), scripted::says("One.")]).await;
    let outcomes = outcomes(&app, "c").await;
    let error = outcomes[0]["errorText"].as_str().expect("an error");
    assert!(error.contains("11 bytes") && error.contains("max_note"), "{error}");
    assert_eq!(outcomes[1]["output"]["saved"], true);
}

#[tokio::test]
async fn a_note_over_the_number_that_an_owner_may_keep_is_not_written() {
    let step = [note("a", "1"), note("b", "2"), ("search_notes", json!({"query": ""}))];
    let options = ["--approval", "auto", "--notes-per-owner", "1"];
    let app = TestApp::with(&options, [calls(&step), scripted::says("One.")]).await;
    let outcomes = outcomes(&app, "c").await;
    assert_eq!(outcomes[0]["output"]["saved"], true);
    let error = outcomes[1]["errorText"].as_str().expect("an error");
    assert!(error.contains("notes_per_owner"), "{error}");
    assert_eq!(outcomes[2]["output"]["notes"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn the_result_of_a_search_in_notes_is_bounded() {
    let long = "ü".repeat(30_000);
    let mut step: Vec<_> = (0..11).map(|_| note("t", &long)).collect();
    step.push(("search_notes", json!({"query": "ü"})));
    step.push(("search_notes", json!({"query": "ü ".repeat(500)})));
    let app = TestApp::with(&["--approval", "auto"], [calls(&step), scripted::says("Found.")]).await;
    let outcomes = outcomes(&app, "c").await;
    let found = outcomes[11]["output"]["notes"].as_array().expect("notes");
    assert_eq!(found.len(), 10);
    for note in found {
        assert!(note["body"].as_str().expect("a body").len() <= 10_000);
        assert!(note["cut"].as_str().expect("a word about it").contains("60000 bytes"));
    }
    let error = outcomes[12]["errorText"].as_str().expect("an error");
    assert!(error.contains("1500 bytes"), "{error}");
}

// === chats ===

/// Returns a user message with this number of letters.
fn post(chat: &str, id: &str, letters: usize) -> Value {
    let parts = json!([{"type": "text", "text": "x".repeat(letters)}]);
    json!({"id": chat, "message": {"id": id, "role": "user", "parts": parts}})
}

fn edit(chat: &str, id: &str, letters: usize) -> Value {
    let mut body = post(chat, id, letters);
    body["messageId"] = json!(id);
    body
}

async fn answered(app: &TestApp, body: Value) {
    let answer = app.post("/api/chat", body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.text.ends_with("data: [DONE]\n\n"), "{}", answer.text);
}

#[tokio::test]
async fn a_post_that_would_make_a_chat_too_large_is_refused() {
    let turns = ["One.", "Two.", "Three."].map(scripted::says);
    let app = TestApp::with(&["--max-chat", "2000"], turns).await;
    let detail = app.post("/api/chat", post("c", "u1", 2000)).await.problem(413, "too_large");
    assert!(detail.contains("max_chat") && detail.contains("2000"), "{detail}");
    assert_eq!(app.get("/api/chat/c").await.status, 404, "nothing has begun");
    answered(&app, post("c", "u1", 1500)).await;
    app.post("/api/chat", post("c", "u2", 500)).await.problem(413, "too_large");
    answered(&app, edit("c", "u1", 100)).await;
    answered(&app, post("c", "u2", 500)).await;
    assert_eq!(app.get("/api/chat/c").await.json()["messages"].as_array().map(Vec::len), Some(4));
}

/// Returns a message with this number of letters.
fn message(id: &str, role: &str, letters: usize) -> Value {
    json!({"id": id, "role": role, "parts": [{"type": "text", "text": id.repeat(letters / id.len())}]})
}

#[tokio::test]
async fn a_history_that_the_server_knows_does_not_count_as_body() {
    let app =
        TestApp::with(&["--max-body", "2kB", "--max-messages", "4"], (0..9).map(|_| scripted::says("Yes.")))
            .await;
    let mut history = Vec::new();
    for turn in 0..8 {
        history.push(message(&format!("u{turn}"), "user", 1500));
        answered(&app, json!({"id": "c", "messages": history, "trigger": "submit-message"})).await;
        let chat = app.get("/api/chat/c").await.json();
        let messages = chat["messages"].as_array().expect("messages");
        assert_eq!(messages.len(), 2 * turn + 2);
        assert_eq!(messages[2 * turn]["parts"], history[2 * turn]["parts"]);
        history.push(messages[2 * turn + 1].clone());
    }
    // A new message that is too large is still refused, and does not hinder a smaller one.
    history.push(message("u8", "user", 3000));
    let body = json!({"id": "c", "messages": history});
    let detail = app.post("/api/chat", body.clone()).await.problem(413, "too_large");
    assert!(detail.contains("max_body"), "{detail}");
    // So is the history of a chat that the server does not know.
    history[16] = message("u8", "user", 100);
    let detail =
        app.post("/api/chat", json!({"id": "other", "messages": history})).await.problem(413, "too_large");
    assert!(detail.contains("does not know") && detail.contains("max_body"), "{detail}");
    answered(&app, json!({"id": "c", "messages": history})).await;
}

#[tokio::test]
async fn a_call_in_a_long_message_is_answered_by_posting_it_again() {
    let steps = (0..3).map(|_| calls(&[("get_location", json!({}))])).chain([scripted::says("There.")]);
    let app = TestApp::with(&["--max-body", "4kB"], steps).await;
    let mut body = says_with_location("c", "where?");
    body["fermata"] = json!({"hold": "0s"});
    app.open(body.clone()).await.end().await;
    for _ in 0..3 {
        let chat = app.get("/api/chat/c").await.json();
        let mut last =
            chat["messages"].as_array().and_then(|messages| messages.last()).cloned().expect("a message");
        let call = last["parts"].as_array_mut().and_then(|parts| parts.last_mut()).expect("a call");
        call["state"] = json!("output-available");
        call["output"] = json!("x".repeat(3000));
        body["messages"] = json!([chat["messages"][0], last]);
        body["messageId"] = last["id"].clone();
        answered(&app, body.clone()).await;
    }
    let chat = app.get("/api/chat/c").await.json();
    assert!(chat["messages"][1].to_string().contains("There."), "{chat}");
}

#[tokio::test]
async fn a_history_with_more_values_than_a_body_may_have_is_skipped() {
    let app = TestApp::with(&[], (0..2).map(|_| scripted::says("Yes."))).await;
    answered(&app, post("c", "u1", 10)).await;
    let chat = app.get("/api/chat/c").await.json();
    let mut history = chat["messages"].as_array().cloned().expect("messages");
    history[0]["metadata"] = json!(vec![1; 210_000]);
    history.push(message("u2", "user", 10));
    answered(&app, json!({"id": "c", "messages": history})).await;
}

#[tokio::test]
async fn a_run_that_makes_its_chat_too_large_ends_after_the_step() {
    let turns = [calls(&[note("long", &"y".repeat(3000))]), scripted::says("Edited.")];
    let app = TestApp::with(&["--approval", "auto", "--max-chat", "2000"], turns).await;
    let mut stream = app.open(post("c", "u1", 10)).await;
    stream.end().await;
    assert_eq!(stream.until("tool-output-available").await["output"]["saved"], true);
    assert!(stream.kinds().ends_with(&["finish-step", "error"]), "{:?}", stream.kinds());
    let error = stream.until("error").await["errorText"].as_str().expect("a text").to_owned();
    assert!(error.contains("max_chat"), "{error}");
    assert_eq!(app.model.requests().len(), 1, "the model is not asked again");
    let chat = app.get("/api/chat/c").await.json();
    assert_eq!(chat["open"], false);
    let kept = chat["messages"][1].to_string();
    assert!(kept.contains(&"y".repeat(3000)) && kept.contains("output-available"), "{kept}");
    let detail = app.post("/api/chat", post("c", "u2", 1)).await.problem(413, "too_large");
    assert!(detail.contains("edit an earlier message"), "{detail}");
    answered(&app, edit("c", "u1", 20)).await;
}

#[tokio::test]
async fn an_over_large_chat_may_be_made_smaller_and_deleted() {
    let turns = [calls(&[note("long", &"y".repeat(3000))]), scripted::says("Again.")];
    let app = TestApp::with(&["--approval", "auto", "--max-chat", "2000"], turns).await;
    answered(&app, post("c", "u1", 10)).await;
    app.post("/api/chat", edit("c", "u1", 9000)).await.problem(413, "too_large");
    // The chat still exceeds the limit, but is smaller than before.
    answered(&app, edit("c", "u1", 3000)).await;
    assert_eq!(app.ask(Method::DELETE, "/api/chat/c", &[], "").await.status, 204);
}

#[tokio::test]
async fn an_answer_that_would_make_a_chat_too_large_is_refused_and_the_call_waits_on() {
    let turns = [calls(&[("get_location", json!({}))]), scripted::says("Somewhere.")];
    let app = TestApp::with(&["--max-chat", "2000"], turns).await;
    let mut stream = app.open(says_with_location("c", "where?")).await;
    let call = stream.until("tool-input-available").await["toolCallId"].clone();
    let answer = json!({"chatId": "c", "toolCallId": call, "output": "x".repeat(2000)});
    let detail = app.post("/chat/tool-result", answer).await.problem(413, "too_large");
    assert!(detail.contains("max_chat"), "{detail}");
    assert_eq!(app.pending("c").await.len(), 1);
    let answer = json!({"chatId": "c", "toolCallId": call, "output": "Bern"});
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
    stream.end().await;
    assert_eq!(stream.text(), "Somewhere.");
}

#[tokio::test]
async fn a_call_in_a_chat_that_is_full_is_ended_by_an_error_text() {
    let turns = [calls(&[("get_location", json!({}))]), scripted::says("Never said.")];
    let app = TestApp::with(&["--max-chat", "2000"], turns).await;
    let mut stream = app.open(says_with_location("c", &"x".repeat(1600))).await;
    let call = stream.until("tool-input-available").await["toolCallId"].clone();
    let answer = json!({"chatId": "c", "toolCallId": call, "errorText": "too much ".repeat(50)});
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
    stream.end().await;
    assert!(stream.kinds().ends_with(&["finish-step", "error"]), "{:?}", stream.kinds());
    assert!(app.pending("c").await.is_empty());
}

// === owners ===

#[tokio::test]
async fn an_owner_keeps_so_many_chats_and_deleting_makes_room() {
    let turns = ["One.", "Two.", "Three."].map(scripted::says);
    let app = TestApp::with(&["--chats-per-owner", "1"], turns).await;
    answered(&app, says("a", "hi")).await;
    let refused = app.post("/api/chat", says("b", "hi")).await;
    let detail = refused.problem(429, "too_many_chats");
    assert!(detail.contains("chats_per_owner"), "{detail}");
    assert!(refused.headers.contains_key(header::RETRY_AFTER));
    answered(&app, says("a", "more")).await;
    assert_eq!(app.ask(Method::DELETE, "/api/chat/a", &[], "").await.status, 204);
    answered(&app, says("b", "hi")).await;
}

#[tokio::test]
async fn an_owner_keeps_so_many_bytes_and_deleting_makes_room() {
    let turns = ["One.", "Two.", "Three.", "Four."].map(scripted::says);
    let app = TestApp::with(&["--bytes-per-owner", "3000"], turns).await;
    answered(&app, post("a", "u1", 1000)).await;
    answered(&app, post("b", "u1", 1000)).await;
    for chat in ["a", "c"] {
        let refused = app.post("/api/chat", post(chat, "u2", 1000)).await;
        let detail = refused.problem(429, "too_many_bytes");
        assert!(detail.contains("bytes_per_owner"), "{detail}");
        assert!(refused.headers.contains_key(header::RETRY_AFTER));
    }
    // This post adds nothing.
    answered(&app, edit("b", "u1", 900)).await;
    assert_eq!(app.ask(Method::DELETE, "/api/chat/a", &[], "").await.status, 204);
    answered(&app, post("c", "u2", 1000)).await;
}

#[tokio::test]
async fn a_run_that_was_let_go_is_one_of_the_runs_that_an_owner_has_open() {
    let turns = [calls(&[("get_location", json!({}))]), goes_on_for_ever(), scripted::says("Hello.")];
    let app = TestApp::with(&["--runs-per-owner", "1", "--hold", "0s"], turns).await;
    let mut stream = app.open(says_with_location("a", "where?")).await;
    let call = stream.until("tool-input-available").await["toolCallId"].clone();
    stream.end().await;
    assert_eq!(app.get("/api/chat/a/stream").await.status, 204, "its readers were sent away");
    let detail = app.post("/api/chat", says("b", "hi")).await.problem(429, "too_many_runs");
    assert!(detail.contains("runs_per_owner"), "{detail}");
    let answer = json!({"chatId": "a", "toolCallId": call, "output": "Bern"});
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
    let mut rest = app.follow("a").await;
    rest.until("text-delta").await;
    app.model.release();
    rest.end().await;
    answered(&app, says("b", "hi")).await;
}

// === posts ===

#[tokio::test]
async fn an_owner_starts_no_more_runs_in_a_time_than_the_rate_allows() {
    let tokens = "ada:ada-0123456789abcdef,bob:bob-0123456789abcdef";
    let options = ["--auth", "token", "--tokens", tokens, "--posts-per-owner", "2/h"];
    let turns = [
        calls(&[("get_location", json!({}))]),
        scripted::says("Two."),
        scripted::says("There."),
        scripted::says("Of Bob."),
    ];
    let app = TestApp::with(&options, turns).await;
    let post = async |owner: &str, body: Value| {
        let token = format!("Bearer {owner}-0123456789abcdef");
        app.ask(Method::POST, "/api/chat", &[("authorization", &token)], body.to_string()).await
    };
    let mut asks = says_with_location("c", "where?");
    asks["fermata"] = json!({"hold": "0s"});
    let begun = post("ada", asks).await;
    assert_eq!(begun.status, 200, "{}", begun.text);
    assert_eq!(post("ada", says("d", "hi")).await.status, 200);
    let refused = post("ada", says("e", "hi")).await;
    let detail = refused.problem(429, "too_many_posts");
    assert!(detail.contains("2 in 1h (posts_per_owner)"), "{detail}");
    let wait: u64 = refused.headers[header::RETRY_AFTER].to_str().expect("text").parse().expect("seconds");
    assert!((1..=1800).contains(&wait), "{wait}");
    let compact = async |body: Value| {
        let headers = [("authorization", "Bearer ada-0123456789abcdef")];
        app.ask(Method::POST, "/api/chat/d/compact", &headers, body.to_string()).await
    };
    compact(json!({})).await.problem(429, "too_many_posts");
    // An answer gets through.
    let chat =
        app.ask(Method::GET, "/api/chat/c", &[("authorization", "Bearer ada-0123456789abcdef")], "").await;
    let mut answered = chat.json()["messages"].as_array().expect("messages").clone();
    let part = answered[1]["parts"].as_array_mut().expect("parts").iter_mut();
    for part in part.filter(|part| part["type"] == "tool-get_location") {
        part["state"] = json!("output-available");
        part["output"] = json!({"city": "Bern"});
    }
    let answer = post("ada", json!({"id": "c", "messages": answered})).await;
    assert!(answer.status == 200 && answer.text.contains("There."), "{}", answer.text);
    assert_eq!(post("bob", says("f", "hi")).await.status, 200);
}

#[tokio::test]
async fn without_authentication_there_is_no_rate_unless_it_is_set() {
    let turns = || (0..70).map(|_| scripted::says("ok"));
    let app = TestApp::new(turns()).await;
    for number in 0..70 {
        app.open(says(&format!("c{number}"), "hi")).await.end().await;
    }
    let app = TestApp::with(&["--posts-per-owner", "1/day"], turns()).await;
    app.open(says("c", "hi")).await.end().await;
    app.post("/api/chat", says("d", "hi")).await.problem(429, "too_many_posts");
}

#[tokio::test]
async fn the_instructions_for_a_summary_are_bounded() {
    let app = TestApp::new([scripted::says("ok")]).await;
    app.open(says("c", "hi")).await.end().await;
    let compact = async |bytes: usize| {
        app.post("/api/chat/c/compact", json!({"instructions": "x".repeat(bytes)})).await
    };
    compact(4_000).await.problem(409, "nothing_to_compact");
    let detail = compact(4_001).await.problem(422, "invalid_request");
    assert_eq!(detail, "`instructions` has 4001 bytes; the limit is 4000.");
}
