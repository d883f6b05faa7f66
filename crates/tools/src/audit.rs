//! What operators are told of decisions about calls, for ever.

use std::net::IpAddr;

use fermata_protocol::ToolCallId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Call, DecisionSource, Owner, PolicyDecision, tool::sha256};

/// One decision about a call, or one fact about what is allowed for always. When it was and in whose chat and run is noted beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// What happened.
    pub action: AuditAction,
    /// Who decided; `None` for a rule.
    pub decided_by: Option<Owner>,
    /// From which address, if a person decided and it is known.
    pub address: Option<IpAddr>,
    /// About which call; `None` if it is about none.
    pub call: Option<ToolCallId>,
    /// About which tool.
    pub tool: String,
    /// What decided, if no person did.
    pub rule: Option<DecisionSource>,
    /// Why, as far as somebody said so.
    pub reason: Option<String>,
    /// The input that was decided about, as [`input_hash`] has it.
    pub input_hash: Option<String>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditAction {
    /// A rule, a tool's default or an earlier "always" let a call run.
    RuleAllowed,
    /// A rule or a tool's default had a person asked.
    RuleAsked,
    /// A rule or a tool's default denied a call, or an edit of its input.
    RuleDenied,
    /// A person approved a call.
    Approved,
    /// A person denied it.
    Denied,
    /// A person edited the input of a call.
    Edited,
    /// A person allowed a tool for always.
    Granted,
    /// A person took that back.
    GrantRevoked,
}

/// The SHA-256 of an input in hexadecimal: of its bytes as compact JSON, exactly as the column `input` or `edited_input` of the call has it.
pub fn input_hash(input: &Value) -> String {
    sha256(input.to_string().as_bytes())
}

// === impl AuditEvent ===

impl AuditEvent {
    /// What was ruled about a call with this input.
    pub fn by_policy(call: &Call, input: &Value, policy_decision: &PolicyDecision) -> Self {
        let action = match policy_decision.decision {
            crate::Decision::Allow => AuditAction::RuleAllowed,
            crate::Decision::Ask => AuditAction::RuleAsked,
            crate::Decision::Deny => AuditAction::RuleDenied,
        };
        Self {
            action,
            decided_by: None,
            address: None,
            call: Some(call.id.clone()),
            tool: call.tool.clone(),
            rule: Some(policy_decision.by),
            reason: policy_decision.reason.clone(),
            input_hash: Some(input_hash(input)),
        }
    }

    /// What a person did with a call as it would run.
    pub fn by_person(
        action: AuditAction,
        call: &Call,
        by: Owner,
        address: Option<IpAddr>,
        reason: Option<String>,
    ) -> Self {
        Self {
            action,
            decided_by: Some(by),
            address,
            call: Some(call.id.clone()),
            tool: call.tool.clone(),
            rule: None,
            reason,
            input_hash: Some(input_hash(call.effective_input())),
        }
    }
}
