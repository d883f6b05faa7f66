//! Reading a chat never writes, in any process: the chat's version tells.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::time::Duration;

use fermata_engine::store::{ChatQuery, ChatStore};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::sleep;

use crate::world::{World, calls, output, text};

/// Returns the version and the time of the last change of the chat.
async fn saved(world: &World) -> (u64, Timestamp) {
    let version = world.store.store.version(&world.chat).await.unwrap().unwrap();
    let listed = world.engine.chats(ChatQuery::new(&world.owner, 10)).await.unwrap().chats;
    (version.0, listed[0].updated_at)
}

async fn read_all(world: &World) {
    world.engine.chat(&world.owner, &world.chat).await.unwrap();
    world.engine.pending(&world.owner, &world.chat).await.unwrap();
    world.engine.grants(&world.owner, &world.chat).await.unwrap();
    world.engine.summary(&world.owner, &world.chat).await.unwrap();
    assert!(world.follow().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn reading_what_waits_changes_nothing_before_and_after_a_restart() {
    for (tool, input) in [("where", json!({})), ("note", json!({"title": "milk"}))] {
        let world = World::new();
        world.script([calls(&[(tool, input)])]);
        world.post_text_with_hold("go", Some(0)).await.read_to_end().await;
        let before = saved(&world).await;
        sleep(Duration::from_secs(60)).await;
        read_all(&world).await;
        assert_eq!(saved(&world).await, before, "{tool}");
        let world = world.restarted_at(600);
        read_all(&world).await;
        assert_eq!(world.pending().await.len(), 1);
        assert_eq!(saved(&world).await, before, "{tool}, after a restart");
    }
}

#[tokio::test(start_paused = true)]
async fn a_chat_is_changed_when_it_begins_to_wait_and_not_when_its_hold_ends_or_it_expires() {
    let world = World::new();
    let model = world.script_streamed();
    let mut stream = world.post_text_with_hold("where am I?", Some(300)).await;
    let posted = saved(&world).await.1;
    sleep(Duration::from_secs(20)).await;
    for event in calls(&[("where", json!({}))]) {
        model.send(event).unwrap();
    }
    stream.read_until("tool-input-available").await;
    let waits = saved(&world).await.1;
    assert!(waits > posted, "the model has done something");
    stream.read_to_end().await;
    assert_eq!(saved(&world).await.1, waits, "the hold has ended");
    sleep(Duration::from_secs(4000)).await;
    assert_eq!(world.pending().await, [""; 0], "the call has expired");
    assert_eq!(saved(&world).await.1, waits, "nobody has done anything");
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_hold_moves_the_chat() {
    let world = World::new();
    world.script([calls(&[("where", json!({})), ("color", json!({}))])]);
    let mut stream = world.post_text_with_hold("go", Some(0)).await;
    let call = stream.read_until("tool-input-available").await;
    stream.read_to_end().await;
    let before = saved(&world).await.1;
    sleep(Duration::from_secs(60)).await;
    world.answer(output(&call, json!("Bern"))).await.unwrap();
    assert_eq!(world.pending().await.len(), 1, "the other call waits");
    assert!(saved(&world).await.1 > before);
}

#[tokio::test(start_paused = true)]
async fn the_question_of_a_tool_whose_process_has_ended_needs_no_reader_to_be_withdrawn() {
    let world = World::new();
    world.script([calls(&[("run", json!({"does": "asks"}))])]);
    let mut stream = world.post_text_with_hold("go", Some(0)).await;
    stream.read_until("data-elicitation").await;
    let world = world.restarted();
    world.script([text("The tool is gone.")]);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.model_calls(), 2, "the run has gone on by itself");
    assert_eq!(world.pending().await, [""; 0]);
}
