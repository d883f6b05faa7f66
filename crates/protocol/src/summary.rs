//! Summaries of chats, and the requests about them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A summary of the earlier messages of a chat. What is left out of a request is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Summary {
    /// What the user wants to achieve.
    pub goal: String,
    /// What was decided.
    pub decisions: Vec<String>,
    /// What is done.
    pub done: Vec<String>,
    /// What is left to do.
    pub todo: Vec<String>,
    /// What is known.
    pub facts: Vec<String>,
    /// Names, numbers, dates, addresses and the like, by what they are.
    pub entities: BTreeMap<String, String>,
    /// What was asked and not answered yet.
    pub open_questions: Vec<String>,
    /// The tools that were used.
    pub tools_used: Vec<String>,
}

/// The reason for which a summary is written.
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
