//! What waits for somebody.

use axum::{Json, extract::State};
use fermata_engine::Pending as Waiting;
use fermata_protocol::{ApprovalId, ToolCallId};
use fermata_tools::StateName;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{App, auth::Identity, error::ApiError, extract::ChatPath};

/// What waits for somebody: a call, or what a running call asks.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// The elicitation where it is one; otherwise the call, as `toolCallId` has it.
    id: String,
    /// The call: what an answer names, unless it is an elicitation.
    #[schema(value_type = String)]
    tool_call_id: ToolCallId,
    tool: String,
    /// What would run.
    #[schema(value_type = Object)]
    input: Value,
    kind: Kind,
    /// `awaiting_approval` or `executing`.
    #[schema(value_type = String, example = "executing")]
    state: StateName,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// When it is settled as expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires: Option<Timestamp>,
    /// The question, where there is one: an answer may name it instead of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    approval_id: Option<ApprovalId>,
    /// Why a person is asked, in the words of the rule that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What an elicitation asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The MCP server that asks, as the settings name it. The words of the elicitation are its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// JSON Schema of an elicitation's `content`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    requested_schema: Option<Value>,
}

/// What is waited for.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A person's decision.
    Approval,
    /// A browser's output.
    Output,
    /// A person's answer to what a running tool asks.
    Elicitation,
}

/// What waits.
#[derive(Serialize, ToSchema)]
pub struct PendingList {
    pending: Vec<Pending>,
}

/// What waits for somebody in the chat.
#[utoipa::path(get, path = "/api/chat/{id}/pending", operation_id = "listPending", tag = "chat",
    params(("id" = String, Path, description = "The chat")),
    responses((status = 200, description = "What waits", body = PendingList), refusals::Chat)
)]
pub async fn list(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
) -> Result<Json<PendingList>, ApiError> {
    let pending = app.engine().pending(&owner, &chat?).await?;
    Ok(Json(PendingList { pending: pending.into_iter().map(Into::into).collect() }))
}

impl From<Waiting> for Pending {
    fn from(waiting: Waiting) -> Self {
        match waiting {
            Waiting::Call(call) => Self {
                kind: if call.awaits_approval() { Kind::Approval } else { Kind::Output },
                state: call.state().name(),
                since: call.since(),
                input: call.effective_input().clone(),
                reason: call.approval_reason().filter(|_| call.awaits_approval()).map(str::to_owned),
                approval_id: call.approval_request.map(|question| question.id),
                id: call.id.to_string(),
                tool_call_id: call.id,
                tool: call.tool,
                expires: call.expires,
                message: None,
                server: None,
                requested_schema: None,
            },
            Waiting::Elicitation { id, call, question, since, expires } => Self {
                kind: Kind::Elicitation,
                state: call.state().name(),
                since,
                input: call.effective_input().clone(),
                approval_id: None,
                reason: None,
                id: id.to_string(),
                tool_call_id: call.id,
                tool: call.tool,
                expires: Some(expires),
                message: Some(question.message),
                server: question.server,
                requested_schema: Some(question.requested_schema),
            },
        }
    }
}
