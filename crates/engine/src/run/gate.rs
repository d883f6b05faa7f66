//! The gate: no call of a step runs, on the server or in the browser, until every call of the step is decided. A progressive gate
//! lets each call run as soon as it is decided itself; the model waits for all of them either way.
//!
//! A browser runs a call as soon as it reads `tool-input-available`, so for a browser's call that chunk is the permission and is
//! withheld until the call may run.

use std::time::Duration;

use fermata_protocol::{ApprovalId, ToolCallId, UiChunk};
use fermata_tools::{
    ApprovalMode, ApprovalRequest, ApprovalTerms, AuditEvent, Call, CallState, Cancelled, ChainMode,
    Decision, DecisionSource, ErrorType, GateMode, Grant, PolicyDecision, Principal, ToolError, ToolRef,
    Vote, Wait,
};
use serde_json::{Value, json};

use super::{
    Activity, Context, Deciding, LiveCall, Phase, Run,
    call_status::ShownCall,
    later,
    streaming::MadeCall,
    votes::{Overruled, decision_of, has_lapsed, is_approved, may_decide_now, terms_in_force},
};
use crate::{run_tools, step::collector::InvalidArguments};

/// The largest schema of a tool that comes with an approval request, in bytes. `GET /api/tools` has longer ones.
const LONGEST_SHOWN_SCHEMA: usize = 16_000;

/// The text that is added to the reason of a denial if the call has run before.
const RAN_BEFORE: &str = "The call had begun to run before that, and may have had its effect.";

impl Run {
    /// Returns the decision about a call: first the policy and the tool itself count, then what the run's tools have returned, then what a person has allowed
    /// for always. Nothing overrides a denial. A grant does not answer a question because of `chain`, nor one that a rule asks, unless the
    /// rule says otherwise.
    pub(super) fn policy_decision(
        &self,
        call: &Call,
        input: &Value,
        tool: ToolRef<'_>,
        context: &Context<'_>,
    ) -> PolicyDecision {
        let policy = &context.rules.policy;
        let policy_decision = tool.decide(&**policy, &context.requester, input);
        let is_asked_by_rule = policy_decision.decision == Decision::Ask && !policy_decision.honors_grants();
        if policy_decision.decision == Decision::Deny {
            return policy_decision;
        }
        if self.may_repeat_effect(call, tool.spec()) {
            return PolicyDecision { decision: Decision::Ask, by: DecisionSource::Retry, ..policy_decision };
        }
        if is_asked_by_rule {
            return policy_decision;
        }
        if let Some(asks) = self.memory_write_asks(call, context) {
            return asks;
        }
        if self.chain_asks(call, context) {
            return PolicyDecision::new(Decision::Ask, DecisionSource::Chain);
        }
        if policy_decision.decision == Decision::Ask && context.grants.cover(tool, input, context.now) {
            return PolicyDecision::new(Decision::Allow, DecisionSource::Always);
        }
        policy_decision
    }

    /// Returns the decision about a call that runs, if it had another input. Neither the call nor the record changes.
    pub fn decision_about(&self, call: &ToolCallId, input: &Value, context: &Context<'_>) -> Decision {
        let Some(index) = self.index_of(call) else { return Decision::Deny };
        let call = self.call(index);
        let Some(tool) = context.toolbox.find(&call.tool) else { return Decision::Deny };
        if newest_denial(call, input, context).is_some() {
            return Decision::Deny;
        }
        self.policy_decision(call, input, tool, context).decision
    }

    /// Returns whether a grant decides a call that waits for a person.
    pub(super) fn is_answered_by(&self, grant: &Grant, call: &Call, context: &Context<'_>) -> bool {
        let by = call.policy_decision.as_ref().map(|policy_decision| policy_decision.by);
        let is_for_this_call_alone = matches!(
            by,
            Some(
                DecisionSource::Chain
                    | DecisionSource::MemoryWrites
                    | DecisionSource::MemorySlot
                    | DecisionSource::Retry
            )
        );
        if !call.awaits_approval() || is_for_this_call_alone {
            return false;
        }
        let Some(found) = context.toolbox.find(&call.tool) else { return false };
        if call.fingerprint.as_deref() != Some(found.fingerprint()) {
            return false;
        }
        let policy = &context.rules.policy;
        let input = call.effective_input().value();
        let policy_decision = found.decide(&**policy, &context.requester, &input);
        policy_decision.decision == Decision::Ask
            && policy_decision.honors_grants()
            && grant.covers(found, &input, context.now)
    }

    /// Returns the reason why a call must not run with this input, although it waits for its approval or was allowed or approved. This holds
    /// when a person approves it and until it starts.
    pub(super) fn overruled(&self, call: &Call, input: &Value, context: &Context<'_>) -> Option<Overruled> {
        if let Some(denial) = newest_denial(call, input, context) {
            return Some(Overruled::Denied(denial));
        }
        let is_approved_by_people = call.approval_decision.as_ref().is_some_and(|decided| decided.approved);
        if is_approved_by_people && has_lapsed(call, context.now) {
            return Some(Overruled::Lapsed);
        }
        if is_approved_by_people && !is_approved(call, context) {
            return Some(Overruled::NotApproved);
        }
        let found = context.toolbox.find(&call.tool)?;
        if call.fingerprint.as_deref() == Some(found.fingerprint()) {
            return None;
        }
        if call.approval_decision.is_none() && !call.awaits_approval() {
            // Nobody was shown the tool, so it is enough that it would be allowed as it is now.
            let policy_decision = self.policy_decision(call, input, found, context);
            match policy_decision.decision {
                Decision::Allow => return None,
                Decision::Deny => return Some(Overruled::Denied(policy_decision)),
                Decision::Ask => {}
            }
        }
        Some(Overruled::ToolChanged)
    }

    /// Returns whether `chain` requires an approval, because the call is not the first one of the turn that runs or may run.
    fn chain_asks(&self, call: &Call, context: &Context<'_>) -> bool {
        context.rules.chain == ChainMode::Ask
            && context.rules.policy.approval() == ApprovalMode::Default
            && chains(call, &self.calls, context)
    }

    /// Returns whether `chain` lets a call of the step run instead of this one.
    fn is_another_first(&self, call: &Call, context: &Context<'_>) -> bool {
        context.rules.chain == ChainMode::One && chains(call, self.step_calls(), context)
    }

    /// Returns whether no further call of the chat may wait for an answer.
    pub(super) fn is_full(&self, context: &Context<'_>) -> bool {
        self.pending().count() >= context.limits.parked_calls
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Decides about every call of the step that the model has just completed: each may run, is denied, or needs an approval.
    pub(super) fn decide_step(&mut self, made: Vec<MadeCall>) {
        self.run.state.phase = match self.context.rules.gate {
            GateMode::Step => Phase::Deciding,
            GateMode::Progressive => Phase::Working,
        };
        for call in made {
            self.accept_call(call);
        }
        let invalid = Some(ErrorType::InvalidFormat);
        let mut step = self.run.step_indexes();
        if let Some(index) = step.find(|&index| self.run.call(index).state().error_type() == invalid) {
            self.end_run_if_fatal(index, ErrorType::InvalidFormat);
            if self.run.state.phase == Phase::Over {
                return;
            }
        }
        for index in self.run.step_indexes() {
            // What does not run is shown at once and without an approval request.
            if let CallState::Cancelled { cancelled } = self.run.call(index).state().clone() {
                match cancelled {
                    Cancelled::Denied { reason } => self.show_denial(index, reason),
                    other => self.show_error(index, other.text()),
                }
            }
        }
        for index in self.run.step_indexes() {
            if self.run.call(index).awaits_approval() {
                self.request_approval(index, true);
            }
        }
    }

    /// Applies the policy to a call as the model made it.
    fn accept_call(&mut self, MadeCall { index, is_bare, input }: MadeCall) {
        if is_bare {
            // An approval request shows the input, which clients read from the deltas.
            let tool_call_id = self.run.call(index).id.clone();
            self.publish(UiChunk::ToolInputDelta { tool_call_id, input_text_delta: "{}".into() });
        }
        match input {
            Err(InvalidArguments { received, error_text }) => {
                self.call_mut(index).input = received;
                self.fail_input(index, error_text);
            }
            Ok(input) => {
                let value = input.value();
                self.call_mut(index).input = input;
                let call = self.run.call(index);
                if let Err(error_text) = self.run.check_own_tool(call, &value, self.context.toolbox) {
                    return self.fail_input(index, error_text);
                }
                if let Some(found) = self.context.toolbox.find(&call.tool) {
                    let presentation = found.presentation(&value);
                    let call = self.call_mut(index);
                    call.presentation = presentation;
                    call.fingerprint = Some(found.fingerprint().to_owned());
                }
                let required = self.run.required_tool(self.context.limits);
                let call = self.run.call(index);
                let is_required = required.is_none_or(|required| required == call.tool);
                let mut refused_by_tool = None;
                let state = if !is_required && !self.run.is_made_by_run(call) {
                    CallState::Cancelled { cancelled: Cancelled::NotChosen }
                } else if self.run.is_another_first(call, self.context) {
                    CallState::Cancelled { cancelled: Cancelled::NotFirst }
                } else {
                    let state = self.apply_policy(index, &value);
                    refused_by_tool = self.refusal_by_tool(index);
                    state
                };
                let asks = matches!(state, CallState::AwaitingApproval { .. });
                let is_full = asks && self.run.is_full(self.context);
                if self.run.call(index).runs_on_server() {
                    self.show_input(index);
                }
                if is_full {
                    return self.fail(index, too_many_wait(self.context));
                }
                let dead = self.run.failure_of_dead_tool(self.run.call(index), self.context.toolbox);
                if let Some(error) = dead.or(refused_by_tool) {
                    return self.fail(index, error);
                }
                self.change(index, state);
            }
        }
    }

    /// Applies the policy to a valid call, and returns the state that the call enters.
    fn apply_policy(&mut self, index: usize, input: &Value) -> CallState {
        let call = self.run.call(index);
        let Some(found) = self.context.toolbox.find(&call.tool) else {
            return CallState::scheduled(Wait::Gate);
        };
        let policy_decision = self.run.policy_decision(call, input, found, self.context);
        let state = match policy_decision.decision {
            Decision::Deny => CallState::Cancelled {
                cancelled: Cancelled::Denied { reason: policy_decision.reason.clone() },
            },
            Decision::Ask => {
                let expire = policy_decision.terms().expire.unwrap_or(self.context.expire);
                CallState::AwaitingApproval { expires: later(self.context.now, expire) }
            }
            Decision::Allow => CallState::scheduled(Wait::Gate),
        };
        self.effects.commit.audit.push(AuditEvent::by_policy(call, call.effective_input(), &policy_decision));
        self.call_mut(index).policy_decision = Some(policy_decision);
        state
    }

    /// Returns the failure of a call whose tool itself has refused the input. Neither a person nor a rule has denied it.
    fn refusal_by_tool(&self, index: usize) -> Option<ToolError> {
        let PolicyDecision { decision, reason, by, .. } = self.run.call(index).policy_decision.as_ref()?;
        if (*decision, *by) != (Decision::Deny, DecisionSource::Tool) {
            return None;
        }
        Some(ToolError::new(ErrorType::Denied, reason.clone().unwrap_or_default()))
    }

    /// Keeps a call that is about to run from it, if the newest rules deny it or its tool has changed. Returns whether that is so.
    pub(super) fn keep_overruled(&mut self, index: usize) -> bool {
        let call = self.run.call(index);
        match self.run.overruled(call, &call.effective_input().value(), self.context) {
            Some(overruled) => self.overrule(index, overruled),
            None => return false,
        }
        true
    }

    /// Settles a call that is denied by now, or asks about it again.
    pub(super) fn overrule(&mut self, index: usize, overruled: Overruled) {
        match overruled {
            Overruled::Denied(policy_decision) => self.settle_as_denied(index, policy_decision),
            Overruled::ToolChanged => self.ask_again_about_changed_tool(index),
            Overruled::Lapsed => self.ask_again(index, Vec::new()),
            Overruled::NotApproved => {
                let votes =
                    self.run.call(index).approval_request.as_ref().map(|request| request.votes.clone());
                self.ask_again(index, votes.unwrap_or_default());
            }
        }
    }

    /// Asks again about those calls of a closed gate that may not run any more as they were decided.
    pub(super) fn ask_again_about_overruled(&mut self) {
        for index in self.run.step_indexes() {
            let call = self.run.call(index);
            if !matches!(call.state(), CallState::Scheduled { .. }) {
                continue;
            }
            match self.run.overruled(call, &call.effective_input().value(), self.context) {
                // A denial counts when the call starts.
                None | Some(Overruled::Denied(_)) => {}
                Some(overruled) => self.overrule(index, overruled),
            }
        }
    }

    /// Asks about a call again whose approval does not count any more, and keeps these votes. The call fails if nobody reads its message any
    /// more.
    fn ask_again(&mut self, index: usize, votes: Vec<Vote>) {
        let call = self.run.call(index);
        if self.run.is_in_earlier_message() || call.times_run() > 0 {
            let text = "The approval of the call does not count any more.";
            return self.fail(index, ToolError::new(ErrorType::Denied, text));
        }
        if self.run.is_full(self.context) {
            return self.fail(index, too_many_wait(self.context));
        }
        self.request_another_approval(index);
        if let Some(request) = &mut self.call_mut(index).approval_request {
            request.votes = votes;
        }
    }

    /// Asks about a call whose tool has changed since the decision about it. The call fails if it has run before, if another party would run
    /// it, or if nobody reads its message any more.
    fn ask_again_about_changed_tool(&mut self, index: usize) {
        let call = self.run.call(index);
        let Some(found) = self.context.toolbox.find(&call.tool) else { return };
        let tool = call.tool.clone();
        let is_same_party = call.run_by == Some(found.spec().run_by);
        if call.times_run() > 0 || !is_same_party || self.run.is_in_earlier_message() {
            let before = if call.times_run() > 0 { RAN_BEFORE } else { "It did not run." };
            let text = format!("The tool {tool} has changed since the call was allowed. {before}");
            return self.fail(index, ToolError::internal(text));
        }
        if !call.awaits_approval() && self.run.is_full(self.context) {
            return self.fail(index, too_many_wait(self.context));
        }
        let policy_decision = PolicyDecision {
            terms: call.policy_decision.as_ref().and_then(|decision| decision.terms.clone()),
            ..PolicyDecision::new(Decision::Ask, DecisionSource::ToolChanged)
        };
        let presentation = found.presentation(&call.input.value());
        self.effects.commit.audit.push(AuditEvent::by_policy(call, &call.input, &policy_decision));
        let call = self.call_mut(index);
        call.edited_until = None;
        call.fingerprint = Some(found.fingerprint().to_owned());
        call.presentation = presentation;
        call.policy_decision = Some(policy_decision);
        // An edit was made for the tool as it was.
        call.edited = None;
        self.request_another_approval(index);
    }

    /// Requests the approval of a call in place of the one before it.
    fn request_another_approval(&mut self, index: usize) {
        let call = self.call_mut(index);
        let asked = call.approval_request.take().map(|request| request.id);
        call.asked_before.extend(asked);
        call.approval_decision = None;
        call.resource = None;
        let state = self.awaiting(index);
        self.change(index, state);
        if self.run.call(index).runs_on_server() {
            self.show_input(index);
        }
        self.request_approval(index, true);
    }

    /// Returns the state of a call that waits for the approval that its rule asks for.
    fn awaiting(&self, index: usize) -> CallState {
        let terms = self.run.call(index).policy_decision.as_ref().map(PolicyDecision::terms);
        let expire = terms.and_then(|terms| terms.expire).unwrap_or(self.context.expire);
        CallState::AwaitingApproval { expires: later(self.context.now, expire) }
    }

    /// Settles a call that a rule denies by now, although the step's own rules allowed it or required an approval.
    pub(super) fn settle_as_denied(&mut self, index: usize, policy_decision: PolicyDecision) {
        let call = self.run.call(index);
        if call.accepts_decision()
            && let Some(request) = &call.approval_request
        {
            self.show_response(request.id.clone(), false, policy_decision.reason.clone());
        }
        let mut reason = policy_decision.reason.clone();
        if self.run.call(index).times_run() > 0 {
            let text = reason.unwrap_or_else(|| "A rule denies it by now.".into());
            reason = Some(format!("{text} {RAN_BEFORE}"));
        }
        let call = self.run.call(index);
        self.effects.commit.audit.push(AuditEvent::by_policy(call, call.effective_input(), &policy_decision));
        self.call_mut(index).policy_decision = Some(policy_decision);
        let cancelled = Cancelled::Denied { reason: reason.clone() };
        self.change(index, CallState::Cancelled { cancelled });
        self.show_denial(index, reason);
    }

    /// Requests a person's approval of a call.
    pub(super) fn request_approval(&mut self, index: usize, required: bool) {
        let id = ApprovalId::new(self.context.ids.next("appr_"));
        let requester = Principal::clone(&self.context.requester);
        let terms = self.run.call(index).policy_decision.as_ref().and_then(|decision| decision.terms.clone());
        // Each has a time of its own, so that lists keep the order of the calls.
        let asked = self.run.step_calls().iter().filter_map(|call| call.approval_request.as_ref());
        let next = asked.map(|request| later(request.at, Duration::from_micros(1))).max();
        let at = next.map_or(self.context.now, |next| next.max(self.context.now));
        let expires = self.run.call(index).state().expires();
        let request = ApprovalRequest::new(id.clone(), requester, terms, at);
        self.call_mut(index).approval_request = Some(ApprovalRequest { required, expires, ..request });
        self.use_newest_terms(index);
        self.plan_requester_notice(index);
        let call = self.run.call(index);
        let mut descriptor = json!(ShownCall::of(call));
        descriptor["mayDecide"] = json!(may_decide_now(&self.context.requester, call, self.context));
        // A page can draw a form from it, so that a person can edit the input.
        if let Some(found) = self.context.toolbox.find(&call.tool)
            && found.spec().input_schema.text().len() <= LONGEST_SHOWN_SCHEMA
        {
            descriptor["inputSchema"] = Value::clone(&found.spec().input_schema);
        }
        let chunk = UiChunk::ToolApprovalRequest {
            approval_id: id,
            tool_call_id: call.id.clone(),
            tool_name: call.tool.clone(),
            approval_descriptor: Some(descriptor),
            input_schema_input: None,
            reason: call.approval_reason(),
            is_automatic: None,
            signature: None,
        };
        self.publish(chunk);
    }

    pub(super) fn open_gate(&mut self) {
        self.run.state.phase = Phase::Working;
        // The hold begins again for the calls behind the gate.
        self.run.state.activity = Activity::Working;
        for index in self.run.step_indexes() {
            self.show_denial_by_person(index);
        }
        self.start_decided();
    }

    pub(super) fn start_decided(&mut self) {
        for index in self.run.step_indexes() {
            if matches!(self.run.call(index).state(), CallState::Scheduled { waits_for: Wait::Gate }) {
                self.start(index);
            }
        }
    }
}

/// Returns whether the newest rules let a message such as "yes" decide about a call.
pub(super) fn takes_words(call: &Call, context: &Context<'_>) -> bool {
    let Some(run_by) = call.run_by else { return false };
    let terms = terms_in_force(call, context);
    terms.as_deref().unwrap_or(ApprovalTerms::by_requester()).take_words(run_by)
}

/// Returns the decision of the newest rules about a call with this input, if it is a denial. Nothing else counts, because the step's own
/// rules have decided whether a person is asked.
fn newest_denial(call: &Call, input: &Value, context: &Context<'_>) -> Option<PolicyDecision> {
    let policy_decision = newest_decision(call, input, context)?;
    if policy_decision.decision == Decision::Deny { Some(policy_decision) } else { None }
}

/// Returns the decision of the newest rules about a call with this input.
fn newest_decision(call: &Call, input: &Value, context: &Context<'_>) -> Option<PolicyDecision> {
    decision_of(&*context.newest, context.toolbox, &context.requester, call, input)
}

/// Returns whether one of these calls has run or may run before this one. Calls of the run's own tools do not count.
fn chains(call: &Call, among: &[LiveCall], context: &Context<'_>) -> bool {
    let counts = |call: &Call| run_tools::of_call(call, context.toolbox).is_none();
    let mut before = among.iter().take_while(|other| other.id != call.id);
    counts(call) && before.any(|other| counts(other) && has_run_or_may(other))
}

/// Returns whether the call has run, runs, or may still run.
fn has_run_or_may(call: &Call) -> bool {
    match call.state() {
        CallState::Success { .. }
        | CallState::AwaitingApproval { .. }
        | CallState::Scheduled { .. }
        | CallState::Executing { .. } => true,
        CallState::Error { .. } | CallState::Cancelled { .. } => call.times_run() > 0,
        CallState::Validating => false,
    }
}

pub(super) fn too_many_wait(context: &Context<'_>) -> ToolError {
    let limit = context.limits.parked_calls;
    let text = format!("Too many calls of this chat wait for somebody: the limit is {limit}.");
    ToolError::new(ErrorType::RateLimit, text)
}

pub(super) fn expiry(context: &Context<'_>) -> jiff::Timestamp {
    later(context.now, context.expire)
}
