//! What went wrong, in words for the log, and as a failure of the call that it ended.

use std::{
    error::Error,
    io,
    time::{Duration, SystemTime},
};

use fermata_tools::{ErrorType, ToolError};
use rmcp::{
    ErrorData, ServiceError,
    model::ErrorCode,
    service::ClientInitializeError,
    transport::{
        DynamicTransportError,
        streamable_http_client::{HttpStatusError, StreamableHttpError},
    },
};

use crate::config::Secrets;

/// As much of a foreign text as a log line or a model needs.
const LONGEST_TEXT: usize = 500;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The program cannot be started.
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    /// The address, a header or the HTTP client is unusable.
    #[error("it cannot be reached as configured: {0}")]
    Config(String),
    /// It does not greet as an MCP server does.
    #[error("it does not answer as an MCP server: {}", in_full(.0))]
    Handshake(#[from] Box<ClientInitializeError>),
    /// It does not say which tools it has.
    #[error("its tools cannot be listed: {}", in_full(.0))]
    Listing(#[from] ServiceError),
    /// It took too long over that.
    #[error("it did not list its tools within {} seconds", .0.as_secs())]
    Timeout(Duration),
}

/// How a call ended that has no result.
#[derive(Debug, PartialEq)]
pub(crate) enum CallFailure {
    /// It failed.
    Failed(ToolError),
    /// The server had forgotten the session, so that it did not run the call.
    SessionExpired,
    /// It was not made, because another session is to take it.
    NeedsOtherSession,
}

/// What an error of the library is for the call that it ended.
pub(crate) fn call_end(server: &str, error: ServiceError, secrets: &Secrets) -> CallFailure {
    let failed = match error {
        ServiceError::McpError(error) => refused(server, &error, secrets),
        ServiceError::TransportSend(error) => {
            match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
                Some(StreamableHttpError::SessionExpired) => return CallFailure::SessionExpired,
                Some(error) => of_http(server, error, secrets),
                None => lost(server),
            }
        }
        ServiceError::TransportClosed => lost(server),
        ServiceError::Cancelled { .. } => ToolError::new(ErrorType::Cancelled, "The call was cancelled."),
        ServiceError::Timeout { .. } => {
            ToolError::new(ErrorType::Timeout, format!("The MCP server {server} took too long."))
        }
        _ => unreadable(server),
    };
    CallFailure::Failed(failed)
}

/// The connection broke in the middle of the call.
pub(crate) fn lost(server: &str) -> ToolError {
    ToolError::new(
        ErrorType::Network,
        format!("The connection to the MCP server {server} was lost during the call."),
    )
}

/// What came back is no result of a tool.
pub(crate) fn unreadable(server: &str) -> ToolError {
    ToolError::new(
        ErrorType::InvalidFormat,
        format!("The MCP server {server} answered with something that is no result."),
    )
}

/// The answer is more than is read. Another call would get no less.
pub(crate) fn too_large(server: &str) -> ToolError {
    ToolError::new(ErrorType::InvalidFormat, format!("The answer of the MCP server {server} is too large."))
}

/// A text of others, fit to be told.
pub(crate) fn redacted_excerpt(text: &str, secrets: &Secrets) -> String {
    let text = secrets.mask(text);
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn refused(server: &str, error: &ErrorData, secrets: &Secrets) -> ToolError {
    let error_type = match error.code {
        ErrorCode::INVALID_PARAMS => ErrorType::InvalidFormat,
        _ => ErrorType::Internal,
    };
    let words = redacted_excerpt(&error.message, secrets);
    ToolError::new(error_type, format!("The MCP server {server} refused the call: {words}"))
}

fn of_http(server: &str, error: &StreamableHttpError<reqwest::Error>, secrets: &Secrets) -> ToolError {
    match error {
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            unauthorized(server)
        }
        StreamableHttpError::HttpStatus(status) => of_status(server, status),
        // Without a challenge these two have no form of their own.
        StreamableHttpError::UnexpectedServerResponse(text)
            if text.starts_with("HTTP 401") || text.starts_with("HTTP 403") =>
        {
            unauthorized(server)
        }
        StreamableHttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP ") => {
            let words = redacted_excerpt(text, secrets);
            ToolError::internal(format!("The MCP server {server} answered: {words}"))
        }
        StreamableHttpError::UnexpectedServerResponse(_)
        | StreamableHttpError::UnexpectedContentType(_)
        | StreamableHttpError::Deserialize(_) => {
            // The library's words are of no use to a model.
            let reason = redacted_excerpt(&error.to_string(), secrets);
            tracing::debug!(server, reason, "an MCP server's answer is no JSON-RPC");
            unreadable(server)
        }
        StreamableHttpError::ResponseBodyTooLarge { .. } => too_large(server),
        StreamableHttpError::ReservedHeaderConflict(_) => {
            ToolError::internal(format!("The MCP server {server} is not configured as it must be."))
        }
        _ => ToolError::new(ErrorType::Network, format!("The MCP server {server} cannot be reached.")),
    }
}

fn unauthorized(server: &str) -> ToolError {
    ToolError::new(ErrorType::Auth, format!("The MCP server {server} does not accept the credentials."))
}

fn of_status(server: &str, error: &HttpStatusError) -> ToolError {
    let failed = match error.status {
        429 => ToolError::new(ErrorType::RateLimit, format!("The MCP server {server} is asked too often.")),
        502..=504 => ToolError::new(
            ErrorType::Network,
            format!("The MCP server {server} is out of reach for now (HTTP {}).", error.status),
        ),
        status => ToolError::internal(format!("The MCP server {server} failed with HTTP {status}.")),
    };
    let pause = error.retry_after.as_deref().and_then(|text| retry_after(text, SystemTime::now()));
    pause.map_or_else(|| failed.clone(), |pause| failed.clone().retry_after(pause))
}

/// How long to wait: a number of seconds, or a date.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    httpdate::parse_http_date(text).ok()?.duration_since(now).ok()
}

/// An error with all that caused it: the first words seldom say why.
fn in_full(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = inner(error).or_else(|| error.source());
    }
    words
}

/// What a transport's error hides in a box.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let error = error.downcast_ref::<DynamicTransportError>()?;
    Some(error.error.as_ref())
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use rmcp::transport::streamable_http_client::AuthRequiredError;

    use super::*;

    fn of(error: StreamableHttpError<reqwest::Error>) -> CallFailure {
        let error = DynamicTransportError::from_parts("http", TypeId::of::<()>(), Box::new(error));
        call_end("search", ServiceError::TransportSend(error), &Secrets::default())
    }

    fn failed(end: CallFailure) -> ToolError {
        match end {
            CallFailure::Failed(error) => error,
            CallFailure::SessionExpired | CallFailure::NeedsOtherSession => panic!("the call failed"),
        }
    }

    fn status(status: u16, retry_after: Option<&str>) -> ToolError {
        failed(of(HttpStatusError::new(status, retry_after.map(str::to_owned)).into()))
    }

    #[test]
    fn http_statuses_become_the_types_that_the_settings_name() {
        assert_eq!(
            failed(of(StreamableHttpError::AuthRequired(AuthRequiredError::new("Bearer".into())))).error_type,
            ErrorType::Auth
        );
        let plain = StreamableHttpError::UnexpectedServerResponse("HTTP 403 Forbidden: no".into());
        assert_eq!(failed(of(plain)).error_type, ErrorType::Auth);
        assert_eq!(status(429, None).error_type, ErrorType::RateLimit);
        assert_eq!(status(503, None).error_type, ErrorType::Network);
        assert_eq!(status(500, None).error_type, ErrorType::Internal);
        assert_eq!(failed(of(StreamableHttpError::UnexpectedEndOfStream)).error_type, ErrorType::Network);
        assert_eq!(of(StreamableHttpError::SessionExpired), CallFailure::SessionExpired);
    }

    #[test]
    fn what_is_no_answer_is_told_in_our_words() {
        let nonsense = "could not parse JSON response: missing field `jsonrpc`: {}";
        let error = failed(of(StreamableHttpError::UnexpectedServerResponse(nonsense.into())));
        assert_eq!(error, unreadable("search"));
        let error = failed(of(StreamableHttpError::UnexpectedContentType(Some("text/html".into()))));
        assert_eq!(error, unreadable("search"));
        let error = failed(of(StreamableHttpError::ResponseBodyTooLarge { max_size: 7 }));
        assert_eq!(error, too_large("search"));
        let error =
            failed(of(StreamableHttpError::UnexpectedServerResponse("HTTP 400: no such page".into())));
        assert!(error.text.contains("no such page"), "{error}");
    }

    #[test]
    fn retry_after_is_read_in_each_of_its_forms() {
        assert_eq!(status(429, Some("7")).retry_after, Some(Duration::from_secs(7)));
        assert_eq!(status(429, Some("soon")).retry_after, None);
        let date = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        let before = date - Duration::from_secs(90);
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT", before), Some(Duration::from_secs(90)));
    }

    #[test]
    fn what_a_server_says_is_shortened() {
        let error = ServiceError::McpError(ErrorData::internal_error("ä".repeat(10_000), None));
        let text = failed(call_end("s", error, &Secrets::default())).text;
        assert!(text.chars().count() < 600 && text.ends_with('…'), "{text}");
    }

    #[test]
    fn bad_parameters_are_a_matter_of_form() {
        let error = ServiceError::McpError(ErrorData::invalid_params("no such city", None));
        let error = failed(call_end("weather", error, &Secrets::default()));
        assert_eq!(error.error_type, ErrorType::InvalidFormat);
        assert!(error.text.contains("no such city"), "{error}");
    }
}
