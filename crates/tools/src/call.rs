//! One tool call from the model's wish to its outcome, and what an answer to it means.

use std::fmt;

use fermata_protocol::{AnswerKind, ApprovalId, ToolCallId, denial_text};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// What was asked about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub question: Option<Question>,
    /// What was decided about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub decided: Option<Decided>,
    /// What the browser answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<AnswerKind>,
    /// How far it is.
    pub state: CallState,
    /// When it came into that state.
    pub since: Timestamp,
    /// When it is settled as expired, while it waits for somebody.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires: Option<Timestamp>,
}

/// A question put to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Its id on the wire.
    pub id: ApprovalId,
    /// Whether the gate waits for it. A question put only so that a stock client can post again is not needed.
    pub required: bool,
}

/// A person's decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// Whether it may run.
    pub approved: bool,
    /// What the person said about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Whether it covers later calls of the tool in this chat.
    #[serde(default)]
    pub always: bool,
}

/// How far a call is. The last three are final.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CallState {
    /// Made by the model, not looked at yet.
    Validating,
    /// Waits for a person.
    AwaitingApproval,
    /// Allowed or approved; waits for the gate.
    Scheduled,
    /// Running, or parked for the browser's output.
    Executing,
    /// Has its output.
    Success {
        /// What came out.
        output: Value,
    },
    /// Failed.
    Error {
        /// What went wrong, in words for the model and the person.
        error_text: String,
    },
    /// Will never run.
    Cancelled {
        /// Why.
        cancelled: Cancelled,
    },
}

/// Why a call will never run, or will not be waited for any longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Cancelled {
    /// A person or a rule said no.
    Denied {
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
    },
    /// Nobody answered in time.
    Expired,
    /// The run was stopped.
    Stopped,
    /// The person went on without it.
    Superseded,
    /// The run ended around it: it failed, ran into a limit, or another call of the step expired.
    RunEnded,
}

/// What becomes of an answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is the first of its kind: take it.
    Take,
    /// It was given before: nothing happens twice.
    Same,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Which call.
    pub tool_call_id: ToolCallId,
    /// How far it is, as in [`CallState::name`].
    pub state: &'static str,
    /// Calls of the step that still wait for a person.
    pub waiting_for: Vec<ToolCallId>,
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
    /// The input that runs and that the model is told: the edited one, where a person edited it.
    pub fn effective_input(&self) -> &Value {
        self.edited.as_ref().unwrap_or(&self.input)
    }

    /// Whether the call waits for a person or for the browser.
    pub fn waits_for_somebody(&self) -> bool {
        self.is_asked() || self.is_parked()
    }

    /// Whether the gate waits for a decision about this call.
    pub fn is_asked(&self) -> bool {
        self.state == CallState::AwaitingApproval
    }

    /// Whether the call waits for the browser's output.
    pub fn is_parked(&self) -> bool {
        self.state == CallState::Executing && self.run_by == Some(RunBy::Browser)
    }

    /// Whether a decision about the call would be taken, needed or not.
    pub fn takes_decision(&self) -> bool {
        let open = matches!(self.state, CallState::AwaitingApproval | CallState::Scheduled);
        open && self.question.is_some() && self.decided.is_none()
    }

    /// Whether an answer of some kind would be taken.
    pub fn takes_answer(&self) -> bool {
        self.takes_decision() || self.is_parked()
    }

    /// What an answer of this kind means for the call as it stands. Takes nothing: the same question gets the same verdict
    /// until the caller records the answer.
    ///
    /// # Errors
    /// Why it cannot be taken; the call waits on.
    pub fn judge(&self, answer: &AnswerKind) -> Result<Verdict, Refusal> {
        match answer {
            AnswerKind::Output { .. } | AnswerKind::Failure { .. } => self.judge_output(answer),
            AnswerKind::Decision { approved, input, .. } => self.judge_decision(*approved, input.as_ref()),
        }
    }

    fn judge_output(&self, answer: &AnswerKind) -> Result<Verdict, Refusal> {
        match &self.state {
            CallState::Executing if self.is_parked() => Ok(Verdict::Take),
            CallState::Success { .. } | CallState::Error { .. } if self.answer.as_ref() == Some(answer) => {
                Ok(Verdict::Same)
            }
            CallState::Success { .. } | CallState::Error { .. } => Err(Refusal::AlreadyAnswered),
            CallState::Cancelled { cancelled } => Err(cancelled.refusal()),
            CallState::Validating
            | CallState::AwaitingApproval
            | CallState::Scheduled
            | CallState::Executing => Err(Refusal::WrongAnswer),
        }
    }

    fn judge_decision(&self, approved: bool, input: Option<&Value>) -> Result<Verdict, Refusal> {
        if let CallState::Cancelled { cancelled } = &self.state
            && !matches!(cancelled, Cancelled::Denied { .. })
        {
            return Err(Refusal::Gone);
        }
        match (&self.decided, &self.question) {
            (Some(decided), _) if decided.approved == approved && self.edited.as_ref() == input => {
                Ok(Verdict::Same)
            }
            (Some(_), _) => Err(Refusal::AlreadyAnswered),
            (None, Some(_)) if self.takes_decision() => Ok(Verdict::Take),
            (None, _) if self.state.is_final() => Err(Refusal::AlreadyAnswered),
            (None, _) => Err(Refusal::WrongAnswer),
        }
    }
}

// === impl CallState ===

impl CallState {
    /// The name on the wire: one of the seven.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Validating => "validating",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Scheduled => "scheduled",
            Self::Executing => "executing",
            Self::Success { .. } => "success",
            Self::Error { .. } => "error",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Whether the call has its outcome.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Success { .. } | Self::Error { .. } | Self::Cancelled { .. } => true,
            Self::Validating | Self::AwaitingApproval | Self::Scheduled | Self::Executing => false,
        }
    }
}

// === impl Cancelled ===

impl Cancelled {
    /// What the model and the person are told.
    pub fn text(&self) -> String {
        match self {
            Self::Denied { reason } => denial_text(reason.as_deref()),
            Self::Expired => "Expired: nobody answered in time, so the call did not run.".into(),
            Self::Stopped => "Cancelled: the run was stopped before the call had a result.".into(),
            Self::Superseded => "Cancelled: the conversation went on before the call had a result.".into(),
            Self::RunEnded => "Cancelled: the run ended before the call had a result.".into(),
        }
    }

    fn refusal(&self) -> Refusal {
        match self {
            Self::Denied { .. } => Refusal::AlreadyAnswered,
            Self::Expired | Self::Stopped | Self::Superseded | Self::RunEnded => Refusal::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(state: CallState, run_by: RunBy) -> Call {
        Call {
            id: ToolCallId::new("c"),
            step: 1,
            tool: "t".into(),
            run_by: Some(run_by),
            input: json!({}),
            edited: None,
            question: None,
            decided: None,
            answer: None,
            state,
            since: Timestamp::UNIX_EPOCH,
            expires: None,
        }
    }

    fn output(value: Value) -> AnswerKind {
        AnswerKind::Output { output: value }
    }

    fn decision(approved: bool, input: Option<Value>) -> AnswerKind {
        AnswerKind::Decision { approved, reason: None, always: false, input }
    }

    fn asked(state: CallState, decided: Option<bool>) -> Call {
        let question = Some(Question { id: ApprovalId::new("q"), required: true });
        let decided = decided.map(|approved| Decided { approved, reason: None, always: false });
        Call { question, decided, ..call(state, RunBy::Server) }
    }

    #[test]
    fn a_parked_call_takes_an_output_and_nothing_else() {
        let parked = call(CallState::Executing, RunBy::Browser);
        assert_eq!(parked.judge(&output(json!(1))), Ok(Verdict::Take));
        assert_eq!(parked.judge(&decision(true, None)), Err(Refusal::WrongAnswer));
    }

    #[test]
    fn an_output_that_nobody_waits_for_is_wrong() {
        for state in [CallState::Validating, CallState::AwaitingApproval, CallState::Scheduled] {
            assert_eq!(call(state, RunBy::Browser).judge(&output(json!(1))), Err(Refusal::WrongAnswer));
        }
        assert_eq!(
            call(CallState::Executing, RunBy::Server).judge(&output(json!(1))),
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
        assert_eq!(settled.judge(&output(json!({"b": "x", "a": [1, 2]}))), Ok(Verdict::Same));
        assert_eq!(settled.judge(&output(json!({"a": [2, 1], "b": "x"}))), Err(Refusal::AlreadyAnswered));
        let failure = AnswerKind::Failure { error_text: "no".into() };
        assert_eq!(settled.judge(&failure), Err(Refusal::AlreadyAnswered));
    }

    #[test]
    fn a_decision_is_taken_once() {
        assert_eq!(asked(CallState::AwaitingApproval, None).judge(&decision(true, None)), Ok(Verdict::Take));
        let approved = asked(CallState::Scheduled, Some(true));
        assert_eq!(approved.judge(&decision(true, None)), Ok(Verdict::Same));
        assert_eq!(approved.judge(&decision(true, Some(json!({})))), Err(Refusal::AlreadyAnswered));
        assert_eq!(approved.judge(&decision(false, None)), Err(Refusal::AlreadyAnswered));
    }

    #[test]
    fn a_denial_is_no_expiry() {
        let denied =
            asked(CallState::Cancelled { cancelled: Cancelled::Denied { reason: None } }, Some(false));
        assert_eq!(denied.judge(&decision(false, None)), Ok(Verdict::Same));
        assert_eq!(denied.judge(&decision(true, None)), Err(Refusal::AlreadyAnswered));
        let expired = asked(CallState::Cancelled { cancelled: Cancelled::Expired }, None);
        assert_eq!(expired.judge(&decision(true, None)), Err(Refusal::Gone));
        assert_eq!(expired.judge(&output(json!(1))), Err(Refusal::Gone));
    }

    #[test]
    fn a_question_nobody_needs_can_still_be_answered() {
        let mut withheld = call(CallState::Scheduled, RunBy::Browser);
        assert_eq!(withheld.judge(&decision(false, None)), Err(Refusal::WrongAnswer));
        withheld.question = Some(Question { id: ApprovalId::new("q"), required: false });
        assert_eq!(withheld.judge(&decision(false, None)), Ok(Verdict::Take));
    }
}
