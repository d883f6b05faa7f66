//! An approval as people outside its chat see it: the call that waits for their decision, exactly, and nothing else of the chat.

use fermata_protocol::{ApprovalId, ChatId, JsonText};
use fermata_tools::{
    Approver, Call, CallDetails, CallState, Cancelled, DecisionChannel, Owner, StateName, input_hash,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

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
    /// The same input as JSON text, as it is run.
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

/// A principal's vote about an approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VoteRequest {
    /// `true` to approve the call.
    pub approved: bool,
    /// A comment, which the model reads if the call is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The input that the call is to run with in place of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<JsonText>,
    /// The hash of the input that the person was shown. The vote counts only for that input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_hash: Option<String>,
}
