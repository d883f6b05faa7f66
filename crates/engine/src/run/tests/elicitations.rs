//! The questions that running tools ask the user.

use fermata_protocol::{ElicitAction, ElicitationId, UiPart};
use fermata_tools::{Check, ElicitationReply};

use super::*;
use crate::run_tools::{self, Offer};

fn elicited(id: &str, action: ElicitAction, content: Option<Value>) -> Answer {
    Answer {
        of: AnswerTarget::Elicitation(ElicitationId::new(id)),
        kind: AnswerKind::Elicited { action, content },
    }
}

#[test]
fn a_question_of_a_tool_is_parked_like_a_call() {
    let mut play = Play::new();
    play.calls(&[("time", "{}")]);
    play.transcript.clear();
    play.asks("call_1");
    assert!(play.run.is_waiting() && play.run.hold_ends().is_some() && play.run.expires().is_some());
    let wrong = play.schema_errors(&[elicited("elic_2", ElicitAction::Accept, Some(json!({"size": "big"})))]);
    assert!(wrong.contains("size"), "{wrong}");
    let missing = play.schema_errors(&[elicited("elic_2", ElicitAction::Accept, None)]);
    assert!(missing.contains("size"), "{missing}");
    let other = play.refusal(&[output("call_1", json!(1))]);
    assert!(matches!(other, Rejected::Refused { refusal: fermata_tools::Refusal::WrongAnswer, .. }));
    play.answer(vec![elicited("elic_2", ElicitAction::Accept, Some(json!({"size": 3})))]);
    assert!(!play.run.is_waiting() && play.run.hold_ends().is_none());
    play.answer(vec![elicited("elic_2", ElicitAction::Accept, Some(json!({"size": 3})))]);
    let changed = play.refusal(&[elicited("elic_2", ElicitAction::Decline, None)]);
    assert!(matches!(changed, Rejected::Refused { refusal: fermata_tools::Refusal::AlreadyAnswered, .. }));
    play.settle("call_1", Ok(json!("noon"))).check(expect![[r#"
        > call_1 asks
        save
        park elic_2
        data-elicitation pending
        > answered elic_2 Accept Some(Object {"size": Number(3)})
        save
        release elic_2
        data-elicitation accepted
        reply elic_2 Accept(Object {"size": Number(3)})
        > answered elic_2 Accept Some(Object {"size": Number(3)})
        > settled call_1
        save
        tool-output-available call_1 noon
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn a_question_ends_with_its_call_and_with_the_run() {
    let gone = |play: &Play, id: &str| {
        let refused = play.refusal(&[elicited(id, ElicitAction::Decline, None)]);
        assert!(matches!(refused, Rejected::Refused { refusal: fermata_tools::Refusal::Gone, .. }));
    };
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("time", "{}")]);
    play.transcript.clear();
    play.asks("call_1").asks("call_2").settle("call_1", Err("it broke"));
    gone(&play, "elic_3");
    play.end(Ending::Stopped);
    gone(&play, "elic_4");
    play.check(expect![[r#"
        > call_1 asks
        save
        park elic_3
        data-elicitation pending
        > call_2 asks
        save
        park elic_4
        data-elicitation pending
        > settled call_1
        save
        release elic_3
        data-elicitation cancelled
        message-metadata {"call_1":{"state":"error","code":"internal"}}
        tool-output-error call_1 it broke
        reply elic_3 Cancel
        > stopped
        save
        release elic_4
        data-elicitation cancelled
        message-metadata {"call_2":{"state":"cancelled","code":"stopped"}}
        tool-output-error call_2 Cancelled: the run was stopped before the call had a result.
        finish-step
        start-step
        finish-step
        abort
        finish other
        reply elic_4 Cancel
        over: stopped
    "#]]);
}

#[test]
fn a_question_that_may_be_of_several_calls_lives_as_long_as_one_of_them() {
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("time", "{}")]);
    play.transcript.clear();
    let asked = Elicitation { other_candidates: vec![ToolCallId::new("call_1")], ..question() };
    play.apply("call_2 asks, or call_1", Event::Elicits(ToolCallId::new("call_2"), asked));
    play.settle("call_2", Ok(json!("noon")));
    assert!(play.run.is_waiting(), "call_1 may be the one that asks");
    play.answer(vec![elicited("elic_3", ElicitAction::Decline, None)]);
    play.settle("call_1", Ok(json!("night"))).check(expect![[r#"
        > call_2 asks, or call_1
        save
        park elic_3
        data-elicitation pending
        > settled call_2
        save
        data-elicitation pending
        tool-output-available call_2 noon
        > answered elic_3 Decline None
        save
        release elic_3
        data-elicitation declined
        reply elic_3 Decline
        > settled call_1
        save
        tool-output-available call_1 night
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn a_question_that_nobody_answers_expires() {
    let mut play = Play::new();
    play.calls(&[("time", "{}")]).asks("call_1");
    play.now = play.run.expires().unwrap();
    assert!(play.run.is_expired(play.now));
    play.transcript.clear();
    play.end(Ending::Expired).check(expect![[r#"
        > expired
        save
        release elic_2
        data-elicitation cancelled
        message-metadata {"call_1":{"state":"cancelled","code":"expired"}}
        tool-output-error call_1 Expired: nobody answered in time, so the call has no result.
        finish-step
        start-step
        finish-step
        finish other
        reply elic_2 Cancel
        over: expired
    "#]]);
}

#[test]
fn a_question_whose_call_blocks_a_resource_times_out_without_ending_the_call() {
    let mut play = Play::new();
    play.calls(&[("file", r#"{"n": 1}"#)]).grant_lock("call_1").asks("call_1");
    play.transcript.clear();
    assert_eq!(play.run.expires(), play.run.first_question_ends());
    play.now = play.run.first_question_ends().expect("it keeps others waiting");
    assert!(!play.run.is_expired(play.now), "the run does not end");
    play.apply("time is over", Event::QuestionTimedOut);
    let gone = play.refusal(&[elicited("elic_2", ElicitAction::Decline, None)]);
    assert!(matches!(gone, Rejected::Refused { refusal: fermata_tools::Refusal::Gone, .. }));
    assert!(!play.run.is_waiting() && play.run.first_question_ends().is_none());
    let part = play.run.snapshot().parts.into_iter().find_map(|part| match part {
        UiPart::Data(part) => Some(part.data),
        _ => None,
    });
    let reason = "nobody answered within 5m, and the call keeps others from a resource (elicit_timeout).";
    assert_eq!(part.unwrap()["reason"], reason);
    play.settle("call_1", Ok(json!("done"))).check(expect![[r#"
        > time is over
        save
        release elic_2
        data-elicitation cancelled
        reply elic_2 Unanswered { reason: "nobody answered within 5m, and the call keeps others from a resource (elicit_timeout)." }
        > settled call_1
        save
        tool-output-available call_1 done
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn a_question_that_may_be_of_a_call_that_blocks_a_resource_times_out_too() {
    let mut play = Play::new();
    play.calls(&[("file", r#"{"n": 1}"#), ("time", "{}")]).grant_lock("call_1");
    let asked = Elicitation { other_candidates: vec![ToolCallId::new("call_1")], ..question() };
    play.apply("call_2 asks, or call_1", Event::Elicits(ToolCallId::new("call_2"), asked));
    assert!(play.run.first_question_ends().is_some());
}

#[test]
fn a_question_over_the_limit_is_refused_with_a_reason() {
    let mut play = Play::new();
    play.scene.limits.parked_calls = 0;
    play.calls(&[("time", "{}")]);
    play.apply("call_1 asks", Event::Elicits(ToolCallId::new("call_1"), question()));
    let Some(Err(ElicitationReply::Unanswered { reason })) = &play.effects.after.elicited else {
        panic!("{:?}", play.effects.after.elicited)
    };
    assert!(reason.contains("max_parked_calls"), "{reason}");
}

#[test]
fn questions_are_withdrawn_when_the_process_has_ended() {
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("note", "{}")]).answer(vec![decision("call_2", false)]).asks("call_1");
    play.transcript.clear();
    play.crash().check(expect![[r#"
        > resumed
        save
        data-elicitation cancelled
        message-metadata {"call_1":{"state":"error","code":"internal"}}
        tool-output-error call_1 The server was restarted while this call ran; it may or may not have had its effect.
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn the_schema_of_a_question_is_checked_itself() {
    assert!(CHECKER.check_here(&Check::of_elicitation(json!({"type": "nonsense"}), json!({}))).is_err());
    assert!(
        CHECKER.check_here(&Check::of_elicitation(question().requested_schema, json!({"size": 1}))).is_ok()
    );
}

#[test]
fn questions_that_a_person_edits_must_be_ones_that_can_be_asked() {
    let mut play = Play::new();
    let mut specs = run_tools::specs(&Offer { plan: PlanMode::Off, asks_user: true, posted: &[] });
    specs[0].policy = Decision::Ask;
    play.scene.toolbox = play.scene.toolbox.with_tools_of_run(specs);
    let questions = |ids: &[&str]| {
        let asked: Vec<Value> =
            ids.iter().map(|id| json!({"id": id, "question": "Which?", "guess": "M"})).collect();
        json!({ "questions": asked })
    };
    play.calls(&[("ask_user", &questions(&["size"]).to_string())]);
    let twice = play.refusal(&[edited("call_1", questions(&["size", "size"]))]);
    assert!(matches!(&twice, Rejected::BadInput(text) if text.contains("\"size\"")), "{twice:?}");
    play.answer(vec![edited("call_1", questions(&["size", "color"]))]);
    let asked: Vec<String> = play.run.elicitations().map(|asked| asked.question.message.clone()).collect();
    assert_eq!(asked, ["Which?\nWhich?"]);
}
