//! Identifiers. Each kind has its own type, so that a call's id cannot be passed instead of a chat's.
//!
//! Only a chat's id has a restricted form, because it is part of URL paths. The others are used as clients send them.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            /// Wraps an id without any check.
            pub fn new(id: impl Into<Box<str>>) -> Self {
                Self(id.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id! {
    /// The id of a chat. An id that comes from a client must be checked with [`ChatId::parse`].
    ChatId
}
id! {
    /// The id of a message. It is unique within its chat.
    MessageId
}
id! {
    /// The id of a run, which produces one assistant message. It also names the run's stream and starts its event ids.
    RunId
}
id! {
    /// The id of a tool call. Fermata generates these ids itself, because providers omit or repeat theirs.
    ToolCallId
}
id! {
    /// The id of an approval request, which asks a person whether a call may run.
    ApprovalId
}
id! {
    /// The id of an elicitation, which is a question that a running call puts to a person.
    ElicitationId
}

/// The error for a chat id that does not have the allowed form.
#[derive(Debug, thiserror::Error)]
#[error(
    "a chat id is 1 to 128 characters of A-Z, a-z, 0-9, '_', '.', ':' and '-', and not \".\", \"..\" or \"tool-result\""
)]
pub struct InvalidId;

/// Ids that have the allowed characters but cannot be used in `/api/chat/{id}`: clients resolve the dots, and
/// `tool-result` is another route.
const UNREACHABLE: [&str; 3] = [".", "..", "tool-result"];

impl ChatId {
    /// Checks that an id has the form that the HTTP contract requires.
    ///
    /// # Errors
    /// Returns [`InvalidId`] if the id is empty, is longer than 128 characters, has a character that is not allowed, or
    /// cannot be used in a path.
    pub fn parse(id: &str) -> Result<Self, InvalidId> {
        let is_valid = (1..=128).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
            && !UNREACHABLE.contains(&id);
        if is_valid { Ok(Self::new(id)) } else { Err(InvalidId) }
    }
}
