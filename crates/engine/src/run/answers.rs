//! The answers of browsers and people to calls: validated first, as a whole, and then applied.

use std::{collections::BTreeSet, net::IpAddr};

use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ApprovalId, ElicitAction, ToolCallId, ToolPart, ToolState, UiChunk,
    UiPart,
};
use fermata_tools::{
    AnswerSchema, ApprovalDecision, AuditAction, AuditEvent, Call, CallState, Cancelled, Check, Decision,
    DecisionSource, Grant, PolicyDecision, Receipt, Refusal, StateName, ToolError, ValidAnswer,
};
use serde_json::{Map, Value};

use super::{
    Context, Deciding, Phase, Run,
    elicit::{ElicitState, Elicited},
};

/// The result of validating a batch of answers.
#[derive(Debug)]
pub(crate) struct Validation {
    pub answers: ValidAnswers,
    pub receipts: Vec<Receipt>,
    /// Calls that the answers approve and that the newest rules deny.
    pub denied: Vec<(usize, PolicyDecision)>,
}

/// The new answers of a batch that was validated as a whole.
#[derive(Debug)]
pub(crate) struct ValidAnswers {
    /// Each answer to a call, with the call's index in [`Run::calls`].
    pub calls: Vec<(usize, AnswerKind)>,
    pub elicitations: Vec<ValidReply>,
    /// The address that the answers come from, if it is known.
    pub address: Option<IpAddr>,
}

/// The way in which an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerSource {
    /// The answer came in the run's message, posted again. The client that reads the response shows it already.
    InMessage,
    /// The answer came in a request of its own, so every reader has to be shown it.
    SeparateRequest,
}

/// A valid reply to a question of a call's own: the question's index, and the reply.
pub(crate) type ValidReply = (usize, ElicitAction, Option<Value>);

/// The subject of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The index of a call in [`Run::calls`].
    Call(usize),
    /// The index of a question among those that the run's calls have asked.
    Elicitation(usize),
}

/// The reason why no answer of a batch is accepted.
#[derive(Debug, PartialEq)]
pub(crate) enum Rejected {
    /// The run has no such call or question.
    Unknown(AnswerTarget),
    Refused {
        refusal: Refusal,
        call: ToolCallId,
        tool: String,
        state: StateName,
    },
    /// Two answers of the batch are about one call.
    Twice(ToolCallId),
    /// A rule denies the edited input. This is the entry for the audit log.
    Denied(Box<AuditEvent>),
    /// The output is larger than allowed.
    TooLarge(String),
}

impl Run {
    /// Finds the subject of an answer.
    pub fn find(&self, target: &AnswerTarget) -> Option<Found> {
        let call = |is_it: &dyn Fn(&Call) -> bool| self.calls.iter().position(is_it).map(Found::Call);
        match target {
            AnswerTarget::Call(id) => call(&|call| call.id == *id),
            AnswerTarget::Approval(id) => {
                call(&|call| call.approval_request.as_ref().is_some_and(|question| question.id == *id))
            }
            AnswerTarget::Elicitation(id) => {
                self.elicited.iter().position(|elicited| elicited.id == *id).map(Found::Elicitation)
            }
        }
    }

    /// Returns the index of the call that an answer is about.
    pub fn find_call(&self, target: &AnswerTarget) -> Option<usize> {
        match self.find(target)? {
            Found::Call(index) => Some(index),
            Found::Elicitation(_) => None,
        }
    }

    /// Returns the inputs and contents of a batch that have to be checked before it is accepted, each with the text for one that does not
    /// fit. Of a batch that is rejected anyway it returns none.
    pub fn inputs_to_check(&self, answers: &[Answer], context: &Context<'_>) -> Vec<(Check, &'static str)> {
        let Ok(Validation { answers, .. }) = self.validate(answers, context) else { return Vec::new() };
        let edits = answers.calls.into_iter().filter_map(|(index, kind)| {
            let AnswerKind::Decision { approved: true, input: Some(input), .. } = kind else { return None };
            let found = context.toolbox.find(&self.call(index).tool)?;
            Some((found.check_of(input), "The edited input does not fit the schema"))
        });
        let contents = answers.elicitations.into_iter().filter_map(|(index, action, content)| {
            if action != ElicitAction::Accept {
                return None;
            }
            let content = content.unwrap_or_else(|| Value::Object(Map::new()));
            let schema = self.elicited[index].question.requested_schema.clone();
            let check = AnswerSchema::of_elicitation(schema).check(content);
            Some((check, "The content does not fit what was asked for"))
        });
        edits.chain(contents).collect()
    }

    /// Validates a batch of answers as a whole, except for their schemas: see [`Run::inputs_to_check`].
    ///
    /// # Errors
    /// If one of the answers cannot be accepted; then none of them is.
    pub fn validate(&self, answers: &[Answer], context: &Context<'_>) -> Result<Validation, Rejected> {
        let mut found = Vec::with_capacity(answers.len());
        let mut calls = Vec::new();
        let mut elicitations = Vec::new();
        let mut denied = Vec::new();
        for answer in answers {
            let about = self.find(&answer.of).ok_or_else(|| Rejected::Unknown(answer.of.clone()))?;
            if found.contains(&about) {
                return Err(Rejected::Twice(self.calls[self.call_of(about)].id.clone()));
            }
            found.push(about);
            match about {
                Found::Elicitation(index) => elicitations.extend(self.validate_reply(index, &answer.kind)?),
                Found::Call(index) => match self.call(index).validate_answer(&answer.kind) {
                    Ok(ValidAnswer::Repeated) => {}
                    Ok(ValidAnswer::New) => {
                        self.check_answer(index, &answer.kind, context)?;
                        if let AnswerKind::Decision { approved: true, input: None, .. } = &answer.kind {
                            let input = self.call(index).effective_input();
                            let policy_decision = self.newest_denial(index, input, context);
                            denied.extend(policy_decision.map(|policy_decision| (index, policy_decision)));
                        }
                        calls.push((index, answer.kind.clone()));
                    }
                    Err(refusal) => return Err(Rejected::of(refusal, self.call(index))),
                },
            }
        }
        self.check_room(&calls, context)?;
        let indexes: Vec<usize> = found.into_iter().map(|about| self.call_of(about)).collect();
        let receipts = self.receipts(&indexes, &calls, context);
        let answers = ValidAnswers { calls, elicitations, address: context.address };
        Ok(Validation { answers, receipts, denied })
    }

    fn call_of(&self, about: Found) -> usize {
        match about {
            Found::Call(index) => index,
            Found::Elicitation(index) => self.elicited[index].asker,
        }
    }

    /// Returns the reply to a call's own question that an answer is, or `None` if the same was given before.
    fn validate_reply(&self, index: usize, answer: &AnswerKind) -> Result<Option<ValidReply>, Rejected> {
        let Elicited { asker, state, .. } = &self.elicited[index];
        let refused = |refusal| Rejected::of(refusal, self.call(*asker));
        let AnswerKind::Elicited { action, content } = answer else {
            return Err(refused(Refusal::WrongAnswer));
        };
        match state {
            ElicitState::Withdrawn(_) => Err(refused(Refusal::Gone)),
            ElicitState::Answered(was, with) if was == action && with == content => Ok(None),
            ElicitState::Answered(_, _) => Err(refused(Refusal::AlreadyAnswered)),
            ElicitState::Pending => Ok(Some((index, *action, content.clone()))),
        }
    }

    fn check_answer(&self, index: usize, answer: &AnswerKind, context: &Context<'_>) -> Result<(), Rejected> {
        match answer {
            AnswerKind::Output { output } => within(context.limits.output_bytes, output.to_string().len()),
            AnswerKind::Failure { error_text } => within(context.limits.output_bytes, error_text.len()),
            AnswerKind::Decision { approved: true, input: Some(input), .. } => {
                let (bytes, limit) = (input.to_string().len(), context.limits.argument_bytes);
                if bytes > limit {
                    return Err(Rejected::TooLarge(format!(
                        "The edited input has {bytes} bytes as JSON; the limit is {limit} (max_arguments). The call waits on."
                    )));
                }
                self.check_edit(index, input, context)
            }
            AnswerKind::Decision { .. } | AnswerKind::Elicited { .. } => Ok(()),
        }
    }

    /// Checks that the chat does not become too large by these answers. A page's error text is always accepted, because with it a call
    /// ends whose output was too large.
    fn check_room(&self, answers: &[(usize, AnswerKind)], context: &Context<'_>) -> Result<(), Rejected> {
        let added = |(_, answer): &(usize, AnswerKind)| match answer {
            AnswerKind::Output { output } => output.to_string().len(),
            AnswerKind::Decision { approved: true, input: Some(input), .. } => input.to_string().len(),
            AnswerKind::Decision { .. } | AnswerKind::Failure { .. } | AnswerKind::Elicited { .. } => 0,
        };
        let added: usize = answers.iter().map(added).sum();
        if added == 0 {
            return Ok(());
        }
        let (bytes, limit) = (self.chat_bytes(context) + added, context.limits.chat_bytes);
        if bytes <= limit {
            return Ok(());
        }
        Err(Rejected::TooLarge(format!(
            "With this answer the chat would have {bytes} bytes; the limit is {limit} (max_chat). The call waits on: send a smaller \
             answer, or an errorText, or stop the run."
        )))
    }

    fn check_edit(&self, index: usize, input: &Value, context: &Context<'_>) -> Result<(), Rejected> {
        let Some(found) = context.toolbox.find(&self.call(index).tool) else { return Ok(()) };
        // A person has read what they wrote, so the edit is the approval: only a denial counts.
        let policy_decision = context.rules.policy.decide(context.owner, found.spec(), input);
        let denied =
            Some(policy_decision).filter(|policy_decision| policy_decision.decision == Decision::Deny);
        let Some(policy_decision) = denied.or_else(|| self.newest_denial(index, input, context)) else {
            return Ok(());
        };
        let event = AuditEvent::by_policy(self.call(index), input, &policy_decision);
        let (decided_by, address) = (Some(context.owner.clone()), context.address);
        Err(Rejected::Denied(Box::new(AuditEvent { decided_by, address, ..event })))
    }

    /// Returns the receipts of a batch. They have the states that the calls come into before anything has run.
    fn receipts(
        &self,
        indexes: &[usize],
        taken: &[(usize, AnswerKind)],
        context: &Context<'_>,
    ) -> Vec<Receipt> {
        let always: Vec<&str> = taken
            .iter()
            .filter(|(_, kind)| is_always(kind))
            .map(|(index, _)| self.call(*index).tool.as_str())
            .collect();
        let decided = |index: usize| {
            taken.iter().any(|(answered, _)| *answered == index)
                || (always.contains(&self.call(index).tool.as_str())
                    && self.is_answered_by_always(index, context))
        };
        indexes
            .iter()
            .map(|&index| {
                let call = self.call(index);
                let answer = taken.iter().find(|(answered, _)| *answered == index).map(|(_, kind)| kind);
                let waiting_for = (0..self.calls.len())
                    .filter(|&other| self.call(other).step == call.step && self.call(other).awaits_approval())
                    .filter(|&other| !decided(other))
                    .map(|other| self.call(other).id.clone())
                    .collect();
                Receipt {
                    tool_call_id: call.id.clone(),
                    state: answer.map_or(call.state().name(), state_after),
                    waiting_for,
                }
            })
            .collect()
    }

    /// Returns the answers of a posted message that calls of this run wait for, one for each call. A decision has to name the approval
    /// request of its call.
    pub fn new_answers(&self, parts: &[UiPart]) -> Vec<Answer> {
        let mut seen = BTreeSet::new();
        let mut answers = Vec::new();
        for part in parts.iter().filter_map(UiPart::as_tool) {
            let Some(answer) = answer_in(part) else { continue };
            let Some(index) = self.find_call(&answer.of) else { continue };
            let call = self.call(index);
            if call.id == part.tool_call_id
                && call.validate_answer(&answer.kind) == Ok(ValidAnswer::New)
                && seen.insert(index)
            {
                answers.push(answer);
            }
        }
        answers
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Settles calls that somebody wanted to approve and that the newest rules deny.
    pub(super) fn on_approvals_denied(&mut self, denied: Vec<(usize, PolicyDecision)>) {
        for (index, policy_decision) in denied {
            self.settle_as_denied(index, policy_decision);
        }
    }

    /// Applies answers that were validated.
    pub(super) fn on_answers(
        &mut self,
        ValidAnswers { calls, elicitations, address }: ValidAnswers,
        source: AnswerSource,
    ) {
        self.address = address;
        let was_open = self.run.state.phase == Phase::Working;
        for (index, action, content) in elicitations {
            self.apply_reply(index, action, content);
        }
        let mut denied = Vec::new();
        for (index, answer) in calls {
            match answer {
                AnswerKind::Elicited { .. } => {}
                AnswerKind::Output { .. } | AnswerKind::Failure { .. } => self.apply_output(index, answer),
                AnswerKind::Decision { approved, reason, always, input } => {
                    if !approved {
                        denied.push(index);
                    } else if let Some(input) = input {
                        self.edit(index, input);
                    }
                    let decided =
                        ApprovalDecision { by: self.context.owner.clone(), approved, reason, always };
                    self.note_decision(index, decided, source);
                }
            }
        }
        // A closed gate shows what was denied when it opens.
        if was_open {
            for index in denied {
                self.show_denial_by_person(index);
            }
        }
    }

    /// Applies a person's edit of the input. The call waits with the edited input until the person's decision counts.
    fn edit(&mut self, index: usize, input: Value) {
        if let Some(found) = self.context.toolbox.find(&self.run.call(index).tool) {
            self.call_mut(index).policy_decision =
                Some(self.context.rules.policy.decide(self.context.owner, found.spec(), &input));
        }
        self.call_mut(index).edited = Some(input);
        self.audit(AuditAction::Edited, index, None);
        if self.run.call(index).awaits_approval() {
            self.change(index, CallState::AwaitingApproval);
        }
    }

    /// Settles a call that the browser has run.
    pub(super) fn apply_output(&mut self, index: usize, answer: AnswerKind) {
        self.call_mut(index).answer = Some(answer.clone());
        match answer {
            AnswerKind::Output { output } => self.succeed(index, output),
            AnswerKind::Failure { error_text } => self.fail(index, ToolError::internal(error_text)),
            AnswerKind::Decision { .. } | AnswerKind::Elicited { .. } => {}
        }
    }

    fn note_decision(&mut self, index: usize, decided: ApprovalDecision, source: AnswerSource) {
        let always = decided.approved && decided.always;
        self.effects.commit.decisions.push(index);
        let event = if decided.approved { AuditAction::Approved } else { AuditAction::Denied };
        self.audit(event, index, decided.reason.clone());
        self.decide_call(index, decided, source);
        if !always {
            return;
        }
        // The tool is allowed as it is now. Nobody knows what a tool is that is not there.
        let tool = self.run.call(index).tool.clone();
        let Some(found) = self.context.toolbox.find(&tool) else { return };
        self.effects.commit.grants.push((tool.clone(), Grant::of(found.spec(), self.context.now)));
        self.audit(AuditAction::Granted, index, None);
        for sibling in self.run.step_indexes() {
            if self.run.call(sibling).tool != tool || !self.run.is_answered_by_always(sibling, self.context) {
                continue;
            }
            self.effects.after.release.push(self.run.call(sibling).id.clone());
            let policy_decision =
                PolicyDecision { decision: Decision::Allow, reason: None, by: DecisionSource::Always };
            let call = self.run.call(sibling);
            let event = AuditEvent::by_policy(call, call.effective_input(), &policy_decision);
            let (by, address) = (self.context.owner.clone(), self.address);
            self.effects.commit.audit.push(AuditEvent { decided_by: Some(by.clone()), address, ..event });
            let decided = ApprovalDecision { by, approved: true, reason: None, always: false };
            self.decide_call(sibling, decided, AnswerSource::SeparateRequest);
        }
    }

    fn audit(&mut self, event: AuditAction, index: usize, reason: Option<String>) {
        let (by, address) = (self.context.owner.clone(), self.address);
        let event = AuditEvent::by_person(event, self.run.call(index), by, address, reason);
        self.effects.commit.audit.push(event);
    }

    fn decide_call(&mut self, index: usize, decided: ApprovalDecision, source: AnswerSource) {
        let state = if decided.approved {
            CallState::Scheduled
        } else {
            CallState::Cancelled { cancelled: Cancelled::Denied { reason: decided.reason.clone() } }
        };
        if let Some(question) =
            self.run.call(index).approval_request.as_ref().map(|question| question.id.clone())
        {
            match source {
                AnswerSource::InMessage => {
                    self.run.assembler.decide(&question, decided.approved, decided.reason.as_deref());
                }
                // All readers see the decision, even if the gate still waits for others.
                AnswerSource::SeparateRequest => {
                    self.show_response(question, decided.approved, decided.reason.clone());
                }
            }
        }
        self.call_mut(index).approval_decision = Some(decided);
        if *self.run.call(index).state() != state {
            self.change(index, state);
        }
    }

    /// Shows that a rule has denied a call about which a person was asked.
    pub(super) fn refuse_question(&mut self, index: usize, reason: Option<String>) {
        if let Some(question) =
            self.run.call(index).approval_request.as_ref().map(|question| question.id.clone())
        {
            self.show_response(question, false, reason);
        }
    }

    fn show_response(&mut self, approval_id: ApprovalId, approved: bool, reason: Option<String>) {
        let response = UiChunk::ToolApprovalResponse {
            approval_id,
            approved,
            reason,
            provider_executed: None,
            provider_metadata: None,
        };
        self.publish(response);
    }
}

/// Returns the answer in a part that a stock client posts again: an outcome or a decision, which it does not mark as new.
fn answer_in(part: &ToolPart) -> Option<Answer> {
    let of = AnswerTarget::Call(part.tool_call_id.clone());
    match &part.state {
        ToolState::OutputAvailable { output, preliminary, .. } if *preliminary != Some(true) => {
            Some(Answer { of, kind: AnswerKind::Output { output: output.clone() } })
        }
        ToolState::OutputError { error_text, .. } => {
            Some(Answer { of, kind: AnswerKind::Failure { error_text: error_text.clone() } })
        }
        ToolState::ApprovalResponded { .. } => {
            let approval = part.approval.as_ref()?;
            let kind = AnswerKind::Decision {
                approved: approval.approved?,
                reason: approval.reason.clone(),
                always: false,
                input: None,
            };
            Some(Answer { of: AnswerTarget::Approval(approval.id.clone()), kind })
        }
        ToolState::OutputAvailable { .. }
        | ToolState::InputStreaming { .. }
        | ToolState::InputAvailable { .. }
        | ToolState::ApprovalRequested { .. }
        | ToolState::OutputDenied { .. } => None,
    }
}

fn is_always(kind: &AnswerKind) -> bool {
    matches!(kind, AnswerKind::Decision { approved: true, always: true, .. })
}

fn state_after(answer: &AnswerKind) -> StateName {
    match answer {
        AnswerKind::Output { .. } => StateName::Success,
        AnswerKind::Failure { .. } => StateName::Error,
        AnswerKind::Decision { approved: true, .. } => StateName::Scheduled,
        AnswerKind::Decision { approved: false, .. } => StateName::Cancelled,
        AnswerKind::Elicited { .. } => StateName::Executing,
    }
}

fn within(limit: usize, bytes: usize) -> Result<(), Rejected> {
    if bytes <= limit {
        return Ok(());
    }
    Err(Rejected::TooLarge(format!(
        "The output has {bytes} bytes as JSON; the limit is {limit}. Send a smaller one; the call waits on."
    )))
}

impl Rejected {
    /// Returns the rejection of an answer to this call.
    pub fn of(refusal: Refusal, call: &Call) -> Self {
        Self::Refused { refusal, call: call.id.clone(), tool: call.tool.clone(), state: call.state().name() }
    }
}
