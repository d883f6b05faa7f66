//! Errors of connections as texts for the log, and errors of calls as the failures that the call's outcome has.

use std::{
    error::Error,
    io,
    process::ExitStatus,
    time::{Duration, SystemTime},
};

use fermata_tools::{ErrorType, ToolError};
use rmcp::{
    ServiceError,
    model::{ErrorCode, ErrorData},
    service::ClientInitializeError,
    transport::{
        DynamicTransportError,
        streamable_http_client::{HttpStatusError, StreamableHttpError},
    },
};

use serde_json::Value;

use crate::{
    config::{Protocol, Secrets},
    lenient::{ReplyKind, reply_kind},
};

/// The code of an error that asks the person to visit a page.
const URL_ELICITATION_REQUIRED: ErrorCode = ErrorCode(-32042);

/// The maximum length of a text of a server or of the library, in characters. A longer one is cut.
const MAX_TEXT: usize = 500;

/// The error for a connection that could not be opened or whose tools could not be listed. The texts are for the person who set the server
/// up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The program cannot be started.
    #[error("the program {command:?} cannot be started: {reason}")]
    Start {
        /// The program.
        command: String,
        /// The reason, in the words of the operating system.
        reason: String,
    },
    /// The URL, a header or the HTTP client is not usable.
    #[error("the configuration is not usable: {0}")]
    Config(String),
    /// The server requires credentials, and none are configured.
    #[error("the server requires credentials; set `headers = {{ Authorization = \"Bearer …\" }}` for it")]
    NoCredentials,
    /// The server refused the credentials.
    #[error("the server does not accept the credentials in its `headers`")]
    Unauthorized,
    /// The server speaks the transport of the first version of MCP.
    #[error(
        "the server speaks the older HTTP+SSE transport, which is not supported; use the URL of its streamable HTTP endpoint, often \
         /mcp"
    )]
    OlderTransport,
    /// The connection was closed during the handshake.
    #[error("the connection was closed during the handshake")]
    Closed,
    /// The program ended during the handshake.
    #[error("the program ended during the handshake ({0})")]
    Exited(ExitStatus),
    /// The attempt has shown that the server needs this version, so the next one begins with it.
    #[error("the server needs another version of MCP")]
    OtherVersion(Protocol),
    /// The server refused the handshake.
    #[error("the server refused the handshake: {0}")]
    Refused(String),
    /// The server speaks no version that Fermata speaks.
    #[error("the server speaks only the versions {0} of MCP; see `protocol`")]
    Versions(String),
    /// The server cannot be reached, or its response is not one of MCP.
    #[error("{0}")]
    Http(String),
    /// The server did not list its tools.
    #[error("the tools cannot be listed: {0}")]
    Listing(String),
    /// The tools were not listed in time.
    #[error("the tools were not listed within {} seconds", .0.as_secs())]
    Timeout(Duration),
}

// === impl ConnectError ===

impl ConnectError {
    pub(crate) fn start(command: &str, error: &io::Error) -> Self {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "it is not installed, or not in PATH".to_owned(),
            _ => error.to_string(),
        };
        Self::Start { command: command.to_owned(), reason }
    }

    pub(crate) fn handshake(error: ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::ConnectionClosed(_) => Self::Closed,
            ClientInitializeError::TransportError { error, .. } => Self::transport(error.error.as_ref()),
            ClientInitializeError::JsonRpcError(error) => match reply_kind(&error) {
                Some(_) => {
                    Self::Http(format!("the reply to the handshake is not one of MCP: {}", error.message))
                }
                None => Self::Refused(error.message.into_owned()),
            },
            ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => Self::Versions(
                server_supported.iter().map(|version| version.as_str()).collect::<Vec<_>>().join(", "),
            ),
            // The older handshake decides, because the server refused the newer one.
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::handshake(*fallback),
            _ => Self::Refused("it sent an unexpected message".to_owned()),
        }
    }

    pub(crate) fn listing(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => Self::Listing(error.message.into_owned()),
            ServiceError::TransportSend(error) => match Self::transport(error.error.as_ref()) {
                Self::Http(reason) => Self::Listing(reason),
                other => other,
            },
            ServiceError::TransportClosed => Self::Listing("the connection was closed".to_owned()),
            _ => Self::Listing("the response is not a list".to_owned()),
        }
    }

    /// Converts an error of sending a request.
    fn transport(error: &(dyn Error + Send + Sync + 'static)) -> Self {
        match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)) => {
                Self::Unauthorized
            }
            Some(StreamableHttpError::Client(error)) => {
                Self::Http(format!("the server cannot be reached: {}", with_causes(error)))
            }
            Some(StreamableHttpError::HttpStatus(status)) => {
                Self::Http(format!("the server answered with HTTP {}", status.status))
            }
            Some(StreamableHttpError::UnexpectedServerResponse(text)) => {
                Self::Http(format!("the server answered: {text}"))
            }
            Some(StreamableHttpError::SessionExpired) => {
                Self::Http("the server did not keep its session".to_owned())
            }
            Some(error) => Self::Http(with_causes(error)),
            // A program's input is closed when it has ended.
            None => Self::Closed,
        }
    }
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
        ServiceError::McpError(error) => match reply_kind(&error) {
            Some(ReplyKind::SessionGone) => return CallFailure::SessionExpired,
            Some(ReplyKind::TooLarge) => response_too_large(server),
            Some(ReplyKind::Unreadable) => {
                let reason = redacted_excerpt(&error.message, secrets);
                tracing::debug!(server, reason, "an MCP server sent a response that cannot be read");
                invalid_response(server)
            }
            None => refused(server, &error, secrets),
        },
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
/// would also fail.
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

/// Returns the failure of a call that the server answered with an error.
fn refused(server: &str, error: &ErrorData, secrets: &Secrets) -> ToolError {
    let reason = redacted_excerpt(&error.message, secrets);
    let urls = urls_to_visit(error);
    if !urls.is_empty() {
        let urls = redacted_excerpt(&urls.join("; "), secrets);
        let text = format!(
            "The MCP server {server} needs the person to open a page first: {urls}. Then the call can be made again."
        );
        return ToolError::new(ErrorType::Auth, text);
    }
    let error_type = match error.code {
        ErrorCode::INVALID_PARAMS => ErrorType::InvalidFormat,
        _ => ErrorType::of_words(&error.message).unwrap_or(ErrorType::Internal),
    };
    ToolError::new(error_type, format!("The MCP server {server} refused the call: {reason}"))
}

/// Returns the pages that the person has to visit before a call can succeed, each with the server's reason.
fn urls_to_visit(error: &ErrorData) -> Vec<String> {
    if error.code != URL_ELICITATION_REQUIRED {
        return Vec::new();
    }
    let elicitations = error.data.as_ref().and_then(|data| data.get("elicitations")?.as_array());
    let pages = elicitations.into_iter().flatten().filter_map(|elicitation| {
        let url = elicitation.get("url")?.as_str()?;
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        let message = elicitation.get("message").and_then(Value::as_str).unwrap_or_default();
        is_web.then(|| format!("{message} {url}").trim().to_owned())
    });
    pages.collect()
}

fn http_failure(server: &str, error: &StreamableHttpError<reqwest::Error>, secrets: &Secrets) -> ToolError {
    match error {
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            unauthorized(server)
        }
        StreamableHttpError::HttpStatus(status) => status_failure(server, status),
        StreamableHttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP ") => {
            let text = redacted_excerpt(text, secrets);
            ToolError::internal(format!("The MCP server {server} answered: {text}"))
        }
        StreamableHttpError::UnexpectedServerResponse(_) | StreamableHttpError::Deserialize(_) => {
            // The text of the library does not help a model, so it is only logged.
            let reason = redacted_excerpt(&error.to_string(), secrets);
            tracing::debug!(server, reason, "an MCP server sent a response that is not JSON-RPC");
            invalid_response(server)
        }
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

    use rmcp::transport::streamable_http_client::AuthRequiredError;
    use serde_json::json;

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

    #[test]
    fn a_page_that_the_person_must_visit_is_named() {
        let elicitations = json!([
            {"mode": "url", "url": "https://auth.example.com/connect?e=1", "message": "Sign in to reach your files."},
            {"mode": "url", "url": "javascript:alert(1)", "message": "Click"},
        ]);
        let error = ErrorData::new(
            URL_ELICITATION_REQUIRED,
            "More is required",
            Some(json!({"elicitations": elicitations})),
        );
        let error = failed(call_failure("files", ServiceError::McpError(error), &Secrets::default()));
        assert_eq!(error.error_type, ErrorType::Auth);
        assert!(
            error.text.contains("Sign in to reach your files. https://auth.example.com/connect?e=1"),
            "{error}"
        );
        assert!(!error.text.contains("javascript"), "{error}");
    }
}
