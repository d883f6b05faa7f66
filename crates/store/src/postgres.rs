//! A PostgreSQL database: its connections, and how queries run on them.
//!
//! Invariants: a commit is one transaction that first locks the chat's row by raising its version, so nothing else of the chat needs a
//! lock. If the database has undone something because two transactions were in each other's way, it is done again. Something that may
//! have been done is never done again here; the caller's error says that it may have been, and the caller knows what can be repeated.

use std::{sync::Arc, time::Duration};

use backon::{ExponentialBuilder, Retryable};
use fermata_engine::store::StoreError;

use crate::{connection::PooledConnection, error::Fault};
use pgvector::Pgvector;
use pool::Pool;
use sessions::Sessions;

mod connect;
pub mod open;
mod pgvector;
pub mod pool;
mod process;
mod sessions;
mod tls;

/// The time that one attempt may take, from the wait for a connection on. It is longer than the server's own limits, and counts if the server
/// answers nothing, because what the connection leads through has forgotten it.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(12);
/// The time before the first new attempt at what the database has undone.
const PAUSE: Duration = Duration::from_millis(10);
/// The number of new attempts.
const ATTEMPTS: usize = 8;
/// The time that the end of connections may take. A server that does not answer is not waited for.
const CLOSING: Duration = Duration::from_secs(3);

/// An open PostgreSQL database. Clones share its connections.
#[derive(Clone)]
pub struct PostgresDatabase {
    pub pool: Pool,
    /// The sessions that show others that the instances of this process are alive.
    pub sessions: Arc<Sessions>,
    /// The extension that compares vectors, if the database has it.
    pub pgvector: Option<Arc<Pgvector>>,
}

/// Says how often work may be done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Once. It is done again only if it was surely not done.
    Once,
    /// As often as one likes: it only reads, or finds that it was done.
    Repeatable,
}

// === impl PostgresDatabase ===

impl PostgresDatabase {
    /// Runs queries outside of a transaction.
    ///
    /// # Errors
    /// Returns [`StoreError::Unclear`] if the connection has ended before an answer came, and the queries cannot be repeated.
    pub async fn run<T, W>(
        &self,
        effect: Effect,
        work: impl Fn(PooledConnection) -> W,
    ) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        self.retrying(effect, || async {
            let pipeline = self.pool.acquire().await?;
            work(PooledConnection::Postgres(pipeline)).await.map_err(|fault| match fault {
                Fault::Lost(text) if effect == Effect::Once => StoreError::Unclear(text).into(),
                fault => fault,
            })
        })
        .await
    }

    /// Does the work, and does it again if the database has undone it, or if its connection has ended and it can be repeated.
    pub async fn retrying<T, W>(&self, effect: Effect, work: impl Fn() -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        let pauses = ExponentialBuilder::new().with_min_delay(PAUSE).with_max_times(ATTEMPTS).with_jitter();
        let done = (|| within(ATTEMPT_TIMEOUT, work())).retry(pauses).when(|fault| match fault {
            Fault::Collided(_) => true,
            Fault::Lost(_) => effect == Effect::Repeatable,
            Fault::ReadOnly(_) | Fault::NotWritten(_) | Fault::Store(_) => false,
        });
        let done = done.await;
        if let Err(Fault::ReadOnly(_)) = done {
            self.pool.replace_all();
        }
        Ok(done?)
    }
}

/// Returns `true` if the URL names a PostgreSQL database.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres:") || url.starts_with("postgresql:")
}

/// Gives up after a time.
async fn within<T>(time: Duration, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    match tokio::time::timeout(time, work).await {
        Ok(done) => done,
        Err(_) => Err(StoreError::Unavailable(format!("no answer within {} s", time.as_secs())).into()),
    }
}
