//! What people said about calls, and what follows from all of it.
//!
//! Confirmations are a history: they are added and never changed, and what was allowed for always is taken back by one more fact. What is
//! allowed now is derived from the whole history, here and nowhere else; a store keeps answers and knows nothing of their effect.

use std::collections::BTreeMap;

use fermata_protocol::ToolCallId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ApprovalDecision, Call, Owner, RunBy, ToolSpec};

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
    /// What the tool was then, as [`ToolSpec::fingerprint`] has it, if the answer allows later calls. Earlier versions did not note it.
    pub fingerprint: Option<String>,
}

/// Somebody took back that a tool is allowed for always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantEnd {
    /// Which tool.
    pub tool: String,
    /// Who took it back.
    pub by: Owner,
    /// When, to the microsecond.
    pub at: Timestamp,
    /// How many confirmations of the chat came before.
    pub after: usize,
}

/// That later calls of a tool are allowed without a question, as long as it stays the tool that it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Since when.
    pub since: Timestamp,
    /// What the tool was then; `None` if that was not noted.
    pub fingerprint: Option<String>,
}

/// What is allowed for always in a chat, by the tool's name.
pub type Grants = BTreeMap<String, Grant>;

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

/// What is allowed for always after this history of a chat: each tool from the first [`Consent::YesAlways`] about it on, until it is taken
/// back. A tool that has become another one needs a new yes. No other answer changes anything for later calls.
pub fn grants(history: &[Confirmation], ends: &[GrantEnd]) -> Grants {
    let mut grants = Grants::new();
    let mut ends = ends.iter().peekable();
    for (place, confirmation) in history.iter().enumerate() {
        while let Some(end) = ends.next_if(|end| end.after <= place) {
            grants.remove(&end.tool);
        }
        if !confirmation.answer.allows_later_calls() {
            continue;
        }
        let grant = Grant { since: confirmation.at, fingerprint: confirmation.fingerprint.clone() };
        match grants.get(&confirmation.tool) {
            Some(known) if known.fingerprint == grant.fingerprint => {}
            Some(_) | None => _ = grants.insert(confirmation.tool.clone(), grant),
        }
    }
    for end in ends {
        grants.remove(&end.tool);
    }
    grants
}

// === impl Grant ===

impl Grant {
    /// That this tool, as it is, is allowed from now on.
    pub fn of(spec: &ToolSpec, at: Timestamp) -> Self {
        Self { since: microseconds(at), fingerprint: Some(spec.fingerprint()) }
    }

    /// Whether this tool is the one that was allowed. If it was not noted what the tool was, it is believed of the server's own tools, which
    /// change only with the program; what a page or an MCP server offers may have become anything.
    pub fn covers(&self, spec: &ToolSpec) -> bool {
        match &self.fingerprint {
            Some(fingerprint) => *fingerprint == spec.fingerprint(),
            None => spec.run_by == RunBy::Server,
        }
    }
}

/// The time as a store keeps it.
fn microseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

// === impl Confirmation ===

impl Confirmation {
    /// What was decided about a call; `None` where nothing was. `fingerprint` is that of its tool, if later calls are allowed.
    pub fn of(call: &Call, by: Owner, at: Timestamp, fingerprint: Option<String>) -> Option<Self> {
        let decided = call.approval_decision.as_ref()?;
        Some(Self {
            tool: call.tool.clone(),
            call: call.id.clone(),
            answer: decided.into(),
            by,
            at: microseconds(at),
            reason: decided.reason.clone(),
            input: call.effective_input().clone(),
            fingerprint,
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

impl From<&ApprovalDecision> for Consent {
    fn from(decided: &ApprovalDecision) -> Self {
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
            fingerprint: None,
        }
    }

    fn allowed(history: &[(&str, Consent)]) -> Vec<String> {
        let history: Vec<_> = history.iter().map(|(tool, answer)| said(tool, *answer)).collect();
        grants(&history, &[]).into_keys().collect()
    }

    fn spec(run_by: RunBy, description: &str) -> ToolSpec {
        ToolSpec {
            name: "t".into(),
            description: description.into(),
            input_schema: json!({"type": "object"}),
            run_by,
            server: None,
            policy: crate::Decision::Ask,
            resource: None,
            timeout: None,
            repeatable: false,
        }
    }

    #[test]
    fn what_was_taken_back_is_allowed_again_by_a_later_yes_for_always_only() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let yes = |seconds| Confirmation { at: at(seconds), ..said("a", Consent::YesAlways) };
        let end = |after| GrantEnd { tool: "a".into(), by: Owner::anyone(), at: at(9), after };
        let since = |history: &[Confirmation], ends: &[GrantEnd]| {
            grants(history, ends).get("a").map(|grant| grant.since)
        };
        assert_eq!(since(&[yes(1), yes(2)], &[]), Some(at(1)), "it was allowed already");
        assert_eq!(since(&[yes(1)], &[end(1)]), None);
        assert_eq!(since(&[yes(1), yes(2)], &[end(1)]), Some(at(2)));
        assert_eq!(since(&[yes(1), yes(2)], &[end(1), end(2)]), None);
        assert_eq!(since(&[yes(1), said("a", Consent::Yes)], &[end(1)]), None);
        let other = GrantEnd { tool: "b".into(), ..end(1) };
        assert_eq!(since(&[yes(1)], &[other]), Some(at(1)));
    }

    #[test]
    fn a_grant_covers_the_tool_as_it_was_and_an_old_one_only_the_servers_own() {
        let at = Timestamp::UNIX_EPOCH;
        let grant = Grant::of(&spec(RunBy::Mcp, "reads"), at);
        assert!(grant.covers(&spec(RunBy::Mcp, "reads")));
        for other in [
            spec(RunBy::Mcp, "wires money"),
            spec(RunBy::Browser, "reads"),
            ToolSpec { server: Some("other".into()), ..spec(RunBy::Mcp, "reads") },
            ToolSpec { input_schema: json!({"type": "object", "required": []}), ..spec(RunBy::Mcp, "reads") },
        ] {
            assert!(!grant.covers(&other), "{other:?}");
        }
        let settings =
            ToolSpec { repeatable: true, timeout: Some(Default::default()), ..spec(RunBy::Mcp, "reads") };
        assert!(grant.covers(&settings), "settings do not make another tool of it");
        let schema = |text: &str| ToolSpec {
            input_schema: serde_json::from_str(text).unwrap(),
            ..spec(RunBy::Mcp, "")
        };
        let one = schema(r#"{"type":"object","properties":{"a":{},"b":{"x":1,"y":2}}}"#);
        let reordered = schema(r#"{"properties":{"b":{"y":2,"x":1},"a":{}},"type":"object"}"#);
        assert!(Grant::of(&one, at).covers(&reordered), "the order of keys says nothing");
        let old = Grant { since: at, fingerprint: None };
        assert!(old.covers(&spec(RunBy::Server, "")));
        assert!(!old.covers(&spec(RunBy::Mcp, "")) && !old.covers(&spec(RunBy::Browser, "")));
    }

    #[test]
    fn a_tool_that_has_become_another_one_needs_a_new_yes() {
        let yes = |fingerprint: &str| Confirmation {
            fingerprint: Some(fingerprint.into()),
            ..said("a", Consent::YesAlways)
        };
        let grants = grants(&[yes("one"), yes("two")], &[]);
        assert_eq!(grants["a"].fingerprint.as_deref(), Some("two"));
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
        assert_eq!(Confirmation::of(&call, Owner::anyone(), at, None), None, "nothing was decided");
        call.input = json!(1);
        call.edited = Some(json!(2));
        for (approved, always, answer) in [
            (true, true, Consent::YesAlways),
            (true, false, Consent::Yes),
            (false, false, Consent::No),
            (false, true, Consent::No),
        ] {
            call.approval_decision =
                Some(ApprovalDecision { by: Owner::anyone(), approved, reason: Some("so".into()), always });
            let confirmation = Confirmation::of(&call, Owner::anyone(), at, None).unwrap();
            assert_eq!(confirmation.answer, answer);
            assert_eq!(confirmation.at, Timestamp::from_microsecond(1).unwrap());
            assert_eq!((confirmation.reason.as_deref(), confirmation.input), (Some("so"), json!(2)));
        }
    }
}
