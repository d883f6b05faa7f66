//! A PostgreSQL database: its connections, and how queries run on them.
//!
//! Invariants: a commit is one transaction that first locks the chat's row by raising its version, so nothing else of the chat needs a
//! lock. If the database has undone something because two transactions were in each other's way, it is done again. Something that may
//! have been done is never done again here; the caller is told that it may have been, and knows what can be repeated.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use backon::{ExponentialBuilder, Retryable};
use fermata_engine::store::StoreError;
use sqlx::PgPool;

use crate::{
    connection::PooledConnection,
    error::{Fault, failed},
};
use pgvector::Pgvector;
use sessions::Sessions;

pub mod open;
mod pgvector;
mod sessions;

/// The time that one attempt may take, from the wait for a connection on. It is longer than the server's own limits, and counts if the server
/// answers nothing, because what the connection leads through has forgotten it.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(12);
/// The time before the first new attempt at what the database has undone.
const PAUSE: Duration = Duration::from_millis(10);
/// The number of new attempts.
const ATTEMPTS: usize = 8;

/// An open PostgreSQL database. Clones share its connections.
#[derive(Clone)]
pub struct PostgresDatabase {
    pub pool: PgPool,
    /// The sessions by which others see that the instances of this process are alive.
    pub sessions: Arc<Sessions>,
    /// The extension that compares vectors, if the database has it.
    pub pgvector: Option<Arc<Pgvector>>,
    stale: Stale,
}

/// The moment before which connections of the pool were opened that are not used again, because one of them leads to a server that takes no
/// writes. Held for a copy or a change.
#[derive(Clone, Default)]
pub struct Stale(Arc<Mutex<Option<Instant>>>);

// === impl PostgresDatabase ===

impl PostgresDatabase {
    /// Runs queries outside of a transaction.
    pub async fn run<T, W>(&self, work: impl Fn(PooledConnection) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        self.retrying(|| async {
            let connection = self.pool.acquire().await.map_err(failed)?;
            work(PooledConnection::Postgres(connection)).await
        })
        .await
    }

    /// Does the work, and does it again if the database has undone it because of another transaction.
    pub async fn retrying<T, W>(&self, work: impl Fn() -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        let pauses = ExponentialBuilder::new().with_min_delay(PAUSE).with_max_times(ATTEMPTS).with_jitter();
        let attempt = || within(ATTEMPT_TIMEOUT, work());
        let done = attempt.retry(pauses).when(|fault| matches!(fault, Fault::Collided(_))).await;
        if let Err(Fault::ReadOnly(_)) = done {
            self.stale.note();
        }
        Ok(done?)
    }
}

// === impl Stale ===

impl Stale {
    /// Has all connections replaced that are open now.
    fn note(&self) {
        *self.lock() = Some(Instant::now());
    }

    /// Returns whether a connection of this age is to be replaced.
    pub fn includes(&self, age: Duration) -> bool {
        self.lock().is_some_and(|since| age >= since.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `true` if the URL names a PostgreSQL database.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres:") || url.starts_with("postgresql:")
}

/// Gives up after a time.
async fn within<T>(time: Duration, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let late = || Err(StoreError::Unavailable(format!("no answer within {} s", time.as_secs())).into());
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| late())
}
