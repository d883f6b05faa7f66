//! A policy's decision about a call.

use std::{net::IpAddr, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ApprovalTerms, DecisionChannel, Principal};

/// The outcome of a policy for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The call runs without approval.
    Allow,
    /// The call needs a person's approval.
    Ask,
    /// The call never runs.
    Deny,
}

/// A policy's decision about a call, with its reason and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyDecision {
    /// The outcome.
    pub decision: Decision,
    /// The reason in the words of others: of the rule or the tool that decided, of the rule about a call that is retried, or the name of what
    /// was read before a memory is changed. [`PolicyDecision::text`] is a whole sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The part of the policy that decided.
    pub by: DecisionSource,
    /// The terms of the approval that a rule asks for; `None` if the requester decides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub terms: Option<Arc<ApprovalTerms>>,
}

/// The part of a policy that decided about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSource {
    /// The tool's own default.
    Default,
    /// A rule, by its number, counted from 1.
    Rule(usize),
    /// The approval mode `auto`, which allows what would need approval.
    Auto,
    /// The setting `chain = "ask"`, because the model had seen a tool's result in this turn.
    Chain,
    /// The setting `memory_writes`, because the call changes memories.
    MemoryWrites,
    /// The same setting, because the memory has a slot.
    MemorySlot,
    /// A person's earlier "always" in the chat.
    Always,
    /// A change of the tool since the decision about the call.
    ToolChanged,
    /// A person's retry of a call that may have had its effect.
    Retry,
    /// The tool itself, about this input ([`crate::Tool::confirm`]).
    Tool,
}

/// The principal who decides about calls, and the way the decision comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decider {
    /// The principal.
    pub by: Principal,
    /// The way the decision comes.
    pub how: DecisionChannel,
    /// The address that it comes from, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The [`input_hash`](crate::input_hash) of the input that the principal was shown. A decision counts only for that input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_hash: Option<String>,
}

/// The way a call was let through, for the tool that runs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// A rule, the tool's default or the approval mode allowed it; nobody was asked.
    #[default]
    Rule,
    /// A person's earlier "always" in the chat allowed it.
    Always,
    /// A person approved it.
    Person,
    /// A person approved it with an input that they had edited.
    Edited,
}

// === impl PolicyDecision ===

impl PolicyDecision {
    /// Creates a decision without a reason. If it asks, it asks the requester.
    pub fn new(decision: Decision, by: DecisionSource) -> Self {
        Self { decision, reason: None, by, terms: None }
    }

    /// Returns the terms of the approval that it asks for.
    pub fn terms(&self) -> &ApprovalTerms {
        self.terms.as_deref().unwrap_or(ApprovalTerms::by_requester())
    }

    /// Returns whether an earlier "always" of a person takes the place of the approval that it asks for.
    pub fn honors_grants(&self) -> bool {
        match self.by {
            DecisionSource::Default => true,
            DecisionSource::Rule(_) => self.terms().always && self.terms().quorum == 1,
            DecisionSource::Auto
            | DecisionSource::Chain
            | DecisionSource::Always
            | DecisionSource::ToolChanged
            | DecisionSource::Retry
            | DecisionSource::MemoryWrites
            | DecisionSource::MemorySlot
            | DecisionSource::Tool => false,
        }
    }

    /// Returns the reason for the model and the person; `None` if there is none. What Fermata says itself follows from the source of the
    /// decision, so a page can translate it ([`DecisionSource::code`]).
    pub fn text(&self, tool: &str) -> Option<String> {
        let reason = self.reason.as_deref();
        match self.by {
            DecisionSource::Default
            | DecisionSource::Rule(_)
            | DecisionSource::Auto
            | DecisionSource::Always
            | DecisionSource::Tool => reason.map(str::to_owned),
            DecisionSource::Chain => Some("it is not the first call of the turn".into()),
            DecisionSource::ToolChanged => {
                Some(format!("the tool {tool} has changed since the call was shown or allowed"))
            }
            DecisionSource::MemorySlot => Some("a memory with a slot is in every prompt".into()),
            DecisionSource::MemoryWrites => {
                let text = "it changes what is remembered in all chats";
                Some(match reason {
                    Some(source) => format!("{text}, after something from outside was read: {source}"),
                    None => text.into(),
                })
            }
            DecisionSource::Retry => {
                let text = "The call failed after it had begun to run, so it may have had its effect already; approving it may repeat that effect.";
                Some(reason.map_or_else(|| text.into(), |reason| format!("{reason} {text}")))
            }
        }
    }
}

// === impl Decision ===

impl Decision {
    /// Returns the name that settings and saved decisions use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

// === impl Decider ===

impl Decider {
    /// Creates a decider without groups, who was shown no input in particular.
    pub fn new(by: impl Into<Principal>, how: DecisionChannel, address: Option<IpAddr>) -> Self {
        Self { by: by.into(), how, address, shown_hash: None }
    }
}
