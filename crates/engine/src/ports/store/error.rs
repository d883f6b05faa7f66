//! The errors of the store's operations.

use serde::{Deserialize, Serialize};

/// The reason why an operation of the store failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum StoreError {
    /// The store cannot be reached or has failed, and has changed nothing; trying again may help. The text is for the operator.
    #[error("the database failed: {0}")]
    Unavailable(String),
    /// The store failed before it confirmed a change, which may have been made. The text is for the operator.
    #[error("the database failed, and whether it has made the change is not known: {0}")]
    Unclear(String),
    /// The store holds something that cannot be read. The text is for the operator.
    #[error("the database holds something unreadable: {0}")]
    Corrupt(String),
    /// A change does not fit the stored state: there is no such chat or run, a run is open already, or a log would get a gap. Nothing was
    /// changed, and trying again will not help. The text is for the operator.
    #[error("a change does not fit what is stored: {0}")]
    Conflict(String),
    /// Another instance has written to the chat since it was read. Nothing was changed; the caller can read the chat again and go on.
    #[error("the chat has been changed by another instance")]
    Fenced,
    /// The `before` of a list is not the `next` of any page.
    #[error("No page of chats begins there; send the `next` of the page before.")]
    BadCursor,
}
