//! The reasons to reject answers, and their texts for people.

use fermata_protocol::{AnswerTarget, ToolCallId};
use fermata_tools::{AuditEvent, Call, Refusal, StateName};

use crate::api::errors::AnswerError;

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
    /// The answer is about the call as it was shown before its tool changed.
    Outdated {
        call: ToolCallId,
        tool: String,
    },
    /// Two answers of the batch are about one call.
    Twice(ToolCallId),
    /// The principal may not decide about the call. `event` is the entry for the audit log.
    NotYours {
        call: ToolCallId,
        /// Those who may.
        deciders: String,
        event: Box<AuditEvent>,
    },
    /// A rule denies the edited input. This is the entry for the audit log.
    Denied(Box<AuditEvent>),
    /// The edited input cannot be used, for this reason.
    BadInput(String),
    /// The call proposes no such scope for "always".
    UnknownScope(String),
    /// The output is larger than allowed.
    TooLarge(String),
}

// === impl Rejected ===

impl Rejected {
    /// Returns the rejection of an answer to this call.
    pub fn of(refusal: Refusal, call: &Call) -> Self {
        Self::Refused { refusal, call: call.id.clone(), tool: call.tool.clone(), state: call.state().name() }
    }
}

impl From<Rejected> for AnswerError {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Unknown(AnswerTarget::Call(id)) => {
                Self::NotFound(format!("This chat has no call {id:?}.", id = id.as_str()))
            }
            Rejected::Unknown(AnswerTarget::Approval(id)) => {
                Self::NotFound(format!("This chat has asked no question {id:?}.", id = id.as_str()))
            }
            Rejected::Unknown(AnswerTarget::Elicitation(id)) => Self::NotFound(format!(
                "This chat has no question {id:?} of a tool's; none survives a restart.",
                id = id.as_str()
            )),
            Rejected::Outdated { call, tool } => Self::ToolChanged(format!(
                "The call {call} of {tool} was asked about again since it was shown: its tool has changed, or its approval does not count \
                 any more. Look at it again, and answer its newest approval request."
            )),
            Rejected::Twice(id) => {
                Self::Invalid(format!("The batch answers the call {id} twice; answer each call once."))
            }
            Rejected::Denied(event) => {
                Self::DeniedByPolicy(event.reason.unwrap_or_else(|| "A rule denies this input.".into()))
            }
            Rejected::NotYours { call, deciders, .. } => {
                Self::NotYours(format!("You may not decide about the call {call}. These may: {deciders}."))
            }
            Rejected::BadInput(text) => Self::Invalid(text),
            Rejected::UnknownScope(text) => Self::UnknownScope(text),
            Rejected::TooLarge(text) => Self::TooLarge(text),
            Rejected::Refused { refusal, call, tool, state } => match refusal {
                Refusal::AlreadyAnswered => Self::AlreadyAnswered {
                    detail: format!(
                        "The call {call} of {tool} has another answer already; its state is {state}."
                    ),
                    state,
                },
                Refusal::WrongAnswer => Self::WrongAnswer {
                    detail: format!(
                        "The call {call} of {tool} does not wait for this kind of answer; its state is {state}."
                    ),
                    state,
                },
                Refusal::Gone => Self::Gone {
                    detail: format!(
                        "The call {call} of {tool} no longer waits for this: it has ended, expired or was cancelled."
                    ),
                    state,
                },
            },
        }
    }
}
