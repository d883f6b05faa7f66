//! Event streams that are open for long.
//!
//! hyper keeps two buffers of 8 kB and a state of 4 kB for a connection, and hands each piece of a body through several layers. That is
//! little for a request, and much for each of a hundred thousand quiet streams. So hyper serves a stream only until
//! nothing more of it is ready: then the connection is taken from hyper, [`Socket::write_stream`] writes the rest of the body, and a new hyper
//! waits for the next request. The bytes on the wire are the same.
//!
//! Invariants: a connection is taken only when hyper has read all of the request and written everything that it was given, between two
//! chunks of the body. A body that was taken from hyper is written to its end, or the connection is closed.
//!
//! This module also ends requests: a request may be refused before its body is read. If the connection were closed then, the kernel
//! would reset it, and the client, or the proxy that sends the body for it, would lose the response. So the rest of a body is received and
//! discarded, within limits, while the response is written.
//!
//! [`Socket::write_stream`]: super::socket::Socket::write_stream

use std::{
    fmt::Write,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, Method, Request, Response, Version, header},
};
use bytes::BytesMut;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use super::slots::RequestGuard;

/// After this number of bytes the ready part of a body is written, although more is ready.
const WRITE_BYTES: usize = 64 << 10;

/// The limit on the bytes of an unwanted body that are received and discarded.
const UNREAD_BYTES: usize = 64_000_000;
/// The time limit for that.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The end of a body in chunks.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The response that hyper has under way on one connection. Clones are the same response.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// `true` once hyper has read all of the request.
    request_is_read: bool,
    unread: Option<Unread>,
    stream: Option<EventStream>,
    progress: Progress,
    /// The task that serves the connection.
    task: Option<Waker>,
}

/// The rest of a body that nobody reads.
struct Unread {
    body: Incoming,
    /// The number of bytes that may still come.
    left: usize,
    timeout: Pin<Box<Sleep>>,
}

/// The progress that hyper has made with the body of a stream.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Progress {
    /// It has to write the bytes that it was given.
    #[default]
    Writing,
    /// It was given all that is ready.
    Waiting,
    /// It has written all that is ready.
    Written,
}

/// The body of a response that is an event stream.
pub(super) struct EventStream {
    body: Body,
    /// `true` if the client may send another request afterwards.
    pub keep_alive: bool,
    _request: RequestGuard,
}

/// The rest of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// More of it may be ready.
    MayBeReady,
    /// Nothing of it is ready, and the task is woken when something is.
    Pending,
    /// There is none.
    Over,
}

/// The body of a request. It notes when all is read. When it is dropped before that, the rest is discarded.
pub(super) struct RequestBody {
    /// It is there until this is dropped.
    body: Option<Incoming>,
    /// `true` if the client sends the body, or goes on to, for any response.
    is_sent: bool,
    under_way: UnderWay,
}

/// The body of a response while hyper writes it.
pub(super) enum ResponseBody {
    EventStream(UnderWay),
    /// It keeps its connection from counting as idle.
    Other(Body, #[expect(dead_code, reason = "the connection is busy until this is dropped")] RequestGuard),
}

/// The properties of a request that its response depends on.
pub(super) struct Asked {
    /// `true` if the body of the response comes in chunks, unless its length is known.
    in_chunks: bool,
    keep_alive: bool,
}

// === impl Asked ===

impl Asked {
    pub fn by<B>(request: &Request<B>) -> Self {
        Self {
            in_chunks: request.version() == Version::HTTP_11 && request.method() != Method::HEAD,
            keep_alive: !asks_to_close(request.headers()),
        }
    }
}

// === impl UnderWay ===

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes another request. Returns its body, which notes its own end. `is_sent` says whether the client sends the body without
    /// waiting for a response.
    pub fn request(&self, body: Incoming, is_sent: bool) -> RequestBody {
        let mut state = self.lock();
        let task = state.task.take();
        *state = State { request_is_read: http_body::Body::is_end_stream(&body), task, ..State::default() };
        RequestBody { body: Some(body), is_sent, under_way: self.clone() }
    }

    /// Returns the response for hyper.
    pub fn response(
        &self,
        asked: &Asked,
        response: Response<Body>,
        request: RequestGuard,
    ) -> Response<ResponseBody> {
        let is_stream = asked.in_chunks && is_event_stream(response.headers());
        let closes = asks_to_close(response.headers());
        response.map(|body| {
            if !is_stream || http_body::Body::size_hint(&body).exact().is_some() {
                return ResponseBody::Other(body, request);
            }
            let keep_alive = asked.keep_alive && !closes;
            self.lock().stream = Some(EventStream { body, keep_alive, _request: request });
            ResponseBody::EventStream(self.clone())
        })
    }

    /// Notes that hyper has written everything that it was given.
    pub fn note_flushed(&self) {
        let mut state = self.lock();
        if state.progress == Progress::Waiting {
            state.progress = Progress::Written;
        }
    }

    /// Takes the stream from hyper if its connection can be taken now, and discards the received part of an unread body. Call this whenever
    /// hyper can do nothing more.
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<EventStream> {
        let mut state = self.lock();
        if !state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            state.task = Some(cx.waker().clone());
        }
        if let Some(unread) = &mut state.unread {
            // Afterwards hyper waits for the next request, or closes the connection.
            state.request_is_read = ready!(unread.poll_discard(cx));
            state.unread = None;
        }
        let is_ready = state.progress == Progress::Written && state.request_is_read;
        match state.stream.take_if(|_| is_ready) {
            Some(stream) => Poll::Ready(stream),
            None => Poll::Pending,
        }
    }
}

fn asks_to_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|option| option.trim().eq_ignore_ascii_case("close"))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|media_type| media_type.starts_with("text/event-stream"))
}

// === impl EventStream ===

impl EventStream {
    /// Returns the ready part of the body, in chunks, and the state of the rest.
    pub fn take_ready(&mut self, cx: &mut Context<'_>) -> io::Result<(BytesMut, Rest)> {
        let mut ready = BytesMut::new();
        while ready.len() < WRITE_BYTES {
            match http_body::Body::poll_frame(Pin::new(&mut self.body), cx) {
                Poll::Ready(Some(frame)) => {
                    // Trailers, which come in no chunk, are for clients that have asked for them. None has.
                    let Ok(piece) = frame.map_err(io::Error::other)?.into_data() else { continue };
                    if !piece.is_empty() {
                        ready.reserve(piece.len() + 24);
                        write!(ready, "{:x}\r\n", piece.len()).map_err(io::Error::other)?;
                        ready.extend_from_slice(&piece);
                        ready.extend_from_slice(b"\r\n");
                    }
                }
                Poll::Ready(None) => {
                    ready.extend_from_slice(LAST_CHUNK);
                    return Ok((ready, Rest::Over));
                }
                Poll::Pending => return Ok((ready, Rest::Pending)),
            }
        }
        Ok((ready, Rest::MayBeReady))
    }
}

// === impl RequestBody ===

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // A client that waits for a sign to send its body gets one now.
        self.is_sent = true;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        if frame.is_none() || body.is_end_stream() {
            self.under_way.lock().request_is_read = true;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(http_body::Body::size_hint).unwrap_or_default()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        if !self.is_sent || http_body::Body::is_end_stream(&body) {
            return;
        }
        let mut state = self.under_way.lock();
        if state.request_is_read {
            return;
        }
        state.unread = Some(Unread { body, left: UNREAD_BYTES, timeout: Box::pin(sleep(UNREAD_TIMEOUT)) });
        // This may be another task.
        if let Some(task) = &state.task {
            task.wake_by_ref();
        }
    }
}

// === impl Unread ===

impl Unread {
    /// Discards the bytes that have arrived. Ready at the end of the body, with `true`, or when nothing more of it may come.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        while let Poll::Ready(frame) = http_body::Body::poll_frame(Pin::new(&mut self.body), cx) {
            let Some(Ok(frame)) = frame else { return Poll::Ready(frame.is_none()) };
            let length = frame.data_ref().map_or(0, Bytes::len);
            match self.left.checked_sub(length) {
                Some(left) => self.left = left,
                None => return Poll::Ready(false),
            }
        }
        self.timeout.as_mut().poll(cx).map(|()| false)
    }
}

// === impl ResponseBody ===

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let under_way = match self.get_mut() {
            Self::EventStream(under_way) => under_way,
            Self::Other(body, _) => return Pin::new(body).poll_frame(cx),
        };
        let mut state = under_way.lock();
        let Some(stream) = &mut state.stream else { return Poll::Pending };
        let frame = Pin::new(&mut stream.body).poll_frame(cx);
        state.progress = match (&frame, state.progress) {
            (Poll::Ready(_), _) => Progress::Writing,
            (Poll::Pending, Progress::Writing) => Progress::Waiting,
            // hyper asks once more after it has written.
            (Poll::Pending, asked_before) => asked_before,
        };
        if let Poll::Ready(None) = frame {
            // The request is over.
            state.stream = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::EventStream(_) => false,
            Self::Other(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::EventStream(_) => SizeHint::default(),
            Self::Other(body, _) => body.size_hint(),
        }
    }
}
