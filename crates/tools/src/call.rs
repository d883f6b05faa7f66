//! One tool call from the model's wish to its outcome, and what an answer to it means.

use std::{fmt, time::Duration};

use fermata_protocol::{AnswerKind, ApprovalId, ElicitAction, ElicitationId, ToolCallId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use state::{CallState, Cancelled, StateName, Transition};

use crate::{Decision, PolicyDecision, ResourceKey};

mod state;

/// To whom a chat, its runs and its notes belong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Owner(Box<str>);

/// Who runs a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunBy {
    /// This process.
    Server,
    /// An MCP server.
    Mcp,
    /// The page that posted the tool.
    Browser,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Fermata's own id for it.
    pub id: ToolCallId,
    /// Which step of the run made it, counted from 1.
    pub step: u32,
    /// The tool that the model named.
    pub tool: String,
    /// Who runs it; `None` where no tool of that name exists.
    pub run_by: Option<RunBy>,
    /// The input as the model gave it; a string where it is no JSON.
    pub input: Value,
    /// The input as a person edited it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub edited: Option<Value>,
    /// What the policy said about it.
    #[serde(rename = "ruling", skip_serializing_if = "Option::is_none", default)]
    pub policy_decision: Option<PolicyDecision>,
    /// What was asked about it.
    #[serde(rename = "question", skip_serializing_if = "Option::is_none", default)]
    pub approval_request: Option<ApprovalRequest>,
    /// What was decided about it.
    #[serde(rename = "decided", skip_serializing_if = "Option::is_none", default)]
    pub approval_decision: Option<ApprovalDecision>,
    /// What the browser answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<AnswerKind>,
    /// Whether the gate has let it pass: nobody is asked about it any more.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub has_passed: bool,
    /// What the person said to questions of the call's own.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub replies: Vec<ElicitationRecord>,
    /// The lock that it holds while it runs, known from when it stands in line for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resource: Option<ResourceKey>,
    /// When it is settled as expired, while it waits for somebody.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires: Option<Timestamp>,
    #[serde(flatten)]
    state: CallState,
    since: Timestamp,
    #[serde(default)]
    history: Vec<Transition>,
}

/// A question put to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Its id on the wire.
    pub id: ApprovalId,
    /// Whether the gate waits for it. A question put only so that a stock client can post again is not needed.
    pub required: bool,
}

/// What a person said to a question that a running call had asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElicitationRecord {
    /// To which.
    pub to: ElicitationId,
    /// Who said it.
    pub by: Owner,
    /// Whether.
    pub action: ElicitAction,
    /// With what.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub content: Option<Value>,
}

/// A person's decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalDecision {
    /// Who decided.
    #[serde(default = "Owner::anyone")]
    pub by: Owner,
    /// Whether it may run.
    pub approved: bool,
    /// What the person said about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Whether it covers later calls of the tool in this chat.
    #[serde(default)]
    pub always: bool,
}

/// What becomes of an answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum ValidAnswer {
    /// The call has not been given this answer before.
    New,
    /// The call was given this very answer before, so there is nothing left to do.
    Repeated,
}

/// Why an answer is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another answer was taken before.
    AlreadyAnswered,
    /// The call waits for something else, or for nobody.
    WrongAnswer,
    /// The call expired or was cancelled.
    Gone,
}

/// What the giver of an answer is told about one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Which call.
    pub tool_call_id: ToolCallId,
    /// How far it is.
    pub state: StateName,
    /// Calls of the step that still wait for a person.
    pub waiting_for: Vec<ToolCallId>,
}

// === impl RunBy ===

impl RunBy {
    /// The name in rules, on the wire and in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Mcp => "mcp",
            Self::Browser => "browser",
        }
    }
}

// === impl Owner ===

impl Owner {
    /// An owner by name.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(name.into())
    }

    /// The one owner of a server that asks nobody who they are.
    pub fn anyone() -> Self {
        Self::new("anyone")
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Call ===

impl Call {
    /// A call that the model has begun to make.
    pub fn new(id: ToolCallId, step: u32, tool: String, run_by: Option<RunBy>, at: Timestamp) -> Self {
        Self {
            id,
            step,
            tool,
            run_by,
            input: Value::Null,
            edited: None,
            policy_decision: None,
            approval_request: None,
            approval_decision: None,
            answer: None,
            has_passed: false,
            replies: Vec::new(),
            resource: None,
            expires: None,
            state: CallState::Validating,
            since: at,
            history: vec![Transition { state: StateName::Validating, at }],
        }
    }

    /// Brings the call into a state: the one place that does. Whatever deadline the call had is over.
    ///
    /// # Panics
    /// In debug builds, where the state cannot follow ([`StateName::may_become`]); a release build logs nothing and leaves the call as
    /// it is.
    pub fn enter(&mut self, state: CallState, at: Timestamp) {
        let (from, to) = (self.state.name(), state.name());
        debug_assert!(from.may_become(to), "the call {} cannot come from {from} into {to}", self.id);
        if !from.may_become(to) {
            return;
        }
        self.state = state;
        self.since = at;
        self.expires = None;
        self.history.push(Transition { state: to, at });
    }

    /// How far it is.
    pub fn state(&self) -> &CallState {
        &self.state
    }

    /// When it came into its state.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// The states it has come into, in order.
    pub fn history(&self) -> &[Transition] {
        &self.history
    }

    /// How often it has begun to run.
    pub fn times_run(&self) -> usize {
        self.history.iter().filter(|entered| entered.state == StateName::Executing).count()
    }

    /// How long it ran, or was parked for the browser, as far as that is over; `None` where it never began. What a person or the gate
    /// took does not count.
    pub fn ran_for(&self) -> Option<Duration> {
        let stays = self.history.iter().zip(self.history.iter().skip(1));
        stays
            .filter(|(entered, _)| entered.state == StateName::Executing)
            // A clock may be set back; nothing lasts less than no time.
            .map(|(entered, left)| left.at.duration_since(entered.at).try_into().unwrap_or_default())
            .reduce(|sum: Duration, stay| sum + stay)
    }

    /// Whether it may run as soon as it is its turn to use its resource.
    pub fn is_queued(&self) -> bool {
        self.state == CallState::Scheduled && self.resource.is_some()
    }

    /// Whether this process or an MCP server runs it.
    pub fn runs_on_server(&self) -> bool {
        matches!(self.run_by, Some(RunBy::Server | RunBy::Mcp))
    }

    /// Why a person is asked about it, in the words of the rule that asks, if it has any.
    pub fn approval_reason(&self) -> Option<&str> {
        let policy_decision = self
            .policy_decision
            .as_ref()
            .filter(|policy_decision| policy_decision.decision == Decision::Ask)?;
        policy_decision.reason.as_deref()
    }

    /// The input that runs and that the model is told: the edited one, where a person edited it.
    pub fn effective_input(&self) -> &Value {
        self.edited.as_ref().unwrap_or(&self.input)
    }

    /// Whether the call waits for a person or for the browser.
    pub fn awaits_answer(&self) -> bool {
        self.awaits_approval() || self.is_parked()
    }

    /// Whether the gate waits for a decision about this call.
    pub fn awaits_approval(&self) -> bool {
        self.state == CallState::AwaitingApproval
    }

    /// Whether the call waits for the browser's output.
    pub fn is_parked(&self) -> bool {
        self.state == CallState::Executing && self.run_by == Some(RunBy::Browser)
    }

    /// Whether a decision about the call would be taken, needed or not.
    pub fn accepts_decision(&self) -> bool {
        let open = self.awaits_approval()
            || (self.state == CallState::Scheduled && !self.has_passed && !self.is_queued());
        open && self.approval_request.is_some() && self.approval_decision.is_none()
    }

    /// Whether an answer of some kind would be taken.
    pub fn accepts_answer(&self) -> bool {
        self.accepts_decision() || self.is_parked()
    }

    /// What an answer of this kind means for the call as it stands. Takes nothing: the same question gets the same verdict
    /// until the caller records the answer.
    ///
    /// # Errors
    /// Why it cannot be taken; the call waits on.
    pub fn validate_answer(&self, answer: &AnswerKind) -> Result<ValidAnswer, Refusal> {
        match answer {
            AnswerKind::Output { .. } | AnswerKind::Failure { .. } => self.validate_output(answer),
            AnswerKind::Decision { approved, input, .. } => self.validate_decision(*approved, input.as_ref()),
            // What answers a question of the call's own is no answer to the call.
            AnswerKind::Elicited { .. } => Err(Refusal::WrongAnswer),
        }
    }

    fn validate_output(&self, answer: &AnswerKind) -> Result<ValidAnswer, Refusal> {
        match &self.state {
            CallState::Executing if self.is_parked() => Ok(ValidAnswer::New),
            CallState::Success { .. } | CallState::Error { .. } if self.answer.as_ref() == Some(answer) => {
                Ok(ValidAnswer::Repeated)
            }
            CallState::Success { .. } | CallState::Error { .. } => Err(Refusal::AlreadyAnswered),
            CallState::Cancelled { cancelled } => Err(cancelled.refusal()),
            CallState::Validating
            | CallState::AwaitingApproval
            | CallState::Scheduled
            | CallState::Executing => Err(Refusal::WrongAnswer),
        }
    }

    fn validate_decision(&self, approved: bool, input: Option<&Value>) -> Result<ValidAnswer, Refusal> {
        if let CallState::Cancelled { cancelled } = &self.state
            && !matches!(cancelled, Cancelled::Denied { .. })
        {
            return Err(Refusal::Gone);
        }
        match (&self.approval_decision, &self.approval_request) {
            (Some(decided), _) if decided.approved == approved && self.edited.as_ref() == input => {
                Ok(ValidAnswer::Repeated)
            }
            (Some(_), _) => Err(Refusal::AlreadyAnswered),
            (None, Some(_)) if self.accepts_decision() => Ok(ValidAnswer::New),
            (None, _) if self.state.is_final() => Err(Refusal::AlreadyAnswered),
            (None, _) => Err(Refusal::WrongAnswer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(state: CallState, run_by: RunBy) -> Call {
        let mut call = Call::new(ToolCallId::new("c"), 1, "t".into(), Some(run_by), Timestamp::UNIX_EPOCH);
        call.state = state;
        call
    }

    fn output(value: Value) -> AnswerKind {
        AnswerKind::Output { output: value }
    }

    fn decision(approved: bool, input: Option<Value>) -> AnswerKind {
        AnswerKind::Decision { approved, reason: None, always: false, input }
    }

    fn asked(state: CallState, decided: Option<bool>) -> Call {
        let approval_request = Some(ApprovalRequest { id: ApprovalId::new("q"), required: true });
        let approval_decision = decided.map(|approved| ApprovalDecision {
            by: Owner::anyone(),
            approved,
            reason: None,
            always: false,
        });
        Call { approval_request, approval_decision, ..call(state, RunBy::Server) }
    }

    #[test]
    fn a_call_keeps_every_state_it_came_into_and_a_final_one_for_ever() {
        let mut call =
            Call::new(ToolCallId::new("c"), 1, "t".into(), Some(RunBy::Server), Timestamp::UNIX_EPOCH);
        for (second, state) in
            [CallState::Scheduled, CallState::Executing, CallState::Success { output: json!(1) }]
                .into_iter()
                .enumerate()
        {
            call.enter(state, Timestamp::from_second(second as i64).unwrap());
        }
        let names: Vec<_> = call.history().iter().map(|entered| entered.state.as_str()).collect();
        assert_eq!(names, ["validating", "scheduled", "executing", "success"]);
        assert_eq!(call.since(), Timestamp::from_second(2).unwrap());
        let late = std::panic::catch_unwind(move || call.enter(CallState::Executing, Timestamp::UNIX_EPOCH));
        assert!(late.is_err() || !cfg!(debug_assertions));
    }

    #[test]
    fn the_names_in_a_saved_call_stay() {
        let at = Timestamp::UNIX_EPOCH;
        let decided = ApprovalDecision {
            by: Owner::new("bob"),
            approved: true,
            reason: Some("fine".into()),
            always: true,
        };
        let reply = ElicitationRecord {
            to: ElicitationId::new("e"),
            by: Owner::new("bob"),
            action: ElicitAction::Accept,
            content: Some(json!({"size": 1})),
        };
        let mut call = Call {
            input: json!({"a": 1}),
            edited: Some(json!({"a": 2})),
            policy_decision: Some(PolicyDecision {
                decision: Decision::Ask,
                reason: Some("careful".into()),
                by: crate::DecisionSource::Rule(3),
            }),
            approval_request: Some(ApprovalRequest { id: ApprovalId::new("q"), required: true }),
            approval_decision: Some(decided),
            answer: Some(output(json!(1))),
            has_passed: true,
            replies: vec![reply],
            resource: crate::Resource::named("files").key(&json!({}), &Owner::anyone()),
            ..Call::new(ToolCallId::new("c"), 1, "t".into(), Some(RunBy::Server), at)
        };
        call.enter(CallState::Scheduled, at);
        call.expires = Some(at);
        let saved = json!({
            "id": "c",
            "step": 1,
            "tool": "t",
            "run_by": "server",
            "input": {"a": 1},
            "edited": {"a": 2},
            "ruling": {"decision": "ask", "reason": "careful", "by": {"rule": 3}},
            "question": {"id": "q", "required": true},
            "decided": {"by": "bob", "approved": true, "reason": "fine", "always": true},
            "answer": {"kind": "output", "output": 1},
            "has_passed": true,
            "replies": [{"to": "e", "by": "bob", "action": "accept", "content": {"size": 1}}],
            "resource": {"name": "files"},
            "expires": "1970-01-01T00:00:00Z",
            "state": "scheduled",
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
            let mut call = call(CallState::Validating, RunBy::Server);
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

    #[test]
    fn a_parked_call_takes_an_output_and_nothing_else() {
        let parked = call(CallState::Executing, RunBy::Browser);
        assert_eq!(parked.validate_answer(&output(json!(1))), Ok(ValidAnswer::New));
        assert_eq!(parked.validate_answer(&decision(true, None)), Err(Refusal::WrongAnswer));
    }

    #[test]
    fn an_output_that_nobody_waits_for_is_wrong() {
        for state in [CallState::Validating, CallState::AwaitingApproval, CallState::Scheduled] {
            assert_eq!(
                call(state, RunBy::Browser).validate_answer(&output(json!(1))),
                Err(Refusal::WrongAnswer)
            );
        }
        assert_eq!(
            call(CallState::Executing, RunBy::Server).validate_answer(&output(json!(1))),
            Err(Refusal::WrongAnswer)
        );
    }

    #[test]
    fn the_same_output_again_is_the_same_whatever_the_order_of_its_keys() {
        let given = output(json!({"a": [1, 2], "b": "x"}));
        let settled = Call {
            answer: Some(given),
            ..call(CallState::Success { output: json!({"a": [1, 2], "b": "x"}) }, RunBy::Browser)
        };
        assert_eq!(
            settled.validate_answer(&output(json!({"b": "x", "a": [1, 2]}))),
            Ok(ValidAnswer::Repeated)
        );
        assert_eq!(
            settled.validate_answer(&output(json!({"a": [2, 1], "b": "x"}))),
            Err(Refusal::AlreadyAnswered)
        );
        let failure = AnswerKind::Failure { error_text: "no".into() };
        assert_eq!(settled.validate_answer(&failure), Err(Refusal::AlreadyAnswered));
    }

    #[test]
    fn a_decision_is_taken_once() {
        assert_eq!(
            asked(CallState::AwaitingApproval, None).validate_answer(&decision(true, None)),
            Ok(ValidAnswer::New)
        );
        let approved = asked(CallState::Scheduled, Some(true));
        assert_eq!(approved.validate_answer(&decision(true, None)), Ok(ValidAnswer::Repeated));
        assert_eq!(approved.validate_answer(&decision(true, Some(json!({})))), Err(Refusal::AlreadyAnswered));
        assert_eq!(approved.validate_answer(&decision(false, None)), Err(Refusal::AlreadyAnswered));
    }

    #[test]
    fn a_denial_is_no_expiry() {
        let denied =
            asked(CallState::Cancelled { cancelled: Cancelled::Denied { reason: None } }, Some(false));
        assert_eq!(denied.validate_answer(&decision(false, None)), Ok(ValidAnswer::Repeated));
        assert_eq!(denied.validate_answer(&decision(true, None)), Err(Refusal::AlreadyAnswered));
        let expired = asked(CallState::Cancelled { cancelled: Cancelled::Expired }, None);
        assert_eq!(expired.validate_answer(&decision(true, None)), Err(Refusal::Gone));
        assert_eq!(expired.validate_answer(&output(json!(1))), Err(Refusal::Gone));
    }

    #[test]
    fn a_question_nobody_needs_can_still_be_answered() {
        let mut withheld = call(CallState::Scheduled, RunBy::Browser);
        assert_eq!(withheld.validate_answer(&decision(false, None)), Err(Refusal::WrongAnswer));
        withheld.approval_request = Some(ApprovalRequest { id: ApprovalId::new("q"), required: false });
        assert_eq!(withheld.validate_answer(&decision(false, None)), Ok(ValidAnswer::New));
        withheld.resource =
            Some(ResourceKey { named_by: crate::NamedBy::Settings, name: "a".into(), owner: None });
        assert_eq!(
            withheld.validate_answer(&decision(false, None)),
            Err(Refusal::WrongAnswer),
            "the gate has let it pass"
        );
    }
}
