//! The notices of a run to people and services elsewhere.
//!
//! The approvals that wait before and after an event are compared: those that are new were requested, and those that are gone were settled.
//! So the code that decides about calls does not have to notify anybody.

use std::collections::BTreeSet;

use fermata_protocol::{ApprovalId, FinishReason, JsonText};
use fermata_tools::{ApprovalTerms, Approver};
use serde_json::{Value, json};

use super::{Deciding, Ending, Run, later, votes::may_decide_now};
use crate::{
    api::approval::Approval,
    ports::store::{Notice, NoticeEvent},
};

/// An approval that waits.
pub(super) struct WaitingApproval {
    /// The index of the call.
    call: usize,
    id: ApprovalId,
    /// The input as a person edited it.
    edited: Option<JsonText>,
}

// === impl Run ===

impl Run {
    /// Returns the approvals that wait.
    pub(super) fn waiting_approvals(&self) -> Vec<WaitingApproval> {
        let mut waiting = Vec::new();
        for index in self.step_indexes() {
            let call = self.call(index);
            if call.awaits_approval()
                && let Some(request) = &call.approval_request
            {
                waiting.push(WaitingApproval {
                    call: index,
                    id: request.id.clone(),
                    edited: call.edited.clone(),
                });
            }
        }
        waiting
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Notifies the channels of the approvals that were requested and settled since these waited.
    pub(super) fn notify_of_changes(&mut self, before: &[WaitingApproval]) {
        let now = self.run.waiting_approvals();
        for waited in before {
            if !now.iter().any(|waits| waits.id == waited.id) {
                let channels = self.channels_of(NoticeEvent::ApprovalSettled, waited.call);
                self.send_approval(NoticeEvent::ApprovalSettled, waited.call, &waited.id, channels);
            }
        }
        for waits in &now {
            let is_known = before.iter().any(|waited| waited.id == waits.id && waited.edited == waits.edited);
            if !is_known {
                self.notify(NoticeEvent::ApprovalRequested, waits.call);
            }
        }
    }

    /// Notifies the channels of an event of an approval that waits.
    pub(super) fn notify(&mut self, event: NoticeEvent, index: usize) {
        let Some(request) = &self.run.call(index).approval_request else { return };
        let id = request.id.clone();
        let escalation = request.terms().escalate.clone();
        let channels = self.channels_of(event, index);
        self.send_approval(event, index, &id, channels);
        if event == NoticeEvent::ApprovalEscalated {
            // To the services that may decide from now on, it is a request like any other.
            let services = escalation.map(|escalation| deciders(&escalation.by)).unwrap_or_default();
            self.send_approval(NoticeEvent::ApprovalRequested, index, &id, services);
        }
    }

    /// Plans to notify the requester later that the call still waits, if the settings want that and the requester may decide.
    pub(super) fn plan_requester_notice(&mut self, index: usize) {
        let Some(notice) = &self.context.rules.notices.requester else { return };
        let call = self.run.call(index);
        if call.approval_request.as_ref().is_some_and(|request| request.required)
            && may_decide_now(&self.context.requester, call, self.context)
        {
            let at = later(self.context.now, notice.after);
            if let Some(request) = &mut self.call_mut(index).approval_request {
                request.requester_notice_at = Some(at);
            }
        }
    }

    /// Notifies the requester elsewhere that the call still waits.
    pub(super) fn notify_requester(&mut self, index: usize) {
        let Some(notice) = &self.context.rules.notices.requester else { return };
        let Some(request) = &self.run.call(index).approval_request else { return };
        let (id, channels) = (request.id.clone(), notice.channels.iter().cloned().collect());
        self.send_approval(NoticeEvent::ApprovalRequested, index, &id, channels);
    }

    /// Notifies the channels that want it of the end of the run.
    pub(super) fn notify_of_ending(&mut self, ending: &Ending) {
        let error = ending.public();
        let event = if error.is_some() { NoticeEvent::RunFailed } else { NoticeEvent::RunFinished };
        let channels: BTreeSet<String> = self.subscribers(event);
        if channels.is_empty() {
            return;
        }
        let reason = match ending {
            Ending::Finished(reason) => json!(reason),
            _ if error.is_some() => json!(FinishReason::Error),
            other => json!(other.name()),
        };
        let mut data = json!({
            "chatId": self.context.chat,
            "runId": self.run.id,
            "owner": self.context.requester.user,
            "finishReason": reason,
        });
        if let Some(error) = error {
            data["error"] = error.into();
        }
        self.send(event, channels, None, data);
    }

    /// Returns the channels of an event of an approval.
    fn channels_of(&self, event: NoticeEvent, index: usize) -> BTreeSet<String> {
        let mut channels = self.subscribers(event);
        let Some(request) = &self.run.call(index).approval_request else { return channels };
        let ApprovalTerms { by, notify, escalate, .. } = request.terms();
        let escalated = escalate.as_ref().map(|escalation| escalation.notify.as_slice()).unwrap_or_default();
        if event != NoticeEvent::ApprovalEscalated {
            channels.extend(notify.iter().cloned());
        }
        if request.is_escalated {
            channels.extend(escalated.iter().cloned());
        }
        match event {
            NoticeEvent::ApprovalRequested => channels.extend(deciders(by)),
            NoticeEvent::ApprovalSettled if request.requester_notice_at.is_none() => {
                let requester = self.context.rules.notices.requester.as_ref();
                channels.extend(requester.into_iter().flat_map(|notice| notice.channels.iter().cloned()));
            }
            _ => {}
        }
        channels
    }

    /// Returns the channels that want an event without a rule.
    fn subscribers(&self, event: NoticeEvent) -> BTreeSet<String> {
        let subscriptions = self.context.rules.notices.subscriptions.iter();
        let wanting =
            subscriptions.filter(|(_, events)| events.iter().any(|glob| glob.matches(event.as_str())));
        wanting.map(|(channel, _)| channel.clone()).collect()
    }

    fn send_approval(
        &mut self,
        event: NoticeEvent,
        index: usize,
        id: &ApprovalId,
        channels: BTreeSet<String>,
    ) {
        // The data has the whole input.
        if !channels.is_empty() {
            let data = json!(Approval::of(self.run.call(index), id));
            self.send(event, channels, Some(id.clone()), data);
        }
    }

    fn send(
        &mut self,
        event: NoticeEvent,
        channels: BTreeSet<String>,
        approval: Option<ApprovalId>,
        data: Value,
    ) {
        for channel in channels {
            self.effects.commit.notices.push(Notice {
                id: self.context.ids.next("evt_"),
                channel,
                event,
                at: self.context.now,
                approval: approval.clone(),
                data: data.clone(),
            });
        }
    }
}

/// Returns the channels among these parties whose services decide.
fn deciders(by: &[Approver]) -> BTreeSet<String> {
    let channels = by.iter().filter_map(|approver| match approver {
        Approver::Channel(name) => Some(name.clone()),
        Approver::Requester | Approver::User(_) | Approver::Group(_) => None,
    });
    channels.collect()
}
