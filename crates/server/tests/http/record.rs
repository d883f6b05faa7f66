//! What is stored: chats, their list, forgetting one.

use axum::{body::Body, http::Method};
use serde_json::json;

use crate::{TestApp, app::says, scripted};

#[tokio::test]
async fn a_chat_is_read_as_it_was_shown() {
    let app = TestApp::new([scripted::says("Hello.")]).await;
    app.open(says("c", "hi")).await.end().await;
    let chat = app.get("/api/chat/c").await.json();
    assert_eq!(chat["id"], "c");
    assert_eq!((&chat["open"], &chat["pending"]), (&json!(false), &json!([])));
    let messages = chat["messages"].as_array().expect("a list");
    assert_eq!(
        messages.iter().map(|message| message["role"].clone()).collect::<Vec<_>>(),
        [json!("user"), json!("assistant")]
    );
    let words = messages[1]["parts"]
        .as_array()
        .expect("parts")
        .iter()
        .find(|part| part["type"] == "text")
        .expect("text");
    assert_eq!(words["text"], "Hello.");
}

#[tokio::test]
async fn chats_come_in_pages_newest_first() {
    let app = TestApp::new([scripted::says("1"), scripted::says("2"), scripted::says("3")]).await;
    for chat in ["a", "b", "c"] {
        app.open(says(chat, &format!("about {chat}"))).await.end().await;
    }
    let first = app.get("/api/chats?limit=2").await.json();
    let ids = |page: &serde_json::Value| {
        page["chats"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|chat| chat["id"].as_str().expect("an id").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), ["c", "b"]);
    assert_eq!(first["chats"][0]["title"], "about c");
    assert!(first["chats"][0]["createdAt"].is_string() && first["chats"][0]["updatedAt"].is_string());
    let next = first["next"].as_str().expect("there is more");
    let second = app.get(&format!("/api/chats?limit=2&before={next}")).await.json();
    assert_eq!(ids(&second), ["a"]);
    assert_eq!(second.get("next"), None);
}

#[tokio::test]
async fn a_chat_that_is_forgotten_is_gone() {
    let app = TestApp::new([scripted::says("Hello.")]).await;
    app.open(says("c", "hi")).await.end().await;
    assert_eq!(app.ask(Method::DELETE, "/api/chat/c", &[], Body::empty()).await.status, 204);
    app.get("/api/chat/c").await.problem(404, "not_found");
    app.ask(Method::DELETE, "/api/chat/c", &[], Body::empty()).await.problem(404, "not_found");
    assert_eq!(app.get("/api/chats").await.json(), json!({"chats": []}));
}
