//! The status of a run and of its model's window, so that a page or an operator does not have to guess it from the parts of a message.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The stage of a chat's run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// No run is open.
    #[default]
    Idle,
    /// The model makes a plan, or its plan waits for a person.
    Plan,
    /// Calls are checked, asked about or run.
    ToolCall,
    /// The results of the calls are in.
    ToolResult,
    /// The model decides about the next step.
    Decide,
    /// The model speaks to the person.
    Respond,
}

/// A request to the model waits for this before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunWaitsFor {
    /// The end of others, because the model may be sent no more at a time.
    Capacity,
}

/// The status of a chat's run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// The stage of the run.
    pub stage: Stage,
    /// True if a call waits for a person's decision.
    pub requires_confirm: bool,
    /// True while no call of the step runs, because one of them waits for a person's decision. It is not saved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gate_closed: bool,
    /// The words that approve all calls that wait, if a message that is one of them does so now. They are not saved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirm_words: Vec<String>,
    /// True if a message is the answer to a question of the assistant now. It is not saved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_reply: bool,
    /// The run's request to its model waits for this. It is not saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<RunWaitsFor>,
    /// The tool of the last call that got its outcome in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_tool: Option<String>,
    /// The beginning of the model's text about that outcome: 200 characters at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_result: Option<String>,
}

/// The part of its window that a model's last request has filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextUsage {
    /// The number of tokens of the last request.
    pub input_tokens: u64,
    /// The number of tokens that the model can take, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The number of tokens above which the history is compacted, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact_at: Option<u64>,
}

// === impl Stage ===

impl Stage {
    /// All stages.
    pub const ALL: [Self; 6] =
        [Self::Idle, Self::Plan, Self::ToolCall, Self::ToolResult, Self::Decide, Self::Respond];

    /// Returns the name that the wire and the database use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Plan => "plan",
            Self::ToolCall => "tool_call",
            Self::ToolResult => "tool_result",
            Self::Decide => "decide",
            Self::Respond => "respond",
        }
    }
}
