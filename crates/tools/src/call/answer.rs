//! The validation of answers to calls.

use fermata_protocol::{Answer, AnswerKind, AnswerTarget, JsonText, ToolCallId};
use serde::{Deserialize, Serialize};

use super::{Call, CallState, Cancelled, StateName, Wait, Work};
use crate::{Principal, hash::sha256};

/// A valid answer to a call, as [`Call::validate_answer`] found it.
#[derive(Clone, Debug, PartialEq)]
pub enum ValidAnswer {
    /// The call has not been given this answer before.
    New,
    /// The call was given this very answer before, so there is nothing left to do.
    Repeated,
}

/// The reason why an answer is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The call was given a different answer before.
    AlreadyAnswered,
    /// The call waits for another kind of answer, or for none at all.
    WrongAnswer,
    /// The call expired or was cancelled.
    Gone,
}

/// The reply to an answer, about one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// The call's id.
    pub tool_call_id: ToolCallId,
    /// The state that the call is in after the answer.
    pub state: StateName,
    /// The calls of the step that still wait for a person's decision.
    pub waiting_for: Vec<ToolCallId>,
    /// True if the call runs only when those are decided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gate_closed: bool,
    /// The other calls of the step that were asked about and that this answer lets run: those that "always" covers, and those that waited for
    /// nothing but the gate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_approved: Vec<ToolCallId>,
}

// === impl Receipt ===

impl Receipt {
    /// Returns the receipt for a request that changes nothing about the call.
    pub fn without_effect(call: &Call) -> Self {
        Self {
            tool_call_id: call.id.clone(),
            state: call.state().name(),
            waiting_for: Vec::new(),
            gate_closed: false,
            also_approved: Vec::new(),
        }
    }
}

/// Returns the SHA-256 of an answer in hexadecimal. The order of keys does not matter.
fn hash(answer: &AnswerKind) -> String {
    let mut value = serde_json::to_value(answer).unwrap_or_default();
    value.sort_all_objects();
    sha256(value.to_string().as_bytes())
}

// === impl Call ===

impl Call {
    /// Returns the reason of a person's denial of the call, if a person has denied it.
    pub fn denial_by_person(&self) -> Option<Option<String>> {
        let denied = self.approval_decision.as_ref().filter(|decided| !decided.approved)?;
        Some(denied.reason.clone())
    }

    /// Returns whether a decision about the call would be accepted, even if the gate does not wait for one.
    pub fn accepts_decision(&self) -> bool {
        let is_before_gate = matches!(self.state, CallState::Scheduled { waits_for: Wait::Gate });
        let is_undecided = self.approval_request.is_some() && self.approval_decision.is_none();
        is_undecided && (self.awaits_approval() || is_before_gate)
    }

    /// Returns whether a principal can still take an approval back: the principal has approved the call, which has not started.
    pub fn can_be_taken_back(&self, principal: &Principal) -> bool {
        matches!(self.state, CallState::Scheduled { .. }) && self.is_approved_by(principal)
    }

    /// Returns whether a principal has approved the call with its current input.
    fn is_approved_by(&self, principal: &Principal) -> bool {
        self.approval_request.as_ref().is_some_and(|request| request.is_approved_by(principal))
    }

    /// Returns whether a decision is the one that this principal has given about the call.
    fn is_same_decision(&self, approved: bool, input: Option<&JsonText>, by: &Principal) -> bool {
        if approved {
            self.is_approved_by(by) && (input.is_none() || self.edited.as_ref() == input)
        } else {
            let decided = self.approval_decision.as_ref();
            decided.is_some_and(|decided| !decided.approved && by.user == decided.by)
        }
    }

    /// Returns whether an answer is about the call as it was shown before its tool changed: it names an approval request that no longer counts,
    /// or approves the call without naming the request that does.
    pub fn is_outdated(&self, answer: &Answer) -> bool {
        if self.asked_before.is_empty() || self.state.is_final() {
            return false;
        }
        match &answer.of {
            AnswerTarget::Approval(id) => self.asked_before.contains(id),
            AnswerTarget::Call(_) => {
                self.approval_decision.is_none()
                    && matches!(answer.kind, AnswerKind::Decision { approved: true, .. })
            }
            AnswerTarget::Elicitation(_) => false,
        }
    }

    /// Remembers the browser's answer, so that a repetition is known.
    pub fn note_answer(&mut self, answer: &AnswerKind) {
        self.answer_hash = Some(hash(answer));
    }

    /// Returns whether an answer of some kind would be accepted.
    pub fn accepts_answer(&self) -> bool {
        self.accepts_decision() || self.is_parked()
    }

    /// Checks an answer of a principal against the call's current state, without recording it. Whether the principal may decide is not checked.
    ///
    /// # Errors
    /// Returns the reason if the answer must be refused. The call keeps waiting.
    pub fn validate_answer(&self, answer: &AnswerKind, by: &Principal) -> Result<ValidAnswer, Refusal> {
        match answer {
            AnswerKind::Output { .. } | AnswerKind::Failure { .. } => match &self.state {
                CallState::Executing { work: Work::Browser { .. } } => Ok(ValidAnswer::New),
                CallState::Success { .. } | CallState::Error { .. }
                    if self.answer_hash.as_ref() == Some(&hash(answer)) =>
                {
                    Ok(ValidAnswer::Repeated)
                }
                CallState::Success { .. }
                | CallState::Error { .. }
                | CallState::Cancelled { cancelled: Cancelled::Denied { .. } } => {
                    Err(Refusal::AlreadyAnswered)
                }
                CallState::Cancelled {
                    cancelled:
                        Cancelled::Expired
                        | Cancelled::ByPerson
                        | Cancelled::Stopped
                        | Cancelled::Superseded
                        | Cancelled::RunEnded
                        | Cancelled::NotFirst
                        | Cancelled::NotChosen,
                } => Err(Refusal::Gone),
                CallState::Validating
                | CallState::AwaitingApproval { .. }
                | CallState::Scheduled { .. }
                | CallState::Executing { .. } => Err(Refusal::WrongAnswer),
            },
            AnswerKind::Decision { approved, input, .. } => {
                if let CallState::Cancelled { cancelled } = &self.state
                    && !matches!(cancelled, Cancelled::Denied { .. })
                {
                    return Err(Refusal::Gone);
                }
                if self.is_same_decision(*approved, input.as_ref(), by) {
                    return Ok(ValidAnswer::Repeated);
                }
                match (&self.approval_decision, &self.approval_request) {
                    (Some(_), _) if !approved && self.can_be_taken_back(by) => Ok(ValidAnswer::New),
                    (Some(_), _) => Err(Refusal::AlreadyAnswered),
                    (None, Some(_)) if self.accepts_decision() => Ok(ValidAnswer::New),
                    (None, _) if self.state.is_final() => Err(Refusal::AlreadyAnswered),
                    (None, _) => Err(Refusal::WrongAnswer),
                }
            }
            // This answers a question that the call asked, not the call itself.
            AnswerKind::Elicited { .. } => Err(Refusal::WrongAnswer),
        }
    }
}

#[cfg(test)]
mod tests {
    use fermata_protocol::{ApprovalId, JsonText};
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::{ApprovalDecision, ApprovalRequest, Decider, DecisionChannel, Owner, RunBy};

    fn call(state: CallState, run_by: RunBy) -> Call {
        let mut call = Call::new(ToolCallId::new("c"), 1, "t".into(), Some(run_by), Timestamp::UNIX_EPOCH);
        call.state = state;
        call
    }

    fn asks() -> CallState {
        CallState::AwaitingApproval { expires: Timestamp::UNIX_EPOCH }
    }

    fn parked() -> CallState {
        CallState::Executing { work: Work::Browser { expires: Timestamp::UNIX_EPOCH } }
    }

    fn running() -> CallState {
        CallState::Executing { work: Work::Server }
    }

    fn scheduled() -> CallState {
        CallState::scheduled(Wait::Gate)
    }

    fn output(value: Value) -> AnswerKind {
        AnswerKind::Output { output: value }
    }

    fn decision(approved: bool, input: Option<Value>) -> AnswerKind {
        let input = input.map(JsonText::from);
        AnswerKind::Decision { approved, reason: None, always: None, input }
    }

    fn anyone() -> Principal {
        Owner::anyone().into()
    }

    fn request() -> ApprovalRequest {
        ApprovalRequest::new(ApprovalId::new("q"), anyone(), None, Timestamp::UNIX_EPOCH)
    }

    fn asked(state: CallState, decided: Option<bool>) -> Call {
        let by = Decider { by: anyone(), how: DecisionChannel::Api, address: None, shown_hash: None };
        let mut request = request();
        if decided == Some(true) {
            request.vote(&by, Timestamp::UNIX_EPOCH);
        }
        let approval_decision =
            decided.map(|approved| ApprovalDecision::of(&by, approved, Timestamp::UNIX_EPOCH));
        Call { approval_request: Some(request), approval_decision, ..call(state, RunBy::Server) }
    }

    #[test]
    fn a_parked_call_takes_an_output_and_nothing_else() {
        let parked = call(parked(), RunBy::Browser);
        assert_eq!(parked.validate_answer(&output(json!(1)), &anyone()), Ok(ValidAnswer::New));
        assert_eq!(parked.validate_answer(&decision(true, None), &anyone()), Err(Refusal::WrongAnswer));
    }

    #[test]
    fn an_output_that_no_call_waits_for_is_refused() {
        for state in [CallState::Validating, asks(), scheduled()] {
            assert_eq!(
                call(state, RunBy::Browser).validate_answer(&output(json!(1)), &anyone()),
                Err(Refusal::WrongAnswer)
            );
        }
        assert_eq!(
            call(running(), RunBy::Server).validate_answer(&output(json!(1)), &anyone()),
            Err(Refusal::WrongAnswer)
        );
    }

    #[test]
    fn a_repeated_output_is_recognized_whatever_the_order_of_its_keys() {
        let given = output(json!({"a": [1, 2], "b": "x"}));
        let settled = Call {
            answer_hash: Some(hash(&given)),
            ..call(CallState::Success { output: json!({"a": [1, 2], "b": "x"}) }, RunBy::Browser)
        };
        assert_eq!(
            settled.validate_answer(&output(json!({"b": "x", "a": [1, 2]})), &anyone()),
            Ok(ValidAnswer::Repeated)
        );
        assert_eq!(
            settled.validate_answer(&output(json!({"a": [2, 1], "b": "x"})), &anyone()),
            Err(Refusal::AlreadyAnswered)
        );
        let failure = AnswerKind::Failure { error_text: "no".into() };
        assert_eq!(settled.validate_answer(&failure, &anyone()), Err(Refusal::AlreadyAnswered));
    }

    #[test]
    fn a_decision_is_taken_once() {
        assert_eq!(
            asked(asks(), None).validate_answer(&decision(true, None), &anyone()),
            Ok(ValidAnswer::New)
        );
        let approved = asked(scheduled(), Some(true));
        assert_eq!(approved.validate_answer(&decision(true, None), &anyone()), Ok(ValidAnswer::Repeated));
        assert_eq!(
            approved.validate_answer(&decision(true, Some(json!({}))), &anyone()),
            Err(Refusal::AlreadyAnswered)
        );
    }

    #[test]
    fn an_approval_is_taken_back_until_the_call_starts_and_a_denial_never() {
        let denied = CallState::Cancelled { cancelled: Cancelled::Denied { reason: None } };
        for (state, was, now, expected) in [
            (scheduled(), true, false, Ok(ValidAnswer::New)),
            (running(), true, false, Err(Refusal::AlreadyAnswered)),
            (CallState::Success { output: json!(1) }, true, false, Err(Refusal::AlreadyAnswered)),
            (denied.clone(), false, true, Err(Refusal::AlreadyAnswered)),
            (denied, false, false, Ok(ValidAnswer::Repeated)),
        ] {
            let call = asked(state, Some(was));
            assert_eq!(call.validate_answer(&decision(now, None), &anyone()), expected, "{call:?}");
        }
        let queued = asked(CallState::scheduled(Wait::Resource), Some(true));
        assert_eq!(queued.validate_answer(&decision(false, None), &anyone()), Ok(ValidAnswer::New));
        let edited = Call {
            edited: Some(json!(1).into()),
            ..asked(CallState::Cancelled { cancelled: Cancelled::Denied { reason: None } }, Some(false))
        };
        assert_eq!(edited.validate_answer(&decision(false, None), &anyone()), Ok(ValidAnswer::Repeated));
    }

    #[test]
    fn a_denial_is_no_expiry() {
        let denied =
            asked(CallState::Cancelled { cancelled: Cancelled::Denied { reason: None } }, Some(false));
        assert_eq!(denied.validate_answer(&decision(false, None), &anyone()), Ok(ValidAnswer::Repeated));
        assert_eq!(denied.validate_answer(&decision(true, None), &anyone()), Err(Refusal::AlreadyAnswered));
        let expired = asked(CallState::Cancelled { cancelled: Cancelled::Expired }, None);
        assert_eq!(expired.validate_answer(&decision(true, None), &anyone()), Err(Refusal::Gone));
        assert_eq!(expired.validate_answer(&output(json!(1)), &anyone()), Err(Refusal::Gone));
    }

    #[test]
    fn an_approval_request_that_is_not_required_can_be_answered() {
        let mut withheld = call(scheduled(), RunBy::Browser);
        assert_eq!(withheld.validate_answer(&decision(false, None), &anyone()), Err(Refusal::WrongAnswer));
        withheld.approval_request = Some(ApprovalRequest { required: false, ..request() });
        assert_eq!(withheld.validate_answer(&decision(false, None), &anyone()), Ok(ValidAnswer::New));
        withheld.wait_for(Wait::Resource);
        assert_eq!(
            withheld.validate_answer(&decision(false, None), &anyone()),
            Err(Refusal::WrongAnswer),
            "the gate has let it pass"
        );
    }
}
