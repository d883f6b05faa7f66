//! Tests of elicitations: who gets them, and when they end.

use std::{sync::Arc, time::Duration};

use fermata_protocol::ToolCallId;
use fermata_tools::{ElicitationReply, ErrorType};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::world::{AcceptingHost, Chat, World, context, text};

#[tokio::test]
async fn an_elicitation_that_the_library_cannot_read_is_still_shown() {
    let world = World::new(["ask strangely", "ask for a visit"], []);
    world.ready().await;
    let call = async |name| {
        let context = context().with_host(Arc::new(AcceptingHost));
        world.tool(name).call(json!({}).into(), context).await.unwrap()
    };
    let output = call("s__ask_strangely").await;
    let answer = text(&output);
    assert!(answer.contains("Accept") && answer.contains("Where?") && answer.contains("where"), "{answer}");
    let output = call("s__ask_for_a_visit").await;
    assert!(text(&output).contains("only elicitation in form mode is supported"), "{output}");
}

#[tokio::test]
async fn the_elicitation_of_a_call_that_ends_is_cancelled() {
    let mut world = World::new(["ask"], []);
    world.ready().await;
    let mut chat = Chat::named("chat");
    let call = chat.begin(&mut world, "s__ask", "a").await;
    let mut asked = chat.asked.recv().await.unwrap();
    call.cancelled.cancel();
    assert_eq!(call.error().await.error_type, ErrorType::Cancelled);
    asked.reply.closed().await;
    let answer = world.noticed.recv().await.unwrap();
    assert!(answer.contains("action: Cancel"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_the_call_and_its_elicitation_immediately() {
    let mut world = World::new(["ask"], []);
    world.ready().await;
    let server = world.connected.recv().await.unwrap();
    let mut chat = Chat::named("chat");
    let call = chat.begin(&mut world, "s__ask", "a").await;
    let mut asked = chat.asked.recv().await.unwrap();
    assert_eq!(asked.elicitation.message, "Which one?");
    let since = Instant::now();
    server.cancellation_token().cancel();
    assert_eq!(call.error().await.error_type, ErrorType::Network);
    // The server itself takes two seconds to end, because its request still waits for a response. The call must not wait for that.
    assert!(since.elapsed() <= Duration::from_secs(2), "{:?}", since.elapsed());
    asked.reply.closed().await;
}

#[tokio::test(start_paused = true)]
async fn an_elicitation_outlives_its_newest_call_while_it_may_belong_to_another() {
    let mut world = World::new(["ask later", "wait"], []);
    world.ready().await;
    let mut chat = Chat::named("chat");
    let asking = chat.begin(&mut world, "s__ask_later", "a").await;
    let waiting = chat.begin(&mut world, "s__wait", "b").await;
    world.pipe.go.notify_one();
    let asked = chat.asked.recv().await.unwrap();
    assert_eq!((asked.call.as_str(), asked.elicitation.other_candidates), ("b", vec![ToolCallId::new("a")]));
    waiting.cancelled.cancel();
    assert_eq!(waiting.error().await.error_type, ErrorType::Cancelled);
    assert!(
        asked.reply.send(ElicitationReply::Accept(json!({"one": 1}))).is_ok(),
        "another call may have elicited"
    );
    let output = asking.text().await;
    assert!(output.contains("action: Accept"), "{output}");
}

#[tokio::test(start_paused = true)]
async fn two_elicitations_live_until_the_last_call_that_they_may_belong_to_has_ended() {
    let mut world = World::new(["ask later"], []);
    world.ready().await;
    let mut chat = Chat::named("chat");
    let one = chat.begin(&mut world, "s__ask_later", "a").await;
    let two = chat.begin(&mut world, "s__ask_later", "b").await;
    world.pipe.go.notify_waiters();
    let (first, mut second) = (chat.asked.recv().await.unwrap(), chat.asked.recv().await.unwrap());
    two.cancelled.cancel();
    assert_eq!(two.error().await.error_type, ErrorType::Cancelled);
    assert!(
        first.reply.send(ElicitationReply::Accept(json!({"one": 1}))).is_ok(),
        "another call may have elicited"
    );
    let answered = world.noticed.recv().await.unwrap();
    assert!(answered.contains("action: Accept"), "{answered}");
    one.cancelled.cancel();
    one.outcome.await.unwrap().ok();
    second.reply.closed().await;
    let answered = world.noticed.recv().await.unwrap();
    assert!(answered.contains("action: Cancel"), "{answered}");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_all_calls_that_may_have_elicited_is_paused_until_the_reply() {
    let mut world = World::new(["ask later", "wait"], []);
    world.ready().await;
    let mut chat = Chat::named("chat");
    let asking = chat.begin(&mut world, "s__ask_later", "a").await;
    let waiting = chat.begin(&mut world, "s__wait", "b").await;
    world.pipe.go.notify_one();
    let asked = chat.asked.recv().await.unwrap();
    sleep(Duration::from_secs(3600)).await;
    asked.reply.send(ElicitationReply::Decline).unwrap();
    let output = asking.text().await;
    assert!(output.contains("action: Decline"), "{output}");
    let error = waiting.error().await;
    assert_eq!(error.error_type, ErrorType::Timeout, "its time goes on after the answer");
}
