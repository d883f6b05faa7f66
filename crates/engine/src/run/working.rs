//! Calls that may run: they queue for their resources, run or are parked, report, and get their outcome.
//!
//! A call that uses a resource stays `scheduled` until it has the lock, and the active run keeps the lock while the call runs. Invariant:
//! a call is begun once, unless it may be repeated and the process ended while it ran.

use std::{collections::BTreeSet, time::Duration};

use fermata_protocol::{ToolCallId, UiChunk};
use fermata_tools::{
    AuditEvent, Call, CallState, Cancelled, ErrorStrategy, ErrorType, Presentation, RunBy, ToolError,
    ToolRef, Wait, Work, is_empty_output,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    Admission, Context, Deciding, LiveCall, Phase, Run,
    ending::Ending,
    gate::{expiry, too_many_wait},
    is_at_work, later,
    streaming::dynamic,
};
use crate::{
    run_tools::{self, Started},
    services::Rules,
};

/// The keys in the `toolMetadata` of a call: the fields of its input that a person has changed, and the last preliminary output of a call that
/// has ended without an output.
pub const EDITED_FIELDS: &str = "editedFields";
pub const LAST_OUTPUT: &str = "lastOutput";

impl Run {
    /// Returns whether a server's or an MCP server's call runs.
    pub fn is_running(&self, call: &ToolCallId) -> bool {
        self.index_of(call).is_some_and(|index| is_at_work(self.call(index)))
    }

    /// Returns the reason why a call waits before it runs.
    pub fn wait_of(&self, call: &ToolCallId) -> Option<&Wait> {
        self.call(self.index_of(call)?).state().waits_for()
    }

    /// Returns whether calls wait for tools that are not available.
    pub fn waits_for_tools(&self) -> bool {
        self.missing_tool_since().is_some()
    }

    /// Returns the time when the first call has waited for its tool as long as it may.
    pub fn tool_wait_ends(&self, limit: Duration) -> Option<Timestamp> {
        self.missing_tool_since().map(|since| later(since, limit))
    }

    /// Returns the time since which the first call waits for its tool.
    fn missing_tool_since(&self) -> Option<Timestamp> {
        self.step_calls().iter().filter_map(missing_since).min()
    }

    /// Returns the hint that the model gets besides the error of a call that failed. A browser's call has none, because only its page could
    /// know one.
    pub fn hint(&self, call: &ToolCallId, rules: &Rules) -> Option<&'static str> {
        let call = &self.calls[self.index_of(call)?];
        let error_type = call.failure()?;
        if !call.runs_on_server() {
            return None;
        }
        if self.has_fallback(&call.id) {
            return Some("Another tool was called in its place; the result follows.");
        }
        let strategy = match rules.errors_of(&call.tool).of(error_type) {
            // The person has decided already.
            ErrorStrategy::AskPerson if call.asked_about.is_some() => ErrorStrategy::GoOn,
            strategy => strategy,
        };
        strategy.hint(error_type)
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Starts a call, which may still have to wait for its resource or its tool.
    pub(super) fn start(&mut self, index: usize) {
        let call = self.run.call(index);
        let found = self.context.toolbox.find(&call.tool);
        let reads_from = found.and_then(|found| found.reads_from(call.effective_input()));
        self.call_mut(index).reads_from = reads_from;
        match self.run.call(index).run_by {
            Some(RunBy::Server | RunBy::Mcp) => {
                if self.run.call(index).edited.is_some() {
                    self.show_input(index);
                }
                self.start_or_queue(index);
            }
            Some(RunBy::Browser) => self.park(index),
            None => self.fail(index, ToolError::internal("There is no such tool.")),
        }
    }

    pub(super) fn start_or_queue(&mut self, index: usize) {
        if self.keep_overruled(index) {
            return;
        }
        let call = self.run.call(index);
        let found = self.context.toolbox.find(&call.tool);
        let Some(found) = found.filter(|found| found.tool().is_some() || found.is_of_run()) else {
            // The tool may have become unavailable while the call waited.
            if missing_since(call).is_none() {
                let since = self.context.now;
                self.call_mut(index).wait_for(Wait::Tool { since });
            }
            return;
        };
        let input = call.effective_input().value();
        if let Some(tool) = run_tools::of_call(call, self.context.toolbox) {
            match tool.start(&input, self.run.plan().as_ref()) {
                Started::Settled(outcome) => {
                    self.change(index, CallState::Executing { work: Work::Server });
                    let outcome = outcome.map_err(|text| ToolError::new(ErrorType::InvalidFormat, text));
                    self.settle(index, outcome);
                }
                Started::Asks(_) => self.ask_user(index),
            }
            return;
        }
        let resource = found.spec().resource.as_ref();
        let key = resource.and_then(|resource| resource.key(&input, &self.context.requester.user));
        let limits = self.context.limits;
        let is_limited = limits.running_calls.is_some() || limits.running_calls_per_owner.is_some();
        if key.is_none() && !is_limited {
            return self.execute(index);
        }
        let call = self.call_mut(index);
        call.wait_for(if key.is_some() { Wait::Resource } else { Wait::Capacity });
        call.resource.clone_from(&key);
        let id = call.id.clone();
        self.effects.before.admissions.push((id, key));
    }

    /// Executes a call that is admitted. The caller keeps its lock and its slot only if the call is among those to be executed.
    pub(super) fn on_admission(&mut self, call: &ToolCallId, admission: Admission) {
        let Some(index) = self.run.index_of(call) else { return };
        let waits_for = self.run.call(index).state().waits_for();
        if !matches!(waits_for, Some(Wait::Resource | Wait::Capacity)) {
            return;
        }
        match admission {
            Admission::Granted => {
                if !self.keep_overruled(index) {
                    self.execute(index);
                }
            }
            Admission::Queued(wait) => {
                if self.run.call(index).state().waits_for() != Some(&wait) {
                    self.call_mut(index).wait_for(wait);
                }
            }
            Admission::Refused(error) => self.settle(index, Err(error)),
        }
    }

    /// Continues the calls whose tools are available by now.
    pub(super) fn on_tools_changed(&mut self) {
        for index in self.run.step_indexes() {
            if missing_since(self.run.call(index)).is_some() {
                self.start_or_queue(index);
            }
        }
    }

    /// Fails the calls that have waited longest for their tools.
    pub(super) fn on_tools_timed_out(&mut self) {
        let Some(first) = self.run.missing_tool_since() else { return };
        for index in self.run.step_indexes() {
            let call = self.run.call(index);
            if missing_since(call) == Some(first) {
                let text = format!("The tool {} is not there any more, so the call did not run.", call.tool);
                self.settle(index, Err(ToolError::new(ErrorType::Network, text)));
            }
        }
    }

    fn execute(&mut self, index: usize) {
        self.change(index, CallState::Executing { work: Work::Server });
        let ids = self.context.ids;
        self.call_mut(index).idempotency_key.get_or_insert_with(|| ids.next_idempotency_key());
        self.effects.after.execute.push(self.run.call(index).id.clone());
    }

    fn park(&mut self, index: usize) {
        if self.keep_overruled(index) {
            return;
        }
        if self.run.is_full(self.context) {
            return self.fail(index, too_many_wait(self.context));
        }
        let work = Work::Browser { expires: expiry(self.context) };
        self.change(index, CallState::Executing { work });
        self.show_input(index);
    }

    /// Lets a call that failed run again, unless the newest rules deny it or its tool has changed. Returns whether it runs.
    pub(super) fn on_retry(&mut self, call: &ToolCallId) -> bool {
        let Some(index) = self.run.index_of(call).filter(|&index| is_at_work(self.run.call(index))) else {
            return false;
        };
        if self.keep_overruled(index) {
            self.withdraw_elicitations(index);
            return false;
        }
        self.change(index, CallState::Executing { work: Work::Server });
        true
    }

    /// Shows the partial output of a running call.
    pub(super) fn on_report(&mut self, call: &ToolCallId, output: Value) {
        if let Some(index) = self.run.index_of(call).filter(|&index| is_at_work(self.run.call(index))) {
            self.run.calls[index].report = Some(output.clone());
            self.show_output(index, output, Some(true));
        }
    }

    /// Cancels a running call for a person. The run goes on.
    pub(super) fn on_call_cancelled(&mut self, call: &ToolCallId) {
        let Some(index) = self.run.index_of(call).filter(|&index| is_at_work(self.run.call(index))) else {
            return;
        };
        self.withdraw_elicitations(index);
        if *self.run.call(index).state() == (CallState::Executing { work: Work::Server }) {
            self.effects.after.cancel.push(call.clone());
        }
        self.keep_last_report(index);
        self.change(index, CallState::Cancelled { cancelled: Cancelled::ByPerson });
        self.show_error(index, Cancelled::ByPerson.text());
    }

    /// Keeps the last report of a call, if it ends without an output.
    pub(super) fn keep_last_report(&mut self, index: usize) {
        if let Some(report) = self.run.calls[index].report.take() {
            self.call_mut(index).last_report = Some(report);
        }
    }

    /// Settles a call of the server or of an MCP server that has ended.
    pub(super) fn on_settled(&mut self, call: &ToolCallId, outcome: Result<Value, ToolError>) {
        if let Some(index) = self.run.index_of(call).filter(|&index| is_at_work(self.run.call(index))) {
            self.settle(index, outcome);
        }
    }

    pub(super) fn settle(&mut self, index: usize, outcome: Result<Value, ToolError>) {
        self.withdraw_elicitations(index);
        match outcome {
            Ok(output) => {
                self.call_mut(index).is_empty =
                    says_nothing_found(&self.run.call(index).tool, &output, self.context);
                self.succeed(index, output);
                if self.run.call(index).is_empty {
                    self.end_run_if_fatal(index, ErrorType::EmptyResult);
                }
            }
            Err(error) if self.ask_about_failure(index, &error) => {}
            Err(error) => {
                let error_type = error.error_type;
                self.fail(index, error);
                self.end_run_if_fatal(index, error_type);
            }
        }
    }

    /// Ends the run for a call that has failed, if the settings demand it.
    pub(super) fn end_run_if_fatal(&mut self, index: usize, error_type: ErrorType) {
        let tool = self.run.call(index).tool.clone();
        if self.context.rules.errors_of(&tool).of(error_type) == ErrorStrategy::FailRun {
            self.end_run(Ending::ToolFailed { tool, error_type });
        }
    }

    pub(super) fn succeed(&mut self, index: usize, output: Value) {
        self.change(index, CallState::Success { output: output.clone() });
        self.show_output(index, output, None);
        self.note_memory_output(index);
    }

    pub(super) fn fail(&mut self, index: usize, error: ToolError) {
        let ToolError { error_type, text, retry_after: _ } = error;
        self.keep_last_report(index);
        self.change(index, CallState::Error { error_type, error_text: text.clone() });
        self.show_error(index, text);
    }

    pub(super) fn fail_input(&mut self, index: usize, error_text: String) {
        let error_type = ErrorType::InvalidFormat;
        self.change(index, CallState::Error { error_type, error_text: error_text.clone() });
        self.show_why(index);
        let call = self.run.call(index);
        let chunk = UiChunk::ToolInputError {
            tool_call_id: call.id.clone(),
            tool_name: call.tool.clone(),
            input: call.input.clone(),
            error_text,
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: dynamic(call),
            title: call.presentation.title.clone(),
        };
        self.publish(chunk);
    }

    /// Completes the step if every call of it has its outcome: the model is asked for the next step, unless a limit is reached.
    pub(super) fn complete_step_if_settled(&mut self) {
        if self.run.state.phase != Phase::Working
            || !self.run.step_calls().iter().all(|call| call.state().is_final())
        {
            return;
        }
        if self.run.is_checking() {
            return;
        }
        if self.run.is_last_step(self.context.limits) {
            return self.end_run(Ending::StepLimit);
        }
        let (bytes, limit) = (self.run.chat_bytes(self.context), self.context.limits.chat_bytes);
        if bytes > limit {
            return self.end_run(Ending::ChatLimit { bytes, limit });
        }
        if self.check_fallbacks() {
            return;
        }
        self.show_run();
        self.finish_step();
        self.begin_step();
    }

    /// Changes the state of a call, and notes for the audit what somebody may have to account for.
    pub(super) fn change(&mut self, index: usize, state: CallState) {
        self.enter(index, state);
        let address = self.decider.as_ref().and_then(|decider| decider.address);
        let event = AuditEvent::of_state(self.run.call(index), &self.context.requester.user, address);
        self.effects.commit.audit.extend(event);
    }

    /// Settles a call that ran when its process ended and does not run again.
    pub(super) fn settle_as_unknown(&mut self, index: usize, text: &str) {
        self.keep_last_report(index);
        let error_text = text.to_owned();
        self.enter(
            index,
            CallState::Error { error_type: ErrorType::Internal, error_text: error_text.clone() },
        );
        self.effects.commit.audit.extend(AuditEvent::of_unknown_outcome(self.run.call(index)));
        self.show_error(index, error_text);
    }

    fn enter(&mut self, index: usize, state: CallState) {
        let now = self.context.now;
        self.call_mut(index).enter(state, now);
        self.note_last_outcome(index);
        self.show_plan();
    }

    // === chunks for readers ===

    pub(super) fn show_input(&mut self, index: usize) {
        let call = self.run.call(index);
        let metadata = metadata(call);
        let chunk = UiChunk::ToolInputAvailable {
            tool_call_id: call.id.clone(),
            tool_name: call.tool.clone(),
            input: call.effective_input().clone(),
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: if metadata.is_empty() { None } else { Some(Value::Object(metadata)) },
            dynamic: dynamic(call),
            title: call.presentation.title.clone(),
        };
        self.publish(chunk);
    }

    fn show_output(&mut self, index: usize, output: Value, preliminary: Option<bool>) {
        let chunk = UiChunk::ToolOutputAvailable {
            tool_call_id: self.run.call(index).id.clone(),
            output,
            preliminary,
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: dynamic(self.run.call(index)),
        };
        self.publish(chunk);
    }

    /// Shows a person's denial. Callers wait for this until the gate is open, because only then it is known whether a browser's call will run.
    pub(super) fn show_denial_by_person(&mut self, index: usize) {
        if let Some(reason) = self.run.call(index).denial_by_person() {
            self.show_denial(index, reason);
        }
    }

    /// Shows a denial. If the step has a call that is still open, stock clients treat a denied call as unfinished and never post again; in
    /// that case they are shown an error.
    pub(super) fn show_denial(&mut self, index: usize, reason: Option<String>) {
        let error_text = Cancelled::Denied { reason: reason.clone() }.text();
        let has_open_call = self.run.step_calls().iter().any(|call| {
            call.awaits_approval() || (call.run_by == Some(RunBy::Browser) && !call.state().is_final())
        });
        if has_open_call {
            self.show_error(index, error_text);
        } else {
            self.show_why(index);
            let (tool_call_id, dynamic) = (self.run.call(index).id.clone(), dynamic(self.run.call(index)));
            self.publish(UiChunk::ToolOutputDenied { tool_call_id, error_text, dynamic });
        }
    }

    pub(super) fn show_error(&mut self, index: usize, error_text: String) {
        self.show_why(index);
        let call = self.run.call(index);
        // It replaces that of the input.
        let tool_metadata = call.last_report.as_ref().map(|output| {
            let mut metadata = metadata(call);
            metadata.insert(LAST_OUTPUT.into(), output.clone());
            Value::Object(metadata)
        });
        let chunk = UiChunk::ToolOutputError {
            tool_call_id: call.id.clone(),
            error_text,
            provider_executed: None,
            provider_metadata: None,
            tool_metadata,
            dynamic: dynamic(call),
        };
        self.publish(chunk);
    }
}

/// Returns the facts about a call that a page gets beside its input.
fn metadata(call: &Call) -> Map<String, Value> {
    let Presentation { title: _, server, description, details, scopes: _ } = &call.presentation;
    let mut metadata = Map::new();
    if let Some(server) = server {
        metadata.insert("server".into(), json!(server));
    }
    if let Some(description) = description {
        metadata.insert("description".into(), json!(description));
    }
    if let Some(details) = details {
        metadata.insert("details".into(), json!(details));
    }
    if let Some(edited) = &call.edited {
        metadata.insert("edited".into(), json!(true));
        metadata.insert(EDITED_FIELDS.into(), changed_fields(&call.input.value(), &edited.value()).into());
    }
    metadata
}

/// Returns the names of the fields that differ in two inputs; none if one of them is no object.
fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else { return Vec::new() };
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

/// Returns the time since which a call waits for its tool; `None` if it does not.
fn missing_since(call: &LiveCall) -> Option<Timestamp> {
    if let Some(Wait::Tool { since }) = call.state().waits_for() { Some(*since) } else { None }
}

/// Returns whether the output of a tool says that nothing was found.
fn says_nothing_found(tool: &str, output: &Value, context: &Context<'_>) -> bool {
    let own = context.toolbox.find(tool).and_then(ToolRef::tool).and_then(|tool| tool.empty_at());
    context.rules.empty_at(tool).or(own).is_some_and(|path| is_empty_output(output, path))
}
