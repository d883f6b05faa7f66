//! What a database's error means to the engine. The database's own words go to the operator and no further.

use fermata_engine::store::StoreError;
use sqlx::error::{DatabaseError, ErrorKind};

/// SQLite's primary result codes that mean something other than "try again".
mod code {
    pub const CORRUPT: u32 = 11;
    pub const CONSTRAINT: u32 = 19;
    pub const NOT_A_DATABASE: u32 = 26;
}

/// The error by its cause.
pub fn failed(error: sqlx::Error) -> StoreError {
    let text = error.to_string();
    match error {
        sqlx::Error::Database(database) => by_cause(database.as_ref(), text),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => StoreError::Corrupt(text),
        _ => StoreError::Unavailable(text),
    }
}

/// A change that does not fit what is stored.
pub fn misfit(why: impl Into<String>) -> StoreError {
    StoreError::Conflict(why.into())
}

/// SQLite's result code, without what it adds in the upper bits to tell causes apart.
pub fn primary_code(error: &dyn DatabaseError) -> Option<u32> {
    error.code()?.parse::<u32>().ok().map(|code| code & 0xff)
}

fn by_cause(error: &dyn DatabaseError, text: String) -> StoreError {
    match (error.kind(), primary_code(error)) {
        (ErrorKind::Other, Some(code::CORRUPT | code::NOT_A_DATABASE)) => StoreError::Corrupt(text),
        // A trigger that refuses is a constraint too, and has no kind of its own.
        (ErrorKind::Other, Some(code::CONSTRAINT)) => StoreError::Conflict(text),
        (ErrorKind::Other, _) => StoreError::Unavailable(text),
        (_, _) => StoreError::Conflict(text),
    }
}
