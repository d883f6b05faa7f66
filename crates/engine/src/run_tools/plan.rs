//! Plans: the tools for them, whether one can be used, and how far it is.
//!
//! A plan has no state of its own. It follows from the open plan that a run begins with and from the run's calls: those of `make_plan` and
//! `update_plan`, and those of the tools that its steps name. So rules, approval, edits, expiry and restarts hold for plans as for any call.
//! This module decides without I/O, and knows neither runs nor models.

mod triggers;

use std::collections::HashSet;

use fermata_protocol::{JsonText, Plan, PlanMode, PlanState, PlanStep, PlanStepState, ToolCallId};
use fermata_tools::{Call, CallState, Cancelled, Decision, ToolSpec, Toolbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::triggers::PlanTriggers;
use super::{Earlier, Offer, RunTool, Started, calls_of, spec_of};
use crate::memories::element_text;

/// The tool that makes a plan.
pub const MAKE_PLAN: &str = "make_plan";
/// The tool that ticks a step off.
pub const UPDATE_PLAN: &str = "update_plan";

/// The number of steps that a plan may have.
const MAX_STEPS: usize = 50;

/// The number of plans in a run that a person may deny.
const MAX_DENIALS: usize = 3;

/// The block of the system message if a plan is suggested.
const BLOCK: &str = "The user's message asks for several things. Unless one answer does them all, make a plan with make_plan before you begin. \
Then do its steps in the order of their dependencies. Do not repeat the plan to the user.";

/// The words before the open steps of a plan.
const NOTE: &str = "The plan of this chat, which you have made, as far as it is not done yet. It is data, not part of the message below. Go on with it if \
the message allows that. A step whose tool you call is done when the call succeeds; report the others with update_plan as soon as they are done, \
failed or no longer needed.\n<plan>";
/// The words behind them.
const END_OF_NOTE: &str = "</plan>\n\n";

/// `make_plan`.
pub(crate) struct MakePlan;

/// `update_plan`.
pub(crate) struct UpdatePlan;

/// The input of `make_plan`.
#[derive(Debug, Deserialize, JsonSchema)]
struct PlanInput {
    /// The result that the user is to have in the end, in one sentence.
    #[schemars(length(min = 1, max = 1000))]
    goal: String,
    /// The steps, in the order you would do them.
    #[schemars(length(min = 1, max = MAX_STEPS))]
    steps: Vec<MadeStep>,
}

/// A step in the input of `make_plan`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct MadeStep {
    /// A short name that no other step has, such as s1.
    #[schemars(length(min = 1, max = 64))]
    id: String,
    /// The task, in a few words that the user understands.
    #[schemars(length(min = 1, max = 300))]
    title: String,
    /// The name of the tool that does it, if one does.
    #[serde(default)]
    tool: Option<String>,
    /// The input for that tool, as far as it is known.
    #[serde(default, rename = "input")]
    _input: Option<Map<String, Value>>,
    /// The ids of the steps that have to be done before.
    #[serde(default)]
    #[schemars(length(max = MAX_STEPS))]
    depends_on: Option<Vec<String>>,
}

/// The input of `update_plan`.
#[derive(Debug, Deserialize, JsonSchema)]
struct UpdateInput {
    /// The id of the step.
    id: String,
    /// The state of the step: todo, doing, done, failed, or skipped if it need not be done.
    state: PlanStepState,
    /// The result, or the reason why the step failed or is skipped, in a few words.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    note: Option<String>,
}

/// A call, as far as a plan depends on it.
struct PlanCall<'a> {
    id: &'a ToolCallId,
    tool: &'a str,
    input: &'a JsonText,
    outcome: PlanOutcome,
}

/// The outcome of a call, as far as a plan depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlanOutcome {
    /// It waits for a person.
    Asked,
    /// It may run, or runs.
    Begun,
    Success,
    Failed,
    Cancelled,
}

// === impl MakePlan ===

impl RunTool for MakePlan {
    fn name(&self) -> &'static str {
        MAKE_PLAN
    }

    fn spec(&self, offer: &Offer<'_>) -> Option<ToolSpec> {
        let policy = match offer.plan {
            PlanMode::Off => return None,
            PlanMode::Auto | PlanMode::Always => Decision::Allow,
            PlanMode::Ask => Decision::Ask,
        };
        let description = "Makes a plan for an answer that takes several steps, or replaces the open steps of the plan that there is. \
                           Steps that are over stay. Call it alone.";
        Some(spec_of::<PlanInput>(self, "Make a plan", description, policy))
    }

    fn instructions(&self, suggests_plan: bool) -> Option<&'static str> {
        suggests_plan.then_some(BLOCK)
    }

    fn check(&self, input: &Value, earlier: &Earlier<'_>, toolbox: &Toolbox) -> Result<(), String> {
        let denied = made(earlier.calls.iter().copied()).filter(|made| {
            matches!(made.state(), CallState::Cancelled { cancelled: Cancelled::Denied { .. } })
        });
        if denied.count() >= MAX_DENIALS {
            return Err(format!("The user has denied {MAX_DENIALS} plans. Go on without another one."));
        }
        check(input, earlier.plan.as_ref(), toolbox)
    }

    fn start(&self, _input: &Value, _plan: Option<&Plan>) -> Started {
        Started::Settled(Ok(json!({ "state": "accepted" })))
    }
}

// === impl UpdatePlan ===

impl RunTool for UpdatePlan {
    fn name(&self) -> &'static str {
        UPDATE_PLAN
    }

    fn spec(&self, offer: &Offer<'_>) -> Option<ToolSpec> {
        if offer.plan == PlanMode::Off {
            return None;
        }
        let description = "Reports how far a step of the plan is. A step is done by itself when the tool that it names succeeds.";
        Some(spec_of::<UpdateInput>(self, "Update the plan", description, Decision::Allow))
    }

    fn start(&self, input: &Value, plan: Option<&Plan>) -> Started {
        Started::Settled(update(plan, input))
    }
}

/// Returns the calls among these that make a plan, in a run that may have one.
pub(crate) fn made<'a>(calls: impl IntoIterator<Item = &'a Call>) -> impl Iterator<Item = &'a Call> {
    calls_of(&MakePlan, calls)
}

/// Checks an input of `make_plan` that fits the schema. It may depend on steps of the plan before that are over.
///
/// # Errors
/// Returns the text for the model, or for the person who has edited the plan, if the plan cannot be used.
fn check(input: &Value, before: Option<&Plan>, toolbox: &Toolbox) -> Result<(), String> {
    let PlanInput { steps, .. } =
        PlanInput::deserialize(input).map_err(|error| format!("The plan cannot be read: {error}."))?;
    if steps.is_empty() || steps.len() > MAX_STEPS {
        return Err(format!(
            "The plan has {} steps; it may have 1 to {MAX_STEPS}. Join some of them.",
            steps.len()
        ));
    }
    let mut ids = HashSet::new();
    for step in &steps {
        if !ids.insert(step.id.as_str()) {
            return Err(format!(
                "Two steps of the plan have the id {:?}. Give each step an id of its own.",
                step.id
            ));
        }
    }
    let over: HashSet<&str> = finished_steps(before).map(|step| step.id.as_str()).collect();
    for step in &steps {
        for other in step.depends_on.iter().flatten() {
            if !ids.contains(other.as_str()) && !over.contains(other.as_str()) {
                return Err(format!("The step {:?} depends on {other:?}, and no step has that id.", step.id));
            }
        }
        if let Some(tool) = &step.tool
            && toolbox.find(tool).is_none()
        {
            return Err(format!(
                "The step {:?} names a tool that does not exist. {} Leave `tool` out of a step that needs none.",
                step.id,
                toolbox.unknown_tool(tool).text
            ));
        }
    }
    // A step can be done once all its dependencies can; the steps that are left then depend on themselves.
    let mut rest: Vec<&MadeStep> = steps.iter().collect();
    let mut reached = over;
    loop {
        let before = rest.len();
        rest.retain(|step| {
            let is_ready = step.depends_on.iter().flatten().all(|other| reached.contains(other.as_str()));
            if is_ready {
                reached.insert(&step.id);
            }
            !is_ready
        });
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() == before {
            let circle: Vec<&str> = rest.iter().map(|step| step.id.as_str()).collect();
            return Err(format!(
                "These steps depend on each other in a circle, so that none of them can begin: {}.",
                circle.join(", ")
            ));
        }
    }
}

/// Checks whether a plan can be updated so, and returns the output of the call.
///
/// # Errors
/// Returns the text for the model if there is no such plan or step, or if something has to be done before the step.
fn update(plan: Option<&Plan>, input: &Value) -> Result<Value, String> {
    let UpdateInput { id, state, .. } =
        UpdateInput::deserialize(input).map_err(|error| format!("The update cannot be read: {error}."))?;
    let plan = match plan {
        Some(plan) if is_in_force(plan) => plan,
        Some(_) | None => return Err("There is no plan that could be updated. Go on without one.".into()),
    };
    let Some(step) = plan.steps.iter().find(|step| step.id == id) else {
        let known: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
        return Err(format!("The plan has no step {id:?}. Its steps are: {}.", known.join(", ")));
    };
    let before = step
        .depends_on
        .iter()
        .find_map(|id| plan.steps.iter().find(|other| other.id == *id && other.state.is_open()));
    if state == PlanStepState::Done
        && let Some(before) = before
    {
        return Err(format!(
            "The step {id:?} depends on {:?} ({}), which is not done yet. Do that first, or report it as failed or skipped.",
            before.id, before.title
        ));
    }
    let open = plan.steps.iter().filter(|step| {
        let state = if step.id == id { state } else { step.state };
        state.is_open()
    });
    let open: Vec<&str> = open.map(|step| step.id.as_str()).collect();
    Ok(json!({ "id": id, "state": state, "openSteps": open }))
}

/// Returns the plan that follows from the open plan of the chat and from the calls of a run; `None` if there is none.
pub(crate) fn of_calls<'a>(open: Option<Plan>, calls: impl IntoIterator<Item = &'a Call>) -> Option<Plan> {
    let calls = calls.into_iter().filter_map(|call| {
        let outcome = match call.state() {
            CallState::AwaitingApproval { .. } => PlanOutcome::Asked,
            CallState::Scheduled { .. } | CallState::Executing { .. } => PlanOutcome::Begun,
            CallState::Success { .. } => PlanOutcome::Success,
            CallState::Error { .. } => PlanOutcome::Failed,
            CallState::Cancelled { .. } => PlanOutcome::Cancelled,
            // The model has not made the call yet.
            CallState::Validating => return None,
        };
        Some(PlanCall { id: &call.id, tool: &call.tool, input: call.effective_input(), outcome })
    });
    plan_of(open, calls)
}

fn plan_of<'a>(open: Option<Plan>, calls: impl Iterator<Item = PlanCall<'a>>) -> Option<Plan> {
    let (mut plan, mut proposed) = (open, None);
    for call in calls {
        match (call.tool, call.outcome) {
            (MAKE_PLAN, PlanOutcome::Failed) => {}
            (MAKE_PLAN, outcome) => {
                let Ok(made) = call.input.read::<PlanInput>() else { continue };
                proposed = None;
                match outcome {
                    PlanOutcome::Asked => proposed = Some(replaced(plan.as_ref(), made, PlanState::Proposed)),
                    // What was denied changes no plan that there is.
                    PlanOutcome::Cancelled if plan.as_ref().is_some_and(is_in_force) => {}
                    PlanOutcome::Cancelled => plan = Some(replaced(None, made, PlanState::Denied)),
                    PlanOutcome::Begun | PlanOutcome::Success | PlanOutcome::Failed => {
                        plan = Some(replaced(plan.as_ref(), made, PlanState::Accepted));
                    }
                }
            }
            (_, _) => {
                if let Some(plan) = plan.as_mut().filter(|plan| is_in_force(plan)) {
                    advance(plan, &call);
                }
            }
        }
    }
    proposed.or(plan)
}

fn is_in_force(plan: &Plan) -> bool {
    [PlanState::Accepted, PlanState::Done].contains(&plan.state)
}

/// Returns the steps of an open plan that are over. A new plan keeps them.
fn finished_steps(plan: Option<&Plan>) -> impl Iterator<Item = &PlanStep> {
    let open = plan.filter(|plan| plan.state == PlanState::Accepted);
    open.into_iter().flat_map(|plan| &plan.steps).filter(|step| !step.state.is_open())
}

/// Returns a plan that takes the place of another one.
fn replaced(before: Option<&Plan>, made: PlanInput, state: PlanState) -> Plan {
    let mut steps: Vec<PlanStep> = finished_steps(before).cloned().collect();
    for step in made.steps {
        if steps.iter().all(|kept| kept.id != step.id) {
            steps.push(step.into());
        }
    }
    Plan { goal: made.goal, state, steps }
}

/// Changes the steps that a call is about.
fn advance(plan: &mut Plan, call: &PlanCall<'_>) {
    if call.tool == UPDATE_PLAN {
        if call.outcome == PlanOutcome::Success
            && let Ok(UpdateInput { id, state, note }) = call.input.read()
            && let Some(step) = plan.steps.iter_mut().find(|step| step.id == id)
        {
            step.state = state;
            step.note = note.or(step.note.take());
        }
    } else if call.outcome != PlanOutcome::Cancelled {
        // Of several steps with this tool it is the first one that nothing was called for yet.
        let of_tool = |step: &PlanStep| step.tool.as_deref() == Some(call.tool) && step.state.is_open();
        let untouched = plan.steps.iter().position(|step| of_tool(step) && step.tool_call_id.is_none());
        if let Some(index) = untouched.or_else(|| plan.steps.iter().position(of_tool)) {
            let step = &mut plan.steps[index];
            step.tool_call_id = Some(call.id.clone());
            let is_done = call.outcome == PlanOutcome::Success;
            step.state = if is_done { PlanStepState::Done } else { PlanStepState::Doing };
        }
    }
    let is_open = plan.steps.iter().any(|step| step.state.is_open());
    plan.state = if is_open { PlanState::Accepted } else { PlanState::Done };
}

/// Returns the text that stands before the words of the user while a plan has open steps; `None` if it has none.
pub(crate) fn note(plan: &Plan) -> Option<String> {
    if plan.state != PlanState::Accepted {
        return None;
    }
    let open: Vec<Value> = plan
        .steps
        .iter()
        .filter(|step| step.state.is_open())
        .map(|step| {
            let mut told = json!({ "id": step.id, "title": step.title, "state": step.state });
            if let Some(tool) = &step.tool {
                told["tool"] = tool.as_str().into();
            }
            if !step.depends_on.is_empty() {
                told["dependsOn"] = json!(step.depends_on);
            }
            told
        })
        .collect();
    Some(format!("{NOTE}{}{END_OF_NOTE}", element_text(&json!({ "goal": plan.goal, "openSteps": open }))))
}

/// Splits words of a user as a model is sent them into the ids of the open steps before them, and these words. This is for a model that is a
/// script.
pub fn split_note(text: &str) -> (Vec<OpenStep>, &str) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Told {
        open_steps: Vec<OpenStep>,
    }
    match text.strip_prefix(NOTE).and_then(|rest| rest.split_once(END_OF_NOTE)) {
        Some((told, words)) => {
            (serde_json::from_str(told).map_or_else(|_| Vec::new(), |told: Told| told.open_steps), words)
        }
        None => (Vec::new(), text),
    }
}

/// A step of a plan that is not done, in the form for a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenStep {
    /// The id of the step.
    pub id: String,
    /// The tool that does it, if the plan names one.
    #[serde(default)]
    pub tool: Option<String>,
}

impl From<MadeStep> for PlanStep {
    fn from(step: MadeStep) -> Self {
        Self {
            id: step.id,
            title: step.title,
            tool: step.tool,
            depends_on: step.depends_on.unwrap_or_default(),
            state: PlanStepState::Todo,
            note: None,
            tool_call_id: None,
        }
    }
}

#[cfg(test)]
mod tests;
