//! What people said about calls, and what follows from all of it.
//!
//! Confirmations are a history: they are added and never changed. What is allowed now is derived from the whole
//! history, here and nowhere else; a store keeps answers and knows nothing of their effect.

use std::collections::BTreeSet;

use fermata_protocol::ToolCallId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Call, Decided, Owner};

/// One answer of a person about one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmation {
    /// The tool that was called.
    pub tool: String,
    /// Which call.
    pub call: ToolCallId,
    /// What the person answered.
    pub answer: Consent,
    /// Who answered.
    pub by: Owner,
    /// When, to the microsecond.
    pub at: Timestamp,
    /// What the person said about it.
    pub reason: Option<String>,
    /// The input that was decided about: the edited one, where the person edited it.
    pub input: Value,
}

/// What a person answers to the question whether a call may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// This call may.
    Yes,
    /// This call may, and so may all later calls of its tool in the chat.
    YesAlways,
    /// It may not.
    No,
}

/// The tools that are allowed after this history of a chat, in the order in which it happened: each from the first
/// [`Consent::YesAlways`] about it on. No other answer changes anything for later calls.
pub fn always_allowed(history: &[Confirmation]) -> BTreeSet<String> {
    let allowing = history.iter().filter(|confirmation| confirmation.answer.allows_later_calls());
    allowing.map(|confirmation| confirmation.tool.clone()).collect()
}

// === impl Confirmation ===

impl Confirmation {
    /// What was decided about a call; `None` where nothing was.
    pub fn of(call: &Call, by: Owner, at: Timestamp) -> Option<Self> {
        let decided = call.decided.as_ref()?;
        Some(Self {
            tool: call.tool.clone(),
            call: call.id.clone(),
            answer: decided.into(),
            by,
            at: Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at),
            reason: decided.reason.clone(),
            input: call.effective_input().clone(),
        })
    }
}

// === impl Consent ===

impl Consent {
    fn allows_later_calls(self) -> bool {
        match self {
            Self::YesAlways => true,
            Self::Yes | Self::No => false,
        }
    }
}

impl From<&Decided> for Consent {
    fn from(decided: &Decided) -> Self {
        match (decided.approved, decided.always) {
            (true, true) => Self::YesAlways,
            (true, false) => Self::Yes,
            // Nobody is spared a question by having said no.
            (false, _) => Self::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::RunBy;

    fn said(tool: &str, answer: Consent) -> Confirmation {
        Confirmation {
            tool: tool.into(),
            call: ToolCallId::new("c"),
            answer,
            by: Owner::anyone(),
            at: Timestamp::UNIX_EPOCH,
            reason: None,
            input: Value::Null,
        }
    }

    fn allowed(history: &[(&str, Consent)]) -> Vec<String> {
        let history: Vec<_> = history.iter().map(|(tool, answer)| said(tool, *answer)).collect();
        always_allowed(&history).into_iter().collect()
    }

    #[test]
    fn a_tool_is_allowed_from_a_yes_for_always_on() {
        assert_eq!(allowed(&[]), [""; 0]);
        assert_eq!(allowed(&[("b", Consent::YesAlways), ("a", Consent::YesAlways)]), ["a", "b"]);
    }

    #[test]
    fn a_plain_yes_or_no_changes_nothing_before_or_after() {
        assert_eq!(allowed(&[("a", Consent::Yes), ("a", Consent::No)]), [""; 0]);
        for plain in [Consent::Yes, Consent::No] {
            assert_eq!(allowed(&[("a", plain), ("a", Consent::YesAlways)]), ["a"]);
            assert_eq!(allowed(&[("a", Consent::YesAlways), ("a", plain)]), ["a"]);
        }
    }

    #[test]
    fn a_yes_for_always_covers_its_own_tool_only() {
        assert_eq!(allowed(&[("a", Consent::YesAlways), ("b", Consent::Yes)]), ["a"]);
    }

    #[test]
    fn a_confirmation_says_what_was_decided_about_which_input() {
        let at = Timestamp::from_nanosecond(1_999).unwrap();
        let mut call = Call::new(ToolCallId::new("c"), 1, "t".into(), Some(RunBy::Server), at);
        assert_eq!(Confirmation::of(&call, Owner::anyone(), at), None, "nothing was decided");
        call.input = json!(1);
        call.edited = Some(json!(2));
        for (approved, always, answer) in [
            (true, true, Consent::YesAlways),
            (true, false, Consent::Yes),
            (false, false, Consent::No),
            (false, true, Consent::No),
        ] {
            call.decided = Some(Decided { by: Owner::anyone(), approved, reason: Some("so".into()), always });
            let confirmation = Confirmation::of(&call, Owner::anyone(), at).unwrap();
            assert_eq!(confirmation.answer, answer);
            assert_eq!(confirmation.at, Timestamp::from_microsecond(1).unwrap());
            assert_eq!((confirmation.reason.as_deref(), confirmation.input), (Some("so"), json!(2)));
        }
    }
}
