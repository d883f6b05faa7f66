//! A run that goes on from the calls of an earlier message, because the user has decided about them in words.
//!
//! The words are a message of their own, so what follows is a new message. The run that makes it takes over the calls of the earlier run, its
//! plan, its tools and its counters. The outcomes of these calls belong to the earlier message, which nobody reads as a stream any more.

use std::collections::BTreeSet;

use fermata_protocol::{Answer, AnswerKind, AnswerTarget, MessageId, Profile, RunId, Show, UiChunk};
use fermata_tools::{Call, RunBy};
use jiff::Timestamp;

use super::{
    Activity, AnswerSource, Deciding, EarlierMessage, Ending, Next, Phase, Run, RunHold, RunRequest,
    RunSettings, RunState, ValidAnswers,
};
use crate::position::Position;

/// The message that a run goes on in.
pub(crate) struct Continuation {
    pub id: RunId,
    pub message: MessageId,
    pub profile: Profile,
    pub hold: RunHold,
    pub show: BTreeSet<Show>,
    pub now: Timestamp,
    /// `true` if the user has approved the calls that wait.
    pub approved: bool,
}

// === impl Run ===

impl Run {
    /// Returns whether a message of the user can decide about all that the run waits for: nothing of it waits for a page, or would wait for one
    /// once it is approved, and no question of a tool is open.
    pub fn can_be_decided_in_words(&self) -> bool {
        let mut open = self.step_calls().iter().filter(|call| !call.state().is_final()).peekable();
        let is_deciding = matches!(self.state.phase, Phase::Deciding | Phase::Working);
        is_deciding
            && self.elicitations().next().is_none()
            && self.step_calls().iter().any(Call::awaits_approval)
            && open.peek().is_some()
            && open.all(|call| call.run_by != Some(RunBy::Browser))
    }

    /// Returns the answers to all calls that wait for a decision.
    pub fn decisions(&self, approved: bool) -> Vec<Answer> {
        let asked = self.step_calls().iter().filter(|call| call.awaits_approval());
        asked
            .map(|call| Answer {
                of: match &call.approval_request {
                    Some(request) => AnswerTarget::Approval(request.id.clone()),
                    None => AnswerTarget::Call(call.id.clone()),
                },
                kind: AnswerKind::Decision { approved, reason: None, always: false, input: None },
            })
            .collect()
    }

    /// Returns the run that goes on from the calls of this one, which has none of them any more.
    pub fn continued(&mut self, continuation: Continuation) -> Self {
        let Continuation { id, message, profile, hold, show, now, approved } = continuation;
        let earlier = EarlierMessage {
            id: self.message.clone(),
            run: self.id.clone(),
            step: self.state.step,
            approved,
        };
        let settings = RunSettings { started: now, ..self.settings.clone() };
        let mut next = Self::new(RunRequest { id, message, profile, hold, show: show.clone(), settings });
        next.calls = std::mem::take(&mut self.calls);
        next.awaiting_retry = std::mem::take(&mut self.awaiting_retry);
        next.awaiting_tools = std::mem::take(&mut self.awaiting_tools);
        next.awaiting_slots = std::mem::take(&mut self.awaiting_slots);
        next.state = RunState {
            profile,
            hold,
            show,
            earlier: Some(earlier),
            position: Position::START,
            checkpoints: Vec::new(),
            activity: Activity::Working,
            texts: 0,
            ..self.state.clone()
        };
        next
    }

    /// Returns whether the current step is the last one of the earlier message.
    pub(super) fn is_in_earlier_message(&self) -> bool {
        self.state.earlier.as_ref().is_some_and(|earlier| earlier.step == self.state.step)
    }

    /// Returns whether the call is one of the run's own message.
    pub(super) fn is_own(&self, call: &Call) -> bool {
        self.state.earlier.as_ref().is_none_or(|earlier| earlier.step < call.step)
    }

    /// Returns what the model is told of the user's decision.
    pub fn told_of_consent(&self) -> Option<&'static str> {
        let earlier = self.state.earlier.as_ref()?;
        Some(if earlier.approved {
            "By the last message the user has approved the calls right before it. They have run since; go on from their results."
        } else {
            "By the last message the user has denied the calls right before it. Do not make them again; go on without them, or ask what the \
             user wants instead."
        })
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Ends the stream of a run whose calls another one takes over. Nothing happens to the calls.
    pub(super) fn on_handed_over(&mut self) {
        self.publish(UiChunk::Abort { reason: Some("The conversation went on.".into()) });
        self.run.state.phase = Phase::Over;
        self.effects.after.next = Next::Close(Ending::Superseded);
    }

    /// Begins the message in which the run goes on, with the decisions about the calls of the earlier one.
    pub(super) fn on_continued(&mut self, answers: ValidAnswers) {
        let message_id = Some(self.run.message.clone());
        self.publish(UiChunk::Start { message_id, message_metadata: None });
        self.on_answers(answers, AnswerSource::SeparateRequest);
    }
}
