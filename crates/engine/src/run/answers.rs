//! Answers that were validated, and their changes: outcomes, decisions, edits, and permissions for good.

use fermata_protocol::{AnswerKind, ApprovalId, JsonText, UiChunk};
use fermata_tools::{
    ApprovalDecision, AuditAction, AuditEvent, AuditOutcome, CallState, Cancelled, Decider, Decision,
    DecisionChannel, DecisionSource, Grant, PolicyDecision, ToolError, Wait,
};

use super::{Deciding, Phase, ValidAnswers, effects::Decided, validation::grant_of};

// === impl Deciding ===

impl Deciding<'_> {
    /// Applies answers that were validated.
    pub(super) fn on_answers(&mut self, ValidAnswers { calls, elicitations, by }: ValidAnswers) {
        self.decider = Some(by.clone());
        let was_open = self.run.state.phase == Phase::Working;
        for reply in elicitations {
            self.apply_reply(reply, &by);
        }
        let mut denied = Vec::new();
        for (index, answer) in calls {
            match answer {
                AnswerKind::Elicited { .. } => {}
                AnswerKind::Output { .. } | AnswerKind::Failure { .. } => self.apply_output(index, answer),
                AnswerKind::Decision { .. } => {
                    // The answer was validated, so its scope is one of the call's.
                    let grant = grant_of(self.run.call(index), &answer, self.context).ok().flatten();
                    let AnswerKind::Decision { approved, reason, always, input } = answer else { continue };
                    if let Some(input) = input
                        && approved
                    {
                        self.edit(index, input, &by);
                    }
                    if approved && !self.vote(index, &by) {
                        self.note_vote(index, &by, reason);
                        continue;
                    }
                    if !approved {
                        denied.push(index);
                        self.withdraw_vote(index, &by);
                    }
                    let decided = ApprovalDecision::of(&by, approved, self.context.now);
                    let decided = ApprovalDecision { reason, always: always.is_some(), ..decided };
                    self.note_decision(index, decided, &by, grant);
                }
            }
        }
        // A closed gate shows denied calls when it opens.
        if was_open {
            for index in denied {
                self.show_denial_by_person(index);
            }
        }
    }

    /// Applies a person's edit of the input, which voids the votes for the input before it. The call waits with the edited input until enough
    /// people have approved that.
    fn edit(&mut self, index: usize, input: JsonText, by: &Decider) {
        if let Some(found) = self.context.toolbox.find(&self.run.call(index).tool) {
            let (policy, value) = (&*self.context.rules.policy, input.value());
            self.call_mut(index).policy_decision =
                Some(found.decide(policy, &self.context.requester, &value));
            self.call_mut(index).presentation = found.presentation(&value);
        }
        let call = self.call_mut(index);
        call.edited = Some(input);
        if let Some(request) = &mut call.approval_request {
            request.votes.clear();
        }
        self.audit(AuditAction::Edited, AuditOutcome::Counted, index, by, None);
        if self.run.call(index).awaits_approval() {
            self.change(index, self.run.call(index).state().clone());
        }
    }

    /// Settles a call that the browser has run.
    pub(super) fn apply_output(&mut self, index: usize, answer: AnswerKind) {
        self.call_mut(index).note_answer(&answer);
        match answer {
            AnswerKind::Output { output } => self.succeed(index, output),
            AnswerKind::Failure { error_text } => self.fail(index, ToolError::internal(error_text)),
            AnswerKind::Decision { .. } | AnswerKind::Elicited { .. } => {}
        }
    }

    pub(super) fn note_decision(
        &mut self,
        index: usize,
        decided: ApprovalDecision,
        by: &Decider,
        grant: Option<Grant>,
    ) {
        self.effects.commit.decisions.push(Decided { call: index, decision: decided.clone() });
        let event = if decided.approved { AuditAction::Approved } else { AuditAction::Denied };
        self.audit(event, AuditOutcome::Settled, index, by, decided.reason.clone());
        // A client that has posted the message again shows the decision already.
        let is_shown = by.how == DecisionChannel::Message;
        self.decide_call(index, decided, is_shown);
        let Some(grant) = grant else { return };
        let covers = Some(grant.terms.scope.covers.clone());
        self.audit(AuditAction::Granted, AuditOutcome::Counted, index, by, covers);
        for sibling in self.run.step_indexes() {
            let call = self.run.call(sibling);
            if !self.run.is_answered_by(&grant, call, self.context) {
                continue;
            }
            let policy_decision = PolicyDecision::new(Decision::Allow, DecisionSource::Always);
            let event = AuditEvent::by_policy(call, call.effective_input(), &policy_decision);
            self.effects.commit.audit.push(event.decided_by(by, self.context.newest.people()));
            self.vote(sibling, by);
            self.decide_call(sibling, ApprovalDecision::of(by, true, self.context.now), false);
        }
        self.effects.commit.grants.push((index, grant));
    }

    pub(super) fn audit(
        &mut self,
        action: AuditAction,
        outcome: AuditOutcome,
        index: usize,
        by: &Decider,
        reason: Option<String>,
    ) {
        let event =
            AuditEvent { reason, outcome: Some(outcome), ..AuditEvent::about(action, self.run.call(index)) };
        self.effects.commit.audit.push(event.decided_by(by, self.context.newest.people()));
    }

    fn decide_call(&mut self, index: usize, decided: ApprovalDecision, is_shown: bool) {
        let state = if decided.approved {
            CallState::scheduled(Wait::Gate)
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
