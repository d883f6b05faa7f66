//! Errors of requests, as `application/problem+json`.
//!
//! Only this module maps errors to statuses. It logs failures of the database once, with the request that failed; the response contains no
//! provider text, path or SQL.

use std::{any::Any, sync::Arc};

use axum::{
    Json,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use fermata_engine::{
    AnswerError, Approval, CallError, DeleteMessageError, PlanError, ReadError, SubmitError, SummaryError,
    Unavailable, VoteError, memories::MemoryError, store::StoreError,
};
use fermata_protocol::{ApprovalId, InvalidId, RequestError, ToolCallId};
use fermata_tools::{Misfit, StateName};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    channels::{LinkError, PushError, PushKeyError, ReceiveError},
    quote::shortened,
};

/// The kind of an error, which clients can tell apart by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    MalformedRequest,
    InvalidJson,
    InvalidRequest,
    Unauthorized,
    ForeignPage,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    SlowRequest,
    NothingToContinue,
    DecisionIsStale,
    NotYoursToDecide,
    Changed,
    NothingToCompact,
    NothingToUndo,
    RunOpen,
    NotRunning,
    NotFailed,
    AlreadyRetried,
    AlreadyAnswered,
    WrongAnswer,
    Gone,
    Deleted,
    TooLarge,
    ToolNameTaken,
    UnknownTool,
    UnknownScope,
    DeniedByPolicy,
    TooManyPosts,
    ToolChanged,
    TooManyRuns,
    TooManyChats,
    TooManyBytes,
    TooManyMemories,
    TooManyConnections,
    TooManyReaders,
    TooManyFailures,
    Internal,
    Unavailable,
    Unclear,
}

/// The limit on a detail, in bytes. It has room for the names of as many tools as a request may have by default.
const MAX_DETAIL: usize = 10_000;

/// An error that becomes a response.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    detail: String,
    fact: Option<Box<Fact>>,
    /// A header that replaces the code's own.
    header: Option<Box<(HeaderName, HeaderValue)>>,
    /// The failure of the database that caused the error, for the log.
    cause: Option<Cause>,
}

/// A fact that the body of an error has for programs.
#[derive(Debug)]
enum Fact {
    /// The state of the call.
    State(StateName),
    /// The new call that repeats the failed one.
    RetriedAs(ToolCallId),
    /// The approvals that wait now.
    Waiting(Vec<ApprovalId>),
    /// The places that do not fit their schema.
    Places(Vec<Misfit>),
    /// The approval as it is now.
    Approval(Box<Approval>),
}

/// The failure of the database behind a response.
#[derive(Clone, Debug)]
struct Cause(Arc<StoreError>);

/// The body of an error response.
#[derive(Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`. Programs tell errors apart by `code`.
    #[serde(rename = "type")]
    #[schema(example = "about:blank")]
    kind: &'static str,
    /// The name of the status.
    #[schema(example = "Conflict")]
    title: &'static str,
    /// The status.
    #[schema(example = 409)]
    status: u16,
    /// A sentence for people that says what went wrong and what to do about it.
    detail: String,
    /// The name of the error, for programs.
    #[schema(example = "already_answered")]
    code: &'static str,
    /// The state of the call, if an answer was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "success")]
    state: Option<StateName>,
    /// The new call that repeats this one, if there is one.
    #[serde(rename = "retriedAs", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    retried_as: Option<ToolCallId>,
    /// The ids of the approvals that wait now, if a message was refused because its sender was shown others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    waiting: Option<Vec<ApprovalId>>,
    /// The places of an edited input or of a reply that do not fit the schema, if the answer was refused for them. At most three are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<RefusedPlace>>)]
    errors: Option<Vec<Misfit>>,
    /// The approval as it is now, if a vote was refused because it is settled or has another input.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    approval: Option<Box<Approval>>,
}

/// A place that does not fit its schema.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is read by the description only; the checks have the places")]
pub struct RefusedPlace {
    /// The place, as a JSON Pointer. It is empty for the whole value.
    #[schema(example = "/title")]
    pointer: String,
    /// The fault there.
    detail: String,
}

// === impl Code ===

impl Code {
    /// Returns the status and the name on the wire.
    fn of(self) -> (StatusCode, &'static str) {
        match self {
            Self::MalformedRequest => (StatusCode::BAD_REQUEST, "malformed_request"),
            Self::InvalidJson => (StatusCode::BAD_REQUEST, "invalid_json"),
            Self::InvalidRequest => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_request"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::ForeignPage => (StatusCode::FORBIDDEN, "foreign_page"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::SlowRequest => (StatusCode::REQUEST_TIMEOUT, "slow_request"),
            Self::NothingToContinue => (StatusCode::CONFLICT, "nothing_to_continue"),
            Self::DecisionIsStale => (StatusCode::CONFLICT, "decision_is_stale"),
            Self::NotYoursToDecide => (StatusCode::FORBIDDEN, "not_yours_to_decide"),
            Self::Changed => (StatusCode::CONFLICT, "changed"),
            Self::NothingToCompact => (StatusCode::CONFLICT, "nothing_to_compact"),
            Self::NothingToUndo => (StatusCode::CONFLICT, "nothing_to_undo"),
            Self::RunOpen => (StatusCode::CONFLICT, "run_open"),
            Self::NotRunning => (StatusCode::CONFLICT, "not_running"),
            Self::NotFailed => (StatusCode::CONFLICT, "not_failed"),
            Self::AlreadyRetried => (StatusCode::CONFLICT, "already_retried"),
            Self::AlreadyAnswered => (StatusCode::CONFLICT, "already_answered"),
            Self::WrongAnswer => (StatusCode::CONFLICT, "wrong_answer"),
            Self::Gone => (StatusCode::GONE, "gone"),
            Self::Deleted => (StatusCode::GONE, "deleted"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Self::ToolNameTaken => (StatusCode::UNPROCESSABLE_ENTITY, "tool_name_taken"),
            Self::UnknownTool => (StatusCode::UNPROCESSABLE_ENTITY, "unknown_tool"),
            Self::UnknownScope => (StatusCode::UNPROCESSABLE_ENTITY, "unknown_scope"),
            Self::DeniedByPolicy => (StatusCode::UNPROCESSABLE_ENTITY, "denied_by_policy"),
            Self::TooManyPosts => (StatusCode::TOO_MANY_REQUESTS, "too_many_posts"),
            Self::ToolChanged => (StatusCode::CONFLICT, "tool_changed"),
            Self::TooManyRuns => (StatusCode::TOO_MANY_REQUESTS, "too_many_runs"),
            Self::TooManyChats => (StatusCode::TOO_MANY_REQUESTS, "too_many_chats"),
            Self::TooManyBytes => (StatusCode::TOO_MANY_REQUESTS, "too_many_bytes"),
            Self::TooManyMemories => (StatusCode::UNPROCESSABLE_ENTITY, "too_many_memories"),
            Self::TooManyConnections => (StatusCode::TOO_MANY_REQUESTS, "too_many_connections"),
            Self::TooManyReaders => (StatusCode::TOO_MANY_REQUESTS, "too_many_readers"),
            Self::TooManyFailures => (StatusCode::TOO_MANY_REQUESTS, "too_many_failures"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Self::Unclear => (StatusCode::GATEWAY_TIMEOUT, "unclear"),
        }
    }

    /// Returns a header that names the client's next step.
    fn hint(self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::Unauthorized => Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            Self::TooManyRuns | Self::TooManyConnections | Self::TooManyReaders => {
                Some((header::RETRY_AFTER, HeaderValue::from_static("5")))
            }
            // Waiting helps only if old chats are deleted meanwhile, by their owner or by `keep`.
            Self::TooManyChats | Self::TooManyBytes => {
                Some((header::RETRY_AFTER, HeaderValue::from_static("60")))
            }
            Self::Unavailable => Some((header::RETRY_AFTER, HeaderValue::from_static("2"))),
            // What follows on the connection would be read as the next request.
            Self::SlowRequest | Self::MalformedRequest => {
                Some((header::CONNECTION, HeaderValue::from_static("close")))
            }
            Self::InvalidJson
            | Self::InvalidRequest
            | Self::ForeignPage
            | Self::Forbidden
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::NothingToContinue
            | Self::DecisionIsStale
            | Self::NotYoursToDecide
            | Self::Changed
            | Self::NothingToCompact
            | Self::NothingToUndo
            | Self::TooManyMemories
            | Self::RunOpen
            | Self::NotRunning
            | Self::NotFailed
            | Self::AlreadyRetried
            | Self::AlreadyAnswered
            | Self::WrongAnswer
            | Self::Gone
            | Self::Deleted
            | Self::TooLarge
            | Self::ToolNameTaken
            | Self::UnknownTool
            | Self::UnknownScope
            | Self::DeniedByPolicy
            | Self::TooManyPosts
            | Self::ToolChanged
            | Self::TooManyFailures
            | Self::Internal
            | Self::Unclear => None,
        }
    }
}

// === impl ApiError ===

impl ApiError {
    /// Creates an error. `detail` is a sentence that a person can act on.
    ///
    /// A long detail is cut, because it may quote a whole body.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > MAX_DETAIL {
            detail.truncate(detail.floor_char_boundary(MAX_DETAIL));
            detail.push_str("… and more.");
        }
        Self { code, detail, fact: None, header: None, cause: None }
    }

    /// Creates the error for an unknown chat. A chat of another owner gets the same one, so that its existence is not revealed.
    pub fn no_such_chat() -> Self {
        ReadError::NotFound.into()
    }

    /// Creates the response for a panic in a handler. The panic hook has logged the panic.
    pub fn of_panic(_: Box<dyn Any + Send>) -> Response {
        Self::internal().into_response()
    }

    fn internal() -> Self {
        Self::new(Code::Internal, "The server failed to handle this request; its log has the reason.")
    }

    /// Sets a header that replaces the code's own.
    pub(crate) fn with_header(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { header: Some(Box::new((name, value))), ..self }
    }

    /// Returns the sentence for people.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    fn with_state(self, state: StateName) -> Self {
        Self { fact: Some(Box::new(Fact::State(state))), ..self }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.code.of();
        let title = status.canonical_reason().unwrap_or("Error");
        let (mut state, mut retried_as, mut waiting, mut errors, mut approval) =
            (None, None, None, None, None);
        match self.fact.map(|fact| *fact) {
            Some(Fact::State(of_call)) => state = Some(of_call),
            Some(Fact::RetriedAs(call)) => retried_as = Some(call),
            Some(Fact::Waiting(approvals)) => waiting = Some(approvals),
            Some(Fact::Places(places)) => errors = Some(places),
            Some(Fact::Approval(now)) => approval = Some(now),
            None => {}
        }
        let problem = Problem {
            kind: "about:blank",
            title,
            status: status.as_u16(),
            detail: self.detail,
            code,
            state,
            retried_as,
            waiting,
            errors,
            approval,
        };
        let mut headers =
            HeaderMap::from_iter(self.header.map(|header| *header).or_else(|| self.code.hint()));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let mut response = (status, headers, Json(problem)).into_response();
        if let Some(cause) = self.cause {
            response.extensions_mut().insert(cause);
        }
        response
    }
}

/// Logs a failure of the database with the request that it made fail.
pub(crate) async fn log_cause(request: Request, next: Next) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let response = next.run(request).await;
    if let Some(Cause(error)) = response.extensions().get() {
        let (path, status) = (uri.path(), response.status().as_u16());
        match **error {
            StoreError::Fenced => tracing::warn!(
                %method,
                path,
                status,
                %error,
                "gave up on a request because other instances kept changing its chat"
            ),
            StoreError::BadCursor
            | StoreError::Unavailable(_)
            | StoreError::Unclear(_)
            | StoreError::Corrupt(_)
            | StoreError::Conflict(_) => tracing::error!(
                %method,
                path,
                status,
                %error,
                "a request failed because of the database"
            ),
        }
    }
    response
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
            StoreError::Fenced => Self::new(
                Code::Unavailable,
                "Another instance keeps changing this chat; try again in a moment.",
            ),
            StoreError::Unavailable(_) => {
                Self::new(Code::Unavailable, "The database cannot be reached; try again in a moment.")
            }
            StoreError::Unclear(_) => Self::new(
                Code::Unclear,
                "The connection to the database was lost, so it is not known whether this was done. Look at the chat before you send it again.",
            ),
            StoreError::Corrupt(_) | StoreError::Conflict(_) => Self::internal(),
        };
        Self { cause: Some(Cause(Arc::new(error))), ..answer }
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
        let code = match &error {
            SubmitError::DecisionIsStale { waiting } => {
                let fact = Some(Box::new(Fact::Waiting(waiting.clone())));
                return Self { fact, ..Self::new(Code::DecisionIsStale, error.to_string()) };
            }
            SubmitError::Unavailable(unavailable) => return unavailable.clone().into(),
            SubmitError::Invalid(_) => Code::InvalidRequest,
            SubmitError::NotFound | SubmitError::NoSuchAssistant(_) | SubmitError::NoSuchCall => {
                Code::NotFound
            }
            SubmitError::NotYours(_) => Code::NotYoursToDecide,
            SubmitError::Deleted => Code::Deleted,
            SubmitError::NotFailed(_) => Code::NotFailed,
            SubmitError::AlreadyRetried(retried_as) => {
                let fact = Some(Box::new(Fact::RetriedAs(retried_as.clone())));
                return Self { fact, ..Self::new(Code::AlreadyRetried, error.to_string()) };
            }
            SubmitError::ToolChanged(_) => Code::ToolChanged,
            SubmitError::RunOpen => Code::RunOpen,
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
            AnswerError::NotYours(detail) => Self::new(Code::NotYoursToDecide, detail),
            AnswerError::Changed => Self::new(Code::Changed, error.to_string()),
            AnswerError::DeniedByPolicy(detail) => Self::new(Code::DeniedByPolicy, detail),
            AnswerError::ToolChanged(detail) => Self::new(Code::ToolChanged, detail),
            AnswerError::Invalid(detail) => Self::new(Code::InvalidRequest, detail),
            AnswerError::DoesNotFit { detail, places } => {
                let fact = if places.is_empty() { None } else { Some(Box::new(Fact::Places(places))) };
                Self { fact, ..Self::new(Code::InvalidRequest, detail) }
            }
            AnswerError::UnknownScope(detail) => Self::new(Code::UnknownScope, detail),
            AnswerError::TooLarge(detail) => Self::new(Code::TooLarge, detail),
        }
    }
}

impl From<VoteError> for ApiError {
    fn from(error: VoteError) -> Self {
        let detail = error.to_string();
        let about = |code, approval| Self {
            fact: Some(Box::new(Fact::Approval(approval))),
            ..Self::new(code, &detail)
        };
        match error {
            VoteError::NotFound => Self::new(Code::NotFound, detail),
            VoteError::NotYours(_) => Self::new(Code::NotYoursToDecide, detail),
            VoteError::AlreadyAnswered(approval) => about(Code::AlreadyAnswered, approval),
            VoteError::Changed(approval) => about(Code::Changed, approval),
            VoteError::Refused(error) => (*error).into(),
            VoteError::Unavailable(unavailable) => unavailable.into(),
        }
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        let code = match error {
            CallError::Unavailable(unavailable) => return unavailable.into(),
            CallError::NotFound => Code::NotFound,
            CallError::NotRunning(_) => Code::NotRunning,
        };
        Self::new(code, error.to_string())
    }
}

impl From<DeleteMessageError> for ApiError {
    fn from(error: DeleteMessageError) -> Self {
        let code = match error {
            DeleteMessageError::Unavailable(unavailable) => return unavailable.into(),
            DeleteMessageError::NotFound => Code::NotFound,
            DeleteMessageError::RunOpen => Code::RunOpen,
        };
        Self::new(code, error.to_string())
    }
}

impl From<PlanError> for ApiError {
    fn from(error: PlanError) -> Self {
        let code = match error {
            PlanError::Unavailable(unavailable) => return unavailable.into(),
            PlanError::NotFound | PlanError::NoPlan => Code::NotFound,
            PlanError::RunOpen => Code::RunOpen,
        };
        Self::new(code, error.to_string())
    }
}

impl From<SummaryError> for ApiError {
    fn from(error: SummaryError) -> Self {
        let code = match error {
            SummaryError::Unavailable(unavailable) => return unavailable.into(),
            SummaryError::NotFound | SummaryError::NoSuchAssistant(_) | SummaryError::NoSummary => {
                Code::NotFound
            }
            SummaryError::RunOpen => Code::RunOpen,
            SummaryError::NothingToCompact => Code::NothingToCompact,
            SummaryError::NotWritten | SummaryError::NoModelRequest => Code::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}

impl From<MemoryError> for ApiError {
    fn from(error: MemoryError) -> Self {
        let code = match error {
            MemoryError::Store(error) => return ReadError::from(error).into(),
            MemoryError::NotFound => Code::NotFound,
            MemoryError::NothingToUndo => Code::NothingToUndo,
            MemoryError::Empty | MemoryError::TooLong { .. } | MemoryError::BadSlot(_) => {
                Code::InvalidRequest
            }
            MemoryError::Full(_) | MemoryError::TooManyAlways => Code::TooManyMemories,
        };
        Self::new(code, error.to_string())
    }
}

impl From<ReceiveError> for ApiError {
    fn from(error: ReceiveError) -> Self {
        let code = match error {
            ReceiveError::NoSuchChannel => Code::NotFound,
            ReceiveError::Unsigned(_) => Code::Unauthorized,
            ReceiveError::BadBody(_) => Code::InvalidRequest,
            ReceiveError::Vote(error) => return error.into(),
        };
        Self::new(code, error.to_string())
    }
}

impl From<PushError> for ApiError {
    fn from(error: PushError) -> Self {
        let code = match error {
            PushError::NoChannel => Code::NotFound,
            PushError::BadSubscription(_) => Code::InvalidRequest,
            PushError::Key(PushKeyError::Store(error)) => return error.into(),
            PushError::Key(PushKeyError::Key) => return Self::internal(),
        };
        Self::new(code, error.to_string())
    }
}

impl LinkError {
    /// Returns the status of the page that says why a link in a mail does not decide.
    pub(crate) fn status(&self) -> StatusCode {
        let code = match self {
            Self::Unknown => Code::NotFound,
            Self::Used => Code::Gone,
            Self::Settled(_) | Self::Changed => Code::AlreadyAnswered,
            Self::NotYours => Code::Forbidden,
            Self::Refused(_) => Code::DeniedByPolicy,
            Self::Unavailable => Code::Unavailable,
        };
        code.of().0
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

/// Formats a tool's name for a sentence. A text that cannot be a tool's name is quoted.
fn tool_name(text: String) -> String {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_plain && text.len() <= 64 { text } else { shortened(&text) }
}

#[cfg(test)]
mod tests;
