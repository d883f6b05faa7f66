//! `/api/chat/{id}/messages/{message}`: a message of a chat.

use axum::{
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};
use fermata_protocol::{ChatId, InvalidId, MessageId};
use serde::Deserialize;

use super::schema::refusals;
use crate::{
    App,
    auth::Identity,
    error::{ApiError, Problem},
    extract::ApiQuery,
};

/// The messages that are deleted.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Extent {
    /// `true` deletes all later messages as well.
    #[serde(default)]
    after: bool,
}

/// Deletes a message. The model is not sent it any more, and a summary that covers it does not count any more.
#[utoipa::path(delete, path = "/api/chat/{id}/messages/{message}", operation_id = "deleteMessage", tag = "record",
    params(
        ("id" = String, Path, description = "The chat's id"),
        ("message" = String, Path, description = "The message's id"),
        Extent,
    ),
    responses(
        (status = 204, description = "The message is deleted"),
        (status = 409, description = "`run_open`: a run is open", body = Problem, content_type = "application/problem+json"),
        refusals::Chat,
    )
)]
pub async fn delete(
    State(app): State<App>,
    Identity(owner): Identity,
    path: Result<Path<(String, String)>, PathRejection>,
    extent: ApiQuery<Extent>,
) -> Result<StatusCode, ApiError> {
    // A path that is not UTF-8 is no valid chat id, either.
    let Path((chat, message)) = path.map_err(|_| InvalidId)?;
    let ApiQuery(Extent { after }) = extent;
    app.engine().delete_message(&owner, &ChatId::parse(&chat)?, MessageId::new(message), after).await?;
    Ok(StatusCode::NO_CONTENT)
}
