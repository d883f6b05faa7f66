//! The calls and questions of a chat that wait for an answer.

use axum::{Json, extract::State};
use fermata_engine::{Deciding, Pending as EnginePending, questions::CALL_FAILED};
use fermata_protocol::{ApprovalId, JsonText, ToolCallId};
use fermata_tools::{Asks, CallDetails, ErrorType, Presentation, Scope, StateName};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{App, auth::Caller, error::ApiError, extract::ChatPath};

/// A call that waits for an answer, or a question of a running call.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// The id of the elicitation; for other kinds, the id of the call.
    id: String,
    /// The id of the call, which an answer names unless this is an elicitation.
    #[schema(value_type = String)]
    tool_call_id: ToolCallId,
    tool: String,
    /// The tool's title. That of an MCP tool is the server's own text.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// The name in the settings of the MCP server that offers the tool, or that asks: then the text of the elicitation is that server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// The call in the words of its tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The effect that the call would have: `kind` (edit, run, send or info), `text`, and for an edit the text `before` and `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<CallDetails>,
    /// The input that the call would run with.
    #[schema(value_type = Value)]
    input: JsonText,
    /// The same input as JSON text, as it is run, and as its hash is in the audit. JavaScript reads some numbers of `input` as others.
    input_text: String,
    /// The possible scopes of `always` for an approval, the narrowest first. Without any the call cannot be allowed for always.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    scopes: Vec<Scope>,
    kind: Kind,
    /// `awaiting_approval` or `executing`.
    #[schema(value_type = String, example = "executing")]
    state: StateName,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// The time when it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires: Option<Timestamp>,
    /// The id of the approval request, if there is one. An answer may name it instead of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    approval_id: Option<ApprovalId>,
    /// The reason for asking a person, as the rule gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The code of what asks: `default`, `rule`, `chain`, `memory_writes`, `memory_slot`, `tool_changed`, `retry` or `tool`. The reason of a rule
    /// and of a tool is their own text; Fermata writes the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "rule")]
    reason_code: Option<&'static str>,
    /// The words of others in the reason: of the rule or the tool, or the sources that were read before a memory is changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason_detail: Option<String>,
    /// Those who decide about an approval: `by`, `quorum`, `notRequester`, `approvedBy`, and `mayDecide` for you.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    decision: Option<Deciding>,
    /// The text of an elicitation.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The party that asks with an elicitation: `assistant`, `tool` or `mcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "assistant")]
    asks: Option<Asks>,
    /// The name of a message that Fermata itself has written: `call_failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    code: Option<&'static str>,
    /// The type of the failure that a message with the code `call_failed` is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    error_type: Option<ErrorType>,
    /// The text of that failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_text: Option<String>,
    /// The JSON Schema of an elicitation's `content`.
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_schema: Option<Value>,
}

/// The kind of answer that is waited for.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A person's decision.
    Approval,
    /// A browser's output.
    Output,
    /// A person's answer to a question of a running tool.
    Elicitation,
}

/// The calls and questions that wait for an answer.
#[derive(Serialize, ToSchema)]
pub struct PendingList {
    pending: Vec<Pending>,
}

/// Lists the calls and questions of the chat that wait for an answer.
#[utoipa::path(get, path = "/api/chat/{id}/pending", operation_id = "listPending", tag = "chat",
    params(("id" = String, Path, description = "The chat's id")),
    responses((status = 200, description = "The calls and questions", body = PendingList), refusals::Chat)
)]
pub async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    ChatPath(chat): ChatPath,
) -> Result<Json<PendingList>, ApiError> {
    let mut pending = Vec::new();
    for waiting in app.engine().pending(&principal.user, &chat?).await? {
        let decision = match &waiting {
            EnginePending::Call(call) if call.awaits_approval() => {
                Some(app.engine().deciding(call, &principal))
            }
            EnginePending::Call(_) | EnginePending::Elicitation { .. } => None,
        };
        pending.push(Pending { decision, ..waiting.into() });
    }
    Ok(Json(PendingList { pending }))
}

impl From<EnginePending> for Pending {
    fn from(pending: EnginePending) -> Self {
        match pending {
            EnginePending::Call(call) => {
                let Presentation { title, server, description, details, scopes } = call.presentation.clone();
                let is_asked = call.awaits_approval();
                let asked = if is_asked { Some(&call) } else { None };
                let expires = call.state().expires();
                Self {
                    kind: if is_asked { Kind::Approval } else { Kind::Output },
                    state: call.state().name(),
                    since: call.since(),
                    input: call.effective_input().clone(),
                    input_text: call.effective_input().as_str().to_owned(),
                    scopes: if is_asked { scopes } else { Vec::new() },
                    reason: asked.and_then(|call| call.approval_reason()),
                    reason_code: asked.and_then(|call| call.reason_code()),
                    reason_detail: asked.and_then(|call| call.reason_detail()).map(str::to_owned),
                    approval_id: call.approval_request.map(|request| request.id),
                    id: call.id.to_string(),
                    tool_call_id: call.id,
                    tool: call.tool,
                    title,
                    server,
                    description,
                    details,
                    expires,
                    decision: None,
                    message: None,
                    asks: None,
                    code: None,
                    error_type: None,
                    error_text: None,
                    requested_schema: None,
                }
            }
            EnginePending::Elicitation { id, call, question, asks, failure, since, expires } => Self {
                kind: Kind::Elicitation,
                state: call.state().name(),
                since,
                input: call.effective_input().clone(),
                input_text: call.effective_input().as_str().to_owned(),
                scopes: Vec::new(),
                approval_id: None,
                reason: None,
                reason_code: None,
                reason_detail: None,
                id: id.to_string(),
                tool_call_id: call.id,
                tool: call.tool,
                title: call.presentation.title,
                description: call.presentation.description,
                // They are for the approval.
                details: None,
                expires: Some(expires),
                decision: None,
                message: Some(question.message),
                server: question.server,
                asks: Some(asks),
                code: failure.as_ref().map(|_| CALL_FAILED),
                error_type: failure.as_ref().map(|failure| failure.error_type),
                error_text: failure.map(|failure| failure.text),
                requested_schema: Some(question.requested_schema),
            },
        }
    }
}
