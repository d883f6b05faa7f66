//! What handlers take from a request, with every failure as a problem.
//!
//! Lenient about what a body is called (curl says form data unless told otherwise), strict about what it is.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, HttpBody},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, header, request::Parts},
};
use fermata_protocol::{BodyError, ChatId, InvalidId, Measure, NODE_BYTES, Posted, measure};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use crate::{
    App,
    config::Config,
    error::{ApiError, Code},
};

/// A body that is JSON and of this kind, within the limits.
pub struct ApiJson<T> {
    /// What was read.
    pub body: T,
    /// The memory that it may take, given back when this is dropped.
    pub room: Room,
}

/// A query string of this shape.
pub struct ApiQuery<T>(pub T);

/// The chat that the path names; an id that no chat can have is for the handler to judge.
pub struct ChatPath(pub Result<ChatId, InvalidId>);

/// How much a request body may take.
#[derive(Clone, Debug)]
pub struct BodyLimits {
    /// Its bytes.
    pub bytes: usize,
    /// Its JSON values.
    pub nodes: usize,
    /// Its objects and lists within one another.
    pub depth: usize,
    /// The time until all of it has come.
    pub timeout: Duration,
    /// The memory of all bodies together.
    pub memory: BodyMemory,
}

/// The memory that all request bodies together may take.
#[derive(Clone, Debug)]
pub struct BodyMemory {
    free: Arc<Semaphore>,
    bytes: u32,
}

/// Some of that memory.
#[derive(Debug)]
pub struct Room(OwnedSemaphorePermit);

/// How long a body waits for memory that other bodies have.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
/// How much of a body that nobody wants is read on for, and how long: a client that is still sending when the connection
/// is closed never reads the answer.
const DRAINED_BYTES: usize = 64_000_000;
const DRAINED_FOR: Duration = Duration::from_secs(10);

// === impl BodyLimits ===

impl BodyLimits {
    /// As the settings say.
    pub fn of(config: &Config) -> Self {
        Self {
            bytes: config.max_body.0,
            nodes: config.max_json_nodes.get(),
            depth: config.max_json_depth.get(),
            timeout: config.body_timeout.0,
            memory: BodyMemory::new(config.max_body_memory.0),
        }
    }

    /// Refuses what is more than may be built. Counted before parsing, so that the limits are these and not the parser's.
    fn check(&self, json: &[u8]) -> Result<Measure, ApiError> {
        let measure = measure(json);
        if measure.depth > self.depth {
            let detail = format!(
                "The body is nested over {} levels deep (max_json_depth); make it flatter.",
                self.depth
            );
            return Err(ApiError::new(Code::InvalidRequest, detail));
        }
        if measure.nodes > self.nodes {
            let detail = format!(
                "The body has {} JSON values; this server takes {} (max_json_nodes).",
                measure.nodes, self.nodes
            );
            return Err(ApiError::new(Code::TooLarge, detail));
        }
        Ok(measure)
    }
}

// === impl BodyMemory ===

impl BodyMemory {
    /// So many bytes for all bodies.
    pub fn new(bytes: usize) -> Self {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self { free: Arc::new(Semaphore::new(bytes as usize)), bytes }
    }

    fn nothing(&self) -> Result<Room, ApiError> {
        self.free.clone().try_acquire_many_owned(0).map(Room).map_err(|_| no_room())
    }

    /// Takes more of it, and waits a little while others have it. More than there is counts as all that there is beside what is held.
    ///
    /// Bodies that wait for each other do not do so for long, because each gives up.
    async fn take(&self, room: &mut Room, bytes: usize) -> Result<(), ApiError> {
        let held = u32::try_from(room.0.num_permits()).unwrap_or(u32::MAX);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes.saturating_sub(held));
        match timeout(ROOM_PATIENCE, self.free.clone().acquire_many_owned(bytes)).await {
            Ok(Ok(more)) => {
                room.0.merge(more);
                Ok(())
            }
            Ok(Err(_)) | Err(_) => Err(no_room()),
        }
    }
}

fn no_room() -> ApiError {
    ApiError::new(
        Code::Unavailable,
        "Other requests have all the memory that this server has for bodies (max_body_memory); try again in a moment.",
    )
}

// === impl ApiJson ===

impl<T: Posted> FromRequest<App> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let limits = app.body_limits();
        let (bytes, mut room) = read_body(request, limits).await?;
        let measure = limits.check(&bytes)?;
        limits.memory.take(&mut room, measure.nodes.saturating_mul(NODE_BYTES)).await?;
        match T::from_json(&bytes) {
            Ok(body) => Ok(Self { body, room }),
            Err(BodyError::Request(error)) => Err(error.into()),
            Err(BodyError::NotJson(error)) => Err(not_json(&error, bytes.is_empty())),
        }
    }
}

async fn read_body(request: Request, limits: &BodyLimits) -> Result<(Vec<u8>, Room), ApiError> {
    let (parts, body) = request.into_parts();
    let announced = announced_length(&parts.headers);
    if announced.is_some_and(|length| length > limits.bytes) {
        drain_unread(&parts.headers, body).await;
        return Err(too_large(limits.bytes));
    }
    let until = Instant::now() + limits.timeout;
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::with_capacity(announced.unwrap_or_default().min(64 << 10));
    let mut room = limits.memory.nothing()?;
    loop {
        match timeout_at(until, stream.next()).await {
            Ok(Some(Ok(more))) if bytes.len() + more.len() <= limits.bytes => {
                // What has come counts, not what was announced, which costs its sender nothing.
                if let Err(refusal) = limits.memory.take(&mut room, more.len()).await {
                    drop((bytes, room));
                    drain(Body::from_stream(stream)).await;
                    return Err(refusal);
                }
                bytes.extend_from_slice(&more);
            }
            Ok(Some(Ok(_))) => {
                drain(Body::from_stream(stream)).await;
                return Err(too_large(limits.bytes));
            }
            Ok(None) => return Ok((bytes, room)),
            Ok(Some(Err(_))) => return Err(ApiError::new(Code::InvalidJson, "The body broke off.")),
            Err(_) => return Err(too_slow(limits.timeout)),
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
    let _ = timeout(DRAINED_FOR, read_on).await;
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(
        Code::TooLarge,
        format!("The body is larger than this server takes, which is {limit} bytes."),
    )
}

fn too_slow(limit: Duration) -> ApiError {
    let limit = humantime::format_duration(limit);
    ApiError::new(
        Code::SlowRequest,
        format!("The body had not come within {limit} (body_timeout); send it again, or less of it."),
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_memory_and_gives_up() {
        let memory = BodyMemory::new(100);
        let mut first = memory.nothing().expect("no memory");
        memory.take(&mut first, 60).await.expect("memory");
        let mut second = memory.nothing().expect("no memory");
        memory.take(&mut second, 40).await.expect("memory");
        assert!(memory.take(&mut second, 1).await.is_err());
        let (took, ()) = tokio::join!(memory.take(&mut second, 60), async { drop(first) });
        took.expect("what the first has given back");
    }

    #[tokio::test]
    async fn a_body_that_is_larger_than_all_memory_takes_all_of_it() {
        let memory = BodyMemory::new(100);
        let mut room = memory.nothing().expect("no memory");
        for bytes in [70, 70, 70, usize::MAX] {
            memory.take(&mut room, bytes).await.expect("memory");
        }
        drop(room);
        let mut room = memory.nothing().expect("no memory");
        memory.take(&mut room, 100).await.expect("all that was taken");
    }
}
