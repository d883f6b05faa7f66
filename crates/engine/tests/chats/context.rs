//! Chats that outgrow their model: the parts that a request leaves out, and that later ones leave out the same.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use fermata_engine::model::{ModelContent, ModelError, ModelEvent, ModelMessage, ModelRequest, Usage};
use fermata_protocol::FinishReason;
use serde_json::{Value, json};

use crate::world::{ModelStep, StreamReader, World, calls, text};

fn too_long() -> ModelStep {
    vec![Err(ModelError::TooLong("maximum context length".into()))]
}

/// A text. The provider has counted so many tokens in its request.
fn counted(input_tokens: u64, answer: &str) -> ModelStep {
    let usage = Usage { input_tokens, output_tokens: 1, total_tokens: input_tokens + 1 };
    vec![
        Ok(ModelEvent::Text(answer.into())),
        Ok(ModelEvent::Finished { reason: FinishReason::Stop, usage: Some(usage) }),
    ]
}

/// Returns a history of turns, each of this many bytes, and a new message.
fn history(turns: usize, bytes: usize) -> Value {
    let mut messages = Vec::new();
    for turn in 0..turns {
        let asked = format!("turn {turn} {}", "x".repeat(bytes));
        messages.push(json!({"id": format!("u{turn}"), "role": "user", "content": asked}));
        messages.push(json!({"id": format!("a{turn}"), "role": "assistant", "content": "yes"}));
    }
    messages.push(json!({"id": "new", "role": "user", "content": "and now?"}));
    json!({"id": "c", "messages": messages})
}

fn requests(world: &World) -> Vec<ModelRequest> {
    world.model.requests.lock().unwrap().clone()
}

/// Returns the beginnings of the user messages of a request.
fn users(request: &ModelRequest) -> Vec<String> {
    let user = |message: &ModelMessage| match message {
        ModelMessage::User(content) => match content.first() {
            Some(ModelContent::Text(text)) => Some(text.chars().take(8).collect()),
            Some(ModelContent::File { .. }) | None => None,
        },
        ModelMessage::System(_) | ModelMessage::Assistant { .. } | ModelMessage::Tool { .. } => None,
    };
    request.messages.iter().filter_map(user).collect()
}

async fn says(world: &World, text: &str) -> String {
    world.post(json!({"id": "c", "message": {"role": "user", "content": text}})).await.read_to_end().await
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_long_is_sent_again_with_less_in_the_same_step() {
    let world = World::new();
    world.script([too_long(), text("It fits."), text("ok")]);
    let mut stream = world.post(history(8, 400)).await;
    assert_eq!(
        stream.read_to_end().await,
        "start start-step text-start text-delta text-end finish-step finish"
    );
    let asked = requests(&world);
    assert_eq!((users(&asked[0]).len(), users(&asked[1]).first().unwrap().as_str()), (9, "turn 5 x"));
    assert_eq!(users(&asked[1]).last().unwrap(), "and now?");

    let world = world.restarted();
    world.script([text("ok")]);
    says(&world, "go on").await;
    let next = requests(&world).pop().unwrap();
    assert_eq!(next.messages[..asked[1].messages.len()], asked[1].messages, "it goes on as it began");
    assert_eq!(world.messages().await.len(), 20, "the record keeps everything");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_shortened_twice_at_most_and_the_chat_lives_on() {
    let world = World::new();
    world.script([too_long(), too_long(), too_long(), text("ok")]);
    let mut stream = world.post(history(16, 400)).await;
    assert_eq!(stream.read_to_end().await, "start start-step finish-step error");
    let lengths: Vec<usize> = requests(&world).iter().map(|request| users(request).len()).collect();
    assert_eq!(lengths, [17, 8, 4]);
    assert!(says(&world, "go on").await.ends_with("finish"));
    let next = requests(&world).pop().unwrap();
    assert_eq!(users(&next).first().unwrap(), "turn 13 ", "the next post begins where the last one was cut");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_ends_before_its_first_word_may_mean_that_the_request_is_too_long() {
    let no_answer = || vec![Err(ModelError::NoAnswer("the answer broke off".into()))];
    let world = World::new();
    world.script([no_answer(), text("It fits.")]);
    assert!(world.post(history(8, 400)).await.read_to_end().await.ends_with("finish"));
    let lengths: Vec<usize> = requests(&world).iter().map(|request| users(request).len()).collect();
    assert_eq!(lengths, [9, 4]);

    let world = World::new();
    world.script([no_answer(), text("It was the network.")]);
    assert!(says(&world, "short").await.ends_with("finish"));

    let world = World::new();
    world.script([no_answer(), no_answer(), text("never asked for")]);
    assert!(says(&world, "short").await.ends_with("error"));
    assert_eq!(world.model_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_become_shorter_fails_at_once() {
    let world = World::new();
    world.script([too_long(), text("never asked for")]);
    assert!(says(&world, &"x".repeat(5000)).await.ends_with("error"));
    assert_eq!(world.model_calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_history_is_fitted_into_a_window_that_is_known_before_it_is_sent() {
    let world = World::new();
    world.set_window(1000);
    world.script([counted(700, "ok"), counted(790, "ok"), counted(500, "ok")]);
    world.post(history(8, 400)).await.read_to_end().await;
    let asked = requests(&world);
    assert_eq!(users(&asked[0]).first().unwrap(), "turn 2 x", "800 tokens, as far as they can be estimated");

    says(&world, "more").await;
    let next = requests(&world).pop().unwrap();
    assert_eq!(next.messages[..asked[0].messages.len()], asked[0].messages, "it still fits");

    // The provider has counted nearly as many as there may be, so the estimate is too low.
    let world = world.restarted();
    world.set_window(1000);
    world.script([counted(500, "ok")]);
    says(&world, &"x".repeat(100)).await;
    assert_eq!(users(&requests(&world).pop().unwrap()).first().unwrap(), "turn 3 x");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_is_told_how_full_the_window_is_after_each_step() {
    let world = World::new();
    let usage = Usage { input_tokens: 70, output_tokens: 1, total_tokens: 71 };
    let call = || {
        let mut step = calls(&[("run", json!({}))]);
        step.pop();
        step.push(Ok(ModelEvent::Finished { reason: FinishReason::ToolCalls, usage: Some(usage) }));
        step
    };
    let ask = |show: Value| json!({"id": "c", "message": {"role": "user", "content": "go"}, "fermata": {"show": show}});
    let contexts = |stream: &StreamReader| {
        let of_kind = stream.chunks.iter().filter(|chunk| chunk["type"] == "data-context");
        of_kind.map(|chunk| (chunk["data"].clone(), chunk["transient"].clone())).collect::<Vec<_>>()
    };
    world.script([call(), counted(90, "ok"), text("not counted")]);
    let mut stream = world.post(ask(json!(["context"]))).await;
    stream.read_to_end().await;
    let told = |tokens| (json!({"inputTokens": tokens}), json!(true));
    assert_eq!(contexts(&stream), [told(70), told(90)]);
    let mut stream = world.post(ask(json!("all"))).await;
    stream.read_to_end().await;
    assert_eq!(contexts(&stream), []);

    world.set_window(1000);
    world.script([counted(95, "ok"), counted(99, "ok")]);
    let mut stream = world.post(ask(json!(["context"]))).await;
    stream.read_to_end().await;
    let told = json!({"inputTokens": 95, "window": 1000, "compactAt": 800});
    assert_eq!(contexts(&stream)[0].0, told);
    let shown = async || json!(world.engine.chat(&world.owner, &world.chat).await.unwrap().context);
    assert_eq!(shown().await, told, "a page that is loaded again also knows it");
    let mut stream = world.post(ask(json!([]))).await;
    stream.read_to_end().await;
    assert_eq!((contexts(&stream), shown().await), (vec![], Value::Null));
}

#[tokio::test(start_paused = true)]
async fn outputs_of_old_calls_are_cleared_in_the_middle_of_a_run() {
    let world = World::new();
    world.set_window(2000);
    let work = || calls(&[("run", json!({"says": "x".repeat(1500)}))]);
    world.script([work(), work(), work(), work(), text("done")]);
    let mut stream = world.post_text("go").await;
    assert!(stream.read_to_end().await.ends_with("finish"));
    let asked = requests(&world);
    let cleared: Vec<usize> = asked
        .iter()
        .map(|request| {
            let is_cleared = |message: &&ModelMessage| {
                matches!(message, ModelMessage::Tool { content, .. } if format!("{content:?}").contains("was cleared"))
            };
            request.messages.iter().filter(is_cleared).count()
        })
        .collect();
    assert_eq!(cleared, [0, 0, 0, 0, 1], "the outputs of the newest three steps stay");
}

#[tokio::test(start_paused = true)]
async fn an_edit_before_the_beginning_takes_the_history_back() {
    let world = World::new();
    world.script([too_long(), text("It fits."), text("ok"), text("ok")]);
    world.post(history(8, 400)).await.read_to_end().await;
    let edit =
        json!({"id": "c", "messageId": "u2", "messages": [{"id": "u2", "role": "user", "content": "other"}]});
    world.post(edit).await.read_to_end().await;
    assert_eq!(users(&requests(&world).pop().unwrap()), ["turn 0 x", "turn 1 x", "other"]);
}
