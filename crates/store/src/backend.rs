//! The database that a store is kept in.
//!
//! PostgreSQL undoes one of two transactions that are in each other's way. The work that is handed in is then done again from its
//! beginning, so it may be done several times.

use std::sync::atomic::{AtomicBool, Ordering};

use fermata_engine::store::StoreError;

use crate::{
    connection::{PooledConnection, Transaction},
    error::{Fault, failed},
    postgres::PostgresDatabase,
    sqlite::SqliteDatabase,
};

/// An open database. Clones share its connections.
#[derive(Clone)]
pub enum Backend {
    Sqlite(SqliteDatabase),
    Postgres(PostgresDatabase),
}

// === impl Backend ===

impl Backend {
    /// Runs queries that only read.
    pub async fn read<T, W>(&self, work: impl Fn(PooledConnection) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        match self {
            Self::Sqlite(database) => {
                let connection = database.readers.acquire().await.map_err(failed)?;
                Ok(work(PooledConnection::Sqlite(connection)).await?)
            }
            Self::Postgres(database) => database.run(work).await,
        }
    }

    /// Runs queries that write, each of them a transaction by itself.
    pub async fn write<T, W>(&self, work: impl Fn(PooledConnection) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        match self {
            Self::Sqlite(database) => {
                let connection = database.writer.acquire().await.map_err(failed)?;
                Ok(work(PooledConnection::Sqlite(connection)).await?)
            }
            Self::Postgres(database) => database.run(work).await,
        }
    }

    /// Runs queries that write in one transaction, which is handed in and, unless they fail, given back to be committed.
    ///
    /// # Errors
    /// Returns [`StoreError::Unclear`] if the database may have heard that it is to commit, and has not said that it has done so.
    pub async fn transact<T, W>(&self, work: impl Fn(Transaction) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<(Transaction, T), Fault>>,
    {
        // Of any of the attempts.
        let may_be_committed = AtomicBool::new(false);
        let done = self.run(|| async {
            let (transaction, done) = work(self.begin().await?).await?;
            may_be_committed.store(true, Ordering::Relaxed);
            let committed = transaction.commit().await;
            if let Err(Fault::Collided(_) | Fault::NotWritten(_)) = committed {
                may_be_committed.store(false, Ordering::Relaxed);
            }
            committed.map(|()| done)
        });
        let done = done.await.map_err(|error| match error {
            StoreError::Unavailable(text) if may_be_committed.load(Ordering::Relaxed) => {
                StoreError::Unclear(text)
            }
            error => error,
        });
        if let Self::Sqlite(database) = self {
            database.note(&done);
        }
        done
    }

    /// Does work with transactions of its own.
    pub async fn run<T, W>(&self, work: impl Fn() -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        match self {
            Self::Sqlite(_) => Ok(work().await?),
            Self::Postgres(database) => database.retrying(work).await,
        }
    }

    /// Begins a transaction that may write.
    pub async fn begin(&self) -> Result<Transaction, Fault> {
        match self {
            Self::Sqlite(database) => database.begin().await.map(Transaction::Sqlite),
            Self::Postgres(database) => database.pool.begin("begin").await.map(Transaction::Postgres),
        }
    }

    /// Begins a transaction that only reads, and sees the database as of one moment.
    pub async fn begin_snapshot(&self) -> Result<Transaction, Fault> {
        match self {
            Self::Sqlite(database) => database.readers.begin().await.map(Transaction::Sqlite).map_err(failed),
            Self::Postgres(database) => {
                let begin = "begin isolation level repeatable read read only";
                database.pool.begin(begin).await.map(Transaction::Postgres)
            }
        }
    }
}
