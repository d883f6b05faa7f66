//! The time for which a stream is held when no post says so.

use std::time::Duration;

use fermata_engine::Hold;
use serde_json::json;
use tokio::time::Instant;

use crate::{output_part, post_of, world::*};

/// Posts a message that leads to a call of the page, and returns the time for which the stream was held, in seconds, with the stream.
async fn held(world: &World, body: serde_json::Value) -> (u64, StreamReader) {
    world.script([calls(&[("where", json!({}))])]);
    let begun = Instant::now();
    let mut stream = world.post(body).await;
    let types = stream.read_to_end().await;
    assert!(types.ends_with("tool-input-available finish-step finish"), "{types}");
    (begun.elapsed().as_secs(), stream)
}

fn message(world: &World, fermata: serde_json::Value) -> serde_json::Value {
    let tools = json!({"where": {"parameters": {"type": "object"}}});
    let mut body =
        json!({"id": world.chat.as_str(), "message": {"role": "user", "content": "where?"}, "tools": tools});
    if !fermata.is_null() {
        body["fermata"] = fermata;
    }
    body
}

/// Answers the call of a stream as a stock page does, by posting the message again.
async fn answer_by_post(world: &World, stream: &StreamReader) {
    world.script([text("Here.")]);
    let id = stream.find("start")["messageId"].clone();
    let call = stream.find("tool-input-available")["toolCallId"].as_str().expect("an id").to_owned();
    world.post(post_of(&id, &[output_part(&call, "Bern")])).await.read_to_end().await;
}

#[tokio::test(start_paused = true)]
async fn a_page_that_answers_by_posting_again_is_held_for_nothing_once() {
    let world = World::new();
    let (seconds, stream) = held(&world, message(&world, json!(null))).await;
    assert_eq!(seconds, 300);
    answer_by_post(&world, &stream).await;
    let (seconds, stream) = held(&world, message(&world, json!(null))).await;
    assert_eq!(seconds, 0);
    answer_by_post(&world, &stream).await;
    let world = world.restarted_at(60);
    assert_eq!(held(&world, message(&world, json!(null))).await.0, 0, "it is known after a restart");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_knows_fermata_is_held_all_the_same() {
    let world = World::new();
    let (_, stream) = held(&world, message(&world, json!(null))).await;
    answer_by_post(&world, &stream).await;
    assert_eq!(held(&world, message(&world, json!({"client": 7}))).await.0, 300);
    assert_eq!(held(&world, message(&world, json!({}))).await.0, 0, "an empty object says nothing");
}

#[tokio::test(start_paused = true)]
async fn an_answer_while_the_stream_is_held_teaches_nothing() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), text("Here.")]);
    let mut stream = world.post(message(&world, json!(null))).await;
    let call = stream.read_until("tool-input-available").await;
    world.answer(output(&call, json!("Bern"))).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(held(&world, message(&world, json!(null))).await.0, 300);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_operator_has_set_is_obeyed() {
    let world = World::with_hold(Hold::For(Duration::from_secs(7)));
    for _ in 0..2 {
        let (seconds, stream) = held(&world, message(&world, json!(null))).await;
        assert_eq!(seconds, 7);
        answer_by_post(&world, &stream).await;
    }
}
