//! Deleting chats and messages.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use fermata_engine::{DeleteMessageError, ReadError, SubmitError};
use fermata_protocol::MessageId;
use fermata_tools::Owner;
use serde_json::json;

use crate::world::{World, text};

fn post(words: &str) -> serde_json::Value {
    json!({"id": "c", "message": {"role": "user", "content": words}})
}

/// A chat with three turns.
async fn three_turns() -> World {
    let world = World::new();
    world.script(["one", "two", "three"].map(text));
    for words in ["first", "second", "third"] {
        world.post(post(words)).await.read_to_end().await;
    }
    world
}

fn last_prompt(world: &World) -> String {
    format!("{:?}", world.model.requests.lock().unwrap().last().unwrap().messages)
}

async fn ids(world: &World) -> Vec<MessageId> {
    world.messages().await.into_iter().map(|message| message.id).collect()
}

#[tokio::test(start_paused = true)]
async fn no_page_brings_a_deleted_chat_back() {
    let world = three_turns().await;
    world.engine.delete(&world.owner, &world.chat, false).await.unwrap();
    for _ in 0..2 {
        let refused = world.try_post(post("am I still here?"), None).await.err();
        assert!(matches!(refused, Some(SubmitError::Deleted)), "{refused:?}");
        assert!(matches!(world.engine.chat(&world.owner, &world.chat).await, Err(ReadError::NotFound)));
    }
    let world = world.restarted();
    assert!(matches!(world.try_post(post("and now?"), None).await.err(), Some(SubmitError::Deleted)));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_message_is_gone_from_the_record_and_the_prompt() {
    let world = three_turns().await;
    let before = ids(&world).await;
    let delete = async |id: &MessageId, and_later| {
        world.engine.delete_message(&world.owner, &world.chat, id.clone(), and_later).await
    };
    delete(&before[2], false).await.unwrap();
    assert!(matches!(delete(&before[2], false).await, Err(DeleteMessageError::NotFound)));
    assert_eq!(ids(&world).await, [&before[..2], &before[3..]].concat());
    world.script([text("four")]);
    world.post(post("fourth")).await.read_to_end().await;
    let prompt = last_prompt(&world);
    assert!(!prompt.contains("second") && prompt.contains("two") && prompt.contains("third"), "{prompt}");

    let now = ids(&world).await;
    delete(&now[3], true).await.unwrap();
    assert_eq!(ids(&world).await, now[..3]);
    world.script([text("five")]);
    world.post(post("fifth")).await.read_to_end().await;
    assert!(!last_prompt(&world).contains("third"));
    let stranger = Owner::new("mallory");
    let refused = world.engine.delete_message(&stranger, &world.chat, now[0].clone(), false).await;
    assert!(matches!(refused, Err(DeleteMessageError::NotFound)));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_while_a_run_is_open() {
    let world = three_turns().await;
    let stream = world.script_streamed();
    let mut reader = world.post(post("wait")).await;
    reader.read_until("start-step").await;
    let first = ids(&world).await[0].clone();
    let refused = world.engine.delete_message(&world.owner, &world.chat, first, false).await;
    assert!(matches!(refused, Err(DeleteMessageError::RunOpen)));
    drop(stream);
}
