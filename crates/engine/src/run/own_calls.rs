//! Calls that the run makes itself: the one in place of a call that has failed, and the one that a person makes again.
//!
//! They go through the checks, the rules and the states of any call. Until their inputs are checked, nothing of them is shown or saved; after a
//! crash they are checked again.

use fermata_protocol::{JsonText, ToolCallId, UiChunk};
use fermata_tools::{Call, ErrorType, Fallback, InputError, ToolRef, ToolSpec};
use serde::{Deserialize, Serialize};

use super::{
    Context, Deciding, Next, Phase, Run,
    streaming::{MadeCall, OwnCall, OwnCallCause},
};
use crate::step::collector::InvalidArguments;

/// The first call of a run that repeats a failed one for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetriedCall {
    /// The id of the new call.
    pub id: ToolCallId,
    /// The id of the failed call.
    pub of: ToolCallId,
    pub tool: String,
    pub input: JsonText,
    /// `true` if the failed call had begun to run, so that it may have had its effect.
    pub had_begun: bool,
}

// === impl Run ===

impl Run {
    /// Returns whether the call was made by the run and not by the model.
    pub(super) fn is_made_by_run(&self, call: &Call) -> bool {
        call.fallback_of.is_some() || call.retry_of.is_some()
    }

    /// Returns whether a person makes a call again with this one that may have had its effect, and that its tool may not repeat.
    pub(super) fn may_repeat_effect(&self, call: &Call, spec: &ToolSpec) -> bool {
        let had_begun = self.settings.retries.as_ref().is_some_and(|retried| retried.had_begun);
        call.retry_of.is_some() && had_begun && !spec.repeatable
    }

    /// Returns whether the run is about to make calls itself.
    pub fn makes_own_calls(&self) -> bool {
        !self.open_step.own.is_empty()
    }

    /// Returns whether another call was made in place of this one.
    pub(super) fn has_fallback(&self, call: &ToolCallId) -> bool {
        self.calls.iter().any(|other| other.fallback_of.as_ref() == Some(call))
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Asks the model for the step, unless the run makes its first call itself.
    pub(super) fn ask_model(&mut self) {
        let retried = self.run.settings.retries.clone().filter(|_| self.run.state.step == 1);
        let Some(RetriedCall { id, of, tool, input, had_begun: _ }) = retried else {
            self.effects.after.next = Next::AskModel;
            return;
        };
        // The run exists from now on, even if the check takes a while.
        self.effects.commit.run = true;
        self.check_own_call(OwnCall { id, tool, input, cause: OwnCallCause::RetryOf(of) });
        if self.effects.before.checks.is_empty() {
            self.on_own_calls_checked(Vec::new());
        }
    }

    /// Begins the checks of the calls in place of those of the step that have failed for good. Returns `false` if there are none.
    pub(super) fn check_fallbacks(&mut self) -> bool {
        if self.run.open_step.has_checked_fallbacks {
            return false;
        }
        for index in self.run.step_indexes() {
            let call = self.run.call(index);
            let has_failed = match call.failure() {
                // Another tool would do no better with an input that was refused.
                Some(ErrorType::InvalidFormat | ErrorType::Denied) => call.times_run() > 0,
                Some(_) => true,
                None => false,
            };
            // One hop is enough, and a page knows itself what to do about its calls.
            if !has_failed || call.fallback_of.is_some() || !call.runs_on_server() {
                continue;
            }
            let Some(fallback) = fallback_of(&call.tool, self.context) else { continue };
            if fallback.tool == call.tool || self.context.toolbox.find(&fallback.tool).is_none() {
                continue;
            }
            let own = OwnCall {
                id: ToolCallId::new(self.context.ids.next("call_")),
                tool: fallback.tool,
                input: fallback.input.map_or_else(|| call.effective_input().clone(), JsonText::from),
                cause: OwnCallCause::FallbackOf(call.id.clone()),
            };
            self.check_own_call(own);
        }
        !self.run.open_step.own.is_empty()
    }

    fn check_own_call(&mut self, own: OwnCall) {
        if let Some(found) = self.context.toolbox.find(&own.tool) {
            self.effects.before.checks.push((own.id.clone(), found.check_of(own.input.clone())));
        }
        self.run.open_step.own.push(own);
    }

    /// Makes the calls whose inputs were checked. A fallback whose input does not fit is none.
    pub(super) fn on_own_calls_checked(&mut self, results: Vec<(ToolCallId, Result<(), InputError>)>) {
        let own = std::mem::take(&mut self.run.open_step.own);
        self.run.open_step.has_checked_fallbacks = true;
        let error_of = |own: &OwnCall| {
            let result = results.iter().find(|(id, _)| *id == own.id)?.1.as_ref();
            let found: ToolRef<'_> = self.context.toolbox.find(&own.tool)?;
            Some(found.validation_error(result.err()?).text)
        };
        let mut checked = Vec::new();
        for own in own {
            let error_text = match self.context.toolbox.find(&own.tool) {
                Some(_) => error_of(&own),
                None => Some(self.context.toolbox.unknown_tool(&own.tool).text),
            };
            if matches!(own.cause, OwnCallCause::RetryOf(_)) || error_text.is_none() {
                checked.push((own, error_text));
            }
        }
        if checked.is_empty() {
            return;
        }
        if self.run.state.phase == Phase::Working {
            self.show_run();
            self.finish_step();
            self.run.state.step += 1;
            self.run.state.own_steps += 1;
            self.publish(UiChunk::StartStep);
        }
        let mut made = Vec::new();
        for (OwnCall { id, tool, input, cause }, error_text) in checked {
            self.begin_call(id.clone(), tool, Some(cause));
            self.publish(UiChunk::ToolInputDelta {
                tool_call_id: id,
                input_text_delta: input.as_str().to_owned(),
            });
            let input = match error_text {
                None => Ok(input),
                Some(error_text) => Err(InvalidArguments { received: input, error_text }),
            };
            made.push(MadeCall { index: self.run.calls.len() - 1, is_bare: false, input });
        }
        self.decide_step(made);
    }
}

/// Returns the fallback for failed calls of a tool: that of the settings, or else the tool's own.
pub(super) fn fallback_of(tool: &str, context: &Context<'_>) -> Option<Fallback> {
    if let Some(fallback) = context.rules.fallback_of(tool) {
        return Some(fallback.clone());
    }
    let own = context.toolbox.find(tool)?.tool()?.fallback()?;
    Some(Fallback { tool: own.to_owned(), input: None })
}
