//! Answers that were validated, and what they change: outcomes, decisions, edits, and what a person allows for good.

use fermata_protocol::{AnswerKind, ApprovalId, JsonText, UiChunk};
use fermata_tools::{
    ApprovalDecision, AuditAction, AuditEvent, CallState, Cancelled, Decision, DecisionChannel,
    DecisionSource, Grant, PolicyDecision, ToolError,
};

use super::{Deciding, Phase, ValidAnswers};

// === impl Deciding ===

impl Deciding<'_> {
    /// Applies answers that were validated.
    pub(super) fn on_answers(&mut self, ValidAnswers { calls, elicitations, how, address }: ValidAnswers) {
        (self.how, self.address) = (how, address);
        let was_open = self.run.state.phase == Phase::Working;
        for reply in elicitations {
            self.apply_reply(reply);
        }
        let mut denied = Vec::new();
        for (index, answer) in calls {
            match answer {
                AnswerKind::Elicited { .. } => {}
                AnswerKind::Output { .. } | AnswerKind::Failure { .. } => self.apply_output(index, answer),
                AnswerKind::Decision { .. } => {
                    // The answer was validated, so its scope is one of the call's.
                    let grant = self.run.grant(index, &answer, self.context).ok().flatten();
                    let AnswerKind::Decision { approved, reason, always, input } = answer else { continue };
                    if !approved {
                        denied.push(index);
                    } else if let Some(input) = input {
                        self.edit(index, input);
                    }
                    let (by, always) = (self.context.owner.clone(), always.is_some());
                    self.note_decision(index, ApprovalDecision { by, approved, reason, always, how }, grant);
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
    fn edit(&mut self, index: usize, input: JsonText) {
        if let Some(found) = self.context.toolbox.find(&self.run.call(index).tool) {
            let (policy, value) = (&*self.context.rules.policy, input.value());
            self.call_mut(index).policy_decision = Some(found.decide(policy, self.context.owner, &value));
            self.call_mut(index).presentation = found.presentation(&value);
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

    fn note_decision(&mut self, index: usize, decided: ApprovalDecision, grant: Option<Grant>) {
        self.effects.commit.decisions.push(index);
        let event = if decided.approved { AuditAction::Approved } else { AuditAction::Denied };
        self.audit(event, index, decided.reason.clone());
        // A client that has posted the message again shows the decision already.
        let is_shown = self.how == Some(DecisionChannel::Message);
        self.decide_call(index, decided, is_shown);
        let Some(grant) = grant else { return };
        self.audit(AuditAction::Granted, index, Some(grant.terms.scope.covers.clone()));
        for sibling in self.run.step_indexes() {
            if !self.run.is_answered_by(&grant, sibling, self.context) {
                continue;
            }
            self.effects.after.release.push(self.run.call(sibling).id.clone());
            let policy_decision =
                PolicyDecision { decision: Decision::Allow, reason: None, by: DecisionSource::Always };
            let call = self.run.call(sibling);
            let event = AuditEvent::by_policy(call, call.effective_input(), &policy_decision);
            let (by, address) = (self.context.owner.clone(), self.address);
            let decided_by = Some(by.clone());
            self.effects.commit.audit.push(AuditEvent { decided_by, how: self.how, address, ..event });
            let decided = ApprovalDecision { by, approved: true, reason: None, always: false, how: self.how };
            self.decide_call(sibling, decided, false);
        }
        self.effects.commit.grants.push((index, grant));
    }

    fn audit(&mut self, event: AuditAction, index: usize, reason: Option<String>) {
        let (by, address) = (self.context.owner.clone(), self.address);
        let event = AuditEvent::by_person(event, self.run.call(index), by, self.how, address, reason);
        self.effects.commit.audit.push(event);
    }

    fn decide_call(&mut self, index: usize, decided: ApprovalDecision, is_shown: bool) {
        let state = if decided.approved {
            CallState::Scheduled
        } else {
            CallState::Cancelled { cancelled: Cancelled::Denied { reason: decided.reason.clone() } }
        };
        if let Some(question) =
            self.run.call(index).approval_request.as_ref().map(|question| question.id.clone())
        {
            if is_shown {
                self.run.assembler.decide(&question, decided.approved, decided.reason.as_deref());
            } else {
                // All readers see the decision, even if the gate still waits for others.
                self.show_response(question, decided.approved, decided.reason.clone());
            }
        }
        if !decided.approved {
            // An approval is taken back that the call was about to start with.
            let id = self.run.call(index).id.clone();
            self.run.awaiting_tools.remove(&id);
            self.run.awaiting_slots.remove(&id);
        }
        self.call_mut(index).approval_decision = Some(decided);
        if *self.run.call(index).state() != state {
            self.change(index, state);
        }
    }

    /// Shows the decision about an approval request.
    pub(super) fn show_response(&mut self, approval_id: ApprovalId, approved: bool, reason: Option<String>) {
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
