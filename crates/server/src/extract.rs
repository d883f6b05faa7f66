//! Extractors for handlers, whose errors are [`ApiError`]s.
//!
//! The content type of a body is ignored, because curl sends form data by default; its content must be JSON of the right form.

use std::{panic::resume_unwind, sync::Arc, time::Duration};

use axum::{
    body::Bytes,
    extract::{FromRef, FromRequest, FromRequestParts, Path, Query, Request},
    http::{header, request::Parts},
};
use fermata_protocol::{BodyError, ChatId, HistorySkipper, InvalidId, Measure, NODE_BYTES, Posted, measure};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{spawn_blocking, yield_now},
    time::{Instant, timeout, timeout_at},
};

use crate::{
    config::RequestLimits,
    error::{ApiError, Code},
};

/// A JSON body of this type, within the limits.
pub struct ApiJson<T> {
    /// The parsed body.
    pub body: T,
    /// The memory that is reserved for the body, until this is dropped.
    pub reservation: Reservation,
}

/// A body of any content, within the limits.
pub struct RawBody(pub Bytes);

/// A query string of this type.
pub struct ApiQuery<T>(pub T);

/// The chat id in the path. The handler decides what to do if it is invalid.
pub struct ChatPath(pub Result<ChatId, InvalidId>);

/// The limits on request bodies.
#[derive(Clone, Debug)]
pub struct BodyLimits {
    /// The limit on the length of a body, in bytes. The known history in it does not count.
    pub bytes: usize,
    /// The limit on the length of a body with its known history.
    pub bytes_with_history: usize,
    /// The limit on its JSON values.
    pub nodes: usize,
    /// The limit on its nesting.
    pub depth: usize,
    /// The time limit for receiving it.
    pub timeout: Duration,
    /// The memory for all bodies together.
    pub memory: BodyMemory,
}

/// The memory that all request bodies may take together.
#[derive(Clone, Debug)]
pub struct BodyMemory {
    free: Arc<Semaphore>,
    bytes: u32,
}

/// A part of the memory for bodies, reserved until it is dropped.
#[derive(Debug)]
pub struct Reservation(OwnedSemaphorePermit);

/// A body that has arrived, and the memory that is reserved for it.
struct Received {
    bytes: Vec<u8>,
    reservation: Reservation,
    /// `true` if the known history in it was skipped.
    has_skipped: bool,
}

/// The length of a body, in bytes, over which it is worked on by another thread. Everything else that a thread serves waits meanwhile, and a
/// megabyte of chat takes some milliseconds.
const LARGE_BODY: usize = 64 << 10;
/// The bytes of a body that are received before the tasks that the thread serves have a turn. A proxy that has the whole body sends it as fast
/// as it is taken. The runtime looks for other arrivals once in 61 turns.
const BYTES_IN_TURN: usize = 32 << 10;
/// The time that a body waits for memory.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(5);

// === impl BodyLimits ===

impl BodyLimits {
    /// Returns the limits in the settings.
    pub fn of(limits: &RequestLimits, max_chat: usize, timeout: Duration) -> Self {
        Self {
            bytes: limits.max_body.0,
            // A client may write the chat in a longer form than the server.
            bytes_with_history: max_chat.saturating_mul(2).saturating_add(limits.max_body.0),
            nodes: limits.max_json_nodes.get(),
            depth: limits.max_json_depth.0.get(),
            timeout,
            memory: BodyMemory::new(limits.max_body_memory.0),
        }
    }

    /// Checks a body before it is parsed, so that these limits apply and not the parser's.
    fn check(&self, measure: Measure) -> Result<(), ApiError> {
        if measure.depth > self.depth {
            let detail = format!(
                "The body is nested more than {} levels deep (max_json_depth); make it flatter.",
                self.depth
            );
            return Err(ApiError::new(Code::InvalidRequest, detail));
        }
        if measure.nodes > self.nodes {
            let detail = format!(
                "The body has {} JSON values; the limit is {} (max_json_nodes).",
                measure.nodes, self.nodes
            );
            return Err(ApiError::new(Code::TooLarge, detail));
        }
        Ok(())
    }
}

// === impl BodyMemory ===

impl BodyMemory {
    /// Creates a memory of this many bytes.
    pub fn new(bytes: usize) -> Self {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self { free: Arc::new(Semaphore::new(bytes as usize)), bytes }
    }

    /// Returns an empty reservation.
    fn empty(&self) -> Result<Reservation, ApiError> {
        self.free.clone().try_acquire_many_owned(0).map(Reservation).map_err(|_| out_of_memory())
    }

    /// Adds bytes to a reservation, and waits for a while if there is not enough memory. A reservation never exceeds the whole memory,
    /// however many bytes are asked for.
    ///
    /// Bodies that wait for each other's memory do not deadlock, because each of them gives up in time.
    async fn reserve(&self, reservation: &mut Reservation, bytes: usize) -> Result<(), ApiError> {
        let held = u32::try_from(reservation.0.num_permits()).unwrap_or(u32::MAX);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes.saturating_sub(held));
        match timeout(MEMORY_TIMEOUT, self.free.clone().acquire_many_owned(bytes)).await {
            Ok(Ok(more)) => {
                reservation.0.merge(more);
                Ok(())
            }
            Ok(Err(_)) | Err(_) => Err(out_of_memory()),
        }
    }
}

fn out_of_memory() -> ApiError {
    ApiError::new(
        Code::Unavailable,
        "This server has no memory left for request bodies (max_body_memory); try again in a moment.",
    )
}

// === impl ApiJson ===

impl<T, S> FromRequest<S> for ApiJson<T>
where
    T: Posted + Send + 'static,
    BodyLimits: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let limits = BodyLimits::from_ref(state);
        let received = read_body(request, &limits, T::HAS_HISTORY).await?;
        let (mut size, mut received) = received.work(|json| Ok(measure(json))).await?;
        if T::HAS_HISTORY && !received.has_skipped && size.nodes > limits.nodes {
            let shortened;
            (shortened, received) = received.work(|json| Ok(without_history(json))).await?;
            (received.bytes, received.has_skipped) = shortened;
            (size, received) = received.work(|json| Ok(measure(json))).await?;
        }
        limits.check(size)?;
        let bytes = size.nodes.saturating_mul(NODE_BYTES);
        limits.memory.reserve(&mut received.reservation, bytes).await?;
        let (mut body, received) = received.work(parse::<T>).await?;
        if received.has_skipped {
            body.note_skipped_history();
        }
        Ok(Self { body, reservation: received.reservation })
    }
}

// === impl RawBody ===

impl<S> FromRequest<S> for RawBody
where
    BodyLimits: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let received = read_body(request, &BodyLimits::from_ref(state), false).await?;
        Ok(Self(received.bytes.into()))
    }
}

fn without_history(json: &[u8]) -> (Vec<u8>, bool) {
    let mut skipper = HistorySkipper::default();
    skipper.push(json);
    skipper.finish()
}

fn parse<T: Posted>(json: &[u8]) -> Result<T, ApiError> {
    T::from_json(json).map_err(|error| match error {
        BodyError::Request(error) => error.into(),
        BodyError::NotJson(error) => {
            let detail = match error.classify() {
                _ if json.is_empty() => "The body is empty; send a JSON object.".to_owned(),
                Category::Eof => "The body is JSON that ends too early.".to_owned(),
                Category::Syntax | Category::Data | Category::Io => {
                    format!("The body is not JSON: {error}.")
                }
            };
            ApiError::new(Code::InvalidJson, detail)
        }
    })
}

// === impl Received ===

impl Received {
    /// Does work on the body; on another thread if the body is large. It keeps its memory until the work is done, even if the client leaves
    /// meanwhile.
    async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce(&[u8]) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<(T, Self), ApiError> {
        if self.bytes.len() <= LARGE_BODY {
            return Ok((work(&self.bytes)?, self));
        }
        match spawn_blocking(move || Ok((work(&self.bytes)?, self))).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(ApiError::new(
                    Code::Unavailable,
                    "The server is shutting down; try again in a moment.",
                )),
            },
        }
    }
}

async fn read_body(request: Request, limits: &BodyLimits, has_history: bool) -> Result<Received, ApiError> {
    let (parts, body) = request.into_parts();
    let announced = parts.headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let longest = if has_history { limits.bytes_with_history } else { limits.bytes };
    if announced.is_some_and(|length| length > longest) {
        return Err(too_large(longest));
    }
    let until = Instant::now() + limits.timeout;
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::with_capacity(announced.unwrap_or_default().min(64 << 10));
    // The history in a body of an ordinary length costs less than looking for it.
    let mut skipper: Option<HistorySkipper> = None;
    let mut reservation = limits.memory.empty()?;
    let (mut received, mut received_in_turn) = (0, 0);
    loop {
        match timeout_at(until, stream.next()).await {
            Ok(Some(Ok(more))) => {
                received += more.len();
                if received > longest {
                    return Err(too_large(longest));
                }
                if received > limits.bytes && skipper.is_none() {
                    let mut new = HistorySkipper::default();
                    for piece in bytes.chunks(BYTES_IN_TURN) {
                        new.push(piece);
                        yield_now().await;
                    }
                    bytes.clear();
                    skipper = Some(new);
                }
                let kept = match &mut skipper {
                    Some(skipper) => {
                        skipper.push(&more);
                        if skipper.new_bytes() > limits.bytes {
                            return Err(too_large(limits.bytes));
                        }
                        skipper.kept()
                    }
                    None => {
                        bytes.extend_from_slice(&more);
                        bytes.len()
                    }
                };
                // Memory is reserved for bytes that have arrived, because announcing a length costs a client nothing.
                let growth = kept.saturating_sub(reservation.0.num_permits());
                limits.memory.reserve(&mut reservation, growth).await?;
                received_in_turn += more.len();
                if received_in_turn > BYTES_IN_TURN {
                    received_in_turn = 0;
                    yield_now().await;
                }
            }
            Ok(None) => {
                let (bytes, has_skipped) = match skipper {
                    Some(skipper) => skipper.finish(),
                    None => (bytes, false),
                };
                return Ok(Received { bytes, reservation, has_skipped });
            }
            Ok(Some(Err(_))) => {
                let detail = "The body ended before all of it was received.";
                return Err(ApiError::new(Code::InvalidJson, detail));
            }
            Err(_) => {
                let limit = humantime::format_duration(limits.timeout);
                let detail = format!(
                    "The body was not received within {limit} (body_timeout); send it again, or send a smaller one."
                );
                return Err(ApiError::new(Code::SlowRequest, detail));
            }
        }
    }
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(Code::TooLarge, format!("The body is too large; the limit is {limit} bytes (max_body)."))
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
        // A path that is not UTF-8 is no valid chat id, either.
        let id = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(id.map_err(|_| InvalidId).and_then(|Path(id)| ChatId::parse(&id))))
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_memory_and_gives_up() {
        let memory = BodyMemory::new(100);
        let mut first = memory.empty().expect("a reservation");
        memory.reserve(&mut first, 60).await.expect("memory");
        let mut second = memory.empty().expect("a reservation");
        memory.reserve(&mut second, 40).await.expect("memory");
        assert!(memory.reserve(&mut second, 1).await.is_err());
        let (reserved, ()) = tokio::join!(memory.reserve(&mut second, 60), async { drop(first) });
        reserved.expect("the memory of the first");
    }

    #[tokio::test]
    async fn a_body_that_is_larger_than_all_memory_takes_all_of_it() {
        let memory = BodyMemory::new(100);
        let mut reservation = memory.empty().expect("a reservation");
        for bytes in [70, 70, 70, usize::MAX] {
            memory.reserve(&mut reservation, bytes).await.expect("memory");
        }
        drop(reservation);
        let mut reservation = memory.empty().expect("a reservation");
        memory.reserve(&mut reservation, 100).await.expect("the whole memory");
    }

    /// Returns a body of this length, and the memory that its reservation takes all of.
    fn received(length: usize) -> (Received, BodyMemory) {
        let memory = BodyMemory::new(1);
        let reservation = Reservation(memory.free.clone().try_acquire_owned().expect("memory"));
        (Received { bytes: vec![b' '; length], reservation, has_skipped: false }, memory)
    }

    #[tokio::test]
    async fn only_a_large_body_is_worked_on_by_another_thread() {
        let this = std::thread::current().id();
        for (length, is_here) in [(LARGE_BODY, true), (LARGE_BODY + 1, false)] {
            let (small_or_large, _) = received(length);
            let (done, after) = small_or_large
                .work(move |json| Ok((std::thread::current().id(), json.len())))
                .await
                .expect("work that cannot fail");
            assert_eq!((done.0 == this, done.1, after.bytes.len()), (is_here, length, length));
        }
    }

    #[tokio::test]
    async fn a_body_keeps_its_memory_while_it_is_worked_on_for_a_client_that_has_gone() {
        let (body, memory) = received(LARGE_BODY + 1);
        let (has_begun, begun) = std::sync::mpsc::channel();
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let client = tokio::spawn(body.work(move |_| {
            has_begun.send(()).expect("the test");
            Ok(finished.recv().is_err())
        }));
        spawn_blocking(move || begun.recv().expect("it begins")).await.expect("a thread");
        client.abort();
        assert!(client.await.is_err_and(|gone| gone.is_cancelled()));
        assert!(memory.free.try_acquire().is_err());
        drop(finish);
        drop(memory.free.acquire().await.expect("it is given back"));
    }

    #[tokio::test]
    async fn others_have_a_turn_while_a_large_body_is_received() {
        let limits = BodyLimits {
            bytes: 10 * BYTES_IN_TURN,
            bytes_with_history: 10 * BYTES_IN_TURN,
            nodes: 1,
            depth: 1,
            timeout: Duration::from_secs(60),
            memory: BodyMemory::new(20 * BYTES_IN_TURN),
        };
        let receive = async |pieces: usize| {
            let piece = vec![b' '; BYTES_IN_TURN / 2];
            let pieces = std::iter::repeat_n(Ok::<_, std::convert::Infallible>(piece), pieces);
            let request = Request::new(Body::from_stream(futures::stream::iter(pieces)));
            read_body(request, &limits, false).await.expect("a body within the limits").bytes.len()
        };
        assert_eq!(receive(2).now_or_never(), Some(BYTES_IN_TURN));
        let mut large = std::pin::pin!(receive(12));
        for _ in 0..4 {
            assert_eq!(large.as_mut().now_or_never(), None);
        }
        assert_eq!(large.await, 6 * BYTES_IN_TURN);
    }
}
