//! Answers to calls: the accepted ones, and the effects of edits and decisions.

use super::*;

#[test]
fn a_batch_is_validated_as_a_whole_and_changes_nothing() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("where", "{}")]);
    let twice = play.refusal(&[decision("call_1", true), decision("call_1", true)]);
    assert_eq!(twice, Rejected::Twice(ToolCallId::new("call_1")));
    let early = play.refusal(&[decision("call_1", true), output("call_2", json!(1))]);
    assert!(
        matches!(early, Rejected::Refused { refusal: fermata_tools::Refusal::WrongAnswer, .. }),
        "{early:?}"
    );
    let unknown = play.refusal(&[decision("call_9", true)]);
    assert!(matches!(unknown, Rejected::Unknown(_)));
    assert!(play.schema_errors(&[edited("call_1", json!({"n": "x"}))]).contains("integer"));
    assert_eq!(play.denial_of_edit(&[edited("call_1", json!({"n": 11}))]), "at most nine");
    let stranger = Decider::new(Owner::new("eve"), DecisionChannel::Api, None);
    let denied =
        play.run.validate(&[decision("call_1", true)], &stranger, &play.scene.context(play.now)).unwrap_err();
    assert!(matches!(denied, Rejected::NotYours { .. }), "{denied:?}");
    assert_eq!(play.run.pending().count(), 1);
}

#[test]
fn an_output_that_is_too_large_is_refused_and_the_call_still_waits() {
    let mut play = Play::new();
    play.calls(&[("where", "{}")]);
    assert!(matches!(play.refusal(&[output("call_1", json!("x".repeat(1001)))]), Rejected::TooLarge(_)));
    assert!(play.run.is_waiting());
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
fn an_edited_input_is_shown_and_runs() {
    Play::new().calls(&[("note", r#"{"n":1}"#)]).answer(vec![edited("call_1", json!({"n": 2}))]).check(
        expect![[r#"
            > finished
            save
            park call_1
            tool-input-available call_1 {"n":1}
            tool-approval-request call_1
            > answered call_1 yes as {"n":2}
            save
            release call_1
            execute call_1
            tool-approval-response true
            tool-input-available call_1 {"n":2}
        "#]],
    );
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
    assert_eq!((&call.input, &call.edited), (&json!({"n": 1}).into(), &Some(json!({"n": 2}).into())));
    assert_eq!(call.approval_decision.as_ref().unwrap().by, Owner::new("alice"));
}

/// Returns the receipts of answers in words: the state of each call, the calls that it waits for, and the other calls that may run.
fn receipts(play: &Play, answers: &[Answer]) -> Vec<String> {
    let receipts = play.validate(answers).unwrap().receipts;
    receipts
        .iter()
        .map(|receipt| {
            let gate = if receipt.gate_closed { " behind the gate" } else { "" };
            format!(
                "{}{gate}, waiting {:?}, also {:?}",
                receipt.state, receipt.waiting_for, receipt.also_approved
            )
        })
        .collect()
}

#[test]
fn a_receipt_says_whether_the_call_waits_behind_the_gate() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("note", "{}")]);
    let approved = receipts(&play, &[decision("call_1", true)]);
    assert_eq!(approved, [r#"scheduled behind the gate, waiting [ToolCallId("call_2")], also []"#]);
    let denied = receipts(&play, &[decision("call_1", false)]);
    assert_eq!(denied, [r#"cancelled, waiting [ToolCallId("call_2")], also []"#]);
    let both = receipts(&play, &[decision("call_1", true), decision("call_2", true)]);
    assert_eq!(both, ["scheduled, waiting [], also []"; 2]);

    let mut play = Play::with(|rules| Rules { gate: GateMode::Progressive, ..rules });
    play.calls(&[("note", "{}"), ("note", "{}")]);
    let approved = receipts(&play, &[decision("call_1", true)]);
    assert_eq!(approved, [r#"scheduled, waiting [ToolCallId("call_2")], also []"#], "it runs at once");
}

#[test]
fn a_receipt_names_the_calls_that_the_gate_lets_through_without_an_answer_of_their_own() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("note", "{}"), ("time", "{}")]).detach();
    let first = receipts(&play, &[decision("call_1", true)]);
    assert_eq!(first, [r#"scheduled behind the gate, waiting [ToolCallId("call_2")], also []"#]);
    play.answer(vec![decision("call_2", false)]);
    let last = receipts(&play, &[decision("call_1", true)]);
    assert_eq!(
        last,
        [r#"scheduled, waiting [], also [ToolCallId("call_3")]"#],
        "not the one that was denied"
    );
}

#[test]
fn an_approval_that_is_not_needed_can_still_deny() {
    Play::new()
        .calls(&[("note", "{}"), ("where", "{}")])
        .detach()
        .answer(vec![decision("call_2", false)])
        .answer(vec![decision("call_1", true)])
        .check(expect![[r#"
            > finished
            save
            park call_1
            tool-input-available call_1 {}
            tool-approval-request call_1
            > hold ended
            save
            park call_2
            tool-approval-request call_2
            readers: finish-step
            readers: finish tool-calls
            > answered call_2 no
            save
            release call_2
            tool-approval-response false
            > answered call_1 yes
            save
            release call_1
            execute call_1
            tool-approval-response true
            message-metadata {"call_2":{"state":"cancelled","code":"denied"}}
            tool-output-denied call_2
        "#]]);
}

#[test]
fn an_approval_request_that_is_not_needed_accepts_no_answer_while_its_call_is_queued() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("file", r#"{"n":1}"#)]).detach().answer(vec![decision("call_1", true)]);
    let refused = play.refusal(&[decision("call_2", false)]);
    assert!(matches!(refused, Rejected::Refused { refusal: fermata_tools::Refusal::WrongAnswer, .. }));
    play.transcript.clear();
    play.grant_lock("call_2").check(expect![[r#"
        > lock granted to call_2
        save
        execute call_2
    "#]]);
}

#[test]
fn an_approval_request_that_is_not_needed_accepts_no_answer_while_its_tool_is_unavailable() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("time", "{}")]).detach();
    play.scene.toolbox = Toolbox::new(vec![Arc::new(FakeTool("note", Decision::Ask)) as _], |_| {}).0;
    play.answer(vec![decision("call_1", true)]);
    assert!(play.run.waits_for_tools());
    let refused = play.refusal(&[decision("call_2", false)]);
    assert!(matches!(refused, Rejected::Refused { refusal: fermata_tools::Refusal::WrongAnswer, .. }));
    let before = play.run.pending().count();
    play.crash();
    assert_eq!(play.run.pending().count(), before, "nor after a crash");
}

#[test]
fn an_edited_input_has_as_few_values_as_arguments() {
    let mut play = Play::new();
    play.calls(&[("note", "{}")]);
    play.scene.limits.argument_nodes = 4;
    let refused = play.refusal(&[edited("call_1", json!({"n": [1, 2, 3]}))]);
    let expected =
        "The edited input has 5 JSON values; the limit is 4 (max_argument_nodes). The call waits on.";
    assert!(matches!(&refused, Rejected::TooLarge(text) if text == expected), "{refused:?}");
    play.answer(vec![edited("call_1", json!({"n": [1, 2]}))]);
}
