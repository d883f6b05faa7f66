//! `POST /api/chat` and the requests that follow it.

use axum::{
    body::Body,
    http::{Method, header},
};
use fermata_engine::model::{ModelContent, ModelMessage};
use serde_json::json;

use crate::{
    TestApp,
    app::{says, says_with_location},
    scripted::{self, calls, goes_on_for_ever},
};

#[tokio::test]
async fn instructions_have_a_limit_of_their_own() {
    let app = TestApp::new([scripted::says("Hello.")]).await;
    let post =
        |system: &str| json!({"id": "c", "system": system, "messages": [{"role": "user", "content": "hi"}]});
    let detail = app.post("/api/chat", post(&"x".repeat(256_001))).await.problem(413, "too_large");
    assert!(detail.contains("`system`") && detail.contains("256000"), "{detail}");
    assert_eq!(app.post("/api/chat", post(&"x".repeat(256_000))).await.status, 200);
}

#[tokio::test]
async fn an_answer_has_no_more_tokens_than_the_operator_allows() {
    let limited =
        TestApp::with(&["--max-output-tokens", "100"], [(); 4].map(|()| scripted::says("Hello."))).await;
    let free = TestApp::new([(); 2].map(|()| scripted::says("Hello."))).await;
    for (app, asked, got) in [
        (&limited, json!({"maxOutputTokens": 1_000_000_000}), json!({"maxOutputTokens": 100})),
        (&limited, json!({"maxTokens": 99, "seed": 1}), json!({"maxOutputTokens": 99, "seed": 1})),
        (&limited, json!({"maxTokens": 7, "maxOutputTokens": 1000}), json!({"maxOutputTokens": 7})),
        (&limited, json!({}), json!({"maxOutputTokens": 100})),
        (&free, json!({"maxTokens": 1000}), json!({"maxOutputTokens": 1000})),
        (&free, json!({}), json!({})),
    ] {
        let body = json!({"callSettings": asked, "messages": [{"role": "user", "content": "hi"}]});
        app.open(body).await.end().await;
        let settings = app.model.requests().last().expect("a request").settings.clone();
        assert_eq!(serde_json::Value::Object(settings), got, "{asked}");
    }
}

#[tokio::test]
async fn a_file_that_leads_into_the_operators_network_is_refused_and_never_handed_on() {
    let file = |url: &str| json!({"type": "file", "mediaType": "image/png", "url": url});
    let turns = [scripted::says("A lamp."), calls(&[("shoot", json!({}))]), scripted::says("I see nothing.")];
    let app = TestApp::new(turns).await;
    for url in [
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "https://2852039166/",
        "gopher://x.example/",
        "https://user:pw@1.1.1.1/",
        "https://1.1.1.1:6379/",
        "https://kubernetes.default.svc/",
        "https://nowhere.invalid/",
    ] {
        let parts = [json!({"type": "text", "text": "What is it?"}), file(url)];
        let body = json!({"id": "refused", "messages": [{"role": "user", "parts": parts}]});
        let detail = app.post("/api/chat", body).await.problem(422, "invalid_request");
        assert!(detail.contains("parts[1]") && detail.contains("file_urls"), "{detail}");
    }
    // An imported history may be old, so its calls are in the prompt as text.
    let old = json!({"role": "user", "parts": [file("http://10.0.0.1/old.png")]});
    let new = json!({"role": "user", "parts": [file("https://1.1.1.1/new.png")]});
    let said = json!({"role": "assistant", "parts": [{"type": "text", "text": "Yes?"}]});
    app.open(json!({"id": "c", "messages": [old, said, new]})).await.end().await;
    // The output of a page's tool is no more trusted than the text of a person.
    let tools = json!({"shoot": {"parameters": {"type": "object"}}});
    let mut stream =
        app.open(json!({"id": "c", "tools": tools, "messages": [{"role": "user", "content": "go"}]})).await;
    let call = stream.until("tool-input-available").await["toolCallId"].clone();
    let output =
        json!({"type": "content", "value": [{"type": "image-url", "url": "http://127.0.0.1:6379/x.png"}]});
    let answer = json!({"chatId": "c", "toolCallId": call, "output": output});
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
    stream.end().await;
    let messages = format!("{:?}", app.model.requests().last().expect("a request").messages);
    let handed_on: Vec<&str> =
        messages.split("url: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(handed_on, ["https://1.1.1.1/new.png"], "{messages}");
    assert!(messages.contains("at http://10.0.0.1/old.png is not shown"), "{messages}");
    assert!(messages.contains("at http://127.0.0.1:6379/x.png is not shown"), "{messages}");
}

#[tokio::test]
async fn a_picture_reaches_the_model_in_each_turn_and_stays_as_it_was_sent() {
    let picture = format!("data:image/png;base64,{}", "A".repeat(100_000));
    let file = |url: &str| json!({"type": "file", "mediaType": "image/png", "url": url, "filename": "a.png"});
    let app = TestApp::new([(); 3].map(|()| scripted::says("I see."))).await;
    let looks = json!({"role": "user", "parts": [{"type": "text", "text": "Look"}, file(&picture)]});
    app.open(json!({"id": "c", "messages": [looks]})).await.end().await;
    app.open(says("c", "And now?")).await.end().await;
    for request in app.model.requests() {
        let sent = request.messages.iter().find_map(|message| match message {
            ModelMessage::User(content) => Some(content.clone()),
            _ => None,
        });
        let expected = [
            ModelContent::Text("Look".into()),
            ModelContent::File {
                media_type: "image/png".into(),
                url: picture.clone(),
                filename: Some("a.png".into()),
            },
        ];
        assert_eq!(sent.expect("a user message"), expected);
    }
    let shown = app.get("/api/chat/c").await.json();
    assert_eq!(shown["messages"][0]["parts"][1], file(&picture));
    // The name under which the store keeps a file is no URL: who sends one is refused, and one in an imported history leads nowhere.
    let named = file("stored-file:aa");
    let post = json!({"id": "d", "messages": [{"role": "user", "parts": [named]}]});
    app.post("/api/chat", post).await.problem(422, "invalid_request");
    let old = json!({"role": "user", "parts": [named]});
    let said = json!({"role": "assistant", "parts": [{"type": "text", "text": "Yes?"}]});
    let new = json!({"role": "user", "content": "What was it?"});
    app.open(json!({"id": "e", "messages": [old, said, new]})).await.end().await;
    let messages = format!("{:?}", app.model.requests().last().expect("a request").messages);
    assert!(messages.contains("[a.png (image/png) is not there any more]"), "{messages}");
}

#[tokio::test]
async fn a_post_streams_a_message_to_its_end() {
    let app = TestApp::new([scripted::says("Hello.")]).await;
    let mut stream = app.open(says("c", "hi")).await;
    stream.end().await;
    assert_eq!(stream.kinds().first(), Some(&"start"));
    assert_eq!(stream.kinds().last(), Some(&"finish"));
    assert_eq!(stream.text(), "Hello.");
    let headers = &stream.headers;
    assert_eq!(headers[header::CACHE_CONTROL], "no-cache, no-transform");
    assert_eq!(headers["x-vercel-ai-ui-message-stream"], "v1");
    assert_eq!(headers["x-accel-buffering"], "no");
    assert_eq!(headers["x-chat-id"], "c");
    assert!(!headers["x-resumable-stream-id"].is_empty());
}

#[tokio::test]
async fn a_chat_without_an_id_gets_one() {
    let app = TestApp::new([scripted::says("Hello.")]).await;
    let mut stream = app.open(json!({"messages": [{"role": "user", "content": "hi"}]})).await;
    stream.end().await;
    let id = stream.headers["x-chat-id"].to_str().expect("text").to_owned();
    assert_eq!(
        app.get(&format!("/api/chat/{id}")).await.json()["messages"].as_array().map(Vec::len),
        Some(2)
    );
}

#[tokio::test]
async fn a_body_called_something_else_is_read_all_the_same() {
    let app = TestApp::new([scripted::says("a"), scripted::says("b")]).await;
    for (chat, kind) in [("a", "application/x-www-form-urlencoded"), ("b", "text/plain")] {
        let body = says(chat, "hi").to_string();
        let answer = app.ask(Method::POST, "/api/chat", &[("content-type", kind)], body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
}

#[tokio::test]
async fn nothing_new_starts_nothing() {
    let app = TestApp::new([scripted::says("Hello.")]).await;
    app.open(says("c", "hi")).await.end().await;
    let messages = app.get("/api/chat/c").await.json()["messages"].clone();
    app.post("/api/chat", json!({"id": "c", "messages": messages})).await.problem(409, "nothing_to_continue");
    assert_eq!(app.model.requests().len(), 1);
}

#[tokio::test]
async fn a_browser_tool_may_not_take_a_name_of_the_servers() {
    let app = TestApp::new([]).await;
    let mut body = says("c", "hi");
    body["tools"] = json!({"write_note": {"parameters": {"type": "object", "properties": {}}}});
    app.post("/api/chat", body).await.problem(422, "tool_name_taken");
}

#[tokio::test]
async fn a_tool_choice_that_does_not_exist_lists_those_that_do() {
    let app = TestApp::new([]).await;
    let mut body = says("c", "hi");
    body["toolChoice"] = json!({"type": "tool", "toolName": "no_such_tool"});
    let detail = app.post("/api/chat", body).await.problem(422, "unknown_tool");
    assert!(detail.contains("current_time"), "{detail}");
}

#[tokio::test]
async fn a_file_that_no_model_takes_is_refused_before_it_enters_the_chat() {
    let app = TestApp::new([scripted::says("I see.")]).await;
    let with = |media_type: &str, data: &str, filename: &str| {
        let url = format!("data:{media_type};base64,{data}");
        let file = json!({"type": "file", "mediaType": media_type, "url": url, "filename": filename});
        let parts = json!([{"type": "text", "text": "look"}, file]);
        json!({"id": "c", "message": {"role": "user", "parts": parts}})
    };
    for (media_type, filename) in
        [("application/zip", "a.zip"), ("application/octet-stream", "b.exe"), ("video/mp4", "c.mp4")]
    {
        let body = with(media_type, "UEsDBAA=", filename);
        let detail = app.post("/api/chat", body).await.problem(422, "invalid_request");
        let expected = format!(
            "The file {filename} ({media_type}) in parts[1] of the last message cannot be shown to the model. Models take text, images, \
             PDF documents, and audio as WAV or MP3."
        );
        assert_eq!(detail, expected);
        app.get("/api/chat/c").await.problem(404, "not_found");
    }
    let answer = app.post("/api/chat", with("application/json", "e30=", "d.json")).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_hold_that_is_no_time_is_refused() {
    let app = TestApp::new([]).await;
    for hold in ["soon", "-1s", "20000y"] {
        let mut body = says("c", "hi");
        body["fermata"] = json!({"hold": hold});
        let detail = app.post("/api/chat", body).await.problem(422, "invalid_request");
        assert!(detail.contains("fermata.hold"), "{detail}");
    }
}

#[tokio::test]
async fn an_owner_over_the_limit_of_open_runs_is_asked_to_wait() {
    let turns = [goes_on_for_ever(), goes_on_for_ever()];
    let app = TestApp::with(&["--runs-per-owner", "1"], turns).await;
    let mut first = app.open(says("a", "hi")).await;
    first.until("text-delta").await;
    let second = app.post("/api/chat", says("b", "hi")).await;
    second.problem(429, "too_many_runs");
    assert!(second.headers.contains_key(header::RETRY_AFTER));
    app.post("/api/chat/a/stop", json!(null)).await;
    first.end().await;
}

#[tokio::test]
async fn a_stopped_run_ends_and_is_gone() {
    let app = TestApp::new([goes_on_for_ever()]).await;
    let mut stream = app.open(says("c", "hi")).await;
    stream.until("text-delta").await;
    let stopped = app.ask(Method::POST, "/api/chat/c/stop", &[], Body::empty()).await;
    assert_eq!((stopped.status.as_u16(), stopped.text.as_str()), (204, ""));
    stream.end().await;
    assert!(stream.kinds().contains(&"abort"), "{:?}", stream.kinds());
    assert_eq!(app.get("/api/chat/c/stream").await.status, 204);
    assert_eq!(app.get("/api/chat/c").await.json()["open"], false);
}

#[tokio::test]
async fn there_is_nothing_to_follow_or_stop_in_a_chat_that_is_not_there() {
    let app = TestApp::new([]).await;
    for chat in ["nobody", "bad%20id", "%FF"] {
        assert_eq!(app.get(&format!("/api/chat/{chat}/stream")).await.status, 204);
        assert_eq!(app.post(&format!("/api/chat/{chat}/stop"), json!(null)).await.status, 204);
    }
}

#[tokio::test]
async fn a_second_reader_reads_the_whole_stream() {
    let app = TestApp::new([calls(&[("get_location", json!({}))]), scripted::says("Bern.")]).await;
    let mut first = app.open(says_with_location("c", "where?")).await;
    let call = first.until("tool-input-available").await["toolCallId"].clone();
    let mut second = app.follow("c").await;
    second.until("tool-input-available").await;
    let answer = json!({"chatId": "c", "toolCallId": call, "output": "Bern"});
    assert_eq!(app.post("/chat/tool-result", answer).await.status, 200);
    first.end().await;
    second.end().await;
    assert_eq!(first.text(), "Bern.");
    assert_eq!(second.text(), first.text());
    assert_eq!(second.headers["x-resumable-stream-id"], first.headers["x-resumable-stream-id"]);
}

#[tokio::test]
async fn an_image_in_the_form_of_openai_reaches_the_model() {
    let app = TestApp::new([scripted::says("A cat.")]).await;
    let content = json!([
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "https://1.1.1.1/cat"}},
    ]);
    app.open(json!({"id": "c", "messages": [{"role": "user", "content": content}]})).await.end().await;
    let asked = app.model.requests();
    let Some(ModelMessage::User(content)) = asked[0].messages.last() else {
        panic!("the last message is not a user message: {asked:?}");
    };
    assert!(
        matches!(&content[1], ModelContent::File { media_type, url, .. }
            if media_type == "image/*" && url == "https://1.1.1.1/cat"),
        "{content:?}"
    );
}
