//! Why something asked of a chat is not done, in sentences for whoever asked.

use fermata_tools::StateName;
use serde::{Deserialize, Serialize};

use crate::store::StoreError;

/// Why a post starts nothing.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum SubmitError {
    #[error("{0}")]
    Invalid(String),
    #[error("There is no chat with this id.")]
    NotFound,
    #[error("{0}")]
    NothingToContinue(String),
    #[error("The tool name {0} is taken by a tool of the server; give the browser tool another name.")]
    ToolNameTaken(String),
    #[error("This run has no tool {name}. It has: {}.", known.join(", "))]
    UnknownTool { name: String, known: Vec<String> },
    #[error("{0}")]
    TooLarge(String),
    #[error(
        "As many runs of yours are open as may be ({0}, runs_per_owner); stop one, or wait for one to end."
    )]
    TooManyRuns(usize),
    #[error("You keep as many chats as may be ({0}, chats_per_owner); delete one.")]
    TooManyChats(usize),
    #[error(
        "Your chats have {bytes} bytes, and this would add {growth}; the limit is {limit} (bytes_per_owner). Delete a chat, or edit an \
         earlier message, which drops all that follows."
    )]
    TooManyBytes { bytes: usize, growth: usize, limit: usize },
    #[error("The server is shutting down; try again in a moment.")]
    ShuttingDown,
    #[error("This chat has as much to do as it can take; try again in a moment.")]
    Busy,
    #[error("Another instance has this chat and cannot be reached right now; try again in a moment.")]
    Away,
    #[error(
        "Another instance has this chat, and whether it has done this is not known; look at the chat before you send it again."
    )]
    Unclear,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an answer is not taken. None of a batch is, then.
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
    DeniedByPolicy(String),
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    TooLarge(String),
    #[error("The server is shutting down; try again in a moment.")]
    ShuttingDown,
    #[error("This chat has as much to do as it can take; try again in a moment.")]
    Busy,
    #[error("Another instance has this chat and cannot be reached right now; try again in a moment.")]
    Away,
    #[error(
        "Another instance has this chat, and whether it has done this is not known; look at the chat before you send it again."
    )]
    Unclear,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a chat cannot be read or changed.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum ReadError {
    #[error("There is no chat with this id.")]
    NotFound,
    #[error("The server is shutting down; try again in a moment.")]
    ShuttingDown,
    #[error("This chat has as much to do as it can take; try again in a moment.")]
    Busy,
    #[error("Another instance has this chat and cannot be reached right now; try again in a moment.")]
    Away,
    #[error(
        "Another instance has this chat, and whether it has done this is not known; look at the chat before you send it again."
    )]
    Unclear,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the three have in common.
pub(crate) trait Refused {
    fn shutting_down() -> Self;
    fn busy() -> Self;
    fn away() -> Self;
    fn unclear() -> Self;
    /// The database's error, where it is one.
    fn store(&self) -> Option<&StoreError>;
}

macro_rules! refused {
    ($($error:ident),*) => {$(
        impl Refused for $error {
            fn shutting_down() -> Self {
                Self::ShuttingDown
            }

            fn busy() -> Self {
                Self::Busy
            }

            fn away() -> Self {
                Self::Away
            }

            fn unclear() -> Self {
                Self::Unclear
            }

            fn store(&self) -> Option<&StoreError> {
                if let Self::Store(error) = self { Some(error) } else { None }
            }
        }
    )*};
}

refused!(AnswerError, ReadError, SubmitError);
