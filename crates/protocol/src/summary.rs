//! Summaries of chats, and the requests about them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A summary of the earlier messages of a chat. Fields that a request leaves out are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Summary {
    /// The goal of the user.
    pub goal: String,
    /// The decisions.
    pub decisions: Vec<String>,
    /// The finished work.
    pub done: Vec<String>,
    /// The open work.
    pub todo: Vec<String>,
    /// The known facts.
    pub facts: Vec<String>,
    /// Names, numbers, dates, addresses and the like, by their meaning.
    pub entities: BTreeMap<String, String>,
    /// The questions without an answer yet.
    pub open_questions: Vec<String>,
    /// The tools that were used.
    pub tools_used: Vec<String>,
}

/// The reason why a summary is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SummaryReason {
    /// The chat has many messages that no summary covers.
    Every,
    /// The chat has come near the size of the model's window.
    Size,
    /// The provider has refused a request for its length.
    Overflow,
    /// Somebody has asked for it.
    Asked,
}

impl SummaryReason {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Every => "every",
            Self::Size => "size",
            Self::Overflow => "overflow",
            Self::Asked => "asked",
        }
    }
}
