//! Where Redis is, and connections to it that never hang. Knows no mailbox and no message.
//!
//! Invariants: no credential gets into a text; every question is answered, or has failed, at its deadline.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use fermata_engine::peer_transport::TransportError;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, FromRedisValue, IntoConnectionInfo, Pipeline,
    ProtocolVersion, PushInfo, PushKind, RedisError, aio::MultiplexedConnection,
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout_at},
};

/// Why a URL is none of Redis's, in words for the operator. Does not quote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("REDIS_URL is not understood ({0}); write redis://<host>:<port>, or rediss://<host>:<port> for TLS")]
pub struct BadRedisUrl(String);

/// A Redis server, which may be there or not.
pub struct Server {
    client: Client,
}

/// One connection. Clones share it.
#[derive(Clone)]
pub struct Connection {
    commands: MultiplexedConnection,
    place: Arc<str>,
    /// Whether it is of no use any more, as it has failed once or was closed.
    is_gone: Arc<AtomicBool>,
}

/// A connection for everybody, which is made when it is needed and made anew when it has failed.
#[derive(Default)]
pub struct Shared {
    // Held while connecting, so that many senders make one connection; each of them waits no longer than its deadline.
    connection: Mutex<Option<Connection>>,
}

// === impl BadRedisUrl ===

impl BadRedisUrl {
    /// Says what the client said, without the details, which may quote the URL.
    fn new(error: RedisError) -> Self {
        let reason = error.to_string();
        Self(reason.split(" - ").next().unwrap_or_default().to_owned())
    }
}

// === impl Server ===

impl Server {
    /// The server that the URL names.
    pub fn new(url: &str) -> Result<Self, BadRedisUrl> {
        let info = url.into_connection_info().map_err(BadRedisUrl::new)?;
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            // The client panics where a process has not said which cryptography it wants. Another choice made before stays.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        }
        // Only in this version of the protocol does the client tell that a connection was closed before it is used again.
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings)).map_err(BadRedisUrl::new)?;
        Ok(Self { client })
    }

    /// A new connection.
    pub async fn connect(&self, deadline: Instant) -> Result<Connection, TransportError> {
        let is_gone = Arc::new(AtomicBool::new(false));
        let told = is_gone.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(move |push: PushInfo| -> Result<(), redis::aio::SendError> {
                if push.kind == PushKind::Disconnection {
                    told.store(true, Ordering::Relaxed);
                }
                Ok(())
            });
        let place: Arc<str> = self.to_string().into();
        match timeout_at(deadline, self.client.get_multiplexed_async_connection_with_config(&config)).await {
            Ok(Ok(commands)) => Ok(Connection { commands, place, is_gone }),
            Ok(Err(error)) => Err(unavailable(&place, &error.to_string())),
            Err(_) => Err(unavailable(&place, SILENT)),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redis at {}", self.client.get_connection_info().addr())
    }
}

// === impl Connection ===

impl Connection {
    /// Asks, and takes the connection for gone if there is no answer or a refusal.
    pub async fn ask<T: FromRedisValue>(
        &self,
        question: &Pipeline,
        deadline: Instant,
    ) -> Result<T, TransportError> {
        let mut commands = self.commands.clone();
        let reason = match timeout_at(deadline, question.query_async(&mut commands)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error.to_string(),
            Err(_) => SILENT.to_owned(),
        };
        // A refusal, too: a server that was made a replica refuses for ever, and a new connection may lead to the new master.
        self.is_gone.store(true, Ordering::Relaxed);
        Err(unavailable(&self.place, &reason))
    }

    /// What failed here, for the operator.
    pub fn unavailable(&self, reason: &str) -> TransportError {
        unavailable(&self.place, reason)
    }
}

// === impl Shared ===

impl Shared {
    /// Asks on the connection that is there, or on a new one.
    pub async fn ask<T: FromRedisValue>(
        &self,
        server: &Server,
        question: &Pipeline,
        deadline: Instant,
    ) -> Result<T, TransportError> {
        let connection = timeout_at(deadline, self.get(server, deadline))
            .await
            .unwrap_or_else(|_| Err(unavailable(&server.to_string(), SILENT)))?;
        connection.ask(question, deadline).await
    }

    async fn get(&self, server: &Server, deadline: Instant) -> Result<Connection, TransportError> {
        let mut connection = self.connection.lock().await;
        match &*connection {
            Some(open) if !open.is_gone.load(Ordering::Relaxed) => Ok(open.clone()),
            Some(_) | None => {
                *connection = None;
                let opened = server.connect(deadline).await?;
                Ok(connection.insert(opened).clone())
            }
        }
    }
}

const SILENT: &str = "it does not answer";

fn unavailable(place: &str, reason: &str) -> TransportError {
    TransportError::Unavailable(format!("{place}: {reason}"))
}
