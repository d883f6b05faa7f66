//! A query on a connection to SQLite.
//!
//! rusqlite's types cannot be held across an await, so a statement is prepared only when it is executed. Prepared statements are kept with
//! the connection.

use std::sync::LazyLock;

use dashmap::DashMap;
use rusqlite::{CachedStatement, types::ToSqlOutput};

use super::{Value, rows::FromRow};
use crate::error::{Fault, conflict, failed_in_sqlite};

/// A query whose values are being bound.
pub struct Statement<'c> {
    connection: &'c mut rusqlite::Connection,
    sql: &'static str,
    values: Vec<ToSqlOutput<'c>>,
}

// === impl Statement ===

impl<'c> Statement<'c> {
    pub fn new(connection: &'c mut rusqlite::Connection, sql: &'static str) -> Self {
        Self { connection, sql, values: Vec::with_capacity(8) }
    }

    /// Binds the value of the next parameter.
    pub fn bind(mut self, value: impl Value + 'c) -> Self {
        self.values.push(value.into_sqlite());
        self
    }

    /// Executes the statement, and returns the number of rows that it has changed.
    pub fn execute(self) -> Result<u64, Fault> {
        let changed = self.prepare()?.raw_execute().map_err(failed_in_sqlite)?;
        Ok(changed as u64)
    }

    /// The first rows, at most so many.
    pub fn fetch<T: FromRow>(self, most: usize) -> Result<Vec<T>, Fault> {
        let mut statement = self.prepare()?;
        let mut rows = statement.raw_query();
        let mut found = Vec::new();
        while found.len() < most
            && let Some(row) = rows.next().map_err(failed_in_sqlite)?
        {
            found.push(T::from_sqlite_row(row).map_err(failed_in_sqlite)?);
        }
        Ok(found)
    }

    fn prepare(&self) -> Result<CachedStatement<'_>, Fault> {
        let sql = in_sqlite(self.sql);
        let mut statement = self.connection.prepare_cached(sql).map_err(failed_in_sqlite)?;
        for number in 1..=statement.parameter_count() {
            let value = self.values.get(number - 1);
            let value = value
                .ok_or_else(|| conflict(format!("a parameter of a query has no value: {}", self.sql)))?;
            statement.raw_bind_parameter(number, value).map_err(failed_in_sqlite)?;
        }
        Ok(statement)
    }
}

/// Returns a query as SQLite is to read it, which numbers `$2` by where it stands first, and `?2` as its name says.
fn in_sqlite(sql: &'static str) -> &'static str {
    /// By the address and the length of the text: a query is a constant, and it takes longer to read it than to execute some.
    static QUERIES: LazyLock<DashMap<(usize, usize), &'static str>> = LazyLock::new(DashMap::default);
    let place = (sql.as_ptr().addr(), sql.len());
    if let Some(known) = QUERIES.get(&place) {
        return *known;
    }
    // There are as many of these as there are queries in the program.
    let translated: &str = sql.replace('$', "?").leak();
    QUERIES.insert(place, translated);
    translated
}
