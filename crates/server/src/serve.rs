//! The accept loop, with limits on the number of connections and on the time that each may keep the server waiting.
//!
//! A connection has [`ConnectionLimits::header_timeout`] to send the head of a request, and again after each response. A client that reads
//! nothing of a response for [`ConnectionLimits::reader_timeout`] is disconnected, which frees the memory of the response. The time limit of
//! a request's body is set by its handler.
//!
//! If all slots are taken, a new connection gets the slot of the one that has been idle for the longest. Only if every connection has a
//! request under way, the new connection is answered by [`Server::when_full`], in one of a few reserved slots, so that health checks and
//! answers always get through. Every request has its peer's address as [`ConnectInfo<SocketAddr>`] in its extensions, as with `axum::serve`.
//!
//! hyper is tolerant where RFC 9112 wants a request to be refused. The modules `conformance` and `line_ends` list the refused ones.

mod conformance;
mod descriptors;
mod event_stream;
mod line_ends;
mod slots;
mod socket;

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    net::SocketAddr,
    num::NonZeroUsize,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use axum::{
    Router,
    extract::ConnectInfo,
    http::{HeaderValue, Request, header},
};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

pub use self::slots::{Full, Reserved};
use self::{
    event_stream::{Asked, EventStream, UnderWay},
    slots::{Slot, Slots},
    socket::Socket,
};
use crate::{client::TrustedProxies, config::Config};

/// A server with limits on its connections.
#[derive(Clone, Debug)]
pub struct Server {
    /// The router for regular connections.
    pub routes: Router,
    /// The router for connections that exceed a limit. Their only request has their slot, [`Reserved`], in its extensions.
    pub when_full: Router,
    /// The limits on connections.
    pub limits: ConnectionLimits,
    /// The proxies, which may have any number of connections because they connect for many clients.
    pub proxies: TrustedProxies,
    /// When this is cancelled, each response asks its client to close the connection: the next request is to come on a new one, which
    /// another instance may get.
    pub draining: CancellationToken,
    /// `true` if another process listens on the same port. It gets all new connections when this server drains.
    pub shares_port: bool,
}

/// The limits on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The limit on concurrent connections.
    pub connections: usize,
    /// The limit on concurrent connections from one IPv4 address or one IPv6 network of 64 bits. Loopback addresses and trusted proxies have
    /// no limit.
    pub per_address: usize,
    /// The time limit for the head of a request, and for an idle connection.
    pub header_timeout: Duration,
    /// The time limit for a client that does not read its response.
    pub reader_timeout: Duration,
}

/// The limit on the head of a request, in bytes. Browsers and proxies send less.
const HEAD_BYTES: usize = 64 << 10;
/// The limit on the bytes that are read from a connection, or wait to be written to it, at a time. A proxy sends a large body as fast as it is
/// taken, and everything else that the thread serves has its turn between two reads.
const BUFFER_BYTES: usize = 64 << 10;
/// The time that a new connection has for its first request when the server ends.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_millis(500);
/// The delay before the next attempt after the first failure to accept a connection. It doubles with each failure.
const FIRST_ACCEPT_DELAY: Duration = Duration::from_millis(10);
/// The longest such delay.
const LONGEST_ACCEPT_DELAY: Duration = Duration::from_secs(1);

// === impl Server ===

impl Server {
    /// Serves until `shutdown` is cancelled, then waits for the requests under way. Dropping the future closes all connections.
    ///
    /// No request is lost that came on a connection that the kernel had accepted. Later connections are refused.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) {
        let slots = Slots::new(&self.limits, self.proxies.clone());
        let closing = if self.shares_port { self.draining.clone() } else { shutdown.clone() };
        let server = Arc::new(self);
        let mut connections = JoinSet::new();
        let mut delay = FIRST_ACCEPT_DELAY;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                // Its task is forgotten.
                Some(_) = connections.join_next() => continue,
                () = closing.cancelled() => break,
            };
            match accepted {
                Ok((socket, peer)) => {
                    delay = FIRST_ACCEPT_DELAY;
                    connections.spawn(server.clone().accepted(socket, peer, &slots, shutdown.clone()).await);
                }
                // Such an error concerns only the connection that was to be accepted.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionRefused
                            | io::ErrorKind::ConnectionAborted
                            | io::ErrorKind::ConnectionReset
                    ) => {}
                Err(error) => {
                    let address = listener.local_addr().ok();
                    tracing::error!(?address, %error, "cannot accept connections");
                    // The process may have no file descriptors left.
                    slots.free_one();
                    closing.run_until_cancelled(sleep(delay)).await;
                    delay = (delay * 2).min(LONGEST_ACCEPT_DELAY);
                }
            }
        }
        for (socket, peer) in backlog(listener) {
            connections.spawn(server.clone().accepted(socket, peer, &slots, shutdown.clone()).await);
        }
        while connections.join_next().await.is_some() {}
    }

    /// Waits for a slot, and returns the future that serves the connection.
    async fn accepted(
        self: Arc<Self>,
        socket: TcpStream,
        peer: SocketAddr,
        slots: &Arc<Slots>,
        shutdown: CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        // A chunk is smaller than a packet. If the kernel waited for more data, text would appear in jerks.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY on a connection");
        }
        let slot = slots.take(peer.ip()).await;
        async move {
            if let Ok(slot) = slot {
                self.connection(socket, peer, slot, shutdown).await;
            }
        }
    }

    /// Serves one connection. There is such a future for each open stream, so it is small.
    async fn connection<I>(self: Arc<Self>, io: I, peer: SocketAddr, slot: Slot, shutdown: CancellationToken)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let slot = Arc::new(slot);
        let mut socket = Socket::new(io, self.limits.reader_timeout, slot.clone());
        let ended = loop {
            // hyper's state is on the heap, and gone when the stream is written.
            let taken = tokio::select! {
                biased;
                taken = Box::pin(self.requests(socket, peer, &slot, &shutdown)) => taken,
                () = slot.evicted() => return,
            };
            let (stream, taken) = match taken {
                Ok(Some(taken)) => taken,
                Ok(None) => return,
                Err(error) => break io::Error::other(error),
            };
            socket = taken;
            let keep_alive = stream.keep_alive && slot.full.is_none();
            if let Err(error) = socket.write_stream(stream).await {
                break error;
            }
            if !keep_alive || shutdown.is_cancelled() {
                match socket.shutdown().await {
                    Ok(()) => return,
                    Err(error) => break error,
                }
            }
        };
        tracing::debug!(%peer, error = %ended, "a connection broke off");
    }

    /// Serves requests with hyper until the connection ends, or there is an event stream that is better written without hyper.
    async fn requests<I>(
        &self,
        socket: Socket<I>,
        peer: SocketAddr,
        slot: &Arc<Slot>,
        shutdown: &CancellationToken,
    ) -> hyper::Result<Option<(EventStream, Socket<I>)>>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let routes = if slot.full.is_none() { &self.routes } else { &self.when_full };
        let routes = TowerToHyperService::new(routes.clone());
        let under_way = socket.under_way().clone();
        let has_asked = AtomicBool::new(false);
        let service = service_fn(|request: Request<Incoming>| {
            let guard = slot.begin_request();
            let asked = Asked::by(&request);
            let fault = conformance::fault(&request);
            // Where the body of a faulty request ends is not known.
            let is_sent = fault.is_none() && !request.headers().contains_key(header::EXPECT);
            let mut request = request.map(|body| under_way.request(body, is_sent));
            request.extensions_mut().insert(ConnectInfo(peer));
            if let Some(reserved) = slot.reserved() {
                request.extensions_mut().insert(reserved);
            }
            let response = routes.call(request);
            let under_way = under_way.clone();
            has_asked.store(true, Ordering::Relaxed);
            async move {
                let mut response = match fault {
                    None => response.await?,
                    Some(fault) => conformance::refusal(fault),
                };
                if self.draining.is_cancelled() {
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(under_way.response(&asked, response, guard))
            }
        });
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_header_size(HEAD_BYTES)
            .max_buf_size(BUFFER_BYTES)
            .keep_alive(slot.full.is_none())
            .serve_connection(TokioIo::new(socket), service);
        let ending = async {
            shutdown.cancelled().await;
            if !has_asked.load(Ordering::Relaxed) {
                // The first request may be on its way.
                sleep(FIRST_REQUEST_TIMEOUT).await;
            }
        };
        let stream = tokio::select! {
            biased;
            // What has arrived comes first.
            stream = end_or_stream(&mut connection, &under_way) => stream?,
            () = ending => {
                Pin::new(&mut connection).graceful_shutdown();
                end_or_stream(&mut connection, &under_way).await?
            }
        };
        let Some(stream) = stream else { return Ok(None) };
        let taken = connection.into_parts();
        let mut socket = taken.io.into_inner();
        socket.put_back(&taken.read_buf);
        Ok(Some((stream, socket)))
    }
}

// === impl ConnectionLimits ===

impl ConnectionLimits {
    /// Returns the limits in the settings. The number of connections follows the limit of open files, and never exceeds it.
    pub fn of(config: &Config) -> Self {
        // Each MCP program needs three pipes and a handle, and an idle server has up to 32 other files open.
        let database = usize::try_from(config.database.database_connections.get()).unwrap_or(usize::MAX);
        let others = database.saturating_add(4 * config.tables.mcp.len() + 32);
        Self {
            connections: descriptors::connections(
                config.connections.max_connections.map(NonZeroUsize::get),
                others,
            ),
            per_address: config.connections.max_connections_per_address.get(),
            header_timeout: config.connections.header_timeout.0,
            reader_timeout: config.connections.reader_timeout.0,
        }
    }
}

/// Closes the listener. Returns the connections that the kernel has accepted until then: it would reset them.
fn backlog(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    std::iter::from_fn(|| listener.accept().ok())
        .filter_map(|(socket, peer)| {
            socket.set_nonblocking(true).ok()?;
            Some((TcpStream::from_std(socket).ok()?, peer))
        })
        .collect()
}

/// Has hyper serve a connection until it ends, or until an event stream can be taken from it.
async fn end_or_stream(
    connection: &mut (impl Future<Output = hyper::Result<()>> + Unpin),
    under_way: &UnderWay,
) -> hyper::Result<Option<EventStream>> {
    poll_fn(|cx| match Pin::new(&mut *connection).poll(cx) {
        Poll::Ready(ended) => Poll::Ready(ended.map(|()| None)),
        Poll::Pending => under_way.poll_take(cx).map(|stream| Ok(Some(stream))),
    })
    .await
}

#[cfg(test)]
mod tests;
