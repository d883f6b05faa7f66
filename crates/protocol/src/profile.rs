//! What each client version may be sent, and what it shows of it.
//!
//! The tables are those of the oldest clients in use: a chunk or field that one of them refuses would end its chat. The two
//! halves agree: folding [`Profile::chunk`] of every chunk as a client does gives [`Profile::message`] of the record.

mod chunk;
mod message;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{UiChunk, UiMessage};

/// A major version of the AI SDK, as the oldest client of it that is in use understands the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Profile {
    /// 5.x: no approvals, no denials, unknown keys refused.
    V5,
    /// 6.x.
    V6,
    /// 7.x.
    V7,
}

/// What a call's denial is called where there are no denials (version 5), and in the model's words.
pub fn denial_text(reason: Option<&str>) -> String {
    match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("Denied: {reason}"),
        None => "Denied: the call was not approved.".to_owned(),
    }
}

/// What a denial chunk says; one without words says only that it is a denial.
pub(crate) fn denial_text_of(error_text: &str) -> Cow<'_, str> {
    if error_text.is_empty() { denial_text(None).into() } else { error_text.into() }
}

/// The type of the data chunk and part that shows a question to version 5.
pub(crate) const DATA_TOOL_APPROVAL: &str = "data-tool-approval";

impl Profile {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::V5, Self::V6, Self::V7];

    /// The chunk as this version may see it; `None` where it must not.
    pub fn chunk<'a>(self, chunk: &'a UiChunk) -> Option<Cow<'a, UiChunk>> {
        chunk::shown(self, chunk)
    }

    /// The message as a client of this version shows it after it has read the stream in this profile.
    pub fn message(self, message: &UiMessage) -> UiMessage {
        let parts = message::shown(self, &message.parts);
        UiMessage { id: message.id.clone(), role: message.role, metadata: message.metadata.clone(), parts }
    }
}

impl TryFrom<u8> for Profile {
    type Error = String;

    fn try_from(version: u8) -> Result<Self, String> {
        match version {
            5 => Ok(Self::V5),
            6 => Ok(Self::V6),
            7 => Ok(Self::V7),
            other => Err(format!("client version {other} is not served; use 5, 6 or 7")),
        }
    }
}

impl From<Profile> for u8 {
    fn from(profile: Profile) -> u8 {
        match profile {
            Profile::V5 => 5,
            Profile::V6 => 6,
            Profile::V7 => 7,
        }
    }
}
