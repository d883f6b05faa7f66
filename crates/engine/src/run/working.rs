//! Calls that may run: they stand in line for what they use, run or are parked, report, and get their outcome.
//!
//! A call that uses a resource stays `scheduled` until it is its turn, and whoever drives the run keeps the lock while it runs. Invariant:
//! a call is begun once, except where it declares that it may be repeated and the process ended around it.

use std::time::Duration;

use fermata_protocol::{ToolCallId, UiChunk};
use fermata_tools::{CallState, Cancelled, ErrorPolicy, ErrorStrategy, ErrorType, RunBy, ToolError};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    Context, Effects, Phase, Run,
    ending::Ending,
    gate::{expiry, too_many_wait},
    is_at_work, later,
    speaking::dynamic,
};

/// What is said of a call that ran while the process ended.
const CUT_OFF: &str = "The server was restarted while this call ran; it may or may not have had its effect.";

impl Run {
    /// Lets a call run that nothing keeps from it but the resource that it uses.
    pub(super) fn start(&mut self, place: usize, context: &Context<'_>, effects: &mut Effects) {
        self.call_mut(place, effects).has_passed = true;
        match self.calls[place].run_by {
            Some(RunBy::Server | RunBy::Mcp) => {
                if self.calls[place].edited.is_some() {
                    self.show_input(place, effects);
                }
                self.stand_in_line(place, context, effects);
            }
            Some(RunBy::Browser) => self.park(place, context, effects),
            None => self.fail(place, ToolError::internal("There is no such tool."), context, effects),
        }
    }

    fn stand_in_line(&mut self, place: usize, context: &Context<'_>, effects: &mut Effects) {
        if self.deny_by_newest_rules(place, context, effects) {
            return;
        }
        let call = &self.calls[place];
        let Some(found) = context.toolbox.find(&call.tool).filter(|found| found.tool().is_some()) else {
            // Tools come and go while a call waits.
            self.absent.entry(call.id.clone()).or_insert(context.now);
            return;
        };
        self.absent.remove(&call.id);
        let resource = found.spec().resource.as_ref();
        let key = resource.and_then(|resource| resource.key(call.effective_input(), context.owner));
        let id = call.id.clone();
        match key {
            Some(key) => {
                self.call_mut(place, effects).resource = Some(key.clone());
                effects.before.lock_requests.push((id, key));
            }
            None => {
                self.repeated.remove(&id);
                self.execute(place, context, effects);
            }
        }
    }

    /// Whether calls wait for their tools to be there.
    pub fn waits_for_tools(&self) -> bool {
        !self.absent.is_empty()
    }

    /// When the first of them has waited long enough.
    pub fn tools_missed(&self, limit: Duration) -> Option<Timestamp> {
        self.absent.values().min().map(|since| later(*since, limit))
    }

    /// Other tools are there than before: calls that waited for theirs go on.
    pub(super) fn find_tools(&mut self, context: &Context<'_>, effects: &mut Effects) {
        for place in self.step_places() {
            if self.absent.contains_key(&self.calls[place].id) {
                self.stand_in_line(place, context, effects);
            }
        }
    }

    /// The calls that have waited longest for their tools have waited long enough, and fail.
    pub(super) fn give_up_on_tools(&mut self, context: &Context<'_>, effects: &mut Effects) {
        let Some(first) = self.absent.values().min().copied() else { return };
        let missed: Vec<ToolCallId> =
            self.absent.extract_if(.., |_, since| *since == first).map(|(id, _)| id).collect();
        for place in self.step_places() {
            let id = self.calls[place].id.clone();
            if !missed.contains(&id) || self.calls[place].state().is_final() {
                continue;
            }
            self.repeated.remove(&id);
            let tool = &self.calls[place].tool;
            let words = format!("The tool {tool} is not there any more, so the call did not run.");
            self.conclude(place, Err(ToolError::new(ErrorType::Network, words)), context, effects);
        }
    }

    fn execute(&mut self, place: usize, context: &Context<'_>, effects: &mut Effects) {
        self.change(place, CallState::Executing, context, effects);
        effects.after.execute.push(self.calls[place].id.clone());
    }

    /// It is a call's turn to use its resource. Whoever asks keeps the lock if the call is to be executed, and only then.
    pub(super) fn take_turn(&mut self, call: &ToolCallId, context: &Context<'_>, effects: &mut Effects) {
        let Some(place) = self.place_of(call) else { return };
        if !(self.calls[place].is_queued() || self.repeated.remove(call)) {
            return;
        }
        if self.deny_by_newest_rules(place, context, effects) {
            return;
        }
        self.execute(place, context, effects);
    }

    /// A call does not get its resource.
    pub(super) fn miss_turn(
        &mut self,
        call: &ToolCallId,
        error: ToolError,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        let Some(place) = self.place_of(call) else { return };
        if !(self.calls[place].is_queued() || self.repeated.remove(call)) {
            return;
        }
        self.conclude(place, Err(error), context, effects);
    }

    fn park(&mut self, place: usize, context: &Context<'_>, effects: &mut Effects) {
        if self.deny_by_newest_rules(place, context, effects) {
            return;
        }
        if self.is_full(context) {
            return self.fail(place, too_many_wait(context), context, effects);
        }
        self.change(place, CallState::Executing, context, effects);
        self.call_mut(place, effects).expires = Some(expiry(context));
        effects.after.park.push(self.calls[place].id.clone());
        self.show_input(place, effects);
    }

    /// What becomes of a step's calls whose process ended: those that may be repeated run again, the others have failed.
    pub(super) fn take_up_calls(&mut self, context: &Context<'_>, effects: &mut Effects) {
        for place in self.step_places() {
            let call = &self.calls[place];
            if *call.state() == CallState::Scheduled && call.has_passed {
                self.stand_in_line(place, context, effects);
            } else if is_at_work(&self.calls[place]) {
                self.take_up_call(place, context, effects);
            }
        }
        let waits = self.calls.iter().filter(|call| call.accepts_answer());
        effects.after.park.extend(waits.map(|call| call.id.clone()));
    }

    /// Calls that ran when the process ended have failed.
    pub(super) fn fail_cut_off_calls(&mut self, context: &Context<'_>, effects: &mut Effects) {
        for place in self.step_places() {
            if is_at_work(&self.calls[place]) {
                self.fail(place, ToolError::internal(CUT_OFF), context, effects);
            }
        }
    }

    fn take_up_call(&mut self, place: usize, context: &Context<'_>, effects: &mut Effects) {
        let call = &self.calls[place];
        let found = context.toolbox.find(&call.tool).map(|found| found.spec().retries());
        let retries = found.unwrap_or_else(|| context.rules.retries(&call.tool));
        if call.times_run() > retries as usize {
            return self.fail(place, ToolError::internal(CUT_OFF), context, effects);
        }
        self.repeated.insert(call.id.clone());
        self.stand_in_line(place, context, effects);
    }

    /// A call that failed runs again, unless the newest rules deny it. Whether it does.
    pub(super) fn repeat(&mut self, call: &ToolCallId, context: &Context<'_>, effects: &mut Effects) -> bool {
        let Some(place) = self.place_of(call).filter(|&place| is_at_work(&self.calls[place])) else {
            return false;
        };
        if self.deny_by_newest_rules(place, context, effects) {
            self.withdraw_elicitations(place, effects);
            return false;
        }
        self.change(place, CallState::Executing, context, effects);
        true
    }

    /// A running call shows partial output.
    pub(super) fn report(&mut self, call: &ToolCallId, output: Value, effects: &mut Effects) {
        if let Some(place) = self.place_of(call).filter(|&place| is_at_work(&self.calls[place])) {
            self.show_output(place, output, Some(true), effects);
        }
    }

    /// A call of the server or of an MCP server has ended.
    pub(super) fn settle(
        &mut self,
        call: &ToolCallId,
        outcome: Result<Value, ToolError>,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        if let Some(place) = self.place_of(call).filter(|&place| is_at_work(&self.calls[place])) {
            self.conclude(place, outcome, context, effects);
        }
    }

    fn conclude(
        &mut self,
        place: usize,
        outcome: Result<Value, ToolError>,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        self.withdraw_elicitations(place, effects);
        match outcome {
            Ok(output) => self.succeed(place, output, context, effects),
            Err(error) => {
                let error_type = error.error_type;
                let strategy = context.rules.error_policy.of(error_type);
                self.fail(place, error, context, effects);
                if strategy == ErrorStrategy::FailRun {
                    let tool = self.calls[place].tool.clone();
                    self.end(Ending::ToolFailed { tool, error_type }, context, effects);
                }
            }
        }
    }

    /// What the model is told to do about a call of this run that failed, besides what went wrong. Of a browser's call only the page
    /// knows.
    pub fn hint(&self, call: &ToolCallId, error_policy: &ErrorPolicy) -> Option<&'static str> {
        let call = &self.calls[self.place_of(call)?];
        let CallState::Error { error_type, .. } = call.state() else { return None };
        error_policy.of(*error_type).hint(*error_type).filter(|_| call.runs_on_server())
    }

    pub(super) fn succeed(
        &mut self,
        place: usize,
        output: Value,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        self.change(place, CallState::Success { output: output.clone() }, context, effects);
        self.show_output(place, output, None, effects);
    }

    pub(super) fn fail(
        &mut self,
        place: usize,
        error: ToolError,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        let ToolError { error_type, text, retry_after: _ } = error;
        self.change(place, CallState::Error { error_type, error_text: text.clone() }, context, effects);
        self.show_error(place, text, effects);
    }

    pub(super) fn fail_input(
        &mut self,
        place: usize,
        error_text: String,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        let error_type = ErrorType::InvalidFormat;
        self.change(place, CallState::Error { error_type, error_text: error_text.clone() }, context, effects);
        let call = &self.calls[place];
        let chunk = UiChunk::ToolInputError {
            tool_call_id: call.id.clone(),
            tool_name: call.tool.clone(),
            input: call.input.clone(),
            error_text,
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: dynamic(call),
            title: None,
        };
        self.publish(effects, chunk);
    }

    /// When every call of the step has its outcome, the model is told, unless it has been asked often enough.
    pub(super) fn complete_step_if_settled(&mut self, context: &Context<'_>, effects: &mut Effects) {
        if self.state.phase != Phase::Working || !self.step_calls().all(|call| call.state().is_final()) {
            return;
        }
        if self.state.step >= context.limits.steps {
            return self.end(Ending::StepLimit, context, effects);
        }
        let (bytes, limit) = (self.chat_bytes(context), context.limits.chat_bytes);
        if bytes > limit {
            return self.end(Ending::ChatLimit { bytes, limit }, context, effects);
        }
        self.publish(effects, UiChunk::FinishStep);
        self.begin_step(effects);
    }

    /// Brings a call into a state.
    pub(super) fn change(
        &mut self,
        place: usize,
        state: CallState,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        self.call_mut(place, effects).enter(state, context.now);
    }

    fn place_of(&self, call: &ToolCallId) -> Option<usize> {
        self.calls.iter().position(|known| known.id == *call)
    }

    // === what readers see ===

    pub(super) fn show_input(&mut self, place: usize, effects: &mut Effects) {
        let call = &self.calls[place];
        let chunk = UiChunk::ToolInputAvailable {
            tool_call_id: call.id.clone(),
            tool_name: call.tool.clone(),
            input: call.effective_input().clone(),
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: dynamic(call),
            title: None,
        };
        self.publish(effects, chunk);
    }

    fn show_output(&mut self, place: usize, output: Value, preliminary: Option<bool>, effects: &mut Effects) {
        let chunk = UiChunk::ToolOutputAvailable {
            tool_call_id: self.calls[place].id.clone(),
            output,
            preliminary,
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: dynamic(&self.calls[place]),
        };
        self.publish(effects, chunk);
    }

    /// A person's denial is shown when the call could have run, so that it is known then whether a browser's call is still to be run.
    pub(super) fn show_denial_by_person(&mut self, place: usize, effects: &mut Effects) {
        if let Some(reason) = self.denied_by_person(place) {
            self.show_denial(place, reason, effects);
        }
    }

    /// The reason that a person gave for denying the call, where one has.
    pub(super) fn denied_by_person(&self, place: usize) -> Option<Option<String>> {
        let denied = self.calls[place].approval_decision.as_ref().filter(|decided| !decided.approved)?;
        Some(denied.reason.clone())
    }

    /// Stock clients take a denial for unfinished, and never post again, where the step has a call that they still wait for; there it
    /// is told as an error.
    pub(super) fn show_denial(&mut self, place: usize, reason: Option<String>, effects: &mut Effects) {
        let error_text = Cancelled::Denied { reason: reason.clone() }.text();
        let more_to_come = self.step_calls().any(|call| {
            call.awaits_approval() || (call.run_by == Some(RunBy::Browser) && !call.state().is_final())
        });
        if more_to_come {
            self.show_error(place, error_text, effects);
        } else {
            let (tool_call_id, dynamic) = (self.calls[place].id.clone(), dynamic(&self.calls[place]));
            self.publish(effects, UiChunk::ToolOutputDenied { tool_call_id, error_text, dynamic });
        }
    }

    pub(super) fn show_error(&mut self, place: usize, error_text: String, effects: &mut Effects) {
        let chunk = UiChunk::ToolOutputError {
            tool_call_id: self.calls[place].id.clone(),
            error_text,
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: dynamic(&self.calls[place]),
        };
        self.publish(effects, chunk);
    }
}
