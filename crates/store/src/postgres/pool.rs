//! The connections to PostgreSQL that are shared.

use std::{
    error::Error as _,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use backon::{ExponentialBuilder, Retryable};
use deadpool_postgres::{Hook, HookError, PoolError};
use fermata_engine::store::StoreError;
use tokio_postgres::error::SqlState;

use super::{CLOSING, connect::Connector};
use crate::{
    chain::{Chains, draw_start},
    connection::pipeline::{Client, Pipeline},
    error::{Fault, describe},
};

/// The time that a query waits for a connection that is free, or for a new one.
const QUEUE: Duration = Duration::from_secs(5);
/// A connection that was idle for this long is tested before it is used. A connection that has just answered, or that is known to be
/// closed, is not.
const IDLE: Duration = Duration::from_secs(1);
/// The time that it may take for that.
const PING: Duration = Duration::from_secs(1);
/// The pause between two looks at the connections that are still in use.
const LOOK: Duration = Duration::from_millis(10);

/// The connections of the database. Clones share them.
#[derive(Clone)]
pub struct Pool {
    pool: deadpool_postgres::Pool,
    stale: Stale,
    /// The chains of the audit that this process extends.
    pub chains: Chains,
}

/// The moment before which connections were opened that are not used again, because one of them leads to a server that takes no writes.
/// Held for a copy or a change.
#[derive(Clone, Default)]
struct Stale(Arc<Mutex<Option<Instant>>>);

/// The connections of this process to a database server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Those that an operation uses.
    pub used: usize,
    /// Those that are open and unused.
    pub idle: usize,
    /// The operations that wait for one.
    pub waiting: usize,
}

// === impl Pool ===

impl Pool {
    /// Returns a pool of at most so many connections, which are opened when they are asked for.
    pub fn new(connector: Connector, connections: u32) -> Self {
        let stale = Stale::default();
        let known = stale.clone();
        let check = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, metrics| {
            let (is_stale, idle) = (known.includes(metrics.age()), metrics.last_used());
            Box::pin(async move {
                if is_stale {
                    return Err(HookError::message("it leads to a server that takes no writes"));
                }
                if idle < IDLE {
                    return Ok(());
                }
                // A connection that was forgotten by what it leads through does not answer, and must not be waited for.
                match tokio::time::timeout(PING, client.check_connection()).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(error)) => Err(HookError::Backend(error)),
                    Err(_) => Err(HookError::message("it does not answer")),
                }
            })
        });
        let most = usize::try_from(connections).unwrap_or(usize::MAX).max(1);
        let pool = deadpool_postgres::Pool::builder(connector.into_manager())
            .max_size(most)
            .pre_recycle(check)
            .build()
            .expect("only a pool with time-outs needs a runtime");
        Self { pool, stale, chains: Chains::new(draw_start()) }
    }

    /// Returns a connection as soon as one is free. A server that is about to start is waited for.
    pub async fn acquire(&self) -> Result<Pipeline, Fault> {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(20))
            .with_max_delay(Duration::from_millis(500))
            .with_max_times(usize::MAX)
            .with_jitter();
        let acquiring = async || self.pool.get().await;
        let acquiring = acquiring.retry(pauses).when(is_transient);
        let acquired = tokio::time::timeout(QUEUE, acquiring).await;
        match acquired {
            Ok(Ok(client)) => Ok(Pipeline::new(Client::Pooled(client)).with_chains(self.chains.clone())),
            Ok(Err(PoolError::Backend(error))) => Err(StoreError::Unavailable(describe(&error)).into()),
            Ok(Err(error)) => Err(StoreError::Unavailable(error.to_string()).into()),
            Err(_) => {
                let late = format!("no connection within {} s", QUEUE.as_secs());
                Err(StoreError::Unavailable(late).into())
            }
        }
    }

    /// Begins a transaction with this statement.
    pub async fn begin(&self, statement: &'static str) -> Result<Pipeline, Fault> {
        let mut pipeline = self.acquire().await?;
        pipeline.begin(statement);
        Ok(pipeline)
    }

    /// Returns the number of connections, and of the operations that wait for one.
    pub fn connections(&self) -> Connections {
        let status = self.pool.status();
        let idle = status.available.min(status.size);
        Connections { used: status.size - idle, idle, waiting: status.waiting }
    }

    /// Has all connections replaced that are open now.
    pub fn replace_all(&self) {
        *self.stale.lock() = Some(Instant::now());
    }

    /// Waits for what is under way and closes all connections. One whose server does not answer ends with the process.
    pub async fn close(&self) {
        self.pool.close();
        let closing = async {
            while self.pool.status().size > 0 {
                tokio::time::sleep(LOOK).await;
            }
        };
        let _ = tokio::time::timeout(CLOSING, closing).await;
    }
}

/// Returns `true` if a server refuses a connection as it does while it starts, or while others hold all that it allows.
fn is_transient(error: &PoolError) -> bool {
    let PoolError::Backend(error) = error else { return false };
    if let Some(code) = error.code() {
        return [SqlState::CANNOT_CONNECT_NOW, SqlState::TOO_MANY_CONNECTIONS].contains(code);
    }
    let kind = error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    matches!(
        kind,
        Some(
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionReset
        )
    )
}

// === impl Stale ===

impl Stale {
    /// Returns whether a connection of this age is to be replaced.
    fn includes(&self, age: Duration) -> bool {
        self.lock().is_some_and(|since| age >= since.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
