//! The release since which the clients of each major version know a chunk, a field or a value.
//!
//! This is the one table of the chunks that a client may be sent; [`super::chunk`] and [`super::message`] ask it. Its source are the npm
//! packages: `tests/real_clients` has releases on both sides of most rows read what they are sent. A client that is sent what
//! it does not know ends its chat with an error. A few releases accept fields that they do not show, which does not count.

use super::Profile;

/// The first patch release of each major version (`5.0.x`, `6.0.x`, `7.0.x`) that accepts something; `None` if none does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since {
    v5: Option<u32>,
    v6: Option<u32>,
    v7: Option<u32>,
    /// True if a client that names only its major version counts as one of its newest releases.
    is_usual: bool,
}

// === impl Since ===

impl Since {
    /// No release is sent it.
    const NEVER: Self = Self { v5: None, v6: None, v7: None, is_usual: false };

    const fn v5(v5: u32, v6: u32, v7: u32) -> Self {
        Self { v5: Some(v5), v6: Some(v6), v7: Some(v7), is_usual: false }
    }

    const fn v6(v6: u32, v7: u32) -> Self {
        Self { v5: None, v6: Some(v6), v7: Some(v7), is_usual: false }
    }

    const fn v7(v7: u32) -> Self {
        Self { v5: None, v6: None, v7: Some(v7), is_usual: false }
    }

    /// Returns whether clients of this version accept it.
    pub(crate) fn includes(self, profile: Profile) -> bool {
        let Profile { major, minor, patch } = profile;
        let first = match major {
            5 => self.v5,
            6 => self.v6,
            _ => self.v7,
        };
        first.is_some_and(|first| (minor, patch) >= (0, first) || (self.is_usual && (minor, patch) == (0, 0)))
    }
}

// Fields of calls, files and texts.
pub(crate) const TITLE: Since = Since::v6(0, 0);
pub(crate) const TOOL_METADATA: Since = Since::v6(176, 0);
pub(crate) const OUTPUT_PROVIDER_METADATA: Since = Since::v6(120, 0);
/// That of `tool-input-start` and `tool-input-error`.
pub(crate) const INPUT_PROVIDER_METADATA: Since = Since::v7(0);
pub(crate) const INPUT_ENCODING: Since = Since::NEVER;
pub(crate) const FILE_PROVIDER_METADATA: Since = Since::v6(0, 0);
pub(crate) const CITATIONS: Since = Since::v7(138);

// Approvals. Version 5 has none: a data part carries the request.
pub(crate) const APPROVAL_SIGNATURE: Since = Since::v6(202, 0);
pub(crate) const APPROVAL_IS_AUTOMATIC: Since = Since::v7(0);
pub(crate) const APPROVAL_REASON: Since = Since::v7(82);
pub(crate) const APPROVAL_DESCRIPTOR: Since = Since::v7(87);
pub(crate) const APPROVAL_SCHEMA_INPUT: Since = Since::v7(113);
pub(crate) const APPROVAL_RESPONSE: Since = Since::v7(0);

// How a message ends.
pub(crate) const FINISH_REASON: Since = Since::v5(92, 0, 0);
pub(crate) const FINISH_INTERRUPTED: Since = Since::v7(149);
pub(crate) const ABORT_REASON: Since = Since::v5(217, 15, 0);

// Chunks and parts that older clients do not have.
pub(crate) const CUSTOM: Since = Since::v7(0);
pub(crate) const REASONING_FILE: Since = Since::v7(0);
/// Clients that call themselves just 7 were always sent it. Without it their streams would end with an error.
pub(crate) const RESET_STEP: Since = Since { is_usual: true, ..Since::v7(70) };
pub(crate) const STEERING_MESSAGE: Since = Since::v7(154);
