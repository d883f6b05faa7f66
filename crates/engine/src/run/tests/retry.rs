//! A person makes a failed call again: the run begins with it, and somebody looks before an effect is repeated.

use fermata_tools::{ApprovalMode, ApprovalTerms, Grant, Rule, RulePolicy};

use super::*;

/// A run that begins with a call that a person makes again.
fn retrying(tool: &str, had_begun: bool, arrange: impl FnOnce(&mut Scene)) -> Play {
    let mut play = Play::new();
    arrange(&mut play.scene);
    let mut request = run_request(vec![posted("where"), posted("color")]);
    request.settings.retries = Some(RetriedCall {
        id: ToolCallId::new("call_again"),
        of: ToolCallId::new("call_failed"),
        tool: tool.into(),
        input: json!({"n": 1}).into(),
        had_begun,
    });
    play.run = Run::new(request);
    play.log.clear();
    play.transcript.clear();
    play.apply("begin", Event::Begun);
    play
}

fn asked(play: &Play) -> Option<String> {
    let call = &play.run.calls[0];
    if call.awaits_approval() { call.approval_reason() } else { None }
}

#[test]
fn a_retry_that_may_repeat_an_effect_is_asked_about_whatever_allows_it() {
    let automatic = |scene: &mut Scene| {
        scene.rules.policy = Arc::new(RulePolicy { approval: ApprovalMode::Auto, ..RulePolicy::default() });
    };
    let allowed = |scene: &mut Scene| {
        let rules = vec![Rule {
            terms: ApprovalTerms { always: true, ..ApprovalTerms::default() },
            ..Rule::of_every_call(Decision::Allow)
        }];
        scene.rules.policy = Arc::new(RulePolicy { rules, ..RulePolicy::default() });
    };
    let granted = |scene: &mut Scene| {
        let spec = scene.toolbox.find("note").unwrap().spec();
        let (scope, always) = (Scope::tool("note"), Always::default());
        scene.grants.add(Grant::new(&scene.toolbox, spec, scope, &always, Timestamp::UNIX_EPOCH));
    };
    for (tool, arrange) in [
        ("time", &(|_: &mut Scene| {}) as &dyn Fn(&mut Scene)),
        ("time", &automatic),
        ("note", &allowed),
        ("note", &granted),
        ("where", &|_: &mut Scene| {}),
    ] {
        let play = retrying(tool, true, arrange);
        assert!(asked(&play).unwrap().contains("may have had its effect already"), "{tool}");
        assert_eq!(play.run.calls[0].times_run(), 0);
        let play = retrying(tool, false, arrange);
        assert!(asked(&play).is_none(), "{tool} did not begin to run before");
    }
    let play = retrying("again", true, |_| {});
    assert_eq!(play.run.calls[0].times_run(), 1, "its tool may be repeated");
}

#[test]
fn the_question_about_a_retry_keeps_the_reason_of_the_rule() {
    let play = retrying("time", true, |scene| {
        let rule = Rule { reason: Some("Look at it.".into()), ..Rule::of_every_call(Decision::Ask) };
        scene.rules.policy = Arc::new(RulePolicy { rules: vec![rule], ..RulePolicy::default() });
    });
    assert!(asked(&play).unwrap().starts_with("Look at it. The call failed after it had begun"));
}

#[test]
fn a_rule_denies_a_retry() {
    let play = retrying("time", true, |scene| {
        let rules = vec![Rule::of_every_call(Decision::Deny)];
        scene.rules.policy = Arc::new(RulePolicy { rules, ..RulePolicy::default() });
    });
    assert_eq!(play.run.calls[0].state().name(), StateName::Cancelled);
}

#[test]
fn a_retry_is_the_same_call_after_a_crash() {
    let mut play = retrying("time", true, |_| {});
    play.check(expect![[r#"
        > begin
        save
        park call_again
        start
        start-step
        tool-input-start call_again
        tool-input-delta call_again {"n":1}
        tool-input-available call_again {"n":1}
        tool-approval-request call_again
    "#]]);
    let (call, of) = (&play.run.calls[0], ToolCallId::new("call_failed"));
    assert_eq!(call.retry_of, Some(of));
    play.crash().check(expect![[r#"
        > resumed
    "#]]);
    play.answer(vec![decision("call_again", true)]).check(expect![[r#"
        > answered call_again yes
        save
        release call_again
        execute call_again
        tool-approval-response true
    "#]]);
}
