//! The HTTP service under `async-openai`.
//!
//! It stands in for async-openai's own for four reasons: that one retries by itself and up to three times, drops the headers
//! of a refusal (`retry-after`), fails to read error bodies whose `code` is a number, and is stopped by harmless oddities of
//! the stream, which [`super::framing`] takes out. It does not know what the events mean.
//!
//! Invariant: one call sends one request; every response that leaves is a stream of events in which [`DONE`] stands only
//! where the answer is complete.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use bytes::Bytes;
use futures::{
    future::{self, BoxFuture},
    stream::{self, StreamExt},
};
use reqwest::{Body, Client, Response, header::CONTENT_TYPE};
use serde_json::Value;
use tower::Service;

use super::{
    failure::Failure,
    framing::{DONE, Framing, LONGEST_EVENT, without_mark, write_event},
    surrogate_halves::repair,
};

/// How much of an error body is read, and for how long.
const ERROR_BODY_LIMIT: usize = 64 * 1024;
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);

/// Sends a request once.
#[derive(Clone)]
pub(super) struct Transport {
    client: Client,
}

impl Transport {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Service<HttpRequestFactory> for Transport {
    type Response = Response;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<Response, OpenAIError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequestFactory) -> Self::Future {
        let client = self.client.clone();
        Box::pin(async move {
            let request = request.build().await?;
            send(&client, request).await.map_err(|failure| OpenAIError::Boxed(Box::new(failure)))
        })
    }
}

/// Answers each request with the same stream.
#[derive(Clone)]
pub(super) struct Recording {
    pieces: Vec<Bytes>,
}

impl Recording {
    pub(super) fn new(pieces: Vec<Bytes>) -> Self {
        Self { pieces }
    }
}

impl Service<HttpRequestFactory> for Recording {
    type Response = Response;
    type Error = OpenAIError;
    type Future = future::Ready<Result<Response, OpenAIError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: HttpRequestFactory) -> Self::Future {
        let pieces = self.pieces.clone().into_iter().map(Ok::<_, OpenAIError>);
        let body = Body::wrap_stream(stream::iter(pieces));
        future::ready(Ok(framed(http::Response::new(body).into())))
    }
}

async fn send(client: &Client, request: reqwest::Request) -> Result<Response, Failure> {
    let response = client.execute(request).await.map_err(Failure::reqwest)?;
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    if is_json(&response) { whole(response).await } else { Ok(framed(response)) }
}

async fn refusal(response: Response) -> Failure {
    let (status, headers) = (response.status(), response.headers().clone());
    let mut read = Vec::new();
    let mut body = response.bytes_stream();
    // A body that breaks off or dawdles still leaves a status to go by.
    let _ = tokio::time::timeout(ERROR_BODY_TIME, async {
        while let Some(Ok(bytes)) = body.next().await {
            read.extend_from_slice(&bytes);
            if read.len() >= ERROR_BODY_LIMIT {
                break;
            }
        }
    })
    .await;
    Failure::from_status(status, &headers, &String::from_utf8_lossy(&read))
}

fn is_json(response: &Response) -> bool {
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|media_type| media_type.trim_start().starts_with("application/json"))
}

/// The answer of a server that ignored `stream: true`, as the one event of a stream.
async fn whole(response: Response) -> Result<Response, Failure> {
    let mut bytes = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece.map_err(Failure::reqwest)?);
        if bytes.len() > LONGEST_EVENT {
            return Err(Failure::format(format!("the answer has more than {LONGEST_EVENT} bytes")));
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = without_mark(&text);
    let is_mislabelled = ["data:", "event:", ":"].iter().any(|start| text.trim_start().starts_with(start));
    let mut events = String::new();
    if is_mislabelled {
        let mut framing = Framing::default();
        events = framing.take(text.as_bytes()) + &framing.end();
    } else {
        let answer: Value = serde_json::from_str(&repair(text))
            .map_err(|error| Failure::format(format!("{error}: {text}")))?;
        write_event(&answer.to_string(), &mut events);
        write_event(DONE, &mut events);
    }
    Ok(http::Response::new(Body::from(events)).into())
}

fn framed(response: Response) -> Response {
    let pieces = response.bytes_stream().map(Some).chain(stream::once(async { None }));
    let events = pieces.scan(Framing::default(), |framing, piece| {
        let events = match piece {
            Some(Ok(bytes)) => Ok(framing.take(&bytes)),
            Some(Err(error)) => Err(error),
            None => Ok(framing.end()),
        };
        future::ready(Some(events))
    });
    http::Response::new(Body::wrap_stream(events)).into()
}
