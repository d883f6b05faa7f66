//! What waits for somebody.

use axum::{Json, extract::State};
use fermata_engine::PendingCall;
use fermata_protocol::{ApprovalId, ToolCallId};
use fermata_tools::StateName;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{App, auth::Identity, error::ApiError, extract::ChatPath};

/// A call that waits for somebody.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// The call, as `toolCallId` has it.
    #[schema(value_type = String)]
    id: ToolCallId,
    /// The call: what an answer names.
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
}

/// What is waited for.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A person's decision.
    Approval,
    /// A browser's output.
    Output,
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
    let chat = app.engine().chat(&owner, &chat?).await?;
    Ok(Json(PendingList { pending: chat.pending.into_iter().map(Into::into).collect() }))
}

impl From<PendingCall> for Pending {
    fn from(PendingCall { call }: PendingCall) -> Self {
        Self {
            kind: if call.is_asked() { Kind::Approval } else { Kind::Output },
            state: call.state().name(),
            since: call.since(),
            input: call.effective_input().clone(),
            approval_id: call.question.map(|question| question.id),
            id: call.id.clone(),
            tool_call_id: call.id,
            tool: call.tool,
            expires: call.expires,
        }
    }
}
