//! What is allowed for always in a chat.

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

/// A tool whose calls are not asked about in the chat, unless a rule or `chain` does.
#[derive(Serialize, ToSchema)]
pub struct Grant {
    tool: String,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
}

/// What is allowed for always.
#[derive(Serialize, ToSchema)]
pub struct GrantList {
    grants: Vec<Grant>,
}

/// The tools that a person has allowed for always in the chat, by name.
///
/// A tool that has become another one since is not among them: who runs it, its description or its schema have changed.
#[utoipa::path(get, path = "/api/chat/{id}/grants", operation_id = "listGrants", tag = "record",
    params(("id" = String, Path, description = "The chat")),
    responses((status = 200, description = "What is allowed", body = GrantList), refusals::Chat)
)]
pub async fn list(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
) -> Result<Json<GrantList>, ApiError> {
    let granted = app.engine().grants(&owner, &chat?).await?;
    Ok(Json(GrantList { grants: granted.into_iter().map(Into::into).collect() }))
}

/// Takes back that a tool is allowed for always: its later calls are asked about again.
#[utoipa::path(delete, path = "/api/chat/{id}/grants/{tool}", operation_id = "endGrant", tag = "record",
    params(
        ("id" = String, Path, description = "The chat"),
        ("tool" = String, Path, description = "The tool's name"),
    ),
    responses((status = 204, description = "It is not allowed for always, also if it never was"), refusals::Chat)
)]
pub async fn delete(
    State(app): State<App>,
    Identity(owner): Identity,
    client: Client,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    // What is no UTF-8 is no chat's id either.
    let Path((chat, tool)) = path.map_err(|_| InvalidId)?;
    app.engine().end_grant(&owner, &ChatId::parse(&chat)?, client.address, tool).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<GrantedTool> for Grant {
    fn from(GrantedTool { tool, since }: GrantedTool) -> Self {
        Self { tool, since }
    }
}
