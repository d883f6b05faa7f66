//! A connection to either database, its transactions, and the queries that run on it.
//!
//! A query is the driver's own: rusqlite's or tokio-postgres's, depending on the database. A value can be bound and a
//! row can be read only if both drivers know its type, so the compiler checks each query for both databases, and a value may be written
//! differently in each of them, as [`Text`](crate::text::Text) is.
//!
//! Queries on SQLite block the thread, and are ready at the first poll. The code that takes a connection to it decides which thread that
//! is; for a row or two it is the thread of the task, because to have another thread do it takes longer than the query.
//!
//! In a transaction, PostgreSQL is not asked to answer one query before the next one is sent ([`Pipeline`]).

pub mod pipeline;
pub mod readers;
mod rows;
mod statement;
mod value;

use std::ops::{Deref, DerefMut};

use tokio::sync::OwnedMutexGuard;

use pipeline::{Pipeline, PipelinedQuery};
use readers::{Reader, Snapshot};
pub use rows::FromRow;
pub(crate) use rows::row;
use statement::Statement;
pub use value::Value;

use crate::{
    chain::Chain,
    error::{Fault, conflict},
};

/// A borrowed connection, which may be in a transaction.
pub enum Connection<'a> {
    Sqlite(&'a mut SqliteConnection),
    Postgres(&'a mut Pipeline),
}

/// A connection to a SQLite file.
pub struct SqliteConnection {
    connection: rusqlite::Connection,
    /// The chain of the audit, for the connection that writes. Its head follows what is written with this connection, so the
    /// thread that undoes something also forgets the head.
    pub chain: Option<Chain>,
}

/// The connection that writes to SQLite while it is one's turn, within a transaction. It goes back when this is dropped.
pub type Turn = OwnedMutexGuard<SqliteConnection>;

/// A connection that goes back when it is dropped.
pub enum PooledConnection {
    SqliteReader(Reader),
    SqliteWriter(Turn),
    Postgres(Pipeline),
}

/// A transaction. The code that began it commits it.
pub enum Transaction {
    SqliteReader(Snapshot),
    SqliteWriter(Turn),
    Postgres(Pipeline),
}

/// A query whose values are being bound.
#[must_use = "a query does nothing before it is executed or its rows are fetched"]
pub enum Query<'c> {
    Sqlite(Statement<'c>),
    Postgres(PipelinedQuery<'c>),
}

// === impl Connection ===

impl Connection<'_> {
    /// A query in the SQL that both databases share.
    pub fn query(&mut self, sql: &'static str) -> Query<'_> {
        match self {
            Self::Sqlite(connection) => Query::Sqlite(Statement::new(connection, sql)),
            Self::Postgres(pipeline) => Query::Postgres(pipeline.query(sql)),
        }
    }

    /// Waits until all queries of the transaction were answered that were sent, and returns the first fault.
    pub async fn take_answers(&mut self) -> Result<(), Fault> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(pipeline) => pipeline.take_answers().await,
        }
    }

    /// Returns the chain of the audit that this transaction extends.
    ///
    /// # Errors
    /// If it is no transaction that writes.
    pub fn chain(&mut self) -> Result<&mut Chain, Fault> {
        let chain = match self {
            Self::Sqlite(connection) => connection.chain.as_mut(),
            Self::Postgres(pipeline) => pipeline.chain(),
        };
        chain.ok_or_else(|| conflict("a row of the audit needs a transaction that writes"))
    }

    /// Returns the one of two texts that is for this database.
    pub fn choose<T>(&self, in_sqlite: T, in_postgres: T) -> T {
        match self {
            Self::Sqlite(_) => in_sqlite,
            Self::Postgres(_) => in_postgres,
        }
    }
}

// === impl SqliteConnection ===

impl SqliteConnection {
    /// Makes it the connection that writes.
    pub fn with_chain(self, chain: Chain) -> Self {
        Self { chain: Some(chain), ..self }
    }

    /// Forgets the head of the chain, because rows were undone. The next row reads it.
    pub fn forget_head(&mut self) {
        if let Some(chain) = &mut self.chain {
            chain.head = None;
        }
    }
}

impl From<rusqlite::Connection> for SqliteConnection {
    fn from(connection: rusqlite::Connection) -> Self {
        Self { connection, chain: None }
    }
}

impl Deref for SqliteConnection {
    type Target = rusqlite::Connection;

    fn deref(&self) -> &rusqlite::Connection {
        &self.connection
    }
}

impl DerefMut for SqliteConnection {
    fn deref_mut(&mut self) -> &mut rusqlite::Connection {
        &mut self.connection
    }
}

// === impl PooledConnection ===

impl PooledConnection {
    pub fn get(&mut self) -> Connection<'_> {
        match self {
            Self::SqliteReader(connection) => Connection::Sqlite(connection),
            Self::SqliteWriter(connection) => Connection::Sqlite(connection),
            Self::Postgres(pipeline) => Connection::Postgres(pipeline),
        }
    }
}

// === impl Transaction ===

impl Transaction {
    pub fn get(&mut self) -> Connection<'_> {
        match self {
            Self::SqliteReader(snapshot) => Connection::Sqlite(snapshot.get()),
            Self::SqliteWriter(connection) => Connection::Sqlite(connection),
            Self::Postgres(pipeline) => Connection::Postgres(pipeline),
        }
    }

    pub async fn commit(self) -> Result<(), Fault> {
        match self {
            // It has changed nothing; or the thread that has lent the connection commits.
            Self::SqliteReader(_) | Self::SqliteWriter(_) => Ok(()),
            Self::Postgres(mut pipeline) => pipeline.commit().await,
        }
    }
}

// === impl Query ===

impl<'c> Query<'c> {
    /// Binds the value of the next parameter.
    pub fn bind<V: Value + 'c>(self, value: V) -> Self {
        match self {
            Self::Sqlite(statement) => Self::Sqlite(statement.bind(value)),
            Self::Postgres(query) => Self::Postgres(query.bind(value)),
        }
    }

    /// Executes the query. In a transaction its error may come from a later query, or from the commit.
    pub async fn execute(self) -> Result<(), Fault> {
        match self {
            Self::Sqlite(statement) => statement.execute().map(drop),
            Self::Postgres(query) => query.execute().await,
        }
    }

    /// As [`Query::execute`]. If the query changes no row, the transaction fails with this.
    pub async fn execute_or(self, otherwise: Fault) -> Result<(), Fault> {
        match self {
            Self::Sqlite(statement) => {
                if statement.execute()? == 0 {
                    Err(otherwise)
                } else {
                    Ok(())
                }
            }
            Self::Postgres(query) => query.execute_or(otherwise).await,
        }
    }

    /// Executes the query, and returns the number of rows that it has changed.
    pub async fn count(self) -> Result<u64, Fault> {
        match self {
            Self::Sqlite(statement) => statement.execute(),
            Self::Postgres(query) => query.count().await,
        }
    }

    /// All rows.
    pub async fn fetch_all<T: FromRow>(self) -> Result<Vec<T>, Fault> {
        match self {
            Self::Sqlite(statement) => statement.fetch(usize::MAX),
            Self::Postgres(query) => query.fetch().await,
        }
    }

    /// The first row, if there is one.
    pub async fn fetch_optional<T: FromRow>(self) -> Result<Option<T>, Fault> {
        let rows = match self {
            Self::Sqlite(statement) => statement.fetch(1)?,
            Self::Postgres(query) => query.fetch().await?,
        };
        Ok(rows.into_iter().next())
    }

    /// The first row of a query that always has one.
    pub async fn fetch_one<T: FromRow>(self) -> Result<T, Fault> {
        self.fetch_optional().await?.ok_or_else(|| conflict("a query has found no row"))
    }
}
