//! How much an owner and a chat may keep.

use serde_json::{Value, json};

use crate::{
    TestApp,
    app::says,
    scripted::{self, calls},
};

/// What became of the calls of a run that asks nobody.
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
async fn what_is_found_in_notes_is_bounded() {
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
