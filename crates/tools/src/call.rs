//! A tool call, from the model's request to its outcome.

use std::{sync::Arc, time::Duration};

use fermata_protocol::{ApprovalId, ElicitAction, ElicitationId, JsonText, ToolCallId};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub use answer::{Receipt, Refusal, ValidAnswer};
pub use code::NoOutput;
pub use state::{Asking, CallState, Cancelled, StateName, Transition, Wait, Work};

use crate::{
    ApprovalTerms, Decider, Decision, DecisionChannel, DecisionSource, ErrorType, Owner, Permission,
    PolicyDecision, Presentation, Principal, ResourceKey, RunBy, Vote,
};

mod answer;
mod code;
mod state;

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The call's id, which Fermata assigned.
    pub id: ToolCallId,
    /// The number of the step that made the call, counted from 1 in the run.
    pub step: u32,
    /// The tool's name, as the model gave it.
    pub tool: String,
    /// The party that runs the call; `None` if no tool has that name.
    pub run_by: Option<RunBy>,
    /// The input as the model gave it; a string if it is not valid JSON.
    pub input: JsonText,
    /// The input as a person edited it, which may be `null`.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    pub edited: Option<JsonText>,
    /// The presentation of the call by its tool.
    #[serde(skip_serializing_if = "Presentation::is_empty", default)]
    pub presentation: Presentation,
    /// The policy's decision about the call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy_decision: Option<PolicyDecision>,
    /// The approval request that was shown for the call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval_request: Option<ApprovalRequest>,
    /// The approval requests that no longer count, because the tool has changed since they were shown.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub asked_before: Vec<ApprovalId>,
    /// The fingerprint of the tool that the policy has decided about and that a person was shown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fingerprint: Option<String>,
    /// The person's decision about the call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval_decision: Option<ApprovalDecision>,
    /// The hash of the browser's answer, which tells if an answer is a repetition.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    answer_hash: Option<String>,
    /// The person's replies to questions that the call asked while it ran.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub replies: Vec<ElicitationRecord>,
    /// The resource that the call locks while it runs, set as soon as the call is queued for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resource: Option<ResourceKey>,
    /// The failure that the person is, or was, asked about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked_about: Option<AskedFailure>,
    /// True if the output says that nothing was found.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_empty: bool,
    /// The key of the call's effect, made when the call first runs. It is `None` again once a person has the call run again, which is
    /// another effect.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub idempotency_key: Option<String>,
    /// The call that failed, in whose place the run has made this one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fallback_of: Option<ToolCallId>,
    /// The failed call that a person makes again with this one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_of: Option<ToolCallId>,
    /// The new call that a person made to repeat this one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retried_as: Option<ToolCallId>,
    /// The origin of the output, if others than the user and this server have a say in it. It is set when the gate lets the call pass.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reads_from: Option<String>,
    /// The last partial output of a call that was cancelled or has failed, which may be `null`.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    pub last_report: Option<Value>,
    #[serde(flatten)]
    state: CallState,
    since: Timestamp,
    history: Vec<Transition>,
}

/// The question to people whether a call may run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The request's id on the wire.
    pub id: ApprovalId,
    /// True if the gate waits for the decision. It is false for a request that is shown only because a stock client needs one to post
    /// the message again.
    pub required: bool,
    /// The time when it was made.
    pub at: Timestamp,
    /// The time when it expires, if the gate waits for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires: Option<Timestamp>,
    /// The principal in whose name the call runs.
    pub requester: Principal,
    /// The terms that were in force last; `None` if the requester decides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub terms: Option<Arc<ApprovalTerms>>,
    /// The approvals of the current input, one for each principal.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub votes: Vec<Vote>,
    /// `true` once the reminder was sent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_reminded: bool,
    /// `true` once the approval was escalated.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_escalated: bool,
    /// The time when the requester is notified elsewhere that it waits; `None` if that is not wanted, or was done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requester_notice_at: Option<Timestamp>,
}

/// A failure whose consequence a person decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedFailure {
    /// The type of the failure.
    pub error_type: ErrorType,
    /// The description of the failure.
    pub text: String,
}

/// A person's reply to a question that a running call asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElicitationRecord {
    /// The id of the question.
    pub to: ElicitationId,
    /// The person who replied.
    pub by: Owner,
    /// The kind of reply.
    pub action: ElicitAction,
    /// The content of an accepted question's form.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub content: Option<Value>,
}

/// A person's decision about a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalDecision {
    /// The person who decided: of several who had to approve, the last one.
    pub by: Owner,
    /// The time of the decision.
    pub at: Timestamp,
    /// True if the call may run.
    pub approved: bool,
    /// The person's comment.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// True if the decision also covers later calls of the tool in this chat.
    pub always: bool,
    /// The way the decision came.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub how: Option<DecisionChannel>,
}

// === impl ApprovalDecision ===

impl ApprovalDecision {
    /// Returns the decision of a person about one call, without a comment.
    pub fn of(by: &Decider, approved: bool, at: Timestamp) -> Self {
        Self { by: by.by.user.clone(), at, approved, reason: None, always: false, how: Some(by.how) }
    }
}

// === impl ApprovalRequest ===

impl ApprovalRequest {
    /// Creates a request of this requester, under these terms.
    pub fn new(
        id: ApprovalId,
        requester: Principal,
        terms: Option<Arc<ApprovalTerms>>,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            required: true,
            at,
            expires: None,
            requester,
            terms,
            votes: Vec::new(),
            is_reminded: false,
            is_escalated: false,
            requester_notice_at: None,
        }
    }

    /// Returns the terms that were in force last.
    pub fn terms(&self) -> &ApprovalTerms {
        self.terms.as_deref().unwrap_or(ApprovalTerms::by_requester())
    }

    /// Returns whether a principal has approved the current input.
    pub fn is_approved_by(&self, principal: &Principal) -> bool {
        self.votes.iter().any(|vote| vote.by.is_same(principal))
    }

    /// Adds the approval of a principal, in place of the one that the principal has given before.
    pub fn vote(&mut self, by: &Decider, at: Timestamp) {
        self.withdraw(&by.by);
        self.votes.push(Vote { by: by.by.clone(), at, how: by.how });
    }

    /// Removes the approval of a principal.
    pub fn withdraw(&mut self, principal: &Principal) {
        self.votes.retain(|vote| !vote.by.is_same(principal));
    }
}

/// Reads a value that is there, even if it is `null`.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

// === impl Call ===

impl Call {
    /// Creates a call in the state `Validating`, without its input.
    pub fn new(id: ToolCallId, step: u32, tool: String, run_by: Option<RunBy>, at: Timestamp) -> Self {
        Self {
            id,
            step,
            tool,
            run_by,
            input: JsonText::default(),
            edited: None,
            presentation: Presentation::default(),
            policy_decision: None,
            approval_request: None,
            asked_before: Vec::new(),
            fingerprint: None,
            approval_decision: None,
            answer_hash: None,
            replies: Vec::new(),
            resource: None,
            asked_about: None,
            is_empty: false,
            idempotency_key: None,
            fallback_of: None,
            retry_of: None,
            retried_as: None,
            reads_from: None,
            last_report: None,
            state: CallState::Validating,
            since: at,
            history: vec![Transition { state: StateName::Validating, at }],
        }
    }

    /// Moves the call into a state. Only [`Call::wait_for`] changes the state besides.
    ///
    /// # Panics
    /// Panics in debug builds if the state cannot follow the current one ([`StateName::may_become`]). A release build leaves the call as
    /// it is and logs nothing.
    pub fn enter(&mut self, state: CallState, at: Timestamp) {
        let (from, to) = (self.state.name(), state.name());
        debug_assert!(from.may_become(to), "the call {} cannot come from {from} into {to}", self.id);
        if !from.may_become(to) {
            return;
        }
        self.state = state;
        self.since = at;
        self.history.push(Transition { state: to, at });
    }

    /// Notes the reason why the call waits before it runs, for the first time or again. This enters no other state.
    ///
    /// # Panics
    /// Panics in debug builds if the call is not about to run.
    pub fn wait_for(&mut self, wait: Wait) {
        match &mut self.state {
            CallState::Scheduled { waits_for } => *waits_for = wait,
            CallState::Executing { work } => *work = Work::Again(wait),
            other => debug_assert!(false, "the call {} waits for {wait:?} in {other:?}", self.id),
        }
    }

    /// Notes that the run asks the user about the failure of the call, which counts as running meanwhile.
    pub fn ask_about(&mut self, failure: AskedFailure, expires: Timestamp) {
        self.asked_about = Some(failure);
        if let CallState::Executing { work } = &mut self.state {
            *work = Work::Asking { about: Asking::Failure, expires };
        }
    }

    /// Returns the current state.
    pub fn state(&self) -> &CallState {
        &self.state
    }

    /// Returns the type of the failure, if the call has failed, has found nothing, or was denied or cancelled.
    pub fn error_type(&self) -> Option<ErrorType> {
        self.failure().or(self.state.error_type())
    }

    /// Returns the type of the failure, if the call has failed or has found nothing.
    pub fn failure(&self) -> Option<ErrorType> {
        match &self.state {
            CallState::Error { error_type, .. } => Some(*error_type),
            CallState::Success { .. } if self.is_empty => Some(ErrorType::EmptyResult),
            CallState::Validating
            | CallState::AwaitingApproval { .. }
            | CallState::Scheduled { .. }
            | CallState::Executing { .. }
            | CallState::Success { .. }
            | CallState::Cancelled { .. } => None,
        }
    }

    /// Returns the time when the call entered its current state.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Returns every state that the call has entered, in order.
    pub fn history(&self) -> &[Transition] {
        &self.history
    }

    /// Returns the number of times that the call has started to run.
    pub fn times_run(&self) -> usize {
        self.history.iter().filter(|transition| transition.state == StateName::Executing).count()
    }

    /// Returns the time that the call spent running, or parked for the browser, over all attempts that are over; `None` if no attempt
    /// is over. The time that it waited for a person or for the gate does not count.
    pub fn ran_for(&self) -> Option<Duration> {
        let mut total = None;
        for (entered, left) in self.history.iter().zip(self.history.iter().skip(1)) {
            if entered.state == StateName::Executing {
                // The duration is negative if the clock was set back meanwhile.
                let attempt = Duration::try_from(left.at.duration_since(entered.at)).unwrap_or_default();
                total = Some(total.unwrap_or_default() + attempt);
            }
        }
        total
    }

    /// Returns whether this process or an MCP server runs the call.
    pub fn runs_on_server(&self) -> bool {
        matches!(self.run_by, Some(RunBy::Server | RunBy::Mcp))
    }

    /// Returns the reason that the policy gives for asking a person; `None` if it did not ask or gives no reason.
    pub fn approval_reason(&self) -> Option<String> {
        self.asking().and_then(|policy_decision| policy_decision.text(&self.tool))
    }

    /// Returns the input that the tool and the model get: the edited one if a person edited it.
    pub fn effective_input(&self) -> &JsonText {
        self.edited.as_ref().unwrap_or(&self.input)
    }

    /// Returns how the call was let through.
    pub fn permission(&self) -> Permission {
        let by = self.policy_decision.as_ref().map(|policy_decision| policy_decision.by);
        match &self.approval_decision {
            _ if self.edited.is_some() => Permission::Edited,
            Some(_) => Permission::Person,
            None if by == Some(DecisionSource::Always) => Permission::Always,
            None => Permission::Rule,
        }
    }

    /// Returns whether a person was, or was to be, asked to approve the call.
    pub fn was_asked_about(&self) -> bool {
        let by = self.policy_decision.as_ref().map(|policy_decision| policy_decision.decision);
        self.approval_request.is_some() || by == Some(Decision::Ask)
    }

    /// Returns whether a question that the run itself asks about the call waits for a person's reply.
    pub fn awaits_reply(&self) -> bool {
        matches!(self.state, CallState::Executing { work: Work::Asking { .. } })
    }

    /// Returns whether the call waits for a person or for the browser.
    pub fn awaits_answer(&self) -> bool {
        self.awaits_approval() || self.is_parked()
    }

    /// Returns whether the gate waits for a decision about the call.
    pub fn awaits_approval(&self) -> bool {
        matches!(self.state, CallState::AwaitingApproval { .. })
    }

    /// Returns whether the call waits for the browser's output.
    pub fn is_parked(&self) -> bool {
        matches!(self.state, CallState::Executing { work: Work::Browser { .. } })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Approver, Pattern};

    fn scheduled() -> CallState {
        CallState::scheduled(Wait::Gate)
    }

    fn executing() -> CallState {
        CallState::Executing { work: Work::Server }
    }

    #[test]
    fn a_call_keeps_every_state_it_came_into_and_a_final_one_for_ever() {
        let mut call =
            Call::new(ToolCallId::new("c"), 1, "t".into(), Some(RunBy::Server), Timestamp::UNIX_EPOCH);
        for (second, state) in
            [scheduled(), executing(), CallState::Success { output: json!(1) }].into_iter().enumerate()
        {
            call.enter(state, Timestamp::from_second(second as i64).unwrap());
        }
        let names: Vec<_> = call.history().iter().map(|entered| entered.state.as_str()).collect();
        assert_eq!(names, ["validating", "scheduled", "executing", "success"]);
        assert_eq!(call.since(), Timestamp::from_second(2).unwrap());
        let late = std::panic::catch_unwind(move || call.enter(executing(), Timestamp::UNIX_EPOCH));
        assert!(late.is_err() || !cfg!(debug_assertions));
    }

    #[test]
    fn the_names_in_a_saved_call_stay() {
        let at = Timestamp::UNIX_EPOCH;
        let decided = ApprovalDecision {
            by: Owner::new("bob"),
            at,
            approved: true,
            reason: Some("fine".into()),
            always: true,
            how: Some(DecisionChannel::Words),
        };
        let bob = Principal { groups: vec!["finance".into()], ..Owner::new("bob").into() };
        let by = Decider { by: bob, how: DecisionChannel::Words, address: None, shown_hash: None };
        let terms = ApprovalTerms {
            by: vec![Approver::Requester, Approver::Group(Pattern::new("finance"))],
            quorum: 2,
            expire: Some(Duration::from_secs(1)),
            ..ApprovalTerms::default()
        };
        let requester = Owner::new("ann").into();
        let mut request = ApprovalRequest::new(ApprovalId::new("q"), requester, Some(Arc::new(terms)), at);
        request.vote(&by, at);
        let reply = ElicitationRecord {
            to: ElicitationId::new("e"),
            by: Owner::new("bob"),
            action: ElicitAction::Accept,
            content: Some(json!({"size": 1})),
        };
        let mut call = Call {
            input: json!({"a": 1}).into(),
            edited: Some(json!({"a": 2}).into()),
            policy_decision: Some(PolicyDecision {
                reason: Some("careful".into()),
                ..PolicyDecision::new(Decision::Ask, DecisionSource::Rule(3))
            }),
            approval_request: Some(request),
            approval_decision: Some(decided),
            answer_hash: Some("abc".into()),
            replies: vec![reply],
            resource: crate::Resource::named("files").key(&json!({}), &Owner::anyone()),
            idempotency_key: Some("k".into()),
            ..Call::new(ToolCallId::new("c"), 1, "t".into(), Some(RunBy::Server), at)
        };
        call.enter(scheduled(), at);
        let saved = json!({
            "id": "c",
            "step": 1,
            "tool": "t",
            "run_by": "server",
            "input": {"a": 1},
            "edited": {"a": 2},
            "policy_decision": {"decision": "ask", "reason": "careful", "by": {"rule": 3}},
            "approval_request": {
                "id": "q",
                "required": true,
                "at": "1970-01-01T00:00:00Z",
                "requester": {"user": "ann"},
                "terms": {"by": ["requester", "group:finance"], "quorum": 2, "expire": {"secs": 1, "nanos": 0}},
                "votes": [{"user": "bob", "groups": ["finance"], "at": "1970-01-01T00:00:00Z", "how": "words"}],
            },
            "approval_decision": {"by": "bob", "at": "1970-01-01T00:00:00Z", "approved": true, "reason": "fine", "always": true, "how": "words"},
            "answer_hash": "abc",
            "replies": [{"to": "e", "by": "bob", "action": "accept", "content": {"size": 1}}],
            "resource": {"name": "files"},
            "idempotency_key": "k",
            "state": "scheduled",
            "waits_for": "gate",
            "since": "1970-01-01T00:00:00Z",
            "history": [
                {"state": "validating", "at": "1970-01-01T00:00:00Z"},
                {"state": "scheduled", "at": "1970-01-01T00:00:00Z"},
            ],
        });
        assert_eq!(json!(call), saved);
        assert_eq!(serde_json::from_value::<Call>(saved).unwrap(), call);
    }

    #[test]
    fn only_the_time_that_a_call_ran_counts_and_all_of_it() {
        let ran_for = |states: &[(StateName, i64)]| {
            let mut call = Call::new(ToolCallId::new("c"), 1, "t".into(), None, Timestamp::UNIX_EPOCH);
            let entered = |(state, at): &(StateName, i64)| Transition {
                state: *state,
                at: Timestamp::from_millisecond(*at).unwrap(),
            };
            call.history = states.iter().map(entered).collect();
            call.ran_for().map(|ran| ran.as_millis())
        };
        let asked =
            [(StateName::Validating, 0), (StateName::AwaitingApproval, 5), (StateName::Scheduled, 100)];
        assert_eq!(ran_for(&asked), None);
        let ran = [&asked[..], &[(StateName::Executing, 130), (StateName::Success, 172)]].concat();
        assert_eq!(ran_for(&ran), Some(42));
        let again = [(StateName::Executing, 10), (StateName::Executing, 20), (StateName::Error, 22)];
        assert_eq!(ran_for(&again), Some(12));
        assert_eq!(ran_for(&[(StateName::Scheduled, 1), (StateName::Executing, 1)]), None, "it still runs");
        assert_eq!(
            ran_for(&[(StateName::Executing, 9), (StateName::Error, 4)]),
            Some(0),
            "a clock was set back"
        );
    }
}
