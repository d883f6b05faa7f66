//! The database that a store is kept in, its connections and its transactions.
//!
//! PostgreSQL undoes one of two transactions that are in each other's way. The work that is handed in is then done again from its
//! beginning, so it may be done several times.

use fermata_engine::store::StoreError;
use sqlx::{Postgres, Sqlite, pool::PoolConnection};

use crate::{
    connection::Connection,
    error::{Fault, failed},
    postgres::{self, PostgresDatabase},
    sqlite::SqliteDatabase,
};

/// An open database. Clones share its connections.
#[derive(Clone)]
pub enum Backend {
    Sqlite(SqliteDatabase),
    Postgres(PostgresDatabase),
}

/// A connection that goes back to its pool when it is dropped.
pub enum PooledConnection {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

/// A transaction, which the database undoes if it is dropped before it is committed.
pub enum Transaction {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres(sqlx::Transaction<'static, Postgres>),
}

// === impl Backend ===

impl Backend {
    /// Runs queries that only read.
    pub async fn read<T, W>(&self, work: impl Fn(PooledConnection) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        match self {
            Self::Sqlite(database) => Ok(work(PooledConnection::Sqlite(database.reader().await?)).await?),
            Self::Postgres(database) => database.run(work).await,
        }
    }

    /// Runs queries that write, each of them a transaction by itself.
    pub async fn write<T, W>(&self, work: impl Fn(PooledConnection) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        match self {
            Self::Sqlite(database) => Ok(work(PooledConnection::Sqlite(database.writer().await?)).await?),
            Self::Postgres(database) => database.run(work).await,
        }
    }

    /// Does work with transactions of its own.
    pub async fn run<T, W>(&self, work: impl Fn() -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        match self {
            Self::Sqlite(_) => Ok(work().await?),
            Self::Postgres(_) => postgres::retrying(work).await,
        }
    }

    /// Begins a transaction that may write.
    pub async fn begin(&self) -> Result<Transaction, Fault> {
        match self {
            Self::Sqlite(database) => database.begin().await.map(Transaction::Sqlite),
            Self::Postgres(database) => database.begin().await.map(Transaction::Postgres),
        }
    }

    /// Begins a transaction that only reads, and sees the database as of one moment.
    pub async fn begin_snapshot(&self) -> Result<Transaction, Fault> {
        match self {
            Self::Sqlite(database) => database.begin_snapshot().await.map(Transaction::Sqlite),
            Self::Postgres(database) => database.begin_snapshot().await.map(Transaction::Postgres),
        }
    }

    /// Waits for what is under way and closes all connections, also those of clones.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(database) => database.close().await,
            Self::Postgres(database) => database.close().await,
        }
    }
}

// === impl PooledConnection ===

impl PooledConnection {
    pub fn get(&mut self) -> Connection<'_> {
        match self {
            Self::Sqlite(connection) => Connection::Sqlite(connection),
            Self::Postgres(connection) => Connection::Postgres(connection),
        }
    }
}

// === impl Transaction ===

impl Transaction {
    pub fn get(&mut self) -> Connection<'_> {
        match self {
            Self::Sqlite(transaction) => Connection::Sqlite(transaction),
            Self::Postgres(transaction) => Connection::Postgres(transaction),
        }
    }

    pub async fn commit(self) -> Result<(), Fault> {
        match self {
            Self::Sqlite(transaction) => transaction.commit().await.map_err(failed),
            Self::Postgres(transaction) => transaction.commit().await.map_err(failed),
        }
    }

    /// Commits like [`Transaction::commit`]. If PostgreSQL does not answer, the error is [`StoreError::Unclear`], because it may have heard
    /// the request.
    pub async fn commit_or_unclear(self) -> Result<(), Fault> {
        let is_remote = match self {
            Self::Sqlite(_) => false,
            Self::Postgres(_) => true,
        };
        match self.commit().await {
            Err(Fault::Store(StoreError::Unavailable(text))) if is_remote => {
                Err(StoreError::Unclear(text).into())
            }
            other => other,
        }
    }
}
