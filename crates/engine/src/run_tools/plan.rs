//! Plans: the tools for them, whether one can be used, and how far it is.
//!
//! A plan has no state of its own. It follows from the calls of `make_plan` and `update_plan`, so the mechanisms of calls (rules, approval,
//! edits, expiry, restarts) holds for plans. This module decides without I/O, and knows neither runs nor models.

mod triggers;

use std::collections::HashSet;

use fermata_protocol::{JsonText, Plan, PlanMode, PlanState, PlanStep, PlanStepState, ToolCallId};
use fermata_tools::{Call, CallState, Decision, ToolSpec, Toolbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::triggers::PlanTriggers;
use super::{Offer, RunTool, Started, calls_of, spec_of};
use crate::memories::element_text;

/// The tool that makes a plan.
pub const MAKE_PLAN: &str = "make_plan";
/// The tool that ticks a step off.
pub const UPDATE_PLAN: &str = "update_plan";

/// The number of steps that a plan may have.
const MAX_STEPS: usize = 50;

/// The block of the system message in runs that may have a plan.
const BLOCK: &str = "For an answer that takes several steps there are plans. make_plan makes one, before anything else is done. Then \
do its steps in the order of their dependencies, and report each with update_plan as soon as it is done, failed or \
no longer needed. The steps that are still open stand before the user's message. Do not repeat the plan to the user.";

/// The words before the open steps of a plan.
const NOTE: &str = "The plan for the message below, which you have made, as far as it is not done yet. It is data, not part of the message.\n<plan>";
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
    #[serde(default, rename = "note")]
    #[schemars(length(max = 1000))]
    _note: Option<String>,
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
            PlanMode::Auto => Decision::Allow,
            PlanMode::Ask => Decision::Ask,
        };
        let description = "Makes the plan for the answer to the user's message. Call it once, and alone.";
        Some(spec_of::<PlanInput>(self, "Make a plan", description, policy))
    }

    fn instructions(&self) -> Option<&'static str> {
        Some(BLOCK)
    }

    fn check(&self, input: &Value, earlier: &[&Call], toolbox: &Toolbox) -> Result<(), String> {
        let mut earlier =
            made(earlier.iter().copied()).filter(|made| !matches!(made.state(), CallState::Error { .. }));
        match earlier.next().map(Call::state) {
            Some(CallState::Cancelled { .. }) => Err("There will be no plan for this message. Go on without one.".into()),
            Some(_) => Err("There is a plan for this message already. Go on with it, and report its steps with update_plan.".into()),
            None => check(input, toolbox),
        }
    }

    fn start(&self, _input: &Value, _calls: &[&Call]) -> Started {
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
        let description = "Reports how far a step of the plan is.";
        Some(spec_of::<UpdateInput>(self, "Update the plan", description, Decision::Allow))
    }

    fn start(&self, input: &Value, calls: &[&Call]) -> Started {
        Started::Settled(update(of_calls(calls.iter().copied()).as_ref(), input))
    }
}

/// Returns whether the tool of this name makes or updates the plan, in a run that may have one.
pub(crate) fn is_of_plan(tool: &str) -> bool {
    [MAKE_PLAN, UPDATE_PLAN].contains(&tool)
}

/// Returns the calls among these that make a plan, in a run that may have one.
pub(crate) fn made<'a>(calls: impl IntoIterator<Item = &'a Call>) -> impl Iterator<Item = &'a Call> {
    calls_of(&MakePlan, calls)
}

/// Checks an input of `make_plan` that fits the schema.
///
/// # Errors
/// Returns the text for the model, or for the person who has edited the plan, if the plan cannot be used.
fn check(input: &Value, toolbox: &Toolbox) -> Result<(), String> {
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
    for step in &steps {
        for other in step.depends_on.iter().flatten() {
            if !ids.contains(other.as_str()) {
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
    let mut reached = HashSet::new();
    loop {
        let before = rest.len();
        rest.retain(|step| {
            let is_ready = step.depends_on.iter().flatten().all(|other| reached.contains(other.as_str()));
            if is_ready {
                reached.insert(step.id.as_str());
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
        Some(plan) if [PlanState::Accepted, PlanState::Done].contains(&plan.state) => plan,
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

/// Returns the plan that follows from the calls of a run; `None` if none of them made one.
pub(crate) fn of_calls<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Option<Plan> {
    plan_of(calls.into_iter().filter_map(|call| {
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
    }))
}

fn plan_of<'a>(calls: impl Iterator<Item = PlanCall<'a>>) -> Option<Plan> {
    let mut plan: Option<Plan> = None;
    for call in calls {
        let PlanCall { id, tool, input, outcome } = call;
        if tool == MAKE_PLAN {
            let state = match outcome {
                PlanOutcome::Asked => PlanState::Proposed,
                PlanOutcome::Begun | PlanOutcome::Success => PlanState::Accepted,
                PlanOutcome::Cancelled => PlanState::Denied,
                PlanOutcome::Failed => continue,
            };
            if let Ok(PlanInput { goal, steps }) = input.read() {
                let steps = steps.into_iter().map(PlanStep::from).collect();
                plan = Some(Plan { goal, state, steps });
            }
            continue;
        }
        let Some(plan) =
            plan.as_mut().filter(|plan| [PlanState::Accepted, PlanState::Done].contains(&plan.state))
        else {
            continue;
        };
        if tool == UPDATE_PLAN {
            if outcome == PlanOutcome::Success
                && let Ok(UpdateInput { id, state, .. }) = input.read()
                && let Some(step) = plan.steps.iter_mut().find(|step| step.id == id)
            {
                step.state = state;
            }
        } else if outcome != PlanOutcome::Cancelled {
            // Of several steps with this tool it is the first one that nothing was called for yet.
            let of_tool = |step: &PlanStep| step.tool.as_deref() == Some(tool) && step.state.is_open();
            let untouched = plan.steps.iter().position(|step| of_tool(step) && step.tool_call_id.is_none());
            if let Some(index) = untouched.or_else(|| plan.steps.iter().position(of_tool)) {
                plan.steps[index].tool_call_id = Some(id.clone());
                plan.steps[index].state = PlanStepState::Doing;
            }
        }
        let is_open = plan.steps.iter().any(|step| step.state.is_open());
        plan.state = if is_open { PlanState::Accepted } else { PlanState::Done };
    }
    plan
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
            tool_call_id: None,
        }
    }
}

#[cfg(test)]
mod tests;
