//! What tools ask the person while they run.
//!
//! A question is parked like a call: it holds the stream, is let go and expires. It lives as long as its call and this process: a run
//! that another process takes up withdraws what the last one left open.

use fermata_protocol::{DataChunk, ElicitAction, ElicitationId, ToolCallId, UiChunk, UiMessage, UiPart};
use fermata_tools::{Elicitation, ElicitationReply, Reply};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Context, Effects, Phase, Run, gate::expiry, is_at_work};
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
}

/// How far a question is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ElicitState {
    Pending,
    Answered(ElicitAction, Option<Value>),
    Withdrawn,
}

impl Run {
    /// A running call asks the person something. `None` where it cannot be asked.
    pub fn elicit(
        &mut self,
        call: &ToolCallId,
        question: Elicitation,
        context: &Context<'_>,
        effects: &mut Effects,
    ) -> Option<ElicitationId> {
        let place = self.calls.iter().position(|known| known.id == *call && is_at_work(known))?;
        let is_full = self.pending().count() + self.elicitations().count() >= context.limits.parked_calls;
        if self.state.phase != Phase::Working || is_full {
            return None;
        }
        let id = ElicitationId::new(context.ids.next("elic_"));
        self.elicited.push(Elicited {
            id: id.clone(),
            place,
            question,
            state: ElicitState::Pending,
            since: context.now,
            expires: expiry(context),
        });
        self.show_elicitation(self.elicited.len() - 1, effects);
        effects.save = true;
        self.mark_parked(context.now);
        Some(id)
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
        self.elicitations().any(|elicited| elicited.place == place || elicited.question.or_of.contains(id))
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
        self.calls[place].replies.push(Reply { to, by, action, content: content.clone() });
        effects.changed.insert(place);
        let reply = match action {
            ElicitAction::Accept => ElicitationReply::Accept(content.clone().unwrap_or_else(|| json!({}))),
            ElicitAction::Decline => ElicitationReply::Decline,
            ElicitAction::Cancel => ElicitationReply::Cancel,
        };
        self.elicited[nth].state = ElicitState::Answered(action, content);
        effects.replies.push((self.elicited[nth].id.clone(), reply));
        effects.save = true;
        self.show_elicitation(nth, effects);
    }

    /// The tool does not want to know any more.
    pub fn withdraw(&mut self, id: &ElicitationId, context: &Context<'_>, effects: &mut Effects) {
        let Some(nth) = self.elicited.iter().position(|elicited| elicited.id == *id) else { return };
        if self.elicited[nth].state == ElicitState::Pending && self.state.phase != Phase::Over {
            self.withdraw_nth(nth, effects);
            self.mark_parked(context.now);
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
                None => self.withdraw_nth(nth, effects),
            }
        }
    }

    fn other_asker(&self, nth: usize) -> Option<usize> {
        let Elicited { place, question, .. } = &self.elicited[nth];
        let mut others =
            self.calls.iter().enumerate().filter(|(other, call)| other != place && is_at_work(call));
        others.find(|(_, call)| question.or_of.contains(&call.id)).map(|(other, _)| other)
    }

    fn withdraw_nth(&mut self, nth: usize, effects: &mut Effects) {
        self.elicited[nth].state = ElicitState::Withdrawn;
        effects.replies.push((self.elicited[nth].id.clone(), ElicitationReply::Cancel));
        effects.save = true;
        self.show_elicitation(nth, effects);
    }

    fn show_elicitation(&mut self, nth: usize, effects: &mut Effects) {
        let Elicited { id, place, question, state, .. } = &self.elicited[nth];
        let data = json!({
            "elicitationId": id,
            "toolCallId": self.calls[*place].id,
            "message": question.message,
            "requestedSchema": question.requested_schema,
            "state": state.name(),
        });
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
                data["state"] = ElicitState::Withdrawn.name().into();
                self.publish(effects, elicitation_chunk(&id, data));
                effects.save = true;
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
            Self::Answered(ElicitAction::Cancel, _) | Self::Withdrawn => "cancelled",
        }
    }
}
