//! Why something asked of a chat is not done, in sentences for whoever asked.

use fermata_tools::StateName;

use crate::store::StoreError;

/// Why a post starts nothing.
#[derive(Debug, thiserror::Error)]
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
    #[error("As many runs of yours are open as may be ({0}); stop one, or wait for one to end.")]
    TooManyRuns(usize),
    #[error("The server is shutting down; try again in a moment.")]
    ShuttingDown,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an answer is not taken. None of a batch is, then.
#[derive(Debug, thiserror::Error)]
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
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a chat cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum ReadError {
    #[error("There is no chat with this id.")]
    NotFound,
    #[error("The server is shutting down; try again in a moment.")]
    ShuttingDown,
    #[error(transparent)]
    Store(#[from] StoreError),
}
