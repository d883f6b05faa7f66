//! A run's log as a response.
//!
//! The body only reads: dropping it, reading it slowly or never changes nothing for the run. It must not be compressed,
//! because a compressor holds back what is ready; `no-transform` tells proxies and frameworks in between the same.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use fermata_engine::Following;
use fermata_protocol::KEEP_ALIVE;
use futures::Stream;
use tokio::time::{Instant, sleep_until};

use crate::readers::ReaderPlace;

/// Which chat a stream belongs to; curl, which may leave out the id, learns it here.
pub const CHAT_ID: HeaderName = HeaderName::from_static("x-chat-id");
/// Which run a stream reads.
pub const STREAM_ID: HeaderName = HeaderName::from_static("x-resumable-stream-id");
/// Proxies drop quiet streams after a minute or so; clients of the protocol expect a sign within 15 seconds.
const QUIET_AT_MOST: Duration = Duration::from_secs(10);

/// Streams what the reader reads, who takes this place for as long.
pub fn stream(following: Following, place: ReaderPlace) -> Response {
    let name = |id: &str| HeaderValue::from_str(id).unwrap_or(HeaderValue::from_static("unnamed"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (HeaderName::from_static("x-vercel-ai-ui-message-stream"), HeaderValue::from_static("v1")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        (CHAT_ID, name(following.chat.as_str())),
        (STREAM_ID, name(following.run.as_str())),
    ];
    (headers, Body::from_stream(frames(following, place))).into_response()
}

/// Batches as they come, and a comment where none did.
///
/// The timer is not set anew for each batch, which would cost more than the batch: it runs out at its time and looks back.
fn frames(
    following: Following,
    place: ReaderPlace,
) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
    let timer = Box::pin(sleep_until(Instant::now() + QUIET_AT_MOST));
    futures::stream::unfold(
        (following, timer, Instant::now(), place),
        |(mut following, mut timer, mut last, place)| async move {
            loop {
                tokio::select! {
                    biased;
                    batch = following.reader.next() => {
                        return batch.map(|batch| (Ok(batch), (following, timer, Instant::now(), place)));
                    }
                    () = timer.as_mut() => {
                        let quiet = last.elapsed() >= QUIET_AT_MOST;
                        if quiet {
                            last = Instant::now();
                        }
                        timer.as_mut().reset(last + QUIET_AT_MOST);
                        if quiet {
                            return Some((Ok(Bytes::from_static(KEEP_ALIVE)), (following, timer, last, place)));
                        }
                    }
                }
            }
        },
    )
}
