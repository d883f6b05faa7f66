//! The gate: which calls of a step are denied, need an approval or run, and when.

use fermata_tools::{ApprovalMode, ChainMode, ErrorStrategy, ErrorType};

use super::*;

#[test]
fn no_call_runs_while_one_waits_for_a_decision() {
    Play::new()
        .calls(&[("time", "{}"), ("note", "{}"), ("where", r#"{"n":1}"#)])
        .answer(vec![decision("call_2", true)])
        .check(expect![[r#"
            > finished
            save
            park call_2
            tool-input-available call_1 {}
            tool-input-available call_2 {}
            tool-approval-request call_2
            > answered call_2 yes
            save
            release call_2
            park call_3
            execute call_1 call_2
            tool-approval-response true
            tool-input-available call_3 {"n":1}
        "#]]);
}

#[test]
fn a_rule_denies_without_asking() {
    Play::new().calls(&[("note", r#"{"n":10}"#), ("time", "{}")]).settle("call_2", Ok(json!(1))).check(
        expect![[r#"
            > finished
            save
            execute call_2
            tool-input-available call_1 {"n":10}
            tool-input-available call_2 {}
            message-metadata {"call_1":{"state":"cancelled","code":"denied","reason":"at most nine"}}
            tool-output-denied call_1
            > settled call_2
            save
            tool-output-available call_2 1
            finish-step
            start-step
            ask
        "#]],
    );
}

#[test]
fn a_denial_by_a_rule_is_shown_as_an_error_if_another_call_waits_for_approval() {
    Play::new().calls(&[("note", r#"{"n":10}"#), ("note", r#"{"n":1}"#)]).check(expect![[r#"
        > finished
        save
        park call_2
        tool-input-available call_1 {"n":10}
        tool-input-available call_2 {"n":1}
        message-metadata {"call_1":{"state":"cancelled","code":"denied","reason":"at most nine"}}
        tool-output-error call_1 Denied: at most nine
        tool-approval-request call_2
    "#]]);
}

#[test]
fn a_browser_call_that_a_rule_denies_never_shows_its_input() {
    Play::new().calls(&[("where", r#"{"n":10}"#)]).check(expect![[r#"
        > finished
        save
        message-metadata {"call_1":{"state":"cancelled","code":"denied","reason":"at most nine"}}
        tool-output-denied call_1
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn a_denial_is_shown_when_the_gate_opens() {
    Play::new()
        .calls(&[("note", "{}"), ("note", r#"{"n":2}"#)])
        .answer(vec![decision("call_1", false)])
        .answer(vec![decision("call_2", true)])
        .check(expect![[r#"
            > finished
            save
            park call_1 call_2
            tool-input-available call_1 {}
            tool-input-available call_2 {"n":2}
            tool-approval-request call_1
            tool-approval-request call_2
            > answered call_1 no
            save
            release call_1
            tool-approval-response false
            > answered call_2 yes
            save
            release call_2
            execute call_2
            tool-approval-response true
            message-metadata {"call_1":{"state":"cancelled","code":"denied"}}
            tool-output-denied call_1
        "#]]);
}

#[test]
fn a_denial_is_shown_as_an_error_if_a_browser_call_is_open() {
    Play::new().calls(&[("note", "{}"), ("where", "{}")]).answer(vec![decision("call_1", false)]).check(
        expect![[r#"
            > finished
            save
            park call_1
            tool-input-available call_1 {}
            tool-approval-request call_1
            > answered call_1 no
            save
            release call_1
            park call_2
            tool-approval-response false
            message-metadata {"call_1":{"state":"cancelled","code":"denied"}}
            tool-output-error call_1 Denied: the call was not approved.
            tool-input-available call_2 {}
        "#]],
    );
}

#[test]
fn the_model_is_asked_again_when_every_call_is_denied() {
    Play::new().calls(&[("note", "{}")]).answer(vec![decision("call_1", false)]).check(expect![[r#"
        > finished
        save
        park call_1
        tool-input-available call_1 {}
        tool-approval-request call_1
        > answered call_1 no
        save
        release call_1
        tool-approval-response false
        message-metadata {"call_1":{"state":"cancelled","code":"denied"}}
        tool-output-denied call_1
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn a_batch_of_decisions_opens_the_gate_once() {
    Play::new()
        .calls(&[("note", "{}"), ("note", "{}")])
        .answer(vec![decision("call_1", false), decision("call_2", true)])
        .check(expect![[r#"
            > finished
            save
            park call_1 call_2
            tool-input-available call_1 {}
            tool-input-available call_2 {}
            tool-approval-request call_1
            tool-approval-request call_2
            > answered call_1 no, call_2 yes
            save
            release call_1 call_2
            execute call_2
            tool-approval-response false
            tool-approval-response true
            message-metadata {"call_1":{"state":"cancelled","code":"denied"}}
            tool-output-denied call_1
        "#]]);
}

#[test]
fn always_decides_the_siblings_and_later_calls() {
    Play::new()
        .calls(&[("note", r#"{"n":1}"#), ("note", r#"{"n":2}"#), ("note", r#"{"n":10}"#)])
        .answer(vec![always("call_1")])
        .settle("call_1", Ok(json!(1)))
        .settle("call_2", Ok(json!(2)))
        .check(expect![[r#"
            > finished
            save
            park call_1 call_2
            tool-input-available call_1 {"n":1}
            tool-input-available call_2 {"n":2}
            tool-input-available call_3 {"n":10}
            message-metadata {"call_3":{"state":"cancelled","code":"denied","reason":"at most nine"}}
            tool-output-error call_3 Denied: at most nine
            tool-approval-request call_1
            tool-approval-request call_2
            > answered call_1 yes always
            save
            release call_1 call_2
            execute call_1 call_2
            tool-approval-response true
            tool-approval-response true
            > settled call_1
            save
            tool-output-available call_1 1
            > settled call_2
            save
            tool-output-available call_2 2
            finish-step
            start-step
            ask
        "#]])
        .calls(&[("note", r#"{"n":3}"#)])
        .check(expect![[r#"
            > finished
            save
            execute call_6
            tool-input-available call_6 {"n":3}
        "#]]);
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
            park call_2 call_3 call_4
            execute call_1
            tool-input-available call_1 {}
            tool-input-available call_2 {"n":1}
            tool-input-available call_4 {"n":2}
            tool-approval-request call_2
            tool-approval-request call_4
            tool-input-available call_3 {}
            > answered call_4 no
            save
            release call_4
            tool-approval-response false
            message-metadata {"call_4":{"state":"cancelled","code":"denied"}}
            tool-output-error call_4 Denied: the call was not approved.
            > settled call_1
            save
            tool-output-available call_1 noon
            > answered call_3 "Bern"
            save
            release call_3
            tool-output-available call_3 Bern
            > answered call_2 yes
            save
            release call_2
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
    play.crash().answer(vec![decision("call_2", true)]).check(expect![[r#"
        > resumed
        > answered call_2 yes
        save
        release call_2
        execute call_2
        tool-approval-response true
    "#]]);
}

#[test]
fn a_chain_needs_approval_after_the_first_call() {
    let mut play = Play::with(|rules| Rules { chain: ChainMode::Ask, ..rules });
    // A call that fails before it runs is not the first one.
    play.calls(&[("time", "{"), ("time", "{}"), ("where", "{}")]);
    assert_eq!(
        play.ruled(),
        [
            None,
            Some((Decision::Allow, DecisionSource::Default)),
            Some((Decision::Ask, DecisionSource::Chain))
        ]
    );
    let mut play = Play::with(|rules| Rules { chain: ChainMode::Ask, ..rules });
    play.calls(&[("time", "{}")]).settle("call_1", Ok(json!("noon")));
    play.calls(&[("time", "{}"), ("where", "{}"), ("time", r#"{"n":10}"#)]);
    play.check(expect![[r#"
        > finished
        save
        park call_2 call_3
        tool-input-available call_2 {}
        tool-input-available call_4 {"n":10}
        message-metadata {"call_4":{"state":"cancelled","code":"denied","reason":"at most nine"}}
        tool-output-error call_4 Denied: at most nine
        tool-approval-request call_2
        tool-approval-request call_3
    "#]]);
    assert_eq!(
        play.ruled(),
        [
            Some((Decision::Allow, DecisionSource::Default)),
            Some((Decision::Ask, DecisionSource::Chain)),
            Some((Decision::Ask, DecisionSource::Chain)),
            Some((Decision::Deny, DecisionSource::Rule(1))),
        ]
    );
}

#[test]
fn of_the_calls_of_a_step_a_chain_of_one_runs_the_first_that_can_run() {
    let mut play = Play::with(|rules| Rules { chain: ChainMode::One, ..rules });
    play.calls(&[("time", "{"), ("time", r#"{"n":10}"#), ("note", "{}"), ("time", "{}"), ("where", "{}")]);
    play.check(expect![[r#"
        > finished
        save
        park call_3
        message-metadata {"call_1":{"state":"error","code":"invalid_format"}}
        tool-input-error call_1 { The arguments of time are not valid JSON (EOF while parsing an object at line 1 column 1). Call it again with a JSON object.
        tool-input-available call_2 {"n":10}
        tool-input-available call_3 {}
        tool-input-available call_4 {}
        message-metadata {"call_2":{"state":"cancelled","code":"denied","reason":"at most nine"}}
        tool-output-error call_2 Denied: at most nine
        message-metadata {"call_4":{"state":"cancelled","code":"not_first"}}
        tool-output-error call_4 Cancelled: only the first call of a step runs here, so this one did not. Make it again by itself if you still need it.
        message-metadata {"call_5":{"state":"cancelled","code":"not_first"}}
        tool-output-error call_5 Cancelled: only the first call of a step runs here, so this one did not. Make it again by itself if you still need it.
        tool-approval-request call_3
    "#]]);
}

#[test]
fn a_chain_needs_no_approval_if_nothing_does() {
    struct Auto;
    impl Policy for Auto {
        fn decide(&self, _: &Principal, _: &ToolSpec, _: &Value) -> PolicyDecision {
            PolicyDecision::new(Decision::Allow, DecisionSource::Auto)
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
fn a_run_ends_for_an_input_that_does_not_fit_if_the_settings_say_so() {
    let mut play = Play::with(|rules| Rules {
        error_policy: rules.error_policy.with(ErrorType::InvalidFormat, ErrorStrategy::FailRun),
        ..rules
    });
    play.calls(&[("note", "{}"), ("time", "{"), ("where", "{}")]).check(expect![[r#"
        > finished
        save
        tool-input-available call_1 {}
        message-metadata {"call_2":{"state":"error","code":"invalid_format"}}
        tool-input-error call_2 { The arguments of time are not valid JSON (EOF while parsing an object at line 1 column 1). Call it again with a JSON object.
        message-metadata {"call_1":{"state":"cancelled","code":"run_ended"}}
        tool-output-error call_1 Cancelled: the run ended before the call had a result.
        message-metadata {"call_3":{"state":"cancelled","code":"run_ended"}}
        tool-output-error call_3 Cancelled: the run ended before the call had a result.
        finish-step
        error The tool time failed (invalid_format), and this server ends a run then. Nothing after it was done.
        over: failed
    "#]]);
}
