//! The validation of answers, before anything changes: a batch is accepted as a whole, or not at all.

use std::collections::BTreeSet;

use fermata_protocol::{
    Answer, AnswerKind, AnswerTarget, ElicitAction, JsonText, ToolPart, ToolState, UiPart, measure,
};
use fermata_tools::{
    ApprovalTerms, AuditAction, AuditEvent, AuditOutcome, Call, Check, Decider, Decision, Grant,
    PolicyDecision, Presentation, Receipt, Refusal, Scope, StateName, Toolbox, ValidAnswer,
};
use serde_json::{Map, Value};

use super::{
    Context, Overruled, Phase, Run,
    elicit::{ElicitState, Elicited, ValidReply},
    rejected::Rejected,
    votes::{is_approved_with, may_decide_now, terms_in_force},
};
use crate::api::view::InputPreview;

/// The result of validating a batch of answers.
#[derive(Debug)]
pub(crate) struct Validation {
    pub answers: ValidAnswers,
    pub receipts: Vec<Receipt>,
    /// Calls that the answers approve and that must not run as they were shown.
    pub overruled: Vec<(usize, Overruled)>,
}

/// The new answers of a batch that was validated as a whole.
#[derive(Debug)]
pub(crate) struct ValidAnswers {
    /// Each answer to a call, with the call's index in [`Run::calls`].
    pub calls: Vec<(usize, AnswerKind)>,
    pub elicitations: Vec<ValidReply>,
    /// The person who gives them.
    pub by: Decider,
}

impl ValidAnswers {
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.elicitations.is_empty()
    }
}

/// The subject of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The index of a call in [`Run::calls`].
    Call(usize),
    /// The index of a question among those that the run's calls have asked.
    Elicitation(usize),
}

impl Run {
    /// Finds the subject of an answer.
    pub fn find(&self, target: &AnswerTarget) -> Option<Subject> {
        match target {
            AnswerTarget::Call(id) => self.index_of(id).map(Subject::Call),
            AnswerTarget::Approval(id) => {
                let is_about = |call: &Call| {
                    let newest = call.approval_request.as_ref().map(|request| &request.id);
                    newest == Some(id) || call.asked_before.contains(id)
                };
                self.all_calls().position(is_about).map(Subject::Call)
            }
            AnswerTarget::Elicitation(id) => {
                self.elicited.iter().position(|elicited| elicited.id == *id).map(Subject::Elicitation)
            }
        }
    }

    /// Returns the index of the call that an answer is about.
    pub fn find_call(&self, target: &AnswerTarget) -> Option<usize> {
        match self.find(target)? {
            Subject::Call(index) => Some(index),
            Subject::Elicitation(_) => None,
        }
    }

    /// Returns the calls and questions that can be answered now.
    pub fn awaited(&self) -> impl Iterator<Item = AnswerTarget> {
        let calls = self.step_calls().iter().filter(|call| call.accepts_answer());
        let calls = calls.map(|call| AnswerTarget::Call(call.id.clone()));
        calls.chain(self.elicitations().map(|asked| AnswerTarget::Elicitation(asked.id.clone())))
    }

    /// Returns the check that an answer needs, if it has an edited input or the content of a form.
    pub fn check_of(&self, answer: &Answer, toolbox: &Toolbox) -> Option<Check> {
        match (self.find(&answer.of)?, &answer.kind) {
            (Subject::Call(index), AnswerKind::Decision { approved: true, input: Some(input), .. }) => {
                Some(toolbox.find(&self.call(index).tool)?.check_of(input.clone()))
            }
            (Subject::Elicitation(index), AnswerKind::Elicited { action: ElicitAction::Accept, content }) => {
                let content = content.clone().unwrap_or_else(|| Value::Object(Map::new()));
                Some(Check::of_elicitation(self.elicited[index].question.requested_schema.clone(), content))
            }
            (Subject::Call(_) | Subject::Elicitation(_), _) => None,
        }
    }

    /// Validates a batch of answers as a whole, except for their schemas: see [`Run::check_of`].
    ///
    /// # Errors
    /// If one of the answers cannot be accepted; then none of them is.
    pub fn validate(
        &self,
        answers: &[Answer],
        by: &Decider,
        context: &Context<'_>,
    ) -> Result<Validation, Rejected> {
        let mut subjects = Vec::with_capacity(answers.len());
        let mut calls = Vec::new();
        let mut elicitations = Vec::new();
        let mut overruled = Vec::new();
        for answer in answers {
            let subject = self.find(&answer.of).ok_or_else(|| Rejected::Unknown(answer.of.clone()))?;
            if subjects.contains(&subject) {
                return Err(Rejected::Twice(self.calls[self.call_of(subject)].id.clone()));
            }
            subjects.push(subject);
            match subject {
                Subject::Elicitation(_) if !by.by.is_user(&context.requester.user) => {
                    return Err(Rejected::Unknown(answer.of.clone()));
                }
                Subject::Elicitation(index) => elicitations.extend(self.validate_reply(index, &answer.kind)?),
                Subject::Call(index) => {
                    let call = self.call(index);
                    if call.is_outdated(answer) {
                        return Err(Rejected::Outdated { call: call.id.clone(), tool: call.tool.clone() });
                    }
                    match call.validate_answer(&answer.kind, &by.by) {
                        Ok(ValidAnswer::Repeated) => {}
                        Ok(ValidAnswer::New) => {
                            check_decider(call, answer, by, context)?;
                            self.check_answer(call, &answer.kind, by, context)?;
                            grant_of(call, &answer.kind, context)?;
                            if let AnswerKind::Decision { approved: true, input, .. } = &answer.kind {
                                let input = input.as_ref().unwrap_or(call.effective_input());
                                let reason = self.overruled(call, &input.value(), context);
                                overruled.extend(reason.map(|reason| (index, reason)));
                            }
                            calls.push((index, answer.kind.clone()));
                        }
                        Err(refusal) => return Err(Rejected::of(refusal, call)),
                    }
                }
            }
        }
        self.check_room(&calls, context)?;
        let indexes: Vec<usize> = subjects.into_iter().map(|subject| self.call_of(subject)).collect();
        let receipts = self.receipts(&indexes, &calls, by, context);
        let answers = ValidAnswers { calls, elicitations, by: by.clone() };
        Ok(Validation { answers, receipts, overruled })
    }

    fn call_of(&self, subject: Subject) -> usize {
        match subject {
            Subject::Call(index) => index,
            Subject::Elicitation(index) => self.elicited[index].asker,
        }
    }

    /// Returns an answer to a question of a call's own as a reply, or `None` if it repeats the reply that was accepted.
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
            ElicitState::Pending => {
                Ok(Some(ValidReply { index, action: *action, content: content.clone(), message: None }))
            }
        }
    }

    fn check_answer(
        &self,
        call: &Call,
        answer: &AnswerKind,
        by: &Decider,
        context: &Context<'_>,
    ) -> Result<(), Rejected> {
        match answer {
            AnswerKind::Output { output } => within(context.limits.output_bytes, output.to_string().len()),
            AnswerKind::Failure { error_text } => within(context.limits.output_bytes, error_text.len()),
            AnswerKind::Decision { approved: true, input: Some(input), .. } => {
                let Some(denial) = self.check_edit(call, input, context)? else { return Ok(()) };
                let event = AuditEvent::by_policy(call, input, &denial);
                let event = AuditEvent { outcome: Some(AuditOutcome::Refused), ..event };
                Err(Rejected::Denied(Box::new(event.decided_by(by, context.newest.people()))))
            }
            AnswerKind::Decision { .. } | AnswerKind::Elicited { .. } => Ok(()),
        }
    }

    /// Checks an edited input, except for its schema, and returns the decision if it is denied.
    fn check_edit(
        &self,
        call: &Call,
        input: &JsonText,
        context: &Context<'_>,
    ) -> Result<Option<PolicyDecision>, Rejected> {
        let json = input.as_str();
        let (limits, nodes) = (context.limits, measure(json.as_bytes()).nodes);
        for (count, unit, limit, setting) in [
            (json.len(), "bytes as JSON", limits.argument_bytes, "max_arguments"),
            (nodes, "JSON values", limits.argument_nodes, "max_argument_nodes"),
        ] {
            if count > limit {
                return Err(Rejected::TooLarge(format!(
                    "The edited input has {count} {unit}; the limit is {limit} ({setting}). The call waits on."
                )));
            }
        }
        let Some(found) = context.toolbox.find(&call.tool) else { return Ok(None) };
        let value = input.value();
        self.check_own_tool(call, &value, context.toolbox).map_err(Rejected::BadInput)?;
        // A person has read their own text, so the edit is the approval: only a denial counts.
        let own = found.decide(&*context.rules.policy, &context.requester, &value);
        Ok(match (own.decision, self.overruled(call, &value, context)) {
            (Decision::Deny, _) => Some(own),
            (Decision::Ask | Decision::Allow, Some(Overruled::Denied(denial))) => Some(denial),
            (
                Decision::Ask | Decision::Allow,
                Some(Overruled::ToolChanged | Overruled::NotApproved | Overruled::Lapsed) | None,
            ) => None,
        })
    }

    /// Returns how a call that waits for a decision would be shown with the input of this answer, if a person edited it so.
    ///
    /// # Errors
    /// If the call waits for no decision, or the input cannot be used. Whether it fits its schema is not checked.
    pub fn preview(&self, answer: &Answer, context: &Context<'_>) -> Result<InputPreview, Rejected> {
        let index = self.find_call(&answer.of).ok_or_else(|| Rejected::Unknown(answer.of.clone()))?;
        let call = self.call(index);
        let AnswerKind::Decision { input: Some(input), .. } = &answer.kind else {
            return Err(Rejected::of(Refusal::WrongAnswer, call));
        };
        if call.is_outdated(answer) {
            return Err(Rejected::Outdated { call: call.id.clone(), tool: call.tool.clone() });
        }
        if !call.awaits_approval() {
            return Err(Rejected::of(Refusal::WrongAnswer, call));
        }
        let denial = self.check_edit(call, input, context)?;
        let value = input.value();
        let found = context.toolbox.find(&call.tool);
        let Presentation { description, details, .. } =
            found.map_or_else(|| call.presentation.clone(), |found| found.presentation(&value));
        let decision = match (denial, found) {
            (Some(denial), _) => denial.decision,
            (None, Some(found)) => self.policy_decision(call, &value, found, context).decision,
            (None, None) => Decision::Ask,
        };
        Ok(InputPreview { description, details, decision })
    }

    /// Checks that these answers do not make the chat too large. A page's error text is always accepted, because a call whose output was
    /// too large can end only with one.
    fn check_room(&self, answers: &[(usize, AnswerKind)], context: &Context<'_>) -> Result<(), Rejected> {
        let added = |(_, answer): &(usize, AnswerKind)| match answer {
            AnswerKind::Output { output } => output.to_string().len(),
            AnswerKind::Decision { approved: true, input: Some(input), .. } => input.as_str().len(),
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

    /// Returns the receipts of a batch, with the states that the calls enter before anything runs.
    fn receipts(
        &self,
        indexes: &[usize],
        accepted: &[(usize, AnswerKind)],
        by: &Decider,
        context: &Context<'_>,
    ) -> Vec<Receipt> {
        let grants: Vec<Grant> = accepted
            .iter()
            .filter_map(|(index, kind)| grant_of(self.call(*index), kind, context).ok().flatten())
            .collect();
        // A vote that is not enough leaves its call waiting.
        let waits_on = |(index, kind): &(usize, AnswerKind)| match kind {
            AnswerKind::Decision { approved: true, input, .. } => {
                !is_approved_with(self.call(*index), by, input.as_ref(), context)
            }
            _ => false,
        };
        let still_waiting: Vec<usize> =
            accepted.iter().filter(|answer| waits_on(answer)).map(|(index, _)| *index).collect();
        let is_granted = |call: &Call| grants.iter().any(|grant| self.is_answered_by(grant, call, context));
        indexes
            .iter()
            .map(|&index| {
                let call = self.call(index);
                let answer = accepted.iter().find(|(answered, _)| *answered == index).map(|(_, kind)| kind);
                let state = match answer {
                    None => call.state().name(),
                    Some(AnswerKind::Output { .. }) => StateName::Success,
                    Some(AnswerKind::Failure { .. }) => StateName::Error,
                    Some(AnswerKind::Decision { approved: true, .. }) if still_waiting.contains(&index) => {
                        StateName::AwaitingApproval
                    }
                    Some(AnswerKind::Decision { approved: true, .. }) => StateName::Scheduled,
                    Some(AnswerKind::Decision { approved: false, .. }) => StateName::Cancelled,
                    Some(AnswerKind::Elicited { .. }) => StateName::Executing,
                };
                let others = self.all_calls().filter(|other| {
                    let is_answered = accepted.iter().any(|(answered, _)| {
                        self.call(*answered).id == other.id && !still_waiting.contains(answered)
                    });
                    other.step == call.step && other.id != call.id && !is_answered
                });
                let (waiting, rest): (Vec<&Call>, Vec<&Call>) =
                    others.partition(|other| other.awaits_approval() && !is_granted(other));
                let gate_closed = self.state.phase == Phase::Deciding && !waiting.is_empty();
                let is_decision = matches!(answer, Some(AnswerKind::Decision { .. }));
                let also_approved = rest
                    .into_iter()
                    .filter(|other| is_decision && other.accepts_decision())
                    .filter(|other| is_granted(other) || !gate_closed)
                    .map(|other| other.id.clone())
                    .collect();
                Receipt {
                    tool_call_id: call.id.clone(),
                    state,
                    waiting_for: waiting.into_iter().map(|other| other.id.clone()).collect(),
                    gate_closed: gate_closed && state == StateName::Scheduled,
                    also_approved,
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
                && !call.is_outdated(&answer)
                && call.validate_answer(&answer.kind, &self.settings.requester) == Ok(ValidAnswer::New)
                && seen.insert(index)
            {
                answers.push(answer);
            }
        }
        answers
    }
}

/// Refuses a decision of a principal who may not decide about the call, and any other answer of somebody who does not own the chat.
fn check_decider(call: &Call, answer: &Answer, by: &Decider, context: &Context<'_>) -> Result<(), Rejected> {
    if !matches!(answer.kind, AnswerKind::Decision { .. }) {
        return if by.by.is_user(&context.requester.user) {
            Ok(())
        } else {
            Err(Rejected::Unknown(answer.of.clone()))
        };
    }
    // Those who have approved may take that back, even if they may not decide any more.
    if call.can_be_taken_back(&by.by) || may_decide_now(&by.by, call, context) {
        return Ok(());
    }
    let terms = terms_in_force(call, context);
    let deciders = terms.as_deref().unwrap_or(ApprovalTerms::by_requester()).deciders();
    let event = AuditEvent {
        outcome: Some(AuditOutcome::Refused),
        ..AuditEvent::about(AuditAction::Refused, call).decided_by(by, context.newest.people())
    };
    Err(Rejected::NotYours { call: call.id.clone(), deciders, event: Box::new(event) })
}

/// Returns the grant that an answer gives; `None` if it gives none, if the terms of the call take no "always", or if the call's tool is not
/// available, as which the person has allowed it.
///
/// # Errors
/// If the call's tool does not propose the scope for the input that the call would run with.
pub(super) fn grant_of(
    call: &Call,
    answer: &AnswerKind,
    context: &Context<'_>,
) -> Result<Option<Grant>, Rejected> {
    let AnswerKind::Decision { approved: true, always: Some(always), input, .. } = answer else {
        return Ok(None);
    };
    let terms = terms_in_force(call, context);
    if !terms.as_deref().unwrap_or(ApprovalTerms::by_requester()).take_always() {
        return Ok(None);
    }
    let found = context.toolbox.find(&call.tool);
    let scopes = match (input, found) {
        (Some(input), Some(found)) => found.scopes(&input.value()),
        (Some(_), None) | (None, _) => call.presentation.scopes.clone(),
    };
    let known: Vec<String> = scopes.iter().map(|scope| scope.id.clone()).collect();
    let wanted = |scope: &Scope| always.scope.as_ref().is_none_or(|wanted| scope.id == *wanted);
    let Some(scope) = scopes.into_iter().find(wanted) else {
        let tool = &call.tool;
        return Err(Rejected::UnknownScope(match (&always.scope, &known[..]) {
            (_, []) => format!(
                "This call of {tool} cannot be allowed for always. The call waits on: approve it without `always`."
            ),
            (wanted, known) => format!(
                "This call of {tool} has no scope {:?}. The call waits on: send one of its scopes, which are {known:?}.",
                wanted.as_deref().unwrap_or_default()
            ),
        }));
    };
    Ok(found.map(|found| Grant::new(context.toolbox, found.spec(), scope, always, context.now)))
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
                always: None,
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

fn within(limit: usize, bytes: usize) -> Result<(), Rejected> {
    if bytes <= limit {
        return Ok(());
    }
    Err(Rejected::TooLarge(format!(
        "The output has {bytes} bytes as JSON; the limit is {limit}. Send a smaller one; the call waits on."
    )))
}
