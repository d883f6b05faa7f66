//! The accept loop: how many connections there may be, and how long each may keep the server waiting.
//!
//! A connection has [`ConnectionLimits::header_timeout`] to send the head of a request, and as long to send another one after a
//! response. A client that takes none of a response for [`ConnectionLimits::reader_timeout`] is disconnected, which frees what its
//! response held. How long a body may take is the business of whoever reads it.
//!
//! When all places are taken, a newcomer gets the place of the connection that has been without a request for the longest. Only when
//! every connection has a request under way is a newcomer answered by [`Server::when_full`], from a few places that are
//! kept for it, so that health checks are answered whatever else happens. Every request carries its peer's address as
//! [`ConnectInfo<SocketAddr>`], as with `axum::serve`.

pub mod descriptors;
mod places;
mod socket;

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::ConnectInfo,
    http::Request,
};
use http_body::{Frame, SizeHint};
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
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::places::Full;
use self::{
    places::{Place, Places, UnderWay},
    socket::Socket,
};
use crate::{client::TrustedProxies, config::Config};

/// What is served, and to how many.
#[derive(Clone, Debug)]
pub struct Server {
    /// What is served.
    pub routes: Router,
    /// What answers a connection for which there is no place. Its one request has the reason, [`Full`], among its extensions.
    pub when_full: Router,
    /// How much connections may take.
    pub limits: ConnectionLimits,
    /// Those from whose addresses the clients of many people come.
    pub proxies: TrustedProxies,
}

/// How much connections may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections from one address at a time; of IPv6, from one network of 64 bits. Loopback addresses and trusted proxies
    /// have no limit.
    pub per_address: usize,
    /// How long the head of a request may take, and how long a connection may be without one.
    pub header_timeout: Duration,
    /// How long a client may take nothing of what is sent to it.
    pub reader_timeout: Duration,
}

/// A response's body that keeps its connection from counting as idle.
struct Sending {
    body: Body,
    _under_way: UnderWay,
}

/// The longest head of a request. Browsers and proxies send less.
const HEAD_BYTES: usize = 64 << 10;
/// How long to wait before accepting again when the system refuses, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

// === impl Server ===

impl Server {
    /// Serves until `over`, then lets what is under way come to its end. When this is dropped, connections are cut.
    pub async fn serve(self, listener: TcpListener, over: CancellationToken) {
        let places = Places::new(&self.limits, self.proxies.clone());
        let tasks = TaskTracker::new();
        let cut = CancellationToken::new();
        let _cut = cut.clone().drop_guard();
        let mut pause = PAUSES.0;
        while let Some(accepted) = over.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((socket, peer)) => {
                    pause = PAUSES.0;
                    // A chunk is smaller than a packet; waiting for more to send would be what a reader sees as jerking.
                    if let Err(error) = socket.set_nodelay(true) {
                        tracing::debug!(%error, "a socket takes no options");
                    }
                    let Some(place) = places.take(peer.ip()).await else { continue };
                    let connection = self.clone().connection(socket, peer, place, over.clone());
                    let cut = cut.clone();
                    tasks.spawn(async move { cut.run_until_cancelled(connection).await });
                }
                Err(error) if is_of_the_client(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "connections cannot be accepted");
                    // It may be the descriptors of this process that are used up.
                    places.free_one();
                    over.run_until_cancelled(tokio::time::sleep(pause)).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
        drop(listener);
        tasks.close();
        tasks.wait().await;
    }

    /// One connection, from its first byte to its last.
    async fn connection<I>(self, io: I, peer: SocketAddr, place: Place, over: CancellationToken)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let place = Arc::new(place);
        let routes =
            TowerToHyperService::new(if place.full.is_none() { self.routes } else { self.when_full });
        let service = service_fn(|mut request: Request<Incoming>| {
            let under_way = place.begin();
            request.extensions_mut().insert(ConnectInfo(peer));
            if let Some(full) = place.full {
                request.extensions_mut().insert(full);
            }
            let response = routes.call(request);
            async move {
                let response = response.await?;
                Ok::<_, Infallible>(response.map(|body| Sending { body, _under_way: under_way }))
            }
        });
        let io = TokioIo::new(Socket::new(io, self.limits.reader_timeout, place.clone()));
        let mut connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(self.limits.header_timeout)
                .max_header_size(HEAD_BYTES)
                .keep_alive(place.full.is_none())
                .serve_connection(io, service)
        );
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = place.evicted() => return,
            () = over.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection broke off");
        }
    }
}

// === impl ConnectionLimits ===

impl ConnectionLimits {
    /// As the settings say and the process's limit of open files allows.
    pub fn of(config: &Config) -> Self {
        // Of the rest: three pipes and a handle for each program, and what an idle server has open anyway.
        let database = usize::try_from(config.database_connections.get()).unwrap_or(usize::MAX);
        let others = database.saturating_add(4 * config.mcp.len() + 32);
        Self {
            connections: descriptors::connections(config.max_connections.get(), others),
            per_address: config.max_connections_per_address.get(),
            header_timeout: config.header_timeout.0,
            reader_timeout: config.reader_timeout.0,
        }
    }
}

/// Errors of one connection, which say nothing about the next.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

// === impl Sending ===

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
