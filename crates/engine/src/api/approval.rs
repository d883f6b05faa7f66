//! An approval as people outside its chat see it: the call that waits for their decision, exactly, and nothing else of the chat.

use fermata_protocol::{ApprovalId, ChatId, JsonText};
use fermata_tools::{
    ApprovalTerms, Approver, Call, CallDetails, Owner, People, Principal, input_hash, may_decide,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ports::store::{ApprovalState, ListedState, Settled};

/// A call that needs, or needed, the approval of people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// The id of the approval request.
    pub id: ApprovalId,
    /// The state of the approval.
    pub state: ApprovalState,
    /// The tool's name.
    pub tool: String,
    /// The tool's title. That of an MCP tool is the server's own text.
    pub title: Option<String>,
    /// The name of the MCP server that offers the tool.
    pub server: Option<String>,
    /// The call in the words of its tool.
    pub description: Option<String>,
    /// The effect that the call would have.
    pub details: Option<CallDetails>,
    /// The input that the call would run with.
    pub input: JsonText,
    /// The JSON text of the input, byte by byte as the call would run with it.
    pub input_text: String,
    /// The SHA-256 of that text, in hexadecimal.
    pub input_hash: String,
    /// The reason for asking, as the rule gives it.
    pub reason: Option<String>,
    /// The owner of the chat.
    pub requested_by: Owner,
    /// The time when the approval was requested.
    pub requested_at: Timestamp,
    /// The time when it expires.
    pub expires_at: Option<Timestamp>,
    /// The parties that decide.
    pub decision: Deciding,
    /// The chat, for the requester.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub chat: Option<ChatOfApproval>,
    /// The outcome; `None` while the approval waits.
    pub settled: Option<Settled>,
}

/// The parties that decide about a call, and how far they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deciding {
    /// The parties that may decide.
    pub by: Vec<Approver>,
    /// The number of different people that have to approve.
    pub quorum: u32,
    /// `true` if the requester may not decide.
    pub not_requester: bool,
    /// Those who have approved.
    pub approved_by: Vec<Owner>,
    /// `true` if the person who reads this may decide; `None` if nobody in particular does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub may_decide: Option<bool>,
}

/// The chat of an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatOfApproval {
    /// The chat's id.
    pub id: ChatId,
    /// The chat's title.
    pub title: Option<String>,
}

/// The part of the approvals that a list has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// The states.
    pub state: ListedState,
    /// The name of the tool; `None` for all tools.
    pub tool: Option<String>,
    /// `true` for those alone that the principal can decide now.
    pub mine: bool,
    /// The number of approvals at most.
    pub limit: usize,
    /// The `next` of the page before.
    pub before: Option<String>,
}

/// One page of a list of approvals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApprovalPage {
    /// The approvals.
    pub approvals: Vec<Approval>,
    /// The cursor of the next page; `None` on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

// === impl Approval ===

impl Approval {
    /// Returns the approval of a call with this id, which may be one that no longer counts because the call was asked about again.
    pub fn of(call: &Call, id: &ApprovalId) -> Self {
        let request = call.approval_request.as_ref();
        let current = request.filter(|request| request.id == *id);
        let state = if current.is_some() { ApprovalState::of(call) } else { ApprovalState::Cancelled };
        let input = call.effective_input();
        Self {
            id: id.clone(),
            state,
            tool: call.tool.clone(),
            title: call.presentation.title.clone(),
            server: call.presentation.server.clone(),
            description: call.presentation.description.clone(),
            details: call.presentation.details.clone(),
            input: input.clone(),
            input_text: input.as_str().to_owned(),
            input_hash: input_hash(input),
            reason: call.approval_reason(),
            requested_by: request.map_or_else(Owner::anyone, |request| request.requester.user.clone()),
            requested_at: request.map_or(call.since(), |request| request.at),
            expires_at: current.and_then(|request| request.expires),
            decision: Deciding::of(call),
            chat: None,
            settled: Settled::of(call, state),
        }
    }
}

// === impl Deciding ===

impl Deciding {
    /// Returns those who decide about a call that waits, for a principal.
    pub fn for_principal(call: &Call, principal: &Principal, people: &People) -> Self {
        let request = call.approval_request.as_ref();
        let terms = request.map_or(ApprovalTerms::by_requester(), |request| request.terms());
        let requester = request.map_or(principal, |request| &request.requester);
        let may_decide = may_decide(principal, &requester.user, terms, people);
        Self { may_decide: Some(may_decide), ..Self::of(call) }
    }

    fn of(call: &Call) -> Self {
        let request = call.approval_request.as_ref();
        let terms = request.map_or(ApprovalTerms::by_requester(), |request| request.terms());
        let votes = request.map(|request| request.votes.as_slice()).unwrap_or_default();
        Self {
            by: terms.by.clone(),
            quorum: terms.quorum,
            not_requester: terms.not_requester,
            approved_by: votes.iter().map(|vote| vote.by.user.clone()).collect(),
            may_decide: None,
        }
    }
}
