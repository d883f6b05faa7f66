//! The grants of a chat: calls that need no approval.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};
use fermata_protocol::{ChatId, GrantedFor, InvalidId};
use fermata_tools::{Grant as GivenGrant, Scope};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{
    App,
    auth::Identity,
    client::Client,
    error::ApiError,
    extract::{ApiQuery, ChatPath},
};

/// Calls that need no approval, unless a rule or `chain` requires it.
#[derive(Serialize, ToSchema)]
pub struct Grant {
    /// The tool whose call the person approved.
    tool: String,
    /// The id of the scope.
    #[schema(example = "host:docs.example.org")]
    scope: String,
    /// The scope in a word or two.
    #[schema(example = "docs.example.org")]
    label: String,
    /// The calls in words.
    #[schema(example = "every call of fetch_url for docs.example.org")]
    covers: String,
    /// The extent of the grant: this chat or all chats of the owner.
    #[serde(rename = "for")]
    granted_for: GrantedFor,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// The time when the grant ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

/// The grants to revoke among those of a tool; all of them if nothing is said.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct GrantFilter {
    /// The id of the scope.
    scope: Option<String>,
    /// The extent of the grant: this chat (`chat`) or all chats of the owner (`owner`).
    #[serde(rename = "for")]
    #[param(rename = "for")]
    granted_for: Option<GrantedFor>,
}

/// The grants of a chat.
#[derive(Serialize, ToSchema)]
pub struct GrantList {
    grants: Vec<Grant>,
}

/// Lists the permissions for always: in the chat, and in all chats of its owner.
///
/// A grant is not listed if it has ended, or if its tool has changed since: the party that runs it, its description or its schema.
#[utoipa::path(get, path = "/api/chat/{id}/grants", operation_id = "listGrants", tag = "record",
    params(("id" = String, Path, description = "The chat's id")),
    responses((status = 200, description = "The grants", body = GrantList), refusals::Chat)
)]
pub async fn list(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
) -> Result<Json<GrantList>, ApiError> {
    let grants = app.engine().grants(&owner, &chat?).await?;
    Ok(Json(GrantList { grants: grants.into_iter().map(Into::into).collect() }))
}

/// Revokes grants that were given for a tool, so that later calls need approval again. A run that is under way in another chat honors a
/// grant of the owner until its next step.
#[utoipa::path(delete, path = "/api/chat/{id}/grants/{tool}", operation_id = "endGrant", tag = "record",
    params(
        ("id" = String, Path, description = "The chat's id"),
        ("tool" = String, Path, description = "The tool's name"),
        GrantFilter,
    ),
    responses((status = 204, description = "The grants are revoked, or there were none"), refusals::Chat)
)]
pub async fn delete(
    State(app): State<App>,
    Identity(owner): Identity,
    client: Client,
    path: Result<Path<(String, String)>, PathRejection>,
    filter: ApiQuery<GrantFilter>,
) -> Result<StatusCode, ApiError> {
    // A path that is not UTF-8 is no valid chat id, either.
    let Path((chat, tool)) = path.map_err(|_| InvalidId)?;
    let ApiQuery(GrantFilter { scope, granted_for }) = filter;
    app.engine().end_grant(&owner, &ChatId::parse(&chat)?, client.address, tool, scope, granted_for).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<GivenGrant> for Grant {
    fn from(GivenGrant { tool, since, terms }: GivenGrant) -> Self {
        let Scope { id, label, covers } = terms.scope;
        Self { tool, scope: id, label, covers, granted_for: terms.granted_for, since, until: terms.until }
    }
}
