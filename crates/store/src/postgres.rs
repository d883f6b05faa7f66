//! The store on PostgreSQL: connections and transactions around the queries of each noun.
//!
//! Invariants: a commit is one transaction that first locks the chat's row by raising its fence, so nothing else of the chat needs a
//! lock; a chat is read in one snapshot. What the database has undone because two were in each other's way is done again; what may
//! have been done is never done again, but told as unavailable.

use std::{ops::Range, time::Duration};

use async_trait::async_trait;
use backon::{ExponentialBuilder, Retryable};
use fermata_engine::store::{
    Beat, Change, ChatOwner, ChatPage, ChatRecord, ChatStore, ClockMark, Fence, InstanceId, Joined, Kept,
    LockStore, Membership, Outlined, StoreError, page::Cursor,
};
use fermata_protocol::{AnswerTarget, ChatId, RunId, UiMessage};
use fermata_tools::{Call, Owner, ResourceKey};
use jiff::Timestamp;
use sqlx::{PgConnection, PgPool, Postgres, migrate::Migrator, pool::PoolConnection};

use crate::{
    Notes, OpenError, OpenOptions,
    error::{Fault, failed},
};
use queries::{
    audit, calls, changes, chats, clock_marks, cluster_keys, instances, locks, messages, owners, runs,
};
use sessions::Sessions;

pub mod open;
#[path = "queries.rs"]
pub mod queries;
mod sessions;

// What the queries are compiled for, and the few that SQLite has in another way.
type Db = Postgres;
type Connection = PgConnection;

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

const TABLE_EXISTS: &str = "select to_regclass($1) is not null";

const SEARCH_NOTES: &str = "select id, title, body, created_at from notes
     where owner = $1
        and not exists (
            select 1 from jsonb_array_elements_text($2::jsonb) as words (word) where strpos(notes.folded, words.word) = 0
        )
     order by created_at desc, id desc
     limit $3";

/// A transaction that reads, and sees one moment.
const SNAPSHOT: &str = "begin isolation level repeatable read read only";

/// How long one attempt may take, from the wait for a connection on. Longer than the server's own limits, for when it answers nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait at first before doing again what the database has undone.
const PAUSE: Duration = Duration::from_millis(10);
/// How often it is done again.
const ATTEMPTS: usize = 8;

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    pool: PgPool,
    sessions: Sessions,
}

// === impl PostgresStore ===

impl PostgresStore {
    pub async fn open(url: &str, options: &OpenOptions) -> Result<Self, OpenError> {
        let (pool, options) = open::open(url, options).await?;
        Ok(Self { pool, sessions: Sessions::new(options) })
    }

    /// The notes that live in the same database.
    pub fn notes(&self) -> Notes {
        Notes::in_postgres(self.pool.clone())
    }

    /// The key that this database keeps, which is `new` if it has none yet.
    pub async fn cluster_key(&self, new: &str) -> Result<String, StoreError> {
        persist(|| async { cluster_keys::find_or_keep(&mut *self.connection().await?, new).await }).await
    }

    /// Waits for what is under way and closes all connections; instances that have not left are dead to others then.
    pub async fn close(&self) {
        self.sessions.close().await;
        self.pool.close().await;
    }

    async fn connection(&self) -> Result<PoolConnection<Postgres>, Fault> {
        self.pool.acquire().await.map_err(failed)
    }

    async fn read_chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, Fault> {
        let mut snapshot = self.pool.begin_with(SNAPSHOT).await.map_err(failed)?;
        let record = changes::record(&mut snapshot, chat).await?;
        snapshot.commit().await.map_err(failed)?;
        Ok(record)
    }

    async fn write(
        &self,
        chat: &ChatId,
        fence: Fence,
        at: Timestamp,
        changes: &[Change],
    ) -> Result<Fence, Fault> {
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        let next = changes::make(&mut transaction, chat, fence, at, changes).await?;
        transaction.commit().await.map_err(failed).map_err(unclear)?;
        Ok(next)
    }

    async fn forget_old_logs(&self, before: Timestamp, limit: usize) -> Result<usize, Fault> {
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        let forgotten = runs::forget_logs(&mut transaction, before, limit).await?;
        transaction.commit().await.map_err(failed)?;
        Ok(forgotten)
    }

    async fn forget_old_audit(&self, before: Timestamp, limit: usize) -> Result<usize, Fault> {
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        let forgotten = audit::forget(&mut transaction, before, limit).await?;
        transaction.commit().await.map_err(failed)?;
        Ok(forgotten)
    }

    /// Counts the bytes of the owner's chats that nobody has counted.
    async fn count_chats(&self, owner: &Owner) -> Result<(), Fault> {
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        owners::count_chats(&mut transaction, owner).await?;
        transaction.commit().await.map_err(failed)
    }

    /// Forgets these chats in one transaction.
    async fn forget_batch(&self, old: &[(ChatId, Fence)]) -> Result<usize, Fault> {
        let mut transaction = self.pool.begin().await.map_err(failed)?;
        let mut forgotten = 0;
        for (chat, fence) in old {
            forgotten += usize::from(chats::delete(&mut transaction, chat, *fence).await?);
        }
        transaction.commit().await.map_err(failed)?;
        Ok(forgotten)
    }
}

#[async_trait]
impl ChatStore for PostgresStore {
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError> {
        persist(|| self.read_chat(chat)).await
    }

    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError> {
        persist(|| async { messages::all(&mut *self.connection().await?, chat).await }).await
    }

    async fn outline(&self, chat: &ChatId) -> Result<Vec<Outlined>, StoreError> {
        persist(|| async { messages::outline(&mut *self.connection().await?, chat).await }).await
    }

    async fn messages_at(
        &self,
        chat: &ChatId,
        positions: Range<usize>,
    ) -> Result<Vec<UiMessage>, StoreError> {
        persist(|| async { messages::at(&mut *self.connection().await?, chat, &positions).await }).await
    }

    async fn version(&self, chat: &ChatId) -> Result<Option<Fence>, StoreError> {
        persist(|| async { chats::version(&mut *self.connection().await?, chat).await }).await
    }

    async fn owner_of(&self, chat: &ChatId) -> Result<Option<ChatOwner>, StoreError> {
        persist(|| async { chats::owner_of(&mut *self.connection().await?, chat).await }).await
    }

    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError> {
        persist(|| async { calls::find(&mut *self.connection().await?, chat, target).await }).await
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
        persist(|| self.write(chat, fence, at, &changes)).await
    }

    async fn chats(&self, owner: &Owner, limit: usize, before: Option<&str>) -> Result<ChatPage, StoreError> {
        let before = before.map(Cursor::parse).transpose()?;
        let before = before.as_ref();
        persist(|| async { chats::page(&mut *self.connection().await?, owner, limit, before).await }).await
    }

    async fn delete(&self, chat: &ChatId, fence: Fence) -> Result<(), StoreError> {
        persist(|| async { changes::delete(&mut *self.connection().await?, chat, fence).await }).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        persist(|| async { runs::due(&mut *self.connection().await?, now, limit).await }).await
    }

    async fn orphans(&self, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        persist(|| async { runs::orphans(&mut *self.connection().await?, limit).await }).await
    }

    async fn kept(&self, owner: &Owner, instance: &InstanceId) -> Result<Kept, StoreError> {
        let kept = || async { owners::kept(&mut *self.connection().await?, owner, instance).await };
        if let Some(kept) = persist(kept).await? {
            return Ok(kept);
        }
        persist(|| self.count_chats(owner)).await?;
        Ok(persist(kept).await?.unwrap_or_default())
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut forgotten = 0;
        while forgotten < limit {
            let batch = chats::BATCH.min(limit - forgotten);
            let old = persist(|| async { chats::old(&mut *self.connection().await?, before, batch).await });
            let old = old.await?;
            let gone = persist(|| self.forget_batch(&old)).await?;
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
        persist(|| async { runs::finished_log(&mut *self.connection().await?, chat, run).await }).await
    }

    async fn forget_logs(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        persist(|| self.forget_old_logs(before, limit)).await
    }

    async fn forget_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        persist(|| self.forget_old_audit(before, limit)).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        persist(|| async { chats::find(&mut *self.connection().await?, &ChatId::new("")).await }).await?;
        Ok(())
    }
}

#[async_trait]
impl Membership for PostgresStore {
    async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError> {
        Ok(self.sessions.join(instance).await?)
    }

    async fn beat(&self, instance: &InstanceId) -> Result<Beat, StoreError> {
        Ok(self.sessions.beat(instance).await?)
    }

    async fn note_time(&self, mark: ClockMark) -> Result<(), StoreError> {
        persist(|| async { clock_marks::put(&mut *self.connection().await?, mark).await }).await
    }

    async fn release(&self, instance: &InstanceId) -> Result<(), StoreError> {
        persist(|| async { instances::release(&mut *self.connection().await?, instance).await }).await
    }

    async fn leave(&self, instance: &InstanceId) -> Result<(), StoreError> {
        persist(|| async { instances::remove(&mut *self.connection().await?, instance).await }).await?;
        self.sessions.end(instance).await;
        Ok(())
    }

    fn is_shared(&self) -> bool {
        true
    }
}

#[async_trait]
impl LockStore for PostgresStore {
    async fn try_lock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<bool, StoreError> {
        persist(|| async { locks::take(&mut *self.connection().await?, key, instance).await }).await
    }

    async fn unlock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<(), StoreError> {
        persist(|| async { locks::give_back(&mut *self.connection().await?, key, instance).await }).await
    }
}

/// Does it, and does it again where the database has undone it because of another transaction.
pub async fn persist<T, W: Future<Output = Result<T, Fault>>>(work: impl Fn() -> W) -> Result<T, StoreError> {
    let pauses = ExponentialBuilder::new().with_min_delay(PAUSE).with_max_times(ATTEMPTS).with_jitter();
    let attempt = || within(PATIENCE, work());
    Ok(attempt.retry(pauses).when(|fault| matches!(fault, Fault::Collided(_))).await?)
}

/// What the failure of a transaction's last word means: the database may have heard it.
fn unclear(fault: Fault) -> Fault {
    match fault {
        Fault::Told(StoreError::Unavailable(text)) => StoreError::Unclear(text).into(),
        other => other,
    }
}

/// Gives up after a time.
async fn within<T>(time: Duration, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let late = || Err(StoreError::Unavailable(format!("no answer within {} s", time.as_secs())).into());
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| late())
}
