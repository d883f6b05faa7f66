//! Runs that are cut off while the model speaks: by the end of their instance, or because it is killed.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::{sync::atomic::Ordering, time::Duration};

use fermata_engine::{
    model::ModelEvent,
    store::{ChatStore, InstanceId},
};
use fermata_protocol::{UiMessage, UiPart};
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};

use crate::world::{StreamReader, World, calls, finished, text};

type Speaking = mpsc::UnboundedSender<Result<ModelEvent, fermata_engine::model::ModelError>>;

fn post(world: &World) -> Value {
    json!({
        "id": world.chat.as_str(),
        "message": {"role": "user", "content": "go"},
        "fermata": {"client": "7.0.173"},
    })
}

/// Begins a run whose model has said something.
async fn speaking(world: &World, said: &str) -> (Speaking, StreamReader) {
    let model = world.script_streamed();
    let mut stream = world.post(post(world)).await;
    model.send(Ok(ModelEvent::Text(said.into()))).unwrap();
    stream.read_until("text-delta").await;
    (model, stream)
}

/// Ends the instance while the model speaks. Returns another one, the model that is asked there, and a reader of the words so far.
async fn cut_off(here: &World) -> (World, Speaking, StreamReader) {
    let there = here.another();
    sleep(Duration::from_secs(5)).await;
    let again = there.script_streamed();
    here.engine.shutdown().await;
    let mut reader = there.follow().await.unwrap();
    reader.read_until("text-delta").await;
    (there, again, reader)
}

fn words(message: &UiMessage) -> String {
    message.parts.iter().filter_map(UiPart::as_text).collect()
}

async fn last_words(world: &World) -> String {
    words(world.messages().await.last().unwrap())
}

fn run_owner(world: &World) -> Option<InstanceId> {
    world.store.store.owner_of(&world.chat).now_or_never().unwrap().unwrap().unwrap().run_owner
}

#[tokio::test(start_paused = true)]
async fn what_was_said_stays_until_the_model_speaks_again() {
    let here = World::first();
    let (_model, mut stream) = speaking(&here, "half").await;
    let there = here.another();
    sleep(Duration::from_secs(5)).await;
    let again = there.script_streamed();
    here.engine.shutdown().await;
    assert!(stream.read_to_end().await.ends_with("text-delta finish"));
    assert_eq!(stream.find("finish")["finishReason"], "interrupted");

    let mut reader = there.follow().await.unwrap();
    reader.read_until("text-delta").await;
    assert_eq!(
        (reader.types().as_str(), reader.text().as_str()),
        ("start start-step text-start text-delta", "half")
    );
    let asked = there.model.requests.lock().unwrap().last().unwrap().clone();
    assert!(
        !format!("{:?}", asked.messages).contains("half"),
        "the model begins again: {:?}",
        asked.messages
    );

    again.send(Ok(ModelEvent::Text("whole".into()))).unwrap();
    again.send(finished()).unwrap();
    let all = reader.read_to_end().await;
    assert!(
        all.ends_with("text-delta reset-step text-start text-delta text-end finish-step finish"),
        "{all}"
    );
    assert_eq!(last_words(&there).await, "whole");
}

#[tokio::test(start_paused = true)]
async fn who_comes_after_the_model_has_spoken_again_sees_nothing_of_the_first_time() {
    let here = World::first();
    let (_model, _stream) = speaking(&here, "half").await;
    let there = here.another();
    sleep(Duration::from_secs(5)).await;
    let again = there.script_streamed();
    here.engine.shutdown().await;
    let mut first = there.follow().await.unwrap();
    again.send(Ok(ModelEvent::Text("whole".into()))).unwrap();
    first.read_until("reset-step").await;
    let mut late = there.follow().await.unwrap();
    late.read_until("text-delta").await;
    assert_eq!(
        (late.types().as_str(), late.text().as_str()),
        ("start start-step text-start text-delta", "whole")
    );
}

#[tokio::test(start_paused = true)]
async fn of_a_call_that_was_begun_nothing_is_left() {
    let here = World::first();
    let (model, mut stream) = speaking(&here, "I look. ").await;
    model.send(Ok(ModelEvent::CallStart { key: 0, tool: "run".into() })).unwrap();
    model.send(Ok(ModelEvent::CallDelta { key: 0, arguments: "{\"x\"".into() })).unwrap();
    stream.read_until("tool-input-delta").await;
    let (there, _again, reader) = cut_off(&here).await;
    assert!(!reader.types().contains("tool"), "{}", reader.types());
    assert!(there.messages().await.last().unwrap().parts.iter().all(|part| part.as_tool().is_none()));
}

#[tokio::test(start_paused = true)]
async fn nobody_goes_on_with_a_run_whose_tool_has_not_ended() {
    let here = World::first();
    here.script([calls(&[("run", json!({"does": "cleans up"}))]), text("ok")]);
    let mut stream = here.post(post(&here)).await;
    stream.read_until("tool-input-available").await;
    let there = here.another();
    sleep(Duration::from_secs(5)).await;
    let engine = here.engine.clone();
    let ending = tokio::spawn(async move { engine.shutdown().await });
    stream.read_to_end().await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(run_owner(&here), here.store.joined());
    ending.await.unwrap();
    assert_eq!(*here.tool_log.lock().unwrap(), ["begins ", "cleaned up ", "ends "]);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(here.tool_log.lock().unwrap().len(), 3);
    let messages = format!("{:?}", there.messages().await);
    assert!(messages.contains("may or may not have had its effect") && messages.contains("ok"), "{messages}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_before_the_model_speaks_again_keeps_its_words() {
    let here = World::first();
    let (_model, _stream) = speaking(&here, "half").await;
    let (there, _again, mut reader) = cut_off(&here).await;
    there.engine.stop(&there.owner, &there.chat).await.unwrap();
    let all = reader.read_to_end().await;
    // The first instance may have shown more than it has saved.
    assert!(all.contains("reset-step text-start text-delta text-end finish-step"), "{all}");
    assert_eq!(last_words(&there).await, "half");
}

#[tokio::test(start_paused = true)]
async fn the_newest_instance_goes_on() {
    let here = World::first();
    let older = here.another();
    sleep(Duration::from_secs(3)).await;
    let newest = here.another();
    sleep(Duration::from_secs(5)).await;
    let (_model, mut stream) = speaking(&here, "half").await;
    let again = newest.script_streamed();
    here.engine.shutdown().await;
    stream.read_to_end().await;
    assert_eq!(run_owner(&here), newest.store.joined(), "before any reader is sent away");
    assert_eq!(newest.model_calls(), 2);
    again.send(Ok(ModelEvent::Text("whole".into()))).unwrap();
    again.send(finished()).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(last_words(&older).await, "whole");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_shutting_down_itself_takes_no_run_over() {
    let here = World::first();
    let older = here.another();
    sleep(Duration::from_secs(3)).await;
    let newest = here.another();
    sleep(Duration::from_secs(5)).await;
    let (_model, mut stream) = speaking(&here, "half").await;
    let _again = newest.script_streamed();
    // Both take as long.
    tokio::join!(here.engine.shutdown(), newest.engine.shutdown());
    stream.read_to_end().await;
    assert_eq!(run_owner(&here), older.store.joined());
}

#[tokio::test(start_paused = true)]
async fn what_was_said_long_before_a_crash_is_kept_with_the_error() {
    let mut world = World::first();
    let (model, mut stream) = speaking(&world, "one ").await;
    sleep(Duration::from_secs(3)).await;
    model.send(Ok(ModelEvent::Text("two ".into()))).unwrap();
    sleep(Duration::from_millis(100)).await;
    model.send(Ok(ModelEvent::Text("three".into()))).unwrap();
    while stream.text() != "one two three" {
        assert!(stream.read_more().await);
    }
    let _models: Vec<_> = (0..9).map(|_| world.script_streamed()).collect();
    for _ in 0..3 {
        world = world.restarted();
        sleep(Duration::from_secs(3)).await;
    }
    assert_eq!(world.open_run(), None, "it is given up");
    assert_eq!(last_words(&world).await, "one two ");
}

#[tokio::test(start_paused = true)]
async fn an_end_long_after_the_run_was_resumed_is_not_counted_against_it() {
    let mut world = World::first();
    let (_model, _stream) = speaking(&world, "half").await;
    let _models: Vec<_> = (0..6).map(|_| world.script_streamed()).collect();
    for resumed in 1..=6 {
        world = world.restarted();
        sleep(Duration::from_secs(9)).await;
        assert_eq!(world.model_calls(), 1 + resumed);
        assert_eq!(world.open_run().unwrap().attempts, 0);
    }
    world.script([text("whole")]);
    let world = world.restarted();
    sleep(Duration::from_secs(3)).await;
    assert_eq!((world.open_run(), last_words(&world).await.as_str()), (None, "whole"));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_does_not_keep_the_model_from_being_heard() {
    let world = World::new();
    let (model, mut stream) = speaking(&world, "one ").await;
    sleep(Duration::from_secs(3)).await;
    world.store.fails.store(true, Ordering::SeqCst);
    for word in ["two ", "three"] {
        model.send(Ok(ModelEvent::Text(word.into()))).unwrap();
        sleep(Duration::from_millis(10)).await;
    }
    while stream.text() != "one two three" {
        assert!(stream.read_more().await);
    }
    world.store.fails.store(false, Ordering::SeqCst);
    model.send(finished()).unwrap();
    assert!(stream.read_to_end().await.ends_with("finish"));
    assert_eq!(last_words(&world).await, "one two three");
}
