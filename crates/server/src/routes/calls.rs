//! Single calls: cancelling one that runs, and making one again that has failed.

use axum::{
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use fermata_engine::CallError;
use fermata_protocol::{ChatId, RetryBody, RetryRequest, ToolCallId};

use super::{
    chat::submit,
    schema::{EventStream, refusals},
};
use crate::{
    App,
    auth::{Caller, Identity},
    client::Client,
    error::{ApiError, Problem},
    extract::ApiJson,
};

/// Cancels one call that a tool of the server or of an MCP server runs.
///
/// The run goes on: the model learns that the user has cancelled the call, and receives its last report.
#[utoipa::path(post, path = "/api/chat/{id}/calls/{call}/cancel", operation_id = "cancelCall", tag = "chat",
    params(
        ("id" = String, Path, description = "The chat's id"),
        ("call" = String, Path, description = "The call's id"),
    ),
    responses(
        (status = 204, description = "The call is cancelled"),
        (status = 404, description = "`not_found`: there is no such call", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`not_running`: the call waits, or has its outcome", body = Problem, content_type = "application/problem+json"),
        refusals::Any,
    )
)]
pub async fn cancel(
    State(app): State<App>,
    Identity(owner): Identity,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let (chat, call) = chat_and_call(path)?;
    app.engine().cancel_call(&owner, &chat, call).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a failed call again, once.
///
/// A new run begins with the new call and goes on with the model. The rules apply to the call as to any other. If the failed call may have had
/// its effect and its tool is not repeatable, a person has to approve the new call. The stream is that of `POST /api/chat`.
#[utoipa::path(post, path = "/api/chat/{id}/calls/{call}/retry", operation_id = "retryCall", tag = "chat",
    params(
        ("id" = String, Path, description = "The chat's id"),
        ("call" = String, Path, description = "The call's id"),
    ),
    request_body(content = RetryRequest, description = "May be left out"),
    responses(
        EventStream,
        (status = 404, description = "`not_found`: there is no such call", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`not_failed`: the call has not failed, or was denied, stopped or cancelled; `already_retried`: the call was made again, as `retriedAs`; `run_open`: a run of the chat is open", body = Problem, content_type = "application/problem+json"),
        refusals::Body,
        (status = 429, description = "As for `POST /api/chat`", body = Problem, content_type = "application/problem+json",
            headers(("retry-after" = u32, description = "Seconds"))),
    )
)]
pub async fn retry(
    State(app): State<App>,
    Caller(principal): Caller,
    client: Client,
    headers: HeaderMap,
    path: Result<Path<(String, String)>, PathRejection>,
    ApiJson { body: RetryBody(mut body), reservation: _reservation }: ApiJson<RetryBody>,
) -> Result<Response, ApiError> {
    let (chat, call) = chat_and_call(path)?;
    body.id = Some(chat);
    submit(&app, principal, body, client, &headers, Some(call)).await
}

fn chat_and_call(
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<(ChatId, ToolCallId), CallError> {
    let Path((chat, call)) = path.map_err(|_| CallError::NotFound)?;
    let chat = ChatId::parse(&chat).map_err(|_| CallError::NotFound)?;
    Ok((chat, ToolCallId::new(call)))
}
