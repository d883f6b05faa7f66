//! Messages such as "yes", which decide about the calls that wait for a person.

use std::{sync::Arc, time::Duration};

use fermata_engine::{Hold, Rules};
use fermata_protocol::{ToolState, UiMessage, UiPart};
use fermata_tools::{Decision, DefaultPolicy, GateMode, Owner, Policy, PolicyDecision, ToolSpec};
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

/// A chat in which the model has called `note` twice, and the first reader.
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
        let mut second = world.post_text(said).await;
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
    let mut stream = world.post_text("yes").await;
    stream.read_to_end().await;
    assert_eq!(stream.text(), "Very well.");
    assert_eq!(outcomes(&world.messages().await[1]), ["output"; 2]);

    let world = World::with_hold(Hold::For(Duration::ZERO));
    let mut first = asked(&world).await;
    first.read_to_end().await;
    assert!(world.follow().await.is_none(), "the stream was let go");
    let mut stream = world.post_text("ok").await;
    stream.read_to_end().await;
    assert_eq!(stream.text(), "Very well.");
    let messages = world.messages().await;
    assert_eq!((messages.len(), outcomes(&messages[1])), (4, vec!["output"; 2]));
}

/// A chat in which a call waits that does this once it is approved.
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
    let mut second = world.post_text("yes").await;
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
        let mut second = world.post_text("yes").await;
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
async fn a_word_decides_nothing_while_a_page_or_an_answer_is_waited_for() {
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
        let mut second = world.post_text("yes").await;
        second.read_to_end().await;
        assert_eq!(second.text(), "What?");
        assert_eq!(outcomes(&world.messages().await[1])[0], "error", "superseded, and never run");
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_without_a_call_that_waits_is_a_message_like_any_other() {
    let world = World::new();
    let mut first = asked(&world).await;
    world.post_text("yes").await.read_to_end().await;
    first.read_to_end().await;
    world.script([text("Yes what?")]);
    let mut again = world.post_text("yes").await;
    again.read_to_end().await;
    assert_eq!((again.text(), world.messages().await.len()), ("Yes what?".into(), 6));
}

#[tokio::test(start_paused = true)]
async fn the_newest_rules_have_the_last_word() {
    let world = World::new();
    let _first = asked(&world).await;
    world.engine.set_rules(Rules { policy: Arc::new(NoNotes), ..Rules::default() });
    let mut second = world.post_text("yes").await;
    second.read_to_end().await;
    assert_eq!(outcomes(&world.messages().await[1]), ["denied"; 2]);
    assert!(world.tool_log.lock().unwrap().is_empty(), "nothing has run");
}

struct NoNotes;

impl Policy for NoNotes {
    fn decide(&self, owner: &Owner, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        PolicyDecision { decision: Decision::Deny, ..DefaultPolicy.decide(owner, tool, input) }
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
    let body = |words: &str| json!({"id": world.chat.as_str(), "message": {"role": "user", "content": words}, "fermata": options});
    let mut first = world.post(body("Compare them and write me a letter.")).await;
    first.read_until("tool-approval-request").await;
    let mut second = world.post(body("yes")).await;
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
