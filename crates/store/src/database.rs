//! Opens the database that a URL names, of either kind.

use std::sync::Arc;

use fermata_engine::{Store, store::StoreError};
use fermata_tools::Owner;

use crate::{
    ChannelRecords, Decision, Migrated, Notes, OpenError, OpenOptions, SharedClock, SqlStore,
    backend::Backend,
    postgres::{self, is_postgres, pool::Connections},
    queries::{audit, cluster_keys, owners},
    sqlite,
};

mod evidence;

pub use evidence::Checkpointed;

/// An open database. Clones share its connections.
#[derive(Clone)]
pub struct Database {
    /// The chats, runs and calls, and the instances that are alive.
    pub store: Arc<dyn Store>,
    /// The notes in the same database.
    pub notes: Notes,
    /// What channels keep in the same database.
    pub channel_records: ChannelRecords,
    sql: SqlStore,
}

/// Opens the database that the URL names: `sqlite://<path>`, `sqlite:<path>`, `sqlite::memory:`, `postgres://…` or `postgresql://…`.
///
/// # Errors
/// If the URL, the place, the server or the version does not allow it.
pub async fn open(url: &str, options: &OpenOptions) -> Result<Database, OpenError> {
    let sql = SqlStore::open_with(url, options).await?;
    Ok(Database {
        store: Arc::new(sql.clone()),
        notes: sql.notes(),
        channel_records: sql.channel_records(),
        sql,
    })
}

/// Brings the database that the URL names up to date, and makes the file of a SQLite database that is not there. Several processes may
/// do it at once, even while older servers run.
///
/// # Errors
/// For the same reasons as [`open`].
pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
    if is_postgres(url) { postgres::open::migrate(url).await } else { sqlite::open::migrate(url).await }
}

// === impl Database ===

impl Database {
    /// Returns the key that all instances on this database share: `new`, if there is none yet.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn cluster_key(&self, new: &str) -> Result<String, StoreError> {
        let backend = &self.sql.backend;
        backend.write(|mut db| async move { cluster_keys::find_or_keep(&mut db.get(), new).await }).await
    }

    /// The clock that all instances on this database share; this machine's if the database has none.
    pub fn clock(&self) -> SharedClock {
        match &self.sql.backend {
            Backend::Sqlite(_) => SharedClock::default(),
            Backend::Postgres(database) => database.sessions.clock.clone(),
        }
    }

    /// Decisions about the owner's calls, the oldest first, at most `limit`, behind the one of this number. Those of chats that were deleted
    /// are among them.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn decisions(
        &self,
        owner: &Owner,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Decision>, StoreError> {
        self.sql
            .backend
            .read(owner.clone(), |mut db, owner| async move {
                audit::of_owner(&mut db.get(), &owner, after, limit).await
            })
            .await
    }

    /// Forgets what is known of the owner's client, and what the owner has allowed in all chats.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn forget_client(&self, owner: &Owner) -> Result<(), StoreError> {
        self.sql
            .backend
            .write(|mut db| async move { owners::forget_client(&mut db.get(), owner).await })
            .await
    }

    /// Overwrites what is left of deleted rows in a SQLite file, which a server does with its next heartbeats.
    pub async fn sweep(&self) {
        self.sql.sweep().await;
    }

    /// Returns the state of the connections to PostgreSQL. With SQLite there are none.
    pub fn connections(&self) -> Connections {
        match &self.sql.backend {
            Backend::Sqlite(_) => Connections::default(),
            Backend::Postgres(database) => database.pool.connections(),
        }
    }

    /// Waits for the work under way and closes all connections, including those of clones.
    pub async fn close(&self) {
        self.sql.close().await;
    }
}
