//! A tool that changes while its call waits: nobody was shown what would run, so the call is asked about again.

use std::collections::HashSet;

use fermata_protocol::ApprovalId;
use fermata_tools::{AuditAction, Grant, Rule, RulePolicy};

use super::*;

impl Play {
    /// Every call is asked about.
    fn asking() -> Self {
        let mut play = Self::new();
        let rules = vec![Rule::of_every_call(Decision::Ask)];
        play.scene.rules.policy = Arc::new(RulePolicy { rules, ..RulePolicy::default() });
        play
    }

    /// A tool of the server says something else of itself from now on.
    fn change_tool(&mut self, name: &str, change: impl Fn(&mut ToolSpec)) -> &mut Self {
        let tools = [("time", Decision::Allow), ("note", Decision::Ask), ("file", Decision::Allow)];
        let tools = tools.into_iter().chain([("again", Decision::Allow)]);
        let tools = tools.map(|(name, policy)| Arc::new(FakeTool(name, policy)) as Arc<dyn Tool>);
        let changed = Toolbox::new(tools, |spec| {
            configure_spec(spec);
            if spec.name == name {
                change(spec);
            }
        });
        self.scene.toolbox = self.scene.toolbox.with_newer_tools_of(&changed.0);
        self
    }

    fn describe_tool(&mut self, name: &str) -> &mut Self {
        self.change_tool(name, |spec| spec.description = "Pays ten times.".into())
    }

    /// Approves a call whose tool has changed, as the active run has it done.
    fn approve_outdated(&mut self, answer: Answer) -> &mut Self {
        let valid = self.validate(&[answer]).unwrap();
        assert!(matches!(valid.overruled[..], [(_, Overruled::ToolChanged)]));
        self.apply("approved", Event::ApprovalsOverruled(valid.overruled))
    }

    fn question(&self, call: usize) -> ApprovalId {
        self.run.calls[call].approval_request.as_ref().unwrap().id.clone()
    }

    fn approve_newest(&mut self, call: usize) -> &mut Self {
        let of = AnswerTarget::Approval(self.question(call));
        self.answer(vec![Answer { of, kind: decision("", true).kind }])
    }

    fn states_of_calls(&self) -> Vec<&str> {
        self.run.calls.iter().map(|call| call.state().name().as_str()).collect()
    }
}

#[test]
fn an_approval_of_a_tool_that_has_changed_is_refused_and_asked_for_again() {
    let mut play = Play::new();
    play.calls(&[("note", "{}")]).describe_tool("note").transcript.clear();
    let before = play.question(0);
    play.approve_outdated(decision("call_1", true)).check(expect![[r#"
        > approved
        save
        tool-input-available call_1 {}
        tool-approval-request call_1
    "#]]);
    let asked: Vec<_> = play.effects.commit.audit.iter().map(|event| (event.action, event.rule)).collect();
    assert_eq!(asked, [(AuditAction::RuleAsked, Some(DecisionSource::ToolChanged))]);
    assert!(play.run.calls[0].approval_reason().unwrap().contains("note has changed"));
    let outdated = || Rejected::Outdated { call: ToolCallId::new("call_1"), tool: "note".into() };
    assert_eq!(play.refusal(&[decision("call_1", true)]), outdated(), "it does not say which question");
    for approved in [true, false] {
        let kind = decision("", approved).kind;
        assert_eq!(play.refusal(&[Answer { of: AnswerTarget::Approval(before.clone()), kind }]), outdated());
    }
    play.crash().transcript.clear();
    play.approve_newest(0).check(expect![[r#"
        > answered by question
        save
        release call_1
        execute call_1
        tool-approval-response true
    "#]]);
}

#[test]
fn everything_that_a_person_was_shown_of_a_tool_counts() {
    let changes: [fn(&mut ToolSpec); 5] = [
        |spec| spec.title = Some("Look up the weather".into()),
        |spec| spec.description = "Pays.".into(),
        |spec| spec.input_schema = json!({"type": "object", "properties": {"n": {"default": 10}}}).into(),
        |spec| spec.server = Some("other".into()),
        |spec| spec.annotations = Some(json!({"destructiveHint": false})),
    ];
    for change in changes {
        let mut play = Play::new();
        play.calls(&[("note", "{}")]).change_tool("note", change).approve_outdated(decision("call_1", true));
        assert_eq!(play.states_of_calls(), ["awaiting_approval"]);
    }
    let mut play = Play::new();
    play.calls(&[("note", "{}")]).change_tool("note", |spec| spec.timeout = Some(Duration::from_secs(1)));
    play.answer(vec![decision("call_1", true)]);
    assert_eq!(play.states_of_calls(), ["executing"], "the operator's settings make no other tool of it");
}

#[test]
fn a_person_may_deny_the_call_without_looking_again() {
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("where", "{}")]).describe_tool("note");
    play.approve_outdated(decision("call_1", true)).answer(vec![decision("call_1", false)]);
    assert_eq!(play.states_of_calls(), ["cancelled", "executing"]);
}

#[test]
fn a_tool_that_changes_behind_a_closed_gate_keeps_it_closed() {
    let mut play = Play::asking();
    play.calls(&[("note", "{}"), ("again", "{}")]).answer(vec![decision("call_1", true)]);
    play.describe_tool("note").transcript.clear();
    play.answer(vec![decision("call_2", true)]).check(expect![[r#"
        > answered call_2 yes
        save
        release call_2
        park call_1
        tool-approval-response true
        tool-input-available call_1 {}
        tool-approval-request call_1
    "#]]);
    assert_eq!(play.states_of_calls(), ["awaiting_approval", "scheduled"]);
    play.approve_newest(0);
    assert_eq!(play.states_of_calls(), ["executing", "executing"]);
}

#[test]
fn a_tool_that_changes_while_its_call_is_queued_does_not_run() {
    let mut play = Play::asking();
    play.calls(&[("file", r#"{"n":1}"#)]).answer(vec![decision("call_1", true)]);
    play.describe_tool("file").transcript.clear();
    play.grant_lock("call_1").check(expect![[r#"
        > lock granted to call_1
        save
        park call_1
        tool-input-available call_1 {"n":1}
        tool-approval-request call_1
    "#]]);
    play.approve_newest(0);
    assert!(play.run.calls[0].state().waits_for() == Some(&Wait::Resource), "it queues again");
    play.grant_lock("call_1");
    assert_eq!(play.states_of_calls(), ["executing"]);

    let mut play = Play::asking();
    play.scene.limits.running_calls = std::num::NonZeroUsize::new(1);
    play.calls(&[("note", "{}")]).answer(vec![decision("call_1", true)]).describe_tool("note");
    let slot = || Event::Admission(vec![(ToolCallId::new("call_1"), Admission::Granted)]);
    play.apply("slot", slot());
    assert_eq!(play.states_of_calls(), ["awaiting_approval"]);
    play.apply("slot", slot());
    assert_eq!(play.states_of_calls(), ["awaiting_approval"]);
}

#[test]
fn a_tool_that_comes_back_changed_does_not_run() {
    let mut play = Play::new();
    play.calls(&[("note", "{}")]);
    play.scene.toolbox = Toolbox::default();
    play.answer(vec![decision("call_1", true)]).describe_tool("note");
    play.apply("tools", Event::ToolsChanged);
    assert_eq!(play.states_of_calls(), ["awaiting_approval"]);
    assert!(!play.run.waits_for_tools());
}

#[test]
fn what_the_rules_allow_runs_as_long_as_they_allow_it() {
    let mut play = Play::new();
    play.calls(&[("file", r#"{"n":1}"#)]).describe_tool("file").grant_lock("call_1");
    assert_eq!(play.states_of_calls(), ["executing"], "nobody was to be asked");
    let mut play = Play::new();
    play.calls(&[("file", r#"{"n":1}"#)]);
    play.change_tool("file", |spec| (spec.title, spec.policy) = (Some("Burn".into()), Decision::Ask));
    play.grant_lock("call_1");
    assert_eq!(play.states_of_calls(), ["awaiting_approval"], "it needs approval by now");
}

#[test]
fn always_does_not_let_a_tool_run_that_has_changed() {
    let in_turn = |spec: &mut ToolSpec| spec.resource = Some(Resource::named("notes"));
    let mut play = Play::new();
    play.change_tool("note", in_turn);
    let spec = play.scene.toolbox.find("note").unwrap().spec();
    let grant = Grant::new(&play.scene.toolbox, spec, Scope::tool("note"), &Always::default(), play.now);
    play.scene.grants.add(grant);
    play.calls(&[("note", "{}")]);
    assert!(play.run.calls[0].state().waits_for() == Some(&Wait::Resource));
    play.change_tool("note", |spec| {
        in_turn(spec);
        spec.description = "Pays ten times.".into();
    });
    play.grant_lock("call_1");
    assert_eq!(play.states_of_calls(), ["awaiting_approval"]);

    // "Always" that comes after the change is for neither form of the tool.
    let mut play = Play::new();
    play.calls(&[("note", "{}"), ("note", "{}")]).describe_tool("note").approve_outdated(always("call_1"));
    assert_eq!(play.scene.grants.iter().count(), 0);
    // It covers no call that shows the tool as it was.
    let of = AnswerTarget::Approval(play.question(0));
    play.answer(vec![Answer { of, kind: always("").kind }]);
    assert_eq!(play.states_of_calls(), ["scheduled", "awaiting_approval"]);
}

#[test]
fn an_edit_was_made_for_the_tool_as_it_was() {
    let mut play = Play::asking();
    play.calls(&[("note", r#"{"n":1}"#), ("again", "{}")]);
    play.answer(vec![edited("call_1", json!({"n": 2}))]).describe_tool("note");
    play.answer(vec![decision("call_2", true)]);
    assert_eq!(play.run.calls[0].effective_input(), &json!({"n": 1}).into(), "as the card shows it again");
    play.approve_newest(0);
    assert_eq!(play.states_of_calls(), ["executing", "executing"]);
}

#[test]
fn a_call_that_has_run_does_not_run_again_with_a_tool_that_has_changed() {
    let mut play = Play::new();
    play.calls(&[("again", "{}")]).describe_tool("again").transcript.clear();
    play.crash();
    assert_eq!(
        (play.states_of_calls(), play.run.calls[0].times_run()),
        (vec!["executing"], 2),
        "it is allowed"
    );
    let mut play = Play::asking();
    play.calls(&[("again", "{}")]).answer(vec![decision("call_1", true)]);
    play.describe_tool("again").transcript.clear();
    play.apply("repeats", Event::Retries(ToolCallId::new("call_1"))).check(expect![[r#"
        > repeats
        save
        message-metadata {"call_1":{"state":"error","code":"internal"}}
        tool-output-error call_1 The tool again has changed since the call was allowed. The call had begun to run before that, and may have had its effect.
        finish-step
        start-step
        ask
    "#]]);
    assert!(!play.effects.after.may_retry);
}

#[test]
fn an_approval_in_a_posted_message_finds_the_new_question_in_its_stream() {
    let mut play = Play::new();
    play.calls(&[("note", "{}")]).describe_tool("note").transcript.clear();
    let answers = [decision("call_1", true)];
    let by = play.scene.decider(DecisionChannel::Message);
    let valid = play.run.validate(&answers, &by, &play.scene.context(play.now)).unwrap();
    play.apply("posted", Event::Answered(valid.answers)).check(expect![[r#"
        > posted
        save
        tool-input-available call_1 {}
        tool-approval-request call_1
    "#]]);
    assert_eq!(play.states_of_calls(), ["awaiting_approval"]);
}

#[test]
fn a_client_that_shows_the_new_question_is_sent_nothing_from_before_it() {
    let mut play = Play::asking();
    play.calls(&[("file", r#"{"n":1}"#), ("again", "{}")]);
    play.answer(vec![decision("call_1", true), decision("call_2", true)]);
    play.describe_tool("file").grant_lock("call_1");
    let asked_at = play.log.last().unwrap().0;
    let shown = play.run.snapshot();
    let reconciliation = play.run.reconcile(&client_view(&shown.parts)).unwrap();
    assert!(reconciliation.after >= asked_at, "{:?}", reconciliation.after);
    assert!(play.run.new_answers(&shown.parts).is_empty());
}

#[test]
fn words_decide_about_the_newest_questions() {
    let mut play = Play::new();
    play.calls(&[("note", "{}")]).describe_tool("note").approve_outdated(decision("call_1", true));
    let question = play.question(0);
    let decisions = play.run.decisions(true, &HashSet::from([&question]));
    assert_eq!(decisions[0].of, AnswerTarget::Approval(question));
    play.answer(decisions);
    assert_eq!(play.states_of_calls(), ["executing"]);
}
