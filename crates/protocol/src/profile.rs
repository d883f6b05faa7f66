//! What each client version may be sent, and what it shows of it.
//!
//! The tables are those of the oldest clients in use: a chunk or field that one of them refuses would end its chat. The two
//! halves agree: folding [`Profile::chunk`] of every chunk as a client does gives [`Profile::message`] of the record.

mod chunk;
mod message;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{ApprovalId, ToolCallId, UiChunk, UiMessage};

/// Versions of the AI SDK that may be sent the same, as the oldest of them that is in use understands the stream.
///
/// In JSON a profile is its major version as a number, or, if it begins within one, its first version as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Version", into = "Version")]
pub enum Profile {
    /// 5.x: no approvals, no denials, unknown keys refused.
    V5,
    /// 6.x.
    V6,
    /// 7.x before 7.0.82.
    V7,
    /// 7.x from 7.0.82 on: knows why a person is asked.
    V7_0_82,
}

/// The profiles with the first version of each: major, minor, patch. In order.
const SINCE: [(Profile, [u64; 3]); 4] = [
    (Profile::V5, [5, 0, 0]),
    (Profile::V6, [6, 0, 0]),
    (Profile::V7, [7, 0, 0]),
    (Profile::V7_0_82, [7, 0, 82]),
];

/// A version as JSON has it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Version {
    Major(u8),
    Whole(String),
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

/// What the data chunk and part say of a question.
fn question_data(approval: &ApprovalId, call: &ToolCallId, tool: &str, reason: Option<&str>) -> Value {
    let mut data = json!({ "approvalId": approval, "toolCallId": call, "toolName": tool });
    if let Some(reason) = reason {
        data["reason"] = reason.into();
    }
    data
}

impl Profile {
    /// All of them, oldest first.
    pub const ALL: [Self; 4] = [Self::V5, Self::V6, Self::V7, Self::V7_0_82];

    /// What [`Profile::of_version`] takes, for messages about what it does not.
    pub const VERSIONS: &str = "5, 6, 7 or a whole version such as \"7.0.173\"";

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

impl Profile {
    /// The profile of a client of this version of the AI SDK: `7`, which is the oldest of its major version, or `7.0.173`. What stands
    /// behind a hyphen or a plus, as in a canary's version, is not looked at: such a client counts as the oldest of its major version.
    ///
    /// # Errors
    /// What is served.
    pub fn of_version(version: &str) -> Result<Self, String> {
        let wrong = || format!("client version {version:?} is not served; use {}", Self::VERSIONS);
        let (release, is_preview) = match version.split_once(['-', '+']) {
            Some((release, _)) => (release, true),
            None => (version, false),
        };
        let number = |part: &str| {
            let is_plain =
                part.len() <= 9 && !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u64>().ok().filter(|_| is_plain)
        };
        let parts: Option<Vec<u64>> = release.split('.').map(number).collect();
        let known = match parts.as_deref() {
            Some([major, _, _]) if is_preview => [*major, 0, 0],
            Some([major]) if !is_preview => [*major, 0, 0],
            Some([major, minor, patch]) => [*major, *minor, *patch],
            Some(_) | None => return Err(wrong()),
        };
        let found = SINCE.iter().rev().find(|(_, since)| since[0] == known[0] && *since <= known);
        found.map(|(profile, _)| *profile).ok_or_else(wrong)
    }

    /// The major version.
    pub fn major(self) -> u8 {
        match self {
            Self::V5 => 5,
            Self::V6 => 6,
            Self::V7 | Self::V7_0_82 => 7,
        }
    }

    /// The first version, for a profile that begins within a major version.
    pub fn release(self) -> Option<&'static str> {
        match self {
            Self::V5 | Self::V6 | Self::V7 => None,
            Self::V7_0_82 => Some("7.0.82"),
        }
    }
}

impl TryFrom<u8> for Profile {
    type Error = String;

    fn try_from(version: u8) -> Result<Self, String> {
        Self::of_version(&version.to_string())
    }
}

impl TryFrom<Version> for Profile {
    type Error = String;

    fn try_from(version: Version) -> Result<Self, String> {
        match version {
            Version::Major(major) => Self::try_from(major),
            Version::Whole(version) => Self::of_version(&version),
        }
    }
}

impl From<Profile> for Version {
    fn from(profile: Profile) -> Self {
        match profile.release() {
            Some(release) => Self::Whole(release.to_owned()),
            None => Self::Major(profile.major()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_belongs_to_the_last_profile_that_began_before_it() {
        for (version, profile) in [
            ("5", Profile::V5),
            ("6", Profile::V6),
            ("7", Profile::V7),
            ("5.0.277", Profile::V5),
            ("6.99.0", Profile::V6),
            ("7.0.81", Profile::V7),
            ("7.0.82", Profile::V7_0_82),
            ("7.0.173", Profile::V7_0_82),
            ("7.1.0", Profile::V7_0_82),
            ("7.0.100-canary.3", Profile::V7),
        ] {
            assert_eq!(Profile::of_version(version), Ok(profile), "{version}");
        }
        for version in
            ["", "4", "8", "8.0.0", "7.0", "7.0.0.1", "v7", "7.0.x", " 7", "7.0.", "7-x", "7.0.9999999999"]
        {
            let refused = Profile::of_version(version).expect_err(version);
            assert!(refused.contains("5, 6, 7 or a whole version"), "{refused}");
        }
    }

    #[test]
    fn a_profile_is_a_number_in_json_unless_it_begins_within_a_major_version() {
        for (profile, json) in [(Profile::V5, "5"), (Profile::V7, "7"), (Profile::V7_0_82, "\"7.0.82\"")] {
            assert_eq!(serde_json::to_string(&profile).expect("JSON"), json);
            assert_eq!(serde_json::from_str::<Profile>(json).expect("a profile"), profile);
        }
    }
}
