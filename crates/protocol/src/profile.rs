//! Client profiles: which chunks the clients of a version may be sent, and how they show messages.
//!
//! A chunk or field that a client refuses ends its chat, so each version is sent only what it knows ([`since`]).
//!
//! Invariant: a client that folds [`Profile::chunk`] of every chunk shows [`Profile::message`] of the stored message.

mod chunk;
mod message;
mod since;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{ApprovalId, ToolCallId, UiChunk, UiMessage};

/// The version of the AI SDK that a client has, which decides the form of everything that is sent to it.
///
/// In JSON a profile is a major version as a number, or a whole version as a string. A major version stands for its oldest
/// release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Version", into = "Version")]
pub struct Profile {
    major: u8,
    minor: u32,
    patch: u32,
}

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

/// The kind of the `custom` chunk and part with a provider's metadata of a step. They are stored, and no client is sent them.
pub const PROVIDER_METADATA: &str = "fermata.provider-metadata";

/// The type of the data chunk and data part that show an approval request to version 5.
pub(crate) const DATA_TOOL_APPROVAL: &str = "data-tool-approval";

/// Returns the data of the chunk or part that shows an approval request to version 5.
fn approval_data(
    approval: &ApprovalId,
    call: &ToolCallId,
    tool: &str,
    reason: Option<&str>,
    descriptor: Option<&Value>,
) -> Value {
    let mut data = match descriptor {
        Some(Value::Object(described)) => Value::Object(described.clone()),
        Some(_) | None => json!({}),
    };
    data["approvalId"] = json!(approval);
    data["toolCallId"] = json!(call);
    data["toolName"] = tool.into();
    if let Some(reason) = reason {
        data["reason"] = reason.into();
    }
    data
}

impl Profile {
    /// Any release of version 5. Its clients know neither approvals nor denials.
    pub const V5: Self = Self { major: 5, minor: 0, patch: 0 };
    /// Any release of version 6.
    pub const V6: Self = Self { major: 6, minor: 0, patch: 0 };
    /// Any release of version 7.
    pub const V7: Self = Self { major: 7, minor: 0, patch: 0 };

    /// The versions that [`Profile::of_version`] accepts, for error messages.
    pub const VERSIONS: &str = "5, 6, 7 or a whole version such as \"7.0.173\"";

    /// Returns the chunk as clients of this profile may be sent it, or `None` if they must not be sent it.
    pub fn chunk<'a>(self, chunk: &'a UiChunk) -> Option<Cow<'a, UiChunk>> {
        chunk::client_view(self, chunk)
    }

    /// Returns whether the clients of every version are sent the chunk as it is.
    pub(crate) fn all_are_sent(chunk: &UiChunk) -> bool {
        chunk::is_for_all(chunk)
    }

    /// Returns the message as a client of this profile shows it after it has read the stream.
    pub fn message(self, message: &UiMessage) -> UiMessage {
        let parts = message::client_view(self, &message.parts);
        UiMessage {
            id: message.id.clone(),
            role: message.role,
            metadata: message.metadata.clone(),
            created_at: message.created_at,
            parts,
        }
    }

    /// Returns the profile of an AI SDK version, such as `7` or `7.0.173`.
    ///
    /// A bare major version counts as the oldest release of that major version. So does a version with a hyphen or a plus,
    /// such as a canary's.
    ///
    /// # Errors
    /// Returns a message that names the accepted versions if the text is not one of them.
    pub fn of_version(version: &str) -> Result<Self, String> {
        match parse_version(version) {
            Some(profile) if (5..=7).contains(&profile.major) => Ok(profile),
            Some(_) | None => {
                Err(format!("client version {version:?} is not served; use {}", Self::VERSIONS))
            }
        }
    }

    /// Returns the major version.
    pub fn major(self) -> u8 {
        self.major
    }

    /// Returns the whole version, such as `7.0.173`; `None` if only the major version is known.
    pub fn release(self) -> Option<String> {
        let Self { major, minor, patch } = self;
        (minor > 0 || patch > 0).then(|| format!("{major}.{minor}.{patch}"))
    }

    /// Returns whether the client can take back the part of a step that it has read (`reset-step`).
    pub fn can_reset_step(self) -> bool {
        since::RESET_STEP.includes(self)
    }
}

/// Reads a version. Returns `None` if it is not of a form that [`Profile::of_version`] accepts.
fn parse_version(version: &str) -> Option<Profile> {
    let (release, is_preview) = match version.split_once(['-', '+']) {
        Some((release, _)) => (release, true),
        None => (version, false),
    };
    let numbers: Vec<u32> = release.split('.').map(parse_number).collect::<Option<_>>()?;
    let (major, minor, patch) = match numbers.as_slice() {
        [major] if !is_preview => (*major, 0, 0),
        [major, _, _] if is_preview => (*major, 0, 0),
        [major, minor, patch] => (*major, *minor, *patch),
        _ => return None,
    };
    Some(Profile { major: u8::try_from(major).ok()?, minor, patch })
}

/// Reads a number of at most nine digits. Unlike `str::parse` it refuses a sign.
fn parse_number(text: &str) -> Option<u32> {
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
            Some(release) => Self::Whole(release),
            None => Self::Major(profile.major),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_taken_as_it_is_and_a_major_version_or_a_preview_for_its_oldest_release() {
        for (version, profile) in [
            ("5", Profile::V5),
            ("6", Profile::V6),
            ("7", Profile::V7),
            ("5.0.277", Profile { major: 5, minor: 0, patch: 277 }),
            ("6.99.0", Profile { major: 6, minor: 99, patch: 0 }),
            ("7.0.0", Profile::V7),
            ("7.0.173", Profile { major: 7, minor: 0, patch: 173 }),
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
    fn a_major_version_is_a_number_in_json_and_a_release_a_string() {
        for (profile, json) in [
            (Profile::V5, "5"),
            (Profile::V7, "7"),
            (Profile { major: 7, minor: 0, patch: 82 }, "\"7.0.82\""),
        ] {
            assert_eq!(serde_json::to_string(&profile).expect("JSON"), json);
            assert_eq!(serde_json::from_str::<Profile>(json).expect("a profile"), profile);
        }
    }

    #[test]
    fn a_client_knows_what_its_own_major_version_has_had_since() {
        let knows =
            |since: since::Since, version: &str| since.includes(Profile::of_version(version).expect(version));
        for (since, known, unknown) in [
            (since::APPROVAL_REASON, ["7.0.82", "7.0.173", "7.1.0"], ["7.0.81", "7", "6.0.326"]),
            (since::RESET_STEP, ["7.0.70", "7.0.173", "7"], ["7.0.20", "6.0.326", "5"]),
            (since::FINISH_INTERRUPTED, ["7.0.149", "7.0.173", "7.2.0"], ["7.0.148", "7", "5.0.277"]),
            (since::ABORT_REASON, ["5.0.217", "6.0.15", "7"], ["5.0.216", "6.0.14", "5"]),
            (since::FINISH_REASON, ["5.0.92", "6", "7"], ["5.0.91", "5.0.0", "5"]),
        ] {
            for version in known {
                assert!(knows(since, version), "{version} knows {since:?}");
            }
            for version in unknown {
                assert!(!knows(since, version), "{version} does not know {since:?}");
            }
        }
    }
}
