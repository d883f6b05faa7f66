//! The hold of a stream when the post does not set it.

use std::time::Duration;

use fermata_engine::Hold;
use serde_json::json;
use tokio::time::Instant;

use crate::{output_part, post_of, world::*};

/// Posts a message that leads to a call of the page, and returns the hold of the stream in seconds, with the stream.
async fn held(world: &World, body: serde_json::Value) -> (u64, StreamReader) {
    world.script([calls(&[("where", json!({}))])]);
    let begun = Instant::now();
    let mut stream = world.post(body).await;
    let types = stream.read_to_end().await;
    assert!(types.ends_with("tool-input-available finish-step finish"), "{types}");
    (begun.elapsed().as_secs(), stream)
}

fn post(world: &World, trigger: &serde_json::Value, fermata: &serde_json::Value) -> serde_json::Value {
    let tools = json!({"where": {"parameters": {"type": "object"}}});
    let mut body =
        json!({"id": world.chat.as_str(), "message": {"role": "user", "content": "where?"}, "tools": tools});
    for (field, value) in [("trigger", trigger), ("fermata", fermata)] {
        if !value.is_null() {
            body[field] = value.clone();
        }
    }
    body
}

/// The post of a stock page.
fn stock(world: &World) -> serde_json::Value {
    post(world, &json!("submit-message"), &json!(null))
}

/// Answers the call of a stream as a stock page does, by posting the message again.
async fn answer_by_post(world: &World, stream: &StreamReader) {
    world.script([text("Here.")]);
    let id = stream.find("start")["messageId"].clone();
    let call = stream.find("tool-input-available")["toolCallId"].as_str().expect("an id").to_owned();
    let mut again = post_of(&id, &[output_part(&call, "Bern")]);
    again["trigger"] = json!("submit-message");
    world.post(again).await.read_to_end().await;
}

/// Answers the call of an open stream by `/chat/tool-result`, and reads the stream on.
async fn answer_on_stream(world: &World, body: serde_json::Value) {
    world.script([calls(&[("where", json!({}))]), text("Here.")]);
    let mut stream = world.post(body).await;
    let call = stream.read_until("tool-input-available").await;
    world.answer(output(&call, json!("Bern"))).await.expect("an answer");
    assert!(stream.read_to_end().await.ends_with("finish"), "the answer is continued on the same stream");
}

#[tokio::test(start_paused = true)]
async fn posts_of_stock_pages_are_held_briefly_and_all_others_for_five_minutes() {
    for (trigger, fermata, expected) in [
        (json!("submit-message"), json!(null), 15),
        (json!(null), json!(null), 300),
        (json!("submit-message"), json!({}), 300),
        (json!("submit-message"), json!({"client": 7}), 300),
        (json!(null), json!({"client": 7}), 300),
    ] {
        let world = World::new();
        let (seconds, _) = held(&world, post(&world, &trigger, &fermata)).await;
        assert_eq!(seconds, expected, "trigger {trigger}, fermata {fermata}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_answers_by_posting_again_is_not_held_any_more() {
    let world = World::new();
    let (seconds, stream) = held(&world, stock(&world)).await;
    assert_eq!(seconds, 15);
    answer_by_post(&world, &stream).await;
    let (seconds, stream) = held(&world, stock(&world)).await;
    assert_eq!(seconds, 0);
    answer_by_post(&world, &stream).await;
    assert_eq!(held(&world, post(&world, &json!(null), &json!({"client": 7}))).await.0, 300);
    let world = world.restarted_at(60);
    assert_eq!(held(&world, stock(&world)).await.0, 0, "it is known after a restart");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_answers_while_its_stream_is_open_is_held_for_five_minutes_from_then_on() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), calls(&[("where", json!({}))])]);
    let mut stream = world.post(stock(&world)).await;
    let call = stream.read_until("tool-input-available").await;
    world.answer(output(&call, json!("Bern"))).await.unwrap();
    let answered = Instant::now();
    let types = stream.read_to_end().await;
    assert!(types.ends_with("tool-input-available finish-step finish"), "{types}");
    assert_eq!(answered.elapsed().as_secs(), 300, "the next call of the same run");
    assert_eq!(held(&world, stock(&world)).await.0, 300);
    let world = world.restarted_at(60);
    assert_eq!(held(&world, stock(&world)).await.0, 300, "it is known after a restart");
}

#[tokio::test(start_paused = true)]
async fn the_page_that_answered_last_counts() {
    let world = World::new();
    answer_on_stream(&world, stock(&world)).await;
    let (seconds, stream) = held(&world, stock(&world)).await;
    assert_eq!(seconds, 300);
    answer_by_post(&world, &stream).await;
    assert_eq!(held(&world, stock(&world)).await.0, 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_stream_that_is_no_trial_teaches_nothing() {
    let world = World::new();
    // curl's stream, and one that has ended.
    answer_on_stream(&world, post(&world, &json!(null), &json!(null))).await;
    let (seconds, stream) = held(&world, stock(&world)).await;
    assert_eq!(seconds, 15);
    world.script([text("Here.")]);
    let call = stream.find("tool-input-available")["toolCallId"].as_str().expect("an id").to_owned();
    world.answer(output(&call, json!("Bern"))).await.unwrap();
    if let Some(mut rest) = world.follow().await {
        rest.read_to_end().await;
    }
    assert_eq!(held(&world, stock(&world)).await.0, 15);
}

#[tokio::test(start_paused = true)]
async fn a_hold_can_be_ended_before_its_time_and_only_while_it_lasts() {
    let world = World::new();
    let (engine, owner, chat) = (&world.engine, &world.owner, &world.chat);
    assert!(!engine.end_hold(owner, chat).await.unwrap(), "there is no chat");
    let model = world.script_streamed();
    world.script([text("Here.")]);
    let mut stream = world.post_text_with_hold("where?", Some(3600)).await;
    stream.read_until("start-step").await;
    assert!(!engine.end_hold(owner, chat).await.unwrap(), "the run is at work");
    for event in calls(&[("where", json!({}))]) {
        model.send(event).unwrap();
    }
    let call = stream.read_until("tool-input-available").await;
    assert!(!engine.end_hold(&fermata_tools::Owner::new("mallory"), chat).await.unwrap());
    assert!(engine.end_hold(owner, chat).await.unwrap());
    assert!(stream.read_to_end().await.ends_with("tool-input-available finish-step finish"));
    assert!(stream.is_done);
    assert!(!engine.end_hold(owner, chat).await.unwrap(), "it is over");
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert_eq!(world.pending().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_operator_has_set_is_obeyed() {
    let world = World::with_hold(Hold::For(Duration::from_secs(7)));
    for _ in 0..2 {
        let (seconds, stream) = held(&world, stock(&world)).await;
        assert_eq!(seconds, 7);
        answer_by_post(&world, &stream).await;
    }
}
