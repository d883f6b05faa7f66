//! People's decisions about calls, and the grants that follow from them.
//!
//! Confirmations are a history: they are added and never changed, and a grant is revoked by adding a [`GrantEnd`]. Only this module
//! derives the current grants from the history; a store keeps the history and does not know what it means.

use std::collections::BTreeMap;

use fermata_protocol::ToolCallId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Call, Owner, RunBy, ToolSpec};

/// A person's decision about a call, as it is kept for the history of the chat.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmation {
    /// The tool's name.
    pub tool: String,
    /// The call's id.
    pub call: ToolCallId,
    /// The decision.
    pub answer: Consent,
    /// The person who decided.
    pub by: Owner,
    /// The time of the decision, rounded down to microseconds.
    pub at: Timestamp,
    /// The person's comment.
    pub reason: Option<String>,
    /// The tool's [`ToolSpec::fingerprint`] at that time, if the decision allows later calls. Earlier versions did not save it.
    pub fingerprint: Option<String>,
}

/// The revocation of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantEnd {
    /// The tool's name.
    pub tool: String,
    /// The person who revoked the grant.
    pub by: Owner,
    /// The time of the revocation, rounded down to microseconds.
    pub at: Timestamp,
    /// The number of confirmations that the chat had before the revocation.
    pub after: usize,
}

/// The permission to run later calls of a tool without approval, as long as the tool stays unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The time at which the permission was given.
    pub since: Timestamp,
    /// The tool's fingerprint at that time; `None` if it was not saved.
    pub fingerprint: Option<String>,
}

/// The grants of a chat, by the tool's name.
pub type Grants = BTreeMap<String, Grant>;

/// A person's answer to an approval request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// The call may run.
    Yes,
    /// The call may run, and so may all later calls of its tool in the chat.
    YesAlways,
    /// The call must not run.
    No,
}

/// Derives the current grants of a chat from its history.
///
/// A tool is granted from the first [`Consent::YesAlways`] about it until the grant is revoked. If the tool's fingerprint has changed, it
/// needs a new yes. Other answers have no effect on later calls.
pub fn grants(history: &[Confirmation], ends: &[GrantEnd]) -> Grants {
    let mut grants = Grants::new();
    let mut ends = ends.iter().peekable();
    for (index, confirmation) in history.iter().enumerate() {
        while let Some(end) = ends.next_if(|end| end.after <= index) {
            grants.remove(&end.tool);
        }
        if confirmation.answer != Consent::YesAlways {
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
    /// Creates a grant for a tool as it is now.
    pub fn of(spec: &ToolSpec, at: Timestamp) -> Self {
        Self { since: microseconds(at), fingerprint: Some(spec.fingerprint()) }
    }

    /// Returns whether the grant covers a tool, that is, whether the tool is unchanged.
    ///
    /// A grant without a fingerprint covers only the server's own tools, because those change only with the program. A tool of a page or
    /// of an MCP server may have changed in any way.
    pub fn covers(&self, spec: &ToolSpec) -> bool {
        match &self.fingerprint {
            Some(fingerprint) => *fingerprint == spec.fingerprint(),
            None => spec.run_by == RunBy::Server,
        }
    }
}

/// Rounds a time down to microseconds, which is what a store keeps.
fn microseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

// === impl Confirmation ===

impl Confirmation {
    /// Creates the confirmation for a call's decision; `None` if the call has no decision. `fingerprint` is that of the call's tool if
    /// the decision allows later calls.
    pub fn of(call: &Call, by: Owner, at: Timestamp, fingerprint: Option<String>) -> Option<Self> {
        let decided = call.approval_decision.as_ref()?;
        let answer = match (decided.approved, decided.always) {
            (true, true) => Consent::YesAlways,
            (true, false) => Consent::Yes,
            // An "always" that comes with a no must not allow or deny anything later.
            (false, _) => Consent::No,
        };
        Some(Self {
            tool: call.tool.clone(),
            call: call.id.clone(),
            answer,
            by,
            at: microseconds(at),
            reason: decided.reason.clone(),
            fingerprint,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ApprovalDecision;

    fn said(tool: &str, answer: Consent) -> Confirmation {
        Confirmation {
            tool: tool.into(),
            call: ToolCallId::new("c"),
            answer,
            by: Owner::anyone(),
            at: Timestamp::UNIX_EPOCH,
            reason: None,
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
            title: None,
            description: description.into(),
            input_schema: json!({"type": "object"}).into(),
            run_by,
            server: None,
            policy: crate::Decision::Ask,
            resource: None,
            timeout: None,
            repeatable: false,
            annotations: None,
        }
    }

    #[test]
    fn a_revoked_grant_comes_back_only_with_a_later_yes_for_always() {
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
            ToolSpec { name: "other".into(), ..spec(RunBy::Mcp, "reads") },
            ToolSpec { title: Some("Read".into()), ..spec(RunBy::Mcp, "reads") },
            ToolSpec { annotations: Some(json!({"readOnlyHint": true})), ..spec(RunBy::Mcp, "reads") },
            ToolSpec {
                input_schema: json!({"type": "object", "required": []}).into(),
                ..spec(RunBy::Mcp, "reads")
            },
        ] {
            assert!(!grant.covers(&other), "{other:?}");
        }
        let settings =
            ToolSpec { repeatable: true, timeout: Some(Default::default()), ..spec(RunBy::Mcp, "reads") };
        assert!(grant.covers(&settings), "settings do not make another tool of it");
        let schema = |text: &str| ToolSpec {
            input_schema: serde_json::from_str::<serde_json::Value>(text).unwrap().into(),
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
    fn a_confirmation_says_what_was_decided_and_why() {
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
            call.approval_decision = Some(ApprovalDecision {
                by: Owner::anyone(),
                approved,
                reason: Some("so".into()),
                always,
                how: None,
            });
            let confirmation = Confirmation::of(&call, Owner::anyone(), at, None).unwrap();
            assert_eq!(confirmation.answer, answer);
            assert_eq!(confirmation.at, Timestamp::from_microsecond(1).unwrap());
            assert_eq!(confirmation.reason.as_deref(), Some("so"));
        }
    }
}
