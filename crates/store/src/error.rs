//! Translates the errors of a database into those of the engine's port. The database's own text is for the operator only.

use fermata_engine::store::StoreError;
use sqlx::{error::DatabaseError, postgres::PgDatabaseError};

/// The reason for which a query failed.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The database has undone this because of another transaction, or of other work in the same one. It can be done again from its
    /// beginning. The text is for the operator.
    Collided(String),
    /// The connection leads to a server that takes no writes, as a standby does, and one that was the primary before. The text is for the
    /// operator.
    ReadOnly(String),
    /// The disk did not take what was written, so nothing was changed, not even if this was a commit. The text is for the operator.
    NotWritten(String),
    /// The error that the engine gets.
    Store(StoreError),
}

/// SQLite's primary result codes that mean something other than "try again, if it was not done".
mod code {
    pub const CORRUPT: u32 = 11;
    pub const FULL: u32 = 13;
    /// SQLITE_IOERR_WRITE, an extended code.
    pub const NOT_WRITTEN: u32 = 778;
    pub const CONSTRAINT: u32 = 19;
    pub const NOT_A_DATABASE: u32 = 26;
}

/// Classifies an error of sqlx by its cause.
pub fn failed(error: sqlx::Error) -> Fault {
    let text = error.to_string();
    let error = match error {
        sqlx::Error::Database(error) => error,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => return StoreError::Corrupt(text).into(),
        _ => return StoreError::Unavailable(text).into(),
    };
    if let Some(error) = error.try_downcast_ref::<PgDatabaseError>() {
        // The first two characters of a code are its class.
        return match error.code() {
            // serialization_failure, deadlock_detected.
            "40001" | "40P01" => Fault::Collided(text),
            // read_only_sql_transaction.
            "25006" => Fault::ReadOnly(text),
            // data_corrupted, index_corrupted.
            "XX001" | "XX002" => StoreError::Corrupt(text).into(),
            // A value that no column takes; a trigger that refuses; a key longer than an index takes.
            code if code.starts_with("22") || code.starts_with("23") || code == "54000" => conflict(text),
            _ => StoreError::Unavailable(text).into(),
        };
    }
    of_sqlite(error.code().and_then(|code| code.parse().ok()).unwrap_or_default(), text)
}

/// Classifies an error of rusqlite by its cause.
pub fn failed_in_sqlite(error: rusqlite::Error) -> Fault {
    let text = error.to_string();
    match error {
        rusqlite::Error::SqliteFailure(error, _) => of_sqlite(error.extended_code.unsigned_abs(), text),
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..) => StoreError::Corrupt(text).into(),
        _ => StoreError::Unavailable(text).into(),
    }
}

/// Classifies SQLite's extended result code.
fn of_sqlite(code: u32, text: String) -> Fault {
    match (code, primary(code)) {
        // A commit that could not be made durable may be on the disk all the same. One that was not even written is not.
        (code::NOT_WRITTEN, _) | (_, code::FULL) => Fault::NotWritten(text),
        (_, code::CORRUPT | code::NOT_A_DATABASE) => StoreError::Corrupt(text).into(),
        // A key that is there already, a column that takes no such value, or a trigger that refuses.
        (_, code::CONSTRAINT) => conflict(text),
        _ => StoreError::Unavailable(text).into(),
    }
}

/// The error for a change that does not fit what is stored.
pub fn conflict(why: impl Into<String>) -> Fault {
    StoreError::Conflict(why.into()).into()
}

/// SQLite's result code without its upper bits, which tell causes apart.
pub fn primary_code(error: &dyn DatabaseError) -> Option<u32> {
    error.code()?.parse::<u32>().ok().map(primary)
}

fn primary(code: u32) -> u32 {
    code & 0xff
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
            Fault::Collided(text) | Fault::ReadOnly(text) | Fault::NotWritten(text) => {
                Self::Unavailable(text)
            }
            Fault::Store(error) => error,
        }
    }
}
