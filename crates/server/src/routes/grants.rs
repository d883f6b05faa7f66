//! The grants of a chat: tools whose calls need no approval.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};
use fermata_engine::GrantedTool;
use fermata_protocol::{ChatId, InvalidId};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{App, auth::Identity, client::Client, error::ApiError, extract::ChatPath};

/// A tool whose calls need no approval in the chat, unless a rule or `chain` requires it.
#[derive(Serialize, ToSchema)]
pub struct Grant {
    tool: String,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
}

/// The grants of a chat.
#[derive(Serialize, ToSchema)]
pub struct GrantList {
    grants: Vec<Grant>,
}

/// Lists the tools that a person has always allowed in the chat, by name.
///
/// A tool is not listed if it has changed since: the party that runs it, its description or its schema.
#[utoipa::path(get, path = "/api/chat/{id}/grants", operation_id = "listGrants", tag = "record",
    params(("id" = String, Path, description = "The chat's id")),
    responses((status = 200, description = "The grants", body = GrantList), refusals::Chat)
)]
pub async fn list(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
) -> Result<Json<GrantList>, ApiError> {
    let granted = app.engine().grants(&owner, &chat?).await?;
    let grants = granted.into_iter().map(|GrantedTool { tool, since }| Grant { tool, since });
    Ok(Json(GrantList { grants: grants.collect() }))
}

/// Revokes a grant, so that later calls of the tool need approval again.
#[utoipa::path(delete, path = "/api/chat/{id}/grants/{tool}", operation_id = "endGrant", tag = "record",
    params(
        ("id" = String, Path, description = "The chat's id"),
        ("tool" = String, Path, description = "The tool's name"),
    ),
    responses((status = 204, description = "The grant is revoked, or there was none"), refusals::Chat)
)]
pub async fn delete(
    State(app): State<App>,
    Identity(owner): Identity,
    client: Client,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    // A path that is not UTF-8 is no valid chat id, either.
    let Path((chat, tool)) = path.map_err(|_| InvalidId)?;
    app.engine().end_grant(&owner, &ChatId::parse(&chat)?, client.address, tool).await?;
    Ok(StatusCode::NO_CONTENT)
}
