//! Reaching a server over streamable HTTP.
//!
//! Invariants: the configured headers go with every request, and to no other origin · no error carries the address,
//! which may hold a key.

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

/// How long a connection may take to be opened.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The most redirects that one request may follow.
const MOST_REDIRECTS: usize = 5;
/// The most requests that wait for the beginning of their answer.
const MOST_REQUESTS: usize = 1_000;
/// How long to wait before a broken stream is opened again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// An HTTP client that says when the server may be gone, and what spoilt an answer: the library goes on trying by itself,
/// and tells nobody.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    doubt: Arc<Notify>,
    calls: Arc<OpenCalls>,
    secrets: Secrets,
}

type HttpError = StreamableHttpError<reqwest::Error>;

/// The way to a server; nothing is sent yet.
///
/// # Errors
/// The address or a header is unusable.
pub(crate) fn transport(
    url: &str,
    headers: &BTreeMap<String, String>,
    secrets: &Secrets,
    link: &Link,
) -> Result<StreamableHttpClientTransport<Http>, ConnectError> {
    // The values of headers and the address are secrets: no error repeats them.
    reqwest::Url::parse(url).map_err(|error| ConnectError::Config(format!("its url: {error}")))?;
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(Policy::custom(only_to_the_same_origin))
        .build()
        .map_err(|error| ConnectError::Config(error.without_url().to_string()))?;
    let mut retry = ExponentialBackoff::default();
    retry.base_duration = FIRST_PAUSE;
    retry.max_delay = Some(LONGEST_PAUSE);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(read_headers(headers)?)
        // A server may answer each call as late as it likes; a ping must not have to queue behind them.
        .max_concurrent_requests(MOST_REQUESTS)
        // A server that has forgotten us may be another version of itself: its tools have to be listed again.
        .reinit_on_expired_session(false);
    config.retry_config = Arc::new(retry);
    let (doubt, calls) = (link.check_alive.clone(), link.calls.clone());
    let client = Http { client, doubt, calls, secrets: secrets.clone() };
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn read_headers(
    headers: &BTreeMap<String, String>,
) -> Result<HashMap<HeaderName, HeaderValue>, ConnectError> {
    let read = |(name, value): (&String, &String)| {
        let bad = |_| ConnectError::Config(format!("its header {name:?} is not fit for HTTP"));
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad(()))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad(()))?;
        value.set_sensitive(true);
        Ok((parsed, value))
    };
    headers.iter().map(read).collect()
}

/// Another origin would get our headers, and any other redirect would lose the message.
fn only_to_the_same_origin(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_message =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let same_origin =
        attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps_message && same_origin && attempt.previous().len() <= MOST_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

// === impl Http ===

impl Http {
    /// The error as it may be seen. Tells those who look after the connection.
    fn noticed(&self, error: HttpError) -> HttpError {
        let doubtful = match &error {
            StreamableHttpError::HttpStatus(status) => (502..=504).contains(&status.status),
            StreamableHttpError::ServerDoesNotSupportSse
            | StreamableHttpError::AuthRequired(_)
            | StreamableHttpError::InsufficientScope(_) => false,
            _ => true,
        };
        if doubtful {
            self.doubt.notify_one();
        }
        match error {
            StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
            // The library logs it, too.
            StreamableHttpError::UnexpectedServerResponse(text) => {
                StreamableHttpError::UnexpectedServerResponse(redacted_excerpt(&text, &self.secrets).into())
            }
            other => other,
        }
    }

    /// The answer, watched for what the library keeps to itself.
    fn watched(
        &self,
        answer: StreamableHttpPostResponse,
        call: Option<RequestId>,
    ) -> StreamableHttpPostResponse {
        match (answer, call) {
            (StreamableHttpPostResponse::Sse(stream, session), Some(call)) => {
                let calls = self.calls.clone();
                let notice = move |error: &SseError| {
                    if is_too_large(error) {
                        calls.mark_too_large(call.clone());
                    }
                };
                StreamableHttpPostResponse::Sse(stream.inspect_err(notice).boxed(), session)
            }
            (answer, _) => answer,
        }
    }
}

/// The id of a call of a tool.
fn call_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => {
            matches!(request.request, ClientRequest::CallToolRequest(_)).then(|| request.id.clone())
        }
        _ => None,
    }
}

/// Whether this is the library's refusal to read an event as long as that; its type is not public.
fn is_too_large(error: &SseError) -> bool {
    match error {
        SseError::Body(error) => error.to_string().starts_with("SSE event exceeded the maximum size"),
        _ => false,
    }
}

impl StreamableHttpClient for Http {
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
        sent.map(|answer| self.watched(answer, call)).map_err(|error| self.noticed(error))
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
        sent.await.map(|answer| self.watched(answer, call)).map_err(|error| self.noticed(error))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let deleted = self.client.delete_session(uri, session_id, auth_header, custom_headers).await;
        deleted.map_err(|error| self.noticed(error))
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
        stream.map_err(|error| self.noticed(error))
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
        stream.await.map_err(|error| self.noticed(error))
    }
}
