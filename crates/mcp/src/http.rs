//! Connections over streamable HTTP.
//!
//! Invariants: the configured headers are sent with every request, and to no other origin · no error contains the URL, which
//! may contain a key · every request gets a reply or an error, for any form of the server's response.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use reqwest::{
    Response,
    redirect::{Attempt, Policy},
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, RequestId, ServerJsonRpcMessage},
    transport::{
        StreamableHttpClientTransport,
        common::{
            client_side_sse::{BoxedSseResponse, ExponentialBackoff},
            http_header::{EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE},
        },
        streamable_http_client::{
            AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
            StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::{Sse, SseStream};
use tokio::sync::Notify;

use crate::{
    config::Secrets,
    failure::{ConnectError, redacted_excerpt},
    lenient::{ReplyKind, error_reply, is_reply, read_messages, reply_id, says_that_the_session_is_gone},
    link::Link,
    metadata,
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
/// The largest response and the largest event of a stream, in bytes.
const MAX_SIZE: usize = 16 * 1024 * 1024;
/// The number of bytes of an error's body that are read.
const MAX_ERROR_SIZE: usize = 64 * 1024;
/// The time limit for asking a server whether it speaks the older transport.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The HTTP client of one connection. It reads more forms of responses than the library's own, and it reports errors that may mean that
/// the server is gone.
#[derive(Clone)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    check_alive: Arc<Notify>,
    secrets: Secrets,
    /// `true` while a reply may come on the stream of the session instead of in the response to its request.
    may_reply_elsewhere: Arc<AtomicBool>,
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
) -> Result<StreamableHttpClientTransport<HttpClient>, ConnectError> {
    let mut custom_headers = HashMap::new();
    for (name, value) in headers {
        let (Ok(header), Ok(mut value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) else {
            return Err(ConnectError::Config(format!("the header {name:?} is not valid in HTTP")));
        };
        let reserved = [ACCEPT.as_str(), HEADER_SESSION_ID, HEADER_LAST_EVENT_ID];
        if reserved.iter().any(|reserved| header.as_str().eq_ignore_ascii_case(reserved)) {
            return Err(ConnectError::Config(format!("the header {name:?} is set by the protocol")));
        }
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
    let client = HttpClient {
        client: client(url)?,
        check_alive: link.check_alive.clone(),
        secrets: secrets.clone(),
        may_reply_elsewhere: Arc::new(AtomicBool::new(true)),
    };
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn client(url: &str) -> Result<reqwest::Client, ConnectError> {
    // The URL and the values of headers are secrets, so no error may contain them.
    reqwest::Url::parse(url).map_err(|error| ConnectError::Config(format!("the url is invalid: {error}")))?;
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(Policy::custom(redirect_within_origin))
        .build()
        .map_err(|error| ConnectError::Config(error.without_url().to_string()))
}

/// Asks a server that refuses requests whether it speaks the older HTTP+SSE transport, which begins with an event named `endpoint`.
pub(crate) async fn speaks_older_transport(url: &str, headers: &BTreeMap<String, String>) -> bool {
    let Ok(client) = client(url) else { return false };
    let request = headers.iter().fold(client.get(url), |request, (name, value)| request.header(name, value));
    let first_event = async {
        let response = request.header(ACCEPT, EVENT_STREAM_MIME_TYPE).send().await.ok()?;
        if !has_type(&response, EVENT_STREAM_MIME_TYPE) {
            return None;
        }
        events(response).next().await?.ok()?.event
    };
    tokio::time::timeout(PROBE_TIMEOUT, first_event)
        .await
        .is_ok_and(|event| event.as_deref() == Some("endpoint"))
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

// === impl HttpClient ===

impl HttpClient {
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

    async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        headers: HeaderMap,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let mut request = self
            .client
            .post(uri)
            .header(ACCEPT, [EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE].join(", "))
            .headers(headers)
            .json(message);
        if let Some(session) = session {
            request = request.header(HEADER_SESSION_ID, session);
        }
        for (header, name) in metadata::HEADERS {
            if let Some(value) = metadata::field(message, name) {
                request = request.header(header, value);
            }
        }
        let response = request.send().await?;
        let id = match message {
            ClientJsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        };
        let status = response.status();
        if !status.is_success() {
            return self.read_failure(message, id, session.is_some(), response).await;
        }
        // Nobody waits for a reply to a notification, so any form of success will do.
        let Some(id) = id else { return Ok(StreamableHttpPostResponse::Accepted) };
        let new_session = header(&response, HEADER_SESSION_ID);
        if has_type(&response, EVENT_STREAM_MIME_TYPE) {
            let replies = readable_events(events(response), Some(id.clone()));
            return Ok(StreamableHttpPostResponse::Sse(replies.boxed(), new_session));
        }
        let body = read_body(response).await?;
        let mut messages = match &body {
            Some(body) => read_messages(body, Some(id)),
            None => vec![error_reply(ReplyKind::TooLarge, "it is too large", Some(id.clone()))],
        };
        if !messages.iter().any(is_reply) {
            let body = body.unwrap_or_default();
            if body.trim_ascii().is_empty()
                && session.is_some()
                && self.may_reply_elsewhere.load(Ordering::SeqCst)
            {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            let text = format!("HTTP {status}: {}", String::from_utf8_lossy(&body));
            messages.push(error_reply(
                ReplyKind::Unreadable,
                &redacted_excerpt(&text, &self.secrets),
                Some(id.clone()),
            ));
        }
        match <[ServerJsonRpcMessage; 1]>::try_from(messages) {
            Ok([message]) => Ok(StreamableHttpPostResponse::Json(message, new_session)),
            Err(messages) => {
                let messages = messages.into_iter().filter_map(|message| event(&message)).map(Ok);
                Ok(StreamableHttpPostResponse::Sse(
                    stream::iter(messages.collect::<Vec<_>>()).boxed(),
                    new_session,
                ))
            }
        }
    }

    /// Reads a response whose status is not a success.
    async fn read_failure(
        &self,
        message: &ClientJsonRpcMessage,
        id: Option<&RequestId>,
        has_session: bool,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let status = response.status();
        let challenge = header(&response, WWW_AUTHENTICATE.as_str()).unwrap_or_default();
        match status {
            StatusCode::UNAUTHORIZED => {
                return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)));
            }
            StatusCode::FORBIDDEN => {
                return Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(
                    challenge, None,
                )));
            }
            StatusCode::NOT_FOUND if has_session => return Err(StreamableHttpError::SessionExpired),
            _ => {}
        }
        let retry_after = header(&response, RETRY_AFTER.as_str());
        let body = read_beginning(response).await;
        let text = String::from_utf8_lossy(&body);
        let is_busy = status == StatusCode::TOO_MANY_REQUESTS;
        let reply = read_messages(&body, id)
            .into_iter()
            .find(|message| matches!(message, ServerJsonRpcMessage::Error(_)));
        if has_session && says_that_the_session_is_gone(&text) {
            // A server that fails may have run the request, unless its error does not name it.
            let is_named = read_messages(&body, None).iter().any(|message| reply_id(message) == Some(id));
            if status.is_client_error() || reply.is_some() && !is_named {
                return Err(StreamableHttpError::SessionExpired);
            }
            self.check_alive.notify_one();
        }
        match (reply, id) {
            (Some(reply), Some(_)) if !is_busy => return Ok(StreamableHttpPostResponse::Json(reply, None)),
            (_, Some(id)) if is_discovery(message) => {
                let reason = format!("HTTP {status}");
                let reply = error_reply(ReplyKind::Unreadable, &reason, Some(id.clone()));
                return Ok(StreamableHttpPostResponse::Json(reply, None));
            }
            _ => {}
        }
        if is_busy || status.is_server_error() {
            return Err(HttpStatusError::new(status.as_u16(), retry_after).into());
        }
        Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}: {text}").into()))
    }
}

/// Returns whether a message asks a server for the versions that it speaks. A server that does not know the request may refuse it in any form.
fn is_discovery(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::DiscoverRequest(_)))
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn has_type(response: &Response, media_type: &str) -> bool {
    let content_type = header(response, CONTENT_TYPE.as_str()).unwrap_or_default();
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
}

/// Reads a body. Returns `None` if it is larger than the limit.
async fn read_body(response: Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.try_next().await? {
        if chunk.len() > MAX_SIZE - body.len() {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Reads the beginning of a body, as far as it comes.
async fn read_beginning(response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while body.len() < MAX_ERROR_SIZE
        && let Some(Ok(chunk)) = chunks.next().await
    {
        body.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR_SIZE - body.len())]);
    }
    body
}

/// Returns the events of a stream. Bytes that are not UTF-8 become U+FFFD. An event that is larger than the limit ends the stream with
/// [`io::ErrorKind::FileTooLarge`].
fn events(response: Response) -> impl Stream<Item = Result<Sse, SseError>> + Send {
    let (mut event, mut line, mut rest) = (0, 0, Vec::new());
    let chunks = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
        for byte in &chunk {
            event += 1;
            match byte {
                b'\n' if line == 0 => event = 0,
                b'\n' => line = 0,
                b'\r' => {}
                _ => line += 1,
            }
        }
        if event > MAX_SIZE {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        rest.extend_from_slice(&chunk);
        let unfinished = rest.split_off(rest.len() - unfinished_character(&rest));
        let text = String::from_utf8_lossy(&std::mem::replace(&mut rest, unfinished)).into_owned();
        Ok(io::Cursor::new(text))
    });
    SseStream::from_bytes_stream(chunks)
}

/// Returns the number of bytes at the end that begin a character whose other bytes are missing.
fn unfinished_character(bytes: &[u8]) -> usize {
    for length in 1..=bytes.len().min(3) {
        let needed = match bytes[bytes.len() - length] {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            _ => continue,
        };
        return if needed > length { length } else { 0 };
    }
    0
}

/// Replaces the data of each event by the messages in it. A reply that cannot be used becomes an error reply.
fn readable_events(
    events: impl Stream<Item = Result<Sse, SseError>> + Send,
    expected: Option<RequestId>,
) -> impl Stream<Item = Result<Sse, SseError>> + Send {
    events.flat_map(move |received| {
        let read = match received {
            Ok(Sse { event: None, data: Some(data), id, retry }) => {
                read_event(&data, id, retry, expected.as_ref())
            }
            Ok(Sse { event: Some(name), data: Some(data), id, retry })
                if name.is_empty() || name == "message" =>
            {
                read_event(&data, id, retry, expected.as_ref())
            }
            Err(SseError::Body(error)) if is_too_large(error.as_ref()) && expected.is_some() => {
                event(&error_reply(ReplyKind::TooLarge, "it is too large", expected.clone()))
                    .map(Ok)
                    .into_iter()
                    .collect()
            }
            other => vec![other],
        };
        stream::iter(read)
    })
}

fn read_event(
    data: &str,
    id: Option<String>,
    retry: Option<u64>,
    expected: Option<&RequestId>,
) -> Vec<Result<Sse, SseError>> {
    // The position of the stream is kept even if the event has no message.
    let position = Sse { event: None, data: None, id, retry };
    let messages = read_messages(data.as_bytes(), expected);
    std::iter::once(position).chain(messages.iter().filter_map(event)).map(Ok).collect()
}

/// Returns the event that carries a message.
fn event(message: &ServerJsonRpcMessage) -> Option<Sse> {
    let data = serde_json::to_string(message).ok()?;
    Some(Sse { event: None, data: Some(data), id: None, retry: None })
}

fn is_too_large(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge)
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let headers = HeaderMap::from_iter(custom_headers);
        let sent = self.post(&uri, &message, session_id.as_deref(), headers).await;
        sent.map_err(|error| self.handle_error(error))
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
        let is_resumed = last_event_id.is_some();
        let stream =
            self.client.get_stream(uri, session_id, last_event_id, auth_header, custom_headers).await;
        if stream.is_err() && !is_resumed {
            self.may_reply_elsewhere.store(false, Ordering::SeqCst);
        }
        let stream = stream.map_err(|error| self.handle_error(error))?;
        Ok(readable_events(stream, None).boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_cut_is_unfinished() {
        for text in ["a", "ä", "€", "🦀"] {
            for length in 0..text.len() {
                assert_eq!(
                    unfinished_character(&text.as_bytes()[..length]),
                    length,
                    "{length} bytes of {text}"
                );
            }
            assert_eq!(unfinished_character(text.as_bytes()), 0, "{text}");
        }
        assert_eq!(unfinished_character(b"a\xff"), 0);
        assert_eq!(unfinished_character(b"\x80\x80\x80\x80"), 0);
    }
}
