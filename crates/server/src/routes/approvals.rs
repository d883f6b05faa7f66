//! The approvals of all chats, for the people who decide about them.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use fermata_engine::{Approval, ApprovalFilter, store::ListedState};
use fermata_protocol::{ApprovalId, JsonText, PostedVote, VoteRequest};
use fermata_tools::{CallDetails, Decider, sha256};
use futures::StreamExt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{schema::refusals, tool_result::Sender};
use crate::{
    App,
    auth::Caller,
    client::Client,
    error::{ApiError, Code, Problem},
    extract::{ApiJson, ApiQuery},
    sse,
};

/// The number of approvals in a list if nothing is said, and at most.
const DEFAULT_LIMIT: usize = 50;
const MOST: usize = 200;

/// The approvals that a list has.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// `waiting` (the default, oldest first), `settled` (newest outcome first) or `all` (newest first).
    state: Option<String>,
    /// The name of the tool.
    tool: Option<String>,
    /// `true` for those alone that you can decide now.
    mine: Option<bool>,
    /// The number of approvals at most, from 1 to 200. The default is 50.
    limit: Option<usize>,
    /// The `next` of the page before.
    before: Option<String>,
}

/// The approvals of a page.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is read by the description only; the engine has the pages")]
pub struct ApprovalList {
    approvals: Vec<DescribedApproval>,
    /// The cursor of the next page, if there is one.
    next: Option<String>,
}

/// A call that needs, or needed, the approval of people.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Approval)]
#[expect(dead_code, reason = "it is read by the description only; the engine has the approvals")]
pub struct DescribedApproval {
    /// The id of the approval request, as in the chat's stream.
    id: String,
    /// `waiting`, `approved`, `denied`, `expired` or `cancelled`.
    state: String,
    tool: String,
    /// The tool's title. That of an MCP tool is the server's own text.
    #[schema(required)]
    title: Option<String>,
    /// The MCP server that offers the tool.
    #[schema(required)]
    server: Option<String>,
    /// The call in the words of its tool.
    #[schema(required)]
    description: Option<String>,
    /// The effect that the call would have.
    #[schema(value_type = Option<Object>, required)]
    details: Option<CallDetails>,
    /// The input that the call would run with.
    #[schema(value_type = Value)]
    input: JsonText,
    /// The same input as JSON text, as it is run.
    input_text: String,
    /// The SHA-256 of that text, in hexadecimal.
    input_hash: String,
    /// The reason for asking.
    #[schema(required)]
    reason: Option<String>,
    /// The owner of the chat.
    requested_by: String,
    #[schema(value_type = String, format = DateTime)]
    requested_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    expires_at: Option<Timestamp>,
    decision: Deciding,
    /// The chat, for its owner alone.
    #[schema(value_type = Option<Object>)]
    chat: Option<Value>,
    /// The outcome: `by`, `at`, `channel` and `reason`.
    #[schema(value_type = Option<Object>, required)]
    settled: Option<Value>,
}

/// Those who decide about a call, and how far they are.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is read by the description only; the engine has it")]
pub struct Deciding {
    /// `requester`, `user:…`, `group:…` or `channel:…`.
    by: Vec<String>,
    /// The number of different people who have to approve.
    quorum: u32,
    /// True if the requester may not decide.
    not_requester: bool,
    approved_by: Vec<String>,
    /// True if you may decide.
    may_decide: bool,
}

/// The user of a request, as the server knows them.
#[derive(Serialize, ToSchema)]
pub struct Me {
    user: String,
    groups: Vec<String>,
}

/// Names the user of the request and their groups.
#[utoipa::path(get, path = "/api/me", operation_id = "whoAmI", tag = "approvals",
    responses((status = 200, description = "The user", body = Me), refusals::Any)
)]
pub async fn me(State(app): State<App>, Caller(principal): Caller) -> Json<Me> {
    let principal = app.engine().with_groups(&principal);
    Json(Me { user: principal.user.to_string(), groups: principal.groups })
}

/// Lists the approvals that you have requested, may decide about, or have voted about.
#[utoipa::path(get, path = "/api/approvals", operation_id = "listApprovals", tag = "approvals", params(Listed),
    responses(
        (status = 200, description = "The approvals", body = ApprovalList),
        (status = 304, description = "Nothing has changed since the `ETag` of `if-none-match`"),
        (status = 422, description = "`invalid_request`: a parameter cannot be used", body = Problem, content_type = "application/problem+json"),
        refusals::Any,
    )
)]
pub async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
    ApiQuery(listed): ApiQuery<Listed>,
) -> Result<Response, ApiError> {
    let page = app.engine().approvals(&principal, &listed.filter()?).await?;
    let body = json!(page).to_string();
    let etag = format!("\"{}\"", &sha256(body.as_bytes())[..32]);
    let is_known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes());
    let tag = [(header::ETAG, HeaderValue::try_from(etag).unwrap_or(HeaderValue::from_static("\"0\"")))];
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    Ok((tag, [(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Reads an approval.
#[utoipa::path(get, path = "/api/approvals/{id}", operation_id = "getApproval", tag = "approvals",
    params(("id" = String, Path, description = "The id of the approval request")),
    responses(
        (status = 200, description = "The approval", body = DescribedApproval),
        (status = 404, description = "`not_found`: there is no such approval, or it does not concern you", body = Problem, content_type = "application/problem+json"),
        refusals::Any,
    )
)]
pub async fn get(
    State(app): State<App>,
    Caller(principal): Caller,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<Approval>, ApiError> {
    Ok(Json(app.engine().approval(&principal, &approval_id(path)?).await?))
}

/// Votes about an approval. The response has the approval, which may still wait for others.
#[utoipa::path(post, path = "/api/approvals/{id}", operation_id = "vote", tag = "approvals", request_body = VoteRequest,
    params(("id" = String, Path, description = "The id of the approval request")),
    responses(
        (status = 200, description = "The vote counts, or was given before", body = DescribedApproval),
        (status = 403, description = "`not_yours_to_decide`: others decide; `detail` names them", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`not_found`: there is no such approval, or it does not concern you", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_answered`: the approval is settled; `changed`: the input is not the one of `inputHash`; `tool_changed`: the tool has changed since. Both of the first have the `approval`", body = Problem, content_type = "application/problem+json"),
        refusals::Body,
    )
)]
pub async fn vote(
    State(app): State<App>,
    Caller(principal): Caller,
    client: Client,
    path: Result<Path<String>, PathRejection>,
    Sender(how): Sender,
    ApiJson { body: vote, reservation: _reservation }: ApiJson<PostedVote>,
) -> Result<Json<Approval>, ApiError> {
    let by = Decider::new(principal, how, client.address);
    Ok(Json(app.engine().vote(by, &approval_id(path)?, vote).await?))
}

/// Follows the changes of the approvals that concern you, as server-sent events `{"type":"approval","approval":{…}}`. `Last-Event-ID` resumes
/// after an event of the last two minutes. If the stream ends, list the approvals and follow again.
#[utoipa::path(get, path = "/api/approvals/events", operation_id = "followApprovals", tag = "approvals",
    responses((status = 200, description = "The changes", content_type = "text/event-stream"), refusals::Any)
)]
pub async fn events(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let guard = app.readers().enter(&principal.user)?;
    let after = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let after = after.and_then(|id| Timestamp::from_microsecond(id.parse().ok()?).ok());
    let changes = app.engine().approval_changes(principal, after).map(|(at, approval)| {
        let event = json!({"type": "approval", "approval": approval});
        Bytes::from(format!("id: {}\ndata: {event}\n\n", at.as_microsecond()))
    });
    Ok(sse::stream_events(changes, guard))
}

fn approval_id(path: Result<Path<String>, PathRejection>) -> Result<ApprovalId, ApiError> {
    let Path(id) = path.map_err(|_| fermata_engine::VoteError::NotFound)?;
    Ok(ApprovalId::new(id))
}

// === impl Listed ===

impl Listed {
    fn filter(self) -> Result<ApprovalFilter, ApiError> {
        let Self { state, tool, mine, limit, before } = self;
        let state = match state.as_deref() {
            None | Some("waiting") => ListedState::Waiting,
            Some("settled") => ListedState::Settled,
            Some("all") => ListedState::All,
            Some(other) => {
                let detail = format!("state is waiting, settled or all, not {other:.40?}.");
                return Err(ApiError::new(Code::InvalidRequest, detail));
            }
        };
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        if limit == 0 || limit > MOST {
            let detail = format!("limit is a number from 1 to {MOST}.");
            return Err(ApiError::new(Code::InvalidRequest, detail));
        }
        Ok(ApprovalFilter { state, tool, mine: mine.unwrap_or_default(), limit, before })
    }
}
