//! The parties that may decide about a call now, and the votes that count.
//!
//! The newest rules and groups apply until the call starts: a vote no longer counts once its principal may not decide any more.

use std::sync::Arc;

use fermata_protocol::JsonText;
use fermata_tools::{
    ApprovalDecision, ApprovalRequest, ApprovalTerms, AuditAction, AuditEvent, AuditOutcome, Call, CallState,
    Decider, Decision, Policy, PolicyDecision, Principal, ToolSpec, Toolbox, may_decide,
};
use jiff::Timestamp;
use serde_json::Value;

use super::{Context, Deciding, Run, effects::Decided, later};
use crate::ports::store::NoticeEvent;

/// The reason why a call does not run as it was allowed or approved.
#[derive(Debug)]
pub(crate) enum Overruled {
    /// The newest rules deny it.
    Denied(PolicyDecision),
    /// Its tool has changed since the decision, and nobody was shown its new form.
    ToolChanged,
    /// Those who have approved it are not enough any more, or may not decide any more.
    NotApproved,
    /// The approval is too old.
    Lapsed,
}

/// A time when something is due about an approval that waits, or that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// The channels are sent a reminder.
    Reminder,
    /// Others may decide as well.
    Escalation,
    /// The requester is notified elsewhere.
    RequesterNotice,
    /// The approval is not valid any more.
    Lapse,
}

/// Returns the decision of a policy about a call with this input. If the tool is not available, the policy sees no more of it than the call
/// has. There is no decision about a call without a tool.
pub(super) fn decision_of(
    policy: &dyn Policy,
    toolbox: &Toolbox,
    requester: &Principal,
    call: &Call,
    input: &Value,
) -> Option<PolicyDecision> {
    Some(match toolbox.find(&call.tool) {
        Some(found) => found.decide(policy, requester, input),
        None => policy.decide(
            requester,
            &ToolSpec {
                name: call.tool.clone(),
                title: None,
                description: String::new(),
                input_schema: Value::Null.into(),
                run_by: call.run_by?,
                server: None,
                policy: Decision::Allow,
                resource: None,
                timeout: None,
                repeatable: false,
                annotations: None,
            },
            input,
        ),
    })
}

/// Returns the terms that are in force for a call that a person is asked about: those of the newest rules for its input, or those that were
/// in force last if the newest rules do not ask. `None` if the requester decides.
pub(super) fn terms_in_force(call: &Call, context: &Context<'_>) -> Option<Arc<ApprovalTerms>> {
    newest_terms(call, &*context.newest, context.toolbox, &context.requester)
}

/// As [`terms_in_force`], for a call that is read outside its run.
pub(crate) fn newest_terms(
    call: &Call,
    policy: &dyn Policy,
    toolbox: &Toolbox,
    requester: &Principal,
) -> Option<Arc<ApprovalTerms>> {
    let newest = decision_of(policy, toolbox, requester, call, &call.effective_input().value());
    let request = call.approval_request.as_ref();
    let terms = match (newest, request) {
        (Some(newest), _) if newest.decision == Decision::Ask => newest.terms,
        (_, Some(request)) => return request.terms.clone(),
        (_, None) => call.policy_decision.as_ref()?.terms.clone(),
    };
    let escalation = terms.as_ref().and_then(|terms| terms.escalate.as_ref());
    match (escalation, request) {
        (Some(escalation), Some(request)) if request.is_escalated => {
            let mut escalated = ApprovalTerms::clone(terms.as_ref()?);
            escalated.by.extend(escalation.by.iter().cloned());
            Some(Arc::new(escalated))
        }
        _ => terms,
    }
}

/// Returns whether a principal may decide about a call by now.
pub(super) fn may_decide_now(principal: &Principal, call: &Call, context: &Context<'_>) -> bool {
    let terms = terms_in_force(call, context);
    let terms = terms.as_deref().unwrap_or(ApprovalTerms::by_requester());
    may_decide(principal, &context.requester.user, terms, context.newest.people())
}

/// Returns whether enough people have approved a call who may decide by now.
pub(super) fn is_approved(call: &Call, context: &Context<'_>) -> bool {
    let Some(request) = &call.approval_request else { return false };
    let terms = terms_in_force(call, context);
    let terms = terms.as_deref().unwrap_or(ApprovalTerms::by_requester());
    let (requester, people) = (&context.requester.user, context.newest.people());
    let valid = request.votes.iter().filter(|vote| may_decide(&vote.by, requester, terms, people));
    valid.count() >= terms.quorum as usize
}

/// Returns whether enough people will have approved a call once this one approves it, perhaps with another input.
pub(super) fn is_approved_with(
    call: &Call,
    by: &Decider,
    input: Option<&JsonText>,
    context: &Context<'_>,
) -> bool {
    let mut next = call.clone();
    if let Some(request) = &mut next.approval_request {
        if input.is_some() {
            request.votes.clear();
        }
        request.vote(by, context.now);
    }
    if input.is_some() {
        next.edited = input.cloned();
    }
    is_approved(&next, context)
}

/// Returns whether the approval of a call is too old for the call to start.
pub(super) fn has_lapsed(call: &Call, now: Timestamp) -> bool {
    lapses_at(call).is_some_and(|at| at <= now)
}

/// Returns the time when the approval of a call that has not started is not valid any more.
fn lapses_at(call: &Call) -> Option<Timestamp> {
    let decided = call.approval_decision.as_ref().filter(|decided| decided.approved)?;
    let valid_for = call.approval_request.as_ref()?.terms().valid_for?;
    if matches!(call.state(), CallState::Scheduled { .. }) {
        Some(later(decided.at, valid_for))
    } else {
        None
    }
}

/// Returns what is due next about a call, and when.
fn next_due(call: &Call) -> Option<(Timestamp, Due)> {
    if let Some(at) = lapses_at(call) {
        return Some((at, Due::Lapse));
    }
    if !call.awaits_approval() {
        return None;
    }
    let request = call.approval_request.as_ref()?;
    let terms = request.terms();
    let mut due = Vec::new();
    if let Some(remind) = terms.remind
        && !request.is_reminded
    {
        due.push((later(request.at, remind), Due::Reminder));
    }
    if let Some(escalation) = &terms.escalate
        && !request.is_escalated
    {
        due.push((later(request.at, escalation.after), Due::Escalation));
    }
    if let Some(at) = request.requester_notice_at {
        due.push((at, Due::RequesterNotice));
    }
    due.into_iter().min_by_key(|(at, _)| *at)
}

// === impl Run ===

impl Run {
    /// Returns the time when a reminder, an escalation, a notice to the requester or the end of an approval is due.
    pub fn approvals_due(&self) -> Option<Timestamp> {
        self.step_calls().iter().filter_map(|call| next_due(call)).map(|(at, _)| at).min()
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Adds a person's approval of a call. Returns whether enough people have approved the call now.
    pub(super) fn vote(&mut self, index: usize, by: &Decider) -> bool {
        let now = self.context.now;
        if let Some(request) = &mut self.call_mut(index).approval_request {
            request.vote(by, now);
        }
        self.use_newest_terms(index);
        is_approved(self.run.call(index), self.context)
    }

    /// Removes the approval of a person who denies the call.
    pub(super) fn withdraw_vote(&mut self, index: usize, by: &Decider) {
        self.change_request(index, |request| request.withdraw(&by.by));
    }

    /// Notes an approval that is not enough by itself.
    pub(super) fn note_vote(&mut self, index: usize, by: &Decider, reason: Option<String>) {
        let now = self.context.now;
        self.effects.commit.decisions.push(Decided {
            call: index,
            decision: ApprovalDecision { reason: reason.clone(), ..ApprovalDecision::of(by, true, now) },
        });
        self.audit(AuditAction::Approved, AuditOutcome::Counted, index, by, reason);
        // It waits on, with the vote.
        self.effects.commit.calls.insert(index);
    }

    /// Updates the terms of a call that a person is asked about, by the newest rules.
    pub(super) fn use_newest_terms(&mut self, index: usize) {
        let terms = terms_in_force(self.run.call(index), self.context);
        let call = self.run.call(index);
        let is_newer = call.approval_request.as_ref().is_some_and(|request| request.terms != terms);
        if is_newer && let Some(request) = &mut self.call_mut(index).approval_request {
            request.terms = terms;
        }
    }

    /// The rules or the people may have changed.
    pub(super) fn on_rules_changed(&mut self) {
        for index in self.run.step_indexes() {
            if self.run.call(index).awaits_approval() {
                self.use_newest_terms(index);
                // Fewer may be enough by now.
                if let Some(last) = self.last_vote(index)
                    && is_approved(self.run.call(index), self.context)
                {
                    let now = self.context.now;
                    self.note_decision(index, ApprovalDecision::of(&last, true, now), &last, None);
                }
            }
        }
    }

    fn last_vote(&self, index: usize) -> Option<Decider> {
        let vote = self.run.call(index).approval_request.as_ref()?.votes.last()?;
        Some(Decider { by: vote.by.clone(), how: vote.how, address: None, shown_hash: None })
    }

    /// Does what is due first about approvals.
    pub(super) fn on_approvals_due(&mut self) {
        let Some(first) = self.run.approvals_due() else { return };
        for index in self.run.step_indexes() {
            let Some((at, due)) = next_due(self.run.call(index)) else { continue };
            if at != first {
                continue;
            }
            match due {
                Due::Lapse => self.overrule(index, Overruled::Lapsed),
                Due::Reminder => {
                    self.change_request(index, |request| request.is_reminded = true);
                    self.audit_by_rule(AuditAction::Reminded, index);
                    self.notify(NoticeEvent::ApprovalReminder, index);
                }
                Due::Escalation => {
                    self.change_request(index, |request| request.is_escalated = true);
                    self.use_newest_terms(index);
                    self.audit_by_rule(AuditAction::Escalated, index);
                    self.notify(NoticeEvent::ApprovalEscalated, index);
                }
                Due::RequesterNotice => {
                    self.change_request(index, |request| request.requester_notice_at = None);
                    self.notify_requester(index);
                }
            }
        }
    }

    fn change_request(&mut self, index: usize, change: impl FnOnce(&mut ApprovalRequest)) {
        if let Some(request) = &mut self.call_mut(index).approval_request {
            change(request);
        }
    }

    fn audit_by_rule(&mut self, action: AuditAction, index: usize) {
        let call = self.run.call(index);
        let rule = call.policy_decision.as_ref().map(|decided| decided.by);
        self.effects.commit.audit.push(AuditEvent { rule, ..AuditEvent::about(action, call) });
    }
}
