//! What handlers take from a request, with every failure as a problem.
//!
//! Lenient about what a body is called (curl says form data unless told otherwise), strict about what it is.

use std::time::Duration;

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, header, request::Parts},
};
use fermata_protocol::{ChatId, InvalidId};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, error::Category};

use crate::{
    App,
    error::{ApiError, Code},
};

/// A body that is JSON, of whatever shape, within the limits of size and depth.
pub struct ApiJson(pub Value);

/// A query string of this shape.
pub struct ApiQuery<T>(pub T);

/// The chat that the path names; an id that no chat can have is for the handler to judge.
pub struct ChatPath(pub Result<ChatId, InvalidId>);

/// Arrays and objects within one another.
const DEEPEST: usize = 100;
/// How long a client may send nothing in the middle of a body.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much of a body that nobody wants is read on for, and how long: a client that is still sending when the connection
/// is closed never reads the answer.
const DRAINED_BYTES: usize = 64_000_000;
const DRAINED_FOR: Duration = Duration::from_secs(10);

// === impl ApiJson ===

impl FromRequest<App> for ApiJson {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let bytes = read_body(request, app.max_body()).await?;
        check_depth(&bytes)?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| not_json(&error, bytes.is_empty()))
    }
}

async fn read_body(request: Request, limit: usize) -> Result<Bytes, ApiError> {
    let (parts, body) = request.into_parts();
    let announced = announced_length(&parts.headers);
    if announced.is_some_and(|length| length > limit) {
        drain_unread(&parts.headers, body).await;
        return Err(too_large(limit));
    }
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::with_capacity(announced.unwrap_or_default().min(64 << 10));
    loop {
        match tokio::time::timeout(PATIENCE, stream.next()).await {
            Ok(Some(Ok(more))) if bytes.len() + more.len() <= limit => bytes.extend_from_slice(&more),
            Ok(Some(Ok(_))) => {
                drain(Body::from_stream(stream)).await;
                return Err(too_large(limit));
            }
            Ok(None) => return Ok(bytes.into()),
            Ok(Some(Err(_))) => return Err(ApiError::new(Code::InvalidJson, "The body broke off.")),
            Err(_) => {
                return Err(ApiError::new(Code::SlowRequest, "The body stopped coming; send it again."));
            }
        }
    }
}

fn announced_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Lets a client send a body of which nothing is wanted, so that it reads the answer.
pub(crate) async fn drain_unread(headers: &HeaderMap, body: Body) {
    // A client that asks before it sends reads the answer without sending.
    if !body.is_end_stream() && !headers.contains_key(header::EXPECT) {
        drain(body).await;
    }
}

/// Reads on for a while and forgets what comes.
async fn drain(body: Body) {
    let mut stream = body.into_data_stream();
    let read_on = async {
        let mut left = DRAINED_BYTES;
        while let Some(Ok(more)) = stream.next().await
            && more.len() < left
        {
            left -= more.len();
        }
    };
    // Too slow or too much: the client's loss.
    let _ = tokio::time::timeout(DRAINED_FOR, read_on).await;
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(
        Code::TooLarge,
        format!("The body is larger than this server takes, which is {limit} bytes."),
    )
}

/// Counted before parsing, so that the limit is this one and not the parser's.
fn check_depth(bytes: &[u8]) -> Result<(), ApiError> {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            let detail = format!("The body is nested over {DEEPEST} levels deep; make it flatter.");
            return Err(ApiError::new(Code::InvalidRequest, detail));
        }
    }
    Ok(())
}

fn not_json(error: &serde_json::Error, empty: bool) -> ApiError {
    let detail = match error.classify() {
        _ if empty => "The body is empty; send a JSON object.".to_owned(),
        Category::Eof => "The body is JSON that ends too early.".to_owned(),
        Category::Syntax | Category::Data | Category::Io => format!("The body is not JSON: {error}."),
    };
    ApiError::new(Code::InvalidJson, detail)
}

// === impl ApiQuery ===

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(ApiError::new(Code::InvalidRequest, format!("{}.", rejection.body_text()))),
        }
    }
}

// === impl ChatPath ===

impl<S: Send + Sync> FromRequestParts<S> for ChatPath {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        // What is no UTF-8 is no chat's id either.
        let id = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(id.map_err(|_| InvalidId).and_then(|Path(id)| ChatId::parse(&id))))
    }
}
