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
use sqlx::{PgPool, Postgres, pool::PoolConnection};

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
    pub pool: Pool,
    /// The sessions by which others see that the instances of this process are alive.
    pub sessions: Arc<Sessions>,
    /// The extension that compares vectors, if the database has it.
    pub pgvector: Option<Arc<Pgvector>>,
    stale: Stale,
}

/// The connections of the database. Clones share them.
///
/// A connection that was forgotten by what it leads through while a query was under way is never given back: sqlx waits for an answer on it.
/// So if no connection was given for a while, all of them are left to themselves, and a new pool takes their place.
#[derive(Clone)]
pub struct Pool {
    make: Arc<dyn Fn() -> PgPool + Send + Sync>,
    // Held for a copy or a change.
    current: Arc<Mutex<Current>>,
}

struct Current {
    pool: PgPool,
    /// The time at which the pool has given a connection, or was made.
    given_at: Instant,
}

/// The time without a connection after which the connections of a pool count as lost. A pool whose connections are all busy gives one
/// sooner, because a query takes less.
const LOST_AFTER: Duration = Duration::from_secs(10);

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
            let connection = self.pool.acquire().await?;
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

/// The time that the end of connections may take. A server that does not answer is not waited for.
const CLOSING: Duration = Duration::from_secs(3);

// === impl Pool ===

impl Pool {
    /// Returns a pool that connects when it is asked for connections.
    pub fn new(make: impl Fn() -> PgPool + Send + Sync + 'static) -> Self {
        let current = Current { pool: make(), given_at: Instant::now() };
        Self { make: Arc::new(make), current: Arc::new(Mutex::new(current)) }
    }

    pub async fn acquire(&self) -> Result<PoolConnection<Postgres>, Fault> {
        let pool = self.pool();
        self.note(pool.acquire().await)
    }

    /// Begins a transaction with this statement.
    pub async fn begin(
        &self,
        statement: &'static str,
    ) -> Result<sqlx::Transaction<'static, Postgres>, Fault> {
        let pool = self.pool();
        self.note(pool.begin_with(statement).await)
    }

    /// Closes all connections. One whose server does not answer is never given back, and ends with the process.
    pub async fn close(&self) {
        let _ = tokio::time::timeout(CLOSING, self.pool().close()).await;
    }

    fn pool(&self) -> PgPool {
        self.lock().pool.clone()
    }

    /// Notes whether a connection was given. If none was for a while, another pool takes the place of this one.
    fn note<T>(&self, given: Result<T, sqlx::Error>) -> Result<T, Fault> {
        let mut current = self.lock();
        match &given {
            Ok(_) => current.given_at = Instant::now(),
            Err(sqlx::Error::PoolTimedOut) if current.given_at.elapsed() >= LOST_AFTER => {
                tracing::warn!("no connection to PostgreSQL was free for long; all of them are replaced");
                *current = Current { pool: (self.make)(), given_at: Instant::now() };
            }
            Err(_) => {}
        }
        drop(current);
        given.map_err(failed)
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
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
