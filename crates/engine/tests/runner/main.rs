//! The runner as a library: its results, and its requests to the model.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

#[path = "../shared/paired.rs"]
mod paired;
mod world;

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use fermata_engine::{
    Model, Runner, RunnerError,
    model::{ModelCall, ModelContent, ModelError, ModelEvent, ModelMessage, ModelRequest, Usage},
    runner::{Approval, Params, StopReason, UrlSource},
};
use fermata_protocol::{FinishReason, ToolChoice};
use fermata_tools::{
    ApprovalMode, CallContext, Decision, DecisionSource, Elicitation, ElicitationReply, ErrorPolicy,
    ErrorStrategy, ErrorType, LockQueue, Policy, PolicyDecision, Principal, Resource, Tool, ToolError,
    ToolSpec,
};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use serde_json::{Value, json};
use tokio::{
    sync::Barrier,
    time::{Instant, timeout},
};
use world::{
    RecordingHooks, ScriptedModel, TestTool, calls, endless, finished, line, params, result, text, user,
};

fn nonzero(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

// === To the end ===

#[tokio::test(start_paused = true)]
async fn the_loop_goes_on_until_the_model_calls_nothing() {
    let model = ScriptedModel::new([calls(&[("look", r#"{"n": 1}"#), ("look", "")]), text("found")]);
    let look = TestTool::new("look", async |input: Value, _| Ok(json!({"got": input}))).shared();
    let outcome = Runner::new(params(&model, &[&look]).system("be brief")).await.unwrap();
    assert_eq!(outcome.stop_reason, StopReason::Answered);
    assert_eq!(outcome.step.text, "found");
    assert_eq!(outcome.step.iteration, 2);
    assert_eq!(outcome.usage, Usage { input_tokens: 20, output_tokens: 4, total_tokens: 24 });
    assert_eq!(
        model.conversation(1),
        [
            "system: be brief",
            "user: go",
            r#"assistant:  call_1=look({"n":1}) call_2=look({})"#,
            r#"call_1: {"got":{"n":1}}"#,
            r#"call_2: {"got":{}}"#,
        ]
    );
    let log: Vec<String> = outcome.messages.iter().map(line).collect();
    assert_eq!(log[1..4], model.conversation(1)[2..5]);
    assert_eq!(log[4], "assistant: found");
}

#[tokio::test(start_paused = true)]
async fn the_model_gets_the_tools_and_settings() {
    let model = ScriptedModel::new([text("hi")]);
    let tools = params(&model, &[&TestTool::done("b").shared(), &TestTool::done("a").shared()]);
    Runner::new(tools.setting("temperature", 0).tool_choice(ToolChoice::Auto)).await.unwrap();
    let request = model.request(0);
    let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(request.settings["temperature"], 0);
    assert_eq!(request.tool_choice, Some(ToolChoice::Auto));
}

#[test]
fn tools_that_cannot_be_offered_are_refused_before_the_loop() {
    let model = ScriptedModel::new([]);
    let twins: [Arc<dyn Tool>; 2] = [TestTool::done("a").shared(), TestTool::done("a").shared()];
    assert!(params(&model, &[]).tools(twins).is_err());
    let mut params = params(&model, &[&TestTool::done("a").shared()]);
    let nameless: [Arc<dyn Tool>; 1] = [TestTool::done("no name").shared()];
    assert!(params.set_tools(nameless).is_err());
    assert!(params.toolbox().find("a").is_some(), "the tools stay as they were");
}

#[tokio::test(start_paused = true)]
async fn the_limit_on_iterations_ends_the_loop_normally_after_the_last_calls_have_run() {
    let model = ScriptedModel::new([calls(&[("look", "")]), calls(&[("look", "")]), text("never")]);
    let look = TestTool::done("look").shared();
    let runner = Runner::new(params(&model, &[&look]).max_iterations(nonzero(2)));
    let outcome = runner.await.unwrap();
    assert_eq!(outcome.stop_reason, StopReason::MaxIterations);
    assert_eq!(outcome.step.calls.len(), 1);
    assert_eq!((model.model_calls(), look.times_run()), (2, 2));
    assert_eq!(line(outcome.messages.last().unwrap()), "call_2: look is done");
}

// === Step by step ===

#[tokio::test(start_paused = true)]
async fn a_step_has_everything_that_the_model_sent() {
    let model = ScriptedModel::new([vec![
        Ok(ModelEvent::Alive),
        Ok(ModelEvent::Reasoning("hm".into())),
        Ok(ModelEvent::Text("let me ".into())),
        Ok(ModelEvent::Text("look".into())),
        Ok(ModelEvent::Source { url: "https://a.example".into(), title: None }),
        Ok(ModelEvent::CallStart { key: 0, tool: "look".into() }),
        Ok(ModelEvent::CallDelta { key: 7, arguments: "of no call".into() }),
        Ok(ModelEvent::CallDelta { key: 0, arguments: r#"{"n""#.into() }),
        Ok(ModelEvent::CallDelta { key: 0, arguments: ": 3}".into() }),
        Ok(ModelEvent::File { media_type: "image/png".into(), url: "data:image/png;base64,AA".into() }),
        Ok(finished(FinishReason::ToolCalls)),
    ]]);
    let mut runner = Runner::new(params(&model, &[]));
    let step = runner.next_step().await.unwrap().unwrap();
    assert_eq!((step.reasoning.as_str(), step.text.as_str()), ("hm", "let me look"));
    assert_eq!(
        step.calls,
        [ModelCall {
            id: "call_1".into(),
            tool: "look".into(),
            input: json!({"n": 3}).into(),
            provider_metadata: None,
        }]
    );
    assert_eq!(step.sources, [UrlSource { url: "https://a.example".into(), title: None }]);
    assert_eq!(step.files.len(), 1);
    assert_eq!(step.finish_reason, FinishReason::ToolCalls);
    assert_eq!(step.usage.unwrap().total_tokens, 12);
    assert_eq!(runner.messages().last(), Some(&step.message()));
    assert_eq!(runner.last_step(), Some(&step));
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_has_ended_stays_ended() {
    let model = ScriptedModel::new([text("hi"), text("never")]);
    let mut runner = Runner::new(params(&model, &[]));
    assert!(runner.next_step().await.unwrap().is_some());
    assert_eq!(runner.stop_reason(), None);
    assert!(runner.next_step().await.unwrap().is_none());
    assert_eq!(runner.stop_reason(), Some(StopReason::Answered));
    runner.push_messages([user("more")]);
    assert!(runner.next_step().await.unwrap().is_none());
    assert_eq!(model.model_calls(), 1);
    assert_eq!(runner.await.unwrap().step.text, "hi");
}

#[tokio::test(start_paused = true)]
async fn the_steps_come_as_a_stream() {
    let model = ScriptedModel::new([calls(&[("look", "")]), text("found")]);
    let look = TestTool::done("look").shared();
    let steps: Vec<_> = Runner::new(params(&model, &[&look])).steps().try_collect().await.unwrap();
    let iterations: Vec<_> = steps.iter().map(|step| (step.iteration, step.calls.len())).collect();
    assert_eq!(iterations, [(1, 1), (2, 0)]);
}

#[tokio::test(start_paused = true)]
async fn after_its_steps_a_runner_has_the_outcome() {
    let model = ScriptedModel::new([calls(&[("look", "")]), text("found")]);
    let look = TestTool::done("look").shared();
    let mut runner = Runner::new(params(&model, &[&look]));
    let done = tokio::spawn(runner.done());
    assert_eq!(runner.steps().count().await, 2);
    let outcome = runner.outcome().unwrap();
    assert_eq!((outcome.step.text.as_str(), outcome.stop_reason), ("found", StopReason::Answered));
    assert_eq!(runner.usage(), Usage { input_tokens: 20, output_tokens: 4, total_tokens: 24 });
    assert_eq!(done.await.unwrap().unwrap().messages, outcome.messages);
    assert_eq!(runner.done().await.unwrap().usage, outcome.usage, "it can also be asked for later");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_the_outcome_of_a_runner_that_is_gone() {
    let runner = Runner::new(params(&ScriptedModel::new([]), &[]));
    let done = runner.done();
    drop(runner);
    assert!(done.await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_has_failed_keeps_its_conversation_and_runs_again() {
    let model = ScriptedModel::new([calls(&[("look", "")]), vec![Err(ModelError::Timeout)], text("found")]);
    let look = TestTool::done("look").shared();
    let mut runner = Runner::new(params(&model, &[&look]));
    assert_eq!(runner.run().await.unwrap_err(), RunnerError::Model(ModelError::Timeout));
    assert!(runner.outcome().is_none());
    assert_eq!(runner.messages().len(), 3);
    assert_eq!(runner.run().await.unwrap().step.text, "found");
    assert_eq!(look.times_run(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_steps_is_over_after_an_error() {
    let model = ScriptedModel::new([calls(&[("look", "")]), vec![Err(ModelError::Timeout)], text("never")]);
    let steps: Vec<_> =
        Runner::new(params(&model, &[&TestTool::done("look").shared()])).steps().collect().await;
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[1], Err(RunnerError::Model(ModelError::Timeout)));
    assert_eq!(model.model_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_gets_an_id_that_the_conversation_does_not_have() {
    let model = ScriptedModel::new([calls(&[("look", ""), ("look", "")]), text("found")]);
    let call = |id: &str| ModelCall {
        id: id.into(),
        tool: "look".into(),
        input: json!({}).into(),
        provider_metadata: None,
    };
    let earlier = ModelMessage::Assistant {
        reasoning: String::new(),
        text: String::new(),
        calls: vec![call("call_1"), call("call_3")],
        provider_metadata: None,
    };
    let look = TestTool::done("look").shared();
    let params = params(&model, &[&look]).messages([
        earlier,
        result("call_1", "look", "1"),
        result("call_3", "look", "3"),
    ]);
    let mut runner = Runner::new(params);
    let step = runner.next_step().await.unwrap().unwrap();
    let ids: Vec<&str> = step.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_2", "call_4"]);
    runner.await.unwrap();
}

// === Models that fail ===

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_breaks_the_loop_and_the_step_can_be_repeated() {
    let network = || ModelError::Network("gone".into());
    let model = ScriptedModel::new([
        calls(&[("look", "")]),
        vec![Ok(ModelEvent::Text("hal".into())), Err(network())],
        text("found"),
    ]);
    let look = TestTool::done("look").shared();
    let mut runner = Runner::new(params(&model, &[&look]));
    assert!(runner.next_step().await.unwrap().is_some());
    assert_eq!(runner.next_step().await, Err(RunnerError::Model(network())));
    assert_eq!(runner.stop_reason(), None);
    let step = runner.next_step().await.unwrap().unwrap();
    assert_eq!((step.iteration, step.text.as_str()), (3, "found"));
    assert_eq!(model.conversation(1), model.conversation(2), "nothing of the broken answer stays");
    assert_eq!(look.times_run(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_breaks_a_loop_that_is_awaited() {
    let model = ScriptedModel::new([vec![Err(ModelError::Auth("no key".into()))]]);
    let outcome = Runner::new(params(&model, &[])).await;
    assert_eq!(outcome.unwrap_err(), RunnerError::Model(ModelError::Auth("no key".into())));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_or_ends_with_an_error_is_a_failure() {
    for step in [
        vec![Ok(ModelEvent::Text("hal".into()))],
        vec![Ok(ModelEvent::Text("hal".into())), Ok(finished(FinishReason::Error))],
    ] {
        let model = ScriptedModel::new([step]);
        let outcome = Runner::new(params(&model, &[])).await;
        assert!(matches!(outcome, Err(RunnerError::Model(ModelError::Network(_) | ModelError::Provider(_)))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_model_times_out_and_counts_as_an_iteration() {
    let model = ScriptedModel::new([]);
    let mut runner = Runner::new(params(&model, &[]).max_iterations(nonzero(1)));
    let begun = Instant::now();
    assert_eq!(runner.next_step().await, Err(RunnerError::Model(ModelError::Timeout)));
    assert_eq!(begun.elapsed(), runner.params().model_timeout);
    assert_eq!(runner.next_step().await, Ok(None));
    assert_eq!(runner.await.unwrap_err(), RunnerError::NoStep(1));
}

/// A model that sends nothing but [`ModelEvent::Alive`].
struct AliveModel;

#[async_trait]
impl Model for AliveModel {
    fn name(&self) -> &str {
        "at work"
    }

    async fn stream(
        &self,
        _: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        let minutes = futures::stream::repeat(()).then(async |()| {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(ModelEvent::Alive)
        });
        Ok(minutes.boxed())
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_alive_for_too_long_times_out() {
    let mut runner = Runner::new(Params::new(Arc::new(AliveModel)).user("go"));
    let begun = Instant::now();
    assert_eq!(runner.next_step().await, Err(RunnerError::Model(ModelError::Timeout)));
    assert_eq!(begun.elapsed(), runner.params().model_call_timeout);
}

#[tokio::test(start_paused = true)]
async fn calls_of_an_answer_that_was_cut_off_do_not_run() {
    let mut step = calls(&[("look", "")]);
    step.pop();
    step.push(Ok(finished(FinishReason::ContentFilter)));
    let model = ScriptedModel::new([step, text("never")]);
    let look = TestTool::done("look").shared();
    let outcome = Runner::new(params(&model, &[&look])).await.unwrap();
    assert_eq!(outcome.stop_reason, StopReason::CutOff);
    assert_eq!((model.model_calls(), look.times_run()), (1, 0));
    assert!(line(outcome.messages.last().unwrap()).starts_with("call_1: Error: The answer was cut off"));
}

#[tokio::test(start_paused = true)]
async fn calls_of_an_answer_that_was_interrupted_do_not_run() {
    let mut step = calls(&[("look", r#"{"n": 1}"#), ("write", ""), ("look", r#"{"n""#)]);
    step.pop();
    step.push(Ok(finished(FinishReason::Interrupted)));
    let model = ScriptedModel::new([step, text("never")]);
    let (look, write) = (TestTool::done("look").shared(), TestTool::done("write").needs_approval());
    let hooks = RecordingHooks::answering([]);
    let outcome = Runner::new(params(&model, &[&look, &write])).with_hooks(hooks.clone()).await.unwrap();
    assert_eq!(outcome.stop_reason, StopReason::CutOff);
    assert_eq!((model.model_calls(), look.times_run(), write.times_run()), (1, 0, 0));
    let log: Vec<String> = outcome.messages[1..].iter().map(line).collect();
    assert_eq!(log[0], r#"assistant:  call_1=look({"n":1}) call_2=write({}) call_3=look({})"#);
    for result in &log[1..] {
        assert!(result.contains("Error: The answer was cut off before its end"), "{result}");
    }
    assert!(!hooks.log().iter().any(|line| line.starts_with("asked")), "a person was asked");
}

#[tokio::test(start_paused = true)]
async fn a_step_has_limits() {
    let model = ScriptedModel::new([
        calls(&[("look", r#"{"text": "too long for this"}"#), ("look", ""), ("look", ""), ("look", "")]),
        text("far more than twenty bytes may be said"),
        text("found"),
    ]);
    let look = TestTool::done("look").shared();
    let mut params = params(&model, &[&look]);
    (params.calls_per_step, params.argument_bytes) = (2, 20);
    let mut runner = Runner::new(params);
    assert_eq!(runner.next_step().await.unwrap().unwrap().calls.len(), 3);
    runner.update_params(|params| params.step_output_bytes = 20);
    assert_eq!(runner.next_step().await, Err(RunnerError::OutputLimit(20)));
    let results = &model.conversation(1)[2..];
    assert!(results[0].contains("more than 20 bytes"), "{results:?}");
    assert_eq!(results[1], "call_2: look is done");
    assert!(results[2].contains("more than 2 calls"), "{results:?}");
    assert_eq!(runner.next_step().await.unwrap().unwrap().text, "found");
    assert_eq!(model.conversation(1), model.conversation(2), "nothing of the step that was too long stays");
}

// === Tools that fail ===

#[tokio::test(start_paused = true)]
async fn a_call_whose_output_is_too_large_fails() {
    let model = ScriptedModel::new([calls(&[("look", "")]), text("well")]);
    let look = TestTool::new("look", async |_, _| Ok(json!("a".repeat(100)))).shared();
    let mut params = params(&model, &[&look]);
    params.output_bytes = Some(101);
    Runner::new(params).await.unwrap();
    assert_eq!(
        model.conversation(1)[2],
        "call_1: Error: The output of the tool has 102 bytes; the limit is 101."
    );
}

#[tokio::test(start_paused = true)]
async fn null_for_an_optional_field_never_reaches_the_tool() {
    let model = ScriptedModel::new([calls(&[("look", r#"{"n": null, "m": null}"#)]), text("well")]);
    let look = TestTool::new("look", async |input, _| Ok(input)).shared();
    Runner::new(params(&model, &[&look])).await.unwrap();
    assert_eq!(model.conversation(1)[2], r#"call_1: {"m":null}"#);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_has_a_result_and_never_breaks_the_loop() {
    let model = ScriptedModel::new([
        calls(&[
            ("fails", ""),
            ("panics", ""),
            ("sleeps", ""),
            ("works", r#"{"n": "no number"}"#),
            ("works", "{not json"),
            ("works", "[1]"),
            ("nobody", ""),
            ("wor.ks", ""),
            ("works", ""),
        ]),
        text("well"),
    ]);
    let fails = TestTool::new("fails", async |_, _| Err(ToolError::internal("It broke."))).shared();
    let panics = TestTool::new("panics", async |_, _| panic!("on purpose")).shared();
    let (sleeps, ..) = endless("sleeps");
    let sleeps = sleeps.with(|spec| spec.timeout = Some(Duration::from_secs(3)));
    let works = TestTool::done("works").shared();
    let runner = Runner::new(params(&model, &[&fails, &panics, &sleeps, &works]));
    let outcome = runner.await.unwrap();
    assert_eq!(outcome.step.text, "well");
    let conversation = model.conversation(1);
    let results: Vec<&str> = conversation[2..].iter().map(|line| line.split_once(": ").unwrap().1).collect();
    assert_eq!(results[0], "Error: It broke.\nIf you cannot fix the call, go on without it.");
    assert_eq!(
        results[1],
        "Error: The tool failed inside the server.\nIf you cannot fix the call, go on without it."
    );
    assert_eq!(
        results[2],
        "Error: The tool took longer than 3s and was ended.\nIt took too long. Ask it for less, or go on without it, and say what is missing."
    );
    assert!(
        results[3].starts_with("Error: The input of works does not fit its schema: /n: "),
        "{}",
        results[3]
    );
    assert!(results[4].starts_with("Error: The arguments of works are not valid JSON ("), "{}", results[4]);
    assert!(results[5].starts_with("Error: The arguments of works are not a JSON object."), "{}", results[5]);
    assert!(results[6].starts_with("Error: There is no tool named \"nobody\". The tools are: fails, "));
    assert!(
        results[7].starts_with("Error: There is no tool named \"wor.ks\". The tools are: fails, "),
        "{}",
        results[7]
    );
    assert_eq!(results[8], "works is done");
    assert_eq!(works.times_run(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_tool_without_a_timeout_has_that_of_the_loop() {
    let model = ScriptedModel::new([calls(&[("sleeps", "")]), text("well")]);
    let sleeps = endless("sleeps").0.shared();
    Runner::new(params(&model, &[&sleeps]).tool_timeout(Duration::from_secs(7))).await.unwrap();
    assert!(model.conversation(1)[2].contains("longer than 7s"), "{}", model.conversation(1)[2]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_may_pass_is_retried_and_one_that_a_person_can_repair_is_reported() {
    let model = ScriptedModel::new([calls(&[("flaky", ""), ("locked", "")]), text("well")]);
    let failed = Mutex::new(false);
    let flaky = TestTool::new("flaky", move |_, _| {
        let first = !std::mem::replace(&mut *failed.lock().unwrap(), true);
        std::future::ready(if first {
            Err(ToolError::new(ErrorType::Network, "gone"))
        } else {
            Ok(json!("there"))
        })
    })
    .with(|spec| spec.repeatable = true);
    let locked =
        TestTool::new("locked", async |_, _| Err(ToolError::new(ErrorType::Auth, "No key."))).shared();
    Runner::new(params(&model, &[&flaky, &locked])).await.unwrap();
    assert_eq!(flaky.times_run(), 2);
    assert_eq!(
        model.conversation(1)[2..],
        [
            "call_1: there",
            "call_2: Error: No key.\nTell the user which permission or setting is missing, and ask how to go on before you call it again."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_whose_policy_is_to_fail_the_run_ends_the_loop_normally_with_every_result() {
    let model = ScriptedModel::new([calls(&[("fails", ""), ("works", "")]), text("never")]);
    let fails = TestTool::new("fails", async |_, _| Err(ToolError::internal("It broke."))).shared();
    let params = params(&model, &[&fails, &TestTool::done("works").shared()]);
    let policy = ErrorPolicy::default().with(ErrorType::Internal, ErrorStrategy::FailRun);
    let outcome = Runner::new(params.error_policy(policy)).await.unwrap();
    assert_eq!(outcome.stop_reason, StopReason::ToolFailed);
    let last: Vec<String> = outcome.messages[2..].iter().map(line).collect();
    assert_eq!(last, ["call_1: Error: It broke.", "call_2: works is done"]);
    assert_eq!(model.model_calls(), 1);
}

// === Concurrency ===

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_step_run_concurrently_and_their_results_are_in_order() {
    let model =
        ScriptedModel::new([calls(&[("meets", r#"{"n": 1}"#), ("meets", r#"{"n": 2}"#)]), text("well")]);
    let barrier = Arc::new(Barrier::new(2));
    let meets = TestTool::new("meets", move |input: Value, _| {
        let barrier = barrier.clone();
        async move {
            barrier.wait().await;
            if input["n"] == 1 {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            Ok(input["n"].clone())
        }
    })
    .shared();
    let hooks = Arc::new(RecordingHooks::default());
    Runner::new(params(&model, &[&meets])).with_hooks(hooks.clone()).await.unwrap();
    assert_eq!(model.conversation(1)[2..], ["call_1: 1", "call_2: 2"]);
    assert_eq!(hooks.log()[3..5], ["result meets 2", "result meets 1"], "{:?}", hooks.log());
}

/// Returns a tool that uses the resource "file" and notes when it begins and ends.
fn noting_tool(notes: &Arc<Mutex<Vec<String>>>) -> Arc<TestTool> {
    let notes = notes.clone();
    TestTool::new("notes", move |input: Value, _| {
        let notes = notes.clone();
        async move {
            notes.lock().unwrap().push(format!("{} begins", input["n"]));
            tokio::time::sleep(Duration::from_secs(1)).await;
            notes.lock().unwrap().push(format!("{} ends", input["n"]));
            Ok(json!("ok"))
        }
    })
    .with(|spec| spec.resource = Some(Resource::named("file")))
}

#[tokio::test(start_paused = true)]
async fn calls_on_one_resource_run_one_after_the_other_in_their_order() {
    let all: Vec<String> = (0..5).map(|n| format!(r#"{{"n": {n}}}"#)).collect();
    let all: Vec<(&str, &str)> = all.iter().map(|input| ("notes", input.as_str())).collect();
    let model = ScriptedModel::new([calls(&all), text("well")]);
    let notes = Arc::default();
    Runner::new(params(&model, &[&noting_tool(&notes)])).await.unwrap();
    let expected: Vec<String> = (0..5).flat_map(|n| [format!("{n} begins"), format!("{n} ends")]).collect();
    assert_eq!(*notes.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn loops_that_share_their_locks_do_not_use_a_resource_at_the_same_time() {
    let (locks, notes) = (LockQueue::new(), Arc::default());
    let looping = |n: &str| {
        let model = ScriptedModel::new([calls(&[("notes", n)]), text("well")]);
        Runner::new(params(&model, &[&noting_tool(&notes)]).locks(locks.clone())).into_future()
    };
    let (first, second) = tokio::join!(looping(r#"{"n": 1}"#), looping(r#"{"n": 2}"#));
    assert!(first.is_ok() && second.is_ok());
    let notes = notes.lock().unwrap();
    for pair in notes.chunks(2) {
        assert_eq!(pair[0].strip_suffix(" begins"), pair[1].strip_suffix(" ends"), "{notes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_too_long_for_its_resource_fails_and_did_not_run() {
    let model = ScriptedModel::new([calls(&[("notes", "")]), text("well")]);
    let notes = Arc::default();
    let mut params = params(&model, &[&noting_tool(&notes)]);
    params.lock_timeout = Duration::from_secs(9);
    let key = fermata_tools::ResourceKey {
        named_by: fermata_tools::NamedBy::Settings,
        name: "file".into(),
        owner: None,
    };
    let _held = params.locks.enqueue(key).acquire().await;
    Runner::new(params).await.unwrap();
    let result = &model.conversation(1)[2];
    assert!(
        result.contains("Other calls used file for longer than 9s, so this call did not run."),
        "{result}"
    );
    assert!(notes.lock().unwrap().is_empty());
}

// === Between steps ===

#[tokio::test(start_paused = true)]
async fn a_tool_response_is_computed_once_and_the_loop_uses_it() {
    let model = ScriptedModel::new([calls(&[("look", "")]), text("found")]);
    let look = TestTool::done("look").shared();
    let mut runner = Runner::new(params(&model, &[&look]));
    assert!(runner.tool_response().await.is_empty());
    runner.next_step().await.unwrap();
    let first = runner.tool_response().await.to_vec();
    assert_eq!(first, [result("call_1", "look", "look is done")]);
    assert_eq!(runner.tool_response().await, first);
    assert_eq!(runner.messages().len(), 2, "it comes to the conversation with the next step");
    runner.next_step().await.unwrap();
    assert_eq!(model.conversation(1).last().unwrap(), "call_1: look is done");
    assert!(runner.tool_response().await.is_empty());
    assert_eq!(look.times_run(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_waiting_for_tools_and_waits_again_runs_none_twice() {
    let model = ScriptedModel::new([calls(&[("slow", ""), ("asked", "")]), text("well")]);
    let slow = TestTool::new("slow", async |_, _| {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(json!("slept"))
    })
    .shared();
    let asked = TestTool::done("asked").needs_approval();
    let hooks = Arc::new(RecordingHooks { delay: Duration::from_secs(2), ..RecordingHooks::default() });
    let mut runner = Runner::new(params(&model, &[&slow, &asked])).with_hooks(hooks.clone());
    runner.next_step().await.unwrap();
    for seconds in [1, 5, 5] {
        assert!(timeout(Duration::from_secs(seconds), runner.tool_response()).await.is_err());
    }
    assert!(timeout(Duration::from_millis(1), runner.next_step()).await.is_err());
    runner.next_step().await.unwrap();
    assert_eq!((slow.times_run(), asked.times_run()), (1, 1));
    let calls = hooks.log().iter().filter(|line| line.starts_with("call ")).count();
    assert_eq!(calls, 2, "{:?}", hooks.log());
}

#[tokio::test(start_paused = true)]
async fn pushed_messages_drop_the_response_and_every_call_stays_paired() {
    let model = ScriptedModel::new([calls(&[("look", "")]), text("as you wish")]);
    let look = TestTool::done("look").shared();
    let mut runner = Runner::new(params(&model, &[&look]));
    runner.next_step().await.unwrap();
    runner.tool_response().await;
    runner.push_messages([user("leave that")]);
    runner.next_step().await.unwrap();
    assert_eq!(
        model.conversation(1)[1..],
        [
            "assistant:  call_1=look({})",
            "call_1: There is no result of this call: the conversation went on without it.",
            "user: leave that"
        ]
    );
    assert_eq!(look.times_run(), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_that_the_conversation_left_behind_never_run() {
    let model = ScriptedModel::new([calls(&[("look", "")]), text("as you wish")]);
    let look = TestTool::done("look").shared();
    let mut runner = Runner::new(params(&model, &[&look]));
    runner.next_step().await.unwrap();
    runner.push_messages([user("leave that")]);
    runner.await.unwrap();
    assert_eq!(look.times_run(), 0);
}

#[tokio::test(start_paused = true)]
async fn pushed_results_replace_those_of_the_tools() {
    let model = ScriptedModel::new([calls(&[("look", ""), ("look", "")]), text("found")]);
    let look = TestTool::done("look").shared();
    let mut runner = Runner::new(params(&model, &[&look]));
    let step = runner.next_step().await.unwrap().unwrap();
    let own = [result("call_2", "look", "two"), result("call_1", "look", "one")];
    // The step's own message, which the conversation has already, is not repeated.
    runner.push_messages(std::iter::once(step.message()).chain(own));
    runner.next_step().await.unwrap();
    assert_eq!(model.conversation(1)[2..], ["call_1: one", "call_2: two"]);
    assert_eq!(look.times_run(), 0);
}

#[tokio::test(start_paused = true)]
async fn pushing_a_message_makes_the_loop_go_on_after_a_step_without_calls() {
    let model = ScriptedModel::new([text("one"), text("two")]);
    let mut runner = Runner::new(params(&model, &[]));
    runner.next_step().await.unwrap();
    runner.push_messages([user("and then?")]);
    assert_eq!(runner.next_step().await.unwrap().unwrap().text, "two");
    assert_eq!(model.conversation(1), ["user: go", "assistant: one", "user: and then?"]);
    assert_eq!(runner.next_step().await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn calls_that_were_pushed_run_before_the_next_step() {
    let call = ModelCall {
        id: "mine".into(),
        tool: "look".into(),
        input: json!({"n": 1}).into(),
        provider_metadata: None,
    };
    let pushed = ModelMessage::Assistant {
        reasoning: String::new(),
        text: String::new(),
        calls: vec![call],
        provider_metadata: None,
    };
    let look = TestTool::done("look").shared();

    let model = ScriptedModel::new([text("one"), text("two")]);
    let mut runner = Runner::new(params(&model, &[&look]));
    runner.next_step().await.unwrap();
    assert!(runner.tool_response().await.is_empty());
    runner.push_messages([pushed.clone()]);
    runner.next_step().await.unwrap();
    assert_eq!(model.conversation(1).last().unwrap(), "mine: look is done");

    let model = ScriptedModel::new([text("one")]);
    Runner::new(params(&model, &[&look]).messages([pushed])).await.unwrap();
    assert_eq!(model.conversation(0).last().unwrap(), "mine: look is done");
    assert_eq!(look.times_run(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_next_step_is_requested_with_new_params() {
    let (first, second) = (ScriptedModel::new([calls(&[("look", "")])]), ScriptedModel::new([text("fresh")]));
    let look = TestTool::done("look").shared();
    let mut runner = Runner::new(params(&first, &[&look]).max_iterations(nonzero(1)));
    runner.next_step().await.unwrap();
    runner.tool_response().await;
    runner.set_params(params(&second, &[&TestTool::done("other").shared()]).system("second"));
    assert_eq!(runner.next_step().await.unwrap().unwrap().text, "fresh");
    assert_eq!(
        second.conversation(0),
        ["system: second", "user: go"],
        "the response was dropped with its call"
    );
    assert_eq!(second.request(0).tools[0].name, "other");
    assert_eq!(look.times_run(), 1);
    assert_eq!(runner.next_step().await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_changed_setting_keeps_the_response_of_calls_that_stay() {
    let model = ScriptedModel::new([calls(&[("look", "")]), text("one"), text("two")]);
    let look = TestTool::done("look").shared();
    let mut runner = Runner::new(params(&model, &[&look]));
    runner.next_step().await.unwrap();
    runner.tool_response().await;
    runner.update_params(|params| _ = params.settings.insert("temperature".into(), json!(1)));
    runner.next_step().await.unwrap();
    assert_eq!(model.request(1).settings["temperature"], 1);
    assert_eq!(model.conversation(1).last().unwrap(), "call_1: look is done");
    assert_eq!(look.times_run(), 1);
    runner.update_params(|params| params.system = Some("again".into()));
    assert_eq!(runner.next_step().await.unwrap().unwrap().text, "two", "a change makes the loop go on");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_input_is_edited_between_steps_runs_as_edited() {
    let model = ScriptedModel::new([calls(&[("look", "{broken"), ("look", "{broken")]), text("found")]);
    let look = TestTool::new("look", async |input: Value, _| Ok(input)).shared();
    let mut runner = Runner::new(params(&model, &[&look]));
    runner.next_step().await.unwrap();
    runner.update_params(|params| {
        let Some(ModelMessage::Assistant { calls, .. }) = params.messages.last_mut() else {
            panic!("no calls")
        };
        calls[1].input = json!({"n": 4}).into();
    });
    runner.next_step().await.unwrap();
    let conversation = model.conversation(1);
    assert_eq!(conversation[1], r#"assistant:  call_1=look({}) call_2=look({"n":4})"#);
    assert!(
        conversation[2].starts_with("call_1: Error: The arguments of look are not valid JSON"),
        "{conversation:?}"
    );
    assert_eq!(conversation[3], r#"call_2: {"n":4}"#);
    assert_eq!(look.times_run(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_forced_choice_holds_for_one_step() {
    let model = ScriptedModel::new([calls(&[("look", "")]), text("found")]);
    let params =
        params(&model, &[&TestTool::done("look").shared()]).tool_choice(ToolChoice::Tool("look".into()));
    Runner::new(params).await.unwrap();
    assert_eq!(model.request(0).tool_choice, Some(ToolChoice::Tool("look".into())));
    assert_eq!(model.request(1).tool_choice, None);
}

// === Decisions ===

#[tokio::test(start_paused = true)]
async fn a_call_that_needs_approval_is_denied_if_nobody_can_be_asked() {
    let model = ScriptedModel::new([calls(&[("write", "")]), text("well")]);
    let write = TestTool::done("write").needs_approval();
    Runner::new(params(&model, &[&write])).await.unwrap();
    assert_eq!(
        model.conversation(1)[2],
        "call_1: Denied: this call needs the approval of a person, and there is nobody to ask"
    );
    assert_eq!(write.times_run(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_call_runs_before_every_call_of_its_step_is_decided() {
    let model = ScriptedModel::new([calls(&[("free", ""), ("write", ""), ("write", "")]), text("well")]);
    let write = TestTool::done("write").needs_approval();
    let hooks = RecordingHooks::answering([
        Approval::Denied { reason: Some("not today".into()) },
        Approval::Approved,
    ]);
    let notes = hooks.clone();
    let free = TestTool::new("free", move |_, _| {
        notes.note("free runs".into());
        std::future::ready(Ok(json!("ok")))
    })
    .shared();
    let runner = Runner::new(params(&model, &[&free, &write])).with_hooks(hooks.clone());
    runner.await.unwrap();
    assert_eq!(
        model.conversation(1)[2..],
        ["call_1: ok", "call_2: Denied: not today", "call_3: write is done"]
    );
    assert_eq!(write.times_run(), 1);
    let log = hooks.log();
    let index = |wanted: &str| log.iter().rposition(|line| line == wanted).unwrap();
    assert!(index("free runs") > index("asked write"), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_runs_with_the_input_that_a_person_has_given_it_and_the_model_learns_of_it() {
    let model = ScriptedModel::new([calls(&[("write", r#"{"n": 1}"#), ("write", "")]), text("well")]);
    let write = TestTool::new("write", async |input: Value, _| Ok(json!({"wrote": input}))).needs_approval();
    let hooks = RecordingHooks::answering([
        Approval::Edited { input: json!({"n": 2}).into() },
        Approval::Edited { input: json!({"n": "many"}).into() },
    ]);
    Runner::new(params(&model, &[&write])).with_hooks(hooks).await.unwrap();
    let conversation = model.conversation(1);
    assert_eq!(
        conversation[2],
        r#"call_1: {"wrote":{"n":2}}|[A person changed the input of this call before it ran.]"#
    );
    assert!(conversation[3].starts_with("call_2: Error: "), "{}", conversation[3]);
    assert_eq!(write.times_run(), 1);
}

/// A policy with one decision for all calls, in one mode.
struct FixedPolicy(Decision, ApprovalMode);

impl Policy for FixedPolicy {
    fn decide(&self, _: &Principal, _: &ToolSpec, _: &Value) -> PolicyDecision {
        PolicyDecision {
            reason: Some("house rule".into()),
            ..PolicyDecision::new(self.0, DecisionSource::Rule(1))
        }
    }

    fn approval(&self) -> ApprovalMode {
        self.1
    }
}

#[tokio::test(start_paused = true)]
async fn the_policy_overrides_the_tool() {
    for (policy, result, runs) in [
        (FixedPolicy(Decision::Deny, ApprovalMode::Default), "call_1: Denied: house rule", 0),
        (FixedPolicy(Decision::Deny, ApprovalMode::Auto), "call_1: Denied: house rule", 0),
        (FixedPolicy(Decision::Ask, ApprovalMode::Auto), "call_1: write is done", 1),
        (FixedPolicy(Decision::Allow, ApprovalMode::Default), "call_1: write is done", 1),
    ] {
        let model = ScriptedModel::new([calls(&[("write", "")]), text("well")]);
        let write = TestTool::done("write").needs_approval();
        Runner::new(params(&model, &[&write]).policy(Arc::new(policy))).await.unwrap();
        assert_eq!(model.conversation(1)[2], result);
        assert_eq!(write.times_run(), runs);
    }
}

// === Hooks ===

#[tokio::test(start_paused = true)]
async fn the_hooks_get_each_text_step_call_and_result_once() {
    let model = ScriptedModel::new([calls(&[("look", ""), ("nobody", "")]), text("found")]);
    let look = TestTool::new("look", async |_, context: CallContext| {
        context.report(json!("half"));
        let question = Elicitation {
            message: "Where?".into(),
            requested_schema: json!({"type": "object"}),
            server: None,
            other_candidates: Vec::new(),
        };
        match context.elicit(question).await {
            ElicitationReply::Accept(content) => Ok(content),
            ElicitationReply::Decline | ElicitationReply::Cancel | ElicitationReply::Unanswered { .. } => {
                Err(ToolError::internal("No answer."))
            }
        }
    })
    .shared();
    let hooks = Arc::new(RecordingHooks::default());
    Runner::new(params(&model, &[&look])).with_hooks(hooks.clone()).await.unwrap();
    assert_eq!(
        hooks.log(),
        [
            "step 1 ",
            "call look",
            "call nobody",
            "result nobody invalid_format",
            "progress \"half\"",
            "question Where?",
            "result look {\"city\":\"Bern\"}",
            "text found",
            "step 2 found",
        ]
    );
}

// === Cancellation ===

#[tokio::test(start_paused = true)]
async fn dropping_the_runner_cancels_its_tools() {
    let model = ScriptedModel::new([calls(&[("sleeps", "")])]);
    let (sleeps, began, given) = endless("sleeps");
    let sleeps = sleeps.shared();
    let mut runner = Runner::new(params(&model, &[&sleeps]));
    runner.next_step().await.unwrap();
    tokio::select! {
        _ = runner.tool_response() => panic!("the tool never ends"),
        () = began.cancelled() => {}
    }
    let token = given.lock().unwrap().clone().unwrap();
    assert!(!token.is_cancelled());
    drop(runner);
    assert!(token.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_dropped_cancels_its_tools() {
    let model = ScriptedModel::new([calls(&[("sleeps", "")]), text("well")]);
    let (sleeps, began, given) = endless("sleeps");
    let mut runner = Runner::new(params(&model, &[&sleeps.shared()]));
    runner.next_step().await.unwrap();
    tokio::select! {
        _ = runner.tool_response() => panic!("the tool never ends"),
        () = began.cancelled() => {}
    }
    let token = given.lock().unwrap().clone().unwrap();
    assert!(!token.is_cancelled());
    runner.push_messages([user("never mind")]);
    assert!(token.is_cancelled());
    runner.await.unwrap();
}

// === Results ===

#[tokio::test(start_paused = true)]
async fn an_output_keeps_its_kind_of_content_and_is_cut_if_it_is_too_long() {
    let model = ScriptedModel::new([calls(&[("shows", ""), ("talks", "")]), text("well")]);
    let picture = "data:image/png;base64,iVBORw0KGgo=";
    let shows = TestTool::new("shows", move |_, _| std::future::ready(Ok(json!(picture)))).shared();
    let talks = TestTool::new("talks", async |_, _| Ok(json!("word ".repeat(1000)))).shared();
    let mut params = params(&model, &[&shows, &talks]);
    params.model_output_bytes = 100;
    Runner::new(params).await.unwrap();
    let request = model.request(1);
    let ModelMessage::Tool { content, .. } = &request.messages[2] else { panic!("{request:?}") };
    assert!(matches!(&content[..], [ModelContent::File { url, .. }] if url == picture), "{content:?}");
    let long = &model.conversation(1)[3];
    assert!(long.len() < 300 && long.starts_with("call_2: word word"), "{long}");
}
