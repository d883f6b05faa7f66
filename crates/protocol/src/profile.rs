//! Client profiles: which chunks the clients of a version may be sent, and how they show messages.
//!
//! The rules follow the oldest clients in use, because a chunk or field that a client refuses ends its chat.
//!
//! Invariant: a client that folds [`Profile::chunk`] of every chunk shows [`Profile::message`] of the stored message.

mod chunk;
mod message;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{ApprovalId, ToolCallId, UiChunk, UiMessage};

/// A range of AI SDK versions that get identical streams. The streams are those that the oldest version in use understands.
///
/// In JSON a profile is its major version as a number, or its first version as a string if it does not start with a major
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Version", into = "Version")]
pub enum Profile {
    /// 5.x. These clients know neither approvals nor denials, and refuse unknown keys.
    V5,
    /// 6.x.
    V6,
    /// 7.x before 7.0.82.
    V7,
    /// 7.x from 7.0.82 on. These clients accept the reason for which an approval is requested.
    V7_0_82,
}

/// The first version (major, minor, patch) of each profile, oldest first.
const FIRST_VERSIONS: [(Profile, [u64; 3]); 4] = [
    (Profile::V5, [5, 0, 0]),
    (Profile::V6, [6, 0, 0]),
    (Profile::V7, [7, 0, 0]),
    (Profile::V7_0_82, [7, 0, 82]),
];

/// A version of the AI SDK: a major version, which means the oldest of it, or a whole version.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Version {
    Major(u8),
    Whole(String),
}

/// Returns the text of a denied call. It is the tool result for the model, and the call's error for version 5, which knows
/// no denials.
pub fn denial_text(reason: Option<&str>) -> String {
    match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) => format!("Denied: {reason}"),
        None => "Denied: the call was not approved.".to_owned(),
    }
}

/// Returns the text of a denial chunk, or the text of a denial without a reason if the chunk has none.
pub(crate) fn denial_text_of(error_text: &str) -> Cow<'_, str> {
    if error_text.is_empty() { denial_text(None).into() } else { error_text.into() }
}

/// The type of the data chunk and data part that show an approval request to version 5.
pub(crate) const DATA_TOOL_APPROVAL: &str = "data-tool-approval";

/// Returns the data of the chunk or part that shows an approval request to version 5.
fn approval_data(approval: &ApprovalId, call: &ToolCallId, tool: &str, reason: Option<&str>) -> Value {
    let mut data = json!({ "approvalId": approval, "toolCallId": call, "toolName": tool });
    if let Some(reason) = reason {
        data["reason"] = reason.into();
    }
    data
}

impl Profile {
    /// All profiles, oldest first.
    pub const ALL: [Self; 4] = [Self::V5, Self::V6, Self::V7, Self::V7_0_82];

    /// The versions that [`Profile::of_version`] accepts, for error messages.
    pub const VERSIONS: &str = "5, 6, 7 or a whole version such as \"7.0.173\"";

    /// Returns the chunk as clients of this profile may be sent it, or `None` if they must not be sent it.
    pub fn chunk<'a>(self, chunk: &'a UiChunk) -> Option<Cow<'a, UiChunk>> {
        chunk::client_view(self, chunk)
    }

    /// Returns the message as a client of this profile shows it after it has read the stream.
    pub fn message(self, message: &UiMessage) -> UiMessage {
        let parts = message::client_view(self, &message.parts);
        UiMessage { id: message.id.clone(), role: message.role, metadata: message.metadata.clone(), parts }
    }

    /// Returns the profile of an AI SDK version, such as `7` or `7.0.173`.
    ///
    /// A bare major version counts as the oldest release of that major version. So does a version with a hyphen or a plus,
    /// such as a canary's.
    ///
    /// # Errors
    /// Returns a message that names the accepted versions if the text is not one of them.
    pub fn of_version(version: &str) -> Result<Self, String> {
        let newest_reached = parse_version(version).and_then(|numbers| {
            FIRST_VERSIONS.iter().rev().find(|(_, first)| first[0] == numbers[0] && *first <= numbers)
        });
        match newest_reached {
            Some((profile, _)) => Ok(*profile),
            None => Err(format!("client version {version:?} is not served; use {}", Self::VERSIONS)),
        }
    }

    /// Returns the major version.
    pub fn major(self) -> u8 {
        match self {
            Self::V5 => 5,
            Self::V6 => 6,
            Self::V7 | Self::V7_0_82 => 7,
        }
    }

    /// Returns the first version of a profile that does not start with a major version, and `None` for the others.
    pub fn release(self) -> Option<&'static str> {
        match self {
            Self::V5 | Self::V6 | Self::V7 => None,
            Self::V7_0_82 => Some("7.0.82"),
        }
    }
}

/// Reads a version as major, minor and patch. Returns `None` if it is not of a form that [`Profile::of_version`] accepts.
fn parse_version(version: &str) -> Option<[u64; 3]> {
    let (release, is_preview) = match version.split_once(['-', '+']) {
        Some((release, _)) => (release, true),
        None => (version, false),
    };
    let numbers: Vec<u64> = release.split('.').map(parse_number).collect::<Option<_>>()?;
    match numbers.as_slice() {
        [major] if !is_preview => Some([*major, 0, 0]),
        [major, _, _] if is_preview => Some([*major, 0, 0]),
        [major, minor, patch] => Some([*major, *minor, *patch]),
        _ => None,
    }
}

/// Reads a number of at most nine digits. Unlike `str::parse` it refuses a sign.
fn parse_number(text: &str) -> Option<u64> {
    if text.len() > 9 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
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
    fn a_version_belongs_to_the_newest_profile_that_is_not_newer_than_it() {
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
            let error = Profile::of_version(version).expect_err(version);
            assert!(error.contains("5, 6, 7 or a whole version"), "{error}");
        }
    }

    #[test]
    fn a_profile_is_a_number_in_json_if_it_starts_with_a_major_version() {
        for (profile, json) in [(Profile::V5, "5"), (Profile::V7, "7"), (Profile::V7_0_82, "\"7.0.82\"")] {
            assert_eq!(serde_json::to_string(&profile).expect("JSON"), json);
            assert_eq!(serde_json::from_str::<Profile>(json).expect("a profile"), profile);
        }
    }
}
