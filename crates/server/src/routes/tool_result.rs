//! Answers to pending calls and questions.

use std::convert::Infallible;

use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::{HeaderName, header, request::Parts},
};
use fermata_protocol::{ToolResult, ToolResultBody, ToolResultRequest};
use fermata_tools::{Decider, DecisionChannel};
use utoipa::IntoResponses;

use super::schema::{Answered, Replied, refusals};
use crate::{
    App,
    auth::Caller,
    client::Client,
    error::{ApiError, Problem},
    extract::ApiJson,
};

/// The kind of sender of an answer. A browser adds `Origin` and `Sec-Fetch-Site` to the requests of a page, and no script can leave them
/// out; other programs have no reason to send them.
pub struct Sender(pub DecisionChannel);

/// The responses that are the same at both paths.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it is read by the description only")]
enum Responses {
    /// The answers are accepted, or were accepted before; or the call as `preview` asks for it
    #[response(status = 200)]
    Accepted(#[to_schema] Replied),
    /// `not_yours_to_decide`: others decide about one of the calls; nothing of the batch is accepted
    #[response(status = 403, content_type = "application/problem+json")]
    NotYours(#[to_schema] Problem),
    /// `not_found`: there is no such chat or call, or it belongs to another owner
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(#[to_schema] Problem),
    /// `already_answered`: another answer was accepted before, and the call has its `state`; `wrong_answer`: the call does not wait for
    /// such an answer, and has its `state`; `tool_changed`: the tool has changed since the call was shown, and the call has a new approval
    /// request
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(#[to_schema] Problem),
    /// `gone`: the call expired or was cancelled
    #[response(status = 410, content_type = "application/problem+json")]
    Gone(#[to_schema] Problem),
}

/// Answers pending calls and questions: a call with a browser's output or a person's decision, a question of a tool with a person's reply.
///
/// The response has the state of each call. The outcome appears in the chat's stream. `editing` is no answer: it tells the chat's other pages that
/// a person is editing the input of a call that waits for a decision. `preview` is none either: the response says how such a call would be shown
/// with another input.
#[utoipa::path(post, path = "/chat/tool-result", operation_id = "answerCalls", tag = "chat", request_body = ToolResultRequest, responses(Responses, refusals::Body))]
pub async fn post(
    State(app): State<App>,
    Caller(principal): Caller,
    client: Client,
    Sender(how): Sender,
    ApiJson { body, reservation: _reservation }: ApiJson<ToolResultBody>,
) -> Result<Json<Replied>, ApiError> {
    let ToolResultBody { chat_id: chat, result } = body;
    let calls = match result {
        ToolResult::Answers(answers) => {
            let by = Decider::new(principal, how, client.address);
            app.engine().answer(by, &chat, answers).await?
        }
        ToolResult::Editing { of, is_edited } => {
            app.engine().edit_input(&principal.user, &chat, of, is_edited).await?
        }
        ToolResult::Preview { of, input } => {
            let preview = app.engine().preview_input(&principal.user, &chat, of, input).await?;
            return Ok(Json(Replied::Preview(preview.into())));
        }
    };
    Ok(Json(Replied::Answered(Answered { calls })))
}

/// Answers pending calls and questions like `POST /chat/tool-result`, for clients that use one path prefix for all requests.
#[utoipa::path(post, path = "/api/chat/tool-result", operation_id = "answerCallsUnderApi", tag = "chat", request_body = ToolResultRequest, responses(Responses, refusals::Body))]
pub async fn post_under_api(
    app: State<App>,
    caller: Caller,
    client: Client,
    sender: Sender,
    body: ApiJson<ToolResultBody>,
) -> Result<Json<Replied>, ApiError> {
    post(app, caller, client, sender, body).await
}

impl<S: Send + Sync> FromRequestParts<S> for Sender {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let is_page = parts.headers.contains_key(header::ORIGIN)
            || parts.headers.contains_key(HeaderName::from_static("sec-fetch-site"));
        Ok(Self(if is_page { DecisionChannel::Button } else { DecisionChannel::Api }))
    }
}
