//! The options for opening a database, and the reasons why it cannot be opened.

use std::path::PathBuf;

use crate::evidence::AuditKey;

/// The options for opening a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// `true` if missing migrations are applied. Otherwise a database that lacks a migration is refused.
    pub migrate: bool,
    /// The largest number of connections, beside one for each instance. SQLite ignores it.
    pub connections: u32,
    /// The key that signs checkpoints and cuts of the audit.
    pub audit_key: Option<AuditKey>,
}

/// The reason why a database cannot be opened, as text for the operator that never contains a password.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL does not name a database that can be used.
    #[error(
        "DATABASE_URL is not understood ({0}); write sqlite://<path of a file>, for example sqlite://fermata.db, or postgres://<user>:<password>@<host>/<database>"
    )]
    BadUrl(String),
    /// The folder of the file is not there.
    #[error("the folder {} of the database does not exist (DATABASE_URL); create it first", .0.display())]
    NoFolder(PathBuf),
    /// The file cannot be created, opened or written.
    #[error("the database {} cannot be opened for writing ({reason}); check DATABASE_URL and the permissions of the file and its folder", .path.display())]
    NotWritable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the database.
        reason: String,
    },
    /// The file is something else.
    #[error("{} is not a SQLite database (DATABASE_URL)", .0.display())]
    NotADatabase(PathBuf),
    /// No server answers there.
    #[error(
        "the PostgreSQL server at {server} cannot be reached ({reason}); check DATABASE_URL and whether the server runs"
    )]
    Unreachable {
        /// The host and the port.
        server: String,
        /// The error of the attempt to connect.
        reason: String,
    },
    /// The server does not let this user in.
    #[error(
        "the PostgreSQL server at {server} does not let {user} in ({reason}); check user and password in DATABASE_URL"
    )]
    NotLetIn {
        /// The host and the port.
        server: String,
        /// The user's name.
        user: String,
        /// The error of the server.
        reason: String,
    },
    /// The server has no database of this name.
    #[error(
        "the PostgreSQL server at {server} has no database {name}; create it first, or check DATABASE_URL"
    )]
    NoDatabase {
        /// The host and the port.
        server: String,
        /// The name or the path of the database.
        name: String,
    },
    /// The server is too old.
    #[error("the PostgreSQL server at {server} is version {version}; Fermata needs 15 or later")]
    TooOld {
        /// The host and the port.
        server: String,
        /// The server's major version.
        version: i32,
    },
    /// The user lacks a right.
    #[error(
        "the user {user} may not use the database {database} as Fermata does ({reason}); grant it what is missing, or run fermata migrate as the owner of the database"
    )]
    NotPermitted {
        /// The name or the path of the database.
        database: String,
        /// The user's name.
        user: String,
        /// The error of the server.
        reason: String,
    },
    /// Migrations are missing, and are not to be applied now.
    #[error("the database {database} is empty, or older than this version of Fermata; run fermata migrate")]
    Behind {
        /// The name or the path of the database.
        database: String,
    },
    /// A newer version of this program has changed the database in a way that this one cannot deal with.
    #[error(
        "the database {database} needs a newer version of Fermata (migration {migration}); use that version, or another database"
    )]
    Newer {
        /// The name or the path of the database.
        database: String,
        /// The migration that a program has to know.
        migration: i64,
    },
    /// The database was made before there was a release.
    #[error(
        "the database {database} was made before version 0.1.0 of Fermata, and no release can read it; move it away, or set DATABASE_URL to a new one"
    )]
    Unreleased {
        /// The name or the path of the database.
        database: String,
    },
    /// The database cannot be opened for another reason.
    #[error("the database {database} cannot be opened: {reason}")]
    Failed {
        /// The name or the path of the database.
        database: String,
        /// The error of the database.
        reason: String,
    },
}

// === impl OpenOptions ===

impl Default for OpenOptions {
    fn default() -> Self {
        Self { migrate: true, connections: 10, audit_key: None }
    }
}
