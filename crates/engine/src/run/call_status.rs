//! `data-call`: the state of each call, and what the call waits for, so that a page does not have to guess.
//!
//! Only clients that ask for it are sent this ([`Show::Call`]). The chunk is transient: it is not a part of the message.

use fermata_protocol::{DataChunk, Show, UiChunk};
use fermata_tools::{CallState, StateName};
use serde::Serialize;
use serde_json::json;

use super::{Deciding, Phase, Run};

/// The status of a call for its client.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallStatus {
    state: StateName,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<WaitsFor>,
    /// The name of the resource that the call waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
}

/// The party or the thing that a call waits for.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum WaitsFor {
    /// A person's decision or reply.
    Person,
    /// The output of a page.
    Page,
    /// The decisions about the other calls of the step.
    Gate,
    /// A resource that another call uses.
    Resource,
}

// === impl Run ===

impl Run {
    fn call_status(&self, index: usize) -> CallStatus {
        let call = self.call(index);
        let (mut waits_for, mut resource) = (None, None);
        match call.state() {
            CallState::AwaitingApproval => waits_for = Some(WaitsFor::Person),
            CallState::Scheduled if self.state.phase == Phase::Deciding => waits_for = Some(WaitsFor::Gate),
            CallState::Scheduled if call.is_queued() => {
                waits_for = Some(WaitsFor::Resource);
                resource = call.resource.as_ref().map(|resource| resource.name.clone());
            }
            CallState::Executing if self.elicits(index) => waits_for = Some(WaitsFor::Person),
            CallState::Executing if call.is_parked() => waits_for = Some(WaitsFor::Page),
            CallState::Validating
            | CallState::Scheduled
            | CallState::Executing
            | CallState::Success { .. }
            | CallState::Error { .. }
            | CallState::Cancelled { .. } => {}
        }
        CallStatus { state: call.state().name(), waits_for, resource }
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Tells the client of the step's calls whose states have changed, if it has asked for that. Nothing follows `finish`.
    pub(super) fn show_calls(&mut self) {
        if !self.run.state.show.contains(&Show::Call) || self.run.state.phase == Phase::Over {
            return;
        }
        for index in self.run.step_indexes() {
            let status = self.run.call_status(index);
            if self.run.shown_calls.get(&index) == Some(&status) {
                continue;
            }
            let mut data = json!(status);
            data["toolCallId"] = json!(self.run.call(index).id);
            let kind = "data-call".to_owned();
            self.publish(UiChunk::Data(DataChunk { kind, id: None, data, transient: Some(true) }));
            self.run.shown_calls.insert(index, status);
        }
    }

    /// Completes the step for readers, who have then been told of every call of it.
    pub(super) fn finish_step(&mut self) {
        self.show_calls();
        self.publish(UiChunk::FinishStep);
    }
}
