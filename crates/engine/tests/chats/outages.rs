//! A store that is away for a while: runs keep everything and go on, and replies are true.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::world::{World, always, calls, decision, finished, output, text};

/// Lets the store be away, and come back after a while.
fn away_for(world: &World, time: Duration) {
    let store = world.store.clone();
    store.fails.store(true, Ordering::SeqCst);
    tokio::spawn(async move {
        sleep(time).await;
        store.fails.store(false, Ordering::SeqCst);
    });
}

/// Returns how often a tool of the server has begun.
fn times_begun(world: &World) -> usize {
    world.tool_log.lock().unwrap().iter().filter(|line| line.starts_with("begins")).count()
}

const A_WHILE: Duration = Duration::from_secs(40);

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_model_outlasts_a_store_that_is_away_when_it_ends() {
    let world = World::new();
    let model = world.script_streamed();
    let mut stream = world.post_text("hi").await;
    stream.read_until("start-step").await;
    away_for(&world, A_WHILE);
    model.send(finished()).unwrap();
    drop(model);
    assert!(stream.read_to_end().await.ends_with("finish"), "{}", stream.types());
    assert!(stream.is_done);
    assert_eq!(world.model_calls(), 1, "it is not asked again");
    assert_eq!(world.messages().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_tool_outlasts_a_store_that_is_away_when_it_comes() {
    let world = World::new();
    world.script([calls(&[("run", json!({"does": "waits"}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-input-available").await;
    away_for(&world, A_WHILE);
    assert!(stream.read_to_end().await.ends_with("finish"), "{}", stream.types());
    stream.find("tool-output-available");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_while_the_store_is_away_is_saved_when_it_is_back() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-input-available").await;
    away_for(&world, A_WHILE);
    assert_eq!(world.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
    assert!(stream.read_to_end().await.ends_with("finish"));
}

#[tokio::test(start_paused = true)]
async fn who_looks_at_a_chat_while_the_store_is_away_does_the_run_no_harm() {
    let world = World::new();
    let model = world.script_streamed();
    let mut stream = world.post_text("hi").await;
    stream.read_until("start-step").await;
    away_for(&world, A_WHILE);
    assert!(world.engine.chat(&world.owner, &world.chat).await.is_err());
    let post = json!({"id": "c", "message": {"role": "user", "content": "again"}});
    assert!(world.try_post(post, None).await.is_err(), "it supersedes nothing");
    model.send(finished()).unwrap();
    drop(model);
    assert!(stream.read_to_end().await.ends_with("finish"), "{}", stream.types());
    assert_eq!(world.messages().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_post_that_was_saved_succeeds_even_if_the_store_is_away_then() {
    let world = World::new();
    world.script([text("one"), text("two")]);
    world.post_text("first").await.read_to_end().await;
    world.store.reads_to_fail_after_commit.store(30, Ordering::SeqCst);
    let mut stream = world.post_text("second").await;
    assert!(stream.read_to_end().await.ends_with("finish"), "{}", stream.types());
    assert_eq!(world.store.reads_to_fail.load(Ordering::SeqCst), 0, "the history could not be read at first");
    assert_eq!(world.messages().await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_reply_is_lost_is_made_once() {
    let world = World::new();
    // Every second reply is lost, from the first post to the end of the run.
    world.store.replies_to_lose.store(1_000, Ordering::SeqCst);
    world.script([calls(&[("note", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    world.answer(decision(&call, true)).await.unwrap();
    assert!(stream.read_to_end().await.ends_with("finish"), "{}", stream.types());
    assert_eq!(world.messages().await.len(), 2);
    assert_eq!(times_begun(&world), 1);
    assert!(world.store.replies_to_lose.load(Ordering::SeqCst) < 996, "replies were lost");
}

#[tokio::test(start_paused = true)]
async fn a_run_outlasts_a_request_beside_it_of_which_nobody_knows_whether_it_was_done() {
    let world = World::new();
    world.script([calls(&[("note", json!({}))]), calls(&[("where", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    world.answer(always(&call)).await.unwrap();
    let waits = |chunk: &&Value| chunk["type"] == "tool-input-available" && chunk["toolName"] == "where";
    while !stream.chunks.iter().any(|chunk| waits(&chunk)) {
        assert!(stream.read_more().await, "the stream ended: {}", stream.types());
    }
    let call = stream.chunks.iter().find(waits).unwrap()["toolCallId"].as_str().unwrap().to_owned();
    // The grant ends, the reply to that is lost, and the store is away before it can be asked.
    world.store.replies_to_lose.store(2, Ordering::SeqCst);
    let (engine, owner, chat) = (world.engine.clone(), world.owner.clone(), world.chat.clone());
    let ending =
        tokio::spawn(async move { engine.end_grant(&owner, &chat, None, "note".into(), None, None).await });
    sleep(Duration::from_millis(10)).await;
    assert_eq!(world.store.replies_to_lose.load(Ordering::SeqCst), 1, "a reply was lost");
    away_for(&world, A_WHILE);
    sleep(A_WHILE).await;
    world.answer(output(&call, json!("Bern"))).await.unwrap();
    assert!(stream.read_to_end().await.ends_with("finish"), "{}", stream.types());
    ending.await.unwrap().unwrap();
    assert_eq!(world.engine.grants(&world.owner, &world.chat).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_begun_in_a_history_that_is_lost_is_not_begun_again() {
    let world = World::new();
    world.script([calls(&[("note", json!({"does": "waits"}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    sleep(Duration::from_secs(3)).await;
    let standby = world.store.store.standby();
    world.answer(decision(&call, true)).await.unwrap();
    stream.read_until("tool-input-available").await;
    // The approval is forgotten, and so is that the tool has begun.
    world.store.store.fail_over_to(&standby);
    let messages = until_over(&world).await;
    assert_eq!(times_begun(&world), 1);
    assert!(messages.contains("may or may not have had its effect"), "{messages}");
    assert!(messages.contains("ok"), "the run goes on: {messages}");
    // The page shows an approval that nobody knows of any more.
    assert!(stream.read_to_end().await.ends_with("error"), "{}", stream.types());
    assert_eq!(stream.find("error")["errorText"], "The server lost this run. Load the chat again.");
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_after_a_failover_that_lost_nothing() {
    let world = World::new();
    world.script([calls(&[("note", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    sleep(Duration::from_secs(3)).await;
    world.store.store.fail_over_to(&world.store.store.standby());
    sleep(Duration::from_secs(3)).await;
    world.answer(decision(&call, true)).await.unwrap();
    assert!(stream.read_to_end().await.ends_with("finish"), "{}", stream.types());
}

/// Waits until the run is over. Returns the messages as JSON.
async fn until_over(world: &World) -> String {
    for _ in 0..100 {
        sleep(Duration::from_secs(1)).await;
        if world.open_run().is_none() {
            break;
        }
    }
    serde_json::to_string(&world.messages().await).unwrap()
}
