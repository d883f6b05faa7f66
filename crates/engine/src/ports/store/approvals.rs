//! The approvals of all chats, for the people who decide about them.
//!
//! A store keeps a row for each approval that a call needed. The rows follow from the calls that are saved ([`Change::PutCall`]), so no
//! decision has to write them.
//!
//! [`Change::PutCall`]: super::Change::PutCall

use std::sync::Arc;

use async_trait::async_trait;
use fermata_protocol::{ApprovalId, ChatId, ToolCallId};
use fermata_tools::{ApprovalTerms, Call, CallState, Cancelled, DecisionChannel, Owner, sha256};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{StoreError, page::ApprovalCursor};

/// The state of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalState {
    /// Nobody has denied it, and too few have approved it.
    Waiting,
    /// Enough people have approved it.
    Approved,
    /// Somebody, or a rule, has denied it.
    Denied,
    /// Nobody has decided in time.
    Expired,
    /// The call ended before, or is asked about again.
    Cancelled,
}

/// The outcome of an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The person or service whose vote settled it; `None` if it expired, was cancelled, or was denied by a rule.
    pub by: Option<Owner>,
    /// The time of the outcome.
    pub at: Timestamp,
    /// The channel that the vote came by.
    pub channel: Option<DecisionChannel>,
    /// The comment of the person.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// An approval as it was saved.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRecord {
    /// The id of the approval request.
    pub id: ApprovalId,
    /// The state of the approval.
    pub state: ApprovalState,
    /// The chat of the call.
    pub chat: ChatId,
    /// The title of the chat.
    pub title: Option<String>,
    /// The time of the request.
    pub requested_at: Timestamp,
    /// The time of the outcome.
    pub settled_at: Option<Timestamp>,
    /// The time of the last change.
    pub changed_at: Timestamp,
    /// The hash of the terms; `None` if the requester decides.
    pub terms: Option<String>,
    /// `true` if the person who reads has voted about it.
    pub has_voted: bool,
    /// The call.
    pub call: Call,
}

/// The row that a store keeps for the approval that a call needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRow {
    /// The id of the approval request.
    pub id: ApprovalId,
    /// The call.
    pub call: ToolCallId,
    /// The tool's name.
    pub tool: String,
    /// The owner of the chat.
    pub requester: Owner,
    /// The state of the approval.
    pub state: ApprovalState,
    /// The time of the request.
    pub requested_at: Timestamp,
    /// The time of the outcome.
    pub settled_at: Option<Timestamp>,
    /// The terms; `None` if the requester decides.
    pub terms: Option<SavedTerms>,
}

/// Terms of approvals, with the hash that names them.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedTerms {
    /// The SHA-256 of the terms as JSON, in hexadecimal.
    pub hash: String,
    /// The terms.
    pub terms: Arc<ApprovalTerms>,
}

/// The states that a list of approvals has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListedState {
    /// Those that wait, the oldest first.
    #[default]
    Waiting,
    /// Those that have an outcome, the newest outcome first.
    Settled,
    /// All, the newest request first.
    All,
}

/// A part of the approvals that a person may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedFor<'a> {
    /// Those that the person has requested.
    Requester,
    /// Those under the terms with these hashes.
    Terms(&'a [String]),
    /// Those that the person has voted about.
    Voter,
    /// Those of everybody.
    Anyone,
}

/// A list of approvals.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalList<'a> {
    /// The person who reads.
    pub viewer: &'a Owner,
    /// The part of those that the person may see.
    pub of: ListedFor<'a>,
    /// The states.
    pub state: ListedState,
    /// The name of the tool, if only its approvals are listed.
    pub tool: Option<&'a str>,
    /// The time and the id of the approval that the list begins after.
    pub after: Option<(Timestamp, &'a ApprovalId)>,
    /// The number of approvals at most.
    pub limit: usize,
}

/// The store of approvals.
#[async_trait]
pub trait Approvals: Send + Sync {
    /// Returns an approval, for this person.
    async fn approval(&self, id: &ApprovalId, viewer: &Owner) -> Result<Option<ApprovalRecord>, StoreError>;

    /// Lists approvals in the order of their states.
    async fn approvals(&self, list: ApprovalList<'_>) -> Result<Vec<ApprovalRecord>, StoreError>;

    /// Returns all terms that approvals have, or had, if others than the requester decide.
    async fn approval_terms(&self) -> Result<Vec<SavedTerms>, StoreError>;

    /// Returns the approvals whose last change comes after a place in the order of these changes, at most `limit`. Nobody in particular reads
    /// them.
    async fn changed_approvals(
        &self,
        after: &ApprovalCursor,
        limit: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError>;

    /// Notes the terms of an approval that waits, which have changed with the rules.
    async fn put_approval_terms(
        &self,
        id: &ApprovalId,
        terms: Option<&SavedTerms>,
        at: Timestamp,
    ) -> Result<(), StoreError>;
}

// === impl ListedState ===

impl ListedState {
    /// Returns whether an approval in this state is listed.
    pub fn has(self, state: ApprovalState) -> bool {
        match self {
            Self::Waiting => state == ApprovalState::Waiting,
            Self::Settled => state != ApprovalState::Waiting,
            Self::All => true,
        }
    }

    /// Returns the time that the list is ordered by.
    pub fn time_of(self, record: &ApprovalRecord) -> Timestamp {
        match self {
            Self::Waiting | Self::All => record.requested_at,
            Self::Settled => record.settled_at.unwrap_or(record.requested_at),
        }
    }
}

// === impl ApprovalState ===

impl ApprovalState {
    /// Returns the state of the approval that a call needs, or needed.
    pub fn of(call: &Call) -> Self {
        match (call.state(), &call.approval_decision) {
            (_, Some(decided)) if decided.approved => Self::Approved,
            (_, Some(_)) => Self::Denied,
            (CallState::AwaitingApproval { .. }, None) => Self::Waiting,
            (CallState::Cancelled { cancelled: Cancelled::Expired }, None) => Self::Expired,
            (CallState::Cancelled { cancelled: Cancelled::Denied { .. } }, None) => Self::Denied,
            (_, None) => Self::Cancelled,
        }
    }

    /// Returns the name that the wire and the database use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

// === impl Settled ===

impl Settled {
    /// Returns the outcome of an approval in this state; `None` while it waits.
    pub fn of(call: &Call, state: ApprovalState) -> Option<Self> {
        let decided = call.approval_decision.as_ref();
        match (state, decided) {
            (ApprovalState::Waiting, _) => None,
            (ApprovalState::Approved | ApprovalState::Denied, Some(decided)) => Some(Self {
                by: Some(decided.by.clone()),
                at: decided.at,
                channel: decided.how,
                reason: decided.reason.clone(),
            }),
            (_, _) => Some(Self { by: None, at: call.since(), channel: None, reason: None }),
        }
    }
}

// === impl ApprovalRow ===

impl ApprovalRow {
    /// Returns what is kept of the approval that a call needs; `None` if the call needs none.
    pub fn of(call: &Call) -> Option<Self> {
        let request = call.approval_request.as_ref().filter(|request| request.required)?;
        let state = ApprovalState::of(call);
        Some(Self {
            id: request.id.clone(),
            call: call.id.clone(),
            tool: call.tool.clone(),
            requester: request.requester.user.clone(),
            state,
            requested_at: request.at,
            settled_at: Settled::of(call, state).map(|settled| settled.at),
            terms: request.terms.clone().map(SavedTerms::from),
        })
    }
}

// === impl SavedTerms ===

impl From<Arc<ApprovalTerms>> for SavedTerms {
    fn from(terms: Arc<ApprovalTerms>) -> Self {
        let hash = sha256(serde_json::json!(terms).to_string().as_bytes());
        Self { hash, terms }
    }
}
