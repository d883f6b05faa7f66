//! Opens the database that a URL names, whichever kind it is.

use std::{fmt, path::PathBuf, sync::Arc};

use fermata_engine::{Store, store::StoreError};

use crate::{BadClusterKey, ClusterKey, Notes, SqlStore, postgres, sqlite};

/// The options with which a database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// True if missing migrations are applied. Otherwise a database that lacks a migration is refused.
    pub migrate: bool,
    /// The largest number of connections, beside one for each instance. SQLite ignores it.
    pub connections: u32,
}

/// An open database. Clones share its connections.
#[derive(Clone)]
pub struct Database {
    /// The chats, runs and calls, and the instances that are alive.
    pub store: Arc<dyn Store>,
    /// The notes in the same database.
    pub notes: Notes,
    sql: SqlStore,
}

/// The migrations that were applied to bring a database up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The number and the name of each migration that was applied, in order; empty if none was missing.
    pub applied: Vec<String>,
}

/// The reason for which a database cannot be opened, as text for the operator that never contains a password.
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
        version: u32,
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
    #[error("the database {database} is older than this version of Fermata; run fermata migrate")]
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
    /// The database cannot be opened for another reason.
    #[error("the database {database} cannot be opened: {reason}")]
    Failed {
        /// The name or the path of the database.
        database: String,
        /// The error of the database.
        reason: String,
    },
}

/// The reason for which a database has no key for its instances.
#[derive(Debug, thiserror::Error)]
pub enum NoClusterKey {
    /// The database has failed.
    #[error("the key of the instances cannot be read from the database: {0}")]
    Store(#[from] StoreError),
    /// The key in the database was changed to something that is no key.
    #[error("the key of the instances in the database (cluster_keys) cannot be used: {0}")]
    Bad(#[from] BadClusterKey),
    /// No key can be made, because the system has no random numbers.
    #[error("the system has no random numbers")]
    NoRandomNumbers,
}

/// Opens the database that the URL names: `sqlite://<path>`, `sqlite:<path>`, `sqlite::memory:`, `postgres://…` or `postgresql://…`.
///
/// # Errors
/// If the URL, the place, the server or the version does not allow it.
pub async fn open(url: &str, options: &OpenOptions) -> Result<Database, OpenError> {
    let sql = SqlStore::open_with(url, options).await?;
    Ok(Database { store: Arc::new(sql.clone()), notes: sql.notes(), sql })
}

/// Brings the database that the URL names up to date, and makes the file of a SQLite database that is not there. Several processes may
/// do it at once, also while older servers run.
///
/// # Errors
/// For the same reasons as [`open`].
pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
    if is_postgres(url) { postgres::open::migrate(url).await } else { sqlite::open::migrate(url).await }
}

pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres:") || url.starts_with("postgresql:")
}

// === impl OpenOptions ===

impl Default for OpenOptions {
    fn default() -> Self {
        Self { migrate: true, connections: 10 }
    }
}

// === impl Database ===

impl Database {
    /// The key that all instances on this database share. It is made when it is asked for the first time.
    ///
    /// # Errors
    /// If the database fails or its key cannot be used.
    pub async fn cluster_key(&self) -> Result<ClusterKey, NoClusterKey> {
        let new = ClusterKey::draw().map_err(|_| NoClusterKey::NoRandomNumbers)?;
        Ok(ClusterKey::parse(&self.sql.cluster_key(&new).await?)?)
    }

    /// Waits for what is under way and closes all connections, also those of clones.
    pub async fn close(&self) {
        self.sql.close().await;
    }
}

// === impl Migrated ===

impl fmt::Display for Migrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.applied.is_empty() {
            return f.write_str("the database is up to date; there was nothing to do");
        }
        write!(f, "applied {}", self.applied.join(", "))
    }
}
