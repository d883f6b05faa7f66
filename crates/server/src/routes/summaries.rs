//! The summary of a chat: reading, correcting and asking for it.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use fermata_engine::SummaryView;
use fermata_protocol::{CompactRequest, Summary, SummaryRequest};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{
    App,
    auth::{Caller, Identity},
    error::{ApiError, Code, Problem},
    extract::{ApiJson, ApiQuery, ChatPath},
};

/// The summary that stands for the earlier messages of a chat when the model is asked.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatSummary {
    summary: Summary,
    /// The id of the last message that it covers.
    up_to: String,
    /// The number of messages that it covers, from the first of the chat.
    #[schema(example = 42)]
    messages: usize,
    /// `every`, `size`, `overflow` or `asked`.
    reason: String,
    /// The name of the model that has written it.
    model: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<SummaryView> for ChatSummary {
    fn from(view: SummaryView) -> Self {
        let SummaryView { summary, up_to, messages, reason, model, created_at } = view;
        Self { summary, up_to: up_to.to_string(), messages, reason, model, created_at }
    }
}

/// The parameters of reading a summary.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Reading {
    /// Answers 204 instead of 404 if the chat has no summary, for pages: browsers log a 404 as an error.
    #[serde(default)]
    #[param(default = false)]
    optional: bool,
}

/// Reads the summary of a chat.
#[utoipa::path(get, path = "/api/chat/{id}/summary", operation_id = "getSummary", tag = "record",
    params(("id" = String, Path, description = "The chat's id"), Reading),
    responses(
        (status = 200, description = "The summary", body = ChatSummary),
        (status = 204, description = "The chat has no summary, and `optional` was given"),
        refusals::Chat,
    )
)]
pub async fn get(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
    ApiQuery(Reading { optional }): ApiQuery<Reading>,
) -> Result<Response, ApiError> {
    match app.engine().summary(&owner, &chat?).await? {
        Some(summary) => Ok(Json(ChatSummary::from(summary)).into_response()),
        None if optional => Ok(StatusCode::NO_CONTENT.into_response()),
        None => Err(ApiError::new(Code::NotFound, "The chat has no summary.")),
    }
}

/// Corrects the summary of a chat.
///
/// The correction replaces the whole text, and counts from the next run on.
#[utoipa::path(put, path = "/api/chat/{id}/summary", operation_id = "putSummary", tag = "record",
    params(("id" = String, Path, description = "The chat's id")),
    request_body = SummaryRequest,
    responses((status = 200, description = "The corrected summary", body = ChatSummary), refusals::Chat, refusals::Body)
)]
pub async fn put(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
    ApiJson { body, reservation: _reservation }: ApiJson<SummaryRequest>,
) -> Result<Json<ChatSummary>, ApiError> {
    Ok(Json(app.engine().correct_summary(&owner, &chat?, body.summary).await?.into()))
}

/// Summarizes a chat now, but for its most recent messages.
#[utoipa::path(post, path = "/api/chat/{id}/compact", operation_id = "compactChat", tag = "record",
    params(("id" = String, Path, description = "The chat's id")),
    request_body = Option<CompactRequest>,
    responses(
        (status = 200, description = "The new summary", body = ChatSummary),
        (status = 409, description = "`run_open`: a run is open; `nothing_to_compact`: only recent messages are left", body = Problem, content_type = "application/problem+json"),
        refusals::Chat,
        refusals::Body,
        (status = 429, description = "`too_many_posts`: wait as long as `retry-after` says; `too_many_failures` or `too_many_connections`: as for all requests", body = Problem, content_type = "application/problem+json",
            headers(("retry-after" = u32, description = "Seconds"))),
    )
)]
pub async fn compact(
    State(app): State<App>,
    Caller(principal): Caller,
    ChatPath(chat): ChatPath,
    ApiJson { body, reservation: _reservation }: ApiJson<CompactRequest>,
) -> Result<Json<ChatSummary>, ApiError> {
    app.posts().admit(&principal.user)?;
    Ok(Json(app.engine().compact(&principal, &chat?, body.instructions).await?.into()))
}
