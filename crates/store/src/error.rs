//! Translates the errors of a database into those of the engine's port. The database's own text is for the operator only.

use std::error::Error;

use fermata_engine::store::StoreError;

/// The reason why a value cannot be written to a column or read from it, as the drivers have it.
pub type BoxError = Box<dyn Error + Sync + Send>;

/// The reason why a query failed.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The database has undone this because of another transaction, of other work in the same one, or because it is being stopped. It can be
    /// done again from its beginning. The text is for the operator.
    Collided(String),
    /// The connection leads to a server that takes no writes, as a standby does, and one that was the primary before. The text is for the
    /// operator.
    ReadOnly(String),
    /// The connection has ended before an answer came, so this was done or not. The text is for the operator.
    Lost(String),
    /// The disk did not take what was written, or the server has refused it, so nothing was changed, not even if this was a commit. The text is
    /// for the operator.
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

/// Classifies an error of tokio-postgres, which came instead of the answer to a query, by its cause.
pub fn failed_in_postgres(error: &tokio_postgres::Error) -> Fault {
    let text = describe(error);
    let Some(code) = error.code() else { return Fault::Lost(text) };
    // The first two characters of a code are its class.
    match code.code() {
        // serialization_failure, deadlock_detected; admin_shutdown, crash_shutdown.
        "40001" | "40P01" | "57P01" | "57P02" => Fault::Collided(text),
        // read_only_sql_transaction.
        "25006" => Fault::ReadOnly(text),
        // data_corrupted, index_corrupted.
        "XX001" | "XX002" => StoreError::Corrupt(text).into(),
        // A value that no column takes; a trigger that refuses; a key longer than an index takes.
        code if code.starts_with("22") || code.starts_with("23") || code == "54000" => conflict(text),
        _ => Fault::NotWritten(text),
    }
}

/// The error for a row of PostgreSQL that has other columns than the query asks for.
pub fn unreadable_in_postgres(error: &tokio_postgres::Error) -> Fault {
    StoreError::Corrupt(describe(error)).into()
}

/// Returns an error of tokio-postgres with its causes, for the operator: its own text does not say what the server has said.
pub fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        return format!("{} ({})", answer.message(), answer.code().code());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
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
            Fault::Collided(text) | Fault::ReadOnly(text) | Fault::Lost(text) | Fault::NotWritten(text) => {
                Self::Unavailable(text)
            }
            Fault::Store(error) => error,
        }
    }
}
