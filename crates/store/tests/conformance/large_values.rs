//! Messages with files and with large inputs and outputs, which a database keeps once, and which are read as they were put.

use std::sync::Arc;

use fermata_engine::{
    Store,
    store::{Change, ChatStore as _, Files, json_bytes},
};
use fermata_protocol::{ChatId, MessageId, Role, UiMessage, UiPart};
use fermata_tools::{ApprovalDecision, Call, CallState, input_hash};
use serde_json::{Value, json};

use crate::{
    fixtures::*,
    sqlite::{column, count, execute, one, opened},
};

type AnyStore = Arc<dyn Store>;

in_every_store! {
    a_message_with_large_values_is_read_as_it_was_put
    a_file_is_there_for_as_long_as_a_message_has_it
    a_call_that_changes_later_changes_no_message
}

pub fn picture(seed: &str) -> String {
    format!("data:image/png;base64,{}", seed.repeat(4_000))
}

pub fn with_files(id: &str, role: Role, urls: &[&str]) -> UiMessage {
    let mut parts = vec![json!({"type": "text", "text": "Look"})];
    parts.extend(urls.iter().map(
        |url| json!({"type": "file", "mediaType": "image/png", "url": url, "filename": "a.png", "more": [1]}),
    ));
    read(id, role, parts)
}

fn read(id: &str, role: Role, parts: Vec<Value>) -> UiMessage {
    serde_json::from_value(json!({"id": id, "role": role, "parts": parts})).unwrap()
}

/// A call that has succeeded.
fn done(id: &str, input: Value, edited: Option<Value>, output: Value) -> Call {
    changed(call(id, CallState::Success { output }), |call| {
        call.input = input.into();
        call.edited = edited.map(Into::into);
    })
}

fn tool_part(id: &str, input: &Value, output: &Value) -> Value {
    json!({"type": "tool-write_note", "toolCallId": id, "state": "output-available", "input": input, "output": output})
}

fn large(seed: &str) -> Value {
    json!({"z": seed.repeat(2_000), "a": [1.5, null, "\u{0}\u{1a}ü"]})
}

/// A chat with pictures of the user, and an answer with calls of all kinds.
async fn with_large_values(store: &dyn Store) -> (ChatId, Vec<UiMessage>) {
    let id = chat("a");
    let odd = format!("data:text/plain,{}\u{0}\u{1a}", "ü".repeat(1_000));
    let said = with_files("m1", Role::User, &[&picture("A"), &picture("B"), &odd, "https://x.example/a.png"]);
    let again = with_files("m2", Role::User, &[&picture("A")]);
    let calls = [
        done("in", large("i"), None, json!("short")),
        done("edited", large("i"), Some(large("e")), large("o")),
        done("text", json!({}), None, json!("x".repeat(3_000))),
    ];
    let answer = read(
        "answer",
        Role::Assistant,
        vec![
            json!({"type": "step-start"}),
            tool_part("in", &large("i"), &json!("short")),
            tool_part("edited", &large("e"), &large("o")),
            tool_part("text", &json!({}), &json!("x".repeat(3_000))),
            // What a client says of a call is not what the server knows of it.
            tool_part("edited", &large("other"), &large("other")),
            tool_part("unknown", &large("i"), &large("o")),
            json!({"type": "tool-write_note", "toolCallId": "in", "state": "input-available", "input": large("i")}),
            tool_part("odd\u{0}\u{1a}", &large("i"), &large("o")),
        ],
    );
    let mut changes = vec![create(alice()), put(said.clone()), put(again.clone()), open("r")];
    changes.extend(calls.iter().map(|call| put_call("r", call)));
    changes.push(put(answer.clone()));
    changes.push(close("r"));
    commit_at(store, &id, at(0), changes).await.unwrap();
    (id, vec![said, again, answer])
}

async fn a_message_with_large_values_is_read_as_it_was_put(store: AnyStore) {
    let (id, messages) = with_large_values(&*store).await;
    assert_eq!(store.messages(&id).await.unwrap(), messages);
    assert_eq!(store.messages_at(&id, 1..3, Files::Inline).await.unwrap(), messages[1..]);
    for (position, message) in messages.iter().enumerate() {
        let found = store.message(&id, &message.id).await.unwrap();
        assert_eq!(found.as_ref(), Some(&(position, message.clone())));
        let outline = &store.outline(&id).await.unwrap()[position];
        assert_eq!(outline.bytes, json_bytes(message), "the size is that of the whole message");
    }
    let bytes = messages.iter().map(json_bytes).sum::<usize>();
    assert_eq!(store.chat(&id).await.unwrap().unwrap().head.bytes, bytes);
    let mut by_name = store.messages_at(&id, 0..9, Files::ByName).await.unwrap();
    for part in by_name.iter_mut().flat_map(|message| &mut message.parts) {
        if let UiPart::File(file) = part
            && let Some(url) = store.file(&id, &file.url).await.unwrap()
        {
            file.url = url;
        }
    }
    assert_eq!(by_name, messages);
    // Putting it again changes neither the message nor its size.
    commit_at(&*store, &id, at(1), vec![put(messages[0].clone())]).await.unwrap();
    assert_eq!(store.messages(&id).await.unwrap(), messages);
    assert_eq!(store.chat(&id).await.unwrap().unwrap().head.bytes, bytes);
}

async fn a_file_is_there_for_as_long_as_a_message_has_it(store: AnyStore) {
    let (id, messages) = with_large_values(&*store).await;
    commit_at(&*store, &id, at(1), vec![Change::TruncateMessages { keep: 1 }]).await.unwrap();
    assert_eq!(store.messages(&id).await.unwrap(), messages[..1]);
    // One commit drops the last message that has it, and adds another one.
    let other = with_files("m9", Role::User, &[&picture("A")]);
    let changes = vec![Change::TruncateMessages { keep: 0 }, put(other.clone())];
    commit_at(&*store, &id, at(2), changes).await.unwrap();
    assert_eq!(store.messages(&id).await.unwrap(), std::slice::from_ref(&other));
    assert_eq!(store.chat(&id).await.unwrap().unwrap().head.bytes, json_bytes(&other));
}

async fn a_call_that_changes_later_changes_no_message(store: AnyStore) {
    let id = chat("a");
    let open_call = changed(call("c", awaiting_approval()), |call| call.input = large("i").into());
    let shown = read(
        "answer",
        Role::Assistant,
        vec![
            json!({"type": "tool-write_note", "toolCallId": "c", "state": "input-available", "input": large("i")}),
        ],
    );
    let changes = vec![create(alice()), open("r"), put_call("r", &open_call), put(shown.clone())];
    commit_at(&*store, &id, at(0), changes).await.unwrap();
    let edited = changed(open_call, |call| call.edited = Some(large("e").into()));
    commit_at(&*store, &id, at(1), vec![put_call("r", &edited)]).await.unwrap();
    assert_eq!(store.messages(&id).await.unwrap(), [shown]);
}

#[tokio::test]
async fn a_file_and_an_output_are_in_the_database_once() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    let (id, messages) = with_large_values(&store).await;
    store.close().await;
    assert_eq!(count(&folder, "files"), 3, "one picture is in two messages");
    let longest: i64 = one(&folder, "select max(octet_length(body)) from messages where role = 'user'");
    assert!(longest < 1_000, "{longest}");
    let cut: String = one(&folder, "select elsewhere from messages where role = 'assistant'");
    assert_eq!(
        serde_json::from_str::<Value>(&cut).unwrap(),
        json!([
            {"at": "/parts/1/input", "input": "in"},
            {"at": "/parts/2/input", "editedInput": "edited"},
            {"at": "/parts/2/output", "output": "edited"},
            {"at": "/parts/3/output", "output": "text"},
            {"at": "/parts/6/input", "input": "in"},
        ])
    );
    let store = opened(&folder).await;
    commit_at(&store, &id, at(1), vec![Change::TruncateMessages { keep: 0 }]).await.unwrap();
    assert_eq!(store.file(&id, "stored-file:none").await.unwrap(), None);
    assert_eq!(count(&folder, "files"), 0);
    commit_at(&store, &id, at(2), vec![put(messages[0].clone())]).await.unwrap();
    delete(&store, &id).await;
    assert_eq!(count(&folder, "files"), 0);
    store.close().await;
}

#[tokio::test]
async fn a_decision_about_a_large_input_has_its_hash() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    let decided = |id: &str, input: Value, edited: Option<Value>| {
        let call = changed(call(id, scheduled()), |call| {
            call.approval_decision = Some(ApprovalDecision {
                by: alice(),
                at: at(1),
                approved: true,
                reason: None,
                always: false,
                how: None,
            });
            (call.input, call.edited) = (input.into(), edited.map(Into::into));
        });
        let decision = Box::new(call.approval_decision.clone().unwrap());
        Change::Confirm { run: run("r"), call: Box::new(call), decision, terms: None }
    };
    let changes = vec![
        create(alice()),
        open("r"),
        decided("short", large("i"), Some(json!({"z": 1, "a": 2}))),
        decided("large", json!({}), Some(large("e"))),
    ];
    commit_at(&store, &chat("a"), at(0), changes).await.unwrap();
    store.close().await;
    let inputs: Vec<String> = column(&folder, 0, "select input from confirmations order by position");
    let hash = json!({"sha256": input_hash(&large("e").into())});
    assert_eq!(inputs, [r#"{"z":1,"a":2}"#.to_owned(), hash.to_string()]);
}

#[tokio::test]
async fn a_message_that_refers_to_nothing_is_corrupt() {
    let folder = Folder::new();
    let store = opened(&folder).await;
    let (id, _) = with_large_values(&store).await;
    execute(&folder, "delete from files").unwrap();
    let error = store.messages(&id).await.unwrap_err();
    assert!(error.to_string().contains("is not there"), "{error}");
    let by_name = store.messages_at(&id, 0..1, Files::ByName).await.unwrap();
    assert_eq!(by_name[0].id, MessageId::new("m1"));
    store.close().await;
}
