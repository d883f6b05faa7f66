//! Who decides about a call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use rules::{Condition, Rule, RulePolicy};

use crate::{Owner, ToolSpec};

mod rules;

/// What is to happen to a call before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It never runs.
    Deny,
}

/// A decision, why, and who made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyDecision {
    /// What is to happen.
    pub decision: Decision,
    /// Why, in words for the model and the person.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Who says so.
    pub by: DecisionSource,
}

/// What made a decision without a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSource {
    /// The tool's own default.
    Default,
    /// A rule, by its place among the rules, counted from 1.
    Rule(usize),
    /// The approval mode `auto`: what would be asked is allowed.
    Auto,
    /// `chain = "ask"`: the turn has had a tool's result.
    Chain,
    /// A person's earlier "always" in the chat.
    Always,
}

/// When the calls of a step may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateMode {
    /// Once all calls of the step are decided.
    #[default]
    Step,
    /// Each once it is decided itself.
    Progressive,
}

/// What becomes of calls that a tool's result may have led the model to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainMode {
    /// They are ruled on like any other.
    #[default]
    Free,
    /// Every one that is not denied is asked.
    Ask,
}

/// Whether people are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalMode {
    /// Where the policy says so.
    #[default]
    Default,
    /// Never: what would be asked is allowed; what is denied stays denied.
    Auto,
}

/// Says what is to happen to a call. Pure: the same call gets the same ruling.
pub trait Policy: Send + Sync {
    /// Rules on one call with this input, in a chat of this owner.
    fn decide(&self, owner: &Owner, tool: &ToolSpec, input: &Value) -> PolicyDecision;

    /// Whether a person's earlier "always" answers what was ruled. It answers a tool's own default, and a rule only if that says so.
    fn honors_grants(&self, policy_decision: &PolicyDecision) -> bool {
        policy_decision.by == DecisionSource::Default
    }

    /// Whether people are asked at all.
    fn approval(&self) -> ApprovalMode {
        ApprovalMode::Default
    }
}

/// Every tool's own default.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultPolicy;

impl Policy for DefaultPolicy {
    fn decide(&self, _owner: &Owner, tool: &ToolSpec, _input: &Value) -> PolicyDecision {
        PolicyDecision { decision: tool.policy, reason: None, by: DecisionSource::Default }
    }
}
