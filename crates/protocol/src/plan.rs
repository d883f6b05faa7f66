//! The plan of a chat: its goal, in steps that are ticked off.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ToolCallId;

/// The use of plans in a run. Of two, the later one here is the stricter one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PlanMode {
    /// There are no plans.
    #[default]
    Off,
    /// The model may make a plan. If a message asks for several things, one is suggested.
    Auto,
    /// The model makes a plan before anything else.
    Always,
    /// As `auto`, and a person is asked about each plan.
    Ask,
}

/// A plan, as `data-plan` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The goal.
    pub goal: String,
    /// The state of the plan.
    pub state: PlanState,
    /// The steps, in their order.
    pub steps: Vec<PlanStep>,
}

/// The state of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanState {
    /// It waits for a person.
    Proposed,
    /// It is being worked on.
    Accepted,
    /// A person or a rule has denied it, its run ended before anybody decided, or the user has dropped it.
    Denied,
    /// No step of it is open any more.
    Done,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep {
    /// The name of the step within its plan.
    pub id: String,
    /// The task.
    pub title: String,
    /// The tool that does it, if the plan names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The ids of the steps that have to be done before.
    pub depends_on: Vec<String>,
    /// The state of the step.
    pub state: PlanStepState,
    /// The result, or the reason why it failed or is skipped, as the model has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The last call that was made for it, if the plan names its tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub tool_call_id: Option<ToolCallId>,
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanStepState {
    /// It has not begun.
    Todo,
    /// It is being done.
    Doing,
    /// It is done.
    Done,
    /// It cannot be done.
    Failed,
    /// It need not be done.
    Skipped,
}

// === impl PlanState ===

impl PlanState {
    /// Returns the name that the wire and the database use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Accepted => "accepted",
            Self::Denied => "denied",
            Self::Done => "done",
        }
    }
}

// === impl PlanStepState ===

impl PlanStepState {
    /// Returns whether something of the step is left to do.
    pub fn is_open(self) -> bool {
        match self {
            Self::Todo | Self::Doing => true,
            Self::Done | Self::Failed | Self::Skipped => false,
        }
    }

    /// Returns the name that the wire and the database use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Todo => "todo",
            Self::Doing => "doing",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}
