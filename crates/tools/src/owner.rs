//! The owner of a chat, and the principals of requests.

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

/// The party that makes a request: a user, or the service of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The user, or the name of the channel.
    pub user: Owner,
    /// The names of the groups that the request has proved. Those of the settings are in [`People`](crate::People).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// `true` for the service of a channel, so that no user can have its name and be taken for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_channel: bool,
}

// === impl Principal ===

impl Principal {
    /// Returns the service of the channel of this name.
    pub fn channel(name: &str) -> Self {
        Self { user: Owner::new(format!("channel:{name}")), groups: Vec::new(), is_channel: true }
    }

    /// Returns whether this is the user.
    pub fn is_user(&self, user: &Owner) -> bool {
        !self.is_channel && self.user == *user
    }

    /// Returns whether both are the same party.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_channel == other.is_channel && self.user == other.user
    }
}

impl From<Owner> for Principal {
    /// Returns a user without groups.
    fn from(user: Owner) -> Self {
        Self { user, groups: Vec::new(), is_channel: false }
    }
}
