//! The owner of a chat.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of the user that a chat, its runs and its notes belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Owner(Box<str>);

// === impl Owner ===

impl Owner {
    /// Creates an owner from a user name.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the owner that all chats belong to on a server without authentication.
    pub fn anyone() -> Self {
        Self::new("anyone")
    }

    /// Returns the user name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A user who makes a request, with the groups that the user is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The user.
    pub user: Owner,
    /// The names of the groups.
    pub groups: Vec<String>,
}

impl From<Owner> for Principal {
    /// Returns a user without groups.
    fn from(user: Owner) -> Self {
        Self { user, groups: Vec::new() }
    }
}
