//! The record: chats, the list of chats, and the deletion of a chat.

use axum::{
    body::Body,
    http::{Method, Request},
};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::{
    TestApp,
    app::{says, says_with_location},
    scripted,
};

#[tokio::test]
async fn a_chat_is_read_as_it_was_shown() {
    let app = TestApp::new([scripted::says("Hello."), scripted::says("More.")]).await;
    app.open(says("c", "hi")).await.end().await;
    let chat = app.get("/api/chat/c").await.json();
    assert_eq!(chat["id"], "c");
    assert_eq!((&chat["open"], &chat["pending"]), (&json!(false), &json!([])));
    let messages = chat["messages"].as_array().expect("a list");
    assert_eq!(
        messages.iter().map(|message| message["role"].clone()).collect::<Vec<_>>(),
        [json!("user"), json!("assistant")]
    );
    let part = messages[1]["parts"]
        .as_array()
        .expect("parts")
        .iter()
        .find(|part| part["type"] == "text")
        .expect("text");
    assert_eq!(part["text"], "Hello.");
    let created = |message: &Value| -> jiff::Timestamp {
        message["createdAt"].as_str().and_then(|at| at.parse().ok()).expect("a time")
    };
    assert!(created(&messages[0]) <= created(&messages[1]), "{messages:?}");
    // A page may post it back.
    let again = json!({"id": "c", "messages": [messages[0], messages[1],
        {"id": "next", "role": "user", "parts": [{"type": "text", "text": "more"}]}]});
    app.open(again).await.end().await;
    let later = app.get("/api/chat/c").await.json();
    assert_eq!(later["messages"][0], messages[0], "the time stays");
    assert!(created(&messages[1]) <= created(&later["messages"][2]));
}

#[tokio::test]
async fn chats_come_in_pages_newest_first() {
    let app = TestApp::new([scripted::says("1"), scripted::says("2"), scripted::says("3")]).await;
    for chat in ["a", "b", "c"] {
        app.open(says(chat, &format!("about {chat}"))).await.end().await;
    }
    let first = app.get("/api/chats?limit=2").await.json();
    let ids = |page: &Value| {
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

#[tokio::test]
async fn a_long_chat_is_sent_in_pieces_with_all_of_its_fields() {
    let app = TestApp::new([scripted::calls(&[("get_location", json!({}))])]).await;
    let history: Vec<_> = (0..40)
        .map(|n| {
            let role = if n % 2 == 0 { "user" } else { "assistant" };
            json!({"id": format!("m{n}"), "role": role, "parts": [{"type": "text", "text": format!("{n} {}", "ü\"".repeat(20_000))}]})
        })
        .chain([json!({"id": "last", "role": "user", "parts": [{"type": "text", "text": "where?"}]})])
        .collect();
    let mut body = says_with_location("c", "");
    body["messages"] = json!(history);
    app.open(body).await.until("tool-input-available").await;
    let answer = app.get("/api/chat/c").await;
    assert!(!answer.headers.contains_key("content-length"), "it was put together before it was sent");
    assert_eq!(answer.headers["content-type"], "application/json");
    let chat = answer.json();
    let fields: Vec<_> = chat.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["id", "messages", "pending", "open", "title", "archived", "pinned"]);
    assert_eq!((&chat["id"], &chat["open"]), (&json!("c"), &json!(true)));
    let mut messages = chat["messages"].clone();
    for message in messages.as_array_mut().expect("a list") {
        assert!(message.as_object_mut().expect("an object").remove("createdAt").is_some());
    }
    assert_eq!(messages, json!(history), "the message that is being written is not among them");
    assert_eq!(chat["pending"][0]["tool"], "get_location");
    assert_eq!(app.pending("c").await, *chat["pending"].as_array().expect("a list"));
}

#[tokio::test]
async fn of_a_long_chat_only_what_is_taken_is_read() {
    let app = TestApp::new([scripted::calls(&[("get_location", json!({}))]), scripted::says("Done.")]).await;
    let message = |id: &str| json!({"id": id, "role": "user", "parts": [{"type": "text", "text": "x".repeat(900_000)}]});
    let mut body = says_with_location("c", "");
    body["messages"] = json!([message("1"), message("2"), message("3")]);
    app.open(body).await.until("tool-input-available").await;
    let request = Request::get("/api/chat/c").header("host", "127.0.0.1:3000").body(Body::empty());
    let mut pieces = app.send(request.expect("a request")).await.into_body().into_data_stream();
    let first = pieces.next().await.expect("a piece").expect("the first message");
    assert!((900_000..1_000_000).contains(&first.len()), "{} bytes at once", first.len());
    // The rest has not been read yet. An edit of the second message removes the third, so the response cannot be completed.
    let mut edit = says_with_location("c", "");
    edit["messages"] = json!([message("1"), {"id": "2", "role": "user", "content": "shorter"}]);
    app.open(edit).await.until("start").await;
    let second = pieces.next().await.expect("a piece").expect("the second message as it is now");
    assert!(String::from_utf8_lossy(&second).contains("shorter"));
    assert!(pieces.next().await.expect("an end").is_err());
}

#[tokio::test]
async fn a_chat_without_a_summary_says_so_as_it_is_asked() {
    let app = TestApp::new([scripted::says("Hello.")]).await;
    app.open(says("one", "hi")).await.end().await;
    app.get("/api/chat/one/summary").await.problem(404, "not_found");
    let optional = app.get("/api/chat/one/summary?optional=true").await;
    assert_eq!(optional.status, 204);
    assert_eq!(optional.text, "");
    app.get("/api/chat/two/summary?optional=true").await.problem(404, "not_found");
    app.get("/api/chat/one/summary?optional=maybe").await.problem(422, "invalid_request");
}

#[tokio::test]
async fn a_page_may_ask_for_a_chat_that_is_not_there_without_an_error() {
    let app = TestApp::new([scripted::says("Hello.")]).await;
    let optional = app.get("/api/chat/one?optional=true").await;
    assert_eq!((optional.status.as_u16(), optional.text.as_str()), (204, ""));
    app.get("/api/chat/one").await.problem(404, "not_found");
    app.get("/api/chat/one?optional=maybe").await.problem(422, "invalid_request");
    app.open(says("one", "hi")).await.end().await;
    assert_eq!(app.get("/api/chat/one?optional=true").await.text, app.get("/api/chat/one").await.text);
}

#[tokio::test]
async fn a_chat_is_renamed_archived_and_pinned() {
    let app = TestApp::new(["1", "2", "3"].map(scripted::says)).await;
    for chat in ["a", "b", "c"] {
        app.open(says(chat, &format!("about {chat}"))).await.end().await;
    }
    let patch = async |chat: &str, body: Value| {
        app.ask(Method::PATCH, &format!("/api/chat/{chat}"), &[], body.to_string()).await
    };
    let renamed = patch("a", json!({"title": " Häuser  und Gärten ", "pinned": true})).await.json();
    assert_eq!(renamed, json!({"title": "Häuser und Gärten", "archived": false, "pinned": true}));
    let archived = patch("b", json!({"archived": true})).await.json();
    assert_eq!(archived, json!({"title": "about b", "archived": true, "pinned": false}));
    let listed = async |path: &str| {
        let list = app.get(path).await.json();
        let chats = list["chats"].as_array().expect("a list").iter();
        chats.map(|chat| chat["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("/api/chats").await, ["a", "c"]);
    assert_eq!(listed("/api/chats?archived=true").await, ["b"]);
    let chat = app.get("/api/chat/a").await.json();
    assert_eq!((&chat["title"], &chat["pinned"]), (&json!("Häuser und Gärten"), &json!(true)));
    assert_eq!(patch("a", json!({"title": null})).await.json()["title"], "about a");

    for (body, words) in [
        (json!({}), "changes nothing"),
        (json!({"title": 7}), "`title`"),
        (json!({"archived": "yes"}), "`archived`"),
        (json!({"title": "x".repeat(201)}), "has 201"),
        (json!({"titel": "x"}), "titel"),
    ] {
        let detail = patch("a", body).await.problem(422, "invalid_request");
        assert!(detail.contains(words), "{detail}");
    }
    patch("none", json!({"title": "x"})).await.problem(404, "not_found");
}

#[tokio::test]
async fn an_export_is_a_file_for_people() {
    let app = TestApp::new([scripted::says("It is *noon*.")]).await;
    app.open(says("c", "Wie spät ist es in 東京?")).await.end().await;
    app.ask(Method::PATCH, "/api/chat/c", &[], json!({"title": "Zeit #1"}).to_string()).await;
    let export = app.get("/api/chat/c/export?format=markdown").await;
    assert_eq!(export.headers["content-type"], "text/markdown; charset=utf-8");
    assert_eq!(export.headers["content-disposition"], "attachment; filename=\"c.md\"");
    let text = export.text;
    assert!(text.starts_with("# Zeit \\#1\n\n## User\n\n*"), "{text}");
    assert!(
        text.contains("Wie spät ist es in 東京?\n\n## Assistant\n") && text.ends_with("It is *noon*.\n\n"),
        "{text}"
    );
    let export = app.get("/api/chat/c/export").await;
    assert_eq!(export.headers["content-disposition"], "attachment; filename=\"c.json\"");
    assert_eq!(export.json(), app.get("/api/chat/c").await.json());
    let detail = app.get("/api/chat/c/export?format=docx").await.problem(422, "invalid_request");
    assert!(detail.contains("docx") && detail.contains("markdown"), "{detail}");
    app.get("/api/chat/none/export").await.problem(404, "not_found");
}
