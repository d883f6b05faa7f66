//! What becomes of a call between the model's wish and its outcome: the gate's other modes, lines, reports, questions, repeats.

use fermata_protocol::{ElicitAction, ElicitationId, UiPart};
use fermata_tools::{
    AnswerSchema, ApprovalMode, ChainMode, Elicitation, ElicitationReply, ErrorPolicy, ErrorStrategy,
    ErrorType, GateMode,
};

use super::*;

impl Play {
    fn with(rules: impl FnOnce(Rules) -> Rules) -> Self {
        let mut play = Self::new();
        play.scene.rules = rules(play.scene.rules);
        play
    }

    fn turn(&mut self, call: &str) -> &mut Self {
        self.apply(&format!("turn of {call}"), Event::LockGranted(ToolCallId::new(call)))
    }

    fn asks(&mut self, call: &str) -> &mut Self {
        let event = Event::Elicits(ToolCallId::new(call), question());
        self.apply(&format!("{call} asks"), event);
        assert!(matches!(self.effects.after.elicited, Some(Ok(_))));
        self
    }

    /// What is saved is all that is left.
    fn dies(&mut self) -> &mut Self {
        let saved = SavedRun {
            id: self.run.id.clone(),
            message: self.run.message.clone(),
            settings: self.run.settings.clone(),
            state: serde_json::from_value(serde_json::to_value(&self.run.state).unwrap()).unwrap(),
            calls: serde_json::from_value(serde_json::to_value(&self.run.calls).unwrap()).unwrap(),
            log: self.log.clone(),
        };
        self.run = Run::restore(saved).unwrap();
        self.apply("taken up", Event::Resumed)
    }

    fn history(&self, call: &str) -> String {
        let call = self.run.calls.iter().find(|known| known.id.as_str() == call).unwrap();
        call.history().iter().map(|entered| entered.state.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn ruled(&self) -> Vec<Option<(Decision, DecisionSource)>> {
        let policy_decision = |call: &Call| {
            call.policy_decision
                .as_ref()
                .map(|policy_decision| (policy_decision.decision, policy_decision.by))
        };
        self.run.calls.iter().map(policy_decision).collect()
    }
}

fn question() -> Elicitation {
    let requested_schema =
        json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]});
    Elicitation { message: "How big?".into(), requested_schema, server: None, other_candidates: Vec::new() }
}

fn elicited(id: &str, action: ElicitAction, content: Option<Value>) -> Answer {
    Answer {
        of: AnswerTarget::Elicitation(ElicitationId::new(id)),
        kind: AnswerKind::Elicited { action, content },
    }
}

#[test]
fn every_state_of_a_call_is_kept_with_its_time() {
    let mut play = Play::new();
    play.calls(&[("note", r#"{"n":1}"#)]);
    play.answer(vec![edited("call_1", json!({"n": 2}))]).settle("call_1", Ok(json!("done")));
    assert_eq!(
        play.history("call_1"),
        "validating awaiting_approval awaiting_approval scheduled executing success"
    );
    let call = &play.run.calls[0];
    assert_eq!((&call.input, call.edited.as_ref()), (&json!({"n": 1}), Some(&json!({"n": 2}))));
    assert_eq!(call.approval_decision.as_ref().unwrap().by, Owner::new("alice"));
}

#[test]
fn a_progressive_gate_lets_each_call_run_as_soon_as_it_is_decided_itself() {
    Play::with(|rules| Rules { gate: GateMode::Progressive, ..rules })
        .calls(&[("time", "{}"), ("note", r#"{"n":1}"#), ("where", "{}"), ("note", r#"{"n":2}"#)])
        .answer(vec![decision("call_4", false)])
        .settle("call_1", Ok(json!("noon")))
        .answer(vec![output("call_3", json!("Bern"))])
        .answer(vec![decision("call_2", true)])
        .settle("call_2", Ok(json!("saved")))
        .check(expect![[r#"
            > finished
            save
            park call_2 call_4 call_3
            execute call_1
            tool-input-available call_1 {}
            tool-input-available call_2 {"n":1}
            tool-input-available call_4 {"n":2}
            tool-approval-request call_2
            tool-approval-request call_4
            tool-input-available call_3 {}
            > answered call_4 no
            save
            tool-approval-response false
            tool-output-error call_4 Denied: the call was not approved.
            > settled call_1
            save
            tool-output-available call_1 noon
            > answered call_3 "Bern"
            save
            tool-output-available call_3 Bern
            > answered call_2 yes
            save
            execute call_2
            tool-approval-response true
            > settled call_2
            save
            tool-output-available call_2 saved
            finish-step
            start-step
            ask
        "#]]);
}

#[test]
fn a_progressive_gate_is_remembered_by_a_run_whose_rules_have_changed_meanwhile() {
    let mut play = Play::with(|rules| Rules { gate: GateMode::Progressive, ..rules });
    play.calls(&[("time", "{}"), ("note", "{}")]).settle("call_1", Ok(json!("noon")));
    play.scene.rules.gate = GateMode::Step;
    play.transcript.clear();
    play.dies().answer(vec![decision("call_2", true)]).check(expect![[r#"
        > taken up
        park call_2
        > answered call_2 yes
        save
        execute call_2
        tool-approval-response true
    "#]]);
}

#[test]
fn after_the_first_result_of_a_turn_a_chain_is_asked_about() {
    let mut play = Play::with(|rules| Rules { chain: ChainMode::Ask, ..rules });
    play.calls(&[("time", "{}"), ("where", "{}")]);
    play.settle("call_1", Ok(json!("noon"))).answer(vec![output("call_2", json!("Bern"))]);
    play.calls(&[("time", "{}"), ("where", "{}"), ("time", r#"{"n":10}"#)]);
    play.check(expect![[r#"
        > finished
        save
        park call_3 call_4
        tool-input-available call_3 {}
        tool-input-available call_5 {"n":10}
        tool-output-error call_5 Denied: at most nine
        tool-approval-request call_3
        tool-approval-request call_4
    "#]]);
    assert_eq!(
        play.ruled(),
        [
            Some((Decision::Allow, DecisionSource::Default)),
            Some((Decision::Allow, DecisionSource::Default)),
            Some((Decision::Ask, DecisionSource::Chain)),
            Some((Decision::Ask, DecisionSource::Chain)),
            Some((Decision::Deny, DecisionSource::Rule(1))),
        ]
    );
}

#[test]
fn where_nothing_is_asked_a_chain_is_not() {
    struct Auto;
    impl Policy for Auto {
        fn decide(&self, _: &Owner, _: &ToolSpec, _: &Value) -> PolicyDecision {
            PolicyDecision { decision: Decision::Allow, reason: None, by: DecisionSource::Auto }
        }

        fn approval(&self) -> ApprovalMode {
            ApprovalMode::Auto
        }
    }
    let mut play = Play::with(|rules| Rules { chain: ChainMode::Ask, policy: Arc::new(Auto), ..rules });
    play.calls(&[("note", "{}")]).settle("call_1", Ok(json!("saved"))).calls(&[("note", "{}")]);
    assert_eq!(play.ruled()[1], Some((Decision::Allow, DecisionSource::Auto)));
}

#[test]
fn a_call_that_uses_something_is_scheduled_until_it_is_its_turn() {
    Play::new()
        .calls(&[("file", r#"{"n":1}"#), ("file", r#"{"n":1}"#), ("file", "{}"), ("time", "{}")])
        .turn("call_1")
        .settle("call_1", Ok(json!(1)))
        .turn("call_2")
        .turn("call_2")
        .check(expect![[r#"
            > finished
            save
            queue call_1 for 1
            queue call_2 for 1
            execute call_3 call_4
            tool-input-available call_1 {"n":1}
            tool-input-available call_2 {"n":1}
            tool-input-available call_3 {}
            tool-input-available call_4 {}
            > turn of call_1
            save
            execute call_1
            > settled call_1
            save
            tool-output-available call_1 1
            > turn of call_2
            save
            execute call_2
            > turn of call_2
        "#]]);
}

#[test]
fn an_edited_input_stands_in_the_line_that_it_names() {
    let mut play = Play::with(|rules| Rules { chain: ChainMode::Ask, ..rules });
    play.calls(&[("time", "{}")]).settle("call_1", Ok(json!("noon"))).calls(&[("file", r#"{"n":1}"#)]);
    play.transcript.clear();
    play.answer(vec![edited("call_2", json!({"n": 2}))]).check(expect![[r#"
        > answered call_2 yes as {"n":2}
        save
        queue call_2 for 2
        tool-approval-response true
        tool-input-available call_2 {"n":2}
    "#]]);
}

#[test]
fn a_call_whose_turn_does_not_come_fails_as_a_timeout() {
    let mut play = Play::new();
    play.calls(&[("file", r#"{"n":1}"#), ("time", "{}")]);
    let late = ToolError::new(ErrorType::Timeout, "Other calls used 1 for too long.");
    play.apply("no turn of call_1", Event::LockTimedOut(ToolCallId::new("call_1"), late));
    play.turn("call_1").check(expect![[r#"
        > finished
        save
        queue call_1 for 1
        execute call_2
        tool-input-available call_1 {"n":1}
        tool-input-available call_2 {}
        > no turn of call_1
        save
        tool-output-error call_1 Other calls used 1 for too long.
        > turn of call_1
    "#]]);
    assert_eq!(play.run.calls[0].state().error_type(), Some(ErrorType::Timeout));
}

#[test]
fn what_a_running_call_shows_is_no_outcome() {
    let mut play = Play::new();
    let report = || Event::Reported(vec![(ToolCallId::new("call_1"), json!({"progress": 1}))]);
    play.calls(&[("time", "{}"), ("note", "{}")]).answer(vec![decision("call_2", false)]);
    play.transcript.clear();
    play.apply("call_1 shows", report())
        .settle("call_1", Ok(json!("noon")))
        .apply("call_1 shows late", report())
        .check(expect![[r#"
            > call_1 shows
            tool-output-available call_1 {"progress":1}
            > settled call_1
            save
            tool-output-available call_1 noon
            finish-step
            start-step
            ask
            > call_1 shows late
        "#]]);
}

#[test]
fn a_question_of_a_tool_is_parked_like_a_call() {
    let mut play = Play::new();
    play.calls(&[("time", "{}")]);
    play.transcript.clear();
    play.asks("call_1");
    assert!(play.run.is_waiting() && play.run.hold_ends().is_some() && play.run.expires().is_some());
    let wrong = play.misfit(&[elicited("elic_2", ElicitAction::Accept, Some(json!({"size": "big"})))]);
    assert!(wrong.contains("size"), "{wrong}");
    let missing = play.misfit(&[elicited("elic_2", ElicitAction::Accept, None)]);
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
        data-elicitation pending
        > answered elic_2 Accept Some(Object {"size": Number(3)})
        save
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
        data-elicitation pending
        > call_2 asks
        save
        data-elicitation pending
        > settled call_1
        save
        data-elicitation cancelled
        tool-output-error call_1 it broke
        reply elic_3 Cancel
        > stopped
        save
        data-elicitation cancelled
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
        data-elicitation pending
        > settled call_2
        save
        data-elicitation pending
        tool-output-available call_2 noon
        > answered elic_3 Decline None
        save
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
fn an_answer_after_the_stream_was_let_go_opens_it_again_whatever_the_gate() {
    for gate in [GateMode::Step, GateMode::Progressive] {
        let mut play = Play::with(|rules| Rules { gate, ..rules });
        play.calls(&[("note", "{}"), ("where", "{}")]);
        play.let_go();
        assert!(play.run.is_detached());
        play.answer(vec![decision("call_1", true)]);
        assert!(!play.run.is_detached(), "{gate:?}: the call runs, and must not be forgotten");
    }
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
        data-elicitation cancelled
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
fn a_question_whose_call_keeps_a_resource_ends_without_its_call_when_nobody_answers() {
    let mut play = Play::new();
    play.calls(&[("file", r#"{"n": 1}"#)]).turn("call_1").asks("call_1");
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
fn a_question_that_may_be_of_a_call_that_keeps_a_resource_ends_like_its_own() {
    let mut play = Play::new();
    play.calls(&[("file", r#"{"n": 1}"#), ("time", "{}")]).turn("call_1");
    let asked = Elicitation { other_candidates: vec![ToolCallId::new("call_1")], ..question() };
    play.apply("call_2 asks, or call_1", Event::Elicits(ToolCallId::new("call_2"), asked));
    assert!(play.run.first_question_ends().is_some());
}

#[test]
fn a_question_that_finds_no_place_says_why() {
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
fn a_process_that_ends_takes_its_tools_questions_with_it() {
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("note", "{}")]).answer(vec![decision("call_2", false)]).asks("call_1");
    play.transcript.clear();
    play.dies().check(expect![[r#"
        > taken up
        save
        data-elicitation cancelled
        tool-output-error call_1 The server was restarted while this call ran; it may or may not have had its effect.
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn a_call_that_may_be_repeated_runs_again_after_a_crash_but_not_for_ever() {
    let mut play = Play::new();
    play.calls(&[("again", "{}")]);
    play.transcript.clear();
    play.dies().dies().dies().check(expect![[r#"
        > taken up
        save
        execute call_1
        > taken up
        save
        execute call_1
        > taken up
        save
        tool-output-error call_1 The server was restarted while this call ran; it may or may not have had its effect.
        finish-step
        start-step
        ask
    "#]]);
    assert_eq!(play.history("call_1"), "validating scheduled executing executing executing error");
}

#[test]
fn a_call_in_line_stands_in_line_again_after_a_crash() {
    let mut play = Play::new();
    play.calls(&[("file", r#"{"n":1}"#), ("file", r#"{"n":1}"#)]).turn("call_1");
    play.transcript.clear();
    play.dies().turn("call_2").check(expect![[r#"
        > taken up
        save
        queue call_2 for 1
        tool-output-error call_1 The server was restarted while this call ran; it may or may not have had its effect.
        > turn of call_2
        save
        execute call_2
    "#]]);
}

#[test]
fn a_failure_that_a_run_may_not_survive_ends_it_with_an_explanation() {
    let error_policy = ErrorPolicy::default().with(ErrorType::Internal, ErrorStrategy::FailRun);
    let mut play = Play::with(|rules| Rules { error_policy, ..rules });
    play.calls(&[("time", "{}"), ("where", "{}")]).settle("call_1", Err("no clock")).check(expect![[r#"
        > finished
        save
        park call_2
        execute call_1
        tool-input-available call_1 {}
        tool-input-available call_2 {}
        > settled call_1
        save
        release call_2
        tool-output-error call_1 no clock
        tool-output-error call_2 Cancelled: the run ended before the call had a result.
        finish-step
        error The tool time failed (internal), and this server ends a run then. Nothing after it was done.
        over: failed
    "#]]);
}

#[test]
fn a_schema_that_a_tool_sends_along_is_checked_itself() {
    assert!(
        CHECKER
            .check_here(&AnswerSchema::of_elicitation(json!({"type": "nonsense"})).check(json!({})))
            .is_err()
    );
    assert!(
        CHECKER
            .check_here(&AnswerSchema::of_elicitation(question().requested_schema).check(json!({"size": 1})))
            .is_ok()
    );
}

#[test]
fn a_call_whose_tool_has_gone_while_it_waited_is_settled_when_it_does_not_come_back() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("time", "{}")]);
    play.scene.toolbox = Toolbox::new(vec![Arc::new(Named("time", Decision::Allow)) as _], |_| {}).0;
    play.transcript.clear();
    play.answer(vec![decision("call_1", true)]);
    assert!(play.run.waits_for_tools() && !play.run.is_waiting());
    play.apply("nothing has come", Event::ToolsChanged);
    play.now = play.run.tool_wait_ends(play.scene.limits.tool_timeout).unwrap();
    play.apply("it is missed", Event::ToolsTimedOut).check(expect![[r#"
        > answered call_1 yes
        save
        execute call_2
        tool-approval-response true
        > nothing has come
        > it is missed
        save
        tool-output-error call_1 The tool note is not there any more, so the call did not run.
    "#]]);
}

#[test]
fn what_was_shown_by_a_call_that_ran_while_the_process_ended_leaves_its_place_to_nothing_else() {
    let mut play = Play::new();
    play.calls(&[("again", "{}")]);
    let call = ToolCallId::new("call_1");
    let saved = play.log.len();
    play.apply("call_1 shows", Event::Reported(vec![(call, json!({"progress": 1}))]));
    let (shown, _) = play.log.last().cloned().unwrap();
    play.log.truncate(saved);
    play.run.state.position = play.log.last().unwrap().0;
    play.dies().settle("call_1", Ok(json!("done")));
    let since: Vec<Position> = play.log[saved..].iter().map(|(seq, _)| *seq).collect();
    assert!(!since.is_empty() && since.iter().all(|seq| *seq > shown), "{since:?}");
}

#[test]
fn a_question_that_nobody_needs_any_more_takes_no_answer_while_its_call_is_in_line() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("file", r#"{"n":1}"#)]).let_go().answer(vec![decision("call_1", true)]);
    let refused = play.refusal(&[decision("call_2", false)]);
    assert!(matches!(refused, Rejected::Refused { refusal: fermata_tools::Refusal::WrongAnswer, .. }));
    play.transcript.clear();
    play.turn("call_2").check(expect![[r#"
        > turn of call_2
        save
        execute call_2
    "#]]);
}

#[test]
fn a_call_that_runs_again_after_a_crash_is_not_forgotten_because_its_readers_were_sent_away() {
    let mut play = Play::new();
    play.calls(&[("again", "{}")]).asks("call_1").let_go();
    assert!(play.run.is_detached() && play.run.is_pinned());
    play.dies();
    assert!(!play.run.is_detached() && !play.run.is_pinned());
}

#[test]
fn half_a_step_is_never_saved() {
    let mut play = Play::new();
    play.hear(ModelEvent::CallStart { key: 0, tool: "time".into() });
    play.apply("followed", Event::Followed { profile: Profile::V5, hold: Duration::ZERO });
    assert!(play.effects.commit.is_empty());
    let context = play.scene.context(play.now);
    let mut effects = play.run.apply(Event::Model(vec![finished()]), &context);
    assert!(play.run.is_checking() && effects.commit.is_empty());
    check_inputs(&mut play.run, &context, &mut effects);
    assert!(effects.commit.run);
}

#[test]
fn a_question_that_nobody_needs_any_more_takes_no_answer_while_its_tool_is_away() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("time", "{}")]).let_go();
    play.scene.toolbox = Toolbox::new(vec![Arc::new(Named("note", Decision::Ask)) as _], |_| {}).0;
    play.answer(vec![decision("call_1", true)]);
    assert!(play.run.waits_for_tools());
    let refused = play.refusal(&[decision("call_2", false)]);
    assert!(matches!(refused, Rejected::Refused { refusal: fermata_tools::Refusal::WrongAnswer, .. }));
    let before = play.run.pending().count();
    play.dies();
    assert_eq!(play.run.pending().count(), before, "nor after a crash");
}

impl Play {
    fn later(&mut self, milliseconds: i64) -> &mut Self {
        self.now += SignedDuration::from_millis(milliseconds);
        self
    }

    /// What the message says at last of how long its calls took.
    fn durations(&self) -> Value {
        self.run.snapshot().metadata.expect("a message that is finished")["calls"].clone()
    }
}

#[test]
fn a_message_says_how_long_each_of_its_calls_ran_and_not_how_long_it_waited() {
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("note", "{}"), ("where", "{}")]);
    play.later(5_000).answer(vec![decision("call_2", true)]);
    play.later(30).settle("call_1", Ok(json!("noon"))).later(10).settle("call_2", Err("no paper"));
    // The process ends and another goes on: what was is known.
    play.later(1_000).dies().later(200).answer(vec![output("call_3", json!("Bern"))]);
    play.calls(&[("time", "{}")]).later(7).settle("call_5", Ok(json!("later")));
    play.later(60_000).hear(ModelEvent::Text("Done.".into())).hear(finished());
    let expected = json!({
        "call_1": {"durationMs": 30},
        "call_2": {"durationMs": 40},
        "call_3": {"durationMs": 1_240},
        "call_5": {"durationMs": 7},
    });
    assert_eq!(play.durations(), expected);
    // A tab that was away is told the same.
    let message = play.run.snapshot();
    let healed =
        reconcile_finished(&message, &client_view(&message.parts[..1]), |_| true).expect("it is behind");
    let Some(UiChunk::Finish { message_metadata: Some(metadata), .. }) = healed.last() else {
        panic!("no finish: {healed:?}");
    };
    assert_eq!(metadata["calls"], expected);
}

#[test]
fn a_call_that_never_ran_to_its_end_has_no_duration() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("time", "{\"n\":\"x\"}"), ("nowhere", "{}")]);
    play.later(50).answer(vec![decision("call_1", false)]).later(50);
    play.hear(ModelEvent::Text("Well.".into())).hear(finished());
    assert_eq!(play.durations(), Value::Null, "denied, invalid, unknown: none ran");
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("where", "{}")]);
    play.later(20).settle("call_1", Ok(json!("noon"))).later(20).end(Ending::Stopped);
    assert_eq!(play.durations(), json!({"call_1": {"durationMs": 20}}), "the other was stopped");
}

#[test]
fn nothing_is_decided_about_a_step_before_its_inputs_are_checked() {
    let mut play = Play::new();
    play.hear(ModelEvent::CallStart { key: 0, tool: "where".into() });
    play.hear(ModelEvent::CallDelta { key: 0, arguments: r#"{"n":1}"#.into() });
    let effects = play.run.apply(Event::Model(vec![finished()]), &play.scene.context(play.now));
    assert!(play.run.is_checking() && effects.after.publish.is_empty() && effects.commit.is_empty());
    // It is stopped meanwhile: what comes of the checks is too late.
    play.transcript.clear();
    play.end(Ending::Stopped);
    let checks: Vec<_> = effects.before.checks.into_iter().map(|(call, _)| (call, Ok(()))).collect();
    play.transcript.clear();
    play.apply("checked", Event::InputsChecked(checks));
    play.check(expect![[r#"
        > checked
    "#]]);
    assert_eq!(play.run.calls[0].input, json!({"n": 1}));
}

#[test]
fn arguments_that_are_too_long_fail_their_call_and_are_not_kept() {
    let mut play = Play::new();
    play.scene.limits.argument_bytes = 10;
    play.hear(ModelEvent::CallStart { key: 0, tool: "note".into() });
    play.hear(ModelEvent::CallDelta { key: 0, arguments: r#"{"n":1,"#.into() });
    play.transcript.clear();
    for _ in 0..3 {
        play.hear(ModelEvent::CallDelta { key: 0, arguments: r#""a":1}"#.into() });
    }
    play.transcript.clear();
    play.hear(finished()).check(expect![[r#"
        > finished
        save
        tool-input-error call_1 null The arguments of note have more than 10 bytes (max_arguments). Call it again with less.
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn a_step_has_so_many_calls_and_no_more() {
    let mut play = Play::new();
    play.scene.limits.calls_per_step = 1;
    play.calls(&[("time", "{}"), ("time", "{}"), ("time", "{}")]).check(expect![[r#"
        > finished
        save
        execute call_1
        tool-input-available call_1 {}
        tool-input-error call_2 null The step has more than 1 calls (max_calls_per_step). This one and those after it were left out; make them in the next step.
    "#]]);
    assert_eq!(play.run.calls.len(), 2);
}

#[test]
fn a_model_that_says_too_much_in_a_step_ends_the_run_with_an_error() {
    let mut play = Play::new();
    play.scene.limits.step_output_bytes = 20;
    play.hear(ModelEvent::Text("a".repeat(20)));
    play.transcript.clear();
    play.hear(ModelEvent::Reasoning("b".into())).check(expect![[r#"
        > Reasoning("b")
        save
        text-end
        finish-step
        error The model said more than 20 bytes in one step, and this server ends a run then (max_step_output).
        over: failed
    "#]]);
}

#[test]
fn a_chat_that_is_too_large_ends_the_run_after_the_step() {
    let mut play = Play::new();
    (play.scene.limits.chat_bytes, play.scene.other_bytes) = (2_000, 1_500);
    play.calls(&[("time", "{}")]);
    play.settle("call_1", Ok(json!("now")));
    assert_eq!(play.run.state.step, 2, "there is room");
    play.calls(&[("time", "{}")]);
    play.transcript.clear();
    play.settle("call_2", Ok(json!("x".repeat(500))));
    let transcript = play.transcript.trim_end();
    assert!(transcript.contains("finish-step\nerror This chat has "), "{transcript}");
    assert!(
        transcript.contains("may have 2000 (max_chat)") && transcript.ends_with("over: failed"),
        "{transcript}"
    );
}

#[test]
fn an_answer_that_would_make_the_chat_too_large_is_refused_and_an_error_text_is_not() {
    let mut play = Play::new();
    (play.scene.limits.chat_bytes, play.scene.other_bytes) = (2_000, 1_500);
    play.calls(&[("where", "{}")]);
    let refused = play.refusal(&[output("call_1", json!("x".repeat(500)))]);
    assert!(matches!(&refused, Rejected::TooLarge(words) if words.contains("max_chat")), "{refused:?}");
    let kind = AnswerKind::Failure { error_text: "x".repeat(500) };
    play.answer(vec![Answer { of: AnswerTarget::Call(ToolCallId::new("call_1")), kind }]);
    assert_eq!(play.run.state.phase, Phase::Over, "the step was too much");
}

#[test]
fn the_state_of_a_run_is_saved_in_the_form_of_earlier_versions() {
    for (phase, activity) in [
        ("speaking", r#""parkedSince":null,"letGo":false"#),
        ("deciding", r#""parkedSince":"1970-01-01T00:00:00Z","letGo":false"#),
        ("working", r#""parkedSince":"1970-01-01T00:00:00Z","letGo":true"#),
        ("over", r#""parkedSince":null,"letGo":false"#),
    ] {
        let saved = format!(
            r#"{{"profile":6,"hold":{{"secs":60,"nanos":0}},"phase":"{phase}","step":1,"seq":5,"usage":null,"marks":[{{"step":1,"seq":5,"open":false}}],{activity},"texts":0}}"#
        );
        let state: RunState = serde_json::from_str(&saved).unwrap();
        assert_eq!(serde_json::to_string(&state).unwrap(), saved);
        let value = serde_json::to_value(&state).unwrap();
        let state: RunState = serde_json::from_value(value).unwrap();
        assert_eq!(serde_json::to_string(&state).unwrap(), saved);
    }
}

#[test]
fn the_hold_begins_when_the_run_waits_and_anew_for_a_client_that_comes_back() {
    let mut play = Play::new();
    play.calls(&[("time", "{}"), ("where", "{}")]);
    assert_eq!(play.run.state.activity, Activity::Working);
    play.now += SignedDuration::from_secs(1);
    let since = play.now;
    play.settle("call_1", Ok(json!("noon")));
    assert_eq!(play.run.state.activity, Activity::Waiting { since });
    play.now += SignedDuration::from_secs(60);
    assert_eq!(play.run.hold_ends(), Some(play.now));
    play.let_go();
    assert_eq!(play.run.state.activity, Activity::Detached { since });
    assert_eq!(play.run.hold_ends(), None);
    play.apply("followed", Event::Followed { profile: Profile::V6, hold: Duration::from_secs(5) });
    assert_eq!(play.run.state.activity, Activity::Waiting { since: play.now });
}

#[test]
fn looking_at_a_run_that_waits_saves_nothing() {
    let mut play = Play::new();
    play.calls(&[("where", "{}"), ("note", "{}")]).dies();
    assert!(play.effects.commit.is_empty(), "{:?}", play.effects.commit);
    play.let_go().dies();
    assert!(play.effects.commit.is_empty(), "{:?}", play.effects.commit);
}

#[test]
fn partial_outputs_are_not_saved_by_themselves() {
    let mut play = Play::new();
    play.calls(&[("time", "{}")]).asks("call_1");
    play.apply("shows", Event::Reported(vec![(ToolCallId::new("call_1"), json!({"progress": 1}))]));
    assert_eq!(play.effects.after.publish.len(), 1);
    assert!(play.effects.commit.is_empty(), "{:?}", play.effects.commit);
}
