//! Who decides about a call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ToolSpec;

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

/// A decision, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// What is to happen.
    pub decision: Decision,
    /// Why, in words for the model and the person.
    pub reason: Option<String>,
}

/// Says what is to happen to a call. Pure: the same call gets the same ruling.
pub trait Policy: Send + Sync {
    /// Rules on one call with this input.
    fn rule(&self, tool: &ToolSpec, input: &Value) -> Ruling;
}

/// Every tool's own default.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultPolicy;

impl Policy for DefaultPolicy {
    fn rule(&self, tool: &ToolSpec, _input: &Value) -> Ruling {
        Ruling { decision: tool.policy, reason: None }
    }
}
