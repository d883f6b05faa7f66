//! Clocks that are wrong: nothing that people may still want is forgotten or settled because of one, and nothing hangs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use fermata_engine::{Pending, store::ChatStore};
use fermata_protocol::ChatId;
use fermata_tools::{Resource, ToolSettings};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    tools::{say_in, settings},
    world::{World, calls, output, says},
};

const MONTH: i64 = 30 * 24 * 3600;

async fn after(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

/// A chat with a call that waits for the page, whose readers were let go, and a chat that is over.
async fn with_chats(world: &World) -> String {
    world.script([says("hello"), calls(&[("where", json!({}))])]);
    say_in(world, "old").await.read_out().await;
    let mut stream = world.say_holding("where am I?", Some(0)).await;
    let call = stream.until("tool-input-available").await;
    stream.read_out().await;
    call
}

async fn is_forgotten(world: &World, chat: &str) -> bool {
    world.store.store.chat(&ChatId::new(chat)).await.unwrap().is_none()
}

/// Whether both chats are as they were left.
async fn has_all(world: &World, call: &str) -> bool {
    world.pending().await == [format!("{call} executing")] && !is_forgotten(world, "old").await
}

/// When the one thing that waits in the chat expires.
async fn expires(world: &World) -> Timestamp {
    match &world.engine.pending(&world.owner, &world.chat).await.unwrap()[..] {
        [Pending::Call(call)] => call.expires.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn one_instance_whose_clock_is_wrong_harms_nobody() {
    let here = World::first_on_a_clock();
    let call = with_chats(&here).await;
    let before = expires(&here).await;
    for wrong_by in [MONTH, -MONTH] {
        let mut there = here.another_ahead(wrong_by);
        after(300).await;
        assert!(has_all(&here, &call).await && has_all(&there, &call).await);
        // What it stores itself is by the same clock as what others store.
        there.script([calls(&[("where", json!({}))])]);
        there.chat = ChatId::new(format!("by:{wrong_by}"));
        there.say_holding("where?", Some(0)).await.read_out().await;
        let later = expires(&there).await.duration_since(before).as_secs();
        assert!((300..=700).contains(&later), "{later}");
        there.store.kill();
    }
    here.script([says("Bern.")]);
    assert_eq!(here.answer(output(&call, json!("Bern"))).await.unwrap(), "success");
}

#[tokio::test(start_paused = true)]
async fn calls_expire_by_the_clock_of_the_database_although_this_one_stands_still() {
    let here = World::first_on_a_clock();
    with_chats(&here).await;
    // It is 50 minutes behind by the end.
    for _ in 0..60 {
        after(60).await;
        here.clock.set(-50);
    }
    after(2).await;
    assert_eq!(here.open_run(), None);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_leaps_ahead_harms_nothing_if_it_comes_back_within_an_hour() {
    let world = World::first();
    let call = with_chats(&world).await;
    world.clock.set(MONTH);
    after(1800).await;
    assert!(has_all(&world, &call).await);
    world.clock.set(-MONTH);
    after(1700).await;
    assert!(has_all(&world, &call).await);
    after(200).await;
    assert_eq!(world.open_run(), None, "an hour has passed, whatever the clock said");
    assert!(!is_forgotten(&world, "old").await);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_leaps_ahead_is_believed_after_an_hour() {
    let world = World::first();
    with_chats(&world).await;
    world.clock.set(MONTH);
    after(3500).await;
    assert!(!is_forgotten(&world, "old").await);
    after(200).await;
    assert!(is_forgotten(&world, "old").await);
}

#[tokio::test(start_paused = true)]
async fn a_start_with_a_clock_a_month_ahead_forgets_only_after_an_hour() {
    let world = World::first();
    let call = with_chats(&world).await;
    after(5).await;
    let world = world.restarted_after(30 * 24 * 3600);
    after(1800).await;
    assert!(has_all(&world, &call).await);
    world.script([says("Bern.")]);
    assert_eq!(
        world.answer(output(&call, json!("Bern"))).await.unwrap(),
        "success",
        "it may be answered, too"
    );
    after(1900).await;
    assert!(is_forgotten(&world, "old").await);
    assert!(!is_forgotten(&world, world.chat.as_str()).await, "this one was used in between");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_keeps_nothing_waiting_for_longer() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))])]);
    let begun = Instant::now();
    let mut stream = world.say_holding("where am I?", Some(60)).await;
    stream.until("tool-input-available").await;
    world.clock.set(-MONTH);
    stream.read_out().await;
    assert_eq!(begun.elapsed().as_secs(), 60);
    after(3600).await;
    assert_eq!(world.open_run(), None);
}

/// A question holds a lock, so it has to end in time, and not sooner either.
#[tokio::test(start_paused = true)]
async fn a_question_ends_in_time_whatever_is_done_to_the_clock() {
    for leaps in [[MONTH, -MONTH], [-MONTH, MONTH], [MONTH, 0]] {
        let world = World::new();
        let resource = Some(Resource::named("it"));
        world.engine.set_rules(settings("run", ToolSettings { resource, ..ToolSettings::default() }));
        after(10).await;
        world.clock.set(leaps[0]);
        after(10).await;
        world.script([calls(&[("run", json!({"as": "1", "does": "asks"}))]), says("ok")]);
        let mut stream = world.say("go").await;
        stream.until("data-elicitation").await;
        let asked = Instant::now();
        after(10).await;
        world.clock.set(leaps[1]);
        stream.read_out().await;
        let lasted = asked.elapsed().as_secs();
        assert!((300..=302).contains(&lasted), "{leaps:?}: {lasted}");
    }
}
