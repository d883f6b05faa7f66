//! Sends a request through `async-openai` and takes the response from under it.
//!
//! `async-openai` builds the request and could also read the response, but that is not suitable here: it retries by itself up to three
//! times, drops the headers of a refusal (`retry-after`), fails to read error bodies whose `code` is a number, and stops at harmless
//! oddities of a stream. So the HTTP service that it runs on hands the response to this module, and `null` to `async-openai`.
//!
//! Invariant: one call sends one request.

use std::time::Duration;

use async_openai::{Client, error::OpenAIError, middleware::HttpRequestFactory};
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use reqwest::{
    Response,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde::{Serialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use tokio::sync::mpsc;

use super::{
    Endpoint,
    answer::Answer,
    dialect::LastReasoningField,
    failure::Failure,
    sse::{BYTE_ORDER_MARK, LONGEST_EVENT},
};

/// The limit on the bytes of an error body that are read.
const ERROR_BODY_LIMIT: usize = 64 * 1024;
/// The time limit for reading an error body.
/// The header with the span that a request belongs to.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);

/// The way to the API.
#[derive(Clone)]
pub(super) enum Transport {
    /// The API itself.
    Http { api: Box<Client<Endpoint>>, http: reqwest::Client },
    /// Sends nothing, and reads the same event stream for each request.
    Recording(Vec<Bytes>),
}

// === impl Transport ===

impl Transport {
    /// Sends a request for vectors and reads the answer.
    pub(super) async fn embed(&self, body: &Value) -> Result<Vec<u8>, Failure> {
        let (api, http) = match self {
            Self::Http { api, http } => (api, http),
            Self::Recording(pieces) => return Ok(pieces.concat()),
        };
        let response = send(api, http, Operation::Embeddings, body, None).await?;
        if !response.status().is_success() {
            return Err(read_refusal(response).await);
        }
        read_bytes(response).await
    }

    /// Sends the request and starts to read the answer.
    pub(super) async fn ask(
        &self,
        body: &RawValue,
        traceparent: Option<&str>,
        last_reasoning_field: LastReasoningField,
    ) -> Result<Answer, Failure> {
        let (api, http) = match self {
            Self::Http { api, http } => (api, http),
            Self::Recording(pieces) => {
                let pieces = stream::iter(pieces.clone()).map(Ok);
                return Ok(Answer::streamed(pieces, last_reasoning_field));
            }
        };
        let response = send(api, http, Operation::Chat, body, traceparent).await?;
        if !response.status().is_success() {
            return Err(read_refusal(response).await);
        }
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if media_type.is_some_and(|media_type| media_type.trim_start().starts_with("application/json")) {
            read_whole(response, last_reasoning_field).await
        } else {
            Ok(Answer::streamed(response.bytes_stream(), last_reasoning_field))
        }
    }
}

/// An operation of the API.
#[derive(Clone, Copy)]
enum Operation {
    Chat,
    Embeddings,
}

/// Builds and sends the request through `async-openai`, and returns the response unchanged.
async fn send(
    api: &Client<Endpoint>,
    http: &reqwest::Client,
    operation: Operation,
    body: impl Serialize,
    traceparent: Option<&str>,
) -> Result<Response, Failure> {
    let (responses, mut received) = mpsc::unbounded_channel();
    let http = http.clone();
    let traceparent = traceparent.and_then(|value| HeaderValue::from_str(value).ok());
    let service = tower::service_fn(move |request: HttpRequestFactory| {
        let (http, responses, traceparent) = (http.clone(), responses.clone(), traceparent.clone());
        async move {
            let mut request = request.build().await?;
            if let Some(traceparent) = traceparent {
                request.headers_mut().insert(TRACEPARENT, traceparent);
            }
            let response = http.execute(request).await?;
            // This fails only if nobody waits for the response any more.
            let _ = responses.send(response);
            Ok::<_, OpenAIError>(Response::from(http::Response::new("null")))
        }
    });
    let api = api.clone().with_http_service(service);
    match operation {
        // The request asks for a stream, and yet this is not `create_stream_byot`, which would start a task to read one.
        Operation::Chat => api.chat().create_byot::<_, IgnoredAny>(body).await?,
        Operation::Embeddings => api.embeddings().create_byot::<_, IgnoredAny>(body).await?,
    };
    received.recv().await.ok_or_else(|| Failure::network("the request was not sent"))
}

/// Reads the body of a refusal, within limits.
async fn read_refusal(response: Response) -> Failure {
    let (status, headers) = (response.status(), response.headers().clone());
    let mut text = Vec::new();
    let mut body = response.bytes_stream();
    // A body that breaks off or takes too long still leaves the status.
    let _ = tokio::time::timeout(ERROR_BODY_TIME, async {
        while let Some(Ok(bytes)) = body.next().await {
            text.extend_from_slice(&bytes);
            if text.len() >= ERROR_BODY_LIMIT {
                break;
            }
        }
    })
    .await;
    Failure::from_status(status, &headers, &String::from_utf8_lossy(&text))
}

/// Reads the body of a response, within its limit.
async fn read_bytes(response: Response) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece.map_err(Failure::reqwest)?);
        if bytes.len() > LONGEST_EVENT {
            return Err(Failure::format(format!("the answer has more than {LONGEST_EVENT} bytes")));
        }
    }
    Ok(bytes)
}

/// Reads the answer of a server that ignored `stream: true`, or that calls its event stream JSON.
async fn read_whole(response: Response, last_reasoning_field: LastReasoningField) -> Result<Answer, Failure> {
    let bytes = read_bytes(response).await?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
    let is_event_stream = ["data:", "event:", ":"].iter().any(|start| text.trim_start().starts_with(start));
    if is_event_stream {
        let body = stream::iter([Ok(Bytes::copy_from_slice(text.as_bytes()))]);
        return Ok(Answer::streamed(body, last_reasoning_field));
    }
    Answer::whole(text, last_reasoning_field)
}
