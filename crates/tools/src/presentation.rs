//! A tool's statements about itself and one input: the presentation of a call, and whether a person has to be asked about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scope::Scope;

/// The limit on a tool's title, in bytes.
pub(crate) const LONGEST_TITLE: usize = 200;
/// The limit on the description of a call, in bytes.
pub(crate) const LONGEST_DESCRIPTION: usize = 300;
/// The limit on the label of a scope and on its description, in bytes.
pub(crate) const LONGEST_SCOPE: usize = 300;
/// The limit on the id of a scope, in bytes. A longer id is no scope, because a part of it may be that of another.
pub(crate) const LONGEST_SCOPE_ID: usize = 4_200;
/// The limit on each text of the details, in bytes.
pub(crate) const LONGEST_DETAIL: usize = 64 * 1024;

/// The presentation of a call to a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Presentation {
    /// The title of the tool. The title of an MCP tool is the server's own text, and may say anything.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// The name in the settings of the MCP server that offers the tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<String>,
    /// The call in words, such as `Write the note “milk”`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub description: Option<String>,
    /// The effect that the call would have.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub details: Option<CallDetails>,
    /// The possible scopes of "always" for the call, the narrowest first. It is empty if the call cannot be allowed for always.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub scopes: Vec<Scope>,
}

/// The effect that a call would have, for the person who is asked about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CallDetails {
    /// The call changes a text.
    Edit {
        /// The thing that is changed, such as the path of a file.
        text: String,
        /// The text before the call; empty if the call creates it.
        before: String,
        /// The text after the call; empty if the call deletes it.
        after: String,
    },
    /// The call runs a command.
    Run {
        /// The command.
        text: String,
    },
    /// The call sends something to somebody else.
    Send {
        /// The message and its receiver.
        text: String,
    },
    /// Anything else that the person should know.
    Info {
        /// The text.
        text: String,
    },
}

/// A tool's own answer to the question whether a person has to be asked about an input. It comes before the rules, which may be stricter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirm {
    /// The tool leaves the question to the rules, and to its own policy if none of them matches.
    ByPolicy(Option<CallDetails>),
    /// Nobody has to be asked about this input, unless a rule demands it.
    Allow,
    /// A person has to be asked about this input. Neither a rule that allows the call nor an earlier "always" replaces the answer; only the
    /// approval mode `auto` does.
    Ask(CallDetails),
    /// The call must not run with this input, for this reason. Nobody is asked.
    Deny(String),
}

// === impl Presentation ===

impl Presentation {
    /// Returns whether there is nothing to present but the tool's name and the input.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

// === impl CallDetails ===

impl CallDetails {
    /// Cuts each text that is too long.
    pub(crate) fn clip(&mut self) {
        match self {
            Self::Edit { text, before, after } => {
                for text in [text, before, after] {
                    clip(text, LONGEST_DETAIL);
                }
            }
            Self::Run { text } | Self::Send { text } | Self::Info { text } => clip(text, LONGEST_DETAIL),
        }
    }
}

// === impl Confirm ===

impl Default for Confirm {
    fn default() -> Self {
        Self::ByPolicy(None)
    }
}

/// Cuts a text that has more than this many bytes.
pub(crate) fn clip(text: &mut String, limit: usize) {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.push('…');
    }
}
