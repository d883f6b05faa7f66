//! Streams of server-sent events: the log of a run, and changes.
//!
//! When the server ends, it asks clients that come back by themselves (`EventSource`) to wait for a moment, a different one for each, so that
//! another instance does not meet all of them at once.
//!
//! The body only reads the log, so a client that reads slowly, never reads, or disconnects does not affect the run. The response must not be
//! compressed, because a compressor holds back events that are ready; `no-transform` tells proxies and frameworks not to compress it.

use std::{convert::Infallible, pin::Pin, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use fermata_engine::{Engine, Following};
use fermata_protocol::KEEP_ALIVE;
use futures::{Stream, StreamExt as _};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use uuid::Uuid;

use crate::readers::ReaderGuard;

/// The header with the id of the stream's chat. A client that posts without an id gets the new id from it.
pub const CHAT_ID: HeaderName = HeaderName::from_static("x-chat-id");
/// The header with the id of the stream's run.
pub const STREAM_ID: HeaderName = HeaderName::from_static("x-resumable-stream-id");
/// The longest time without any bytes. Proxies close quiet streams after about a minute, and clients of the protocol expect a sign of life
/// within 15 seconds.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(10);

/// The longest delay before a client is to come back, in milliseconds.
const LONGEST_RETRY: u128 = 2000;

/// A stream of a run's events.
struct Streamed {
    following: Following,
    engine: Engine,
    is_over: bool,
    /// It fires when a sign of life may be due.
    timer: Pin<Box<Sleep>>,
    last_sent: Instant,
    /// Counts the stream until it is dropped.
    guard: ReaderGuard,
}

/// Creates the response that streams a run. The guard counts the stream until the body is dropped.
pub fn stream(engine: &Engine, following: Following, guard: ReaderGuard) -> Response {
    let value = |id: &str| HeaderValue::from_str(id).unwrap_or(HeaderValue::from_static("unnamed"));
    let headers_of_run = [
        (HeaderName::from_static("x-vercel-ai-ui-message-stream"), HeaderValue::from_static("v1")),
        (CHAT_ID, value(following.chat.as_str())),
        (STREAM_ID, value(following.run.as_str())),
    ];
    (headers(), headers_of_run, Body::from_stream(frames(engine.clone(), following, guard))).into_response()
}

/// Creates the response that streams other events. It begins with a comment, so that the client has the headers at once.
pub fn stream_events(events: impl Stream<Item = Bytes> + Send + 'static, guard: ReaderGuard) -> Response {
    let frames = futures::stream::unfold((Box::pin(events), guard), async |(mut events, guard)| {
        let frame = match timeout(KEEP_ALIVE_AFTER, events.next()).await {
            Ok(event) => event?,
            Err(_) => Bytes::from_static(KEEP_ALIVE),
        };
        Some((frame, (events, guard)))
    });
    let opened = futures::stream::once(async { Bytes::from_static(KEEP_ALIVE) });
    (headers(), Body::from_stream(opened.chain(frames).map(Ok::<_, Infallible>))).into_response()
}

fn headers() -> [(HeaderName, HeaderValue); 3] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ]
}

/// Returns batches of events as they come, and a comment if there were none for a while.
///
/// The timer is not reset for each batch, which would cost more than the batch. When it fires, it is compared with the time of the last one.
fn frames(
    engine: Engine,
    following: Following,
    guard: ReaderGuard,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let now = Instant::now();
    guard.note_chat(&following.chat);
    let timer = Box::pin(sleep_until(now + KEEP_ALIVE_AFTER));
    // On the heap, because it is moved for each batch.
    let streamed = Box::new(Streamed { following, engine, is_over: false, timer, last_sent: now, guard });
    futures::stream::unfold(streamed, async |mut streamed| {
        loop {
            if streamed.is_over {
                return None;
            }
            tokio::select! {
                biased;
                batch = streamed.following.reader.next() => {
                    let Some(batch) = batch else {
                        streamed.is_over = true;
                        return streamed.engine.is_shutting_down().then(|| (Ok(retry()), streamed));
                    };
                    streamed.last_sent = Instant::now();
                    streamed.guard.note_event(streamed.last_sent);
                    return Some((Ok(batch), streamed));
                }
                () = streamed.timer.as_mut() => {
                    let is_quiet = streamed.last_sent.elapsed() >= KEEP_ALIVE_AFTER;
                    if is_quiet {
                        streamed.last_sent = Instant::now();
                    }
                    let next = streamed.last_sent + KEEP_ALIVE_AFTER;
                    streamed.timer.as_mut().reset(next);
                    if is_quiet {
                        return Some((Ok(Bytes::from_static(KEEP_ALIVE)), streamed));
                    }
                }
            }
        }
    })
}

/// Returns the field that tells a client when to come back.
fn retry() -> Bytes {
    format!("retry: {}\n\n", 1 + Uuid::new_v4().as_u128() % LONGEST_RETRY).into()
}
