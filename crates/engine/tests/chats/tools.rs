//! What tools do while they run, and what is done with them: lines, reports, questions, repeats, an end.

#![expect(clippy::unwrap_used, reason = "a test ends where its world is not as it must be")]

use std::{sync::Arc, time::Duration};

use fermata_engine::{Rules, Submission, store::ChatStore};
use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ChatBody, ChatId, ElicitAction, ElicitationId, ToolCallId,
};
use fermata_tools::{
    ChainMode, ErrorPolicy, ErrorStrategy, ErrorType, GateMode, Pattern, Resource, Tool, ToolSettings,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::{Does, Read, World, calls, decision, finished, output, says};

pub fn settings(tool: &str, settings: ToolSettings) -> Rules {
    Rules { tools: vec![(Pattern::new(tool), settings)], ..Rules::default() }
}

fn elicited(id: &str, action: ElicitAction, content: Option<Value>) -> Answer {
    Answer {
        of: AnswerTarget::Elicitation(ElicitationId::new(id)),
        kind: AnswerKind::Elicited { action, content },
    }
}

/// A post to another chat of the same world.
pub async fn say_in(world: &World, chat: &str) -> Read {
    let body = json!({"id": chat, "message": {"role": "user", "content": "go"}});
    let body = ChatBody::parse(body).unwrap();
    let submission = Submission { owner: world.owner.clone(), body, hold: None, address: None };
    Read::new(world.engine.submit(submission).await.unwrap().reader)
}

fn done(world: &World) -> Vec<String> {
    world.done.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn one_lock_holds_across_chats_and_a_call_in_line_is_scheduled() {
    let world = World::new();
    world.engine.set_rules(settings(
        "run",
        ToolSettings { resource: Some(Resource::named("it")), ..ToolSettings::default() },
    ));
    world.script([calls(&[("run", json!({"as": "1", "does": "waits"}))])]);
    let mut first = say_in(&world, "one").await;
    first.until("tool-input-available").await;
    world.script([calls(&[("run", json!({"as": "2"}))]), says("one"), says("two")]);
    let mut second = say_in(&world, "two").await;
    let waiting = second.until("tool-input-available").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let target = AnswerTarget::Call(ToolCallId::new(waiting));
    let stored = world.store.call(&ChatId::new("two"), &target).await.unwrap().unwrap();
    assert_eq!(stored.state().name().as_str(), "scheduled");
    assert_eq!(stored.resource.as_ref().map(|key| key.name.as_str()), Some("it"));
    first.read_out().await;
    second.read_out().await;
    assert_eq!(done(&world), ["begins 1", "ends 1", "begins 2", "ends 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_turn_no_longer_than_the_limit() {
    let world = World::new();
    let busy = ToolSettings {
        resource: Some(Resource::named("it")),
        timeout: Some(Duration::from_secs(3600)),
        ..ToolSettings::default()
    };
    world.engine.set_rules(settings("run", busy));
    world.script([calls(&[("run", json!({"as": "1", "does": "hangs"})), ("run", json!({"as": "2"}))])]);
    let mut stream = world.say("go").await;
    stream.until("tool-output-error").await;
    let error = stream.find("tool-output-error")["errorText"].as_str().unwrap().to_owned();
    assert!(error.contains("used it for longer than 5m"), "{error}");
    assert_eq!(done(&world), ["begins 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_keeps_a_resource_for_no_longer_than_its_limit() {
    let world = World::new();
    world.engine.set_rules(settings(
        "run",
        ToolSettings { resource: Some(Resource::named("it")), ..ToolSettings::default() },
    ));
    world.script([calls(&[("run", json!({"as": "1", "does": "asks"}))])]);
    let mut first = say_in(&world, "one").await;
    first.until("data-elicitation").await;
    world.script([calls(&[("run", json!({"as": "2"}))]), says("one"), says("two")]);
    // Who stands in line for as long as the question may take has waited for `lock_timeout`, too.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut second = say_in(&world, "two").await;
    second.read_out().await;
    first.read_out().await;
    let expected = ["begins 1", "was told Unanswered", "ends 1", "begins 2", "ends 2"];
    let done = done(&world);
    assert_eq!(done.len(), expected.len(), "{done:?}");
    assert!(done.iter().zip(expected).all(|(line, start)| line.starts_with(start)), "{done:?}");
    let states: Vec<_> = first.chunks.iter().filter_map(|chunk| chunk["data"]["state"].as_str()).collect();
    assert_eq!(states, ["pending", "cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_talks_a_lot_does_not_flood_the_stream() {
    let world = World::new();
    world.script([calls(&[("run", json!({"does": "chats"}))]), says("ok")]);
    let mut stream = world.say("go").await;
    stream.read_out().await;
    let shown: Vec<&Value> =
        stream.chunks.iter().filter(|chunk| chunk["type"] == "tool-output-available").collect();
    let (last, partial) = shown.split_last().unwrap();
    assert_eq!(last.get("preliminary"), None);
    assert!(partial.iter().all(|chunk| chunk["preliminary"] == true));
    assert!((2..=25).contains(&partial.len()), "{} of 1000 reports were shown in 5 s", partial.len());
    let progress: Vec<_> =
        partial.iter().map(|chunk| chunk["output"]["progress"].as_u64().unwrap()).collect();
    assert!(progress.is_sorted() && progress[0] == 0, "{progress:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_tool_is_told_and_keeps_its_lock_until_it_has_wound_up() {
    let world = World::new();
    world.engine.set_rules(settings(
        "run",
        ToolSettings { resource: Some(Resource::named("it")), ..ToolSettings::default() },
    ));
    world.script([calls(&[("run", json!({"as": "1", "does": "winds up"}))])]);
    let mut stream = world.say("go").await;
    stream.until("tool-input-available").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    stream.read_out().await;
    world.script([calls(&[("run", json!({"as": "2"}))]), says("ok")]);
    world.say("again").await.read_out().await;
    assert_eq!(done(&world), ["begins 1", "wound up 1", "ends 1", "begins 2", "ends 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_may_be_repeated_is_tried_twice_more_when_it_was_asked_to_wait() {
    let world = World::new();
    world
        .engine
        .set_rules(settings("run", ToolSettings { repeatable: Some(true), ..ToolSettings::default() }));
    world.script([calls(&[("run", json!({"does": "is limited"}))]), says("ok")]);
    let since = Instant::now();
    let mut stream = world.say("go").await;
    let call = AnswerTarget::Call(ToolCallId::new(stream.until("tool-input-available").await));
    stream.read_out().await;
    assert_eq!(done(&world), ["begins ", "begins ", "begins "]);
    let stored = world.store.call(&world.chat, &call).await.unwrap().unwrap();
    assert_eq!(
        stored.times_run(),
        3,
        "each run is on record, so that a crash between them is no way around the limit"
    );
    assert!(since.elapsed() >= Duration::from_secs(14), "the other side asked to be left alone twice");
    let told = format!("{:?}", world.model.asked.lock().unwrap()[1].messages);
    assert!(told.contains("Error: slow down") && told.contains("go on without it"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_say_so_is_not_repeated() {
    let world = World::new();
    world.script([calls(&[("run", json!({"does": "is limited"}))]), says("ok")]);
    world.say("go").await.read_out().await;
    assert_eq!(done(&world), ["begins "]);
}

#[tokio::test(start_paused = true)]
async fn what_follows_a_failure_is_a_setting() {
    let told = |strategy| async move {
        let world = World::new();
        let error_policy = ErrorPolicy::default().with(ErrorType::RateLimit, strategy);
        world.engine.set_rules(Rules { error_policy, ..Rules::default() });
        world.script([calls(&[("run", json!({"does": "is limited"}))]), says("ok")]);
        let mut stream = world.say("go").await;
        stream.read_out().await;
        let asked = world.model.asked.lock().unwrap();
        let error = stream.chunks.iter().find(|chunk| chunk["type"] == "error").cloned();
        (asked.get(1).map(|request| format!("{:?}", request.messages)), error)
    };
    let (told_model, error) = told(ErrorStrategy::AskPerson).await;
    assert!(told_model.unwrap().contains("ask how to go on") && error.is_none());
    let (told_model, error) = told(ErrorStrategy::FailRun).await;
    assert_eq!(told_model, None, "the model is not asked again");
    assert!(error.unwrap()["errorText"].as_str().unwrap().contains("rate_limit"));
}

#[tokio::test(start_paused = true)]
async fn a_tools_question_holds_the_stream_is_let_go_and_is_answered_after_that() {
    let world = World::new();
    world.script([calls(&[("run", json!({"as": "it", "does": "asks"}))]), says("ok")]);
    let mut stream = world.say("go").await;
    stream.until("data-elicitation").await;
    let asked = stream.find("data-elicitation")["data"].clone();
    assert_eq!((&asked["state"], &asked["message"]), (&json!("pending"), &json!("How big?")));
    assert_eq!(asked["server"], "sizes");
    let id = asked["elicitationId"].as_str().unwrap().to_owned();
    assert_eq!(world.pending().await, [format!("{id} asks How big?")]);

    let since = Instant::now();
    stream.read_out().await;
    assert!(since.elapsed() >= Duration::from_secs(290), "it was held, longer than a call may run");
    assert!(world.follow().await.is_none(), "nothing is open");
    assert_eq!(world.pending().await.len(), 1);

    let refused = world.answer(elicited(&id, ElicitAction::Accept, Some(json!({})))).await.unwrap_err();
    assert!(refused.contains("size"), "{refused}");
    let answer = elicited(&id, ElicitAction::Accept, Some(json!({"size": 3})));
    assert_eq!(world.answer(answer.clone()).await.unwrap(), "executing");
    let mut late = world.follow().await.expect("the run is open again");
    assert_eq!(world.answer(answer.clone()).await.unwrap(), "executing");
    late.read_out().await;
    assert_eq!(late.text(), "ok");
    let states: Vec<_> = late.chunks.iter().filter_map(|chunk| chunk["data"]["state"].as_str()).collect();
    assert_eq!(states, ["pending", "accepted"]);
    assert!(done(&world)[1].contains("Accept"), "{:?}", done(&world));

    assert_eq!(world.answer(answer).await.unwrap(), "success", "the same answer, after the run");
    for (action, content) in [(ElicitAction::Decline, None), (ElicitAction::Accept, Some(json!({"size": 4})))]
    {
        let other = world.answer(elicited(&id, action, content)).await.unwrap_err();
        assert!(other.contains("has another answer already"), "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn stop_withdraws_a_tools_question() {
    let world = World::new();
    world.script([calls(&[("run", json!({"as": "it", "does": "asks"}))])]);
    let mut stream = world.say("go").await;
    stream.until("data-elicitation").await;
    let id = stream.find("data-elicitation")["data"]["elicitationId"].as_str().unwrap().to_owned();
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    stream.read_out().await;
    let states: Vec<_> = stream.chunks.iter().filter_map(|chunk| chunk["data"]["state"].as_str()).collect();
    assert_eq!(states, ["pending", "cancelled"]);
    let gone = world.answer(elicited(&id, ElicitAction::Decline, None)).await.unwrap_err();
    assert!(gone.contains("no longer waits"), "{gone}");
    assert!(world.pending().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_question_does_not_survive_the_process_and_says_so() {
    let world = World::new();
    world.script([calls(&[("run", json!({"as": "it", "does": "asks"}))])]);
    let mut stream = world.say("go").await;
    stream.until("data-elicitation").await;
    let id = stream.find("data-elicitation")["data"]["elicitationId"].as_str().unwrap().to_owned();
    let world = world.restarted();
    world.script([says("ok")]);
    let gone = world.answer(elicited(&id, ElicitAction::Decline, None)).await.unwrap_err();
    assert!(gone.contains("no longer waits"), "{gone}");
    while let Some(mut stream) = world.follow().await {
        stream.read_out().await;
    }
    let record = json!(world.messages().await);
    let parts = record[1]["parts"].as_array().unwrap();
    let question = parts.iter().find(|part| part["type"] == "data-elicitation").unwrap();
    assert_eq!(question["data"]["state"], "cancelled");
    assert_eq!(parts.last().unwrap()["text"], "ok");
}

#[tokio::test(start_paused = true)]
async fn tools_come_and_go_between_steps() {
    let world = World::new();
    let mouth = world.speak();
    let mut stream = world.say("go").await;
    let extra: Arc<dyn Tool> = Arc::new(Does::called("extra", &world.done));
    let taken: Arc<dyn Tool> = Arc::new(Does::called("run", &world.done));
    let left_out = world.engine.set_tools(vec![extra, taken]);
    assert_eq!(left_out.len(), 1, "a name of the engine's own is taken: {left_out:?}");
    mouth.send(finished()).unwrap();
    stream.read_out().await;
    let tools = |nth: usize| -> Vec<String> {
        world.model.asked.lock().unwrap()[nth].tools.iter().map(|tool| tool.name.clone()).collect()
    };
    assert!(!tools(0).contains(&"extra".to_owned()));
    world.script([says("ok")]);
    world.say("again").await.read_out().await;
    assert!(tools(1).contains(&"extra".to_owned()));
    world.engine.set_tools(Vec::new());
    assert!(!world.engine.tools(&world.owner).iter().any(|spec| spec.name == "extra"));
}

/// A chat whose run waits for a yes to a call of `extra`, in a process that does not have that tool.
async fn waits_for_a_tool_that_is_gone() -> (World, String) {
    let world = World::new();
    let extra: Arc<dyn Tool> = Arc::new(Does::called("extra", &world.done));
    world.engine.set_tools(vec![extra]);
    world.engine.set_rules(Rules { chain: ChainMode::Ask, ..Rules::default() });
    world.script([calls(&[("run", json!({}))]), calls(&[("extra", json!({"as": "it"}))]), says("ok")]);
    let mut stream = world.say("go").await;
    stream.until("tool-approval-request").await;
    let call = stream.find("tool-approval-request")["toolCallId"].as_str().unwrap().to_owned();
    (world.restarted(), call)
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_tool_is_gone_waits_for_it_within_its_time_and_then_fails() {
    let (world, call) = waits_for_a_tool_that_is_gone().await;
    let since = Instant::now();
    world.answer(decision(&call, true)).await.unwrap();
    while let Some(mut stream) = world.follow().await {
        stream.read_out().await;
    }
    let record = json!(world.messages().await).to_string();
    assert!(record.contains("The tool extra is not there any more"), "{record}");
    assert!(since.elapsed() >= Duration::from_secs(30), "a server may take its time to come up");
    assert!(record.contains("\"ok\""), "the model was told: {record}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_comes_back_runs_the_call_that_waited_for_a_yes() {
    let (world, call) = waits_for_a_tool_that_is_gone().await;
    assert_eq!(world.pending().await.len(), 1, "the run is taken up without the tool");
    world.answer(decision(&call, true)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let extra: Arc<dyn Tool> = Arc::new(Does::called("extra", &world.done));
    world.engine.set_tools(vec![extra]);
    while let Some(mut stream) = world.follow().await {
        stream.read_out().await;
    }
    assert_eq!(done(&world), ["begins it", "ends it"]);
}

#[tokio::test(start_paused = true)]
async fn a_repeatable_call_that_a_crash_cut_off_waits_for_its_tool_to_come_back() {
    let world = World::new();
    let extra = |world: &World| -> Arc<dyn Tool> { Arc::new(Does::called("extra", &world.done)) };
    let rules = || settings("extra", ToolSettings { repeatable: Some(true), ..ToolSettings::default() });
    world.engine.set_tools(vec![extra(&world)]);
    world.engine.set_rules(rules());
    world.script([calls(&[("extra", json!({"as": "it", "does": "waits"}))]), says("ok")]);
    let mut stream = world.say("go").await;
    stream.until("tool-input-available").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.engine.shutdown().await;
    let world = world.restarted();
    world.engine.set_rules(rules());
    let mut stream = world.follow().await.expect("the run is open");
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.engine.set_tools(vec![extra(&world)]);
    stream.read_out().await;
    assert_eq!(stream.text(), "ok");
    assert_eq!(done(&world), ["begins it", "ends it"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_a_server_has_taken_meanwhile_does_not_lock_a_chat() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), says("ok")]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-input-available").await;
    let world = world.restarted();
    let taken: Arc<dyn Tool> = Arc::new(Does::called("where", &world.done));
    world.engine.set_tools(vec![taken]);
    let mut stream = world.follow().await.expect("the run is open");
    world.answer(output(&call, json!("Bern"))).await.unwrap();
    stream.read_out().await;
    assert_eq!(stream.text(), "ok");
    assert!(done(&world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_approved_after_a_progressive_stream_was_let_go_runs_once_and_is_told() {
    let world = World::new();
    world.engine.set_rules(Rules { gate: GateMode::Progressive, ..Rules::default() });
    let note = |name: &str| ("note", json!({"as": name, "does": "waits"}));
    world.script([calls(&[note("1"), note("2")]), says("ok")]);
    let mut stream = world.say_holding("go", Some(0)).await;
    stream.read_out().await;
    let waiting = world.pending().await;
    let ids: Vec<&str> = waiting.iter().map(|waits| waits.split(' ').next().unwrap()).collect();
    world.answer(decision(ids[0], true)).await.unwrap();
    let mut late = world.follow().await.expect("the run is open while its call runs");
    late.until("tool-output-available").await;
    world.answer(decision(ids[1], true)).await.unwrap();
    while let Some(mut stream) = world.follow().await {
        stream.read_out().await;
    }
    assert_eq!(done(&world), ["begins 1", "ends 1", "begins 2", "ends 2"]);
    assert_eq!(world.asked(), 2);
    let record = json!(world.messages().await).to_string();
    assert!(!record.contains("errorText"), "{record}");
}

#[tokio::test(start_paused = true)]
async fn a_tab_that_posts_what_was_answered_already_follows_the_call_that_runs() {
    let world = World::new();
    world.script([calls(&[("note", json!({"as": "it", "does": "waits"}))]), says("ok")]);
    let mut stream = world.say("go").await;
    let call = stream.until("tool-approval-request").await;
    let approval = stream.find("tool-approval-request")["approvalId"].clone();
    let message = stream.find("start")["messageId"].clone();
    world.answer(decision(&call, true)).await.unwrap();
    let part = json!({
        "type": "tool-note", "toolCallId": call, "state": "approval-responded", "input": {},
        "approval": {"id": approval, "approved": false},
    });
    let parts = [json!({"type": "step-start"}), part];
    let body = json!({"id": "c", "messages": [{"id": message, "role": "assistant", "parts": parts}]});
    let mut second = world.post(body).await;
    second.read_out().await;
    assert!(second.types().starts_with("start tool-output-available"), "{}", second.types());
    assert_eq!(second.text(), "ok");
    assert_eq!(done(&world), ["begins it", "ends it"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_may_answer_by_posting_while_another_call_of_the_step_runs() {
    let world = World::new();
    world.script([calls(&[("where", json!({})), ("run", json!({"as": "it", "does": "waits"}))]), says("ok")]);
    let mut stream = world.say("go").await;
    stream.until("tool-input-available").await;
    let call = stream.chunks.iter().find(|chunk| chunk["toolName"] == "where").unwrap()["toolCallId"].clone();
    let message = stream.find("start")["messageId"].clone();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let part = json!({
        "type": "tool-where", "toolCallId": call, "state": "output-available", "input": {}, "output": "Bern",
    });
    let parts = [json!({"type": "step-start"}), part];
    let body = json!({"id": "c", "messages": [{"id": message, "role": "assistant", "parts": parts}]});
    let mut second = world.post(body).await;
    second.read_out().await;
    assert_eq!(second.types().matches("tool-output-available").count(), 2, "{}", second.types());
    assert_eq!(second.text(), "ok");
    assert_eq!(world.asked(), 2);
    stream.read_out().await;
    assert_eq!(stream.text(), second.text());
}
