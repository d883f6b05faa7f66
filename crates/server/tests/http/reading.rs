//! Reading never writes: no `GET` request changes a row, whatever waits in a chat.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    TestApp,
    app::{says, says_with_location},
    scripted,
};

/// A database file, which is deleted at the end of the test.
struct Database(PathBuf);

impl Database {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("fermata-{}.db", uuid::Uuid::new_v4())))
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.0.display())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", self.0.display()));
        }
    }
}

/// Returns all rows of all tables, each as text.
fn rows(path: &Path) -> Vec<String> {
    let database = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("a database");
    let mut tables = database.prepare("select name from sqlite_schema where type = 'table' order by name");
    let tables = tables.as_mut().expect("a query");
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).expect("tables").map(|name| name.expect("a name")).collect();
    let mut rows = Vec::new();
    for table in tables {
        let mut query = database.prepare(&format!("select * from \"{table}\"")).expect("a query");
        let columns = query.column_count();
        let mut found = query.query([]).expect("rows");
        while let Some(row) = found.next().expect("a row") {
            let values: Vec<_> = (0..columns).map(|column| row.get_ref(column).expect("a value")).collect();
            rows.push(format!("{table} {values:?}"));
        }
    }
    rows
}

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
    // An export of all data is noted in the audit.
    let read = paths.iter().filter(|(path, at)| at.get("get").is_some() && *path != "/api/me/data");
    let mut asked = 0;
    for (path, _) in read {
        let ids: &[&str] = if path.starts_with("/api/chat/{") { &chats } else { &[""] };
        for id in ids {
            let id = if id.is_empty() { memory["id"].as_str().expect("an id") } else { id };
            let before = rows(&file.0);
            let path = path.replace("{id}", id).replace("{call}", "c").replace("{tool}", "write_note");
            let answer = app.get(&path).await;
            assert!(answer.status.as_u16() < 500, "{path}: {}", answer.text);
            assert_eq!(rows(&file.0), before, "{path}");
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
