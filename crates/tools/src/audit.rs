//! The audit log's events: decisions about calls and about grants.

use std::net::IpAddr;

use fermata_protocol::ToolCallId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Call, DecisionChannel, DecisionSource, Owner, PolicyDecision, tool::sha256};

/// A decision about a call, or a change of a chat's grants.
///
/// The store adds the time, the chat, its owner and the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// The kind of event.
    pub action: AuditAction,
    /// The person who decided; `None` if the policy did.
    pub decided_by: Option<Owner>,
    /// The way in which the decision came, if a person decided.
    pub how: Option<DecisionChannel>,
    /// The network address that the decision came from, if a person decided and the address is known.
    pub address: Option<IpAddr>,
    /// The call's id; `None` if the event is about a tool in general.
    pub call: Option<ToolCallId>,
    /// The tool's name.
    pub tool: String,
    /// The part of the policy that decided; `None` if a person did.
    pub rule: Option<DecisionSource>,
    /// The reason given by the person or the rule, if there is one.
    pub reason: Option<String>,
    /// The [`input_hash`] of the input that the decision is about.
    pub input_hash: Option<String>,
}

/// The kind of an [`AuditEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditAction {
    /// A rule, a tool's default or an earlier "always" allowed a call.
    RuleAllowed,
    /// A rule or a tool's default required a person's approval.
    RuleAsked,
    /// A rule or a tool's default denied a call, or an edit of its input.
    RuleDenied,
    /// A person approved a call.
    Approved,
    /// A person denied a call.
    Denied,
    /// A person edited the input of a call.
    Edited,
    /// A person made a failed call again.
    Retried,
    /// A person allowed all later calls of a tool in a chat.
    Granted,
    /// A person revoked such a grant.
    GrantRevoked,
}

/// Returns the SHA-256 of an input in hexadecimal.
///
/// The hash is taken over the input as compact JSON, which is byte for byte what the columns `input` and `edited_input` of a saved
/// call hold.
pub fn input_hash(input: &Value) -> String {
    sha256(input.to_string().as_bytes())
}

// === impl AuditEvent ===

impl AuditEvent {
    /// Creates the event for a policy's decision about a call with this input.
    pub fn by_policy(call: &Call, input: &Value, policy_decision: &PolicyDecision) -> Self {
        let action = match policy_decision.decision {
            crate::Decision::Allow => AuditAction::RuleAllowed,
            crate::Decision::Ask => AuditAction::RuleAsked,
            crate::Decision::Deny => AuditAction::RuleDenied,
        };
        Self {
            action,
            decided_by: None,
            how: None,
            address: None,
            call: Some(call.id.clone()),
            tool: call.tool.clone(),
            rule: Some(policy_decision.by),
            reason: policy_decision.reason.clone(),
            input_hash: Some(input_hash(input)),
        }
    }

    /// Creates the event for a person's action on a call, with the input that the call would run with.
    pub fn by_person(
        action: AuditAction,
        call: &Call,
        by: Owner,
        how: Option<DecisionChannel>,
        address: Option<IpAddr>,
        reason: Option<String>,
    ) -> Self {
        Self {
            action,
            decided_by: Some(by),
            how,
            address,
            call: Some(call.id.clone()),
            tool: call.tool.clone(),
            rule: None,
            reason,
            input_hash: Some(input_hash(call.effective_input())),
        }
    }
}
