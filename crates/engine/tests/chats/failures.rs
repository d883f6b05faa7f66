//! After a call that has failed, found nothing, or was cancelled: fallbacks, and calls that a person makes again.

#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use fermata_engine::{CallError, Rules, Submission, SubmitError, model::ModelMessage};
use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ChatBody, ElicitAction, ElicitationId, ToolCallId, ToolState,
    UiMessage, UiPart,
};
use fermata_tools::{
    AuditAction, Decision, DefaultPolicy, ErrorStrategy, ErrorType, Fallback, Owner, Pattern, Policy,
    PolicyDecision, Principal, ToolSettings, ToolSpec,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

use crate::world::{StreamReader, World, calls, decision, text};

fn settings(settings: ToolSettings) -> Rules {
    Rules { tools: vec![(Pattern::new("run"), settings)], ..Rules::default() }
}

fn falls_back(tool: &str, input: Option<Value>) -> Rules {
    let fallback = Some(Fallback { tool: tool.into(), input });
    settings(ToolSettings { fallback, ..ToolSettings::default() })
}

/// Returns the last request to the model.
fn told(world: &World) -> String {
    format!("{:?}", world.model.requests.lock().unwrap().last().unwrap().messages)
}

fn states(message: &UiMessage) -> Vec<String> {
    let name = |state: &ToolState| match state {
        ToolState::OutputAvailable { .. } => "output".to_owned(),
        ToolState::OutputError { error_text, .. } => error_text.clone(),
        ToolState::OutputDenied { .. } => "denied".into(),
        other => format!("{other:?}"),
    };
    message
        .parts
        .iter()
        .filter_map(UiPart::as_tool)
        .map(|part| format!("{} {}", part.name.as_str(), name(&part.state)))
        .collect()
}

fn failing() -> crate::world::ModelStep {
    calls(&[("run", json!({"does": "fails"}))])
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_failed_is_followed_by_its_fallback_in_a_step_of_its_own() {
    let world = World::new();
    world.engine.set_rules(falls_back("note", Some(json!({"as": "fallback"}))));
    world.script([failing(), text("Well.")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    assert!(
        world.tool_log.lock().unwrap().iter().all(|line| !line.contains("fallback")),
        "it is asked about first"
    );
    world.answer(decision(&call, true)).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(world.model_calls(), 2, "the model is asked after the fallback");
    let message = &world.messages().await[1];
    assert_eq!(states(message), ["run the input asks for it", "note output"]);
    let steps = message.parts.iter().filter(|part| **part == UiPart::StepStart).count();
    assert_eq!(steps, 3);
    assert!(told(&world).contains("Another tool was called in its place"), "{:?}", told(&world));
}

#[tokio::test(start_paused = true)]
async fn a_fallback_is_one_hop_and_never_gets_round_a_rule() {
    // Its own fallback is not called.
    let world = World::new();
    let mut rules = falls_back("fails_too", None);
    rules.tools = vec![(
        Pattern::new("*"),
        ToolSettings {
            fallback: Some(Fallback { tool: "run".into(), input: None }),
            ..ToolSettings::default()
        },
    )];
    world.engine.set_rules(rules);
    world.script([failing(), text("Well.")]);
    world.post_text("go").await.read_to_end().await;
    assert_eq!(
        states(&world.messages().await[1]),
        ["run the input asks for it"],
        "a tool is not its own fallback"
    );

    // A rule denies it.
    let world = World::new();
    world.engine.set_rules(Rules { policy: Arc::new(NoNotes), ..falls_back("note", None) });
    world.script([failing(), text("Well.")]);
    world.post_text("go").await.read_to_end().await;
    assert_eq!(states(&world.messages().await[1]), ["run the input asks for it", "note denied"]);
    assert!(world.tool_log.lock().unwrap().iter().all(|line| !line.contains("note")));

    // There is no such tool.
    let world = World::new();
    world.engine.set_rules(falls_back("nothing", None));
    world.script([failing(), text("Well.")]);
    world.post_text("go").await.read_to_end().await;
    assert_eq!(states(&world.messages().await[1]), ["run the input asks for it"]);
}

struct NoNotes;

impl Policy for NoNotes {
    fn decide(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        let decided = DefaultPolicy.decide(requester, tool, input);
        if tool.name == "note" { PolicyDecision { decision: Decision::Deny, ..decided } } else { decided }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_survives_a_restart() {
    let world = World::new();
    world.engine.set_rules(falls_back("note", None));
    world.script([failing(), text("Well.")]);
    let call = world.post_text("go").await.read_until("tool-approval-request").await;
    let world = world.restarted();
    world.answer(decision(&call, false)).await.unwrap();
    if let Some(mut stream) = world.follow().await {
        stream.read_to_end().await;
    }
    assert_eq!(states(&world.messages().await[1]), ["run the input asks for it", "note denied"]);
}

#[tokio::test(start_paused = true)]
async fn an_output_without_anything_found_is_a_success_with_advice() {
    let world = World::new();
    let rules = settings(ToolSettings { empty: Some("input.found".into()), ..ToolSettings::default() });
    world.engine.set_rules(rules.clone());
    world.script([calls(&[("run", json!({"found": []})), ("run", json!({"found": [1]}))]), text("Nothing.")]);
    let mut stream = world.post_text("go").await;
    stream.read_to_end().await;
    assert_eq!(states(&world.messages().await[1]), ["run output", "run output"]);
    assert_eq!(told(&world).matches("Say that nothing was found").count(), 1);
    let calls_of = &stream.find("finish")["messageMetadata"]["calls"];
    let types: Vec<&Value> = calls_of.as_object().unwrap().values().map(|call| &call["errorType"]).collect();
    assert_eq!(types.iter().filter(|error_type| ***error_type == "empty_result").count(), 1, "{calls_of}");

    // The operator may end the run then.
    let world = World::new();
    let errors = vec![(ErrorType::EmptyResult, ErrorStrategy::FailRun)];
    let tool = ToolSettings { empty: Some("input.found".into()), errors, ..ToolSettings::default() };
    world.engine.set_rules(settings(tool));
    world.script([calls(&[("run", json!({"found": ""}))])]);
    let mut stream = world.post_text("go").await;
    assert!(stream.read_to_end().await.ends_with("error"));
}

#[tokio::test(start_paused = true)]
async fn what_is_set_for_a_tool_goes_before_what_is_set_for_all() {
    let world = World::new();
    let errors = vec![(ErrorType::Internal, ErrorStrategy::FailRun)];
    world.engine.set_rules(settings(ToolSettings { errors, ..ToolSettings::default() }));
    world.script([failing()]);
    let mut stream = world.post_text("go").await;
    assert!(stream.read_to_end().await.ends_with("error"), "{}", stream.types());
}

#[tokio::test(start_paused = true)]
async fn a_running_call_is_cancelled_and_the_run_goes_on() {
    let world = World::new();
    world.script([
        calls(&[
            ("run", json!({"does": "reports", "as": "a"})),
            ("run", json!({"does": "hangs", "as": "b"})),
        ]),
        text("Without it."),
    ]);
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-output-available").await;
    let ids: Vec<String> = stream
        .chunks
        .iter()
        .filter(|chunk| chunk["type"] == "tool-input-start")
        .map(|chunk| chunk["toolCallId"].as_str().unwrap().to_owned())
        .collect();
    let cancel =
        async |id: &str| world.engine.cancel_call(&world.owner, &world.chat, ToolCallId::new(id)).await;
    for id in &ids {
        cancel(id).await.unwrap();
    }
    assert!(matches!(cancel(&ids[0]).await, Err(CallError::NotRunning(_))), "twice");
    assert!(matches!(cancel("nothing").await, Err(CallError::NotFound)));
    let stranger = world.engine.cancel_call(&Owner::new("bob"), &world.chat, ToolCallId::new(&*ids[0])).await;
    assert!(matches!(stranger, Err(CallError::NotFound)));
    stream.read_to_end().await;
    assert!(stream.text().ends_with("Without it."));
    let states = states(&world.messages().await[1]);
    assert!(
        states[0].contains("the user cancelled the call") && !states[0].contains("progress"),
        "{states:?}"
    );
    let record = serde_json::to_value(&world.messages().await[1]).unwrap();
    assert!(!record["metadata"]["calls"][&ids[0]]["lastOutput"]["progress"].is_null(), "{record}");
    assert!(states[1].contains("the user cancelled the call"), "{states:?}");
    assert!(told(&world).contains("It had reported"));
    assert!(matches!(cancel(&ids[0]).await, Err(CallError::NotRunning(_))), "the run is over");
    assert!(world.tool_log.lock().unwrap().contains(&"was cancelled b".to_owned()), "its work has ended");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_is_not_cancelled() {
    let world = World::new();
    world.script([calls(&[("note", json!({}))]), text("ok")]);
    let call = world.post_text("go").await.read_until("tool-approval-request").await;
    let cancelled = world.engine.cancel_call(&world.owner, &world.chat, ToolCallId::new(&*call)).await;
    assert!(matches!(cancelled, Err(CallError::NotRunning(_))));
    assert_eq!(world.pending().await.len(), 1);
}

async fn retry(world: &World, call: &str) -> Result<StreamReader, SubmitError> {
    let body = ChatBody::parse(json!({"id": world.chat.as_str(), "trigger": "regenerate-message"})).unwrap();
    let retries = Some(ToolCallId::new(call));
    let submission = Submission {
        owner: world.owner.clone(),
        body,
        hold: None,
        address: None,
        groups: Vec::new(),
        retries,
        traceparent: None,
    };
    world.engine.submit(submission).await.map(|following| StreamReader::new(following.reader))
}

/// Approves the call that a run of its own waits for, because it may repeat an effect. Returns its id.
async fn approve(world: &World, again: &mut StreamReader) -> String {
    let call = again.read_until("tool-approval-request").await;
    world.answer(decision(&call, true)).await.unwrap();
    call
}

/// A chat with a call that has failed, and its id.
async fn with_failed_call(world: &World) -> String {
    world.script([failing(), text("Sorry.")]);
    let mut first = world.post_text("go").await;
    first.read_to_end().await;
    first.find("tool-output-error")["toolCallId"].as_str().unwrap().to_owned()
}

fn begins(world: &World) -> usize {
    world.tool_log.lock().unwrap().iter().filter(|line| line.starts_with("begins")).count()
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_made_again_once() {
    let world = World::new();
    let failed = with_failed_call(&world).await;
    world.script([text("Again.")]);
    let mut again = retry(&world, &failed).await.unwrap();
    let retried = again.read_until("tool-approval-request").await;
    let is_known = |refused: Result<_, SubmitError>| matches!(refused, Err(SubmitError::AlreadyRetried(call)) if call.as_str() == retried);
    assert!(is_known(retry(&world, &failed).await), "while the new call waits");
    let world = world.restarted();
    assert!(is_known(retry(&world, &failed).await), "by another process");
    world.answer(decision(&retried, true)).await.unwrap();
    if let Some(mut stream) = world.follow().await {
        stream.read_to_end().await;
    }
    assert!(is_known(retry(&world, &failed).await), "after the run");
    assert_eq!(begins(&world), 1, "it has begun once since the restart");
    world.script([text("Denied.")]);
    let mut third = retry(&world, &retried).await.unwrap();
    let third_call = third.read_until("tool-approval-request").await;
    assert_ne!(third_call, retried, "the new call has also failed, and is a call of its own");
    world.answer(decision(&third_call, false)).await.unwrap();
    third.read_to_end().await;
    assert_eq!(begins(&world), 1);

    let audit = world.store.store.audit();
    let of_retries = audit.iter().filter(|record| record.entry.event.action == AuditAction::Retried);
    let of_retries: Vec<_> = of_retries
        .map(|record| {
            (record.entry.event.call.as_ref().unwrap().as_str(), record.entry.event.principal.clone())
        })
        .collect();
    let alice = || Some(world.owner.clone());
    assert_eq!(of_retries, [(failed.as_str(), alice()), (retried.as_str(), alice())]);
}

#[tokio::test(start_paused = true)]
async fn of_racing_retries_one_wins() {
    let here = World::first();
    let failed = with_failed_call(&here).await;
    let there = here.another();
    here.script([text("Again.")]);
    let retries = (0..10).map(|turn| retry(if turn % 2 == 0 { &here } else { &there }, &failed));
    let (won, lost): (Vec<_>, Vec<_>) =
        futures::future::join_all(retries).await.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 9));
    let call = won.into_iter().next().unwrap().unwrap().read_until("tool-approval-request").await;
    for refused in lost {
        assert!(
            matches!(&refused, Err(SubmitError::AlreadyRetried(retried)) if retried.as_str() == call),
            "{:?}",
            refused.err()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_makes_a_failed_call_again_in_a_run_of_its_own() {
    let world = World::new();
    world.script([calls(&[("run", json!({"does": "is limited"})), ("note", json!({}))]), text("Sorry.")]);
    let mut first = world.post_text("go").await;
    let asked = first.read_until("tool-approval-request").await;
    assert!(matches!(retry(&world, &asked).await, Err(SubmitError::RunOpen)));
    world.answer(decision(&asked, false)).await.unwrap();
    first.read_to_end().await;
    let failed = first.find("tool-output-error")["toolCallId"].as_str().unwrap().to_owned();
    assert!(matches!(retry(&world, &asked).await, Err(SubmitError::NotFailed(_))), "it was denied");
    assert!(matches!(retry(&world, "nothing").await, Err(SubmitError::NoSuchCall)));

    world.script([text("It is limited still.")]);
    let mut again = retry(&world, &failed).await.unwrap();
    approve(&world, &mut again).await;
    again.read_to_end().await;
    assert_eq!(again.text().matches("It is limited still.").count(), 1, "{}", again.types());
    let messages = world.messages().await;
    assert_eq!(messages.len(), 3, "a message of its own follows");
    assert_eq!(states(&messages[1])[0], "run slow down", "the outcome of the failed call stays");
    assert_eq!(states(&messages[2]), ["run slow down"]);
    assert_eq!(world.model_calls(), 3, "the call comes before the model");
    assert_ne!(again.find("tool-input-start")["toolCallId"], failed.as_str());
}

#[tokio::test(start_paused = true)]
async fn the_rules_apply_to_a_call_that_is_made_again() {
    for decides in [true, false] {
        let world = World::new();
        world.script([failing(), text("Sorry.")]);
        let mut first = world.post_text("go").await;
        first.read_to_end().await;
        let failed = first.find("tool-output-error")["toolCallId"].as_str().unwrap().to_owned();
        world.engine.set_rules(Rules { policy: Arc::new(AskOrDeny(decides)), ..Rules::default() });
        world.script([text("Well.")]);
        let mut again = retry(&world, &failed).await.unwrap();
        if decides {
            let asked = again.read_until("tool-approval-request").await;
            let world = world.restarted();
            world.answer(decision(&asked, false)).await.unwrap();
            if let Some(mut stream) = world.follow().await {
                stream.read_to_end().await;
            }
            assert_eq!(states(&world.messages().await[2]), ["run denied"]);
        } else {
            again.read_to_end().await;
            assert_eq!(states(&world.messages().await[2]), ["run denied"]);
        }
    }
}

struct AskOrDeny(bool);

impl Policy for AskOrDeny {
    fn decide(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        let decision = if self.0 { Decision::Ask } else { Decision::Deny };
        PolicyDecision { decision, ..DefaultPolicy.decide(requester, tool, input) }
    }
}

/// A chat with a failed call that a person decides about, and the id of the question.
async fn asked_about_failure(world: &World) -> (StreamReader, String) {
    let errors = vec![(ErrorType::Internal, ErrorStrategy::AskPerson)];
    world.engine.set_rules(settings(ToolSettings { errors, ..ToolSettings::default() }));
    world.script([failing(), text("Well.")]);
    let mut stream = world.post_text("go").await;
    stream.read_until("data-elicitation").await;
    let id = stream.find("data-elicitation")["data"]["elicitationId"].as_str().unwrap().to_owned();
    (stream, id)
}

fn chosen(id: &str, choice: Option<&str>) -> Answer {
    let (action, content) = match choice {
        Some(choice) => (ElicitAction::Accept, Some(json!({ "choice": choice }))),
        None => (ElicitAction::Decline, None),
    };
    let of = AnswerTarget::Elicitation(ElicitationId::new(id));
    Answer { of, kind: AnswerKind::Elicited { action, content } }
}

#[tokio::test(start_paused = true)]
async fn a_person_decides_what_follows_a_failure() {
    for choice in [Some("go_on"), None] {
        let world = World::new();
        let (mut stream, id) = asked_about_failure(&world).await;
        assert!(!stream.types().contains("tool-output-error"), "the call has no outcome yet");
        let bad = chosen(&id, Some("dance"));
        assert!(world.answer(bad).await.is_err());
        world.answer(chosen(&id, choice)).await.unwrap();
        stream.read_to_end().await;
        assert_eq!(states(&world.messages().await[1]), ["run the input asks for it"]);
        assert!(stream.text().ends_with("Well."));
    }

    let world = World::new();
    let (mut stream, id) = asked_about_failure(&world).await;
    world.answer(chosen(&id, Some("stop"))).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(world.model_calls(), 1, "the model is not asked again");
    assert_eq!(states(&world.messages().await[1]), ["run the input asks for it"]);
}

#[tokio::test(start_paused = true)]
async fn a_person_may_let_a_call_run_again_and_the_question_outlives_a_restart() {
    let world = World::new();
    let (stream, id) = asked_about_failure(&world).await;
    drop(stream);
    let world = world.restarted();
    let errors = vec![(ErrorType::Internal, ErrorStrategy::AskPerson)];
    world.engine.set_rules(settings(ToolSettings { errors, ..ToolSettings::default() }));
    assert_eq!(world.pending().await.len(), 1);
    world.answer(chosen(&id, Some("retry"))).await.unwrap();
    let mut stream = world.follow().await.unwrap();
    // It fails again, which is another question.
    while world.pending().await.is_empty() || world.pending().await[0].starts_with(&format!("{id} ")) {
        tokio::task::yield_now().await;
    }
    let second = world.pending().await[0].split(' ').next().unwrap().to_owned();
    assert!(world.answer(chosen(&id, Some("stop"))).await.is_err(), "the first question is over");
    world.engine.set_rules(Rules { policy: Arc::new(AskOrDeny(false)), ..Rules::default() });
    world.answer(chosen(&second, Some("retry"))).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(states(&world.messages().await[1]), ["run denied"], "a retry never gets round a rule");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_person_has_run_again_has_another_idempotency_key() {
    let world = World::new();
    let errors = vec![(ErrorType::Internal, ErrorStrategy::AskPerson)];
    world.engine.set_rules(settings(ToolSettings { errors, ..ToolSettings::default() }));
    world.script([calls(&[("run", json!({"does": "fails", "logs": "its key"}))]), text("Well.")]);
    let mut stream = world.post_text("go").await;
    for choice in ["retry", "go_on"] {
        while world.pending().await.is_empty() {
            assert!(stream.read_more().await);
        }
        let id = world.pending().await[0].split(' ').next().unwrap().to_owned();
        world.answer(chosen(&id, Some(choice))).await.unwrap();
    }
    stream.read_to_end().await;
    let failed = stream.find("tool-output-error")["toolCallId"].as_str().unwrap().to_owned();
    world.script([text("Well.")]);
    let mut again = retry(&world, &failed).await.unwrap();
    let asked = again.read_until("tool-approval-request").await;
    world.answer(decision(&asked, true)).await.unwrap();
    while world.pending().await.is_empty() {
        assert!(again.read_more().await);
    }
    let log = world.tool_log.lock().unwrap().clone();
    let keys: BTreeSet<&str> = log.iter().filter_map(|line| line.strip_prefix("has ")).collect();
    assert_eq!(keys.len(), 3, "a run, a retry and a retry as a new call: {log:?}");
}

/// Allows every call.
struct AllowAll;

impl Policy for AllowAll {
    fn decide(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        PolicyDecision { decision: Decision::Allow, ..DefaultPolicy.decide(requester, tool, input) }
    }
}

/// Asks about `run` and allows all others.
struct AskAboutRun;

impl Policy for AskAboutRun {
    fn decide(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        let decision = if tool.name == "run" { Decision::Ask } else { Decision::Allow };
        PolicyDecision { decision, ..DefaultPolicy.decide(requester, tool, input) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_goes_by_the_newest_rules() {
    let world = World::new();
    world.engine.set_rules(Rules { policy: Arc::new(AskAboutRun), ..falls_back("note", None) });
    world.script([failing(), text("Well.")]);
    let mut stream = world.post_text("go").await;
    let call = stream.read_until("tool-approval-request").await;
    world.engine.set_rules(falls_back("note", None));
    world.answer(decision(&call, true)).await.unwrap();
    stream.read_until("tool-output-error").await;
    while stream.types().matches("tool-approval-request").count() < 2 {
        assert!(stream.read_more().await, "the newest rules ask about the note: {}", stream.types());
    }
    let asked = stream.chunks.iter().rfind(|chunk| chunk["type"] == "tool-approval-request").unwrap();
    let asked = asked["toolCallId"].as_str().unwrap().to_owned();
    world.answer(decision(&asked, false)).await.unwrap();
    stream.read_to_end().await;
    assert_eq!(states(&world.messages().await[1]), ["run the input asks for it", "note denied"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_got_its_resource_has_a_fallback() {
    let world = World::new();
    let of_note = ToolSettings {
        fallback: Some(Fallback { tool: "run".into(), input: None }),
        ..ToolSettings::default()
    };
    let rules = Rules {
        policy: Arc::new(AllowAll),
        tools: vec![(Pattern::new("note"), of_note)],
        ..Rules::default()
    };
    world.engine.set_rules(rules);
    let holds = calls(&[("note", json!({"does": "asks"})), ("note", json!({"as": "second"}))]);
    world.script([holds, text("Well.")]);
    let mut stream = world.post_text("go").await;
    stream.read_to_end().await;
    let states = states(&world.messages().await[1]);
    assert!(states.iter().any(|state| state.contains("Other calls used notes")), "{states:?}");
    assert_eq!(states.last().unwrap(), "run output", "{states:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_is_told_which_call_was_made_in_place_of_which() {
    let world = World::new();
    world.engine.set_rules(Rules { policy: Arc::new(AllowAll), ..falls_back("note", None) });
    world.script([failing(), text("Well.")]);
    let body = json!({
        "id": world.chat.as_str(),
        "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "go"}]}],
        "fermata": {"show": ["call"]},
    });
    let mut stream = world.post(body).await;
    stream.read_to_end().await;
    let failed = stream.find("tool-output-error")["toolCallId"].as_str().unwrap().to_owned();
    let calls = stream.find("finish")["messageMetadata"]["calls"].clone();
    let fallbacks: Vec<&Value> =
        calls.as_object().unwrap().values().filter(|call| call["fallbackOf"] == failed.as_str()).collect();
    assert_eq!(fallbacks.len(), 1, "{calls}");
    assert_eq!(calls[&failed]["errorType"], "internal");
    assert!(stream.types().contains("data-call"));
}

#[tokio::test(start_paused = true)]
async fn an_empty_output_is_looked_for_again_if_the_settings_say_so() {
    let world = World::new();
    let tool = ToolSettings {
        empty: Some("input.found".into()),
        errors: vec![(ErrorType::EmptyResult, ErrorStrategy::Retry)],
        repeatable: Some(true),
        ..ToolSettings::default()
    };
    world.engine.set_rules(settings(tool));
    world.script([calls(&[("run", json!({"found": []})), ("run", json!({"found": [1]}))]), text("Nothing.")]);
    let mut stream = world.post_text("go").await;
    stream.read_to_end().await;
    let begins = world.tool_log.lock().unwrap().iter().filter(|line| line.starts_with("begins")).count();
    assert_eq!(begins, 4, "three times for the empty one, once for the other");
    let calls_of = stream.find("finish")["messageMetadata"]["calls"].clone();
    let empty = calls_of.as_object().unwrap().values().find(|call| call["errorType"] == "empty_result");
    let empty = empty.unwrap_or_else(|| panic!("{calls_of}"));
    assert_eq!((&empty["attempts"], &empty["strategy"]), (&json!(3), &json!("retry")));
}

#[tokio::test(start_paused = true)]
async fn a_fallback_takes_none_of_the_models_requests() {
    let world = World::new();
    world.engine.set_rules(Rules { policy: Arc::new(AllowAll), ..falls_back("note", None) });
    // The limit of a run is 5 requests.
    for _ in 0..4 {
        world.script([failing()]);
    }
    world.script([text("That is what is done.")]);
    let mut stream = world.post_text("go").await;
    stream.read_to_end().await;
    assert_eq!(stream.text(), "That is what is done.", "the last of 5 requests is the one without tools");
    let states = states(&world.messages().await[1]);
    assert_eq!(states.iter().filter(|state| state.starts_with("note")).count(), 4, "{states:?}");
}

#[tokio::test(start_paused = true)]
async fn the_model_is_sent_no_two_answers_in_a_row_after_a_call_was_made_again() {
    let world = World::new();
    world.script([failing(), text("Sorry.")]);
    let mut first = world.post_text("go").await;
    first.read_to_end().await;
    let failed = first.find("tool-output-error")["toolCallId"].as_str().unwrap().to_owned();
    world.script([text("Again.")]);
    let mut again = retry(&world, &failed).await.unwrap();
    approve(&world, &mut again).await;
    again.read_to_end().await;
    let requests = world.model.requests.lock().unwrap();
    let messages = &requests.last().unwrap().messages;
    let is_answer = |message: &ModelMessage| matches!(message, ModelMessage::Assistant { .. });
    assert!(messages.windows(2).all(|pair| !pair.iter().all(is_answer)), "{messages:?}");
    let said = messages.iter().any(|message| {
        matches!(message, ModelMessage::Assistant { text, calls, .. } if text == "Sorry." && calls.len() == 1)
    });
    assert!(said, "{messages:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_an_edit_has_dropped_is_not_made_again() {
    let world = World::new();
    world.script([failing(), text("Sorry.")]);
    let mut first = world.post_text("go").await;
    first.read_to_end().await;
    let failed = first.find("tool-output-error")["toolCallId"].as_str().unwrap().to_owned();
    let said = world.messages().await[0].id.clone();
    world.script([text("Well.")]);
    let body = json!({
        "id": world.chat.as_str(),
        "messageId": said.as_str(),
        "messages": [{"id": said.as_str(), "role": "user", "parts": [{"type": "text", "text": "other"}]}],
    });
    world.post(body).await.read_to_end().await;
    assert_eq!(world.messages().await.len(), 2);
    assert!(matches!(retry(&world, &failed).await, Err(SubmitError::NoSuchCall)));
}

#[tokio::test(start_paused = true)]
async fn what_its_tool_has_refused_is_not_made_again() {
    let world = World::new();
    world.engine.set_rules(falls_back("note", None));
    world.script([calls(&[("run", json!({"confirm": "deny"}))]), text("Sorry.")]);
    let mut first = world.post_text("go").await;
    first.read_to_end().await;
    let refused = first.find("tool-output-error")["toolCallId"].as_str().unwrap().to_owned();
    assert!(matches!(retry(&world, &refused).await, Err(SubmitError::NotFailed(_))));
    assert_eq!(states(&world.messages().await[1]).len(), 1, "nor does it have a fallback");
}
