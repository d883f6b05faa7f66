//! Plans: when the model is to make one, and how its calls go through the states of any call.

use fermata_protocol::{Plan, PlanState, PlanStep, PlanStepState};

use super::*;
use crate::run_tools::{self, Offer};

const GOOD: &str =
    r#"{"goal":"g","steps":[{"id":"s1","title":"One"},{"id":"s2","title":"Two","dependsOn":["s1"]}]}"#;
const CIRCLE: &str = r#"{"goal":"g","steps":[{"id":"s1","title":"One","dependsOn":["s1"]}]}"#;
const S1_DONE: &str = r#"{"id":"s1","state":"done"}"#;
const S2_DONE: &str = r#"{"id":"s2","state":"done"}"#;

/// A run whose user has asked for several things.
fn planned(mode: PlanMode) -> Play {
    let mut play = Play::new();
    play.run.settings.plan = mode;
    play.run.settings.wants_plan = true;
    play.run.state.show.insert(Show::Plan);
    play.scene.toolbox = play.scene.toolbox.with_tools_of_run(run_tools::specs(&Offer {
        plan: mode,
        asks_user: false,
        posted: &[],
    }));
    play.scene.limits.steps = 6;
    play
}

fn must_plan(play: &Play) -> bool {
    play.run.tool_choice(&play.scene.limits) == Some(ToolChoice::Tool("make_plan".into()))
}

fn state(play: &Play, index: usize) -> StateName {
    play.run.calls[index].state().name()
}

#[test]
fn a_plan_is_suggested_and_forced_only_where_the_operator_says_so() {
    for (mode, suggests, forces) in [
        (PlanMode::Off, false, false),
        (PlanMode::Auto, true, false),
        (PlanMode::Ask, true, false),
        (PlanMode::Always, true, true),
    ] {
        let mut play = planned(mode);
        assert_eq!((play.run.suggests_plan(), must_plan(&play)), (suggests, forces), "{mode:?}");
        play.run.settings.wants_plan = false;
        assert_eq!((play.run.suggests_plan(), must_plan(&play)), (forces, forces), "{mode:?}");
    }
}

#[test]
fn a_plan_is_made_first_and_then_ticked_off() {
    let mut play = planned(PlanMode::Always);
    assert!(must_plan(&play) && play.run.is_planning());
    play.calls(&[("make_plan", GOOD)]).check(expect![[r#"
        > finished
        save
        tool-input-available call_1 {"goal":"g","steps":[{"id":"s1","title":"One"},{"id":"s2","title":"Two","dependsOn":["s1"]}]}
        data-plan accepted
        tool-output-available call_1 {"state":"accepted"}
        finish-step
        start-step
        ask
    "#]]);
    assert!(!must_plan(&play) && !play.run.is_planning());
    play.calls(&[("update_plan", S2_DONE), ("update_plan", S1_DONE)]).check(expect![[r#"
        > finished
        save
        tool-input-available call_2 {"id":"s2","state":"done"}
        tool-input-available call_3 {"id":"s1","state":"done"}
        message-metadata {"call_2":{"state":"error","code":"invalid_format"}}
        tool-output-error call_2 The step "s2" depends on "s1" (One), which is not done yet. Do that first, or report it as failed or skipped.
        data-plan accepted
        tool-output-available call_3 {"id":"s1","state":"done","openSteps":["s2"]}
        finish-step
        start-step
        ask
    "#]]);
    play.calls(&[("update_plan", S2_DONE)]).check(expect![[r#"
        > finished
        save
        tool-input-available call_4 {"id":"s2","state":"done"}
        data-plan done
        tool-output-available call_4 {"id":"s2","state":"done","openSteps":[]}
        finish-step
        start-step
        ask
    "#]]);
}

#[test]
fn a_plan_that_a_person_is_asked_about_may_be_edited() {
    let mut play = planned(PlanMode::Ask);
    play.calls(&[("make_plan", GOOD)]).check(expect![[r#"
        > finished
        save
        park call_1
        tool-input-available call_1 {"goal":"g","steps":[{"id":"s1","title":"One"},{"id":"s2","title":"Two","dependsOn":["s1"]}]}
        data-plan proposed
        tool-approval-request call_1
    "#]]);
    assert!(play.run.is_waiting() && play.run.is_planning());
    let circle = edited("call_1", serde_json::from_str(CIRCLE).unwrap());
    assert!(matches!(play.refusal(&[circle]), Rejected::BadInput(text) if text.contains("circle")));
    let only = json!({"goal": "g", "steps": [{"id": "s1", "title": "Only this"}]});
    play.answer(vec![edited("call_1", only)]).check(expect![[r#"
        > answered call_1 yes as {"goal":"g","steps":[{"id":"s1","title":"Only this"}]}
        save
        release call_1
        data-plan proposed
        tool-approval-response true
        data-plan accepted
        tool-input-available call_1 {"goal":"g","steps":[{"id":"s1","title":"Only this"}]}
        tool-output-available call_1 {"state":"accepted"}
        finish-step
        start-step
        ask
    "#]]);
    assert_eq!(play.run.plan().unwrap().steps[0].title, "Only this");
    assert!(!must_plan(&play));
}

#[test]
fn a_plan_that_waits_survives_the_end_of_the_process() {
    let mut play = planned(PlanMode::Ask);
    play.calls(&[("make_plan", GOOD)]).crash();
    assert!(play.run.is_planning());
    play.answer(vec![decision("call_1", true)]);
    assert_eq!((state(&play, 0), must_plan(&play)), (StateName::Success, false));
}

#[test]
fn a_denied_plan_may_be_proposed_again_three_times() {
    let mut play = planned(PlanMode::Ask);
    for _ in 0..3 {
        play.calls(&[("make_plan", GOOD)]);
        let call = play.run.calls.last().unwrap().id.to_string();
        play.answer(vec![decision(&call, false)]);
        assert_eq!(play.run.plan().unwrap().state, PlanState::Denied);
    }
    play.calls(&[("make_plan", GOOD)]);
    assert_eq!(state(&play, 3), StateName::Error);
}

#[test]
fn two_bad_plans_end_in_none() {
    let mut play = planned(PlanMode::Always);
    play.calls(&[("make_plan", CIRCLE)]);
    assert!(must_plan(&play));
    play.calls(&[("make_plan", CIRCLE)]);
    assert!(!must_plan(&play));
    assert_eq!(play.run.plan(), None);
    play.receive(ModelEvent::Text("Without.".into())).receive(finished());
    assert_eq!(play.run.state.phase, Phase::Over);
}

#[test]
fn an_answer_without_a_plan_is_shown_even_if_there_has_to_be_one() {
    let mut play = planned(PlanMode::Always);
    play.receive(ModelEvent::Text("No plan.".into())).receive(finished()).check(expect![[r#"
        > Text("No plan.")
        text-start
        text-delta No plan.
        > finished
        save
        text-end
        finish-step
        finish stop
        over: finished
    "#]]);
}

#[test]
fn the_open_plan_of_the_chat_goes_on_and_is_shown() {
    let mut play = planned(PlanMode::Always);
    let step = |id: &str, state| PlanStep {
        id: id.into(),
        title: id.into(),
        tool: None,
        depends_on: Vec::new(),
        state,
        note: None,
        tool_call_id: None,
    };
    let steps = vec![step("s1", PlanStepState::Done), step("s2", PlanStepState::Todo)];
    play.run.settings.open_plan = Some(Plan { goal: "g".into(), state: PlanState::Accepted, steps });
    assert!(!must_plan(&play), "there is one");
    play.calls(&[("update_plan", S2_DONE)]).check(expect![[r#"
        > finished
        save
        tool-input-available call_1 {"id":"s2","state":"done"}
        data-plan accepted
        data-plan done
        tool-output-available call_1 {"id":"s2","state":"done","openSteps":[]}
        finish-step
        start-step
        ask
    "#]]);
    play.crash();
    assert_eq!(play.run.plan().unwrap().state, PlanState::Done);
}

#[test]
fn other_calls_of_a_step_that_has_to_plan_are_cancelled() {
    let mut play = planned(PlanMode::Always);
    play.calls(&[("make_plan", GOOD), ("time", "{}"), ("update_plan", S1_DONE)]);
    assert_eq!([state(&play, 1), state(&play, 2)], [StateName::Cancelled; 2]);
}

#[test]
fn a_plan_replaces_the_one_before() {
    let mut play = planned(PlanMode::Auto);
    play.calls(&[("make_plan", GOOD)]).calls(&[("update_plan", S1_DONE)]);
    play.calls(&[("make_plan", r#"{"goal":"h","steps":[{"id":"s3","title":"Three","dependsOn":["s1"]}]}"#)]);
    let plan = play.run.plan().unwrap();
    assert_eq!(plan.goal, "h");
    assert_eq!(plan.steps.iter().map(|step| step.id.as_str()).collect::<Vec<_>>(), ["s1", "s3"]);
}

#[test]
fn a_user_who_has_chosen_a_tool_gets_no_plan() {
    for choice in [ToolChoice::Tool("time".into()), ToolChoice::None, ToolChoice::Required] {
        let mut play = planned(PlanMode::Always);
        play.run.settings.tool_choice = Some(choice.clone());
        assert_eq!(play.run.tool_choice(&play.scene.limits), Some(choice));
        assert!(!play.run.suggests_plan());
    }
}

#[test]
fn chain_counts_no_call_of_the_plan() {
    let mut play = planned(PlanMode::Auto);
    play.scene.rules.chain = fermata_tools::ChainMode::Ask;
    play.calls(&[("make_plan", GOOD)]).calls(&[("time", "{}"), ("update_plan", S1_DONE), ("time", "{}")]);
    let asked: Vec<bool> = play.run.all_calls().map(Call::awaits_approval).collect();
    assert_eq!(asked, [false, false, false, true]);
}

#[test]
fn a_rule_may_deny_plans() {
    let mut play = planned(PlanMode::Always);
    play.scene.rules.policy = Arc::new(NoPlans);
    play.calls(&[("make_plan", GOOD)]);
    assert_eq!((state(&play, 0), must_plan(&play)), (StateName::Cancelled, false));
}

struct NoPlans;

impl Policy for NoPlans {
    fn decide(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> PolicyDecision {
        let decided = DefaultPolicy.decide(requester, tool, input);
        if tool.name == "make_plan" {
            PolicyDecision { decision: Decision::Deny, ..decided }
        } else {
            decided
        }
    }
}

#[test]
fn the_last_step_makes_no_plan() {
    let mut play = planned(PlanMode::Always);
    play.scene.limits.steps = 1;
    assert_eq!(play.run.tool_choice(&play.scene.limits), Some(ToolChoice::None));
}

#[test]
fn without_plans_a_tool_of_the_server_may_be_called_make_plan() {
    let mut play = Play::new();
    let own: Arc<dyn Tool> = Arc::new(FakeTool("make_plan", Decision::Allow));
    play.scene.toolbox = Toolbox::new([own], configure_spec).0;
    play.calls(&[("make_plan", "{}")]);
    assert!(play.run.is_running(&ToolCallId::new("call_1")) && !play.run.is_planning());
}
