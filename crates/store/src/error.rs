//! Translates the errors of a database into those of the engine's port. The database's own text is for the operator only.

use fermata_engine::store::StoreError;
use sqlx::{
    error::{DatabaseError, ErrorKind},
    postgres::PgDatabaseError,
};

/// The reason for which a query failed.
#[derive(Debug)]
pub enum Fault {
    /// Two transactions were in each other's way and the database has undone this one, which can be done again from its beginning. The
    /// text is for the operator.
    Collided(String),
    /// The error that the engine gets.
    Store(StoreError),
}

/// SQLite's primary result codes that mean something other than "try again".
mod code {
    pub const CORRUPT: u32 = 11;
    pub const CONSTRAINT: u32 = 19;
    pub const NOT_A_DATABASE: u32 = 26;
}

/// Classifies an error by its cause.
pub fn failed(error: sqlx::Error) -> Fault {
    let text = error.to_string();
    match error {
        sqlx::Error::Database(database) => by_cause(database.as_ref(), text),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => StoreError::Corrupt(text).into(),
        _ => StoreError::Unavailable(text).into(),
    }
}

/// The error for a change that does not fit what is stored.
pub fn conflict(why: impl Into<String>) -> Fault {
    StoreError::Conflict(why.into()).into()
}

/// SQLite's result code without its upper bits, which tell causes apart.
pub fn primary_code(error: &dyn DatabaseError) -> Option<u32> {
    error.code()?.parse::<u32>().ok().map(|code| code & 0xff)
}

fn by_cause(error: &dyn DatabaseError, text: String) -> Fault {
    match (error.kind(), error.try_downcast_ref::<PgDatabaseError>()) {
        (ErrorKind::Other, Some(error)) => by_postgres_code(error.code(), text),
        (ErrorKind::Other, None) => by_sqlite_code(primary_code(error), text),
        (_, _) => conflict(text),
    }
}

fn by_sqlite_code(primary: Option<u32>, text: String) -> Fault {
    match primary {
        Some(code::CORRUPT | code::NOT_A_DATABASE) => StoreError::Corrupt(text).into(),
        // A trigger that refuses is a constraint too, and has no kind of its own.
        Some(code::CONSTRAINT) => conflict(text),
        Some(_) | None => StoreError::Unavailable(text).into(),
    }
}

/// Classifies an error by PostgreSQL's table of error codes, in which the first two characters are the class.
fn by_postgres_code(code: &str, text: String) -> Fault {
    match code {
        // serialization_failure, deadlock_detected.
        "40001" | "40P01" => Fault::Collided(text),
        // data_corrupted, index_corrupted.
        "XX001" | "XX002" => StoreError::Corrupt(text).into(),
        // A value that no column takes; a trigger that refuses; a key longer than an index takes.
        _ if code.starts_with("22") || code.starts_with("23") || code == "54000" => conflict(text),
        _ => StoreError::Unavailable(text).into(),
    }
}

// === impl Fault ===

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Collided(text) => Self::Unavailable(text),
            Fault::Store(error) => error,
        }
    }
}
