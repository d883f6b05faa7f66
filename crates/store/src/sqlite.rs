//! The store on SQLite: transactions around the queries of each noun.
//!
//! Invariants: a commit is one transaction on the one connection that writes; a chat is read in one transaction, so that
//! its parts fit one another.

use async_trait::async_trait;
use fermata_engine::{
    Store,
    store::{Change, ChatPage, ChatRecord, StoreError, page::Cursor},
};
use fermata_protocol::{AnswerTarget, ChatId, UiMessage};
use fermata_tools::{Call, Owner};
use jiff::Timestamp;
use sqlx::{Sqlite, SqliteConnection, SqlitePool, Transaction, pool::PoolConnection};

use crate::{Notes, OpenError, calls, chats, confirmations, error::failed, messages, open, runs};

/// A store in a SQLite file. Clones share its connections.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    writer: SqlitePool,
    readers: SqlitePool,
}

// === impl SqliteStore ===

impl SqliteStore {
    /// Opens `sqlite://<path>`, `sqlite:<path>` or `sqlite::memory:`; creates the file where there is none, and brings it up
    /// to date. What is committed survives a power cut.
    ///
    /// # Errors
    /// Where the place, the file or its version does not allow it.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        let pools = open::open(url).await?;
        Ok(Self { writer: pools.writer, readers: pools.readers })
    }

    /// The notes that live in the same database.
    pub fn notes(&self) -> Notes {
        Notes::new(self.writer.clone(), self.readers.clone())
    }

    /// Waits for what is under way and closes the file, for this store and its clones.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    async fn begin(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        // A transaction that begins by reading could not become a writing one while another process writes.
        self.writer.begin_with("begin immediate").await.map_err(failed)
    }

    async fn reader(&self) -> Result<PoolConnection<Sqlite>, StoreError> {
        self.readers.acquire().await.map_err(failed)
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError> {
        let mut snapshot = self.readers.begin().await.map_err(failed)?;
        let record = record(&mut snapshot, chat).await?;
        snapshot.commit().await.map_err(failed)?;
        Ok(record)
    }

    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError> {
        messages::all(&mut *self.reader().await?, chat).await
    }

    async fn owner(&self, chat: &ChatId) -> Result<Option<Owner>, StoreError> {
        let found = chats::find(&mut *self.reader().await?, chat).await?;
        Ok(found.map(|(owner, _)| owner))
    }

    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError> {
        calls::find(&mut *self.reader().await?, chat, target).await
    }

    async fn commit(&self, chat: &ChatId, at: Timestamp, changes: Vec<Change>) -> Result<(), StoreError> {
        let Some(first) = changes.first() else {
            return Ok(());
        };
        let mut transaction = self.begin().await?;
        if !matches!(first, Change::CreateChat { .. }) {
            chats::touch(&mut transaction, chat, at).await?;
        }
        for change in &changes {
            apply(&mut transaction, chat, at, change).await?;
        }
        transaction.commit().await.map_err(failed)
    }

    async fn chats(&self, owner: &Owner, limit: usize, before: Option<&str>) -> Result<ChatPage, StoreError> {
        let before = before.map(Cursor::parse).transpose()?;
        chats::page(&mut *self.reader().await?, owner, limit, before).await
    }

    async fn delete(&self, chat: &ChatId) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        chats::delete(&mut transaction, chat).await?;
        transaction.commit().await.map_err(failed)
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        runs::due(&mut *self.reader().await?, now, limit).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        chats::find(&mut *self.reader().await?, &ChatId::new("")).await?;
        // Taking the write lock is what fails on a disk or a file that can only be read.
        self.begin().await?.rollback().await.map_err(failed)
    }
}

async fn record(snapshot: &mut SqliteConnection, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError> {
    let Some((owner, profile)) = chats::find(snapshot, chat).await? else {
        return Ok(None);
    };
    Ok(Some(ChatRecord {
        owner,
        profile,
        confirmations: confirmations::all(snapshot, chat).await?,
        open_run: runs::find_open(snapshot, chat).await?,
    }))
}

async fn apply(
    transaction: &mut SqliteConnection,
    chat: &ChatId,
    at: Timestamp,
    change: &Change,
) -> Result<(), StoreError> {
    match change {
        Change::CreateChat { owner, profile } => chats::create(transaction, chat, owner, *profile, at).await,
        Change::Posted { profile } => chats::posted(transaction, chat, *profile).await,
        Change::TruncateMessages { keep } => messages::truncate(transaction, chat, *keep).await,
        Change::PutMessage(message) => messages::put(transaction, chat, message).await,
        Change::OpenRun { run, message } => runs::open(transaction, chat, run, message, at).await,
        Change::SaveRun { run, state, expires } => runs::save(transaction, chat, run, state, *expires).await,
        Change::AppendChunks { run, first, chunks } => {
            runs::append(transaction, chat, run, *first, chunks).await
        }
        Change::PutCall { run, call } => calls::put(transaction, chat, run, call).await,
        Change::Confirm { run, call, by } => confirmations::add(transaction, chat, run, call, by, at).await,
        Change::CloseRun { run, outcome } => runs::close(transaction, chat, run, outcome, at).await,
    }
}

#[cfg(test)]
mod tests {
    use fermata_protocol::{MessageId, RunId};

    use super::*;

    async fn in_memory() -> (SqliteStore, ChatId) {
        let store = SqliteStore::open("sqlite::memory:").await.unwrap();
        let chat = ChatId::new("a");
        let create = Change::CreateChat { owner: Owner::anyone(), profile: fermata_protocol::Profile::V6 };
        let open = Change::OpenRun { run: RunId::new("r"), message: MessageId::new("m") };
        store.commit(&chat, Timestamp::UNIX_EPOCH, vec![create, open]).await.unwrap();
        (store, chat)
    }

    fn append(first: u64, chunk: String) -> Vec<Change> {
        vec![Change::AppendChunks { run: RunId::new("r"), first, chunks: vec![chunk] }]
    }

    async fn set(store: &SqliteStore, pragma: &'static str) {
        sqlx::query(pragma).execute(&store.writer).await.unwrap();
    }

    #[tokio::test]
    async fn a_full_database_is_unavailable_and_goes_on_when_there_is_room() {
        let (store, chat) = in_memory().await;
        set(&store, "pragma max_page_count = 1").await;
        let full = store.commit(&chat, Timestamp::UNIX_EPOCH, append(1, "x".repeat(1_000_000))).await;
        assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
        set(&store, "pragma max_page_count = 1000000").await;
        store.commit(&chat, Timestamp::UNIX_EPOCH, append(1, "x".into())).await.unwrap();
    }

    #[tokio::test]
    async fn a_commit_that_is_given_up_halfway_leaves_nothing_and_blocks_nobody() {
        let (store, chat) = in_memory().await;
        let mut given_up = store.begin().await.unwrap();
        for change in append(1, "x".into()) {
            apply(&mut given_up, &chat, Timestamp::UNIX_EPOCH, &change).await.unwrap();
        }
        drop(given_up);
        store.commit(&chat, Timestamp::UNIX_EPOCH, append(1, "y".into())).await.unwrap();
        assert_eq!(store.chat(&chat).await.unwrap().unwrap().open_run.unwrap().texts(), ["y"]);
    }
}
