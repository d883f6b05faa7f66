//! Tests of hubs whose servers run in the test's process, at the other end of a pipe, so that time can be paused.

use std::{pin::pin, sync::atomic::Ordering, time::Duration};

use fermata_tools::ErrorType;
use futures::FutureExt;
use serde_json::json;
use tokio::time::{Instant, advance};

use self::world::{Attempt, Chat, World, at, context, text};

mod elicitations;
mod sessions;
mod versions;
mod world;

#[tokio::test]
async fn tools_are_listed_again_when_they_have_changed() {
    let mut world = World::new(["old", "kept"], []);
    world.ready().await;
    assert_eq!(world.names(), ["s__old", "s__kept"]);
    let (server, old) = (world.connected.recv().await.unwrap(), world.tool("s__old"));
    *world.pipe.tools.lock().unwrap() = vec!["kept", "new"];
    server.peer().notify_tool_list_changed().await.unwrap();
    world.tools.wait_for(|tools| tools.iter().any(|tool| tool.spec().name == "s__new")).await.unwrap();
    assert_eq!(world.names(), ["s__kept", "s__new"]);
    assert_eq!(text(&world.call("s__new").await.unwrap()), "done");
    let error = old.call(json!({}).into(), context()).await.unwrap_err();
    assert_eq!(error.text, "The MCP server s no longer has the tool old.");
}

#[tokio::test]
async fn a_result_that_does_not_fit_its_schema_is_an_invalid_format() {
    let mut world = World::new(["measure"], []);
    world.ready().await;
    let call = Chat::named("chat").begin(&mut world, "s__measure", "a").await;
    let error = call.outcome.await.unwrap().unwrap_err();
    assert_eq!(error.error_type, ErrorType::InvalidFormat);
    assert!(error.text.contains("does not fit its output schema") && error.text.contains("/n"), "{error}");
}

#[tokio::test]
async fn a_server_is_notified_when_a_call_is_cancelled() {
    let mut world = World::new(["wait"], []);
    world.ready().await;
    let (tool, context) = (world.tool("s__wait"), context());
    let cancelled = context.cancelled.clone();
    let call = tokio::spawn(async move { tool.call(json!({}).into(), context).await });
    assert_eq!(world.noticed.recv().await.unwrap(), "called wait");
    cancelled.cancel();
    assert_eq!(call.await.unwrap().unwrap_err().error_type, ErrorType::Cancelled);
    assert_eq!(world.noticed.recv().await.unwrap(), "cancelled");
}

#[tokio::test]
async fn a_server_is_notified_when_a_call_is_dropped() {
    let mut world = World::new(["wait"], []);
    world.ready().await;
    let tool = world.tool("s__wait");
    let call = tokio::spawn(async move { tool.call(json!({}).into(), context()).await });
    assert_eq!(world.noticed.recv().await.unwrap(), "called wait");
    call.abort();
    assert_eq!(world.noticed.recv().await.unwrap(), "cancelled");
}

#[tokio::test]
async fn a_server_is_notified_by_a_task_that_has_used_up_its_budget() {
    let mut world = World::new(["wait"], []);
    world.ready().await;
    let tool = world.tool("s__wait");
    let mut call = tool.call(json!({}).into(), context());
    assert!(call.as_mut().now_or_never().is_none());
    assert_eq!(world.noticed.recv().await.unwrap(), "called wait");
    let mut budget = pin!(async {
        loop {
            tokio::task::consume_budget().await;
        }
    });
    assert!(budget.as_mut().now_or_never().is_none());
    drop(call);
    assert_eq!(world.noticed.recv().await.unwrap(), "cancelled");
}

#[tokio::test]
async fn the_error_of_a_server_about_invalid_input_reaches_the_model() {
    let world = World::new(["refuse"], []);
    world.ready().await;
    let error = world.call("s__refuse").await.unwrap_err();
    assert_eq!(error.error_type, ErrorType::InvalidFormat);
    assert_eq!(error.text, "The MCP server s refused the call: no such place");
}

#[tokio::test]
async fn a_server_may_not_send_other_requests() {
    let world = World::new(["ask for roots"], []);
    world.ready().await;
    assert_eq!(text(&world.call("s__ask_for_roots").await.unwrap()), "refused");
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_a_hub_that_was_dropped() {
    let mut world = World::new(["work"], []);
    world.ready().await;
    let (tool, server) = (world.tool("s__work"), world.connected.recv().await.unwrap());
    world.pipe.attempts.lock().unwrap().extend([Attempt::Fails; 100]);
    server.cancel().await.unwrap();
    let call = tokio::spawn(async move { tool.call(json!({}).into(), context()).await });
    for _ in 0..5 {
        world.tried.recv().await.unwrap();
    }
    assert!(!call.is_finished());
    drop(world);
    assert_eq!(call.await.unwrap().unwrap_err().text, "The MCP server s is no longer configured.");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_tried_again_after_increasing_pauses() {
    let mut world = World::new(["work"], [Attempt::Fails; 10]);
    let mut tries = Vec::new();
    for _ in 0..11 {
        tries.push(world.tried.recv().await.unwrap());
    }
    let pauses: Vec<u128> = tries.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
}

#[tokio::test(start_paused = true)]
async fn a_long_connection_resets_the_pause() {
    let mut world = World::new(["work"], [Attempt::Fails; 5]);
    let server = world.connected.recv().await.unwrap();
    while world.tried.try_recv().is_ok() {}
    advance(Duration::from_secs(31)).await;
    let lost = Instant::now();
    server.cancel().await.unwrap();
    assert_eq!(world.tried.recv().await.unwrap() - lost, Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_server_that_is_down() {
    let mut world = World::new(["work"], []);
    world.ready().await;
    *world.pipe.attempts.lock().unwrap() = [Attempt::Fails; 4].into();
    world.connected.recv().await.unwrap().cancel().await.unwrap();
    assert_eq!(world.names(), ["s__work"], "its tools stay while it is down");
    assert_eq!(text(&world.call("s__work").await.unwrap()), "done");
    assert_eq!(world.changes.load(Ordering::SeqCst), 1, "an unchanged list is not published again");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_nothing_is_tried_again_after_the_timeout() {
    let mut world = World::new(["work"], [Attempt::Mute]);
    let since = world.tried.recv().await.unwrap();
    world.hub.ready(Duration::from_secs(5)).await;
    assert_eq!(since.elapsed(), Duration::from_secs(5), "ready does not wait longer than the given time");
    assert_eq!(world.tried.recv().await.unwrap() - since, Duration::from_millis(60_200));
    world.connected.recv().await.unwrap();
}

#[tokio::test]
async fn the_tools_and_calls_of_a_removed_server_end_with_it() {
    let mut world = World::new(["wait"], []);
    world.ready().await;
    let tool = world.tool("s__wait");
    let call = tokio::spawn(async move { tool.call(json!({}).into(), context()).await });
    assert_eq!(world.noticed.recv().await.unwrap(), "called wait");
    world.set([]);
    assert!(world.names().is_empty());
    assert_eq!(call.await.unwrap().unwrap_err().error_type, ErrorType::Network);
    world.set(["t"]);
    world.ready().await;
    assert_eq!(world.names(), ["t__wait"]);
}

#[tokio::test]
async fn no_server_is_started_after_the_shutdown() {
    let mut world = World::new(["work"], []);
    world.ready().await;
    world.tried.recv().await.unwrap();
    world.hub.shutdown().await;
    world.set(["t"]);
    world.ready().await;
    assert!(world.tried.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_replaced_keeps_its_tools_until_the_new_one_has_listed() {
    let mut world = World::new(["work", "old"], []);
    world.ready().await;
    let held = world.tool("s__work");
    *world.pipe.attempts.lock().unwrap() = [Attempt::Fails; 4].into();
    *world.pipe.tools.lock().unwrap() = vec!["work", "new"];
    world.set_to(&at("elsewhere"), ["s"]);
    assert_eq!(world.names(), ["s__work", "s__old"]);
    let listed = world.tool("s__work");
    assert_eq!(text(&held.call(json!({}).into(), context()).await.unwrap()), "done");
    assert_eq!(text(&listed.call(json!({}).into(), context()).await.unwrap()), "done");
    world.tools.wait_for(|tools| tools.iter().any(|tool| tool.spec().name == "s__new")).await.unwrap();
    assert_eq!(world.names(), ["s__work", "s__new"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_server_is_made_by_its_successor() {
    let mut world = World::new(["work"], []);
    world.ready().await;
    world.pipe.attempts.lock().unwrap().extend([Attempt::Fails; 100]);
    world.connected.recv().await.unwrap().cancel().await.unwrap();
    let tool = world.tool("s__work");
    let call = tokio::spawn(async move { tool.call(json!({}).into(), context()).await });
    for _ in 0..5 {
        world.tried.recv().await.unwrap();
    }
    assert!(!call.is_finished());
    world.set_to(&at("elsewhere"), ["s"]);
    world.pipe.attempts.lock().unwrap().clear();
    assert_eq!(text(&call.await.unwrap().unwrap()), "done");
}

#[tokio::test]
async fn a_call_that_runs_fails_when_its_server_is_replaced() {
    let mut world = World::new(["wait"], []);
    world.ready().await;
    let tool = world.tool("s__wait");
    let call = tokio::spawn(async move { tool.call(json!({}).into(), context()).await });
    assert_eq!(world.noticed.recv().await.unwrap(), "called wait");
    world.set_to(&at("elsewhere"), ["s"]);
    assert_eq!(call.await.unwrap().unwrap_err().error_type, ErrorType::Network);
}

#[tokio::test]
async fn a_tool_works_as_long_as_a_server_of_its_name_is_configured() {
    let world = World::new(["work"], []);
    world.ready().await;
    let tool = world.tool("s__work");
    world.set([]);
    let error = tool.call(json!({}).into(), context()).await.unwrap_err();
    assert_eq!(error.text, "The MCP server s is no longer configured.");
    world.set_to(&at("elsewhere"), ["s"]);
    assert!(world.names().is_empty(), "the tools of a removed server are forgotten");
    assert_eq!(text(&tool.call(json!({}).into(), context()).await.unwrap()), "done");
}
