//! A PostgreSQL database: its connections, and how queries run on them.
//!
//! Invariants: a commit is one transaction that first locks the chat's row by raising its version, so nothing else of the chat needs a
//! lock. If the database has undone something because two transactions were in each other's way, it is done again. Something that may
//! have been done is never done again; the caller is told that the database was unavailable.

use std::{sync::Arc, time::Duration};

use backon::{ExponentialBuilder, Retryable};
use fermata_engine::store::{InstanceId, Joined, Renewed, StoreError};
use sqlx::{PgPool, Postgres, Transaction};

use crate::{
    OpenError, OpenOptions,
    connection::PooledConnection,
    error::{Fault, failed},
};
use sessions::Sessions;

pub mod open;
mod sessions;

/// Begins a transaction that reads, and sees one moment.
const BEGIN_SNAPSHOT: &str = "begin isolation level repeatable read read only";

/// How long one attempt may take, from the wait for a connection on. This is longer than the server's own limits, for when it answers
/// nothing.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait at first before doing again what the database has undone.
const PAUSE: Duration = Duration::from_millis(10);
/// How often it is done again.
const ATTEMPTS: usize = 8;

/// An open PostgreSQL database. Clones share its connections.
#[derive(Clone)]
pub struct PostgresDatabase {
    pool: PgPool,
    sessions: Arc<Sessions>,
}

// === impl PostgresDatabase ===

impl PostgresDatabase {
    pub async fn open(url: &str, options: &OpenOptions) -> Result<Self, OpenError> {
        let (pool, options) = open::open(url, options).await?;
        Ok(Self { pool, sessions: Arc::new(Sessions::new(options)) })
    }

    pub async fn close(&self) {
        self.sessions.close().await;
        self.pool.close().await;
    }

    /// Runs queries outside of a transaction.
    pub async fn run<T, W>(&self, work: impl Fn(PooledConnection) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        retrying(|| async {
            let connection = self.pool.acquire().await.map_err(failed)?;
            work(PooledConnection::Postgres(connection)).await
        })
        .await
    }

    pub async fn begin(&self) -> Result<Transaction<'static, Postgres>, Fault> {
        self.pool.begin().await.map_err(failed)
    }

    pub async fn begin_snapshot(&self) -> Result<Transaction<'static, Postgres>, Fault> {
        self.pool.begin_with(BEGIN_SNAPSHOT).await.map_err(failed)
    }

    pub async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError> {
        Ok(self.sessions.join(instance).await?)
    }

    pub async fn heartbeat(&self, instance: &InstanceId) -> Result<Renewed, StoreError> {
        Ok(self.sessions.heartbeat(instance).await?)
    }

    /// Ends the session by which the others see that the instance is alive.
    pub async fn end_session(&self, instance: &InstanceId) {
        self.sessions.end(instance).await;
    }
}

/// True if the URL names a PostgreSQL database.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres:") || url.starts_with("postgresql:")
}

/// Does the work, and does it again if the database has undone it because of another transaction.
pub async fn retrying<T, W>(work: impl Fn() -> W) -> Result<T, StoreError>
where
    W: Future<Output = Result<T, Fault>>,
{
    let pauses = ExponentialBuilder::new().with_min_delay(PAUSE).with_max_times(ATTEMPTS).with_jitter();
    let attempt = || within(ATTEMPT_TIMEOUT, work());
    Ok(attempt.retry(pauses).when(|fault| matches!(fault, Fault::Collided(_))).await?)
}

/// Gives up after a time.
async fn within<T>(time: Duration, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let late = || Err(StoreError::Unavailable(format!("no answer within {} s", time.as_secs())).into());
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| late())
}
