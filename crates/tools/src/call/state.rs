//! The states of a call, and the transitions between them.

use std::fmt;

use fermata_protocol::denial_text;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ErrorType;

/// The state of a call, with the thing that the call waits for. The last three states are final.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CallState {
    /// The model is making the call, or its input has not been checked yet.
    Validating,
    /// The call waits for a person's decision.
    AwaitingApproval {
        /// The time when it expires if nobody decides.
        expires: Timestamp,
    },
    /// The call is allowed or approved, and waits for something else before it runs.
    Scheduled {
        /// The thing that it waits for.
        waits_for: Wait,
    },
    /// The call is running.
    Executing {
        /// The work that is being done for it.
        work: Work,
    },
    /// The call has its output.
    Success {
        /// The tool's output.
        output: Value,
    },
    /// The call failed.
    Error {
        /// The type of the failure.
        error_type: ErrorType,
        /// A description of the failure for the model and the person.
        error_text: String,
    },
    /// The call will not run, or its output is no longer waited for.
    Cancelled {
        /// The reason.
        cancelled: Cancelled,
    },
}

/// The thing that a call waits for before it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// The decisions about the other calls of its step. A decision about the call itself is still accepted.
    Gate,
    /// Its tool, which is not available.
    Tool {
        /// The time since which it waits.
        since: Timestamp,
    },
    /// The lock of its resource ([`Call::resource`](super::Call::resource)).
    Resource,
    /// The end of others that run, because no more may.
    Capacity,
}

/// The work that is being done for a call that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// This server's process or an MCP server runs it.
    Server,
    /// The page that posted the tool runs it.
    Browser {
        /// The time when the call expires if the page has not answered.
        expires: Timestamp,
    },
    /// The run itself asks the user something, and waits for the reply. Unlike a question of a tool, this one outlives the process.
    Asking {
        /// The subject of the question.
        about: Asking,
        /// The time when the call expires if nobody has replied.
        expires: Timestamp,
    },
    /// None: the call is about to run again, and waits for this.
    Again(Wait),
}

/// The subject of a question that the run itself asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asking {
    /// The questions that the model asks with the call.
    Call,
    /// The failure of the call ([`Call::asked_about`](super::Call::asked_about)).
    Failure,
}

/// The name of a [`CallState`], as the wire and the database use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants are documented at CallState")]
pub enum StateName {
    Validating,
    AwaitingApproval,
    Scheduled,
    Executing,
    Success,
    Error,
    Cancelled,
}

/// A state that a call entered, with the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The state.
    pub state: StateName,
    /// The time when the call entered the state.
    pub at: Timestamp,
}

/// The reason why a call was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Cancelled {
    /// A person or a rule denied the call.
    Denied {
        /// The reason that the person or the rule gave.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
    },
    /// The call's deadline passed before it was answered.
    Expired,
    /// A person cancelled the call while it ran, and the run goes on.
    ByPerson,
    /// The run was stopped.
    Stopped,
    /// The person sent a new message before the call had its outcome.
    Superseded,
    /// The run ended: it failed, it reached a limit, or another call of the step expired.
    RunEnded,
    /// The setting `chain = "one"` lets only the first call of a step run.
    NotFirst,
    /// The user has chosen another tool, which the step has to call.
    NotChosen,
}

// === impl CallState ===

impl CallState {
    /// Returns the state's name.
    pub fn name(&self) -> StateName {
        match self {
            Self::Validating => StateName::Validating,
            Self::AwaitingApproval { .. } => StateName::AwaitingApproval,
            Self::Scheduled { .. } => StateName::Scheduled,
            Self::Executing { .. } => StateName::Executing,
            Self::Success { .. } => StateName::Success,
            Self::Error { .. } => StateName::Error,
            Self::Cancelled { .. } => StateName::Cancelled,
        }
    }

    /// Returns the state of a call that waits for this before it runs.
    pub fn scheduled(waits_for: Wait) -> Self {
        Self::Scheduled { waits_for }
    }

    /// Returns whether the call has its outcome.
    pub fn is_final(&self) -> bool {
        self.name().is_final()
    }

    /// Returns the reason why the call waits before it runs, for the first time or again.
    pub fn waits_for(&self) -> Option<&Wait> {
        match self {
            Self::Scheduled { waits_for } | Self::Executing { work: Work::Again(waits_for) } => {
                Some(waits_for)
            }
            Self::Executing { work: Work::Server | Work::Browser { .. } | Work::Asking { .. } }
            | Self::Validating
            | Self::AwaitingApproval { .. }
            | Self::Success { .. }
            | Self::Error { .. }
            | Self::Cancelled { .. } => None,
        }
    }

    /// Returns the time when the call expires if nobody answers; `None` if it does not wait for an answer.
    pub fn expires(&self) -> Option<Timestamp> {
        match self {
            Self::AwaitingApproval { expires }
            | Self::Executing { work: Work::Browser { expires } | Work::Asking { expires, .. } } => {
                Some(*expires)
            }
            Self::Executing { work: Work::Server | Work::Again(_) }
            | Self::Validating
            | Self::Scheduled { .. }
            | Self::Success { .. }
            | Self::Error { .. }
            | Self::Cancelled { .. } => None,
        }
    }

    /// Returns the type of the failure; `None` if the call has not failed.
    pub fn error_type(&self) -> Option<ErrorType> {
        match self {
            Self::Error { error_type, .. } => Some(*error_type),
            Self::Cancelled { cancelled: Cancelled::Denied { .. } } => Some(ErrorType::Denied),
            Self::Cancelled { .. } => Some(ErrorType::Cancelled),
            Self::Validating
            | Self::AwaitingApproval { .. }
            | Self::Scheduled { .. }
            | Self::Executing { .. }
            | Self::Success { .. } => None,
        }
    }
}

// === impl StateName ===

impl StateName {
    /// Returns the name as text.
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

    /// Returns whether no other state can follow this one.
    pub fn is_final(self) -> bool {
        match self {
            Self::Success | Self::Error | Self::Cancelled => true,
            Self::Validating | Self::AwaitingApproval | Self::Scheduled | Self::Executing => false,
        }
    }

    /// Returns whether a call may move from this state to `next`.
    ///
    /// A call that waits for approval enters that state again when its input is edited, and a call that runs enters `Executing` again
    /// when it is retried. A call that was allowed waits for approval again if its tool has changed.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Validating => next != Self::Validating && next != Self::Executing && next != Self::Success,
            Self::AwaitingApproval => {
                matches!(next, Self::AwaitingApproval | Self::Scheduled | Self::Error | Self::Cancelled)
            }
            Self::Scheduled => {
                matches!(next, Self::AwaitingApproval | Self::Executing | Self::Error | Self::Cancelled)
            }
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
    /// Returns the text that the model and the person get in place of an output.
    pub fn text(&self) -> String {
        match self {
            Self::Denied { reason } => denial_text(reason.as_deref()),
            Self::Expired => "Expired: nobody answered in time, so the call has no result.".into(),
            Self::ByPerson => "Cancelled: the user cancelled the call while it ran. It may have had its effect. Do not make it again unless asked.".into(),
            Self::Stopped => "Cancelled: the run was stopped before the call had a result.".into(),
            Self::Superseded => "Cancelled: the conversation went on before the call had a result.".into(),
            Self::RunEnded => "Cancelled: the run ended before the call had a result.".into(),
            Self::NotChosen => {
                "Cancelled: the user has chosen another tool for this message, so this call did not run.".into()
            }
            Self::NotFirst => {
                "Cancelled: only the first call of a step runs here, so this one did not. Make it again by itself if you still need it."
                    .into()
            }
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
