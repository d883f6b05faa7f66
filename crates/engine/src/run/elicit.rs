//! What tools ask the person while they run.
//!
//! A question is parked like a call: it holds the stream, is let go and expires. It lives as long as its call and this process: a run
//! that another process takes up withdraws what the last one left open.

use fermata_protocol::{DataChunk, ElicitAction, ElicitationId, ToolCallId, UiChunk, UiMessage, UiPart};
use fermata_tools::{Elicitation, ElicitationRecord, ElicitationReply};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Context, Effects, Phase, Run, gate::expiry, is_at_work, later};
use crate::Pending;

/// The kind of the data part that shows a question.
const ELICITATION: &str = "data-elicitation";

/// A question that a tool has put to the person.
#[derive(Clone, Debug)]
pub(crate) struct Elicited {
    pub id: ElicitationId,
    /// The place in [`Run::calls`] of the call that asks.
    pub place: usize,
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
    /// A running call asks the person something.
    ///
    /// # Errors
    /// It cannot be asked; what the tool is told.
    pub(super) fn elicit(
        &mut self,
        call: &ToolCallId,
        question: Elicitation,
        context: &Context<'_>,
        effects: &mut Effects,
    ) -> Result<ElicitationId, ElicitationReply> {
        let place = self.calls.iter().position(|known| known.id == *call && is_at_work(known));
        let Some(place) = place.filter(|_| self.state.phase == Phase::Working) else {
            return Err(ElicitationReply::Cancel);
        };
        let most = context.limits.parked_calls;
        if self.pending().count() + self.elicitations().count() >= most {
            let reason = format!("{most} calls and questions of the chat wait already (max_parked_calls).");
            return Err(ElicitationReply::Unanswered { reason });
        }
        let keeps_others_waiting = self.calls.iter().any(|other| {
            other.resource.is_some() && (other.id == *call || question.other_candidates.contains(&other.id))
        });
        let (expires, expiry_ends) = if keeps_others_waiting && context.limits.elicit_timeout < context.expire
        {
            (later(context.now, context.limits.elicit_timeout), ExpiryEnds::Question)
        } else {
            (expiry(context), ExpiryEnds::Run)
        };
        let id = ElicitationId::new(context.ids.next("elic_"));
        self.elicited.push(Elicited {
            id: id.clone(),
            place,
            question,
            state: ElicitState::Pending,
            since: context.now,
            expires,
            expiry_ends,
        });
        self.show_elicitation(self.elicited.len() - 1, effects);
        Ok(id)
    }

    /// When the first question ends by itself that keeps others from a resource.
    pub fn first_question_ends(&self) -> Option<Timestamp> {
        let ending = self.elicitations().filter(|elicited| elicited.expiry_ends == ExpiryEnds::Question);
        ending.map(|elicited| elicited.expires).min()
    }

    /// Nobody has answered the first of these questions in time, and others wait for what its call keeps.
    pub(super) fn end_questions(&mut self, context: &Context<'_>, effects: &mut Effects) {
        let Some(first) = self.first_question_ends() else { return };
        let limit = humantime::format_duration(context.limits.elicit_timeout);
        for nth in 0..self.elicited.len() {
            let Elicited { state, expiry_ends, expires, .. } = &self.elicited[nth];
            let is_over = *expiry_ends == ExpiryEnds::Question && *expires <= first;
            if is_over && *state == ElicitState::Pending {
                let reason = format!(
                    "nobody answered within {limit}, and the call keeps others from a resource (elicit_timeout)."
                );
                self.withdraw_nth(nth, Some(reason), effects);
            }
        }
    }

    /// The questions that wait for an answer.
    pub fn elicitations(&self) -> impl Iterator<Item = &Elicited> {
        self.elicited.iter().filter(|elicited| elicited.state == ElicitState::Pending)
    }

    /// The same, as their readers may see them.
    pub fn pending_questions(&self) -> impl Iterator<Item = Pending> {
        self.elicitations().map(|elicited| Pending::Elicitation {
            id: elicited.id.clone(),
            call: Box::new(self.calls[elicited.place].clone()),
            question: elicited.question.clone(),
            since: elicited.since,
            expires: elicited.expires,
        })
    }

    /// Whether the call waits for an answer to a question that is its own, or may be.
    pub(super) fn elicits(&self, place: usize) -> bool {
        let id = &self.calls[place].id;
        self.elicitations()
            .any(|elicited| elicited.place == place || elicited.question.other_candidates.contains(id))
    }

    /// Takes an answer that was judged.
    pub(super) fn take_elicited(
        &mut self,
        nth: usize,
        action: ElicitAction,
        content: Option<Value>,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        let Elicited { id, place, .. } = &self.elicited[nth];
        let (to, place, by) = (id.clone(), *place, context.owner.clone());
        self.call_mut(place, effects).replies.push(ElicitationRecord {
            to,
            by,
            action,
            content: content.clone(),
        });
        let reply = match action {
            ElicitAction::Accept => ElicitationReply::Accept(content.clone().unwrap_or_else(|| json!({}))),
            ElicitAction::Decline => ElicitationReply::Decline,
            ElicitAction::Cancel => ElicitationReply::Cancel,
        };
        self.elicited[nth].state = ElicitState::Answered(action, content);
        effects.after.replies.push((self.elicited[nth].id.clone(), reply));
        self.show_elicitation(nth, effects);
    }

    /// The tool does not want to know any more.
    pub(super) fn withdraw(&mut self, id: &ElicitationId, effects: &mut Effects) {
        let Some(nth) = self.elicited.iter().position(|elicited| elicited.id == *id) else { return };
        if self.elicited[nth].state == ElicitState::Pending && self.state.phase != Phase::Over {
            self.withdraw_nth(nth, None, effects);
        }
    }

    /// The call has ended around its questions: they are withdrawn, unless another call may be the one that asks.
    pub(super) fn withdraw_elicitations(&mut self, place: usize, effects: &mut Effects) {
        for nth in 0..self.elicited.len() {
            if self.elicited[nth].place != place || self.elicited[nth].state != ElicitState::Pending {
                continue;
            }
            match self.other_asker(nth) {
                Some(other) => {
                    self.elicited[nth].place = other;
                    self.show_elicitation(nth, effects);
                }
                None => self.withdraw_nth(nth, None, effects),
            }
        }
    }

    fn other_asker(&self, nth: usize) -> Option<usize> {
        let Elicited { place, question, .. } = &self.elicited[nth];
        let mut others =
            self.calls.iter().enumerate().filter(|(other, call)| other != place && is_at_work(call));
        others.find(|(_, call)| question.other_candidates.contains(&call.id)).map(|(other, _)| other)
    }

    fn withdraw_nth(&mut self, nth: usize, reason: Option<String>, effects: &mut Effects) {
        let reply = match &reason {
            Some(reason) => ElicitationReply::Unanswered { reason: reason.clone() },
            None => ElicitationReply::Cancel,
        };
        effects.after.replies.push((self.elicited[nth].id.clone(), reply));
        self.elicited[nth].state = ElicitState::Withdrawn(reason);
        self.show_elicitation(nth, effects);
    }

    fn show_elicitation(&mut self, nth: usize, effects: &mut Effects) {
        let Elicited { id, place, question, state, .. } = &self.elicited[nth];
        let mut data = json!({
            "elicitationId": id,
            "toolCallId": self.calls[*place].id,
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
        self.publish(effects, chunk);
    }

    /// Withdraws what a process that ended has left open.
    pub(super) fn withdraw_orphans(&mut self, effects: &mut Effects) {
        for part in self.snapshot().parts {
            let UiPart::Data(part) = part else { continue };
            let Some(id) = part.id.filter(|_| part.kind == ELICITATION) else { continue };
            if part.data["state"] == ElicitState::Pending.name() {
                let mut data = part.data;
                data["state"] = ElicitState::Withdrawn(None).name().into();
                self.publish(effects, elicitation_chunk(&id, data));
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
