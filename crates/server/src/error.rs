//! What goes wrong before a stream, as `application/problem+json`.
//!
//! The only place that knows which failure has which status. A failure of the server itself is logged here, once, because
//! here is where its cause is taken off; what a client reads carries no provider text, path or SQL.

use std::any::Any;

use axum::{
    Json,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use fermata_engine::{AnswerError, ReadError, SubmitError, Unavailable, store::StoreError};
use fermata_protocol::{InvalidId, RequestError};
use fermata_tools::StateName;
use serde::Serialize;
use utoipa::ToSchema;

use crate::serve::Full;

/// What a client can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those on the wire, and `of` gives their statuses")]
pub enum Code {
    InvalidJson,
    InvalidRequest,
    Unauthorized,
    ForeignPage,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    SlowRequest,
    NothingToContinue,
    AlreadyAnswered,
    WrongAnswer,
    Gone,
    TooLarge,
    ToolNameTaken,
    UnknownTool,
    DeniedByPolicy,
    TooManyRuns,
    TooManyChats,
    TooManyBytes,
    TooManyConnections,
    TooManyReaders,
    TooManyFailures,
    Internal,
    Unavailable,
    Unclear,
}

/// The longest detail. A list of as many tools as a request may bring by default fits.
const MAX_DETAIL: usize = 10_000;

/// A failure that becomes a response.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    detail: String,
    state: Option<StateName>,
    /// What says more than the code's own hint.
    header: Option<(HeaderName, HeaderValue)>,
}

/// The body of a failure.
#[derive(Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: `code` tells problems apart.
    #[serde(rename = "type")]
    #[schema(example = "about:blank")]
    kind: &'static str,
    /// The status in words.
    #[schema(example = "Conflict")]
    title: &'static str,
    /// The status.
    #[schema(example = 409)]
    status: u16,
    /// What to do about it.
    detail: String,
    /// What went wrong, for programs.
    #[schema(example = "already_answered")]
    code: &'static str,
    /// How far the call is, where an answer was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "success")]
    state: Option<StateName>,
}

// === impl Code ===

impl Code {
    /// The status and the name on the wire.
    fn of(self) -> (StatusCode, &'static str) {
        match self {
            Self::InvalidJson => (StatusCode::BAD_REQUEST, "invalid_json"),
            Self::InvalidRequest => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_request"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::ForeignPage => (StatusCode::FORBIDDEN, "foreign_page"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::SlowRequest => (StatusCode::REQUEST_TIMEOUT, "slow_request"),
            Self::NothingToContinue => (StatusCode::CONFLICT, "nothing_to_continue"),
            Self::AlreadyAnswered => (StatusCode::CONFLICT, "already_answered"),
            Self::WrongAnswer => (StatusCode::CONFLICT, "wrong_answer"),
            Self::Gone => (StatusCode::GONE, "gone"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Self::ToolNameTaken => (StatusCode::UNPROCESSABLE_ENTITY, "tool_name_taken"),
            Self::UnknownTool => (StatusCode::UNPROCESSABLE_ENTITY, "unknown_tool"),
            Self::DeniedByPolicy => (StatusCode::UNPROCESSABLE_ENTITY, "denied_by_policy"),
            Self::TooManyRuns => (StatusCode::TOO_MANY_REQUESTS, "too_many_runs"),
            Self::TooManyChats => (StatusCode::TOO_MANY_REQUESTS, "too_many_chats"),
            Self::TooManyBytes => (StatusCode::TOO_MANY_REQUESTS, "too_many_bytes"),
            Self::TooManyConnections => (StatusCode::TOO_MANY_REQUESTS, "too_many_connections"),
            Self::TooManyReaders => (StatusCode::TOO_MANY_REQUESTS, "too_many_readers"),
            Self::TooManyFailures => (StatusCode::TOO_MANY_REQUESTS, "too_many_failures"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Self::Unclear => (StatusCode::GATEWAY_TIMEOUT, "unclear"),
        }
    }

    /// A header that says what to do next.
    fn hint(self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::Unauthorized => Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            Self::TooManyRuns | Self::TooManyConnections | Self::TooManyReaders => {
                Some((header::RETRY_AFTER, HeaderValue::from_static("5")))
            }
            // Nothing becomes of waiting by itself, unless old chats are forgotten (`keep`).
            Self::TooManyChats | Self::TooManyBytes => {
                Some((header::RETRY_AFTER, HeaderValue::from_static("60")))
            }
            Self::Unavailable => Some((header::RETRY_AFTER, HeaderValue::from_static("2"))),
            // What is left of the body would be read as the next request.
            Self::SlowRequest => Some((header::CONNECTION, HeaderValue::from_static("close"))),
            Self::InvalidJson
            | Self::InvalidRequest
            | Self::ForeignPage
            | Self::Forbidden
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::NothingToContinue
            | Self::AlreadyAnswered
            | Self::WrongAnswer
            | Self::Gone
            | Self::TooLarge
            | Self::ToolNameTaken
            | Self::UnknownTool
            | Self::DeniedByPolicy
            | Self::TooManyFailures
            | Self::Internal
            | Self::Unclear => None,
        }
    }
}

// === impl ApiError ===

impl ApiError {
    /// A failure; `detail` is a sentence that a person can act on.
    ///
    /// What it quotes may be as long as a body, so it is cut.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > MAX_DETAIL {
            detail.truncate(detail.floor_char_boundary(MAX_DETAIL));
            detail.push_str("… and more.");
        }
        Self { code, detail, state: None, header: None }
    }

    /// What an unknown chat is answered, and one of somebody else, which must not differ.
    pub fn no_such_chat() -> Self {
        ReadError::NotFound.into()
    }

    /// What a panic becomes. The panic hook has logged it.
    pub fn of_panic(_: Box<dyn Any + Send>) -> Response {
        Self::internal().into_response()
    }

    fn internal() -> Self {
        Self::new(Code::Internal, "Something went wrong in the server; its log says what.")
    }

    /// With this header, instead of the one that the code has.
    pub(crate) fn with_header(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    /// What to do about it.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    fn with_state(self, state: StateName) -> Self {
        Self { state: Some(state), ..self }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.code.of();
        let title = status.canonical_reason().unwrap_or("Error");
        let problem = Problem {
            kind: "about:blank",
            title,
            status: status.as_u16(),
            detail: self.detail,
            code,
            state: self.state,
        };
        let mut headers = HeaderMap::from_iter(self.header.or_else(|| self.code.hint()));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        (status, headers, Json(problem)).into_response()
    }
}

impl From<Full> for ApiError {
    fn from(full: Full) -> Self {
        match full {
            Full::Server => Self::new(
                Code::Unavailable,
                "All of this server's connections are in use (max_connections); try again in a moment.",
            ),
            Full::Address => Self::new(
                Code::TooManyConnections,
                "Your address has as many connections as this server allows one address (max_connections_per_address); close some.",
            ),
        }
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        Self::new(Code::InvalidRequest, error.0)
    }
}

impl From<InvalidId> for ApiError {
    fn from(_: InvalidId) -> Self {
        Self::no_such_chat()
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let answer = match &error {
            StoreError::BadCursor => return Self::new(Code::InvalidRequest, error.to_string()),
            // Nothing has failed: two instances wanted the chat at once, again and again.
            StoreError::Fenced => {
                tracing::warn!(%error, "a request was given up");
                return Self::new(
                    Code::Unavailable,
                    "Another instance keeps changing this chat; try again in a moment.",
                );
            }
            StoreError::Unavailable(_) => {
                Self::new(Code::Unavailable, "The database cannot be reached; try again in a moment.")
            }
            StoreError::Unclear(_) => Self::new(
                Code::Unclear,
                "The database was lost just then, and whether this was done is not known; look at the chat before you send it again.",
            ),
            StoreError::Corrupt(_) | StoreError::Conflict(_) => Self::internal(),
        };
        tracing::error!(%error, "a request failed");
        answer
    }
}

impl From<Unavailable> for ApiError {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::ShuttingDown | Unavailable::Busy | Unavailable::Unreachable => {
                Self::new(Code::Unavailable, unavailable.to_string())
            }
            Unavailable::OutcomeUnknown => Self::new(Code::Unclear, unavailable.to_string()),
            Unavailable::Store(error) => error.into(),
        }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let error = match error {
            SubmitError::UnknownTool { name, known } => {
                SubmitError::UnknownTool { name: tool_name(name), known }
            }
            other => other,
        };
        let code = match error {
            SubmitError::Unavailable(unavailable) => return unavailable.into(),
            SubmitError::Invalid(_) => Code::InvalidRequest,
            SubmitError::NotFound => Code::NotFound,
            SubmitError::NothingToContinue(_) => Code::NothingToContinue,
            SubmitError::ToolNameTaken(_) => Code::ToolNameTaken,
            SubmitError::UnknownTool { .. } => Code::UnknownTool,
            SubmitError::TooLarge(_) => Code::TooLarge,
            SubmitError::TooManyRuns(_) => Code::TooManyRuns,
            SubmitError::TooManyChats(_) => Code::TooManyChats,
            SubmitError::TooManyBytes { .. } => Code::TooManyBytes,
        };
        Self::new(code, error.to_string())
    }
}

impl From<AnswerError> for ApiError {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Unavailable(unavailable) => unavailable.into(),
            AnswerError::NotFound(detail) => Self::new(Code::NotFound, detail),
            AnswerError::AlreadyAnswered { detail, state } => {
                Self::new(Code::AlreadyAnswered, detail).with_state(state)
            }
            AnswerError::WrongAnswer { detail, state } => {
                Self::new(Code::WrongAnswer, detail).with_state(state)
            }
            AnswerError::Gone { detail, state } => Self::new(Code::Gone, detail).with_state(state),
            AnswerError::DeniedByPolicy(detail) => Self::new(Code::DeniedByPolicy, detail),
            AnswerError::Invalid(detail) => Self::new(Code::InvalidRequest, detail),
            AnswerError::TooLarge(detail) => Self::new(Code::TooLarge, detail),
        }
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound => Self::new(Code::NotFound, error.to_string()),
            ReadError::Unavailable(unavailable) => unavailable.into(),
        }
    }
}

/// A text of the sender in a sentence: in quotes, and only its beginning where it is long.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
        None => format!("{text:?}"),
    }
}

/// A tool's name as it is, and in quotes what cannot be one.
fn tool_name(text: String) -> String {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if text.len() <= 64 && text.bytes().all(allowed) { text } else { shortened(&text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_that_is_busy_is_asked_again() {
        for error in [
            ApiError::from(SubmitError::from(Unavailable::Busy)),
            ApiError::from(AnswerError::from(Unavailable::Busy)),
            ApiError::from(ReadError::from(Unavailable::Busy)),
        ] {
            assert!(error.detail.ends_with("try again in a moment."));
            let response = error.into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(response.headers().contains_key(header::RETRY_AFTER));
        }
    }

    #[test]
    fn a_chat_that_another_instance_has_is_asked_for_again() {
        for error in [
            ApiError::from(SubmitError::from(Unavailable::Unreachable)),
            ApiError::from(AnswerError::from(Unavailable::Unreachable)),
            ApiError::from(ReadError::from(Unavailable::Unreachable)),
            ApiError::from(StoreError::Fenced),
        ] {
            assert!(
                error.detail.contains("nother instance") && error.detail.ends_with("try again in a moment.")
            );
            let response = error.into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(response.headers().contains_key(header::RETRY_AFTER));
        }
    }
}
