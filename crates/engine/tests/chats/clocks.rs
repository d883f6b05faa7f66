//! Clocks that are wrong: none of them makes a chat be forgotten or a call expire too early, and nothing hangs.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::time::Duration;

use fermata_engine::{Pending, store::ChatStore};
use fermata_protocol::ChatId;
use fermata_tools::{Resource, ToolSettings};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    tools::{post_in, settings},
    world::{World, calls, output, text},
};

const MONTH: i64 = 30 * 24 * 3600;

/// Lets this number of seconds pass.
async fn wait(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

/// Makes a chat with a call that waits for the browser and has no readers, and the chat `old`, which has no open run. Returns the call.
async fn make_chats(world: &World) -> String {
    world.script([text("hello"), calls(&[("where", json!({}))])]);
    post_in(world, "old").await.read_to_end().await;
    let mut stream = world.post_text_with_hold("where am I?", Some(0)).await;
    let call = stream.read_until("tool-input-available").await;
    stream.read_to_end().await;
    call
}

async fn is_forgotten(world: &World, chat: &str) -> bool {
    world.store.store.chat(&ChatId::new(chat)).await.unwrap().is_none()
}

/// Returns whether both chats are as [`make_chats`] left them.
async fn has_both(world: &World, call: &str) -> bool {
    world.pending().await == [format!("{call} executing")] && !is_forgotten(world, "old").await
}

/// Returns the time when the only pending call of the chat expires.
async fn expiry(world: &World) -> Timestamp {
    match &world.engine.pending(&world.owner, &world.chat).await.unwrap()[..] {
        [Pending::Call(call)] => call.state().expires().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn one_instance_whose_clock_is_wrong_harms_nobody() {
    let here = World::first_with_database_clock();
    let call = make_chats(&here).await;
    let before = expiry(&here).await;
    for wrong_by in [MONTH, -MONTH] {
        let mut there = here.another_with_clock_ahead(wrong_by);
        wait(300).await;
        assert!(has_both(&here, &call).await && has_both(&there, &call).await);
        // The times that this instance stores are also those of the deployment's clock.
        there.script([calls(&[("where", json!({}))])]);
        there.chat = ChatId::new(format!("by:{wrong_by}"));
        there.post_text_with_hold("where?", Some(0)).await.read_to_end().await;
        let later_by = expiry(&there).await.duration_since(before).as_secs();
        assert!((300..=700).contains(&later_by), "{later_by}");
        there.store.kill();
    }
    here.script([text("Bern.")]);
    assert_eq!(here.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
}

#[tokio::test(start_paused = true)]
async fn calls_expire_by_the_clock_of_the_database_if_that_of_the_machine_is_slow() {
    let here = World::first_with_database_clock();
    make_chats(&here).await;
    // In the end the machine's clock is 50 minutes behind.
    for _ in 0..60 {
        wait(60).await;
        here.clock.shift(-50);
    }
    wait(2).await;
    assert_eq!(here.open_run(), None);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_leaps_ahead_harms_nothing_if_it_comes_back_within_an_hour() {
    let world = World::first();
    let call = make_chats(&world).await;
    world.clock.shift(MONTH);
    wait(1800).await;
    assert!(has_both(&world, &call).await);
    world.clock.shift(-MONTH);
    wait(1700).await;
    assert!(has_both(&world, &call).await);
    wait(200).await;
    assert_eq!(world.open_run(), None, "an hour has passed by the monotonic clock");
    assert!(!is_forgotten(&world, "old").await);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_leaps_ahead_is_believed_after_an_hour() {
    let world = World::first();
    make_chats(&world).await;
    world.clock.shift(MONTH);
    wait(3500).await;
    assert!(!is_forgotten(&world, "old").await);
    wait(200).await;
    assert!(is_forgotten(&world, "old").await);
}

#[tokio::test(start_paused = true)]
async fn a_start_with_a_clock_a_month_ahead_forgets_only_after_an_hour() {
    let world = World::first();
    let call = make_chats(&world).await;
    wait(5).await;
    let world = world.restarted_at(30 * 24 * 3600);
    wait(1800).await;
    assert!(has_both(&world, &call).await);
    world.script([text("Bern.")]);
    assert_eq!(
        world.answer(output(&call, json!("Bern"))).await.unwrap(),
        "success",
        "the call can still be answered"
    );
    wait(1900).await;
    assert!(is_forgotten(&world, "old").await);
    assert!(!is_forgotten(&world, world.chat.as_str()).await, "this chat was used in between");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_makes_no_wait_longer() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))])]);
    let begun = Instant::now();
    let mut stream = world.post_text_with_hold("where am I?", Some(60)).await;
    stream.read_until("tool-input-available").await;
    world.clock.shift(-MONTH);
    stream.read_to_end().await;
    assert_eq!(begun.elapsed().as_secs(), 60);
    wait(3600).await;
    assert_eq!(world.open_run(), None);
}

/// A question holds a lock, so it has to end in time, but not before.
#[tokio::test(start_paused = true)]
async fn a_question_ends_in_time_whatever_the_clock_is_set_to() {
    for leaps in [[MONTH, -MONTH], [-MONTH, MONTH], [MONTH, 0]] {
        let world = World::new();
        let resource = Some(Resource::named("it"));
        world.engine.set_rules(settings("run", ToolSettings { resource, ..ToolSettings::default() }));
        wait(10).await;
        world.clock.shift(leaps[0]);
        wait(10).await;
        world.script([calls(&[("run", json!({"as": "1", "does": "asks"}))]), text("ok")]);
        let mut stream = world.post_text("go").await;
        stream.read_until("data-elicitation").await;
        let asked = Instant::now();
        wait(10).await;
        world.clock.shift(leaps[1]);
        stream.read_to_end().await;
        let seconds = asked.elapsed().as_secs();
        assert!((300..=302).contains(&seconds), "{leaps:?}: {seconds}");
    }
}
