//! The reasons why a request to a chat is refused, as sentences for the client.
//!
//! Instances send these errors to each other, so their serialized form is part of the peer protocol.

use fermata_protocol::{ApprovalId, ToolCallId};
use fermata_tools::{Misfit, StateName};
use serde::{Deserialize, Serialize};

use crate::{
    api::approval::Approval,
    assistants::NoSuchAssistant,
    ports::store::{ApprovalState, StoreError},
};

/// The reasons why any request to a chat may fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum Unavailable {
    #[error("The server is shutting down; try again in a moment.")]
    ShuttingDown,
    #[error("This chat has too many requests waiting; try again in a moment.")]
    Busy,
    #[error(
        "This chat is owned by another instance, which cannot be reached right now; try again in a moment."
    )]
    Unreachable,
    #[error(
        "This chat is owned by another instance, and it is not known whether that instance has done this. Look at the chat before you \
         send it again."
    )]
    OutcomeUnknown,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reasons why a post starts nothing.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum SubmitError {
    #[error("{0}")]
    Invalid(String),
    #[error("There is no chat with this id.")]
    NotFound,
    #[error("This chat was deleted. Begin another one.")]
    Deleted,
    #[error("{0}")]
    NoSuchAssistant(String),
    #[error("{0}")]
    NothingToContinue(String),
    #[error(
        "The calls that wait for a decision have changed since this message was written, so it decides nothing. Look at what waits now, and \
         decide again."
    )]
    DecisionIsStale { waiting: Vec<ApprovalId> },
    #[error("Other people decide about the calls that wait, so this message decides nothing: {0}.")]
    NotYours(String),
    #[error("There is no call with this id in the chat.")]
    NoSuchCall,
    #[error("Only a call that has failed can be made again; this one is {0}.")]
    NotFailed(StateName),
    #[error(
        "This call was made again already, as the call {0}. Look at that one; if it has failed, it can be made again."
    )]
    AlreadyRetried(ToolCallId),
    #[error("{0}")]
    ToolChanged(String),
    #[error("A run of this chat is open; wait until it is over, or stop it.")]
    RunOpen,
    #[error("The tool name {0} is taken by a tool of the server; give the browser tool another name.")]
    ToolNameTaken(String),
    #[error("This run has no tool {name}. It has: {}.", known.join(", "))]
    UnknownTool { name: String, known: Vec<String> },
    #[error("{0}")]
    TooLarge(String),
    #[error(
        "You have reached the limit of {0} open runs (runs_per_owner). Stop one, or wait for one to end."
    )]
    TooManyRuns(usize),
    #[error("You have reached the limit of {0} chats (chats_per_owner). Delete one.")]
    TooManyChats(usize),
    #[error(
        "Your chats have {bytes} bytes, and this would add {growth}; the limit is {limit} (bytes_per_owner). Delete a chat, or edit an \
         earlier message, which drops all that follows."
    )]
    TooManyBytes { bytes: usize, growth: usize, limit: usize },
    #[error(transparent)]
    #[serde(untagged)]
    Unavailable(#[from] Unavailable),
}

/// The reasons why an answer is refused. If one answer of a batch is refused, none is accepted.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum AnswerError {
    #[error("{0}")]
    NotFound(String),
    #[error("{detail}")]
    AlreadyAnswered { detail: String, state: StateName },
    #[error("{detail}")]
    WrongAnswer { detail: String, state: StateName },
    #[error("{detail}")]
    Gone { detail: String, state: StateName },
    #[error("{0}")]
    NotYours(String),
    #[error(
        "The input of this call has changed since you were shown it. Look at it again, and decide about the new one."
    )]
    Changed,
    #[error("{0}")]
    DeniedByPolicy(String),
    #[error("{0}")]
    ToolChanged(String),
    #[error("{0}")]
    Invalid(String),
    #[error("{detail}")]
    DoesNotFit { detail: String, places: Vec<Misfit> },
    #[error("{0}")]
    UnknownScope(String),
    #[error("{0}")]
    TooLarge(String),
    #[error(transparent)]
    #[serde(untagged)]
    Unavailable(#[from] Unavailable),
}

/// The reasons why a vote does not count.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum VoteError {
    #[error("There is no approval with this id for you.")]
    NotFound,
    #[error("{0}")]
    NotYours(String),
    #[error("{}", outcome_of(.0))]
    AlreadyAnswered(Box<Approval>),
    #[error(
        "The input of this call has changed since you were shown it. Look at it again, and decide about the new one."
    )]
    Changed(Box<Approval>),
    #[error(transparent)]
    Refused(Box<AnswerError>),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Returns the outcome of an approval as a sentence.
fn outcome_of(approval: &Approval) -> String {
    let state = approval.state.as_str();
    match approval.settled.as_ref().and_then(|settled| Some((settled.by.as_ref()?, settled.at))) {
        Some((by, at)) => format!("This approval is settled: {by} has decided at {at}; it is {state}."),
        None if approval.state == ApprovalState::Waiting => {
            "This call does not wait for this decision now; look at it again.".into()
        }
        None => format!("This approval is settled: it is {state}."),
    }
}

impl From<StoreError> for VoteError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.into())
    }
}

/// The reasons why a chat cannot be read or changed.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum ReadError {
    #[error("There is no chat with this id.")]
    NotFound,
    #[error(transparent)]
    #[serde(untagged)]
    Unavailable(#[from] Unavailable),
}

/// The reasons why a call is not cancelled or made again.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum CallError {
    #[error("There is no call with this id in a chat with that id.")]
    NotFound,
    #[error("The call does not run on the server: it is {0}.")]
    NotRunning(StateName),
    #[error(transparent)]
    #[serde(untagged)]
    Unavailable(#[from] Unavailable),
}

/// The reasons why a message is not deleted.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum DeleteMessageError {
    #[error("There is no message with this id in a chat with that id.")]
    NotFound,
    #[error("A run of this chat is open; wait until it is over, or stop it.")]
    RunOpen,
    #[error(transparent)]
    #[serde(untagged)]
    Unavailable(#[from] Unavailable),
}

/// The reasons why a chat's plan is not dropped.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum PlanError {
    #[error("There is no chat with this id.")]
    NotFound,
    #[error("The chat has no open plan.")]
    NoPlan,
    #[error("A run of this chat is open; wait until it is over, or stop it.")]
    RunOpen,
    #[error(transparent)]
    #[serde(untagged)]
    Unavailable(#[from] Unavailable),
}

/// The reasons why a chat's summary is not written or changed.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum SummaryError {
    #[error("There is no chat with this id.")]
    NotFound,
    #[error("{0}")]
    NoSuchAssistant(String),
    #[error("The chat has no summary.")]
    NoSummary,
    #[error("A run of this chat is open; wait until it is over, or stop it.")]
    RunOpen,
    #[error("The chat has nothing to summarize: its recent messages are kept as they are.")]
    NothingToCompact,
    #[error(
        "The model gave no summary, and the chat stays as it was. Try again, or have the operator look into the log."
    )]
    NotWritten,
    #[error(
        "Too many requests to models are under way (model_requests_per_owner, max_model_requests); try again in a moment."
    )]
    NoModelRequest,
    #[error(transparent)]
    #[serde(untagged)]
    Unavailable(#[from] Unavailable),
}

impl AnswerError {
    /// Returns the error for an answer to a call whose tool has changed since the call was shown.
    pub(crate) fn tool_changed(call: &ToolCallId, tool: &str) -> Self {
        Self::ToolChanged(format!(
            "The tool {tool} has changed since the call {call} was shown, so the call does not run. Look at it again, and answer its newest \
             approval request by its approvalId."
        ))
    }

    /// Returns the error for a chat that does not exist, or belongs to another user.
    pub(crate) fn no_such_chat() -> Self {
        Self::NotFound("There is no chat with this id.".into())
    }
}

impl From<NoSuchAssistant> for SubmitError {
    fn from(error: NoSuchAssistant) -> Self {
        match error {
            NoSuchAssistant::Unknown(words) => Self::Invalid(words),
            NoSuchAssistant::UnknownOrHidden(words) => Self::NoSuchAssistant(words),
        }
    }
}

impl From<NoSuchAssistant> for SummaryError {
    fn from(error: NoSuchAssistant) -> Self {
        Self::NoSuchAssistant(error.to_string())
    }
}

impl SubmitError {
    /// Returns the error for a post that asks for nothing.
    pub(crate) fn nothing_new() -> Self {
        Self::NothingToContinue(
            "The post holds no new message and no answer to a call that waits, so there is nothing to go on with.".into(),
        )
    }
}

/// An error of a request to a chat, which may be an error of the store.
pub(crate) trait RequestError: From<Unavailable> + From<StoreError> {
    /// Returns the store's error, if that is what made the chat unavailable.
    fn store(&self) -> Option<&StoreError>;

    /// Returns the error of a request that an earlier attempt may have made. An error that says that nothing was done, or that follows from
    /// the earlier attempt, becomes one that says that the outcome is not known.
    fn after_unknown_attempt(self) -> Self;
}

macro_rules! request_error {
    ($($error:ident: $unknown:pat,)*) => {$(
        impl From<StoreError> for $error {
            fn from(error: StoreError) -> Self {
                Self::Unavailable(Unavailable::Store(error))
            }
        }

        impl RequestError for $error {
            fn store(&self) -> Option<&StoreError> {
                if let Self::Unavailable(Unavailable::Store(error)) = self { Some(error) } else { None }
            }

            fn after_unknown_attempt(self) -> Self {
                if matches!(self, $unknown) { Unavailable::OutcomeUnknown.into() } else { self }
            }
        }
    )*};
}

request_error! {
    AnswerError: Self::Unavailable(_),
    CallError: Self::Unavailable(_),
    // An attempt before may have deleted it.
    DeleteMessageError: Self::Unavailable(_) | Self::NotFound,
    // An attempt before may have dropped it.
    PlanError: Self::Unavailable(_) | Self::NoPlan,
    ReadError: Self::Unavailable(_),
    // A message that was answered already has nothing to continue.
    SubmitError: Self::Unavailable(_) | Self::NothingToContinue(_),
    SummaryError: Self::Unavailable(_),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instances of two versions run side by side while a new one is rolled out, so the form that older ones read stays.
    #[test]
    fn errors_between_instances_keep_the_form_that_older_versions_read() {
        let errors = [
            (SubmitError::Unavailable(Unavailable::ShuttingDown), r#""ShuttingDown""#),
            (SubmitError::Unavailable(Unavailable::Busy), r#""Busy""#),
            (SubmitError::Unavailable(Unavailable::Unreachable), r#""Unreachable""#),
            (SubmitError::Unavailable(Unavailable::OutcomeUnknown), r#""OutcomeUnknown""#),
            (SubmitError::from(StoreError::Fenced), r#"{"Store":"Fenced"}"#),
            (SubmitError::NotFound, r#""NotFound""#),
            (SubmitError::TooManyRuns(3), r#"{"TooManyRuns":3}"#),
        ];
        for (error, json) in errors {
            assert_eq!(serde_json::to_string(&error).unwrap(), json);
            let read: SubmitError = serde_json::from_str(json).unwrap();
            assert_eq!(format!("{read:?}"), format!("{error:?}"));
        }
    }
}
