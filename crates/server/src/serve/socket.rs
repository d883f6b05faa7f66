//! A socket that disconnects a client that does not read, and that hyper can be taken off.

use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::Sleep,
};

use super::{
    event_stream::{EventStream, Rest, UnderWay},
    line_ends::LineEnds,
    slots::Slot,
};

/// A connection with a time limit for writes.
pub(super) struct Socket<I> {
    io: I,
    limit: Duration,
    /// The timer of a write that waits for the client.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Bytes that were received and are to be read before any others.
    received: BytesMut,
    /// It is there within a request only, so that a quiet connection is small.
    line_ends: Option<Box<LineEnds>>,
    under_way: UnderWay,
    slot: Arc<Slot>,
}

/// The number of bytes that are received from a client that is only expected to disconnect. Beyond them, only writing shows that it has.
const UNEXPECTED_BYTES: usize = 8 << 10;
/// The number of these that are received at a time.
const PIECE_BYTES: usize = 512;

// === impl Socket ===

impl<I> Socket<I> {
    pub fn new(io: I, limit: Duration, slot: Arc<Slot>) -> Self {
        Self {
            io,
            limit,
            stalled: None,
            received: BytesMut::new(),
            line_ends: None,
            under_way: UnderWay::default(),
            slot,
        }
    }

    /// Returns the response that is written to the socket.
    pub fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// Puts back bytes that were read too early.
    pub fn put_back(&mut self, bytes: &[u8]) {
        // They are copied, because they may be a small part of a large buffer.
        self.received = BytesMut::from([bytes, &self.received].concat().as_slice());
    }

    /// Starts the timer if a write waits for the client, and fails when the time is over.
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            self.slot.set_writing(false);
            return written;
        }
        self.slot.set_writing(true);
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client has stopped reading")))
    }
}

impl<I: AsyncRead + Unpin> Socket<I> {
    /// Waits until the client has disconnected. Bytes that it sends are kept for later.
    fn poll_disconnected(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        while self.received.len() < UNEXPECTED_BYTES {
            let mut bytes = [MaybeUninit::uninit(); PIECE_BYTES];
            let mut received = ReadBuf::uninit(&mut bytes);
            if let Err(error) = ready!(self.poll_receive(cx, &mut received)) {
                return Poll::Ready(error);
            }
            if received.filled().is_empty() {
                return Poll::Ready(io::ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(received.filled());
        }
        Poll::Pending
    }

    /// Receives bytes from the client.
    fn poll_receive(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, into))?;
        let mut line_ends = self.line_ends.take().unwrap_or_default();
        line_ends.check(&mut into.filled_mut()[before..]);
        if !line_ends.is_between_requests() {
            self.line_ends = Some(line_ends);
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> Socket<I> {
    /// Writes the rest of an event stream.
    ///
    /// # Errors
    /// If the client is gone, or the stream breaks off. The connection has to be closed then.
    pub async fn write_stream(&mut self, mut stream: EventStream) -> io::Result<()> {
        let (mut unwritten, mut rest) = (BytesMut::new(), Rest::MayBeReady);
        poll_fn(|cx| {
            // What the client did not take at once comes first.
            ready!(self.poll_write_all(cx, &mut unwritten))?;
            while rest != Rest::Over {
                (unwritten, rest) = stream.take_ready(cx)?;
                ready!(self.poll_write_all(cx, &mut unwritten))?;
                if rest == Rest::Pending {
                    return self.poll_disconnected(cx).map(Err);
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        self.flush().await
    }

    /// Writes these bytes. Their memory is freed when all are written.
    fn poll_write_all(&mut self, cx: &mut Context<'_>, unwritten: &mut BytesMut) -> Poll<io::Result<()>> {
        while !unwritten.is_empty() {
            let written = ready!(Pin::new(&mut *self).poll_write(cx, unwritten))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            unwritten.advance(written);
        }
        *unwritten = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Socket<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.received.is_empty() {
            return self.poll_receive(cx, into);
        }
        let length = self.received.len().min(into.remaining());
        into.put_slice(&self.received[..length]);
        self.received.advance(length);
        if self.received.is_empty() {
            // Its memory is freed.
            self.received = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Socket<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, pieces);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        self.under_way.note_flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
