//! Starting, following and stopping a run.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use fermata_engine::Submission;
use fermata_protocol::{ChatBody, ChatRequest, EventId, Role, ToolCallId, Trigger};
use fermata_tools::Principal;

use super::schema::{EventStream, refusals};
use crate::{
    App,
    auth::{Caller, Identity},
    client::{Client, traceparent},
    config::Duration,
    error::{ApiError, Code, Problem},
    extract::{ApiJson, ChatPath},
    sse,
};

/// Starts a run from the new part of the post, and streams it.
///
/// The stream is the AI SDK's UI Message Stream, version 1. The run continues if the connection ends; `GET …/stream` follows it again.
#[utoipa::path(post, path = "/api/chat", operation_id = "postChat", tag = "chat", request_body = ChatRequest, responses(
    EventStream,
    (status = 403, description = "`not_yours_to_decide`: the message would decide about calls that others decide about", body = Problem, content_type = "application/problem+json"),
    (status = 404, description = "`not_found`: the chat belongs to another owner, `fermata.exists` was wrong, or the assistant is not for this owner", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "`nothing_to_continue`: the history contains nothing new; `decision_is_stale`: the message would decide about calls, and others wait than its sender was shown (`waiting` has them)", body = Problem, content_type = "application/problem+json"),
    refusals::Body,
    (status = 429, description = "`too_many_posts`: wait as long as `retry-after` says; `too_many_runs` or `too_many_readers`: wait for one to end; `too_many_chats` or `too_many_bytes`: delete chats; `too_many_failures` or `too_many_connections`: as for all requests", body = Problem, content_type = "application/problem+json",
        headers(("retry-after" = u32, description = "Seconds"))),
))]
pub async fn post(
    State(app): State<App>,
    Caller(principal): Caller,
    client: Client,
    headers: HeaderMap,
    ApiJson { body, reservation: _reservation }: ApiJson<ChatBody>,
) -> Result<Response, ApiError> {
    submit(&app, principal, body, client, &headers, None).await
}

/// Starts a run as a post asks for it, and streams it.
pub(super) async fn submit(
    app: &App,
    Principal { user: owner, groups, .. }: Principal,
    body: ChatBody,
    client: Client,
    headers: &HeaderMap,
    retries: Option<ToolCallId>,
) -> Result<Response, ApiError> {
    let hold = match body.fermata.hold.as_deref().map(Duration::parse) {
        None => None,
        Some(Ok(hold)) => Some(hold.0),
        Some(Err(reason)) => {
            return Err(ApiError::new(Code::InvalidRequest, format!("fermata.hold: {reason}.")));
        }
    };
    let is_answer = retries.is_none()
        && body.trigger != Trigger::Regenerate
        && body.messages.last().is_some_and(|message| message.role == Role::Assistant);
    // A post that only answers calls always gets through.
    if !is_answer {
        app.posts().admit(&owner)?;
    }
    // A run that its owner may not read must not start.
    let guard = app.readers().enter(&owner)?;
    let traceparent = traceparent(headers);
    let submission = Submission { owner, groups, body, hold, address: client.address, retries, traceparent };
    let following = app.engine().submit(submission).await?;
    Ok(sse::stream(app.engine(), following, guard))
}

/// Follows the open run.
///
/// The stream begins at the start of the run, or after the event that `Last-Event-ID` names, and then continues live. For two minutes after
/// the end of a run, a client that names one of its events is sent the rest.
#[utoipa::path(get, path = "/api/chat/{id}/stream", operation_id = "followChat", tag = "chat",
    params(
        ("id" = String, Path, description = "The chat's id"),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id:` of the last event that the client has received"),
    ),
    responses(
        EventStream,
        (status = 204, description = "No run is open and nothing of the named run is left to send, or the chat is unknown"),
        refusals::Any,
        (status = 429, description = "`too_many_readers`: wait for one to end; `too_many_failures` or `too_many_connections`: as for all requests", body = Problem, content_type = "application/problem+json",
            headers(("retry-after" = u32, description = "Seconds"))),
    )
)]
pub async fn stream(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Ok(chat) = chat else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let after = headers.get("last-event-id").and_then(|id| EventId::parse(id.to_str().ok()?));
    let guard = app.readers().enter(&owner)?;
    match app.engine().resume(&owner, &chat, after).await? {
        Some(following) => Ok(sse::stream(app.engine(), following, guard)),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Stops the open run.
///
/// Its pending calls are cancelled, even if the stream has ended.
#[utoipa::path(post, path = "/api/chat/{id}/stop", operation_id = "stopChat", tag = "chat",
    params(("id" = String, Path, description = "The chat's id")),
    responses((status = 204, description = "The run is stopped, or no run was open"), refusals::Any)
)]
pub async fn stop(
    State(app): State<App>,
    Identity(owner): Identity,
    ChatPath(chat): ChatPath,
) -> Result<StatusCode, ApiError> {
    let Ok(chat) = chat else {
        return Ok(StatusCode::NO_CONTENT);
    };
    match app.engine().stop(&owner, &chat).await {
        Ok(()) | Err(fermata_engine::ReadError::NotFound) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(error.into()),
    }
}
