//! `data-run`: the stage of the run, so that a page does not have to guess it.
//!
//! The stage is a pure function of the run, and no state of its own. Only clients that ask for it are sent this ([`Show::Run`]). The chunk is
//! transient: it is not a part of the message.

use fermata_protocol::{RunStatus, RunWaitsFor, Show, Stage};
use fermata_tools::{Call, CallState};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Context, Deciding, Phase, Run};
use crate::model::{
    ModelContent,
    content::{failure_text, tool_content},
};

/// The length of a result in the status at most, in characters.
const RESULT_CHARACTERS: usize = 200;

/// The outcome of the last call that got one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastOutcome {
    tool: String,
    /// The beginning of the text that the model receives.
    result: String,
}

// === impl Run ===

impl Run {
    /// Returns the run's activity, with the words that decide about its calls now.
    pub fn status_with_words(&self, context: &Context<'_>) -> RunStatus {
        let mut status = self.status();
        if self.can_be_decided_in_words(context) {
            status.confirm_words = context.rules.consent.confirm().to_vec();
        }
        status.takes_reply = self.takes_reply();
        status
    }

    /// Returns the run's activity.
    pub fn status(&self) -> RunStatus {
        let last = self.state.last_outcome.as_ref();
        RunStatus {
            stage: self.stage(),
            requires_confirm: self.all_calls().any(Call::awaits_approval),
            gate_closed: self.state.phase == Phase::Deciding,
            confirm_words: Vec::new(),
            takes_reply: false,
            waits_for: if self.open_step.is_queued && self.state.phase == Phase::Streaming {
                Some(RunWaitsFor::Capacity)
            } else {
                None
            },
            last_tool: last.map(|last| last.tool.clone()),
            last_result: last.map(|last| last.result.clone()),
        }
    }

    fn stage(&self) -> Stage {
        match self.state.phase {
            Phase::Over => Stage::Idle,
            Phase::Streaming | Phase::Deciding | Phase::Working if self.is_planning() => Stage::Plan,
            Phase::Streaming if !self.step_calls().is_empty() => Stage::ToolCall,
            Phase::Streaming if self.open_step.speaks() => Stage::Respond,
            Phase::Streaming => Stage::Decide,
            Phase::Deciding | Phase::Working => {
                let are_settled = self.step_calls().iter().all(|call| call.state().is_final());
                if are_settled { Stage::ToolResult } else { Stage::ToolCall }
            }
        }
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Notes the outcome of a call that has just got it.
    pub(super) fn note_last_outcome(&mut self, index: usize) {
        let call = self.run.call(index);
        let told = match call.state() {
            CallState::Success { output } => {
                let content = tool_content(output, self.context.limits.model_output_bytes);
                let text = content.into_iter().filter_map(|piece| match piece {
                    ModelContent::Text(text) => Some(text),
                    ModelContent::File { .. } => None,
                });
                text.collect::<String>()
            }
            CallState::Error { error_text, .. } => {
                failure_text(error_text, self.run.hint(&call.id, self.context.rules))
            }
            CallState::Cancelled { cancelled } => cancelled.text(),
            CallState::Validating
            | CallState::AwaitingApproval { .. }
            | CallState::Scheduled { .. }
            | CallState::Executing { .. } => return,
        };
        let tool = call.tool.clone();
        let result = told.chars().take(RESULT_CHARACTERS).collect();
        self.run.state.last_outcome = Some(LastOutcome { tool, result });
    }

    /// Sends the client the activity of the run if that has changed, and if the client has asked for it. Nothing follows `finish`.
    pub(super) fn show_run(&mut self) {
        if self.run.state.phase != Phase::Over {
            self.show_stage(self.run.stage());
        }
    }

    /// Tells the client that the run is over, right before the last chunk.
    pub(super) fn show_idle(&mut self) {
        self.show_stage(Stage::Idle);
    }

    fn show_stage(&mut self, stage: Stage) {
        // Most clients do not ask, and this is looked at for each piece of an answer.
        if !self.run.state.show.contains(&Show::Run) {
            return;
        }
        let status = RunStatus { stage, ..self.run.status_with_words(self.context) };
        if self.run.shown_status.as_ref() != Some(&status) {
            self.publish_transient("data-run", json!(status));
            self.run.shown_status = Some(status);
        }
    }
}
