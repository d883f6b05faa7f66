//! The connections to a SQLite file that read.

use std::time::Duration;

use deadpool::{
    Runtime,
    managed::{self, Metrics, Object, PoolError, RecycleResult, Timeouts},
};
use fermata_engine::store::StoreError;

use super::SqliteConnection;
use crate::error::{Fault, failed_in_sqlite};

/// The time that a query waits for a connection.
const QUEUE: Duration = Duration::from_secs(15);
/// The most connections that read. Each keeps its own copies of pages.
const READERS: usize = 4;

/// The connections that read. Clones share them. They are opened when they are needed.
#[derive(Clone)]
pub struct Readers(managed::Pool<Connect>);

/// A connection that reads. It goes back when it is dropped.
pub type Reader = Object<Connect>;

/// A connection whose queries all see the database as of the moment of the first one.
pub struct Snapshot(Reader);

type Opened = rusqlite::Result<rusqlite::Connection>;

/// Opens the connections.
pub struct Connect(Box<dyn Fn() -> Opened + Send + Sync>);

// === impl Readers ===

impl Readers {
    /// Returns connections that are opened with `connect`.
    pub fn new(connect: impl Fn() -> Opened + Send + Sync + 'static) -> Self {
        let timeouts = Timeouts { wait: Some(QUEUE), ..Timeouts::default() };
        let pool = managed::Pool::builder(Connect(Box::new(connect)))
            .max_size(READERS)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .build();
        Self(pool.expect("a pool that may wait has a runtime"))
    }

    /// Returns a connection as soon as one is free.
    pub async fn acquire(&self) -> Result<Reader, Fault> {
        self.0.get().await.map_err(|error| match error {
            PoolError::Backend(error) => failed_in_sqlite(error),
            error => StoreError::Unavailable(error.to_string()).into(),
        })
    }

    /// Begins a transaction that only reads.
    pub async fn snapshot(&self) -> Result<Snapshot, Fault> {
        let reader = self.acquire().await?;
        reader.execute_batch("begin").map_err(failed_in_sqlite)?;
        Ok(Snapshot(reader))
    }

    /// Closes the connections. One that is in use is closed when it is given back.
    pub fn close(&self) {
        self.0.close();
    }
}

// === impl Snapshot ===

impl Snapshot {
    pub fn get(&mut self) -> &mut SqliteConnection {
        &mut self.0
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // A transaction that stays open keeps the write-ahead log from being emptied. If it cannot be ended, the connection is not used again.
        let _ = self.0.execute_batch("rollback");
    }
}

// === impl Connect ===

impl managed::Manager for Connect {
    type Type = SqliteConnection;
    type Error = rusqlite::Error;

    async fn create(&self) -> rusqlite::Result<SqliteConnection> {
        (self.0)().map(Into::into)
    }

    async fn recycle(&self, connection: &mut Self::Type, _: &Metrics) -> RecycleResult<Self::Error> {
        if connection.is_autocommit() {
            Ok(())
        } else {
            Err(managed::RecycleError::message("a transaction could not be ended"))
        }
    }
}

#[cfg(test)]
mod tests {
    use fermata_engine::store::{Change, ChatStore, Version};
    use fermata_protocol::{ChatId, Profile};
    use fermata_tools::Owner;
    use jiff::Timestamp;

    use super::*;
    use crate::{SqlStore, backend::Backend, sqlite::open::open};

    #[tokio::test]
    async fn a_reader_writes_nothing_and_a_snapshot_leaves_no_transaction_open() {
        let folder = std::env::temp_dir().join(format!("fermata-readers-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let database = open(&format!("sqlite://{}", folder.join("chats.db").display()), true).await.unwrap();
        let readers = database.readers.clone().unwrap();
        let store = SqlStore::new(Backend::Sqlite(database), None);
        let chats = |reader: &rusqlite::Connection| {
            reader.query_row("select count(*) from chats", [], |row| row.get::<_, i64>(0)).unwrap()
        };

        let mut snapshot = readers.snapshot().await.unwrap();
        assert_eq!(chats(snapshot.get()), 0);
        let create = Change::CreateChat { owner: Owner::anyone(), profile: Profile::V6 };
        let (chat, at) = (ChatId::new("a"), Timestamp::UNIX_EPOCH);
        store.commit(&chat, Version::NONE, Version(1), at, [create].into()).await.unwrap();
        assert_eq!(chats(snapshot.get()), 0, "it sees the moment of its first query");
        // As if the task that reads had ended in the middle of it.
        drop(snapshot);

        let reader = readers.acquire().await.unwrap();
        assert!(reader.is_autocommit(), "this is the same connection, and its transaction is over");
        assert_eq!(chats(&reader), 1);
        assert!(reader.execute("delete from chats", []).is_err());
        drop(reader);
        store.close().await;
        assert!(matches!(readers.acquire().await, Err(Fault::Store(StoreError::Unavailable(_)))));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
