//! Tools while they run: queues for resources, partial outputs, questions, retries and cancellation.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::{sync::Arc, time::Duration};

use fermata_engine::{Rules, Submission, model::ModelEvent, store::ChatStore};
use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ChatBody, ChatId, ElicitAction, ElicitationId, ToolCallId,
};
use fermata_tools::{
    ChainMode, ErrorPolicy, ErrorStrategy, ErrorType, GateMode, Pattern, Resource, Tool, ToolSettings,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    output_part, post_of,
    world::{ScriptedTool, StreamReader, World, calls, decision, finished, output, text},
};

pub fn settings(tool: &str, settings: ToolSettings) -> Rules {
    Rules { tools: vec![(Pattern::new(tool), settings)], ..Rules::default() }
}

fn elicited(id: &str, action: ElicitAction, content: Option<Value>) -> Answer {
    Answer {
        of: AnswerTarget::Elicitation(ElicitationId::new(id)),
        kind: AnswerKind::Elicited { action, content },
    }
}

/// Posts to another chat.
pub async fn post_in(world: &World, chat: &str) -> StreamReader {
    let body = json!({"id": chat, "message": {"role": "user", "content": "go"}});
    let body = ChatBody::parse(body).unwrap();
    let submission = Submission {
        owner: world.owner.clone(),
        body,
        hold: None,
        address: None,
        groups: Vec::new(),
        retries: None,
        traceparent: None,
    };
    StreamReader::new(world.engine.submit(submission).await.unwrap().reader)
}

fn tool_log(world: &World) -> Vec<String> {
    world.tool_log.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_lock_holds_across_chats_and_a_call_that_waits_for_it_is_scheduled() {
    let world = World::new();
    world.engine.set_rules(settings(
        "run",
        ToolSettings { resource: Some(Resource::named("it")), ..ToolSettings::default() },
    ));
    world.script([calls(&[("run", json!({"as": "1", "does": "waits"}))])]);
    let mut first = post_in(&world, "one").await;
    first.read_until("tool-input-available").await;
    world.script([calls(&[("run", json!({"as": "2"}))]), text("one"), text("two")]);
    let mut second = post_in(&world, "two").await;
    let waiting = second.read_until("tool-input-available").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let target = AnswerTarget::Call(ToolCallId::new(waiting));
    let stored = world.store.call(&ChatId::new("two"), &target).await.unwrap().unwrap();
    assert_eq!(stored.state().name().as_str(), "scheduled");
    assert_eq!(stored.resource.as_ref().map(|key| key.name.as_str()), Some("it"));
    first.read_to_end().await;
    second.read_to_end().await;
    assert_eq!(tool_log(&world), ["begins 1", "ends 1", "begins 2", "ends 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_lock_no_longer_than_the_limit() {
    let world = World::new();
    let busy = ToolSettings {
        resource: Some(Resource::named("it")),
        timeout: Some(Duration::from_secs(3600)),
        ..ToolSettings::default()
    };
    world.engine.set_rules(settings("run", busy));
    world.script([calls(&[("run", json!({"as": "1", "does": "hangs"})), ("run", json!({"as": "2"}))])]);
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-output-error").await;
    let error = stream.find("tool-output-error")["errorText"].as_str().unwrap().to_owned();
    assert!(error.contains("used it for longer than 5m"), "{error}");
    assert_eq!(tool_log(&world), ["begins 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_keeps_a_resource_for_no_longer_than_its_limit() {
    let world = World::new();
    world.engine.set_rules(settings(
        "run",
        ToolSettings { resource: Some(Resource::named("it")), ..ToolSettings::default() },
    ));
    world.script([calls(&[("run", json!({"as": "1", "does": "asks"}))])]);
    let mut first = post_in(&world, "one").await;
    first.read_until("data-elicitation").await;
    world.script([calls(&[("run", json!({"as": "2"}))]), text("one"), text("two")]);
    // The limits on the question and on the wait for the lock are equal, so the second call comes later.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut second = post_in(&world, "two").await;
    second.read_to_end().await;
    first.read_to_end().await;
    let expected = ["begins 1", "got Unanswered", "ends 1", "begins 2", "ends 2"];
    let log = tool_log(&world);
    assert_eq!(log.len(), expected.len(), "{log:?}");
    assert!(log.iter().zip(expected).all(|(event, start)| event.starts_with(start)), "{log:?}");
    let states: Vec<_> = first.chunks.iter().filter_map(|chunk| chunk["data"]["state"].as_str()).collect();
    assert_eq!(states, ["pending", "cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_reports_often_does_not_flood_the_stream() {
    let world = World::new();
    world.script([calls(&[("run", json!({"does": "reports"}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    stream.read_to_end().await;
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
async fn a_cancelled_tool_keeps_its_lock_until_it_has_cleaned_up() {
    let world = World::new();
    world.engine.set_rules(settings(
        "run",
        ToolSettings { resource: Some(Resource::named("it")), ..ToolSettings::default() },
    ));
    world.script([calls(&[("run", json!({"as": "1", "does": "cleans up"}))])]);
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-input-available").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    stream.read_to_end().await;
    world.script([calls(&[("run", json!({"as": "2"}))]), text("ok")]);
    world.post_text("again").await.read_to_end().await;
    assert_eq!(tool_log(&world), ["begins 1", "cleaned up 1", "ends 1", "begins 2", "ends 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_repeatable_tool_is_retried_twice_after_a_rate_limit() {
    let world = World::new();
    world
        .engine
        .set_rules(settings("run", ToolSettings { repeatable: Some(true), ..ToolSettings::default() }));
    world.script([calls(&[("run", json!({"does": "is limited"}))]), text("ok")]);
    let since = Instant::now();
    let mut stream = world.post_text("go").await;
    let call = AnswerTarget::Call(ToolCallId::new(stream.read_until("tool-input-available").await));
    stream.read_to_end().await;
    assert_eq!(tool_log(&world), ["begins ", "begins ", "begins "]);
    let stored = world.store.call(&world.chat, &call).await.unwrap().unwrap();
    assert_eq!(
        stored.times_run(),
        3,
        "each run is saved, so that a crash between them cannot exceed the limit"
    );
    assert!(since.elapsed() >= Duration::from_secs(14), "the tool has set `retry_after` twice");
    let AnswerTarget::Call(id) = &call else { unreachable!() };
    let mut about = stream.find("finish")["messageMetadata"]["calls"][id.as_str()].clone();
    about.as_object_mut().unwrap().remove("durationMs");
    assert_eq!(about, json!({"errorType": "rate_limit", "attempts": 3, "strategy": "retry"}));
    let prompt = format!("{:?}", world.model.requests.lock().unwrap()[1].messages);
    assert!(prompt.contains("Error: slow down") && prompt.contains("go on without it"), "{prompt}");
}

/// Returns the idempotency keys of calls that have begun.
fn keys(world: &World) -> Vec<String> {
    let log = tool_log(world);
    log.iter().filter_map(|line| line.strip_prefix("has ")).map(|key| key.trim_end().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_retry_of_a_call_has_the_same_idempotency_key_and_another_call_has_another() {
    let world = World::new();
    let rules = || settings("run", ToolSettings { repeatable: Some(true), ..ToolSettings::default() });
    world.engine.set_rules(rules());
    let limited = ("run", json!({"does": "is limited", "logs": "its key"}));
    world.script([calls(std::slice::from_ref(&limited)), calls(&[limited]), text("ok")]);
    world.post_text("go").await.read_to_end().await;
    let keys = keys(&world);
    assert_eq!(keys.len(), 4, "retries that did not help are not made again");
    assert!(keys[..3].iter().all(|key| *key == keys[0]));
    assert_ne!(keys[0], keys[3]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_runs_again_after_a_crash_has_the_same_idempotency_key() {
    let world = World::new();
    let rules = || settings("run", ToolSettings { repeatable: Some(true), ..ToolSettings::default() });
    world.engine.set_rules(rules());
    world.script([calls(&[("run", json!({"does": "waits", "logs": "its key"}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = AnswerTarget::Call(ToolCallId::new(stream.read_until("tool-input-available").await));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let key = keys(&world).remove(0);
    let saved = world.store.call(&world.chat, &call).await.unwrap().unwrap();
    assert_eq!(saved.idempotency_key.as_ref(), Some(&key), "it is saved before the tool starts");
    world.engine.shutdown().await;
    let world = world.restarted();
    world.engine.set_rules(rules());
    world.follow().await.expect("the run is open").read_to_end().await;
    assert_eq!(keys(&world), [key]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_not_repeatable_is_not_retried() {
    let world = World::new();
    world.script([calls(&[("run", json!({"does": "is limited"}))]), text("ok")]);
    world.post_text("go").await.read_to_end().await;
    assert_eq!(tool_log(&world), ["begins "]);
}

#[tokio::test(start_paused = true)]
async fn the_settings_say_what_follows_a_failure() {
    let run_with = |strategy| async move {
        let world = World::new();
        let error_policy = ErrorPolicy::default().with(ErrorType::RateLimit, strategy);
        world.engine.set_rules(Rules { error_policy, ..Rules::default() });
        world.script([calls(&[("run", json!({"does": "is limited"}))]), text("ok")]);
        let mut stream = world.post_text("go").await;
        stream.read_to_end().await;
        let requests = world.model.requests.lock().unwrap();
        let error = stream.chunks.iter().find(|chunk| chunk["type"] == "error").cloned();
        (requests.get(1).map(|request| format!("{:?}", request.messages)), error)
    };
    let (prompt, error) = run_with(ErrorStrategy::GoOn).await;
    assert!(prompt.unwrap().contains("tell the user to try later") && error.is_none());
    let (prompt, error) = run_with(ErrorStrategy::FailRun).await;
    assert_eq!(prompt, None, "the model is not asked again");
    assert!(error.unwrap()["errorText"].as_str().unwrap().contains("rate_limit"));
}

#[tokio::test(start_paused = true)]
async fn a_tools_question_holds_the_stream_and_can_be_answered_after_the_hold() {
    let world = World::new();
    world.script([calls(&[("run", json!({"as": "it", "does": "asks"}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    stream.read_until("data-elicitation").await;
    let asked = stream.find("data-elicitation")["data"].clone();
    assert_eq!((&asked["state"], &asked["message"]), (&json!("pending"), &json!("How big?")));
    assert_eq!(asked["server"], "sizes");
    let id = asked["elicitationId"].as_str().unwrap().to_owned();
    assert_eq!(world.pending().await, [format!("{id} asks How big?")]);

    let since = Instant::now();
    stream.read_to_end().await;
    assert!(
        since.elapsed() >= Duration::from_secs(290),
        "the stream was held for longer than a call may run"
    );
    assert!(world.follow().await.is_none(), "no run can be followed");
    assert_eq!(world.pending().await.len(), 1);

    let refused = world.answer(elicited(&id, ElicitAction::Accept, Some(json!({})))).await.unwrap_err();
    assert!(refused.contains("size"), "{refused}");
    let answer = elicited(&id, ElicitAction::Accept, Some(json!({"size": 3})));
    assert_eq!(world.answer(answer.clone()).await.unwrap(), "executing");
    let mut late = world.follow().await.expect("the run is open again");
    assert_eq!(world.answer(answer.clone()).await.unwrap(), "executing");
    late.read_to_end().await;
    assert_eq!(late.text(), "ok");
    let states: Vec<_> = late.chunks.iter().filter_map(|chunk| chunk["data"]["state"].as_str()).collect();
    assert_eq!(states, ["pending", "accepted"]);
    assert!(tool_log(&world)[1].contains("Accept"), "{:?}", tool_log(&world));

    assert_eq!(world.answer(answer).await.unwrap(), "success", "the same answer, after the run");
    for (action, content) in [(ElicitAction::Decline, None), (ElicitAction::Accept, Some(json!({"size": 4})))]
    {
        let other = world.answer(elicited(&id, action, content)).await.unwrap_err();
        assert!(other.contains("has another answer already"), "{other}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_whose_check_takes_a_while_is_accepted_after_it() {
    let each = json!({"allOf": vec![json!({"type": "integer"}); 40]});
    let schema = json!({"type": "object", "properties": {"sizes": {"type": "array", "items": each}}});
    for hold in [0, 60] {
        let world = World::new();
        let asks = json!({"as": "it", "does": "asks", "schema": schema.clone()});
        world.script([calls(&[("run", asks)]), text("ok")]);
        let mut stream = world.post_text_with_hold("go", Some(hold)).await;
        stream.read_until("data-elicitation").await;
        let id = stream.find("data-elicitation")["data"]["elicitationId"].as_str().unwrap().to_owned();
        let with = |sizes: Vec<Value>| elicited(&id, ElicitAction::Accept, Some(json!({"sizes": sizes})));
        let mut sizes = vec![json!(3); 5_000];
        let good = with(sizes.clone());
        *sizes.last_mut().unwrap() = json!("big");
        let refused = world.answer(with(sizes)).await.unwrap_err();
        assert!(refused.contains("does not fit what was asked for"), "{refused}");
        let both = tokio::join!(world.answer(good.clone()), world.answer(good.clone()));
        assert_eq!(both, (Ok("executing".into()), Ok("executing".into())), "the same answer twice");
        let other = world.answer(elicited(&id, ElicitAction::Decline, None)).await.unwrap_err();
        assert!(other.contains("has another answer already"), "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn stop_withdraws_a_tools_question() {
    let world = World::new();
    world.script([calls(&[("run", json!({"as": "it", "does": "asks"}))])]);
    let mut stream = world.post_text("go").await;
    stream.read_until("data-elicitation").await;
    let id = stream.find("data-elicitation")["data"]["elicitationId"].as_str().unwrap().to_owned();
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    stream.read_to_end().await;
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
    let mut stream = world.post_text("go").await;
    stream.read_until("data-elicitation").await;
    let id = stream.find("data-elicitation")["data"]["elicitationId"].as_str().unwrap().to_owned();
    let world = world.restarted();
    world.script([text("ok")]);
    let gone = world.answer(elicited(&id, ElicitAction::Decline, None)).await.unwrap_err();
    assert!(gone.contains("no longer waits"), "{gone}");
    while let Some(mut stream) = world.follow().await {
        stream.read_to_end().await;
    }
    let record = json!(world.messages().await);
    let parts = record[1]["parts"].as_array().unwrap();
    let question = parts.iter().find(|part| part["type"] == "data-elicitation").unwrap();
    assert_eq!(question["data"]["state"], "cancelled");
    assert_eq!(parts.last().unwrap()["text"], "ok");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_posts_again_learns_that_its_question_is_over() {
    let world = World::new();
    world.script([calls(&[("run", json!({"as": "it", "does": "asks"})), ("where", json!({}))])]);
    let mut stream = world.post_text_with_hold("go", Some(10)).await;
    stream.read_to_end().await;
    let message = stream.find("start")["messageId"].clone();
    let question = stream.find("data-elicitation").clone();
    let parked = stream.chunks.iter().find(|chunk| chunk["toolName"] == "where").unwrap();
    let call = parked["toolCallId"].as_str().unwrap().to_owned();
    let world = world.restarted_at(60);
    world.script([text("ok")]);
    let shown = [question, output_part(&call, "Bern")];
    // The first post continues the run, and the second one comes when the run is over.
    for _ in 0..2 {
        let mut next = world.post(post_of(&message, &shown)).await;
        next.read_to_end().await;
        assert_eq!(next.find("data-elicitation")["data"]["state"], "cancelled");
        assert_eq!(next.text(), "ok");
    }
}

#[tokio::test(start_paused = true)]
async fn tools_come_and_go_between_steps() {
    let world = World::new();
    let model = world.script_streamed();
    let mut stream = world.post_text("go").await;
    model.send(Ok(ModelEvent::Text("I see.".into()))).unwrap();
    stream.read_until("text-delta").await;
    let extra: Arc<dyn Tool> = Arc::new(ScriptedTool::allowed("extra", &world.tool_log));
    let taken: Arc<dyn Tool> = Arc::new(ScriptedTool::allowed("run", &world.tool_log));
    let left_out = world.engine.set_tools(vec![extra, taken]);
    assert_eq!(left_out.len(), 1, "the engine has a tool with this name: {left_out:?}");
    model.send(finished()).unwrap();
    stream.read_to_end().await;
    let tools = |request: usize| -> Vec<String> {
        world.model.requests.lock().unwrap()[request].tools.iter().map(|tool| tool.name.clone()).collect()
    };
    assert!(!tools(0).contains(&"extra".to_owned()));
    world.script([text("ok")]);
    world.post_text("again").await.read_to_end().await;
    assert!(tools(1).contains(&"extra".to_owned()));
    world.engine.set_tools(Vec::new());
    assert!(!world.engine.tools(&world.owner.clone().into(), None).iter().any(|spec| spec.name == "extra"));
}

/// Makes a chat whose run waits for a decision about a call of `extra`, in a process that does not have that tool. Returns the call.
async fn waits_for_a_tool_that_is_gone() -> (World, String) {
    let world = World::new();
    let extra: Arc<dyn Tool> = Arc::new(ScriptedTool::allowed("extra", &world.tool_log));
    world.engine.set_tools(vec![extra]);
    world.engine.set_rules(Rules { chain: ChainMode::Ask, ..Rules::default() });
    world.script([calls(&[("run", json!({}))]), calls(&[("extra", json!({"as": "it"}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-approval-request").await;
    let call = stream.find("tool-approval-request")["toolCallId"].as_str().unwrap().to_owned();
    (world.restarted(), call)
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_tool_is_gone_waits_for_it_within_its_time_and_then_fails() {
    let (world, call) = waits_for_a_tool_that_is_gone().await;
    let since = Instant::now();
    world.answer(decision(&call, true)).await.unwrap();
    while let Some(mut stream) = world.follow().await {
        stream.read_to_end().await;
    }
    let record = json!(world.messages().await).to_string();
    assert!(record.contains("The tool extra is not there any more"), "{record}");
    assert!(since.elapsed() >= Duration::from_secs(30), "an MCP server may take this long to start");
    assert!(record.contains("\"ok\""), "the run went on: {record}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_comes_back_runs_the_call_that_was_approved() {
    let (world, call) = waits_for_a_tool_that_is_gone().await;
    assert_eq!(world.pending().await.len(), 1, "the run is resumed without the tool");
    world.answer(decision(&call, true)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let extra: Arc<dyn Tool> = Arc::new(ScriptedTool::allowed("extra", &world.tool_log));
    world.engine.set_tools(vec![extra]);
    while let Some(mut stream) = world.follow().await {
        stream.read_to_end().await;
    }
    assert_eq!(tool_log(&world), ["begins it", "ends it"]);
}

#[tokio::test(start_paused = true)]
async fn a_repeatable_call_that_a_crash_cut_off_waits_for_its_tool_to_come_back() {
    let world = World::new();
    let extra =
        |world: &World| -> Arc<dyn Tool> { Arc::new(ScriptedTool::allowed("extra", &world.tool_log)) };
    let rules = || settings("extra", ToolSettings { repeatable: Some(true), ..ToolSettings::default() });
    world.engine.set_tools(vec![extra(&world)]);
    world.engine.set_rules(rules());
    world.script([calls(&[("extra", json!({"as": "it", "does": "waits"}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-input-available").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.engine.shutdown().await;
    let world = world.restarted();
    world.engine.set_rules(rules());
    let mut stream = world.follow().await.expect("the run is open");
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.engine.set_tools(vec![extra(&world)]);
    stream.read_to_end().await;
    assert_eq!(stream.text(), "ok");
    assert_eq!(tool_log(&world), ["begins it", "ends it"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_a_server_has_taken_meanwhile_does_not_lock_a_chat() {
    let world = World::new();
    world.script([calls(&[("where", json!({}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-input-available").await;
    let world = world.restarted();
    let taken: Arc<dyn Tool> = Arc::new(ScriptedTool::allowed("where", &world.tool_log));
    world.engine.set_tools(vec![taken]);
    let mut stream = world.follow().await.expect("the run is open");
    world.answer(output(&call, json!("Bern"))).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(stream.text(), "ok");
    assert!(tool_log(&world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_progressive_gate_that_are_approved_after_the_hold_run_once() {
    let world = World::new();
    world.engine.set_rules(Rules { gate: GateMode::Progressive, ..Rules::default() });
    let note = |name: &str| ("note", json!({"as": name, "does": "waits"}));
    world.script([calls(&[note("1"), note("2")]), text("ok")]);
    let mut stream = world.post_text_with_hold("go", Some(0)).await;
    stream.read_to_end().await;
    let waiting = world.pending().await;
    let ids: Vec<&str> = waiting.iter().map(|pending| pending.split(' ').next().unwrap()).collect();
    world.answer(decision(ids[0], true)).await.unwrap();
    let mut late = world.follow().await.expect("the run is open while its call runs");
    late.read_until("tool-output-available").await;
    world.answer(decision(ids[1], true)).await.unwrap();
    while let Some(mut stream) = world.follow().await {
        stream.read_to_end().await;
    }
    assert_eq!(tool_log(&world), ["begins 1", "ends 1", "begins 2", "ends 2"]);
    assert_eq!(world.model_calls(), 2);
    let record = json!(world.messages().await).to_string();
    assert!(!record.contains("errorText"), "{record}");
}

#[tokio::test(start_paused = true)]
async fn a_tab_that_posts_an_answer_that_came_second_follows_the_call_that_runs() {
    let world = World::new();
    world.script([calls(&[("note", json!({"as": "it", "does": "waits"}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
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
    second.read_to_end().await;
    assert!(second.types().starts_with("start tool-output-available"), "{}", second.types());
    assert_eq!(second.text(), "ok");
    assert_eq!(tool_log(&world), ["begins it", "ends it"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_may_answer_by_posting_while_another_call_of_the_step_runs() {
    let world = World::new();
    world.script([calls(&[("where", json!({})), ("run", json!({"as": "it", "does": "waits"}))]), text("ok")]);
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-input-available").await;
    let call = stream.chunks.iter().find(|chunk| chunk["toolName"] == "where").unwrap()["toolCallId"].clone();
    let message = stream.find("start")["messageId"].clone();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let part = json!({
        "type": "tool-where", "toolCallId": call, "state": "output-available", "input": {}, "output": "Bern",
    });
    let parts = [json!({"type": "step-start"}), part];
    let body = json!({"id": "c", "messages": [{"id": message, "role": "assistant", "parts": parts}]});
    let mut second = world.post(body).await;
    second.read_to_end().await;
    assert_eq!(second.types().matches("tool-output-available").count(), 2, "{}", second.types());
    assert_eq!(second.text(), "ok");
    assert_eq!(world.model_calls(), 2);
    stream.read_to_end().await;
    assert_eq!(stream.text(), second.text());
}
