//! What a program may hear of a loop, and what it is asked.

use async_trait::async_trait;
use fermata_tools::{Elicitation, ElicitationReply, ToolError, ToolSpec};
use serde_json::Value;

use super::Step;
use crate::model::{ModelCall, ModelEvent};

/// Those who listen to a loop. Every method has a default that does nothing or says no; none may block.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// The model says something: the words as they come.
    fn event(&self, event: &ModelEvent) {
        let _ = event;
    }

    /// The model has said all of a step.
    fn step(&self, step: &Step) {
        let _ = step;
    }

    /// A call is taken up, before anything is decided about it. Told once of every call, also of one that
    /// cannot run.
    fn call(&self, call: &ModelCall) {
        let _ = call;
    }

    /// A call has its result. Told once of every call, as soon as the result is there.
    fn result(&self, call: &ModelCall, result: &Result<Value, ToolError>) {
        let _ = (call, result);
    }

    /// A running call has partial output; each stands for all before it. May come from another task.
    fn progress(&self, call_id: &str, output: Value) {
        let _ = (call_id, output);
    }

    /// Whether a call may run that the policy wants asked about, with the policy's reason. The calls of a
    /// step are asked about one after the other, in their order, and none of them runs before the last
    /// answer. Asked again where the loop's future was dropped during the question.
    async fn approve(&self, call: &ModelCall, tool: &ToolSpec, reason: Option<&str>) -> Approval {
        let _ = (call, tool, reason);
        Approval::Denied {
            reason: Some("this call needs the approval of a person, and there is nobody to ask".into()),
        }
    }

    /// A running call puts a question to the person.
    async fn elicit(&self, call_id: &str, question: Elicitation) -> ElicitationReply {
        let _ = (call_id, question);
        ElicitationReply::Cancel
    }
}

/// What is decided about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// It may run.
    Approved,
    /// It never runs.
    Denied {
        /// Why, in words for the model.
        reason: Option<String>,
    },
}

/// Hears nothing and allows nothing that must be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}
