//! Tests of sessions that serve one chat or one owner.

use std::{mem, num::NonZeroUsize, time::Duration};

use fermata_protocol::{ChatId, ToolCallId};
use fermata_tools::{CallContext, ElicitationReply, ErrorType, Owner};
use rmcp::{RoleServer, service::RunningService};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::world::{Chat, ScriptedServer, World, at, context, text};
use crate::config::{Processes, ServerConfig};

fn per(processes: Processes) -> ServerConfig {
    ServerConfig { processes: Some(processes), ..at("") }
}

/// Creates a hub with one server, `s`, and this configuration.
async fn world<const N: usize>(config: &ServerConfig, tools: [&'static str; N]) -> World {
    let world = World::new(tools, []);
    world.ready().await;
    world.set_to(config, ["s"]);
    world.ready().await;
    world
}

impl World {
    /// Returns the session over which a call of this chat is made.
    async fn session_of(&mut self, chat: &Chat) -> String {
        let begun = chat.begin(self, "s__which", "which").await;
        begun.text().await
    }

    /// Returns the server's end of a session, after `before` others that the test does not need.
    async fn other_end(&mut self, before: usize) -> RunningService<RoleServer, ScriptedServer> {
        for _ in 0..before {
            // The session would end if its other end were dropped.
            mem::forget(self.connected.recv().await.unwrap());
        }
        self.connected.recv().await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_elicitation_of_one_chat_does_not_block_those_of_another() {
    let mut world = World::new(["ask"], []);
    world.ready().await;
    let (mut ann, mut bob) = (Chat::named("ann"), Chat::named("bob"));
    let ann_asks = ann.begin(&mut world, "s__ask", "a").await;
    let ann_asked = ann.asked.recv().await.unwrap();
    let bob_asks = bob.begin(&mut world, "s__ask", "b").await;
    let bob_asked = bob.asked.recv().await.expect("bob is also asked");
    bob_asked.reply.send(ElicitationReply::Accept(json!({"one": "bob"}))).unwrap();
    assert!(bob_asks.text().await.contains("bob"));
    ann_asked.reply.send(ElicitationReply::Accept(json!({"one": "ann"}))).unwrap();
    assert!(ann_asks.text().await.contains("ann"));
}

#[tokio::test(start_paused = true)]
async fn chats_share_a_process_until_its_first_elicitation() {
    let mut world = World::new(["which", "ask"], []);
    world.ready().await;
    let (mut ann, bob) = (Chat::named("ann"), Chat::named("bob"));
    assert_eq!(world.session_of(&ann).await, "session 1");
    assert_eq!(world.session_of(&bob).await, "session 1");
    let asks = ann.begin(&mut world, "s__ask", "a").await;
    ann.asked.recv().await.unwrap().reply.send(ElicitationReply::Decline).unwrap();
    assert!(asks.text().await.contains("Decline"));
    world.noticed.recv().await.unwrap();
    assert_eq!(world.session_of(&bob).await, "session 2");
    assert_eq!(world.session_of(&ann).await, "session 3");
    assert_eq!(world.session_of(&bob).await, "session 2");
}

#[tokio::test(start_paused = true)]
async fn the_first_elicitation_is_remembered_when_the_program_has_ended() {
    let mut world = World::new(["which", "ask"], []);
    world.ready().await;
    let server = world.connected.recv().await.unwrap();
    let mut ann = Chat::named("ann");
    let asks = ann.begin(&mut world, "s__ask", "a").await;
    ann.asked.recv().await.unwrap().reply.send(ElicitationReply::Decline).unwrap();
    asks.text().await;
    world.noticed.recv().await.unwrap();
    server.cancel().await.unwrap();
    let (one, other) = (world.session_of(&ann).await, world.session_of(&Chat::named("bob")).await);
    assert_ne!(one, other);
}

#[tokio::test(start_paused = true)]
async fn a_first_elicitation_that_may_be_of_two_chats_is_cancelled_with_a_reason() {
    let mut world = World::new(["ask", "wait", "ask later"], []);
    world.ready().await;
    let (mut ann, mut bob) = (Chat::named("ann"), Chat::named("bob"));
    let later = ann.begin(&mut world, "s__ask_later", "a").await;
    let asks = bob.begin(&mut world, "s__ask", "b").await;
    let text = asks.text().await;
    assert!(
        text.contains("action: Cancel") && text.contains("fermata/reason"),
        "the server gets the reason: {text}"
    );
    assert!(text.contains("From now on each chat has a process of its own"), "{text}");
    world.noticed.recv().await.unwrap();

    let again = bob.begin(&mut world, "s__ask", "c").await;
    bob.asked
        .recv()
        .await
        .expect("bob has a process of his own now")
        .reply
        .send(ElicitationReply::Decline)
        .unwrap();
    assert!(again.text().await.contains("Decline"));
    world.noticed.recv().await.unwrap();

    world.pipe.go.notify_one();
    ann.asked.recv().await.expect("no other chat has calls in ann's process any more");
    later.cancelled.cancel();
    assert_eq!(later.error().await.error_type, ErrorType::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_process_per_chat_or_owner_never_serves_another() {
    let (ann, bob) = (Chat::named("ann"), Chat::named("bob"));
    let mut world = world(&per(Processes::PerChat), ["which"]).await;
    assert_eq!(world.session_of(&ann).await, "session 3");
    assert_eq!(world.session_of(&bob).await, "session 4");
    assert_eq!(world.session_of(&ann).await, "session 3");
    world.set_to(&per(Processes::PerOwner), ["s"]);
    let first = world.session_of(&ann).await;
    assert_eq!(world.session_of(&bob).await, first, "both chats are of one owner");
    let tool = world.tool("s__which");
    let stranger = CallContext::new(Owner::new("eve"), ChatId::new("ann"), ToolCallId::new("call"));
    assert_ne!(text(&tool.call(json!({}).into(), stranger).await.unwrap()), first);
}

#[tokio::test(start_paused = true)]
async fn a_shared_process_that_elicits_serves_one_chat_at_a_time() {
    let mut world = world(&per(Processes::Shared), ["ask", "which"]).await;
    let (mut ann, bob) = (Chat::named("ann"), Chat::named("bob"));
    let asks = ann.begin(&mut world, "s__ask", "a").await;
    let asked = ann.asked.recv().await.unwrap();
    assert_eq!(world.session_of(&ann).await, "session 2", "other calls of this chat do not wait");
    let error = bob.call(&world, "s__which", "b").error().await;
    assert_eq!(error.error_type, ErrorType::Timeout);
    assert!(error.text.contains("serves one chat at a time"), "{error}");
    let waits = bob.call(&world, "s__which", "c");
    asked.reply.send(ElicitationReply::Decline).unwrap();
    asks.text().await;
    assert_eq!(waits.text().await, "session 2");
}

#[tokio::test(start_paused = true)]
async fn an_unused_process_is_ended_after_the_idle_timeout() {
    let config = ServerConfig { idle_timeout: Duration::from_secs(60), ..per(Processes::PerChat) };
    let mut world = world(&config, ["which"]).await;
    let ann = Chat::named("ann");
    assert_eq!(world.session_of(&ann).await, "session 3");
    let session = world.other_end(2).await;
    sleep(Duration::from_secs(50)).await;
    assert_eq!(world.session_of(&ann).await, "session 3", "it is used again in time");
    let since = Instant::now();
    session.waiting().await.unwrap();
    assert!(since.elapsed() >= Duration::from_secs(60), "{:?}", since.elapsed());
    assert_eq!(world.session_of(&ann).await, "session 4");
}

#[tokio::test(start_paused = true)]
async fn a_process_in_use_is_never_ended_as_idle() {
    let config = ServerConfig { idle_timeout: Duration::from_secs(60), ..per(Processes::PerChat) };
    let mut world = world(&config, ["ask", "which"]).await;
    let mut ann = Chat::named("ann");
    let asks = ann.begin(&mut world, "s__ask", "a").await;
    let asked = ann.asked.recv().await.unwrap();
    sleep(Duration::from_secs(3600)).await;
    asked.reply.send(ElicitationReply::Accept(json!({"one": 1}))).unwrap();
    assert!(asks.text().await.contains("Accept"));
}

#[tokio::test(start_paused = true)]
async fn no_more_processes_run_than_the_settings_allow() {
    let config = ServerConfig { max_processes: NonZeroUsize::MIN, ..per(Processes::PerChat) };
    let mut world = world(&config, ["which", "ask"]).await;
    let (ann, mut bob) = (Chat::named("ann"), Chat::named("bob"));
    assert_eq!(world.session_of(&ann).await, "session 3");
    let session = world.other_end(2).await;
    assert_eq!(world.session_of(&bob).await, "session 4", "an unused process makes room");
    session.waiting().await.unwrap();

    let busy = bob.begin(&mut world, "s__ask", "b").await;
    let _asked = bob.asked.recv().await.unwrap();
    let error = ann.call(&world, "s__which", "a").error().await;
    assert_eq!(error.error_type, ErrorType::Timeout);
    let expected = "all 1 processes of the MCP server s (max_processes) were in use by other chats";
    assert!(error.text.contains(expected), "{error}");

    let waits = ann.call(&world, "s__which", "a");
    busy.cancelled.cancel();
    assert_eq!(busy.error().await.error_type, ErrorType::Cancelled);
    assert_eq!(waits.text().await, "session 5");
}

#[tokio::test(start_paused = true)]
async fn the_processes_of_a_server_end_with_it() {
    let mut world = world(&per(Processes::PerChat), ["which", "wait"]).await;
    let (ann, bob) = (Chat::named("ann"), Chat::named("bob"));
    let busy = ann.begin(&mut world, "s__wait", "a").await;
    let one = world.other_end(2).await;
    world.set([]);
    assert_eq!(busy.error().await.error_type, ErrorType::Network);
    one.waiting().await.unwrap();

    world.set_to(&per(Processes::PerChat), ["s"]);
    world.ready().await;
    while world.noticed.try_recv().is_ok() {}
    world.session_of(&bob).await;
    let other = world.other_end(1).await;
    world.hub.shutdown().await;
    other.waiting().await.unwrap();
    let error = world.tool("s__which").call(json!({}).into(), context()).await.unwrap_err();
    assert_eq!(error.text, "The MCP server s is no longer configured.");
}

#[tokio::test(start_paused = true)]
async fn no_call_of_a_chat_waits_for_a_hub_that_was_dropped() {
    let config = ServerConfig { max_processes: NonZeroUsize::MIN, ..per(Processes::PerChat) };
    let mut world = world(&config, ["wait"]).await;
    let (ann, bob) = (Chat::named("ann"), Chat::named("bob"));
    let busy = ann.begin(&mut world, "s__wait", "a").await;
    let waits = bob.call(&world, "s__wait", "b");
    tokio::task::yield_now().await;
    drop(world);
    assert_eq!(busy.error().await.error_type, ErrorType::Network);
    assert_eq!(waits.error().await.text, "The MCP server s is no longer configured.");
}

#[tokio::test(start_paused = true)]
async fn a_process_of_a_chat_that_dies_fails_its_call_and_is_started_again() {
    let mut world = world(&per(Processes::PerChat), ["which", "ask"]).await;
    let (mut ann, bob) = (Chat::named("ann"), Chat::named("bob"));
    assert_eq!(world.session_of(&bob).await, "session 3");
    let busy = ann.begin(&mut world, "s__ask", "a").await;
    let _asked = ann.asked.recv().await.unwrap();
    world.other_end(3).await.cancellation_token().cancel();
    assert_eq!(busy.error().await.error_type, ErrorType::Network);
    while world.noticed.try_recv().is_ok() {}
    assert_eq!(world.session_of(&ann).await, "session 5");
    assert_eq!(world.session_of(&bob).await, "session 3", "the other chat is not affected");
}
