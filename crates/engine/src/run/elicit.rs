//! What tools ask the person while they run.
//!
//! A question is parked like a call: it holds the stream, is let go and expires. It lives as long as its call and this process: a run
//! that another process takes up withdraws what the last one left open.

use fermata_protocol::{DataChunk, ElicitAction, ElicitationId, ToolCallId, UiChunk, UiMessage, UiPart};
use fermata_tools::{Elicitation, ElicitationRecord, ElicitationReply};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Deciding, Phase, Run, gate::expiry, is_at_work, later};
use crate::Pending;

/// The kind of the data part that shows a question.
const ELICITATION: &str = "data-elicitation";

/// A question that a tool has put to the person.
#[derive(Clone, Debug)]
pub(crate) struct Elicited {
    pub id: ElicitationId,
    /// The place in [`Run::calls`] of the call that asks.
    pub index: usize,
    pub question: Elicitation,
    pub state: ElicitState,
    pub since: Timestamp,
    pub expires: Timestamp,
    /// What that ends.
    pub expiry_ends: ExpiryEnds,
}

/// What ends when nobody has answered a question in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryEnds {
    /// The run, like the expiry of a call.
    Run,
    /// The question alone, because its call keeps others from a resource.
    Question,
}

/// How far a question is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ElicitState {
    Pending,
    Answered(ElicitAction, Option<Value>),
    /// Nobody waits for an answer any more, for this reason where it is not the end of the call.
    Withdrawn(Option<String>),
}

impl Run {
    /// When the first question ends by itself that keeps others from a resource.
    pub fn first_question_ends(&self) -> Option<Timestamp> {
        let ending = self.elicitations().filter(|elicited| elicited.expiry_ends == ExpiryEnds::Question);
        ending.map(|elicited| elicited.expires).min()
    }

    /// The questions that wait for an answer.
    pub fn elicitations(&self) -> impl Iterator<Item = &Elicited> {
        self.elicited.iter().filter(|elicited| elicited.state == ElicitState::Pending)
    }

    /// The same, as their readers may see them.
    pub fn pending_questions(&self) -> impl Iterator<Item = Pending> {
        self.elicitations().map(|elicited| Pending::Elicitation {
            id: elicited.id.clone(),
            call: Box::new(self.call(elicited.index).clone()),
            question: elicited.question.clone(),
            since: elicited.since,
            expires: elicited.expires,
        })
    }

    /// Whether the call waits for an answer to a question that is its own, or may be.
    pub(super) fn elicits(&self, index: usize) -> bool {
        let id = &self.call(index).id;
        self.elicitations()
            .any(|elicited| elicited.index == index || elicited.question.other_candidates.contains(id))
    }

    fn other_asker(&self, nth: usize) -> Option<usize> {
        let Elicited { index, question, .. } = &self.elicited[nth];
        let mut others =
            self.calls.iter().enumerate().filter(|(other, call)| other != index && is_at_work(call));
        others.find(|(_, call)| question.other_candidates.contains(&call.id)).map(|(other, _)| other)
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// A running call asks the person something.
    ///
    /// # Errors
    /// It cannot be asked; what the tool is told.
    pub(super) fn on_elicitation(
        &mut self,
        call: &ToolCallId,
        question: Elicitation,
    ) -> Result<ElicitationId, ElicitationReply> {
        let index = self.run.calls.iter().position(|known| known.id == *call && is_at_work(known));
        let Some(index) = index.filter(|_| self.run.state.phase == Phase::Working) else {
            return Err(ElicitationReply::Cancel);
        };
        let most = self.context.limits.parked_calls;
        if self.run.pending().count() + self.run.elicitations().count() >= most {
            let reason = format!("{most} calls and questions of the chat wait already (max_parked_calls).");
            return Err(ElicitationReply::Unanswered { reason });
        }
        let keeps_others_waiting = self.run.calls.iter().any(|other| {
            other.resource.is_some() && (other.id == *call || question.other_candidates.contains(&other.id))
        });
        let (expires, expiry_ends) =
            if keeps_others_waiting && self.context.limits.elicit_timeout < self.context.expire {
                (later(self.context.now, self.context.limits.elicit_timeout), ExpiryEnds::Question)
            } else {
                (expiry(self.context), ExpiryEnds::Run)
            };
        let id = ElicitationId::new(self.context.ids.next("elic_"));
        self.run.elicited.push(Elicited {
            id: id.clone(),
            index,
            question,
            state: ElicitState::Pending,
            since: self.context.now,
            expires,
            expiry_ends,
        });
        self.show_elicitation(self.run.elicited.len() - 1);
        Ok(id)
    }

    /// Nobody has answered the first of these questions in time, and others wait for what its call keeps.
    pub(super) fn on_question_timed_out(&mut self) {
        let Some(first) = self.run.first_question_ends() else { return };
        let limit = humantime::format_duration(self.context.limits.elicit_timeout);
        for nth in 0..self.run.elicited.len() {
            let Elicited { state, expiry_ends, expires, .. } = &self.run.elicited[nth];
            let is_over = *expiry_ends == ExpiryEnds::Question && *expires <= first;
            if is_over && *state == ElicitState::Pending {
                let reason = format!(
                    "nobody answered within {limit}, and the call keeps others from a resource (elicit_timeout)."
                );
                self.withdraw_elicitation(nth, Some(reason));
            }
        }
    }

    /// Takes an answer that was judged.
    pub(super) fn apply_reply(&mut self, nth: usize, action: ElicitAction, content: Option<Value>) {
        let Elicited { id, index, .. } = &self.run.elicited[nth];
        let (to, index, by) = (id.clone(), *index, self.context.owner.clone());
        self.call_mut(index).replies.push(ElicitationRecord { to, by, action, content: content.clone() });
        let reply = match action {
            ElicitAction::Accept => ElicitationReply::Accept(content.clone().unwrap_or_else(|| json!({}))),
            ElicitAction::Decline => ElicitationReply::Decline,
            ElicitAction::Cancel => ElicitationReply::Cancel,
        };
        self.run.elicited[nth].state = ElicitState::Answered(action, content);
        self.effects.after.replies.push((self.run.elicited[nth].id.clone(), reply));
        self.show_elicitation(nth);
    }

    /// The tool does not want to know any more.
    pub(super) fn on_withdrawal(&mut self, id: &ElicitationId) {
        let Some(nth) = self.run.elicited.iter().position(|elicited| elicited.id == *id) else { return };
        if self.run.elicited[nth].state == ElicitState::Pending && self.run.state.phase != Phase::Over {
            self.withdraw_elicitation(nth, None);
        }
    }

    /// The call has ended around its questions: they are withdrawn, unless another call may be the one that asks.
    pub(super) fn withdraw_elicitations(&mut self, index: usize) {
        for nth in 0..self.run.elicited.len() {
            if self.run.elicited[nth].index != index || self.run.elicited[nth].state != ElicitState::Pending {
                continue;
            }
            match self.run.other_asker(nth) {
                Some(other) => {
                    self.run.elicited[nth].index = other;
                    self.show_elicitation(nth);
                }
                None => self.withdraw_elicitation(nth, None),
            }
        }
    }

    fn withdraw_elicitation(&mut self, nth: usize, reason: Option<String>) {
        let reply = match &reason {
            Some(reason) => ElicitationReply::Unanswered { reason: reason.clone() },
            None => ElicitationReply::Cancel,
        };
        self.effects.after.replies.push((self.run.elicited[nth].id.clone(), reply));
        self.run.elicited[nth].state = ElicitState::Withdrawn(reason);
        self.show_elicitation(nth);
    }

    fn show_elicitation(&mut self, nth: usize) {
        let Elicited { id, index, question, state, .. } = &self.run.elicited[nth];
        let mut data = json!({
            "elicitationId": id,
            "toolCallId": &self.run.call(*index).id,
            "message": question.message,
            "requestedSchema": question.requested_schema,
            "state": state.name(),
        });
        if let Some(server) = &question.server {
            data["server"] = server.as_str().into();
        }
        if let ElicitState::Withdrawn(Some(reason)) = state {
            data["reason"] = reason.as_str().into();
        }
        let chunk = elicitation_chunk(id.as_str(), data);
        self.publish(chunk);
    }

    /// Withdraws what a process that ended has left open.
    pub(super) fn withdraw_orphans(&mut self) {
        for part in self.run.snapshot().parts {
            let UiPart::Data(part) = part else { continue };
            let Some(id) = part.id.filter(|_| part.kind == ELICITATION) else { continue };
            if part.data["state"] == ElicitState::Pending.name() {
                let mut data = part.data;
                data["state"] = ElicitState::Withdrawn(None).name().into();
                self.publish(elicitation_chunk(&id, data));
            }
        }
    }
}

/// The call that a message shows as the one that asked this question.
pub(crate) fn asker_in(message: &UiMessage, id: &ElicitationId) -> Option<ToolCallId> {
    message.parts.iter().find_map(|part| match part {
        UiPart::Data(part) if part.kind == ELICITATION && part.id.as_deref() == Some(id.as_str()) => {
            Some(ToolCallId::new(part.data["toolCallId"].as_str()?))
        }
        UiPart::Data(_)
        | UiPart::Text { .. }
        | UiPart::Reasoning { .. }
        | UiPart::File(_)
        | UiPart::StepStart
        | UiPart::Tool(_)
        | UiPart::Unknown(_) => None,
    })
}

fn elicitation_chunk(id: &str, data: Value) -> UiChunk {
    UiChunk::Data(DataChunk { kind: ELICITATION.into(), id: Some(id.into()), data, transient: None })
}

impl ElicitState {
    /// The name in the data part.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Answered(ElicitAction::Accept, _) => "accepted",
            Self::Answered(ElicitAction::Decline, _) => "declined",
            Self::Answered(ElicitAction::Cancel, _) | Self::Withdrawn(_) => "cancelled",
        }
    }
}
