//! A step of the loop: one answer of the model.

use fermata_protocol::{FinishReason, JsonText};

use crate::{
    model::{ModelCall, ModelContent, ModelMessage, Usage},
    step::collector::{self, UrlSource},
};

/// One answer of a model, complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The number of the request that it answers, counted from 1. Requests that failed count.
    pub iteration: u32,
    /// The model's reasoning.
    pub reasoning: String,
    /// The model's text.
    pub text: String,
    /// The tool calls that the model made. If the arguments of one are no JSON object, its input is an empty object.
    pub calls: Vec<ModelCall>,
    /// Files that the model made.
    pub files: Vec<ModelContent>,
    /// Pages that the model based its answer on.
    pub sources: Vec<UrlSource>,
    /// The metadata that the provider wants back with the answer.
    pub provider_metadata: Option<JsonText>,
    /// The tokens of the step, if the provider counted them.
    pub usage: Option<Usage>,
    /// The reason why the answer ended.
    pub finish_reason: FinishReason,
}

// === impl Step ===

impl Step {
    /// Returns the step as a message of the conversation.
    pub fn message(&self) -> ModelMessage {
        ModelMessage::Assistant {
            reasoning: self.reasoning.clone(),
            text: self.text.clone(),
            calls: self.calls.clone(),
            provider_metadata: self.provider_metadata.clone(),
        }
    }

    /// Returns whether the answer ended before it was complete, so that its calls may not run.
    pub(super) fn is_cut_off(&self) -> bool {
        collector::cut_off(self.finish_reason).is_some()
    }
}
