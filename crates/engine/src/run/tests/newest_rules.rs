//! The newest rules count last: a call that waited does not run if they deny it by now.

use super::*;

/// Denies every call.
struct Nothing;

impl Policy for Nothing {
    fn decide(&self, _: &Principal, _: &ToolSpec, _: &Value) -> PolicyDecision {
        PolicyDecision {
            reason: Some("closed".into()),
            ..PolicyDecision::new(Decision::Deny, DecisionSource::Rule(1))
        }
    }
}

/// Asks about every call.
struct AskAll;

impl Policy for AskAll {
    fn decide(&self, _: &Principal, _: &ToolSpec, _: &Value) -> PolicyDecision {
        PolicyDecision::new(Decision::Ask, DecisionSource::Rule(1))
    }
}

impl Play {
    fn close(&mut self) -> &mut Self {
        self.scene.newest = Some(Arc::new(Nothing));
        self.transcript.clear();
        self
    }

    /// The calls that these answers approve and that are denied by now are settled, as the active run has it done.
    fn approve_denied(&mut self, answers: &[Answer]) -> &mut Self {
        let valid = self.validate(answers).unwrap();
        self.apply("approved", Event::ApprovalsOverruled(valid.overruled))
    }
}

#[test]
fn a_call_that_waited_for_a_person_is_settled_as_denied_when_it_is_approved() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("note", "{}")]).close();
    play.approve_denied(&[decision("call_1", true)]).check(expect![[r#"
        > approved
        save
        release call_1
        tool-approval-response false
        message-metadata {"call_1":{"state":"cancelled","code":"denied","reason":"closed"}}
        tool-output-error call_1 Denied: closed
    "#]]);
    assert_eq!(
        play.refusal(&[decision("call_1", true)]),
        Rejected::of(fermata_tools::Refusal::AlreadyAnswered, &play.run.calls[0])
    );
    assert!(play.run.calls[0].approval_decision.is_none(), "nobody has said no");
    play.approve_denied(&[decision("call_2", true)]).check(expect![[r#"
        > approved
        save
        release call_2
        tool-approval-response false
        message-metadata {"call_2":{"state":"cancelled","code":"denied","reason":"closed"}}
        tool-output-denied call_2
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn a_denied_approval_does_not_affect_the_others_of_its_batch() {
    let mut play = Play::new();
    play.calls(&[("note", r#"{"n":1}"#), ("note", r#"{"n":2}"#)]);
    play.scene.newest = Some(Arc::new(NothingOver(1)));
    play.transcript.clear();
    play.approve_denied(&[decision("call_1", true), decision("call_2", true)]).check(expect![[r#"
        > approved
        save
        release call_2
        tool-approval-response false
        message-metadata {"call_2":{"state":"cancelled","code":"denied","reason":"closed above"}}
        tool-output-error call_2 Denied: closed above
    "#]]);
}

#[test]
fn an_edit_that_the_newest_rules_deny_leaves_the_call_waiting() {
    let mut play = Play::new();
    play.calls(&[("note", r#"{"n":1}"#)]);
    play.scene.newest = Some(Arc::new(NothingOver(5)));
    assert_eq!(play.denial_of_edit(&[edited("call_1", json!({"n": 6}))]), "closed above");
    assert!(play.run.calls[0].awaits_approval());
}

#[test]
fn a_call_that_waited_for_the_gate_does_not_run() {
    Play::new()
        .calls(&[("time", "{}"), ("where", "{}"), ("note", "{}")])
        .close()
        .answer(vec![decision("call_3", false)])
        .check(expect![[r#"
            > answered call_3 no
            save
            release call_3
            tool-approval-response false
            message-metadata {"call_3":{"state":"cancelled","code":"denied"}}
            tool-output-error call_3 Denied: the call was not approved.
            message-metadata {"call_1":{"state":"cancelled","code":"denied","reason":"closed"}}
            tool-output-error call_1 Denied: closed
            message-metadata {"call_2":{"state":"cancelled","code":"denied","reason":"closed"}}
            tool-output-denied call_2
            finish-step
            start-step
            ask
        "#]]);
}

#[test]
fn a_call_that_waited_for_its_resource_does_not_run() {
    Play::new().calls(&[("file", r#"{"n":1}"#)]).close().grant_lock("call_1").check(expect![[r#"
        > lock granted to call_1
        save
        message-metadata {"call_1":{"state":"cancelled","code":"denied","reason":"closed"}}
        tool-output-denied call_1
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn a_call_that_waited_for_its_tool_does_not_run() {
    let mut play = Play::new();
    play.calls(&[("note", "{}")]);
    // Its server goes away before it is approved.
    play.scene.toolbox = Toolbox::default();
    play.answer(vec![decision("call_1", true)]);
    assert!(play.run.waits_for_tools());
    play.close();
    play.apply("tools", Event::ToolsChanged).check(expect![[r#"
        > tools
        save
        message-metadata {"call_1":{"state":"cancelled","code":"denied","reason":"closed"}}
        tool-output-denied call_1
        finish-step
        start-step
        ask
    "#]]);
    assert!(!play.run.waits_for_tools());
}

#[test]
fn a_call_that_was_cut_off_does_not_run_again() {
    let mut play = Play::new();
    play.calls(&[("again", "{}")]).close();
    play.apply("resumed", Event::Resumed).check(expect![[r#"
        > resumed
        save
        message-metadata {"call_1":{"state":"cancelled","code":"denied","reason":"closed The call had begun to run before that, and may have had its effect."}}
        tool-output-denied call_1
        finish-step
        start-step
        ask
    "#]]);
    let reason = "closed The call had begun to run before that, and may have had its effect.";
    let cancelled = fermata_tools::Cancelled::Denied { reason: Some(reason.into()) };
    assert_eq!(*play.run.calls[0].state(), CallState::Cancelled { cancelled });
}

#[test]
fn a_call_that_failed_does_not_run_again() {
    let mut play = Play::new();
    play.calls(&[("again", "{}")]).close();
    play.apply("repeats", Event::Retries(ToolCallId::new("call_1"))).check(expect![[r#"
        > repeats
        save
        message-metadata {"call_1":{"state":"cancelled","code":"denied","reason":"closed The call had begun to run before that, and may have had its effect."}}
        tool-output-denied call_1
        finish-step
        start-step
        ask
    "#]]);
    assert!(!play.effects.after.may_retry);
}

#[test]
fn only_a_denial_counts_for_a_call_that_the_step_has_let_pass() {
    let mut play = Play::new();
    play.calls(&[("file", r#"{"n":1}"#)]);
    play.scene.newest = Some(Arc::new(AskAll));
    play.transcript.clear();
    play.grant_lock("call_1").check(expect![[r#"
        > lock granted to call_1
        save
        execute call_1
    "#]]);
}

/// Denies calls with `n` over this.
struct NothingOver(i64);

impl Policy for NothingOver {
    fn decide(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        if input["n"].as_i64().is_some_and(|n| n > self.0) {
            let reason = Some("closed above".into());
            return PolicyDecision { reason, ..PolicyDecision::new(Decision::Deny, DecisionSource::Rule(1)) };
        }
        DefaultPolicy.decide(requester, tool, input)
    }
}
