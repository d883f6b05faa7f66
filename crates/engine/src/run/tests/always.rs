//! The scope of "always": it answers a tool's own default while the tool is unchanged, and no question of a rule or a chain.

use fermata_protocol::GrantedFor;
use fermata_tools::{ApprovalTerms, AuditAction, ChainMode, Grant};

use super::*;

/// Asks about calls with `n` over this, in words, and about the rest if that is its tool's default.
struct AskOver {
    n: i64,
    honors_grants: bool,
}

impl Policy for AskOver {
    fn decide(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        if input["n"].as_i64().is_some_and(|n| n > self.n) {
            let reason = Some("Look at n.".into());
            let terms = ApprovalTerms { always: self.honors_grants, ..ApprovalTerms::default() };
            return PolicyDecision {
                reason,
                terms: Some(Arc::new(terms)),
                ..PolicyDecision::new(Decision::Ask, DecisionSource::Rule(1))
            };
        }
        DefaultPolicy.decide(requester, tool, input)
    }
}

impl Play {
    fn asking_over(n: i64, honors_grants: bool) -> Self {
        let mut play = Self::new();
        play.scene.rules.policy = Arc::new(AskOver { n, honors_grants });
        play
    }

    /// "Always" was said of the tool, as it is, before.
    fn granted(mut self, tool: &str) -> Self {
        self.scene.grants.add(self.grant(tool, &Always::default()));
        self
    }

    fn grant(&self, tool: &str, always: &Always) -> Grant {
        let spec = self.scene.toolbox.find(tool).unwrap().spec();
        Grant::new(&self.scene.toolbox, spec, Scope::tool(tool), always, self.now)
    }

    fn policy_decisions(&self) -> Vec<(Decision, DecisionSource, Option<&str>)> {
        let policy_decisions = self.run.calls.iter().map(|call| call.policy_decision.as_ref().unwrap());
        policy_decisions
            .map(|policy_decision| {
                (policy_decision.decision, policy_decision.by, policy_decision.reason.as_deref())
            })
            .collect()
    }

    fn states(&self) -> Vec<&str> {
        self.run.calls.iter().map(|call| call.state().name().as_str()).collect()
    }
}

#[test]
fn always_does_not_answer_a_rule_that_asks() {
    let mut play = Play::asking_over(5, false).granted("note");
    play.calls(&[("note", r#"{"n":1}"#), ("note", r#"{"n":6}"#)]);
    assert_eq!(
        play.policy_decisions(),
        [
            (Decision::Allow, DecisionSource::Always, None),
            (Decision::Ask, DecisionSource::Rule(1), Some("Look at n."))
        ]
    );
}

#[test]
fn another_input_of_a_running_call_is_decided_like_a_call_of_its_own() {
    let decide = |play: &Play, call: &str, n: i64| {
        let context = play.scene.context(play.now);
        play.run.decision_about(&ToolCallId::new(call), &json!({ "n": n }), &context)
    };
    let mut play = Play::asking_over(5, false);
    play.calls(&[("note", r#"{"n":1}"#)]).answer(vec![decision("call_1", true)]);
    assert_eq!(decide(&play, "call_1", 2), Decision::Ask, "the person has approved one input");

    let mut play = Play::asking_over(5, false).granted("note");
    play.calls(&[("note", r#"{"n":1}"#)]);
    let saved: Vec<Call> = play.run.all_calls().cloned().collect();
    assert_eq!(decide(&play, "call_1", 2), Decision::Allow);
    assert_eq!(decide(&play, "call_1", 6), Decision::Ask, "a rule asks");
    assert_eq!(decide(&play, "call_2", 2), Decision::Deny, "there is no such call");
    play.scene.newest = Some(Arc::new(NothingOverNine));
    assert_eq!(decide(&play, "call_1", 10), Decision::Deny, "the newest rules deny it");
    assert!(play.run.all_calls().eq(&saved));

    let mut play = Play::new();
    play.scene.rules.chain = ChainMode::Ask;
    play.calls(&[("time", "{}")]).settle("call_1", Ok(json!("noon")));
    play.calls(&[("note", "{}")]).answer(vec![decision("call_2", true)]);
    assert_eq!(decide(&play, "call_2", 1), Decision::Ask, "it is not the first call of the turn");
}

#[test]
fn always_answers_a_rule_that_says_so() {
    let mut play = Play::asking_over(5, true).granted("note");
    play.calls(&[("note", r#"{"n":6}"#)]);
    assert_eq!(play.policy_decisions(), [(Decision::Allow, DecisionSource::Always, None)]);
}

#[test]
fn always_does_not_answer_a_chain_and_a_rules_own_words_come_first() {
    let mut play = Play::asking_over(5, false).granted("note");
    play.scene.rules.chain = ChainMode::Ask;
    play.calls(&[("time", "{}")]).settle("call_1", Ok(json!("noon")));
    play.calls(&[("note", r#"{"n":1}"#), ("note", r#"{"n":6}"#)]);
    assert_eq!(
        play.policy_decisions()[1..],
        [
            (Decision::Ask, DecisionSource::Chain, None),
            (Decision::Ask, DecisionSource::Rule(1), Some("Look at n."))
        ]
    );
}

#[test]
fn always_does_not_answer_a_tool_that_has_become_another_one() {
    let mut play = Play::new();
    let mut grant = play.grant("note", &Always::default());
    grant.terms.tools.insert("note".into(), "what it was".into());
    play.scene.grants.add(grant);
    play.calls(&[("note", "{}")]);
    assert_eq!(play.policy_decisions(), [(Decision::Ask, DecisionSource::Default, None)]);
}

#[test]
fn always_with_an_end_answers_nothing_once_it_has_come() {
    let always = Always { until: Some(Duration::from_secs(60)), ..Always::default() };
    for (later, expected) in [(59, Decision::Allow), (60, Decision::Ask)] {
        let mut play = Play::new();
        play.scene.grants.add(play.grant("note", &always));
        play.now += Duration::from_secs(later);
        play.calls(&[("note", "{}")]);
        assert_eq!(play.policy_decisions()[0].0, expected, "after {later} s");
    }
}

#[test]
fn a_grant_for_a_scope_decides_the_waiting_calls_in_it_and_later_ones_and_no_other() {
    let mut play = Play::asking_over(5, false);
    play.calls(&[("note", r#"{"n":1}"#), ("note", r#"{"n":2}"#), ("note", r#"{"n":1}"#)]);
    let answers = [always_in("call_1", "n:1")];
    let receipts = play.validate(&answers).unwrap().receipts;
    assert_eq!(receipts[0].waiting_for, [ToolCallId::new("call_2")]);
    assert_eq!(receipts[0].also_approved, [ToolCallId::new("call_3")]);
    assert!(receipts[0].gate_closed);
    play.answer(answers.to_vec());
    assert_eq!(play.states(), ["scheduled", "awaiting_approval", "scheduled"]);
    play.answer(vec![decision("call_2", true)]);
    for call in ["call_1", "call_2", "call_3"] {
        play.settle(call, Ok(json!(1)));
    }
    play.calls(&[("note", r#"{"n":1}"#), ("note", r#"{"n":2}"#), ("note", "{}")]);
    assert_eq!(play.states()[3..], ["scheduled", "awaiting_approval", "awaiting_approval"]);
}

#[test]
fn a_scope_that_the_call_does_not_have_is_refused_and_the_call_waits() {
    let mut play = Play::new();
    play.calls(&[("note", r#"{"n":1}"#)]);
    let Rejected::UnknownScope(text) = play.refusal(&[always_in("call_1", "n:2")]) else { panic!() };
    assert!(text.contains(r#"["tool", "n:1"]"#), "{text}");
    // The scope belongs to the input that the call would run with.
    let mut answer = always_in("call_1", "n:1");
    if let AnswerKind::Decision { input, .. } = &mut answer.kind {
        *input = Some(json!({"n": 2}).into());
    }
    assert!(matches!(play.refusal(&[answer]), Rejected::UnknownScope(_)));
    assert_eq!(play.states(), ["awaiting_approval"]);
}

#[test]
fn a_grant_says_for_whom_it_is_and_until_when() {
    let mut play = Play::new();
    play.calls(&[("note", r#"{"n":1}"#)]);
    let (granted_for, until) = (GrantedFor::Owner, Some(Duration::from_secs(60)));
    let always = Some(Always { scope: Some("n:1".into()), granted_for, until });
    let kind = AnswerKind::Decision { approved: true, reason: None, always, input: None };
    play.answer(vec![Answer { of: AnswerTarget::Call(ToolCallId::new("call_1")), kind }]);
    let [(0, grant)] = &play.effects.commit.grants[..] else { panic!("{:?}", play.effects.commit.grants) };
    assert_eq!((grant.terms.granted_for, grant.terms.scope.id.as_str()), (GrantedFor::Owner, "n:1"));
    assert_eq!(grant.terms.until, Some(play.now + Duration::from_secs(60)));
}

#[test]
fn saying_always_decides_the_waiting_calls_that_it_covers_and_no_other() {
    let mut play = Play::asking_over(5, false);
    play.calls(&[("note", "{}"), ("note", r#"{"n":1}"#), ("note", r#"{"n":6}"#)]);
    let receipts = play.validate(&[always("call_1")]).unwrap().receipts;
    assert_eq!(receipts[0].waiting_for, [ToolCallId::new("call_3")]);
    play.answer(vec![always("call_1")]);
    assert_eq!(play.states(), ["scheduled", "scheduled", "awaiting_approval"]);
    assert_eq!(play.scene.grants.iter().map(|grant| grant.tool.as_str()).collect::<Vec<_>>(), ["note"]);
}

#[test]
fn every_decision_is_noted_with_who_made_it_and_about_which_input() {
    let mut play = Play::asking_over(5, false);
    let mut noted = Vec::new();
    let mut note = |effects: &Effects| {
        let told = |event: &AuditEvent| {
            let by = event.principal.as_ref().map(ToString::to_string).unwrap_or_default();
            let hash = event.input_hash.clone().unwrap_or_default();
            (
                event.call.as_ref().map(ToString::to_string).unwrap_or_default(),
                event.action,
                event.rule,
                by,
                hash,
            )
        };
        let decisions = effects.commit.audit.iter().filter(|event| event.action != AuditAction::Started);
        noted.extend(decisions.map(told));
    };
    for (key, input) in ["{}", r#"{"n":1}"#, r#"{"n":6}"#].into_iter().enumerate() {
        play.receive(ModelEvent::CallStart { key, tool: "note".into() });
        play.receive(ModelEvent::CallDelta { key, arguments: input.into() });
    }
    play.receive(finished());
    note(&play.effects);
    play.answer(vec![always("call_1"), edited("call_3", json!({"n": 7}))]);
    note(&play.effects);
    let hash = |text: &str| fermata_tools::input_hash(&serde_json::from_str(text).unwrap());
    let by_rule = |call: &str, event, rule, input: &str| {
        (call.to_owned(), event, Some(rule), String::new(), hash(input))
    };
    let by_alice = |call: &str, event, rule, input: &str| {
        (call.to_owned(), event, rule, "alice".to_owned(), hash(input))
    };
    assert_eq!(
        noted,
        [
            by_rule("call_1", AuditAction::RuleAsked, DecisionSource::Default, "{}"),
            by_rule("call_2", AuditAction::RuleAsked, DecisionSource::Default, r#"{"n":1}"#),
            by_rule("call_3", AuditAction::RuleAsked, DecisionSource::Rule(1), r#"{"n":6}"#),
            by_alice("call_1", AuditAction::Approved, None, "{}"),
            by_alice("call_1", AuditAction::Granted, None, "{}"),
            by_alice("call_2", AuditAction::RuleAllowed, Some(DecisionSource::Always), r#"{"n":1}"#),
            by_alice("call_3", AuditAction::Edited, None, r#"{"n":7}"#),
            by_alice("call_3", AuditAction::Approved, None, r#"{"n":7}"#),
        ]
    );
}
