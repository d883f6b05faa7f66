//! `data-call`: clients that ask for it receive the states of calls, and others receive nothing.

use fermata_tools::ChainMode;

use super::*;

/// Returns the states of the calls so far, in order: the call, its state, and the reason of its wait.
fn said(play: &Play) -> Vec<String> {
    let mut said = Vec::new();
    for (_, chunk) in &play.log {
        let UiChunk::Data(DataChunk { kind, id: None, data, transient: Some(true) }) = chunk else {
            continue;
        };
        assert_eq!(kind, "data-call");
        let mut words = vec![data["toolCallId"].as_str().unwrap(), data["state"].as_str().unwrap()];
        words.extend(data["waitsFor"].as_str());
        words.extend(data["resource"].as_str());
        words.extend(data["heldBy"].as_str());
        words.extend(data["reasonCode"].as_str());
        said.push(words.join(" "));
    }
    said
}

fn play() -> Play {
    let mut play = Play::new();
    play.run.state.show.insert(Show::Call);
    play
}

#[test]
fn a_call_says_that_it_waits_for_a_person_or_for_the_gate() {
    let mut play = play();
    play.calls(&[("time", "{}"), ("note", "{}"), ("where", r#"{"n":1}"#)]);
    assert_eq!(
        said(&play),
        [
            "call_1 validating",
            "call_2 validating",
            "call_3 validating",
            "call_1 scheduled gate",
            "call_2 awaiting_approval person default",
            "call_3 scheduled gate",
        ]
    );
    play.log.clear();
    play.answer(vec![decision("call_2", true)]);
    assert_eq!(said(&play), ["call_1 executing", "call_2 executing", "call_3 executing page"]);
    play.log.clear();
    play.settle("call_1", Ok(json!(1))).settle("call_2", Err("no"));
    play.answer(vec![output("call_3", json!(1))]);
    assert_eq!(said(&play), ["call_1 success", "call_2 error", "call_3 success"]);
    let position = |wanted: &dyn Fn(&UiChunk) -> bool| play.log.iter().position(|(_, chunk)| wanted(chunk));
    let last = position(&|chunk| matches!(chunk, UiChunk::Data(data) if data.data["toolCallId"] == "call_3"));
    assert!(last < position(&|chunk| *chunk == UiChunk::FinishStep), "nothing is said after the step");
}

#[test]
fn only_a_call_that_another_one_locks_out_waits_for_the_resource() {
    let mut play = play();
    play.calls(&[("file", r#"{"n":1}"#), ("file", r#"{"n":1}"#)]).grant_lock("call_1");
    assert_eq!(said(&play)[2..], ["call_1 executing", "call_2 scheduled resource 1 call_1"]);
}

#[test]
fn a_resource_that_no_call_of_the_step_uses_is_held_elsewhere() {
    let mut play = play();
    play.calls(&[("file", r#"{"n":1}"#)]);
    let queued = Admission::Queued(Wait::Resource);
    play.apply("queued", Event::Admission(vec![(ToolCallId::new("call_1"), queued)]));
    assert_eq!(said(&play).last().unwrap(), "call_1 scheduled resource 1");
}

#[test]
fn what_asks_about_a_call_has_a_code_in_its_status_and_in_the_question() {
    let mut play = play();
    play.scene.rules.chain = ChainMode::Ask;
    play.calls(&[("time", "{}"), ("time", "{}")]);
    assert_eq!(said(&play).last().unwrap(), "call_2 awaiting_approval person chain");
    let questions = play.log.iter().filter_map(|(_, chunk)| match chunk {
        UiChunk::ToolApprovalRequest { approval_descriptor, reason, .. } => {
            Some((approval_descriptor.clone().unwrap()["reasonCode"].clone(), reason.clone()))
        }
        _ => None,
    });
    let reason = Some("it is not the first call of the turn".to_owned());
    assert_eq!(questions.collect::<Vec<_>>(), [(json!("chain"), reason)]);
}

#[test]
fn only_a_call_that_may_not_run_yet_waits_for_capacity() {
    let mut play = play();
    play.scene.limits.running_calls = std::num::NonZeroUsize::new(1);
    play.calls(&[("time", "{}"), ("again", "{}")]);
    let call = ToolCallId::new;
    let admissions =
        vec![(call("call_1"), Admission::Granted), (call("call_2"), Admission::Queued(Wait::Capacity))];
    play.apply("admission", Event::Admission(admissions));
    assert_eq!(said(&play)[2..], ["call_1 executing", "call_2 scheduled capacity"]);
}

#[test]
fn a_stopped_call_is_cancelled_before_the_end() {
    let mut play = play();
    play.calls(&[("where", r#"{"n":1}"#)]).apply("stopped", Event::Ended(Ending::Stopped));
    assert_eq!(said(&play).last().unwrap(), "call_1 cancelled");
    assert!(matches!(play.log.last().unwrap().1, UiChunk::Finish { .. }));
}

#[test]
fn a_client_that_does_not_ask_is_told_nothing() {
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("note", "{}")]).answer(vec![decision("call_2", true)]);
    assert_eq!(said(&play), [""; 0]);
}

#[test]
fn what_is_shown_is_saved_with_the_run_and_earlier_versions_have_not_saved_it() {
    let mut state = serde_json::to_value(&play().run.state).unwrap();
    assert_eq!(state["show"], json!(["call"]));
    state.as_object_mut().unwrap().remove("show");
    let earlier: RunState = serde_json::from_value(state).unwrap();
    assert!(earlier.show.is_empty());
    assert!(!serde_json::to_string(&earlier).unwrap().contains("show"));
}
