//! A socket that gives up on a reader who takes nothing.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

use super::places::Place;

/// A connection's bytes.
pub(super) struct Socket<I> {
    io: I,
    patience: Duration,
    /// When the client has taken nothing for too long, while something waits to be written.
    stalled: Option<Pin<Box<Sleep>>>,
    place: Arc<Place>,
}

impl<I> Socket<I> {
    pub fn new(io: I, patience: Duration, place: Arc<Place>) -> Self {
        Self { io, patience, stalled: None, place }
    }

    /// Notes whether the client takes what is written.
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            self.place.set_writing(false);
            return written;
        }
        self.place.set_writing(true);
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client has stopped reading")))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Socket<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, into)
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
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
