//! Errors of connections as texts for the log, and errors of calls as the failures that the call's outcome has.

use std::{
    error::Error,
    io,
    time::{Duration, SystemTime},
};

use fermata_tools::{ErrorType, ToolError};
use rmcp::{
    ServiceError,
    model::ErrorCode,
    service::ClientInitializeError,
    transport::{
        DynamicTransportError,
        streamable_http_client::{HttpStatusError, StreamableHttpError},
    },
};

use crate::config::Secrets;

/// The length to which a text of a server or of the library is cut, in characters.
const MAX_TEXT: usize = 500;

/// The error for a connection that could not be opened or whose tools could not be listed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The program cannot be started.
    #[error("the program cannot be started: {0}")]
    Start(io::Error),
    /// The URL, a header or the HTTP client is not usable.
    #[error("the configuration is not usable: {0}")]
    Config(String),
    /// The server did not complete the MCP handshake.
    #[error("the MCP handshake failed: {}", with_causes(.0))]
    Handshake(#[from] Box<ClientInitializeError>),
    /// The server did not list its tools.
    #[error("the tools cannot be listed: {}", with_causes(.0))]
    Listing(#[from] ServiceError),
    /// The tools were not listed in time.
    #[error("the tools were not listed within {} seconds", .0.as_secs())]
    Timeout(Duration),
}

/// The reason why a call over one connection has no result.
#[derive(Debug, PartialEq)]
pub(crate) enum CallFailure {
    /// The call failed.
    Failed(ToolError),
    /// The server no longer knew the session, so it did not run the call.
    SessionExpired,
    /// The call was not made, because it needs another session.
    NeedsOtherSession,
}

/// Converts an error of the library into the failure of the call that it ended.
pub(crate) fn call_failure(server: &str, error: ServiceError, secrets: &Secrets) -> CallFailure {
    let failed = match error {
        ServiceError::McpError(error) => {
            let error_type = match error.code {
                ErrorCode::INVALID_PARAMS => ErrorType::InvalidFormat,
                _ => ErrorType::Internal,
            };
            let reason = redacted_excerpt(&error.message, secrets);
            ToolError::new(error_type, format!("The MCP server {server} refused the call: {reason}"))
        }
        ServiceError::TransportSend(error) => {
            match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
                Some(StreamableHttpError::SessionExpired) => return CallFailure::SessionExpired,
                Some(error) => http_failure(server, error, secrets),
                None => connection_lost(server),
            }
        }
        ServiceError::TransportClosed => connection_lost(server),
        ServiceError::Cancelled { .. } => ToolError::new(ErrorType::Cancelled, "The call was cancelled."),
        ServiceError::Timeout { .. } => {
            ToolError::new(ErrorType::Timeout, format!("The MCP server {server} took too long."))
        }
        _ => invalid_response(server),
    };
    CallFailure::Failed(failed)
}

/// Returns the failure of a call whose connection was lost.
pub(crate) fn connection_lost(server: &str) -> ToolError {
    ToolError::new(
        ErrorType::Network,
        format!("The connection to the MCP server {server} was lost during the call."),
    )
}

/// Returns the failure of a call whose response is not a tool result.
pub(crate) fn invalid_response(server: &str) -> ToolError {
    ToolError::new(
        ErrorType::InvalidFormat,
        format!("The MCP server {server} sent a response that is not a result."),
    )
}

/// Returns the failure of a call whose response is too large. It does not count as a network error, because another attempt
/// would fail, too.
pub(crate) fn response_too_large(server: &str) -> ToolError {
    ToolError::new(ErrorType::InvalidFormat, format!("The response of the MCP server {server} is too large."))
}

/// Removes the secrets from a text of a server or of the library, and cuts it to a length that suits logs and models.
pub(crate) fn redacted_excerpt(text: &str, secrets: &Secrets) -> String {
    let text = secrets.mask(text);
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn http_failure(server: &str, error: &StreamableHttpError<reqwest::Error>, secrets: &Secrets) -> ToolError {
    match error {
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            unauthorized(server)
        }
        StreamableHttpError::HttpStatus(status) => status_failure(server, status),
        // Without a challenge, the library has no variants for these two statuses.
        StreamableHttpError::UnexpectedServerResponse(text)
            if text.starts_with("HTTP 401") || text.starts_with("HTTP 403") =>
        {
            unauthorized(server)
        }
        StreamableHttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP ") => {
            let text = redacted_excerpt(text, secrets);
            ToolError::internal(format!("The MCP server {server} answered: {text}"))
        }
        StreamableHttpError::UnexpectedServerResponse(_)
        | StreamableHttpError::UnexpectedContentType(_)
        | StreamableHttpError::Deserialize(_) => {
            // The text of the library does not help a model, so it is only logged.
            let reason = redacted_excerpt(&error.to_string(), secrets);
            tracing::debug!(server, reason, "an MCP server sent a response that is not JSON-RPC");
            invalid_response(server)
        }
        StreamableHttpError::ResponseBodyTooLarge { .. } => response_too_large(server),
        StreamableHttpError::ReservedHeaderConflict(_) => ToolError::internal(format!(
            "The headers of the MCP server {server} are not configured correctly."
        )),
        _ => ToolError::new(ErrorType::Network, format!("The MCP server {server} cannot be reached.")),
    }
}

fn unauthorized(server: &str) -> ToolError {
    ToolError::new(ErrorType::Auth, format!("The MCP server {server} does not accept the credentials."))
}

fn status_failure(server: &str, error: &HttpStatusError) -> ToolError {
    let failed = match error.status {
        429 => ToolError::new(
            ErrorType::RateLimit,
            format!("The MCP server {server} received too many requests."),
        ),
        502..=504 => ToolError::new(
            ErrorType::Network,
            format!("The MCP server {server} is not available at the moment (HTTP {}).", error.status),
        ),
        status => ToolError::internal(format!("The MCP server {server} failed with HTTP {status}.")),
    };
    match error.retry_after.as_deref().and_then(|text| retry_after(text, SystemTime::now())) {
        Some(delay) => failed.retry_after(delay),
        None => failed,
    }
}

/// Reads a `Retry-After` header, which has a number of seconds or a date.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    httpdate::parse_http_date(text).ok()?.duration_since(now).ok()
}

/// Returns the text of an error and of all its causes, because the first one seldom gives the reason.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut full_text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !full_text.contains(&text) {
            full_text = format!("{full_text}: {text}");
        }
        // A transport's error does not return its cause as its `source`.
        cause = match error.downcast_ref::<DynamicTransportError>() {
            Some(error) => Some(error.error.as_ref()),
            None => error.source(),
        };
    }
    full_text
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use rmcp::{ErrorData, transport::streamable_http_client::AuthRequiredError};

    use super::*;

    fn failure_of(error: StreamableHttpError<reqwest::Error>) -> CallFailure {
        let error = DynamicTransportError::from_parts("http", TypeId::of::<()>(), Box::new(error));
        call_failure("search", ServiceError::TransportSend(error), &Secrets::default())
    }

    fn failed(failure: CallFailure) -> ToolError {
        match failure {
            CallFailure::Failed(error) => error,
            CallFailure::SessionExpired | CallFailure::NeedsOtherSession => panic!("the call failed"),
        }
    }

    fn status(status: u16, retry_after: Option<&str>) -> ToolError {
        failed(failure_of(HttpStatusError::new(status, retry_after.map(str::to_owned)).into()))
    }

    #[test]
    fn http_statuses_have_their_error_types() {
        assert_eq!(
            failed(failure_of(StreamableHttpError::AuthRequired(AuthRequiredError::new("Bearer".into()))))
                .error_type,
            ErrorType::Auth
        );
        let plain = StreamableHttpError::UnexpectedServerResponse("HTTP 403 Forbidden: no".into());
        assert_eq!(failed(failure_of(plain)).error_type, ErrorType::Auth);
        assert_eq!(status(429, None).error_type, ErrorType::RateLimit);
        assert_eq!(status(503, None).error_type, ErrorType::Network);
        assert_eq!(status(500, None).error_type, ErrorType::Internal);
        assert_eq!(
            failed(failure_of(StreamableHttpError::UnexpectedEndOfStream)).error_type,
            ErrorType::Network
        );
        assert_eq!(failure_of(StreamableHttpError::SessionExpired), CallFailure::SessionExpired);
    }

    #[test]
    fn a_response_that_is_not_json_rpc_has_a_text_of_its_own() {
        let nonsense = "could not parse JSON response: missing field `jsonrpc`: {}";
        let error = failed(failure_of(StreamableHttpError::UnexpectedServerResponse(nonsense.into())));
        assert_eq!(error, invalid_response("search"));
        let error = failed(failure_of(StreamableHttpError::UnexpectedContentType(Some("text/html".into()))));
        assert_eq!(error, invalid_response("search"));
        let error = failed(failure_of(StreamableHttpError::ResponseBodyTooLarge { max_size: 7 }));
        assert_eq!(error, response_too_large("search"));
        let error = failed(failure_of(StreamableHttpError::UnexpectedServerResponse(
            "HTTP 400: no such page".into(),
        )));
        assert!(error.text.contains("no such page"), "{error}");
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        assert_eq!(status(429, Some("7")).retry_after, Some(Duration::from_secs(7)));
        assert_eq!(status(429, Some("soon")).retry_after, None);
        let date = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        let before = date - Duration::from_secs(90);
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT", before), Some(Duration::from_secs(90)));
    }

    #[test]
    fn the_text_of_a_server_is_cut() {
        let error = ServiceError::McpError(ErrorData::internal_error("ä".repeat(10_000), None));
        let text = failed(call_failure("s", error, &Secrets::default())).text;
        assert!(text.chars().count() < 600 && text.ends_with('…'), "{text}");
    }

    #[test]
    fn invalid_parameters_are_an_invalid_format() {
        let error = ServiceError::McpError(ErrorData::invalid_params("no such city", None));
        let error = failed(call_failure("weather", error, &Secrets::default()));
        assert_eq!(error.error_type, ErrorType::InvalidFormat);
        assert!(error.text.contains("no such city"), "{error}");
    }
}
