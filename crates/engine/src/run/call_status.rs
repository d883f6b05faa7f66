//! `data-call`: the state of each call and the reason of its wait, so that a page does not have to guess.
//!
//! Only clients that ask for it are sent this ([`Show::Call`]). The chunk is transient: it is not a part of the message.

use std::time::Duration;

use fermata_protocol::{JsonText, Show, ToolCallId, UiChunk};
use fermata_tools::{Call, CallState, ErrorStrategy, ErrorType, People, RunBy, Scope, StateName, Wait, Work};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::{Deciding, Phase, Run, is_at_work, later};
use crate::{api::approval, services::Rules};

/// An input counts as edited for this time after a page reports it. The page repeats the report while the person edits; a browser lets a
/// tab in the background do that once a minute.
const EDITING_LASTS: Duration = Duration::from_secs(90);

/// The number of times that a run listens to what pages say of edits. Each change is a chunk for its readers, which stays in memory while the run
/// is open.
const MOST_EDITS: u32 = 1_000;

/// The longest input that comes with a question, in bytes of JSON. `GET …/pending` has longer ones.
const LONGEST_SHOWN_INPUT: usize = 16_000;

/// The facts that a person needs to decide about a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShownCall {
    tool: String,
    /// The name of the MCP server that offers the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// The tool's title. That of an MCP tool is the server's own text.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// The input that the call would run with.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<JsonText>,
    /// The same input as exact JSON text, because JavaScript changes some numbers when it reads them. The audit has the hash of this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    input_text: Option<String>,
    /// The meanings that "always" can have for the call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes: Vec<Scope>,
    /// The code of what asks the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason_code: Option<&'static str>,
    /// The words of others in the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason_detail: Option<String>,
    /// Those who decide, and how far they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<approval::Deciding>,
}

/// The status of a call for its client.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallStatus {
    /// The call, with its input while a person is asked about it.
    #[serde(flatten)]
    shown: ShownCall,
    state: StateName,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<WaitsFor>,
    /// The name of the resource that the call waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    /// The call of the step that uses the resource, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by: Option<ToolCallId>,
    /// `true` while a person edits the input in a page.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    editing: bool,
    #[serde(flatten)]
    trouble: Trouble,
}

/// The failure of a call, and the reaction to it; or the failure that the call reacts to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Trouble {
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<ErrorType>,
    /// The number of times that the call has begun to run, if it was more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<usize>,
    /// The reaction to the failure; `None` for a browser's call, whose failure only its page knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<ErrorStrategy>,
    /// The call that failed, in whose place the run has made this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_of: Option<ToolCallId>,
    /// The failed call that a person makes again with this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<ToolCallId>,
}

/// The party or the thing that a call waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum WaitsFor {
    /// The requester's decision or reply.
    Person,
    /// The decision of others.
    #[serde(rename = "other_people")]
    OtherPeople,
    /// The output of a page.
    Page,
    /// The decisions about the other calls of the step.
    Gate,
    /// A resource that another call uses.
    Resource,
    /// The end of others that run, because no more may.
    Capacity,
}

// === impl ShownCall ===

impl ShownCall {
    /// Returns a call for the person who decides about it.
    pub fn of(call: &Call) -> Self {
        let input = call.effective_input();
        let (scopes, reason_code) = (call.presentation.scopes.clone(), call.reason_code());
        let reason_detail = call.reason_detail().map(str::to_owned);
        let mut shown = Self { scopes, reason_code, reason_detail, ..Self::without_input(call) };
        if input.as_str().len() <= LONGEST_SHOWN_INPUT {
            shown.input = Some(input.clone());
            shown.input_text = Some(input.as_str().to_owned());
        }
        shown
    }

    fn without_input(call: &Call) -> Self {
        let (server, title) = (call.presentation.server.clone(), call.presentation.title.clone());
        Self { tool: call.tool.clone(), server, title, ..Self::default() }
    }
}

// === impl Run ===

impl Run {
    /// Returns the failure of a call, or of the call that it replaces.
    pub(super) fn trouble(&self, call: &Call, rules: &Rules) -> Trouble {
        let (fallback_of, retry_of) = (call.fallback_of.clone(), call.retry_of.clone());
        let mut trouble = Trouble { fallback_of, retry_of, ..Trouble::default() };
        if call.times_run() > 1 && !call.is_parked() {
            trouble.attempts = Some(call.times_run());
        }
        if let Some(error_type) = call.failure() {
            trouble.error_type = Some(error_type);
            if call.run_by != Some(RunBy::Browser) {
                let strategy = rules.errors_of(&call.tool).of(error_type);
                // Without a second attempt, as for a tool that may not be repeated, the model goes on at once.
                let is_left_to_model = strategy == ErrorStrategy::Retry && trouble.attempts.is_none();
                trouble.strategy = Some(if is_left_to_model { ErrorStrategy::GoOn } else { strategy });
            }
        }
        trouble
    }

    fn call_status(&self, index: usize, rules: &Rules, people: &People) -> CallStatus {
        let call = self.call(index);
        let (mut waits_for, mut resource, mut held_by, mut decision) = (None, None, None, None);
        match call.state() {
            CallState::AwaitingApproval { .. } => {
                decision = Some(approval::Deciding::for_principal(call, &self.settings.requester, people));
                let may_decide = decision.as_ref().is_some_and(|decision| decision.may_decide == Some(true));
                waits_for = Some(if may_decide { WaitsFor::Person } else { WaitsFor::OtherPeople });
            }
            CallState::Scheduled { waits_for: wait } | CallState::Executing { work: Work::Again(wait) } => {
                match wait {
                    Wait::Gate => waits_for = Some(WaitsFor::Gate),
                    Wait::Capacity => waits_for = Some(WaitsFor::Capacity),
                    Wait::Resource => {
                        waits_for = Some(WaitsFor::Resource);
                        resource = call.resource.as_ref().map(|resource| resource.name.clone());
                        held_by = self.holder_of_resource(call);
                    }
                    Wait::Tool { .. } => {}
                }
            }
            CallState::Executing { work: Work::Server } if self.elicits(index) => {
                waits_for = Some(WaitsFor::Person);
            }
            CallState::Executing { work: Work::Asking { .. } } => waits_for = Some(WaitsFor::Person),
            CallState::Executing { work: Work::Browser { .. } } => waits_for = Some(WaitsFor::Page),
            CallState::Executing { work: Work::Server }
            | CallState::Validating
            | CallState::Success { .. }
            | CallState::Error { .. }
            | CallState::Cancelled { .. } => {}
        }
        let trouble = self.trouble(call, rules);
        let editing = call.awaits_approval() && call.edited_until.is_some();
        let mut shown =
            if call.awaits_approval() { ShownCall::of(call) } else { ShownCall::without_input(call) };
        shown.decision = decision;
        CallStatus { shown, state: call.state().name(), waits_for, resource, held_by, editing, trouble }
    }

    /// Returns the call of the step that runs with the resource that this one waits for.
    fn holder_of_resource(&self, call: &Call) -> Option<ToolCallId> {
        let mut others = self.step_calls().iter();
        let holder = others.find(|other| is_at_work(other) && other.resource == call.resource);
        holder.map(|holder| holder.id.clone())
    }

    /// Returns the time when the first of the inputs no longer counts as edited.
    pub fn editing_ends(&self) -> Option<Timestamp> {
        let open = self.step_calls().iter().filter(|call| call.awaits_approval());
        open.filter_map(|call| call.edited_until).min()
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    pub(super) fn on_input_edited(&mut self, index: usize, is_edited: bool) {
        self.run.edits = self.run.edits.saturating_add(1);
        if self.run.edits > MOST_EDITS {
            return;
        }
        let until = later(self.context.now, EDITING_LASTS);
        self.run.calls[index].edited_until = if is_edited { Some(until) } else { None };
    }

    pub(super) fn on_editing_timed_out(&mut self) {
        let Some(first) = self.run.editing_ends() else { return };
        for call in &mut self.run.calls {
            call.edited_until = call.edited_until.filter(|until| *until != first);
        }
    }

    /// Sends the client the step's calls whose states have changed, if it has asked for that. Nothing follows `finish`.
    pub(super) fn show_calls(&mut self) {
        if !self.run.state.show.contains(&Show::Call) || self.run.state.phase == Phase::Over {
            return;
        }
        for index in self.run.step_indexes() {
            let status = self.run.call_status(index, self.context.rules, self.context.newest.people());
            if self.run.call(index).shown.as_deref() == Some(&status) || self.is_being_admitted(index) {
                continue;
            }
            let mut data = json!(status);
            data["toolCallId"] = json!(self.run.call(index).id);
            self.publish_transient("data-call", data);
            self.run.calls[index].shown = Some(Box::new(status));
        }
    }

    /// Returns whether the call has just asked to be admitted. The next event says whether it has to wait.
    fn is_being_admitted(&self, index: usize) -> bool {
        self.effects.before.admissions.iter().any(|(call, _)| *call == self.run.call(index).id)
    }

    /// Completes the step for readers, who have then been told of every call of it.
    pub(super) fn finish_step(&mut self) {
        self.show_calls();
        if !self.run.is_in_earlier_message() {
            self.publish(UiChunk::FinishStep);
        }
    }
}
