//! Hooks for a program that follows a loop and decides about its calls.

use async_trait::async_trait;
use fermata_protocol::JsonText;
use fermata_tools::{Elicitation, ElicitationReply, ToolError, ToolSpec};
use serde_json::Value;

use super::Step;
use crate::model::{ModelCall, ModelEvent};

/// Follows a loop and decides about its calls. Every method has a default, which does nothing or denies. No method may block the thread.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// The model has sent an event of its stream, such as a piece of text.
    fn event(&self, event: &ModelEvent) {
        let _ = event;
    }

    /// The model has completed a step.
    fn step(&self, step: &Step) {
        let _ = step;
    }

    /// The loop has come to a call and is about to validate it. This is called once for every call, even for one that cannot run.
    fn call(&self, call: &ModelCall) {
        let _ = call;
    }

    /// A call has its result. This is called once for every call, as soon as the result is there.
    fn result(&self, call: &ModelCall, result: &Result<Value, ToolError>) {
        let _ = (call, result);
    }

    /// A running call reports partial output, which replaces all that it reported before. This may be called from another task.
    fn progress(&self, call_id: &str, output: Value) {
        let _ = (call_id, output);
    }

    /// Decides about a call that needs an approval by the policy, for this reason. The calls of a step are decided one after the
    /// other, in their order, and no call of the step runs before the last decision. If the loop's future is dropped before the decision, the
    /// question is asked again.
    async fn approve(&self, call: &ModelCall, tool: &ToolSpec, reason: Option<&str>) -> Approval {
        let _ = (call, tool, reason);
        Approval::Denied {
            reason: Some("this call needs the approval of a person, and there is nobody to ask".into()),
        }
    }

    /// A running call asks the person something.
    async fn elicit(&self, call_id: &str, elicitation: Elicitation) -> ElicitationReply {
        let _ = (call_id, elicitation);
        ElicitationReply::Cancel
    }
}

/// A decision about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Approval {
    /// The call may run.
    Approved,
    /// The call may run with this input instead of its own. The result tells the model about the change. The call fails if the input does
    /// not fit the tool, or if the policy denies it.
    Edited {
        /// The input.
        input: JsonText,
    },
    /// The call never runs.
    Denied {
        /// The reason, which is part of the result that the model gets.
        reason: Option<String>,
    },
}

/// Follows nothing, and denies every call that needs an approval.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}
