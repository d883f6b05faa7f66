//! Requests to services, as Standard Webhooks describes them.
//!
//! Invariants: a request connects to public addresses only, unless the channel is private; it follows no redirect; it is over within
//! [`TIMEOUT`].

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use axum::http::StatusCode;
use fermata_engine::store::Notice;
use jiff::Timestamp;
use reqwest::header;
use serde_json::json;
use url::Url;

use super::{SendError, post_to, signature};
use crate::{
    config::{Endpoint, SigningSecret},
    tools::web::{WebClient, body, failure},
};

/// The time that a request may take with its answer.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// A service that takes signed requests.
pub struct SignedEndpoint {
    endpoint: Endpoint,
    client: WebClient,
    /// `true` once the service has said that it wants nothing more. A start or other settings make a new one.
    is_off: AtomicBool,
}

/// The answer of a service that has accepted a request.
pub struct Accepted {
    /// The status, which is one of success.
    pub status: StatusCode,
    /// The body; a long one is cut.
    pub body: Vec<u8>,
}

// === impl SignedEndpoint ===

impl SignedEndpoint {
    pub fn new(endpoint: Endpoint, client: WebClient) -> Self {
        Self { endpoint, client, is_off: AtomicBool::new(false) }
    }

    /// Returns the secrets that sign the requests of both sides.
    pub fn secrets(&self) -> &[SigningSecret] {
        &self.endpoint.secrets
    }

    /// Sends a notice. The body is the same in every attempt; the time in the headers is that of the attempt.
    ///
    /// # Errors
    /// Returns an error if there is no answer in time, or none of success.
    pub async fn post(&self, notice: &Notice) -> Result<Accepted, SendError> {
        if self.is_off.load(Ordering::Relaxed) {
            return Err(switched_off());
        }
        match tokio::time::timeout(TIMEOUT, self.post_patiently(notice)).await {
            Ok(answer) => answer,
            Err(_) => Err(SendError::Failed(format!("no answer within {} s", TIMEOUT.as_secs()))),
        }
    }

    async fn post_patiently(&self, notice: &Notice) -> Result<Accepted, SendError> {
        let event = json!({"type": notice.event, "timestamp": notice.at, "data": notice.data});
        let text = event.to_string();
        let headers = signature::sign(self.secrets(), &notice.id, Timestamp::now(), text.as_bytes())
            .map_err(|_| SendError::Refused("the id of the notice cannot be in a header".into()))?;
        let url = Url::parse(&self.endpoint.url.0)
            .map_err(|_| SendError::Refused("the URL of the channel cannot be used".into()))?;
        let request = post_to(&self.client, &url)?;
        let request = request.headers(headers).header(header::CONTENT_TYPE, "application/json").body(text);
        let response = request.send().await.map_err(|error| SendError::Failed(failure(&error).text))?;
        match response.status() {
            status if status.is_success() => {
                let (body, _) = body(response).await.map_err(|error| SendError::Failed(error.text))?;
                Ok(Accepted { status, body })
            }
            StatusCode::GONE => {
                self.is_off.store(true, Ordering::Relaxed);
                Err(switched_off())
            }
            status => Err(SendError::Failed(format!("the endpoint answered {status}"))),
        }
    }
}

fn switched_off() -> SendError {
    SendError::Refused("the endpoint has answered 410, so it receives nothing until the next start".into())
}
