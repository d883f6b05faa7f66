//! Messages such as "yes", which decide about the calls that wait for a person.

use std::{sync::Arc, time::Duration};

use fermata_engine::{Hold, Rules, SubmitError};
use fermata_protocol::{ToolState, UiMessage, UiPart};
use fermata_tools::{
    ApprovalTerms, Decision, DefaultPolicy, GateMode, Pattern, Policy, PolicyDecision, Principal, Rule,
    RulePolicy, ToolSpec,
};
use serde_json::{Value, json};

use crate::world::{World, calls, text};

fn words(message: &UiMessage) -> String {
    message.parts.iter().filter_map(UiPart::as_text).collect()
}

fn outcomes(message: &UiMessage) -> Vec<&'static str> {
    let name = |state: &ToolState| match state {
        ToolState::OutputAvailable { .. } => "output",
        ToolState::OutputError { .. } => "error",
        ToolState::OutputDenied { .. } => "denied",
        _ => "open",
    };
    message.parts.iter().filter_map(UiPart::as_tool).map(|part| name(&part.state)).collect()
}

/// A chat whose model has called `note` twice, and the first reader.
async fn asked(world: &World) -> crate::world::StreamReader {
    world.script([calls(&[("note", json!({"as": "a"})), ("note", json!({"as": "b"}))]), text("Very well.")]);
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-approval-request").await;
    stream.read_until("tool-approval-request").await;
    stream
}

#[tokio::test(start_paused = true)]
async fn a_word_decides_about_all_calls_and_the_answer_is_a_new_message() {
    for (said, outcome) in [("Yes!", "output"), ("no", "denied")] {
        let world = World::new();
        let mut first = asked(&world).await;
        let mut second = world.say(said).await;
        second.read_to_end().await;
        first.read_to_end().await;
        assert_eq!(
            (second.text(), first.text()),
            ("Very well.".into(), String::new()),
            "{:?}",
            second.chunks
        );
        assert!(first.types().ends_with("abort"), "{}", first.types());
        assert_ne!(first.find("start")["messageId"], second.find("start")["messageId"]);
        let messages = world.messages().await;
        assert_eq!(messages.len(), 4);
        assert_eq!(outcomes(&messages[1]), [outcome; 2]);
        assert_eq!([words(&messages[2]), words(&messages[3])], [said, "Very well."]);
        assert!(world.pending().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn it_works_after_a_restart_and_after_the_stream_was_let_go() {
    let world = World::new();
    drop(asked(&world).await);
    let world = world.restarted();
    let mut stream = world.say("yes").await;
    stream.read_to_end().await;
    assert_eq!(stream.text(), "Very well.");
    assert_eq!(outcomes(&world.messages().await[1]), ["output"; 2]);

    let world = World::with_hold(Hold::For(Duration::ZERO));
    let mut first = asked(&world).await;
    first.read_to_end().await;
    assert!(world.follow().await.is_none(), "the stream was let go");
    let mut stream = world.say("ok").await;
    stream.read_to_end().await;
    assert_eq!(stream.text(), "Very well.");
    let messages = world.messages().await;
    assert_eq!((messages.len(), outcomes(&messages[1])), (4, vec!["output"; 2]));
}

/// A chat with a waiting call that does this once it is approved.
async fn asked_to(world: &World, does: &str) -> crate::world::StreamReader {
    world.script([calls(&[("note", json!({"as": "a", "does": does}))]), text("Then this.")]);
    let mut stream = world.post_text("go").await;
    stream.read_until("tool-approval-request").await;
    stream
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_approved_in_words_and_is_cut_off_has_its_outcome_in_the_earlier_message() {
    let world = World::new();
    let _first = asked_to(&world, "hangs").await;
    let mut second = world.say("yes").await;
    second.read_until("start").await;
    assert_eq!(world.open_run().unwrap().calls.len(), 1, "the new run has the call");
    let world = world.restarted();
    // The run may be over before anybody follows it.
    if let Some(mut stream) = world.follow().await {
        stream.read_to_end().await;
    }
    let messages = world.messages().await;
    assert_eq!(outcomes(&messages[1]), ["error"]);
    assert_eq!((words(&messages[2]), words(&messages[3])), ("yes".into(), "Then this.".into()));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_can_be_stopped_and_superseded() {
    for stops in [true, false] {
        let world = World::new();
        let _first = asked_to(&world, "hangs").await;
        let mut second = world.say("yes").await;
        second.read_until("start").await;
        if stops {
            world.engine.stop(&world.owner, &world.chat).await.unwrap();
        } else {
            world.post_text("Never mind, what time is it?").await.read_to_end().await;
        }
        second.read_to_end().await;
        let messages = world.messages().await;
        assert_eq!(outcomes(&messages[1]), ["error"], "{messages:?}");
        assert_eq!(words(&messages[2]), "yes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_decides_nothing_while_a_page_or_a_reply_to_a_tool_is_waited_for() {
    for others in [vec![("where", json!({}))], vec![("run", json!({"does": "asks"}))]] {
        let world = World::new();
        let mut made = vec![("note", json!({}))];
        made.extend(others);
        world.script([calls(&made), text("What?")]);
        if made[1].0 == "run" {
            world.engine.set_rules(Rules { gate: GateMode::Progressive, ..Rules::default() });
        }
        let mut first = world.post_text("go").await;
        first.read_until("tool-approval-request").await;
        if made[1].0 == "run" {
            first.read_until("data-elicitation").await;
        }
        let mut second = world.say("yes").await;
        second.read_to_end().await;
        assert_eq!(second.text(), "What?");
        assert_eq!(outcomes(&world.messages().await[1])[0], "error", "superseded, and never run");
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_without_a_call_that_waits_is_a_message_like_any_other() {
    let world = World::new();
    let mut first = asked(&world).await;
    world.say("yes").await.read_to_end().await;
    first.read_to_end().await;
    world.script([text("Yes what?")]);
    let mut again = world.say("yes").await;
    again.read_to_end().await;
    assert_eq!((again.text(), world.messages().await.len()), ("Yes what?".into(), 6));
}

#[tokio::test(start_paused = true)]
async fn the_newest_rules_have_the_last_word() {
    let world = World::new();
    let _first = asked(&world).await;
    world.engine.set_rules(Rules { policy: Arc::new(NoNotes), ..Rules::default() });
    let mut second = world.say("yes").await;
    second.read_to_end().await;
    assert_eq!(outcomes(&world.messages().await[1]), ["denied"; 2]);
    assert!(world.tool_log.lock().unwrap().is_empty(), "nothing has run");
}

struct NoNotes;

impl Policy for NoNotes {
    fn decide(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        PolicyDecision { decision: Decision::Deny, ..DefaultPolicy.decide(requester, tool, input) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_accepted_in_words_and_goes_on_in_the_new_message() {
    let world = World::new();
    let plan = json!({"goal": "g", "steps": [{"id": "s1", "title": "One"}]});
    world.script([
        calls(&[("make_plan", plan)]),
        calls(&[("update_plan", json!({"id": "s1", "state": "done"}))]),
        text("Done."),
    ]);
    let options = json!({"plan": "ask", "show": ["plan"]});
    let body = |words: &str, decides: Value| {
        let mut body = json!({"id": world.chat.as_str(), "message": {"role": "user", "content": words}, "fermata": options});
        body["fermata"]["decides"] = decides;
        body
    };
    let mut first = world.post(body("Compare them and write me a letter.", Value::Null)).await;
    first.read_until("tool-approval-request").await;
    let mut second = world.post(body("yes", json!(world.waiting_approvals().await))).await;
    second.read_to_end().await;
    assert_eq!(second.text(), "Done.", "{:?}", second.chunks);
    let states: Vec<&Value> = second
        .chunks
        .iter()
        .filter(|chunk| chunk["type"] == "data-plan")
        .map(|chunk| &chunk["data"]["state"])
        .collect();
    assert_eq!(states, ["accepted", "done"]);
    assert_eq!(outcomes(&world.messages().await[1]), ["output"]);
}

/// The post of a page that shows these parts in the last message of the assistant.
fn post_of_page(world: &World, words: &str, parts: &[Value]) -> Value {
    json!({"id": world.chat.as_str(), "messages": [
        {"id": "u", "role": "user", "parts": [{"type": "text", "text": "go"}]},
        {"id": "a", "role": "assistant", "parts": parts},
        {"role": "user", "parts": [{"type": "text", "text": words}]},
    ]})
}

/// A call as a page of version 6 or 7 shows it.
fn call(id: &str, state: &str, approved: Option<bool>) -> Value {
    let mut approval = json!({ "id": id });
    if let Some(approved) = approved {
        approval["approved"] = approved.into();
    }
    json!({"type": "tool-note", "toolCallId": format!("call-of-{id}"), "state": state, "input": {}, "output": 1, "errorText": "no", "approval": approval})
}

/// A call as a page of version 5 shows it, with the approval beside it.
fn call_of_v5(id: &str, state: &str) -> [Value; 2] {
    let call_id = format!("call-of-{id}");
    [
        json!({"type": "tool-note", "toolCallId": call_id, "state": state, "input": {}, "output": 1}),
        json!({"type": "data-tool-approval", "id": id, "data": {"approvalId": id, "toolCallId": call_id, "toolName": "note"}}),
    ]
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Decides,
    IsStale,
    IsAMessage,
}

#[tokio::test(start_paused = true)]
async fn a_word_decides_only_about_exactly_what_its_sender_was_shown() {
    use Outcome::{Decides, IsAMessage, IsStale};
    let requested = |id: &str| call(id, "approval-requested", None);
    for (what, post, outcome) in [
        ("decides names both", None, Decides),
        ("decides names one", Some(json!([0])), IsStale),
        ("decides names none", Some(json!([])), IsStale),
        ("decides names another", Some(json!([0, 1, "appr_other"])), IsStale),
        ("decides names both in another order", Some(json!([1, 0])), Decides),
    ] {
        let world = World::new();
        let mut first = asked(&world).await;
        let ids = world.waiting_approvals().await;
        let decides = match post {
            None => json!(ids),
            Some(shown) => shown
                .as_array()
                .unwrap()
                .iter()
                .map(|shown| match shown.as_u64() {
                    Some(index) => json!(ids[usize::try_from(index).unwrap()]),
                    None => shown.clone(),
                })
                .collect(),
        };
        let body = json!({"id": world.chat.as_str(), "message": {"role": "user", "content": "yes"}, "fermata": {"decides": decides}});
        assert_eq!(outcome_of(&world, body, &ids).await, outcome, "{what}");
        first.read_to_end().await;
    }
    type Parts = fn(&[String], &dyn Fn(&str) -> Value) -> Vec<Value>;
    let histories: [(&str, Parts, Outcome); 9] = [
        ("both are requested", |ids, requested| vec![requested(&ids[0]), requested(&ids[1])], Decides),
        ("one is requested", |ids, requested| vec![requested(&ids[0])], IsStale),
        (
            "an older one is requested as well",
            |ids, requested| vec![requested(&ids[0]), requested(&ids[1]), requested("appr_old")],
            IsStale,
        ),
        ("an older one alone is requested", |_, requested| vec![requested("appr_old")], IsStale),
        (
            "both are denied",
            |ids, _| ids.iter().map(|id| call(id, "approval-responded", Some(false))).collect(),
            IsAMessage,
        ),
        (
            "both have run",
            |ids, _| ids.iter().map(|id| call(id, "output-available", Some(true))).collect(),
            IsAMessage,
        ),
        ("nothing is shown", |_, _| vec![json!({"type": "text", "text": "I wait."})], IsAMessage),
        (
            "both are shown as version 5 does",
            |ids, _| ids.iter().flat_map(|id| call_of_v5(id, "input-available")).collect(),
            Decides,
        ),
        (
            "version 5 shows them as settled",
            |ids, _| ids.iter().flat_map(|id| call_of_v5(id, "output-available")).collect(),
            IsAMessage,
        ),
    ];
    for (what, parts, outcome) in histories {
        let world = World::new();
        let mut first = asked(&world).await;
        let ids = world.waiting_approvals().await;
        let body = post_of_page(&world, "yes", &parts(&ids, &requested));
        assert_eq!(outcome_of(&world, body, &ids).await, outcome, "{what}");
        first.read_to_end().await;
    }
}

/// Posts while two calls wait, and returns the effects.
async fn outcome_of(world: &World, body: Value, waiting: &[String]) -> Outcome {
    match world.try_post(body, None).await {
        Ok(following) => {
            crate::world::StreamReader::new(following.reader).read_to_end().await;
            let is_decided = outcomes(&world.messages().await[1]) == ["output"; 2];
            assert_eq!(is_decided, !world.tool_log.lock().expect("the log of the tools").is_empty());
            if is_decided { Outcome::Decides } else { Outcome::IsAMessage }
        }
        Err(SubmitError::DecisionIsStale { waiting: told }) => {
            let told: Vec<String> = told.iter().map(ToString::to_string).collect();
            assert_eq!(told, waiting, "the error says what waits");
            assert_eq!(world.waiting_approvals().await, waiting, "and nothing has happened");
            world.engine.stop(&world.owner, &world.chat).await.expect("a stop");
            Outcome::IsStale
        }
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_about_calls_that_wait_no_longer_is_stale() {
    let world = World::new();
    let mut first = asked(&world).await;
    let ids = world.waiting_approvals().await;
    world.say("yes").await.read_to_end().await;
    first.read_to_end().await;
    let late = post_of_page(&world, "ok", &[call(&ids[0], "approval-requested", None)]);
    let refused = world.try_post(late, None).await.err();
    assert!(matches!(refused, Some(SubmitError::DecisionIsStale { waiting }) if waiting.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_second_word_does_not_decide_about_a_question_that_followed_the_first() {
    let world = World::new();
    world.script([
        calls(&[("note", json!({"as": "a"}))]),
        calls(&[("note", json!({"as": "b"}))]),
        text("Done."),
    ]);
    let mut first = world.post_text("go").await;
    first.read_until("tool-approval-request").await;
    let ids = world.waiting_approvals().await;
    let words = |id: &str| {
        json!({
            "id": world.chat.as_str(), "message": {"id": id, "role": "user", "content": "yes"}, "fermata": {"decides": ids},
        })
    };
    let mut second = world.post(words("u1")).await;
    second.read_until("tool-approval-request").await;
    let refused = world.try_post(words("u2"), None).await.err();
    assert!(matches!(refused, Some(SubmitError::DecisionIsStale { .. })), "{refused:?}");
    assert_eq!(world.waiting_approvals().await.len(), 1);
    world.engine.stop(&world.owner, &world.chat).await.unwrap();
    first.read_to_end().await;
    second.read_to_end().await;
}

#[tokio::test(start_paused = true)]
async fn words_beside_something_else_and_a_regeneration_decide_nothing() {
    for (what, body) in [
        (
            "a quote",
            json!({"message": {"role": "user", "parts": [{"type": "data-quote", "data": "delete all?"}, {"type": "text", "text": "yes"}]}}),
        ),
        (
            "two texts",
            json!({"message": {"role": "user", "parts": [{"type": "text", "text": "ye"}, {"type": "text", "text": "s"}]}}),
        ),
        (
            "a regeneration",
            json!({"trigger": "regenerate-message", "message": {"id": "lost", "role": "user", "content": "yes"}}),
        ),
    ] {
        let world = World::new();
        let mut first = asked(&world).await;
        let ids = world.waiting_approvals().await;
        let mut body = body;
        body["id"] = world.chat.as_str().into();
        body["fermata"] = json!({ "decides": ids });
        assert_eq!(outcome_of(&world, body, &ids).await, Outcome::IsAMessage, "{what}");
        first.read_to_end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_decides_nothing_about_a_call_whose_rule_takes_no_words() {
    let rule = Rule {
        tool: Some(Pattern::new("note")),
        terms: ApprovalTerms { words: Some(false), ..ApprovalTerms::default() },
        ..Rule::of_every_call(Decision::Ask)
    };
    let policy = RulePolicy { rules: vec![rule], ..RulePolicy::default() };
    let world = World::new();
    world.engine.set_rules(Rules { policy: Arc::new(policy), ..Rules::default() });
    let mut first = asked(&world).await;
    let mut second = world.say("yes").await;
    second.read_to_end().await;
    first.read_to_end().await;
    assert_eq!(outcomes(&world.messages().await[1]), ["error"; 2], "superseded, as by any message");
    assert!(world.tool_log.lock().unwrap().is_empty());
}
