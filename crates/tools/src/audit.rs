//! The events of the audit log.

use std::net::IpAddr;

use fermata_protocol::{ApprovalId, JsonText, ToolCallId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Call, CallState, Cancelled, Decider, Decision, DecisionChannel, DecisionSource, Owner, People,
    PolicyDecision, hash::sha256,
};

/// Something that an operator may have to account for later: a decision, the end of a call that was decided about, a deletion.
///
/// The store adds the time, the owner and the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    /// The kind of event.
    pub action: AuditAction,
    /// The principal who did it; `None` if a rule, a tool, a deadline or the operator did.
    pub principal: Option<Owner>,
    /// The groups of the principal at that moment.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub groups: Vec<String>,
    /// The way the decision came, if a person decided.
    pub channel: Option<DecisionChannel>,
    /// The network address that it came from, if a person did it and the address is known.
    pub address: Option<IpAddr>,
    /// The call's id; `None` if the event is not about one call.
    pub call: Option<ToolCallId>,
    /// The approval that the call waits or waited for.
    pub approval: Option<ApprovalId>,
    /// The tool's name; empty if the event is not about a tool.
    pub tool: String,
    /// The part of the policy that decided; `None` if a person did.
    pub rule: Option<DecisionSource>,
    /// The reason given by the person or the rule, or the type of a failure, if there is one.
    pub reason: Option<String>,
    /// The [`input_hash`] of the input that the event is about, or the hash of the rules.
    pub input_hash: Option<String>,
    /// The hash of the input that the person was shown, if the client sent it.
    pub shown_hash: Option<String>,
    /// The effect of an attempt to decide; `None` for other events.
    pub outcome: Option<AuditOutcome>,
    /// The id of the event's object, if it is neither a call nor a chat: a memory.
    pub subject: Option<String>,
}

/// The kind of an [`AuditEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditAction {
    /// A rule, a tool's default or an earlier "always" allowed a call.
    RuleAllowed,
    /// A rule, a setting or a tool's default required a person's approval.
    RuleAsked,
    /// A rule or a tool's default denied a call, or an edit of its input.
    RuleDenied,
    /// A person approved a call.
    Approved,
    /// A person denied a call.
    Denied,
    /// A person edited the input of a call.
    Edited,
    /// The channels of a rule were sent a reminder of a call that waits.
    Reminded,
    /// The parties that a rule adds may decide about a call from now on.
    Escalated,
    /// A principal tried to decide about a call, and may not.
    Refused,
    /// A person made a failed call again.
    Retried,
    /// A person allowed all later calls of a tool in a chat.
    Granted,
    /// A person revoked such a grant.
    GrantRevoked,
    /// A call that somebody was asked about began to run, or was handed to its page.
    Started,
    /// A call that somebody was asked about has its output.
    Succeeded,
    /// A call that somebody was asked about failed; `reason` is the type of the failure.
    Failed,
    /// The server ended while a call that somebody was asked about ran: it may or may not have had its effect.
    OutcomeUnknown,
    /// A call ended because its run or its chat was stopped or deleted.
    Stopped,
    /// A call ended because the conversation went on without it.
    Superseded,
    /// A call ended because nobody answered in time.
    Expired,
    /// A person cancelled a call while it ran, or the call ended with its run; then `principal` is missing.
    Cancelled,
    /// Another user tried to change a chat. That user got 404.
    RefusedToOther,
    /// A chat was deleted, with its calls and messages.
    ChatDeleted,
    /// A person or the operator exported all data of an owner.
    DataExported,
    /// A person or the operator deleted all data of an owner.
    DataDeleted,
    /// A memory was saved; `subject` is its id.
    MemorySaved,
    /// A memory was changed.
    MemoryChanged,
    /// A memory was deleted.
    MemoryForgotten,
    /// All memories of an owner were deleted.
    MemoriesDeleted,
    /// A person corrected the summary of a chat.
    SummaryChanged,
    /// An instance started with rules; `input_hash` is their hash.
    RulesLoaded,
    /// The rules were read again; `input_hash` is the hash of those in force since then.
    RulesReloaded,
}

/// The effect of an attempt to decide about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// The vote counts. The call may still wait for other votes.
    Counted,
    /// The attempt was refused and changed nothing.
    Refused,
    /// The vote settled the approval.
    Settled,
}

/// Returns the SHA-256 of an input in hexadecimal.
///
/// The hash is taken over the input as compact JSON, which is byte for byte what the columns `input` and `edited_input` of the view
/// `tool_calls` hold.
pub fn input_hash(input: &JsonText) -> String {
    sha256(input.as_str().as_bytes())
}

// === impl AuditEvent ===

impl AuditEvent {
    /// Creates an event that is about no call and no tool, and that nobody in particular has done.
    pub fn new(action: AuditAction) -> Self {
        Self {
            action,
            principal: None,
            groups: Vec::new(),
            channel: None,
            address: None,
            call: None,
            approval: None,
            tool: String::new(),
            rule: None,
            reason: None,
            input_hash: None,
            shown_hash: None,
            outcome: None,
            subject: None,
        }
    }

    /// Sets the person who did it, and the address that it came from.
    #[must_use]
    pub fn by(self, person: Owner, address: Option<IpAddr>) -> Self {
        Self { principal: Some(person), address, ..self }
    }

    /// Returns the event with the person who has decided, with all groups, and how.
    pub fn decided_by(self, decider: &Decider, people: &People) -> Self {
        Self {
            channel: Some(decider.how),
            groups: people.complete(&decider.by).groups.clone(),
            shown_hash: decider.shown_hash.clone(),
            ..self.by(decider.by.user.clone(), decider.address)
        }
    }

    /// Creates an event about a call, with the input that the call runs with.
    pub fn about(action: AuditAction, call: &Call) -> Self {
        Self::about_input(action, call, call.effective_input())
    }

    fn about_input(action: AuditAction, call: &Call, input: &JsonText) -> Self {
        Self {
            call: Some(call.id.clone()),
            approval: call.approval_request.as_ref().map(|request| request.id.clone()),
            tool: call.tool.clone(),
            input_hash: Some(input_hash(input)),
            ..Self::new(action)
        }
    }

    /// Creates the event for the state that a call has just entered; `None` if nobody has to account for it.
    ///
    /// A call that somebody was asked about has one such event when it starts and one when it ends, for any reason; a denial is an event of its own.
    /// Of the others, only the end of one that had no outcome is noted. `owner` is the person in whose name the chat is changed.
    pub fn of_state(call: &Call, owner: &Owner, address: Option<IpAddr>) -> Option<Self> {
        let was_asked_about = call.was_asked_about();
        let mut is_by_person = false;
        let (action, reason) = match call.state() {
            CallState::Executing { .. } if was_asked_about && call.times_run() == 1 => {
                (AuditAction::Started, None)
            }
            CallState::Success { .. } if was_asked_about => (AuditAction::Succeeded, None),
            CallState::Error { error_type, .. } if was_asked_about => {
                (AuditAction::Failed, Some(error_type.as_str().to_owned()))
            }
            CallState::Cancelled { cancelled } => {
                is_by_person =
                    matches!(cancelled, Cancelled::Stopped | Cancelled::Superseded | Cancelled::ByPerson);
                match cancelled {
                    Cancelled::Stopped => (AuditAction::Stopped, None),
                    Cancelled::Superseded => (AuditAction::Superseded, None),
                    Cancelled::Expired => (AuditAction::Expired, None),
                    Cancelled::ByPerson | Cancelled::RunEnded => (AuditAction::Cancelled, None),
                    // The decision is an event, and the others have never been asked about.
                    Cancelled::Denied { .. } | Cancelled::NotFirst | Cancelled::NotChosen => return None,
                }
            }
            CallState::Validating
            | CallState::AwaitingApproval { .. }
            | CallState::Scheduled { .. }
            | CallState::Executing { .. }
            | CallState::Success { .. }
            | CallState::Error { .. } => return None,
        };
        let event = Self { reason, ..Self::about(action, call) };
        Some(if is_by_person { event.by(owner.clone(), address) } else { event })
    }

    /// Creates the event for a call that ran when its process ended; `None` if nobody was asked about it.
    pub fn of_unknown_outcome(call: &Call) -> Option<Self> {
        if call.was_asked_about() { Some(Self::about(AuditAction::OutcomeUnknown, call)) } else { None }
    }

    /// Creates the event for a call whose chat is deleted; `None` if it has ended.
    pub fn of_deleted(call: &Call) -> Option<Self> {
        if call.state().is_final() { None } else { Some(Self::about(AuditAction::Stopped, call)) }
    }

    /// Creates the event for a policy's decision about a call with this input.
    pub fn by_policy(call: &Call, input: &JsonText, policy_decision: &PolicyDecision) -> Self {
        let action = match policy_decision.decision {
            Decision::Allow => AuditAction::RuleAllowed,
            Decision::Ask => AuditAction::RuleAsked,
            Decision::Deny => AuditAction::RuleDenied,
        };
        Self {
            rule: Some(policy_decision.by),
            reason: policy_decision.text(&call.tool),
            ..Self::about_input(action, call, input)
        }
    }
}
