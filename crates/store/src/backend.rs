//! The database that a store is kept in.
//!
//! PostgreSQL undoes one of two transactions that are in each other's way. The work that is handed in is then done again from its
//! beginning, so it may be done several times.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fermata_engine::store::StoreError;
use fermata_protocol::ChatId;

use crate::{
    connection::{PooledConnection, Transaction},
    error::Fault,
    postgres::{Effect, PostgresDatabase},
    queries::chats,
    sqlite::{SqliteDatabase, on_another_thread},
};

/// The largest size of a chat's messages, in bytes, that SQLite reads faster than a change of the thread takes.
const SMALL_CHAT: usize = 32 * 1024;

/// An open database. Clones share its connections.
#[derive(Clone)]
pub enum Backend {
    Sqlite(SqliteDatabase),
    Postgres(PostgresDatabase),
}

// === impl Backend ===

impl Backend {
    /// Runs queries that only read, and find the few rows that they need by an index. In SQLite that takes less time than to change the thread.
    pub async fn look_up<T, W>(&self, work: impl Fn(PooledConnection) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        match self {
            Self::Sqlite(SqliteDatabase { readers: Some(readers), .. }) => {
                Ok(work(PooledConnection::SqliteReader(readers.acquire().await?)).await?)
            }
            Self::Sqlite(database) => {
                database.writer.transact(|turn| work(PooledConnection::SqliteWriter(turn))).await
            }
            Self::Postgres(database) => database.run(Effect::Repeatable, work).await,
        }
    }

    /// Runs queries that only read, however much that is. They are handed what they are about, because SQLite has them on another thread.
    pub async fn read<A, T, W>(
        &self,
        about: A,
        work: impl Fn(PooledConnection, Arc<A>) -> W,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let about = Arc::new(about);
        match self {
            Self::Sqlite(SqliteDatabase { readers: Some(readers), .. }) => {
                let reader = PooledConnection::SqliteReader(readers.acquire().await?);
                Ok(on_another_thread(work(reader, about)).await?)
            }
            Self::Sqlite(_) | Self::Postgres(_) => self.look_up(|db| work(db, about.clone())).await,
        }
    }

    /// Runs queries that read messages of a chat. In SQLite the thread is changed only if the chat is large.
    pub async fn read_chat<A, T, W>(
        &self,
        chat: &ChatId,
        about: A,
        work: impl Fn(PooledConnection, Arc<(ChatId, A)>) -> W,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let about = Arc::new((chat.clone(), about));
        let Self::Sqlite(SqliteDatabase { readers: Some(readers), .. }) = self else {
            return self.look_up(|db| work(db, about.clone())).await;
        };
        let mut connection = PooledConnection::SqliteReader(readers.acquire().await?);
        let is_small =
            chats::bytes(&mut connection.get(), chat).await?.is_some_and(|bytes| bytes <= SMALL_CHAT);
        let work = work(connection, about);
        Ok(if is_small { work.await } else { on_another_thread(work).await }?)
    }

    /// As [`Backend::look_up`], in one transaction, which sees the database as of one moment. It is handed in and given back.
    pub async fn snapshot<T, W>(&self, work: impl Fn(Transaction) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<(Transaction, T), Fault>>,
    {
        let finish = async |transaction| {
            let (transaction, found) = work(transaction).await?;
            transaction.commit().await?;
            Ok(found)
        };
        match self {
            Self::Sqlite(SqliteDatabase { readers: Some(readers), .. }) => {
                Ok(finish(Transaction::SqliteReader(readers.snapshot().await?)).await?)
            }
            Self::Sqlite(database) => {
                database.writer.transact(|turn| finish(Transaction::SqliteWriter(turn))).await
            }
            Self::Postgres(database) => {
                let begin = "begin isolation level repeatable read read only";
                database
                    .retrying(Effect::Repeatable, || async {
                        finish(Transaction::Postgres(database.pool.begin(begin).await?)).await
                    })
                    .await
            }
        }
    }

    /// Runs queries that write a few rows, and that may be seen, or lost, one without the other.
    pub async fn write<T, W>(&self, work: impl Fn(PooledConnection) -> W) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Fault>>,
    {
        match self {
            Self::Sqlite(database) => database.write(|turn| work(PooledConnection::SqliteWriter(turn))).await,
            Self::Postgres(database) => database.run(Effect::Once, work).await,
        }
    }

    /// Runs queries that write, few or many, in one transaction. They receive it and, unless they fail, return it to be committed.
    /// They also receive their input, because SQLite runs them on another thread.
    ///
    /// Work whose effect is [`Effect::Repeatable`] may be done again after it was committed.
    ///
    /// # Errors
    /// Returns [`StoreError::Unclear`] if the database may have heard that it is to commit, and has not said that it has done so.
    pub async fn transact<A, T, W>(
        &self,
        effect: Effect,
        about: A,
        work: impl Fn(Transaction, Arc<A>) -> W,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: Future<Output = Result<(Transaction, T), Fault>> + Send + 'static,
    {
        let about = Arc::new(about);
        let database = match self {
            Self::Sqlite(database) => {
                let done = database.write(async |turn| {
                    let (transaction, done) =
                        on_another_thread(work(Transaction::SqliteWriter(turn), about.clone())).await?;
                    drop(transaction);
                    Ok(done)
                });
                return done.await;
            }
            Self::Postgres(database) => database,
        };
        // Of any of the attempts.
        let may_be_committed = AtomicBool::new(false);
        let done = database.retrying(effect, || async {
            let transaction = Transaction::Postgres(database.pool.begin("begin").await?);
            let (transaction, done) = work(transaction, about.clone()).await?;
            let before = may_be_committed.swap(true, Ordering::Relaxed);
            let committed = transaction.commit().await;
            if committed.as_ref().is_err_and(|fault| !matches!(fault, Fault::Lost(_))) {
                may_be_committed.store(before, Ordering::Relaxed);
            }
            committed.map(|()| done)
        });
        done.await.map_err(|error| match error {
            StoreError::Unavailable(text) if may_be_committed.load(Ordering::Relaxed) => {
                StoreError::Unclear(text)
            }
            error => error,
        })
    }

    /// Sees to it that what was deleted is in no file of the database, now or within seconds. PostgreSQL keeps its own log and its old rows
    /// as it is set up to.
    pub async fn forget_deleted(&self) {
        if let Self::Sqlite(database) = self {
            database.forget_deleted().await;
        }
    }
}
