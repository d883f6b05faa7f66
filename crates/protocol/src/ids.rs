//! Identifiers, one type each, so that a call's id cannot be passed where a chat's is wanted.
//!
//! Only a chat's id is restricted, because it stands in paths; the others are taken as clients send them.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            /// Wraps an id as it was given.
            pub fn new(id: impl Into<Box<str>>) -> Self {
                Self(id.into())
            }

            /// The id as text.
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
    /// A chat. Checked by [`ChatId::parse`] wherever it comes from outside.
    ChatId
}
id! {
    /// A message, user's or assistant's; unique within its chat.
    MessageId
}
id! {
    /// A run: one assistant message being made. Also names its stream and prefixes its event ids.
    RunId
}
id! {
    /// A tool call. Fermata makes its own, because providers leave ids out and repeat them.
    ToolCallId
}
id! {
    /// A question put to a person about one call.
    ApprovalId
}
id! {
    /// A question that a running call puts to a person.
    ElicitationId
}

/// A chat id outside the allowed form.
#[derive(Debug, thiserror::Error)]
#[error(
    "a chat id is 1 to 128 characters of A-Z, a-z, 0-9, '_', '.', ':' and '-', and not \".\", \"..\" or \"tool-result\""
)]
pub struct InvalidId;

/// What would be an id if `/api/chat/{id}` could lead to it: clients fold the dots, and the last is a path of its own.
const UNREACHABLE: [&str; 3] = [".", "..", "tool-result"];

impl ChatId {
    /// Checks the form that the HTTP contract gives to a chat's id.
    ///
    /// # Errors
    /// [`InvalidId`] if it is empty, longer than 128 characters, has any other character, or cannot stand in a path.
    pub fn parse(id: &str) -> Result<Self, InvalidId> {
        if UNREACHABLE.contains(&id) { Err(InvalidId) } else { Self::parse_listed(id) }
    }

    /// The same for a chat that a list has shown: earlier builds made chats to which no path leads, and lists still have them.
    ///
    /// # Errors
    /// [`InvalidId`] if it is empty, longer than 128 characters, or has any other character.
    pub fn parse_listed(id: &str) -> Result<Self, InvalidId> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
        let is_fit = (1..=128).contains(&id.len()) && id.bytes().all(allowed);
        if is_fit { Ok(Self::new(id)) } else { Err(InvalidId) }
    }
}
