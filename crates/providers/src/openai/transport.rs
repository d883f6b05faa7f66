//! The HTTP service under `async-openai`.
//!
//! It stands in for async-openai's own for four reasons: that one retries by itself and up to three times, drops the headers
//! of a refusal (`retry-after`), fails to read error bodies whose `code` is a number, and does not tell a body that ended with
//! `[DONE]` from one that just ended. It does not know what the events mean.
//!
//! Invariant: one call sends one request; every response that leaves is a stream of events that ends with `[DONE]` or with
//! [`BODY_ENDED`], unless the connection broke.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use futures::{
    future::BoxFuture,
    stream::{self, StreamExt},
};
use reqwest::{Body, Client, Response, header::CONTENT_TYPE};
use serde_json::Value;
use tower::Service;

use super::failure::Failure;

/// The event that is put after the provider's last byte. async-openai reads nothing after `[DONE]`, so this is seen only
/// where that was missing. The empty line before it ends an event that the provider left open.
const BODY_ENDED: &str = "\n\ndata: {\"fermata_body_ended\":true}\n\n";

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

async fn send(client: &Client, request: reqwest::Request) -> Result<Response, Failure> {
    let response = client.execute(request).await.map_err(Failure::reqwest)?;
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    if is_json(&response) { whole(response).await } else { Ok(marked(response)) }
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
    let bytes = response.bytes().await.map_err(Failure::reqwest)?;
    let text = String::from_utf8_lossy(&bytes);
    let is_mislabelled = ["data:", "event:", ":"].iter().any(|start| text.trim_start().starts_with(start));
    let events = if is_mislabelled {
        format!("{text}{BODY_ENDED}")
    } else {
        let answer: Value =
            serde_json::from_str(&text).map_err(|error| Failure::format(format!("{error}: {text}")))?;
        format!("data: {answer}\n\ndata: [DONE]\n\n")
    };
    Ok(http::Response::new(Body::from(events)).into())
}

fn marked(response: Response) -> Response {
    let end = stream::once(async { Ok(BODY_ENDED.into()) });
    http::Response::new(Body::wrap_stream(response.bytes_stream().chain(end))).into()
}
