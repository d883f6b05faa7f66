//! A connection to either database, its transactions, and the queries that run on it.
//!
//! A query is the driver's own, of the database to which the connection leads: rusqlite's or sqlx's. A value can be bound and a row can be
//! read only if both drivers know its type, so the compiler checks each query for both databases, and a value may be written
//! differently in each of them, as [`Text`](crate::text::Text) is.
//!
//! Queries on SQLite block the thread, and are ready when they are polled first. Whoever takes a connection to it decides which thread that
//! is; for a row or two it is the thread of the task, because to have another thread do it takes longer than the query.

pub mod readers;
mod statement;

use rusqlite::ToSql;
use sqlx::{
    Encode, FromRow, PgConnection, Postgres, Type,
    pool::PoolConnection,
    postgres::{PgArguments, PgRow},
    query::Query as SqlxQuery,
};
use tokio::sync::OwnedMutexGuard;

use readers::{Reader, Snapshot};
pub use statement::FromSqliteRow;
use statement::Statement;

use crate::error::{Fault, failed};

/// A borrowed connection, which may be in a transaction.
pub enum Connection<'a> {
    Sqlite(&'a mut rusqlite::Connection),
    Postgres(&'a mut PgConnection),
}

/// The connection that writes to SQLite while it is one's turn, within a transaction. It goes back when this is dropped.
pub type Turn = OwnedMutexGuard<rusqlite::Connection>;

/// A connection that goes back when it is dropped.
pub enum PooledConnection {
    SqliteReader(Reader),
    SqliteWriter(Turn),
    Postgres(PoolConnection<Postgres>),
}

/// A transaction. Whoever has begun it commits it.
pub enum Transaction {
    SqliteReader(Snapshot),
    SqliteWriter(Turn),
    Postgres(sqlx::Transaction<'static, Postgres>),
}

/// A query whose values are being bound.
#[must_use = "a query does nothing before it is executed or its rows are fetched"]
pub enum Query<'c> {
    Sqlite(Statement<'c>),
    Postgres(&'c mut PgConnection, SqlxQuery<'c, Postgres, PgArguments>),
}

/// A value that columns of both databases take.
pub trait Value<'q>: ToSql + Encode<'q, Postgres> + Type<Postgres> + Send + 'q {}

/// A type that can be read from the rows of both databases.
pub trait FromEitherRow: FromSqliteRow + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

impl<'q, T> Value<'q> for T where T: ToSql + Encode<'q, Postgres> + Type<Postgres> + Send + 'q {}

impl<T> FromEitherRow for T where T: FromSqliteRow + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

/// Declares a struct that is read from a row of either database by the names of its fields.
macro_rules! row {
    ($(#[$attribute:meta])* $visibility:vis struct $row:ident { $($(#[$about:meta])* $column:ident: $type:ty,)+ }) => {
        $(#[$attribute])*
        $visibility struct $row {
            $($(#[$about])* $column: $type,)+
        }

        impl sqlx::FromRow<'_, sqlx::postgres::PgRow> for $row {
            fn from_row(row: &sqlx::postgres::PgRow) -> Result<Self, sqlx::Error> {
                use sqlx::Row as _;
                Ok(Self { $($column: row.try_get(stringify!($column))?,)+ })
            }
        }

        impl crate::connection::FromSqliteRow for $row {
            fn from_sqlite_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
                Ok(Self { $($column: row.get(stringify!($column))?,)+ })
            }
        }
    };
}

pub(crate) use row;

// === impl Connection ===

impl Connection<'_> {
    /// A query in the SQL that both databases share.
    pub fn query(&mut self, sql: &'static str) -> Query<'_> {
        match self {
            Self::Sqlite(connection) => Query::Sqlite(Statement::new(connection, sql)),
            Self::Postgres(connection) => Query::Postgres(connection, sqlx::query(sql)),
        }
    }

    /// Returns the one of two texts that is for this database.
    pub fn choose<T>(&self, in_sqlite: T, in_postgres: T) -> T {
        match self {
            Self::Sqlite(_) => in_sqlite,
            Self::Postgres(_) => in_postgres,
        }
    }
}

// === impl PooledConnection ===

impl PooledConnection {
    pub fn get(&mut self) -> Connection<'_> {
        match self {
            Self::SqliteReader(connection) => Connection::Sqlite(connection),
            Self::SqliteWriter(connection) => Connection::Sqlite(connection),
            Self::Postgres(connection) => Connection::Postgres(connection),
        }
    }
}

// === impl Transaction ===

impl Transaction {
    pub fn get(&mut self) -> Connection<'_> {
        match self {
            Self::SqliteReader(snapshot) => Connection::Sqlite(snapshot.get()),
            Self::SqliteWriter(connection) => Connection::Sqlite(connection),
            Self::Postgres(transaction) => Connection::Postgres(transaction),
        }
    }

    pub async fn commit(self) -> Result<(), Fault> {
        match self {
            // It has changed nothing; or the thread that has lent the connection commits.
            Self::SqliteReader(_) | Self::SqliteWriter(_) => Ok(()),
            Self::Postgres(transaction) => transaction.commit().await.map_err(failed),
        }
    }
}

// === impl Query ===

impl<'c> Query<'c> {
    /// Binds the value of the next parameter.
    pub fn bind<T: Value<'c>>(self, value: T) -> Self {
        match self {
            Self::Sqlite(statement) => Self::Sqlite(statement.bind(value)),
            Self::Postgres(connection, query) => Self::Postgres(connection, query.bind(value)),
        }
    }

    /// Executes the query, and returns the number of rows that it has changed.
    pub async fn execute(self) -> Result<u64, Fault> {
        match self {
            Self::Sqlite(statement) => statement.execute(),
            Self::Postgres(connection, query) => {
                Ok(query.execute(connection).await.map_err(failed)?.rows_affected())
            }
        }
    }

    /// All rows.
    pub async fn fetch_all<T: FromEitherRow>(self) -> Result<Vec<T>, Fault> {
        match self {
            Self::Sqlite(statement) => statement.fetch(usize::MAX),
            Self::Postgres(connection, query) => {
                query.try_map(|row| T::from_row(&row)).fetch_all(connection).await.map_err(failed)
            }
        }
    }

    /// The first row, if there is one.
    pub async fn fetch_optional<T: FromEitherRow>(self) -> Result<Option<T>, Fault> {
        match self {
            Self::Sqlite(statement) => Ok(statement.fetch(1)?.into_iter().next()),
            Self::Postgres(connection, query) => {
                query.try_map(|row| T::from_row(&row)).fetch_optional(connection).await.map_err(failed)
            }
        }
    }

    /// The first row of a query that always has one.
    pub async fn fetch_one<T: FromEitherRow>(self) -> Result<T, Fault> {
        match self.fetch_optional().await? {
            Some(row) => Ok(row),
            None => Err(failed(sqlx::Error::RowNotFound)),
        }
    }
}
