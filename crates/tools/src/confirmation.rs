//! People's decisions about calls, and the grants that follow from them.
//!
//! Confirmations are a history: they are added and never changed, and a grant is revoked by adding a [`GrantEnd`]. Only this module
//! derives the current grants from the history; a store keeps the history and does not know what it means.

use std::collections::BTreeMap;

use fermata_protocol::{Always, GrantedFor, ToolCallId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ApprovalDecision, Call, Owner, Scope, ToolRef, ToolSpec, Toolbox};

/// A person's decision about a call, as it is kept for the history of the chat.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmation {
    /// The tool's name.
    pub tool: String,
    /// The call's id.
    pub call: ToolCallId,
    /// True if the call may run.
    pub approved: bool,
    /// The person who decided.
    pub by: Owner,
    /// The time of the decision, rounded down to microseconds.
    pub at: Timestamp,
    /// The person's comment.
    pub reason: Option<String>,
    /// The terms of the decision for later calls; `None` if it does not cover any.
    pub terms: Option<GrantTerms>,
}

/// The revocation of a chat's grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantEnd {
    /// The tool that the grants are for.
    pub tool: String,
    /// The id of the scope; `None` for all scopes.
    pub scope: Option<String>,
    /// The person who revoked the grants.
    pub by: Owner,
    /// The time of the revocation, rounded down to microseconds.
    pub at: Timestamp,
    /// The number of confirmations that the chat had before the revocation.
    pub after: usize,
}

/// The permission to run later calls without approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The tool whose call the person approved.
    pub tool: String,
    /// The time when the permission was given.
    pub since: Timestamp,
    /// The scope of the permission.
    #[serde(flatten)]
    pub terms: GrantTerms,
}

/// The scope of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantTerms {
    /// The calls.
    pub scope: Scope,
    /// The chats.
    #[serde(rename = "for")]
    pub granted_for: GrantedFor,
    /// The time when the grant ends; `None` if it does not end by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Timestamp>,
    /// The fingerprints of the tools when the grant was given, by name. A tool that has changed, or has come since, is not covered.
    pub tools: BTreeMap<String, String>,
}

/// The grants that count in a chat: its own, and those of its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(Vec<Grant>);

/// Rounds a time down to microseconds, which is what a store keeps.
fn microseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

// === impl Confirmation ===

impl Confirmation {
    /// Creates the confirmation for a decision about a call, or for a vote. `terms` are those of the grant that comes with it.
    pub fn of(call: &Call, decided: &ApprovalDecision, terms: Option<GrantTerms>) -> Self {
        Self {
            tool: call.tool.clone(),
            call: call.id.clone(),
            approved: decided.approved,
            by: decided.by.clone(),
            at: microseconds(decided.at),
            reason: decided.reason.clone(),
            // An "always" that comes with a no must not allow or deny anything later.
            terms: if decided.approved { terms } else { None },
        }
    }
}

// === impl Grant ===

impl Grant {
    /// Creates a grant for a scope that a tool has proposed. It covers the tools as they are in the toolbox.
    pub fn new(toolbox: &Toolbox, spec: &ToolSpec, scope: Scope, always: &Always, at: Timestamp) -> Self {
        let server = spec.server.as_deref().filter(|server| Scope::server(server).id == scope.id);
        let tools = toolbox.specs().filter(|other| match server {
            Some(_) => other.server.as_deref() == server,
            None => other.name == spec.name,
        });
        let tools = tools.map(|spec| (spec.name.clone(), spec.fingerprint())).collect();
        // A duration is at most ten years, so the sum is a time.
        let until = always.until.and_then(|until| at.checked_add(until).ok()).map(microseconds);
        let terms = GrantTerms { scope, granted_for: always.granted_for, until, tools };
        Self { tool: spec.name.clone(), since: microseconds(at), terms }
    }

    /// Returns whether the grant covers a call of this tool: the tool is unchanged, it proposes the grant's scope for the input, and the
    /// grant has not ended.
    pub fn covers(&self, tool: ToolRef<'_>, input: &Value, now: Timestamp) -> bool {
        !self.has_ended(now)
            && self.is_for(tool)
            && tool.scopes(input).iter().any(|scope| scope.id == self.terms.scope.id)
    }

    /// Returns whether the grant was given for the tool as it is.
    pub fn is_for(&self, tool: ToolRef<'_>) -> bool {
        let known = self.terms.tools.get(&tool.spec().name);
        known.is_some_and(|fingerprint| fingerprint == tool.fingerprint())
    }

    /// Returns whether the grant has come to its end.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.terms.until.is_some_and(|until| until <= now)
    }

    /// Returns whether a revocation is about this grant.
    pub fn is_named(&self, tool: &str, scope: Option<&str>, granted_for: Option<GrantedFor>) -> bool {
        self.tool == tool
            && scope.is_none_or(|scope| scope == self.terms.scope.id)
            && granted_for.is_none_or(|granted_for| granted_for == self.terms.granted_for)
    }
}

// === impl Grants ===

impl Grants {
    /// Derives the current grants of a chat from its history. Those of its owner are kept elsewhere.
    pub fn of_history(history: &[Confirmation], ends: &[GrantEnd]) -> Self {
        let mut grants = Self::default();
        let mut ends = ends.iter().peekable();
        for (index, confirmation) in history.iter().enumerate() {
            while let Some(end) = ends.next_if(|end| end.after <= index) {
                grants.end(&end.tool, end.scope.as_deref(), Some(GrantedFor::Chat));
            }
            let Some(terms) = confirmation.terms.clone() else { continue };
            if terms.granted_for == GrantedFor::Chat {
                grants.add(Grant { tool: confirmation.tool.clone(), since: confirmation.at, terms });
            }
        }
        for end in ends {
            grants.end(&end.tool, end.scope.as_deref(), Some(GrantedFor::Chat));
        }
        grants
    }

    /// Adds a grant, which replaces an earlier one of the same tool and scope.
    pub fn add(&mut self, grant: Grant) {
        let Grant { tool, terms, .. } = &grant;
        self.end(tool, Some(&terms.scope.id), Some(terms.granted_for));
        self.0.push(grant);
    }

    /// Ends the grants of a tool, or those of one scope or kind.
    pub fn end(&mut self, tool: &str, scope: Option<&str>, granted_for: Option<GrantedFor>) {
        self.0.retain(|grant| !grant.is_named(tool, scope, granted_for));
    }

    /// Replaces the grants of the owner.
    pub fn set_of_owner(&mut self, grants: Vec<Grant>) {
        self.0.retain(|grant| grant.terms.granted_for != GrantedFor::Owner);
        self.0.extend(grants);
    }

    /// Returns whether one of the grants covers a call.
    pub fn cover(&self, tool: ToolRef<'_>, input: &Value, now: Timestamp) -> bool {
        self.0.iter().any(|grant| grant.covers(tool, input, now))
    }

    /// Returns the grants, in the order they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use fermata_protocol::JsonText;
    use serde_json::json;

    use super::*;
    use crate::{ApprovalDecision, CallContext, Decision, RunBy, Tool, ToolError};

    /// A tool with a description, of a server if it has one, that proposes the field `host` as a scope if the input has one.
    struct Fake {
        name: &'static str,
        description: &'static str,
        server: Option<&'static str>,
    }

    #[async_trait::async_trait]
    impl Tool for Fake {
        fn spec(&self) -> ToolSpec {
            ToolSpec {
                name: self.name.into(),
                title: None,
                description: self.description.into(),
                input_schema: json!({"type": "object"}).into(),
                run_by: if self.server.is_some() { RunBy::Mcp } else { RunBy::Server },
                server: self.server.map(Into::into),
                policy: Decision::Ask,
                resource: None,
                timeout: None,
                repeatable: false,
                annotations: None,
            }
        }

        fn scopes(&self, input: &Value) -> Option<Vec<Scope>> {
            let host = input["host"].as_str()?;
            Some(vec![Scope::new(format!("host:{host}"), host, host)])
        }

        async fn call(&self, _: JsonText, _: CallContext) -> Result<Value, ToolError> {
            Ok(Value::Null)
        }
    }

    fn toolbox(tools: &[(&'static str, &'static str, Option<&'static str>)]) -> Toolbox {
        let tools = tools.iter().map(|&(name, description, server)| {
            Arc::new(Fake { name, description, server }) as Arc<dyn Tool>
        });
        Toolbox::new(tools, |_| {}).0
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A grant of the scope at this place among those that the tool proposes.
    fn grant(toolbox: &Toolbox, tool: &str, input: &Value, scope: usize, always: &Always) -> Grant {
        let found = toolbox.find(tool).unwrap();
        Grant::new(toolbox, found.spec(), found.scopes(input)[scope].clone(), always, at(0))
    }

    fn covers(grant: &Grant, toolbox: &Toolbox, tool: &str, input: &Value) -> bool {
        grant.covers(toolbox.find(tool).unwrap(), input, at(0))
    }

    fn said(tool: &str, terms: Option<GrantTerms>) -> Confirmation {
        let (call, by) = (ToolCallId::new("c"), Owner::anyone());
        Confirmation { tool: tool.into(), call, approved: true, by, at: at(0), reason: None, terms }
    }

    fn terms(scope: &str) -> GrantTerms {
        let scope = Scope::new(scope, scope, scope);
        GrantTerms { scope, granted_for: GrantedFor::Chat, until: None, tools: BTreeMap::new() }
    }

    fn end(tool: &str, scope: Option<&str>, after: usize) -> GrantEnd {
        GrantEnd { tool: tool.into(), scope: scope.map(Into::into), by: Owner::anyone(), at: at(9), after }
    }

    fn current(history: &[Confirmation], ends: &[GrantEnd]) -> Vec<String> {
        let grants = Grants::of_history(history, ends);
        grants.iter().map(|grant| format!("{} {}", grant.tool, grant.terms.scope.id)).collect()
    }

    #[test]
    fn a_scope_covers_the_call_at_hand_and_no_call_of_another_host_tool_or_server() {
        let tools = toolbox(&[
            ("bank__pay", "", Some("bank")),
            ("bank__read", "", Some("bank")),
            ("fetch", "", None),
            ("mail__send", "", Some("mail")),
            ("note", "", None),
        ]);
        let calls: Vec<(&str, Value)> = ["bank__pay", "bank__read", "fetch", "mail__send", "note"]
            .into_iter()
            .flat_map(|tool| {
                [json!({}), json!({"host": "a"}), json!({"host": "b"})].map(|input| (tool, input))
            })
            .collect();
        for (tool, input) in &calls {
            let found = tools.find(tool).unwrap();
            for (place, scope) in found.scopes(input).iter().enumerate() {
                let grant = grant(&tools, tool, input, place, &Always::default());
                assert!(covers(&grant, &tools, tool, input), "{scope:?} does not cover {tool} {input}");
                for (other, other_input) in &calls {
                    let other_found = tools.find(other).unwrap();
                    let is_same = other == tool
                        || scope.id.starts_with("server:")
                            && other_found.spec().server == found.spec().server;
                    let expected = is_same && other_found.scopes(other_input).contains(scope);
                    assert_eq!(
                        covers(&grant, &tools, other, other_input),
                        expected,
                        "{scope:?} of {tool} {input}, {other} {other_input}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_grant_does_not_cover_a_tool_that_has_changed_or_that_its_server_has_added() {
        let before = toolbox(&[("bank__pay", "pays", Some("bank"))]);
        let after =
            toolbox(&[("bank__pay", "pays ten times", Some("bank")), ("bank__wire", "wires", Some("bank"))]);
        let input = json!({});
        for place in 0..2 {
            let grant = grant(&before, "bank__pay", &input, place, &Always::default());
            assert!(covers(&grant, &before, "bank__pay", &input));
            assert!(!covers(&grant, &after, "bank__pay", &input));
            assert!(!covers(&grant, &after, "bank__wire", &input));
        }
    }

    #[test]
    fn a_grant_with_an_end_covers_nothing_from_then_on() {
        let tools = toolbox(&[("note", "", None)]);
        let always = Always { until: Some(Duration::from_secs(60)), ..Always::default() };
        let grant = grant(&tools, "note", &json!({}), 0, &always);
        assert_eq!(grant.terms.until, Some(at(60)));
        for (now, expected) in [(0, true), (59, true), (60, false), (61, false)] {
            assert_eq!(grant.covers(tools.find("note").unwrap(), &json!({}), at(now)), expected, "{now}");
        }
    }

    #[test]
    fn a_revoked_grant_comes_back_only_with_a_later_always() {
        let (host_a, host_b) = (said("f", Some(terms("host:a"))), said("f", Some(terms("host:b"))));
        let both = [host_a.clone(), host_b];
        assert_eq!(current(&both, &[]), ["f host:a", "f host:b"]);
        assert_eq!(current(&both, &[end("f", Some("host:a"), 2)]), ["f host:b"]);
        assert_eq!(current(&both, &[end("f", None, 2)]), [""; 0]);
        assert_eq!(current(&both, &[end("f", None, 1)]), ["f host:b"]);
        assert_eq!(current(&both, &[end("g", None, 2)]), ["f host:a", "f host:b"]);
        let again = [both[0].clone(), both[1].clone(), host_a];
        assert_eq!(current(&again, &[end("f", None, 2)]), ["f host:a"]);
    }

    #[test]
    fn other_answers_change_no_grant_and_a_grant_of_the_owner_is_none_of_the_chat() {
        let always = said("a", Some(terms(Scope::TOOL)));
        let plain = said("a", None);
        let denied = Confirmation { approved: false, ..plain.clone() };
        assert_eq!(current(&[plain.clone(), denied.clone()], &[]), [""; 0]);
        assert_eq!(current(&[plain.clone(), always.clone(), denied.clone(), plain], &[]), ["a tool"]);
        let of_owner = GrantTerms { granted_for: GrantedFor::Owner, ..terms(Scope::TOOL) };
        assert_eq!(current(&[said("a", Some(of_owner))], &[]), [""; 0]);
    }

    #[test]
    fn the_grants_of_the_owner_are_replaced_and_those_of_the_chat_stay() {
        let of_chat = Grant { tool: "a".into(), since: at(0), terms: terms("x") };
        let of_owner = |scope: &str| Grant {
            terms: GrantTerms { granted_for: GrantedFor::Owner, ..terms(scope) },
            ..of_chat.clone()
        };
        let mut grants = Grants::default();
        grants.add(of_chat.clone());
        grants.set_of_owner(vec![of_owner("x"), of_owner("y")]);
        grants.set_of_owner(vec![of_owner("y")]);
        let ids: Vec<_> =
            grants.iter().map(|grant| (grant.terms.granted_for, &*grant.terms.scope.id)).collect();
        assert_eq!(ids, [(GrantedFor::Chat, "x"), (GrantedFor::Owner, "y")]);
    }

    #[test]
    fn a_confirmation_says_what_was_decided_and_why() {
        let at = Timestamp::from_nanosecond(1_999).unwrap();
        let call = Call::new(ToolCallId::new("c"), 1, "t".into(), Some(RunBy::Server), at);
        for (approved, given) in [(true, true), (true, false), (false, false), (false, true)] {
            let decided = ApprovalDecision {
                by: Owner::new("bob"),
                at,
                approved,
                reason: Some("so".into()),
                always: given,
                how: None,
            };
            let terms = given.then(|| terms(Scope::TOOL));
            let confirmation = Confirmation::of(&call, &decided, terms);
            assert_eq!((confirmation.approved, confirmation.terms.is_some()), (approved, approved && given));
            assert_eq!(confirmation.at, Timestamp::from_microsecond(1).unwrap());
            assert_eq!(confirmation.by, Owner::new("bob"));
            assert_eq!(confirmation.reason.as_deref(), Some("so"));
        }
    }
}
