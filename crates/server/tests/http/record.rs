//! What is stored: chats, their list, forgetting one.

use axum::{body::Body, http::Method};
use serde_json::json;

use crate::{
    TestApp,
    app::{says, says_with_location},
    scripted,
};

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
async fn a_list_says_which_chats_can_be_followed_and_what_waits_in_them() {
    let turns = [scripted::calls(&[("get_location", json!({}))]), scripted::says("There.")];
    let app = TestApp::with(&["--hold", "0s"], turns).await;
    let listed = async || {
        let chat = app.get("/api/chats").await.json()["chats"][0].clone();
        (chat["open"].clone(), chat["pending"].clone())
    };
    let mut held = says_with_location("c", "where am I");
    held["fermata"] = json!({"hold": "1h"});
    let mut stream = app.open(held.clone()).await;
    let call = stream.until("tool-input-available").await["toolCallId"].clone();
    assert_eq!(listed().await, (json!(true), json!(1)));
    let chat = app.get("/api/chat/c").await.json();
    assert_eq!(chat["open"], true, "as the chat itself says");
    app.post("/chat/tool-result", json!({"chatId": "c", "toolCallId": call, "output": "Bern"})).await;
    stream.end().await;
    assert_eq!(listed().await, (json!(false), json!(0)));
}

#[tokio::test]
async fn a_chat_whose_readers_were_sent_away_waits_and_cannot_be_followed() {
    let app = TestApp::with(&["--hold", "0s"], [scripted::calls(&[("get_location", json!({}))])]).await;
    app.open(says_with_location("c", "where am I")).await.end().await;
    let listed = app.get("/api/chats").await.json()["chats"][0].clone();
    assert_eq!((&listed["open"], &listed["pending"]), (&json!(false), &json!(1)));
    assert_eq!(app.get("/api/chat/c").await.json()["open"], false, "as the chat itself says");
    assert_eq!(app.get("/api/chat/c/stream").await.status, 204);
}

#[tokio::test]
async fn a_post_without_its_history_begins_no_chat() {
    let app = TestApp::new([scripted::says("Hello."), scripted::says("Again.")]).await;
    let post = |exists| {
        let message = json!({"role": "user", "content": "hi"});
        json!({"id": "c", "message": message, "fermata": {"exists": exists}})
    };
    let refused = app.post("/api/chat", post(true)).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (404, &json!("not_found")));
    assert_eq!(app.get("/api/chats").await.json()["chats"], json!([]));
    app.open(post(false)).await.end().await;
    app.open(post(true)).await.end().await;
    assert_eq!(app.get("/api/chat/c").await.json()["messages"].as_array().map(Vec::len), Some(4));
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
