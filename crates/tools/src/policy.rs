//! The policy that decides whether a call runs, is denied, or needs a person's approval.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use rules::{Condition, Rule, RulePolicy};

use crate::{DecisionSource, People, PolicyDecision, Principal, ToolSpec};

mod rules;

/// The condition under which the calls of a step may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateMode {
    /// A call runs once all calls of the step are decided.
    #[default]
    Step,
    /// A call runs once it is decided.
    Progressive,
}

/// The treatment of the calls of a turn besides the first one. Once the model has seen a tool's result, they may follow injected
/// instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChainMode {
    /// The policy decides about them like about any other call.
    #[default]
    Free,
    /// They need a person's approval unless the policy denies them.
    Ask,
    /// Of the calls of one step only the first one runs. The model is asked to make the others again.
    One,
}

/// The setting that says when a model needs approval to change memories of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryWrites {
    /// The policy decides about these calls like about any other call.
    Free,
    /// After the model has read anything from outside in the turn, and for memories with a slot, which are in every prompt.
    #[default]
    AskAfterReading,
    /// Always.
    Ask,
}

/// The setting that says whether people are asked for approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalMode {
    /// People are asked if the policy demands it.
    #[default]
    Default,
    /// People are never asked. Calls that would need approval are allowed; denied calls stay denied.
    Auto,
}

/// The people of a policy that knows nobody.
static NOBODY: LazyLock<People> = LazyLock::new(People::default);

/// Decides about calls. Implementations have no side effects, and equal calls get equal decisions.
pub trait Policy: Send + Sync {
    /// Decides about a call with this input, which this principal requests.
    fn decide(&self, requester: &Principal, tool: &ToolSpec, input: &Value) -> PolicyDecision;

    /// Returns the people that the policy knows, with their groups. The default implementation knows nobody.
    fn people(&self) -> &People {
        &NOBODY
    }

    /// Returns the approval mode, which says whether people are asked at all.
    fn approval(&self) -> ApprovalMode {
        ApprovalMode::Default
    }
}

/// A policy without rules: each tool's own default applies.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultPolicy;

impl Policy for DefaultPolicy {
    fn decide(&self, _requester: &Principal, tool: &ToolSpec, _input: &Value) -> PolicyDecision {
        PolicyDecision::new(tool.policy, DecisionSource::Default)
    }
}
