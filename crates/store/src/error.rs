//! Translates the errors of a database into those of the engine's port. The database's own text is for the operator only.

use fermata_engine::store::StoreError;
use sqlx::{
    error::{DatabaseError, ErrorKind},
    postgres::PgDatabaseError,
};

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
    pub const NOT_WRITTEN: &str = "778";
    pub const CONSTRAINT: u32 = 19;
    pub const NOT_A_DATABASE: u32 = 26;
}

/// Classifies an error by its cause.
pub fn failed(error: sqlx::Error) -> Fault {
    let text = error.to_string();
    let error = match error {
        sqlx::Error::Database(error) => error,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => return StoreError::Corrupt(text).into(),
        _ => return StoreError::Unavailable(text).into(),
    };
    if !matches!(error.kind(), ErrorKind::Other) {
        return conflict(text);
    }
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
    // A commit that could not be made durable may be on the disk all the same. One that was not even written is not.
    if error.code().is_some_and(|code| code == code::NOT_WRITTEN) {
        return Fault::NotWritten(text);
    }
    match primary_code(error.as_ref()) {
        Some(code::CORRUPT | code::NOT_A_DATABASE) => StoreError::Corrupt(text).into(),
        Some(code::FULL) => Fault::NotWritten(text),
        // A trigger that refuses is a constraint too, and has no kind of its own.
        Some(code::CONSTRAINT) => conflict(text),
        Some(_) | None => StoreError::Unavailable(text).into(),
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
