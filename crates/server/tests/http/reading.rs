//! Reading never writes: no `GET` request changes a row, even while something waits in a chat.

use serde_json::{Value, json};

use crate::{
    TestApp,
    app::{says, says_with_location},
    database::Database,
    scripted,
};

#[tokio::test]
async fn no_get_request_changes_a_row() {
    let question = json!({"questions": [{"id": "size", "question": "Which size?", "guess": "M"}]});
    let turns = [
        scripted::says("Hello."),
        scripted::calls(&[("ask_user", question)]),
        scripted::calls(&[("write_note", json!({"title": "milk", "body": "two"}))]),
        scripted::calls(&[("get_location", json!({}))]),
    ];
    let file = Database::new();
    let options = ["--builtin", "time,notes,memory,ask_user", "--hold", "0s"];
    let app = TestApp::on(&file.url(), &options, turns).await;
    let chats = ["over", "asks", "approval", "page"];
    for chat in chats {
        app.open(says_with_location(chat, "go")).await.end().await;
    }
    let memory = app.post("/api/memories", json!({"text": "Likes tea."})).await.json();
    let waiting: Vec<_> = app.get("/api/chats").await.json()["chats"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|chat| chat["pending"].clone())
        .collect();
    assert_eq!(waiting, [json!(1), json!(1), json!(1), json!(0)]);

    let description = app.get("/openapi.json").await.json();
    let paths = description["paths"].as_object().expect("paths");
    // An export of all data is noted in the audit, and the changes of approvals have no end.
    let others = ["/api/me/data", "/api/approvals/events"];
    let read = paths.iter().filter(|(path, at)| at.get("get").is_some() && !others.contains(&path.as_str()));
    let mut asked = 0;
    for (path, _) in read {
        let ids: &[&str] = if path.starts_with("/api/chat/{") { &chats } else { &[""] };
        for id in ids {
            let id = if id.is_empty() { memory["id"].as_str().expect("an id") } else { id };
            let before = file.rows();
            let path = path.replace("{id}", id).replace("{call}", "c").replace("{tool}", "write_note");
            let answer = app.get(&path).await;
            assert!(answer.status.as_u16() < 500, "{path}: {}", answer.text);
            assert_eq!(file.rows(), before, "{path}");
            asked += 1;
        }
    }
    assert!(asked > 4 * 4, "{asked} requests");
}

#[tokio::test]
async fn the_end_of_a_hold_is_no_news() {
    let turns = [scripted::calls(&[("get_location", json!({}))]), scripted::says("Hello.")];
    let app = TestApp::new(turns).await;
    let mut stream = app.open(held("waits", "1ms")).await;
    stream.until("tool-input-available").await;
    let updated = async || {
        let listed = app.get("/api/chats").await.json();
        let chats = listed["chats"].as_array().expect("a list").clone();
        chats.into_iter().map(|chat| (chat["id"].clone(), chat["updatedAt"].clone())).collect::<Vec<_>>()
    };
    app.open(says("later", "hi")).await.end().await;
    let before = updated().await;
    assert_eq!((&before[0].0, &before[1].0), (&json!("later"), &json!("waits")));
    stream.end().await;
    assert_eq!(app.get("/api/chat/waits").await.json()["pending"].as_array().map(Vec::len), Some(1));
    assert_eq!(updated().await, before);
    let call = stream.until("tool-input-available").await["toolCallId"].clone();
    app.model.append([scripted::says("Bern.")]);
    app.post("/chat/tool-result", json!({"chatId": "waits", "toolCallId": call, "output": "Bern"})).await;
    let after = updated().await;
    assert_eq!(after[0].0, "waits", "an answer is news: {after:?}");
}

fn held(chat: &str, hold: &str) -> Value {
    let mut body = says_with_location(chat, "where am I?");
    body["fermata"] = json!({"hold": hold});
    body
}
