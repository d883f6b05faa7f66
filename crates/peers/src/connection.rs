//! The address of a Redis server, and connections to it that never hang. This module does not know mailboxes or messages.
//!
//! Invariants: no text contains a credential; every command has a result, or has failed, at its deadline.

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

/// The reason why a URL is not one of Redis, for the operator. The text does not quote the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("REDIS_URL is not understood ({0}); write redis://<host>:<port>, or rediss://<host>:<port> for TLS")]
pub struct BadRedisUrl(String);

/// A Redis server, which may or may not be running.
pub struct Server {
    client: Client,
}

/// A connection. Its clones share it.
#[derive(Clone)]
pub struct Connection {
    client: MultiplexedConnection,
    server: Arc<str>,
    /// `true` if the connection was closed, or a command has failed on it. It is not used again then.
    is_broken: Arc<AtomicBool>,
}

/// A connection that all callers share. It is made when it is needed, and made again after it has failed.
#[derive(Default)]
pub struct SharedConnection {
    // Held while connecting, so that concurrent callers make one connection. Each of them waits no longer than its deadline.
    connection: Mutex<Option<Connection>>,
}

// === impl BadRedisUrl ===

impl BadRedisUrl {
    /// Keeps the client's reason but not its details, which may quote the URL.
    fn new(error: RedisError) -> Self {
        let reason = error.to_string();
        Self(reason.split(" - ").next().unwrap_or_default().to_owned())
    }
}

// === impl Server ===

impl Server {
    /// Returns the server that the URL names. Does not connect.
    pub fn new(url: &str) -> Result<Self, BadRedisUrl> {
        let info = url.into_connection_info().map_err(BadRedisUrl::new)?;
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            // The client panics if the process has not chosen a provider of cryptography. A choice that was made before stays.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        }
        // Only with this version of the protocol does the client report that a connection was closed before it is used again.
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings)).map_err(BadRedisUrl::new)?;
        Ok(Self { client })
    }

    /// Makes a new connection.
    pub async fn connect(&self, deadline: Instant) -> Result<Connection, TransportError> {
        let is_broken = Arc::new(AtomicBool::new(false));
        let is_disconnected = is_broken.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(move |push: PushInfo| -> Result<(), redis::aio::SendError> {
                if push.kind == PushKind::Disconnection {
                    is_disconnected.store(true, Ordering::Relaxed);
                }
                Ok(())
            });
        let server: Arc<str> = self.to_string().into();
        match timeout_at(deadline, self.client.get_multiplexed_async_connection_with_config(&config)).await {
            Ok(Ok(client)) => Ok(Connection { client, server, is_broken }),
            Ok(Err(error)) => Err(unavailable(&server, &error.to_string())),
            Err(_) => Err(unavailable(&server, NO_ANSWER)),
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
    /// Executes commands. If they fail or are not answered, the connection counts as broken.
    pub async fn execute<T: FromRedisValue>(
        &self,
        commands: &Pipeline,
        deadline: Instant,
    ) -> Result<T, TransportError> {
        let mut client = self.client.clone();
        let reason = match timeout_at(deadline, commands.query_async(&mut client)).await {
            Ok(Ok(result)) => return Ok(result),
            Ok(Err(error)) => error.to_string(),
            Err(_) => NO_ANSWER.to_owned(),
        };
        // A refusal counts as well: a server that has become a replica keeps refusing, and a new connection may lead to the new master.
        self.is_broken.store(true, Ordering::Relaxed);
        Err(unavailable(&self.server, &reason))
    }

    /// Returns an error of this server, for the operator.
    pub fn unavailable(&self, reason: &str) -> TransportError {
        unavailable(&self.server, reason)
    }
}

// === impl SharedConnection ===

impl SharedConnection {
    /// Executes commands on the connection, which is made if there is none.
    pub async fn execute<T: FromRedisValue>(
        &self,
        server: &Server,
        commands: &Pipeline,
        deadline: Instant,
    ) -> Result<T, TransportError> {
        let connecting = async {
            let mut connection = self.connection.lock().await;
            match &*connection {
                Some(open) if !open.is_broken.load(Ordering::Relaxed) => Ok(open.clone()),
                Some(_) | None => {
                    *connection = None;
                    let opened = server.connect(deadline).await?;
                    Ok(connection.insert(opened).clone())
                }
            }
        };
        let connection = timeout_at(deadline, connecting)
            .await
            .unwrap_or_else(|_| Err(unavailable(&server.to_string(), NO_ANSWER)))?;
        connection.execute(commands, deadline).await
    }
}

const NO_ANSWER: &str = "it does not answer";

fn unavailable(server: &str, reason: &str) -> TransportError {
    TransportError::Unavailable(format!("{server}: {reason}"))
}
