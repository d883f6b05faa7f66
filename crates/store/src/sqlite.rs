//! The store on SQLite: transactions around the queries of each noun.
//!
//! Invariants: a commit is one transaction on the one connection that writes; a chat is read in one transaction, so that
//! its parts fit one another. A file has one server: whoever joins takes the place of all others.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use fermata_engine::store::{
    Beat, Change, ChatOwner, ChatPage, ChatRecord, ChatStore, ClockMark, Fence, InstanceId, Joined, Kept,
    LockStore, Membership, Outlined, StoreError, page::Cursor,
};
use fermata_protocol::{AnswerTarget, ChatId, RunId, UiMessage};
use fermata_tools::{Call, Owner, ResourceKey};
use jiff::Timestamp;
use sqlx::{Sqlite, SqliteConnection, SqlitePool, Transaction, migrate::Migrator, pool::PoolConnection};

use crate::{
    Notes, OpenError,
    error::{Fault, failed},
    text::text,
};
use queries::{
    audit, calls, changes, chats, clock_marks, cluster_keys, instances, locks, messages, owners, runs,
};

pub mod open;
#[path = "queries.rs"]
pub mod queries;

// What the queries are compiled for, and the few that PostgreSQL has in another way.
type Db = Sqlite;
type Connection = SqliteConnection;

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

const TABLE_EXISTS: &str = "select exists (select 1 from sqlite_schema where type = 'table' and name = $1)";

const SEARCH_NOTES: &str = "select id, title, body, created_at from notes
     where owner = $1
        and not exists (select 1 from json_each($2) as word where instr(notes.folded, word.value) = 0)
     order by created_at desc, id desc
     limit $3";

/// For how long a write that has failed is reason enough to say that the store cannot be used.
const DISTRUST: Duration = Duration::from_secs(10);

/// A store in a SQLite file. Clones share its connections.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    writer: SqlitePool,
    readers: SqlitePool,
    /// Keeps a database in memory alive.
    anchor: Option<SqlitePool>,
    /// When the last write failed, and why, unless one has worked since: the disk may be full. Held for a copy or a change.
    failure: Arc<Mutex<Option<(Instant, String)>>>,
}

// === impl SqliteStore ===

impl SqliteStore {
    /// Opens `sqlite://<path>`, `sqlite:<path>` or `sqlite::memory:`; creates the file where there is none, and brings it up
    /// to date. What is committed survives a power cut.
    ///
    /// # Errors
    /// Where the place, the file or its version does not allow it.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        Self::open_with(url, true).await
    }

    pub(crate) async fn open_with(url: &str, migrate: bool) -> Result<Self, OpenError> {
        let open::Pools { writer, readers, anchor } = open::open(url, migrate).await?;
        Ok(Self { writer, readers, anchor, failure: Arc::default() })
    }

    /// The notes that live in the same database.
    pub fn notes(&self) -> Notes {
        Notes::in_sqlite(self.writer.clone(), self.readers.clone())
    }

    /// The key that this database keeps, which is `new` if it has none yet.
    pub(crate) async fn cluster_key(&self, new: &str) -> Result<String, StoreError> {
        Ok(cluster_keys::find_or_keep(&mut *self.writer().await?, new).await?)
    }

    /// Waits for what is under way and closes the file, for this store and its clones.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
        if let Some(anchor) = &self.anchor {
            anchor.close().await;
        }
    }

    async fn begin(&self) -> Result<Transaction<'static, Sqlite>, Fault> {
        // A transaction that begins by reading could not become a writing one while another process writes.
        self.writer.begin_with("begin immediate").await.map_err(failed)
    }

    /// Notes whether writing works, which [`ChatStore::ready`] tells.
    fn noted<T>(&self, written: Result<T, Fault>) -> Result<T, StoreError> {
        let written = written.map_err(StoreError::from);
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &written {
            Ok(_) => *failure = None,
            Err(StoreError::Unavailable(reason)) => *failure = Some((Instant::now(), reason.clone())),
            Err(_) => {}
        }
        written
    }

    async fn write(
        &self,
        chat: &ChatId,
        fence: Fence,
        at: Timestamp,
        changes: &[Change],
    ) -> Result<Fence, Fault> {
        let mut transaction = self.begin().await?;
        let next = changes::make(&mut transaction, chat, fence, at, changes).await?;
        transaction.commit().await.map_err(failed)?;
        Ok(next)
    }

    async fn remove(&self, chat: &ChatId, fence: Fence) -> Result<(), Fault> {
        let mut transaction = self.begin().await?;
        changes::delete(&mut transaction, chat, fence).await?;
        transaction.commit().await.map_err(failed)
    }

    async fn writer(&self) -> Result<PoolConnection<Sqlite>, Fault> {
        self.writer.acquire().await.map_err(failed)
    }

    async fn reader(&self) -> Result<PoolConnection<Sqlite>, Fault> {
        self.readers.acquire().await.map_err(failed)
    }

    /// Forgets these chats in one transaction, so that others can write before the next.
    async fn forget_batch(&self, old: &[(ChatId, Fence)]) -> Result<usize, Fault> {
        let mut transaction = self.begin().await?;
        let mut forgotten = 0;
        for (chat, fence) in old {
            forgotten += usize::from(chats::delete(&mut transaction, chat, *fence).await?);
        }
        transaction.commit().await.map_err(failed)?;
        Ok(forgotten)
    }
}

#[async_trait]
impl ChatStore for SqliteStore {
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError> {
        let mut snapshot = self.readers.begin().await.map_err(failed)?;
        let record = changes::record(&mut snapshot, chat).await?;
        snapshot.commit().await.map_err(failed)?;
        Ok(record)
    }

    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError> {
        Ok(messages::all(&mut *self.reader().await?, chat).await?)
    }

    async fn outline(&self, chat: &ChatId) -> Result<Vec<Outlined>, StoreError> {
        Ok(messages::outline(&mut *self.reader().await?, chat).await?)
    }

    async fn messages_at(
        &self,
        chat: &ChatId,
        positions: Range<usize>,
    ) -> Result<Vec<UiMessage>, StoreError> {
        Ok(messages::at(&mut *self.reader().await?, chat, &positions).await?)
    }

    async fn version(&self, chat: &ChatId) -> Result<Option<Fence>, StoreError> {
        Ok(chats::version(&mut *self.reader().await?, chat).await?)
    }

    async fn owner_of(&self, chat: &ChatId) -> Result<Option<ChatOwner>, StoreError> {
        Ok(chats::owner_of(&mut *self.reader().await?, chat).await?)
    }

    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError> {
        Ok(calls::find(&mut *self.reader().await?, chat, target).await?)
    }

    async fn commit(
        &self,
        chat: &ChatId,
        fence: Fence,
        at: Timestamp,
        changes: Vec<Change>,
    ) -> Result<Fence, StoreError> {
        if changes.is_empty() {
            return Ok(fence);
        }
        self.noted(self.write(chat, fence, at, &changes).await)
    }

    async fn chats(&self, owner: &Owner, limit: usize, before: Option<&str>) -> Result<ChatPage, StoreError> {
        let before = before.map(Cursor::parse).transpose()?;
        Ok(chats::page(&mut *self.reader().await?, owner, limit, before.as_ref()).await?)
    }

    async fn delete(&self, chat: &ChatId, fence: Fence) -> Result<(), StoreError> {
        self.noted(self.remove(chat, fence).await)
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        Ok(runs::due(&mut *self.reader().await?, now, limit).await?)
    }

    async fn orphans(&self, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        Ok(runs::orphans(&mut *self.reader().await?, limit).await?)
    }

    async fn kept(&self, owner: &Owner, instance: &InstanceId) -> Result<Kept, StoreError> {
        if let Some(kept) = owners::kept(&mut *self.reader().await?, owner, instance).await? {
            return Ok(kept);
        }
        let mut transaction = self.begin().await?;
        owners::count_chats(&mut transaction, owner).await?;
        let kept = owners::kept(&mut transaction, owner, instance).await?;
        transaction.commit().await.map_err(failed)?;
        Ok(kept.unwrap_or_default())
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut forgotten = 0;
        while forgotten < limit {
            let batch = chats::BATCH.min(limit - forgotten);
            let old = chats::old(&mut *self.reader().await?, before, batch).await?;
            let gone = self.forget_batch(&old).await?;
            if gone == 0 {
                break;
            }
            forgotten += gone;
        }
        Ok(forgotten)
    }

    async fn finished_log(
        &self,
        chat: &ChatId,
        run: &RunId,
    ) -> Result<Option<Vec<(u64, String)>>, StoreError> {
        Ok(runs::finished_log(&mut *self.reader().await?, chat, run).await?)
    }

    async fn forget_logs(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut transaction = self.begin().await?;
        let forgotten = runs::forget_logs(&mut transaction, before, limit).await?;
        transaction.commit().await.map_err(failed)?;
        Ok(forgotten)
    }

    async fn forget_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut transaction = self.begin().await?;
        let forgotten = audit::forget(&mut transaction, before, limit).await?;
        transaction.commit().await.map_err(failed)?;
        Ok(forgotten)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        chats::find(&mut *self.reader().await?, &ChatId::new("")).await?;
        // Taking the write lock is what fails on a disk or a file that can only be read.
        let mut probe = self.begin().await?;
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match failure {
            None => Ok(probe.rollback().await.map_err(failed)?),
            // There may be room for a small write where a larger one has failed just now.
            Some((at, reason)) if at.elapsed() < DISTRUST => Err(StoreError::Unavailable(reason)),
            Some(_) => {
                // Only a write tells whether there is room again. This one changes nothing but goes to the disk like any other.
                sqlx::query("pragma user_version = 0").execute(&mut *probe).await.map_err(failed)?;
                Ok(probe.commit().await.map_err(failed)?)
            }
        }
    }
}

#[async_trait]
impl Membership for SqliteStore {
    async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("delete from instances where id <> $1")
            .bind(text(instance.as_str()))
            .execute(&mut *transaction)
            .await
            .map_err(failed)?;
        renew(&mut transaction, instance).await?;
        let mark = clock_marks::find(&mut transaction).await?;
        transaction.commit().await.map_err(failed)?;
        Ok(Joined { now: None, mark })
    }

    async fn beat(&self, instance: &InstanceId) -> Result<Beat, StoreError> {
        let mut transaction = self.begin().await?;
        let was_dead = renew(&mut transaction, instance).await?;
        let alive = instances::alive(&mut transaction).await?;
        transaction.commit().await.map_err(failed)?;
        Ok(Beat { was_dead, alive, now: None })
    }

    async fn note_time(&self, mark: ClockMark) -> Result<(), StoreError> {
        Ok(clock_marks::put(&mut *self.writer().await?, mark).await?)
    }

    async fn release(&self, instance: &InstanceId) -> Result<(), StoreError> {
        Ok(instances::release(&mut *self.writer().await?, instance).await?)
    }

    async fn leave(&self, instance: &InstanceId) -> Result<(), StoreError> {
        Ok(instances::remove(&mut *self.writer().await?, instance).await?)
    }

    fn is_shared(&self) -> bool {
        false
    }
}

#[async_trait]
impl LockStore for SqliteStore {
    async fn try_lock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<bool, StoreError> {
        Ok(locks::take(&mut *self.writer().await?, key, instance).await?)
    }

    async fn unlock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<(), StoreError> {
        Ok(locks::give_back(&mut *self.writer().await?, key, instance).await?)
    }
}

/// Notes that the instance is alive; whether its row was not there.
async fn renew(connection: &mut Connection, instance: &InstanceId) -> Result<bool, Fault> {
    // A beat that finds its row changes nothing: with one server nobody asks how long ago it was heard of, and a write is a
    // synchronisation with the disk.
    let renewed = sqlx::query(
        "insert into instances (id, joined_at) values ($1, cast(unixepoch('subsec') * 1000000 as integer))
         on conflict (id) do nothing",
    )
    .bind(text(instance.as_str()))
    .execute(connection)
    .await
    .map_err(failed)?;
    Ok(renewed.rows_affected() == 1)
}

#[cfg(test)]
mod tests {
    use fermata_protocol::{MessageId, RunId};

    use super::*;

    async fn in_memory() -> (SqliteStore, ChatId) {
        let store = SqliteStore::open("sqlite::memory:").await.unwrap();
        let chat = ChatId::new("a");
        begin(&store, &chat).await;
        (store, chat)
    }

    /// A chat with an open run.
    async fn begin(store: &SqliteStore, chat: &ChatId) {
        let create = Change::CreateChat { owner: Owner::anyone(), profile: fermata_protocol::Profile::V6 };
        let open = Change::OpenRun {
            run: RunId::new("r"),
            message: MessageId::new("m"),
            driver: InstanceId::new("i"),
        };
        store.commit(chat, Fence::NONE, Timestamp::UNIX_EPOCH, vec![create, open]).await.unwrap();
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
        let full =
            store.commit(&chat, Fence(1), Timestamp::UNIX_EPOCH, append(1, "x".repeat(1_000_000))).await;
        assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
        set(&store, "pragma max_page_count = 1000000").await;
        store.commit(&chat, Fence(1), Timestamp::UNIX_EPOCH, append(1, "x".into())).await.unwrap();
    }

    /// Changes for which SQLite, if there is no room, ends the whole transaction by itself.
    fn say(words: String) -> Vec<Change> {
        vec![Change::PutMessage(Box::new(UiMessage {
            id: MessageId::new(format!("m{}", words.len())),
            role: fermata_protocol::Role::User,
            metadata: None,
            parts: vec![fermata_protocol::UiPart::Text {
                text: words,
                streaming: None,
                provider_metadata: None,
                extra: serde_json::Map::new(),
            }],
        }))]
    }

    async fn fills_up_and_goes_on(store: &SqliteStore, chat: &ChatId) {
        for attempt in 1..=3 {
            set(store, "pragma max_page_count = 1").await;
            let full = store
                .commit(chat, Fence(1), Timestamp::UNIX_EPOCH, say("x".repeat(1_000_000 * attempt)))
                .await;
            assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
            assert!(store.ready().await.is_err(), "it says that it cannot write");
        }
        set(store, "pragma max_page_count = 1000000").await;
        store.commit(chat, Fence(1), Timestamp::UNIX_EPOCH, say("x".into())).await.unwrap();
        assert_eq!(store.messages(chat).await.unwrap().len(), 1, "what failed has left nothing");
        store.ready().await.unwrap();
    }

    #[tokio::test]
    async fn a_transaction_that_sqlite_has_ended_by_itself_leaves_a_writer_that_works() {
        let (store, chat) = in_memory().await;
        fills_up_and_goes_on(&store, &chat).await;
        let file = std::env::temp_dir().join(format!("fermata-full-{}.db", uuid::Uuid::new_v4()));
        let store = SqliteStore::open(&format!("sqlite://{}", file.display())).await.unwrap();
        begin(&store, &chat).await;
        fills_up_and_goes_on(&store, &chat).await;
        store.delete(&chat, Fence(2)).await.unwrap();
        store.close().await;
        std::fs::remove_file(file).unwrap();
    }

    #[tokio::test]
    async fn a_commit_that_is_given_up_halfway_leaves_nothing_and_blocks_nobody() {
        let (store, chat) = in_memory().await;
        let mut given_up = store.begin().await.unwrap();
        changes::make(&mut given_up, &chat, Fence(1), Timestamp::UNIX_EPOCH, &append(1, "x".into()))
            .await
            .unwrap();
        drop(given_up);
        store.commit(&chat, Fence(1), Timestamp::UNIX_EPOCH, append(1, "y".into())).await.unwrap();
        assert_eq!(store.chat(&chat).await.unwrap().unwrap().open_run.unwrap().texts(), ["y"]);
    }
}
