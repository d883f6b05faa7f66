//! A run that goes on from the calls of an earlier message, because a message of the user has decided about them, or has answered a question
//! of the assistant.
//!
//! The message of the user comes between, so a new message follows. The run that makes it takes over the calls of the earlier run, its
//! questions, its plan, its tools and its counters. The outcomes of these calls belong to the earlier message, which nobody reads as a stream
//! any more. A question that still waits is asked again in the new message.

use std::collections::{BTreeSet, HashSet};

use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ApprovalId, ElicitAction, MessageId, Profile, RunId, Show,
    ShownApproval, UiChunk,
};
use fermata_tools::{Call, Decider, RunBy};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Activity, Context, Deciding, EarlierMessage, Ending, LiveCall, Next, Phase, Run, RunHold, RunRequest,
    RunSettings, RunState, ValidAnswers, ValidReply,
    elicit::{ElicitState, QuestionSource},
    gate::takes_words,
    votes::{may_decide_now, terms_in_force},
};
use crate::{run_log::position::Position, run_tools};

/// The message that a run goes on in.
pub(crate) struct Continuation {
    pub id: RunId,
    pub message: MessageId,
    pub profile: Profile,
    pub hold: RunHold,
    pub show: BTreeSet<Show>,
    pub now: Timestamp,
    pub said: Said,
}

/// The effect that a message of the user has had on a run that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    /// The calls may run.
    Approved,
    /// The calls may not run.
    Denied,
    /// The answer to the questions of the assistant.
    Answered,
}

/// The calls and questions of a run that a message of the user could answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitingRun {
    /// The approvals that the gate waits for.
    pub approvals: Vec<ApprovalId>,
    /// Approvals that a person may decide as well, although nothing waits for them.
    pub optional: Vec<ApprovalId>,
    /// The approvals that are decided.
    pub decided: Vec<ApprovalId>,
    /// `true` if a message such as "yes" may decide about the approvals.
    pub takes_words: bool,
    /// `true` if a message is the answer to a question of the assistant.
    pub takes_reply: bool,
    /// Those who decide about the approvals, if the user may not decide about one of them.
    pub others_decide: Option<String>,
}

// === impl WaitingRun ===

impl WaitingRun {
    /// Returns whether these are exactly the approvals that wait. Optional ones may be among them, and decided ones that a page cannot but
    /// show.
    pub fn is_shown_by(&self, shown: &[ShownApproval]) -> bool {
        let is_shown = |id: &ApprovalId| shown.iter().any(|approval| approval.id == *id);
        self.approvals.iter().all(is_shown)
            && shown.iter().all(|ShownApproval { id, stays }| {
                self.approvals.contains(id)
                    || self.optional.contains(id)
                    || (*stays && self.decided.contains(id))
            })
    }
}

// === impl Run ===

impl Run {
    /// Returns the calls and questions that a message of the user could answer.
    pub fn waiting(&self, context: &Context<'_>) -> WaitingRun {
        let mut waiting = WaitingRun {
            takes_words: self.can_be_decided_in_words(context),
            takes_reply: self.takes_reply(),
            others_decide: self.others_decide(context),
            ..WaitingRun::default()
        };
        for call in &self.calls {
            let Some(request) = &call.approval_request else { continue };
            let approvals = if call.awaits_approval() {
                &mut waiting.approvals
            } else if call.accepts_decision() {
                &mut waiting.optional
            } else {
                &mut waiting.decided
            };
            approvals.push(request.id.clone());
        }
        waiting
    }

    /// Returns those who decide about a call that waits, if the user may not.
    fn others_decide(&self, context: &Context<'_>) -> Option<String> {
        let mut asked = self.step_calls().iter().filter(|call| call.awaits_approval());
        let call = asked.find(|call| !may_decide_now(&context.requester, call, context))?;
        Some(terms_in_force(call, context)?.deciders())
    }

    /// Returns whether a message of the user can decide about all calls that wait for a decision: the rules let words decide about each of
    /// them, nothing of the run waits for a page, or would once it is approved, and no question waits but those of the assistant.
    pub fn can_be_decided_in_words(&self, context: &Context<'_>) -> bool {
        let mut asked = self.step_calls().iter().filter(|call| call.awaits_approval()).peekable();
        asked.peek().is_some()
            && self.can_be_handed_over()
            && self.elicitations().all(|asked| asked.source == QuestionSource::AskUser)
            && asked.all(|call| takes_words(call, context))
    }

    /// Returns whether a message of the user is the answer to a question of the assistant.
    pub(super) fn takes_reply(&self) -> bool {
        self.can_be_handed_over()
            && self.elicitations().any(|asked| asked.source == QuestionSource::AskUser)
            && self.elicitations().all(Self::is_own_question)
    }

    /// Returns whether the run can go on in another message: no call of it waits for a page, which would look for it in this one.
    fn can_be_handed_over(&self) -> bool {
        let mut open = self.step_calls().iter().filter(|call| !call.state().is_final());
        matches!(self.state.phase, Phase::Deciding | Phase::Working)
            && open.all(|call| call.run_by != Some(RunBy::Browser))
    }

    /// Returns the decisions about the calls with these approvals.
    pub fn decisions(&self, approved: bool, shown: &HashSet<&ApprovalId>) -> Vec<Answer> {
        let waiting = self.step_calls().iter().filter(|call| call.accepts_decision());
        waiting
            .filter_map(|call| call.approval_request.as_ref())
            .filter(|request| shown.contains(&request.id))
            .map(|request| Answer {
                of: AnswerTarget::Approval(request.id.clone()),
                kind: AnswerKind::Decision { approved, reason: None, always: None, input: None },
            })
            .collect()
    }

    /// Returns a message of the user as the answer to all questions of the assistant that wait. The first question that it fits gets it as its
    /// answer; the model receives the message with the others.
    pub fn replies(&self, message: &str, by: Decider) -> ValidAnswers {
        let mut elicitations = Vec::new();
        let mut is_used = false;
        for (index, asked) in self.elicited.iter().enumerate() {
            if asked.state != ElicitState::Pending || asked.source != QuestionSource::AskUser {
                continue;
            }
            let call = self.call(asked.asker);
            let Some(tool) = run_tools::find(&call.tool) else { continue };
            let input = call.effective_input().value();
            let fitting = if is_used { None } else { tool.fit(&input, message) };
            is_used |= fitting.is_some();
            elicitations.push(ValidReply {
                index,
                action: ElicitAction::Accept,
                content: Some(fitting.unwrap_or_default().into()),
                message: Some(message.to_owned()),
            });
        }
        ValidAnswers { calls: Vec::new(), elicitations, by }
    }

    /// Returns the run that goes on from the calls and questions of this one.
    pub fn continued(&mut self, continuation: Continuation) -> Self {
        let Continuation { id, message, profile, hold, show, now, said } = continuation;
        let earlier = match &self.state.earlier {
            // Nothing has come of the calls in this message.
            Some(earlier) if self.is_in_earlier_message() => EarlierMessage { said, ..earlier.clone() },
            Some(_) | None => {
                EarlierMessage { id: self.message.clone(), run: self.id.clone(), step: self.state.step, said }
            }
        };
        let settings = RunSettings { started: now, ..self.settings.clone() };
        let mut next = Self::new(RunRequest { id, message, profile, hold, show: show.clone(), settings });
        next.calls = self.calls.iter().map(LiveCall::in_next_log).collect();
        next.elicited.clone_from(&self.elicited);
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
    /// Returns the calls that this run has made, and not taken over.
    pub fn own_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| self.is_own(call)).map(|call| &**call)
    }

    pub(super) fn is_own(&self, call: &Call) -> bool {
        self.state.earlier.as_ref().is_none_or(|earlier| earlier.step < call.step)
    }

    /// Returns the text for the model about the user's messages to the run.
    pub fn told_of_consent(&self) -> Option<&'static str> {
        let earlier = self.state.earlier.as_ref()?;
        Some(match earlier.said {
            Said::Approved => {
                "By the last message the user has approved the calls right before it. They have run since; go on from their results."
            }
            Said::Denied => {
                "By the last message the user has denied the calls right before it. Do not make them again; go on without them, or ask what the \
                 user wants instead."
            }
            Said::Answered => {
                "The last message is the user's answer to your questions right before it, and the results of the calls that asked have it. Go on \
                 from there."
            }
        })
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Ends the stream of a run whose calls and questions another one takes over. Nothing happens to the calls.
    pub(super) fn on_handed_over(&mut self, answered: &[usize]) {
        for index in 0..self.run.elicited.len() {
            if self.run.elicited[index].state == ElicitState::Pending {
                self.show_handed_over(index, answered.contains(&index));
            }
        }
        self.publish(UiChunk::Abort { reason: Some("The conversation went on.".into()) });
        self.run.state.phase = Phase::Over;
        self.effects.after.next = Next::Close(Ending::Superseded);
    }

    /// Begins the message that continues the run, with the answers of the user, and asks the questions again that still wait.
    pub(super) fn on_continued(&mut self, answers: ValidAnswers) {
        let message_id = Some(self.run.message.clone());
        self.publish(UiChunk::Start { message_id, message_metadata: None });
        for index in 0..self.run.elicited.len() {
            let is_answered = answers.elicitations.iter().any(|reply| reply.index == index);
            if self.run.elicited[index].state == ElicitState::Pending && !is_answered {
                self.show_elicitation(index);
            }
        }
        self.on_answers(answers);
    }
}
