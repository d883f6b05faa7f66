//! All data of the authenticated owner: to be exported, or to be deleted.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use fermata_engine::ReadError;
use fermata_tools::{AuditAction, AuditEvent};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{
    App,
    auth::Identity,
    client::Client,
    error::ApiError,
    personal_data::{self, Deleted, Memory, Note},
};

/// All that is stored for an owner.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersonalData {
    /// The owner, as the credentials name them.
    owner: String,
    #[schema(value_type = String, format = DateTime)]
    exported_at: Timestamp,
    /// The chats, newest first, each as of the moment when it was read.
    chats: Vec<ExportedChat>,
    memories: Vec<Memory>,
    notes: Vec<Note>,
    /// The audit of the owner's data: decisions about calls, their outcomes, deletions and changes of memories, the oldest first.
    decisions: Vec<Decision>,
}

/// A chat with its messages.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportedChat {
    id: String,
    #[schema(required)]
    title: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// The assistant that the chat has chosen.
    assistant: Option<String>,
    /// The model that the chat has chosen.
    model: Option<String>,
    /// The chat's summary, if it has one.
    #[schema(value_type = Option<Object>)]
    summary: Option<fermata_protocol::Summary>,
    /// The UI messages in the AI SDK's form, without the one that is being written.
    messages: Vec<fermata_protocol::UiMessage>,
}

/// An event of the audit.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// The event, such as `approved`, `started` or `chat_deleted`.
    event: String,
    /// The chat, if the event is about one.
    chat_id: Option<String>,
    run_id: Option<String>,
    tool_call_id: Option<String>,
    tool: Option<String>,
    /// The person who did it, if one did.
    principal: Option<String>,
    /// The groups of that person at that moment.
    groups: Option<Vec<String>>,
    /// The way of the person's decision: `button`, `words`, `message`, `api`, `slack`, `email` or `decider`.
    channel: Option<String>,
    /// The network address of the person who decided.
    address: Option<String>,
    /// The approval that the event is about.
    approval_id: Option<String>,
    /// The rule that decided, if one did.
    rule: Option<String>,
    /// The reason that the person or the rule gives.
    reason: Option<String>,
    /// The SHA-256 of the input.
    input_hash: Option<String>,
    /// The hash of the input that the person was shown, if the client sent it.
    shown_hash: Option<String>,
    /// The effect of an attempt to decide: `counted`, `refused` or `settled`.
    outcome: Option<String>,
    /// The id of the memory that the event is about.
    subject: Option<String>,
}

/// Returns all that is stored for the owner: chats, memories, notes, and the decisions about their calls.
///
/// The document is sent as fast as the client reads it. If it cannot be read to its end, the response ends early.
#[utoipa::path(get, path = "/api/me/data", operation_id = "exportData", tag = "personal data",
    responses((status = 200, description = "All that is stored for the owner", body = PersonalData), refusals::Any)
)]
pub async fn export(
    State(app): State<App>,
    Identity(owner): Identity,
    client: Client,
) -> Result<Response, ApiError> {
    let event = AuditEvent::new(AuditAction::DataExported).by(owner.clone(), client.address);
    personal_data::note(app.database(), &owner, event).await.map_err(ReadError::from)?;
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"fermata-data.json\""),
    ];
    let document = personal_data::document(app.database().clone(), owner);
    Ok((headers, Body::from_stream(document)).into_response())
}

/// Deletes all that is stored for the owner: chats with all that belongs to them, memories and notes. Open runs are stopped.
///
/// This cannot be undone. If it fails, it can be repeated. The audit is kept for the time that the operator has set
/// (`audit_keep`), because it says who has allowed what; it has neither inputs nor messages. A chat that begins meanwhile may stay.
#[utoipa::path(delete, path = "/api/me/data", operation_id = "deleteData", tag = "personal data",
    responses((status = 200, description = "The numbers of what was deleted", body = Deleted), refusals::Any)
)]
pub async fn delete(
    State(app): State<App>,
    Identity(owner): Identity,
    client: Client,
) -> Result<Json<Deleted>, ApiError> {
    let event = AuditEvent::new(AuditAction::DataDeleted).by(owner.clone(), client.address);
    let engine = app.engine();
    let deleting = personal_data::delete_all(app.database(), &owner, event, async |chat| {
        match engine.delete(&owner, &chat, false).await {
            Ok(()) => Ok(true),
            Err(ReadError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    });
    Ok(Json(deleting.await?))
}
