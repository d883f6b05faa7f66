//! The number of calls that may run at a time, and of requests to the model.

use fermata_protocol::{Answer, AnswerKind, AnswerTarget, ChatId, ElicitAction, ElicitationId};
use serde_json::{Value, json};

use crate::world::{StreamReader, World, calls, finished, text};

fn post(chat: &ChatId) -> Value {
    json!({
        "id": chat.as_str(),
        "message": {"role": "user", "content": "go"},
        "fermata": {"show": ["call", "run"]},
    })
}

/// Returns what calls, or the run, have been told to wait for.
fn waited_for(stream: &StreamReader, kind: &str) -> Vec<String> {
    let of_kind = stream.chunks.iter().filter(|chunk| chunk["type"] == kind);
    of_kind.filter_map(|chunk| chunk["data"]["waitsFor"].as_str().map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn calls_run_one_at_a_time_if_no_more_may() {
    let world = World::one_at_a_time();
    world.script([
        calls(&[("run", json!({"as": "1", "does": "waits"})), ("run", json!({"as": "2", "does": "waits"}))]),
        text("Done."),
    ]);
    let mut stream = world.post(post(&world.chat)).await;
    stream.read_to_end().await;
    assert_eq!(*world.tool_log.lock().unwrap(), ["begins 1", "ends 1", "begins 2", "ends 2"]);
    assert!(waited_for(&stream, "data-call").contains(&"capacity".to_owned()), "{:?}", stream.chunks);
    assert_eq!(stream.text(), "Done.");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_person_lets_others_run() {
    let world = World::one_at_a_time();
    world.script([
        calls(&[("run", json!({"as": "1", "does": "asks"})), ("run", json!({"as": "2"}))]),
        text("Done."),
    ]);
    let mut stream = world.post(post(&world.chat)).await;
    stream.read_until("data-elicitation").await;
    stream.read_until("tool-output-available").await;
    assert_eq!(world.tool_log.lock().unwrap().last().unwrap(), "ends 2");
    let id = stream.find("data-elicitation")["data"]["elicitationId"].as_str().unwrap().to_owned();
    let kind = AnswerKind::Elicited { action: ElicitAction::Accept, content: Some(json!({"size": 1})) };
    world.answer(Answer { of: AnswerTarget::Elicitation(ElicitationId::new(id)), kind }).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(stream.text(), "Done.");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_while_its_call_waits_takes_no_turn() {
    let mut world = World::one_at_a_time();
    world.script([calls(&[("run", json!({"as": "1", "does": "hangs"})), ("run", json!({"as": "2"}))])]);
    let mut stream = world.post(post(&world.chat)).await;
    while !waited_for(&stream, "data-call").contains(&"capacity".to_owned()) {
        assert!(stream.read_more().await);
    }
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    stream.read_to_end().await;
    world.chat = ChatId::new("other");
    world.script([calls(&[("run", json!({"as": "3"}))]), text("Done.")]);
    let mut next = world.post(post(&world.chat)).await;
    next.read_to_end().await;
    assert_eq!(next.text(), "Done.");
    assert!(!world.tool_log.lock().unwrap().contains(&"begins 2".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_when_the_process_ended_runs_in_the_next_one() {
    let world = World::one_at_a_time();
    world.script([calls(&[("run", json!({"as": "1", "does": "hangs"})), ("run", json!({"as": "2"}))])]);
    let mut stream = world.post(post(&world.chat)).await;
    while !waited_for(&stream, "data-call").contains(&"capacity".to_owned()) {
        assert!(stream.read_more().await);
    }
    let world = world.restarted();
    world.script([text("Done.")]);
    let mut stream = world.follow().await.unwrap();
    stream.read_to_end().await;
    assert_eq!(stream.text(), "Done.");
    assert_eq!(
        *world.tool_log.lock().unwrap(),
        ["begins 2", "ends 2"],
        "the other one may have had its effect"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_to_the_model_take_turns() {
    let world = World::one_at_a_time();
    let answer = world.script_streamed();
    let mut first = world.post(post(&world.chat)).await;
    first.read_until("start-step").await;
    world.script([text("Second.")]);
    let mut second = world.post(post(&ChatId::new("other"))).await;
    while !waited_for(&second, "data-run").contains(&"capacity".to_owned()) {
        assert!(second.read_more().await);
    }
    assert_eq!(world.model_calls(), 1);
    answer.send(finished()).unwrap();
    drop(answer);
    first.read_to_end().await;
    second.read_to_end().await;
    assert_eq!(second.text(), "Second.");
    let last = second.chunks.iter().rfind(|chunk| chunk["type"] == "data-run").unwrap();
    assert_eq!(last["data"]["waitsFor"], Value::Null);
}
