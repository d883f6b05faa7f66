//! The policy that decides whether a call runs, is denied, or needs a person's approval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use rules::{Condition, Rule, RulePolicy};

use crate::{DecisionSource, Owner, PolicyDecision, RunBy, ToolSpec};

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

/// Decides about calls. Implementations have no side effects, and equal calls get equal decisions.
pub trait Policy: Send + Sync {
    /// Decides about a call with this input, in a chat of this owner.
    fn decide(&self, owner: &Owner, tool: &ToolSpec, input: &Value) -> PolicyDecision;

    /// Returns whether a person's earlier "always" takes the place of the approval that this decision asks for. The default
    /// implementation returns true only for a tool's own default.
    fn honors_grants(&self, policy_decision: &PolicyDecision) -> bool {
        policy_decision.by == DecisionSource::Default
    }

    /// Returns whether a message such as "yes" may decide about a call of a tool that this party runs, if this is the policy's
    /// decision. The default implementation returns false for tools of MCP servers only.
    fn honors_words(&self, _policy_decision: &PolicyDecision, run_by: RunBy) -> bool {
        run_by != RunBy::Mcp
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
    fn decide(&self, _owner: &Owner, tool: &ToolSpec, _input: &Value) -> PolicyDecision {
        PolicyDecision { decision: tool.policy, reason: None, by: DecisionSource::Default }
    }
}
