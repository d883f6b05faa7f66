//! Connections over streamable HTTP.
//!
//! Invariants: the configured headers are sent with every request, and to no other origin · no error contains the URL, which
//! may contain a key.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::redirect::{Attempt, Policy};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, RequestId},
    transport::{
        StreamableHttpClientTransport,
        common::client_side_sse::{BoxedSseResponse, ExponentialBackoff},
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};
use tokio::sync::Notify;

use crate::{
    calls::OpenCalls,
    config::Secrets,
    failure::{ConnectError, redacted_excerpt},
    link::Link,
};

/// The time limit for opening a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of redirects that a request follows.
const MAX_REDIRECTS: usize = 5;
/// The maximum number of requests that wait for their response headers.
const MAX_PENDING_REQUESTS: usize = 1_000;
/// The pause before a broken stream is opened again for the first time.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause before a broken stream is opened again.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// An HTTP client that reports errors after which the server may be gone, and responses that are too large. The library itself
/// only retries and does not report them.
#[derive(Clone)]
pub(crate) struct MonitoredClient {
    client: reqwest::Client,
    check_alive: Arc<Notify>,
    calls: Arc<OpenCalls>,
    secrets: Secrets,
}

type HttpError = StreamableHttpError<reqwest::Error>;

/// Creates the transport to a server. It sends nothing yet.
///
/// # Errors
/// Returns an error if the URL, a header or the HTTP client is not usable.
pub(crate) fn transport(
    url: &str,
    headers: &BTreeMap<String, String>,
    secrets: &Secrets,
    link: &Link,
) -> Result<StreamableHttpClientTransport<MonitoredClient>, ConnectError> {
    // The URL and the values of headers are secrets, so no error may contain them.
    reqwest::Url::parse(url).map_err(|error| ConnectError::Config(format!("the url is invalid: {error}")))?;
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(Policy::custom(redirect_within_origin))
        .build()
        .map_err(|error| ConnectError::Config(error.without_url().to_string()))?;
    let mut custom_headers = HashMap::new();
    for (name, value) in headers {
        let (Ok(header), Ok(mut value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) else {
            return Err(ConnectError::Config(format!("the header {name:?} is not valid in HTTP")));
        };
        value.set_sensitive(true);
        custom_headers.insert(header, value);
    }
    let mut retry = ExponentialBackoff::default();
    retry.base_duration = FIRST_PAUSE;
    retry.max_delay = Some(MAX_PAUSE);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(custom_headers)
        // Calls may wait for their responses for a long time, and a ping must not queue behind them.
        .max_concurrent_requests(MAX_PENDING_REQUESTS)
        // A server that no longer knows the session may have been updated, so its tools must be listed again.
        .reinit_on_expired_session(false);
    config.retry_config = Arc::new(retry);
    let client = MonitoredClient {
        client,
        check_alive: link.check_alive.clone(),
        calls: link.calls.clone(),
        secrets: secrets.clone(),
    };
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Follows a redirect only within the origin, because another origin must not get the headers, and only if the status keeps the
/// request's body.
fn redirect_within_origin(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_body =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let same_origin =
        attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps_body && same_origin && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

// === impl MonitoredClient ===

impl MonitoredClient {
    /// Notifies the supervisor if the server may be gone after this error. Returns the error without secrets.
    fn handle_error(&self, error: HttpError) -> HttpError {
        let may_be_gone = match &error {
            StreamableHttpError::HttpStatus(status) => (502..=504).contains(&status.status),
            StreamableHttpError::ServerDoesNotSupportSse
            | StreamableHttpError::AuthRequired(_)
            | StreamableHttpError::InsufficientScope(_) => false,
            _ => true,
        };
        if may_be_gone {
            self.check_alive.notify_one();
        }
        match error {
            StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
            // The library also logs this text.
            StreamableHttpError::UnexpectedServerResponse(text) => {
                StreamableHttpError::UnexpectedServerResponse(redacted_excerpt(&text, &self.secrets).into())
            }
            other => other,
        }
    }

    /// Returns the response to a call with a check for events that are too large, which the library does not report.
    fn monitored(
        &self,
        response: StreamableHttpPostResponse,
        call: Option<RequestId>,
    ) -> StreamableHttpPostResponse {
        match (response, call) {
            (StreamableHttpPostResponse::Sse(stream, session), Some(call)) => {
                let calls = self.calls.clone();
                // The error is recognized by its text, because its type is not public.
                let stream = stream.inspect_err(move |error| {
                    if let SseError::Body(error) = error
                        && error.to_string().starts_with("SSE event exceeded the maximum size")
                    {
                        calls.mark_too_large(call.clone());
                    }
                });
                StreamableHttpPostResponse::Sse(stream.boxed(), session)
            }
            (response, _) => response,
        }
    }
}

/// Returns the request id if the message is a tool call.
fn call_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    match request.request {
        ClientRequest::CallToolRequest(_) => Some(request.id.clone()),
        _ => None,
    }
}

impl StreamableHttpClient for MonitoredClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let call = call_id(&message);
        let sent = self.client.post_message(uri, message, session_id, auth_header, custom_headers).await;
        sent.map(|response| self.monitored(response, call)).map_err(|error| self.handle_error(error))
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let call = call_id(&message);
        let sent = self.client.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            max_sse_event_size,
        );
        sent.await.map(|response| self.monitored(response, call)).map_err(|error| self.handle_error(error))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let deleted = self.client.delete_session(uri, session_id, auth_header, custom_headers).await;
        deleted.map_err(|error| self.handle_error(error))
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, HttpError> {
        let stream =
            self.client.get_stream(uri, session_id, last_event_id, auth_header, custom_headers).await;
        stream.map_err(|error| self.handle_error(error))
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxedSseResponse, HttpError> {
        let stream = self.client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            max_sse_event_size,
        );
        stream.await.map_err(|error| self.handle_error(error))
    }
}
