//! The questions that tools ask the user while they run.
//!
//! A question is parked like a call: it holds the stream and expires. It ends with its call or with this process: when another process
//! resumes the run, it withdraws the questions that are still open.

use fermata_protocol::{DataChunk, ElicitAction, ElicitationId, ToolCallId, UiChunk, UiMessage, UiPart};
use fermata_tools::{
    AskedFailure, Asking, Asks, CallState, Decider, Elicitation, ElicitationRecord, ElicitationReply,
    ErrorStrategy, ToolError, Work,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Deciding, Ending, Phase, Run,
    gate::{expiry, too_many_wait},
    is_at_work, later,
};
use crate::{
    api::view::Pending,
    run_tools::{
        self, Started,
        questions::{self, CALL_FAILED, FailureChoice},
    },
};

/// The kind of the data part that shows a question.
const ELICITATION: &str = "data-elicitation";

/// A valid reply to a question of a call's own.
#[derive(Debug)]
pub(crate) struct ValidReply {
    /// The index of the question.
    pub index: usize,
    pub action: ElicitAction,
    pub content: Option<Value>,
    /// The message of the user, if the reply is one.
    pub message: Option<String>,
}

/// A question that a tool has asked the user.
#[derive(Clone, Debug)]
pub(crate) struct Elicited {
    pub id: ElicitationId,
    /// The index in [`Run::calls`] of the call that asks.
    pub asker: usize,
    pub question: Elicitation,
    pub source: QuestionSource,
    pub state: ElicitState,
    pub since: Timestamp,
    pub expires: Timestamp,
    /// The scope of the expiry.
    pub expiry_ends: ExpiryEnds,
}

/// The party that asks a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuestionSource {
    /// A tool that waits for the reply in this process.
    Tool,
    /// The model, with a tool of the run. The run waits for the reply, so the question outlives the process.
    AskUser,
    /// The run, about the failure of a call. This question also outlives the process.
    Failure,
}

/// The thing that ends when nobody has answered a question in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryEnds {
    /// The run ends, as when a call expires.
    Run,
    /// The question alone ends, because its call blocks a resource.
    Question,
}

/// The state of a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ElicitState {
    Pending,
    Answered(ElicitAction, Option<Value>),
    /// Nobody waits for an answer any more, for this reason unless the call has ended.
    Withdrawn(Option<String>),
}

impl Run {
    /// Returns the earliest end of a question whose call blocks a resource.
    pub fn first_question_ends(&self) -> Option<Timestamp> {
        let ending = self.elicitations().filter(|elicited| elicited.expiry_ends == ExpiryEnds::Question);
        ending.map(|elicited| elicited.expires).min()
    }

    /// Returns the question of this index.
    pub fn question(&self, index: usize) -> &Elicited {
        &self.elicited[index]
    }

    /// Returns the questions that wait for an answer.
    pub fn elicitations(&self) -> impl Iterator<Item = &Elicited> {
        self.elicited.iter().filter(|elicited| elicited.state == ElicitState::Pending)
    }

    /// Returns the questions that wait for an answer, in the form for readers.
    pub fn pending_questions(&self) -> impl Iterator<Item = Pending> {
        self.elicitations().map(|elicited| Pending::Elicitation {
            id: elicited.id.clone(),
            call: Box::new(self.call(elicited.asker).call.clone()),
            question: elicited.question.clone(),
            asks: elicited.asks(),
            failure: self.failure_of(elicited).cloned(),
            since: elicited.since,
            expires: elicited.expires,
        })
    }

    /// Returns the failure that a question is about.
    fn failure_of(&self, elicited: &Elicited) -> Option<&AskedFailure> {
        match elicited.source {
            QuestionSource::Failure => self.call(elicited.asker).asked_about.as_ref(),
            QuestionSource::Tool | QuestionSource::AskUser => None,
        }
    }

    /// Returns whether the run itself asks the question, so that it outlives the process.
    pub(super) fn is_own_question(elicited: &Elicited) -> bool {
        match elicited.source {
            QuestionSource::Tool => false,
            QuestionSource::AskUser | QuestionSource::Failure => true,
        }
    }

    /// Returns the question that the run itself asks about a call, if there is one.
    pub(super) fn own_question(&self, index: usize) -> Option<Elicited> {
        let call = self.call(index);
        let CallState::Executing { work: Work::Asking { about, expires } } = *call.state() else {
            return None;
        };
        let (id, question, source) = match about {
            Asking::Failure => (
                questions::id_about_failure(call),
                questions::about_failure(call, call.asked_about.as_ref()?),
                QuestionSource::Failure,
            ),
            Asking::Call => {
                let tool = run_tools::find(&call.tool)?;
                match tool.start(&call.effective_input().value(), None) {
                    Started::Asks(question) => (questions::id_of(call), question, QuestionSource::AskUser),
                    Started::Settled(_) => return None,
                }
            }
        };
        let (since, state, expiry_ends) = (call.since(), ElicitState::Pending, ExpiryEnds::Run);
        Some(Elicited { id, asker: index, question, source, state, since, expires, expiry_ends })
    }

    /// Restores the questions of the run itself that wait for an answer.
    pub(super) fn restore_questions(&mut self) {
        self.elicited = (0..self.calls.len()).filter_map(|index| self.own_question(index)).collect();
    }

    /// Returns whether the call waits for an answer to a question that it has asked, or may have asked.
    pub(super) fn elicits(&self, index: usize) -> bool {
        let id = &self.call(index).id;
        self.elicitations()
            .any(|elicited| elicited.asker == index || elicited.question.other_candidates.contains(id))
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Asks the user the question of a running call.
    ///
    /// # Errors
    /// If the question cannot be asked. The error is the reply to the tool.
    pub(super) fn on_elicitation(
        &mut self,
        call: &ToolCallId,
        question: Elicitation,
    ) -> Result<ElicitationId, ElicitationReply> {
        if self.run.state.phase != Phase::Working {
            return Err(ElicitationReply::Cancel);
        }
        let asker = self.run.calls.iter().position(|known| known.id == *call && is_at_work(known));
        let Some(asker) = asker else { return Err(ElicitationReply::Cancel) };
        let most = self.context.limits.parked_calls;
        if self.run.pending().count() + self.run.elicitations().count() >= most {
            let reason = format!("{most} calls and questions of the chat wait already (max_parked_calls).");
            return Err(ElicitationReply::Unanswered { reason });
        }
        let blocks_resource = self.run.calls.iter().any(|other| {
            other.resource.is_some() && (other.id == *call || question.other_candidates.contains(&other.id))
        });
        let (expires, expiry_ends) =
            if blocks_resource && self.context.limits.elicit_timeout < self.context.expire {
                (later(self.context.now, self.context.limits.elicit_timeout), ExpiryEnds::Question)
            } else {
                (expiry(self.context), ExpiryEnds::Run)
            };
        let id = ElicitationId::new(self.context.ids.next("elic_"));
        self.run.elicited.push(Elicited {
            id: id.clone(),
            asker,
            question,
            source: QuestionSource::Tool,
            state: ElicitState::Pending,
            since: self.context.now,
            expires,
            expiry_ends,
        });
        self.show_elicitation(self.run.elicited.len() - 1);
        Ok(id)
    }

    /// Asks the user the question of a call of one of the run's own tools.
    pub(super) fn ask_user(&mut self, index: usize) {
        if self.run.pending().count() + self.run.elicitations().count() >= self.context.limits.parked_calls {
            return self.fail(index, too_many_wait(self.context));
        }
        let work = Work::Asking { about: Asking::Call, expires: expiry(self.context) };
        self.change(index, CallState::Executing { work });
        self.show_own_question(index);
    }

    /// Asks a person about the failure of a call. Returns `false` if nobody is asked.
    pub(super) fn ask_about_failure(&mut self, index: usize, error: &ToolError) -> bool {
        let call = self.run.call(index);
        let strategy = self.context.rules.errors_of(&call.tool).of(error.error_type);
        let is_own = run_tools::of_call(call, self.context.toolbox).is_some();
        let waiting = self.run.pending().count() + self.run.elicitations().count();
        if strategy != ErrorStrategy::AskPerson
            || is_own
            || call.times_run() == 0
            || super::own_calls::fallback_of(&call.tool, self.context).is_some()
            || waiting >= self.context.limits.parked_calls
        {
            return false;
        }
        let failure = AskedFailure { error_type: error.error_type, text: error.text.clone() };
        let expires = expiry(self.context);
        self.call_mut(index).ask_about(failure, expires);
        self.show_own_question(index);
        true
    }

    fn show_own_question(&mut self, index: usize) {
        let Some(question) = self.run.own_question(index) else { return };
        self.run.elicited.push(question);
        self.show_elicitation(self.run.elicited.len() - 1);
    }

    /// Withdraws the questions that nobody has answered in time and whose calls block a resource.
    pub(super) fn on_question_timed_out(&mut self) {
        let Some(first) = self.run.first_question_ends() else { return };
        let limit = humantime::format_duration(self.context.limits.elicit_timeout);
        for index in 0..self.run.elicited.len() {
            let Elicited { state, expiry_ends, expires, .. } = &self.run.elicited[index];
            let is_over = *expiry_ends == ExpiryEnds::Question && *expires <= first;
            if is_over && *state == ElicitState::Pending {
                let reason = format!(
                    "nobody answered within {limit}, and the call keeps others from a resource (elicit_timeout)."
                );
                self.withdraw_elicitation(index, Some(reason));
            }
        }
    }

    /// Applies a reply that was validated.
    pub(super) fn apply_reply(&mut self, reply: ValidReply, by: &Decider) {
        let ValidReply { index, action, content, message } = reply;
        let Elicited { id, asker, .. } = &self.run.elicited[index];
        let (to, asker, by) = (id.clone(), *asker, by.by.user.clone());
        self.call_mut(asker).replies.push(ElicitationRecord { to, by, action, content: content.clone() });
        let reply = match action {
            ElicitAction::Accept => ElicitationReply::Accept(content.clone().unwrap_or_else(|| json!({}))),
            ElicitAction::Decline => ElicitationReply::Decline,
            ElicitAction::Cancel => ElicitationReply::Cancel,
        };
        self.run.elicited[index].state = ElicitState::Answered(action, content);
        self.effects.after.replies.push((self.run.elicited[index].id.clone(), reply));
        // The message before the user's shows the reply to its question.
        if message.is_none() {
            self.show_elicitation(index);
        }
        let content = match &self.run.elicited[index].state {
            ElicitState::Answered(ElicitAction::Accept, content) => {
                Some(content.clone().unwrap_or_else(|| json!({})))
            }
            ElicitState::Answered(ElicitAction::Decline | ElicitAction::Cancel, _)
            | ElicitState::Pending
            | ElicitState::Withdrawn(_) => None,
        };
        match self.run.elicited[index].source {
            QuestionSource::Tool => {}
            QuestionSource::AskUser => {
                let call = self.run.call(asker);
                let Some(tool) = run_tools::find(&call.tool) else { return };
                let input = call.effective_input().value();
                let output = tool.output(&input, content.as_ref(), message.as_deref());
                self.settle(asker, Ok(output));
            }
            QuestionSource::Failure => self.on_choice(asker, questions::choice(content.as_ref())),
        }
    }

    /// Carries out a person's choice after the failure of a call.
    fn on_choice(&mut self, index: usize, choice: FailureChoice) {
        let Some(AskedFailure { error_type, text }) = self.run.call(index).asked_about.clone() else {
            return;
        };
        match choice {
            FailureChoice::Retry => {
                let call = self.call_mut(index);
                call.asked_about = None;
                // The person wants the effect again, so it is another one.
                call.idempotency_key = None;
                self.start_or_queue(index);
            }
            FailureChoice::GoOn => self.fail(index, ToolError::new(error_type, text)),
            FailureChoice::Stop => {
                self.fail(index, ToolError::new(error_type, text));
                self.end_run(Ending::Stopped);
            }
        }
    }

    /// Withdraws a question whose tool no longer waits for the reply.
    pub(super) fn on_withdrawal(&mut self, id: &ElicitationId) {
        let Some(index) = self.run.elicited.iter().position(|elicited| elicited.id == *id) else { return };
        if self.run.elicited[index].state == ElicitState::Pending && self.run.state.phase != Phase::Over {
            self.withdraw_elicitation(index, None);
        }
    }

    /// Withdraws the questions of a call that has ended, unless another call may have asked them.
    pub(super) fn withdraw_elicitations(&mut self, asker: usize) {
        for index in 0..self.run.elicited.len() {
            let elicited = &self.run.elicited[index];
            if elicited.asker != asker || elicited.state != ElicitState::Pending {
                continue;
            }
            let other = self.run.calls.iter().enumerate().position(|(other, call)| {
                other != asker && is_at_work(call) && elicited.question.other_candidates.contains(&call.id)
            });
            match other {
                Some(other) => {
                    self.run.elicited[index].asker = other;
                    self.show_elicitation(index);
                }
                None => self.withdraw_elicitation(index, None),
            }
        }
    }

    fn withdraw_elicitation(&mut self, index: usize, reason: Option<String>) {
        let reply = match &reason {
            Some(reason) => ElicitationReply::Unanswered { reason: reason.clone() },
            None => ElicitationReply::Cancel,
        };
        self.effects.after.replies.push((self.run.elicited[index].id.clone(), reply));
        self.run.elicited[index].state = ElicitState::Withdrawn(reason);
        self.show_elicitation(index);
    }

    /// Shows the question of this index, which a message of the user has answered, or which the next message asks again.
    pub(super) fn show_handed_over(&mut self, index: usize, is_answered: bool) {
        self.run.elicited[index].state = if is_answered {
            ElicitState::Answered(ElicitAction::Accept, None)
        } else {
            ElicitState::Withdrawn(Some("It is asked again in the next message.".into()))
        };
        self.show_elicitation(index);
    }

    pub(super) fn show_elicitation(&mut self, index: usize) {
        let elicited = &self.run.elicited[index];
        let Elicited { id, asker, question, state, .. } = elicited;
        let mut data = json!({
            "elicitationId": id,
            "toolCallId": &self.run.call(*asker).id,
            "tool": &self.run.call(*asker).tool,
            "asks": elicited.asks(),
            "message": question.message,
            "requestedSchema": question.requested_schema,
            "state": state.name(),
        });
        if let Some(server) = &question.server {
            data["server"] = server.as_str().into();
        }
        if let Some(AskedFailure { error_type, text }) = self.run.failure_of(elicited) {
            data["code"] = CALL_FAILED.into();
            data["errorType"] = json!(error_type);
            data["errorText"] = text.as_str().into();
        }
        if let ElicitState::Withdrawn(Some(reason)) = state {
            data["reason"] = reason.as_str().into();
        }
        let chunk = elicitation_chunk(id.as_str(), data);
        self.publish(chunk);
    }

    /// Withdraws the questions that were open when the process ended.
    pub(super) fn withdraw_orphans(&mut self) {
        for part in &self.run.snapshot().parts {
            if let Some((id, data)) = pending_question(part) {
                if self.run.elicitations().any(|asked| asked.id.as_str() == id) {
                    continue;
                }
                let mut data = data.clone();
                data["state"] = ElicitState::Withdrawn(None).name().into();
                self.publish(elicitation_chunk(id, data));
            }
        }
    }
}

/// Returns the call that asked a question, according to a message.
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

/// Returns the id and the data of the question that a part of a message shows as waiting.
pub(super) fn pending_question(part: &UiPart) -> Option<(&str, &Value)> {
    match part {
        UiPart::Data(part)
            if part.kind == ELICITATION && part.data["state"] == ElicitState::Pending.name() =>
        {
            Some((part.id.as_deref()?, &part.data))
        }
        UiPart::Data(_)
        | UiPart::Text { .. }
        | UiPart::Reasoning { .. }
        | UiPart::File(_)
        | UiPart::StepStart
        | UiPart::Tool(_)
        | UiPart::Unknown(_) => None,
    }
}

pub(super) fn elicitation_chunk(id: &str, data: Value) -> UiChunk {
    UiChunk::Data(DataChunk { kind: ELICITATION.into(), id: Some(id.into()), data, transient: None })
}

impl Elicited {
    /// Returns the party that asks.
    fn asks(&self) -> Asks {
        match self.source {
            QuestionSource::AskUser => Asks::Assistant,
            QuestionSource::Tool if self.question.server.is_some() => Asks::Mcp,
            QuestionSource::Tool | QuestionSource::Failure => Asks::Tool,
        }
    }
}

impl ElicitState {
    /// Returns the name of the state in the data part.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Answered(ElicitAction::Accept, _) => "accepted",
            Self::Answered(ElicitAction::Decline, _) => "declined",
            Self::Answered(ElicitAction::Cancel, _) | Self::Withdrawn(_) => "cancelled",
        }
    }
}
