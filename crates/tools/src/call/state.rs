//! The states of a call, and which may follow which.

use std::fmt;

use fermata_protocol::denial_text;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Refusal;
use crate::ErrorType;

/// How far a call is. The last three are final.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CallState {
    /// Made by the model, not looked at yet.
    Validating,
    /// Waits for a person.
    AwaitingApproval,
    /// Allowed or approved; waits for the gate or for a lock.
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
        /// Its kind.
        #[serde(default = "internal")]
        error_type: ErrorType,
        /// What went wrong, in words for the model and the person.
        error_text: String,
    },
    /// Will never run.
    Cancelled {
        /// Why.
        cancelled: Cancelled,
    },
}

/// The name of a state, on the wire and in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "CallState says what each is")]
pub enum StateName {
    Validating,
    AwaitingApproval,
    Scheduled,
    Executing,
    Success,
    Error,
    Cancelled,
}

/// A state that a call came into, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The state.
    pub state: StateName,
    /// When.
    pub at: Timestamp,
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

fn internal() -> ErrorType {
    ErrorType::Internal
}

// === impl CallState ===

impl CallState {
    /// The name on the wire: one of the seven.
    pub fn name(&self) -> StateName {
        match self {
            Self::Validating => StateName::Validating,
            Self::AwaitingApproval => StateName::AwaitingApproval,
            Self::Scheduled => StateName::Scheduled,
            Self::Executing => StateName::Executing,
            Self::Success { .. } => StateName::Success,
            Self::Error { .. } => StateName::Error,
            Self::Cancelled { .. } => StateName::Cancelled,
        }
    }

    /// Whether the call has its outcome.
    pub fn is_final(&self) -> bool {
        self.name().is_final()
    }

    /// The kind of what went wrong, where something did.
    pub fn error_type(&self) -> Option<ErrorType> {
        match self {
            Self::Error { error_type, .. } => Some(*error_type),
            Self::Cancelled { cancelled: Cancelled::Denied { .. } } => Some(ErrorType::Denied),
            Self::Cancelled { .. } => Some(ErrorType::Cancelled),
            Self::Validating
            | Self::AwaitingApproval
            | Self::Scheduled
            | Self::Executing
            | Self::Success { .. } => None,
        }
    }
}

// === impl StateName ===

impl StateName {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validating => "validating",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Scheduled => "scheduled",
            Self::Executing => "executing",
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing follows.
    pub fn is_final(self) -> bool {
        match self {
            Self::Success | Self::Error | Self::Cancelled => true,
            Self::Validating | Self::AwaitingApproval | Self::Scheduled | Self::Executing => false,
        }
    }

    /// Whether a call may come from this state into that one.
    ///
    /// A call that waits for a person comes into the same state again when its input is edited, one that runs when it runs again.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Validating => next != Self::Validating && next != Self::Executing && next != Self::Success,
            Self::AwaitingApproval => {
                matches!(next, Self::AwaitingApproval | Self::Scheduled | Self::Cancelled)
            }
            Self::Scheduled => matches!(next, Self::Executing | Self::Error | Self::Cancelled),
            Self::Executing => next == Self::Executing || next.is_final(),
            Self::Success | Self::Error | Self::Cancelled => false,
        }
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Cancelled ===

impl Cancelled {
    /// What the model and the person are told.
    pub fn text(&self) -> String {
        match self {
            Self::Denied { reason } => denial_text(reason.as_deref()),
            Self::Expired => "Expired: nobody answered in time, so the call has no result.".into(),
            Self::Stopped => "Cancelled: the run was stopped before the call had a result.".into(),
            Self::Superseded => "Cancelled: the conversation went on before the call had a result.".into(),
            Self::RunEnded => "Cancelled: the run ended before the call had a result.".into(),
        }
    }

    pub(super) fn refusal(&self) -> Refusal {
        match self {
            Self::Denied { .. } => Refusal::AlreadyAnswered,
            Self::Expired | Self::Stopped | Self::Superseded | Self::RunEnded => Refusal::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [StateName; 7] = [
        StateName::Validating,
        StateName::AwaitingApproval,
        StateName::Scheduled,
        StateName::Executing,
        StateName::Success,
        StateName::Error,
        StateName::Cancelled,
    ];

    #[test]
    fn nothing_follows_a_final_state_and_something_every_other() {
        for state in ALL {
            assert_eq!(ALL.into_iter().any(|next| state.may_become(next)), !state.is_final(), "{state}");
        }
    }

    #[test]
    fn nothing_runs_that_was_not_scheduled() {
        let before: Vec<_> = ALL.into_iter().filter(|state| state.may_become(StateName::Executing)).collect();
        assert_eq!(before, [StateName::Scheduled, StateName::Executing]);
    }
}
