//! The engine's port [`Store`](fermata_engine::Store) on either database: each method runs the queries of its noun.
//!
//! Invariants: a commit is one transaction, which begins by raising the chat's version; a chat is read as of one moment, so that its parts
//! fit one another.

use std::{fmt, ops::Range, sync::Arc};

use async_trait::async_trait;
use fermata_engine::store::{
    AnswerRoute, AuditEntry, Change, ChatOwner, ChatPage, ChatQuery, ChatRecord, ChatStore, ClockMark, Files,
    InstanceId, Joined, LockStore, Membership, MessageOutline, OwnerUsage, Renewed, STORED_FILE, StoreError,
    SummaryRecord, Version, WantedUsage, page::Cursor,
};
use fermata_protocol::{AnswerTarget, ChatId, MessageId, Plan, Role, RunId, UiMessage};
use fermata_tools::{Call, Grant, Owner, ResourceKey};
use futures::FutureExt;
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::{
    ChannelRecords, Notes, OpenError, OpenOptions,
    backend::Backend,
    connection::Connection,
    error::conflict,
    evidence::AuditKey,
    postgres::{self, Effect, is_postgres},
    queries::{
        audit, calls, changes, chats, clock_marks, confirmations, deleted_chats, instances, locks, messages,
        owners, plans, runs, summaries,
    },
    sqlite,
};

mod approvals;
mod memories;
mod outbox;

/// A store in a SQLite file or in a PostgreSQL database. Clones share its connections.
#[derive(Clone)]
pub struct SqlStore {
    pub(crate) backend: Backend,
    /// Signs what is said about the chains of the audit.
    pub(crate) audit_key: Option<AuditKey>,
    /// Wakes the sender of notices.
    notice_added: Arc<Notify>,
}

// === impl SqlStore ===

impl SqlStore {
    /// Opens the database that the URL names and brings it up to date, as [`open`](crate::open) does. What is committed survives a power
    /// cut.
    ///
    /// # Errors
    /// If the URL, the place, the server or the version does not allow it.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        Self::open_with(url, &OpenOptions::default()).await
    }

    pub(crate) async fn open_with(url: &str, options: &OpenOptions) -> Result<Self, OpenError> {
        let backend = if is_postgres(url) {
            Backend::Postgres(postgres::open::open(url, options).await?)
        } else {
            Backend::Sqlite(sqlite::open::open(url, options.migrate).await?)
        };
        Ok(Self::new(backend, options.audit_key.clone()))
    }

    pub(crate) fn new(backend: Backend, audit_key: Option<AuditKey>) -> Self {
        Self { backend, audit_key, notice_added: Arc::default() }
    }

    /// The notes that live in the same database.
    pub fn notes(&self) -> Notes {
        Notes { backend: self.backend.clone() }
    }

    /// What channels keep in the same database.
    pub fn channel_records(&self) -> ChannelRecords {
        ChannelRecords { backend: self.backend.clone() }
    }

    /// Overwrites what is left of deleted rows in a SQLite file, which a server does with its next heartbeats. It reads the whole file.
    pub async fn sweep(&self) {
        if let Backend::Sqlite(database) = &self.backend {
            database.sweep().await;
        }
    }

    /// Waits for what is under way and closes all connections, for this store and its clones. The others then count the instances that
    /// have not left as dead.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Sqlite(database) => database.close().await,
            Backend::Postgres(database) => {
                if let Some(pgvector) = &database.pgvector {
                    pgvector.close().await;
                }
                database.sessions.close();
                database.pool.close().await;
            }
        }
    }
}

impl fmt::Debug for SqlStore {
    /// Leaves out the connections, because their options contain the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl ChatStore for SqlStore {
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError> {
        let reading =
            self.backend.look_up(|mut db| async move { changes::simple_record(&mut db.get(), chat).await });
        if let Some(record) = reading.await? {
            return Ok(record);
        }
        self.backend
            .snapshot(|mut snapshot| async move {
                let record = changes::record(&mut snapshot.get(), chat).await?;
                Ok((snapshot, record))
            })
            .await
    }

    async fn version(&self, chat: &ChatId) -> Result<Option<Version>, StoreError> {
        self.backend.look_up(|mut db| async move { chats::version(&mut db.get(), chat).await }).await
    }

    async fn owner_of(&self, chat: &ChatId) -> Result<Option<ChatOwner>, StoreError> {
        self.backend.look_up(|mut db| async move { chats::owner_of(&mut db.get(), chat).await }).await
    }

    async fn was_deleted(&self, owner: &Owner, chat: &ChatId) -> Result<bool, StoreError> {
        self.backend
            .look_up(|mut db| async move { deleted_chats::has(&mut db.get(), owner, chat).await })
            .await
    }

    async fn first_words(&self, chat: &ChatId) -> Result<Option<String>, StoreError> {
        self.backend.look_up(|mut db| async move { chats::first_words(&mut db.get(), chat).await }).await
    }

    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError> {
        self.messages_at(chat, 0..usize::MAX, Files::Inline).await
    }

    async fn outline(&self, chat: &ChatId) -> Result<Vec<MessageOutline>, StoreError> {
        self.backend
            .read_chat(
                chat,
                (),
                |mut db, about| async move { messages::outline(&mut db.get(), &about.0).await },
            )
            .await
    }

    async fn messages_at(
        &self,
        chat: &ChatId,
        positions: Range<usize>,
        files: Files,
    ) -> Result<Vec<UiMessage>, StoreError> {
        let reading = self.backend.read_chat(chat, positions.clone(), |mut db, about| async move {
            messages::at(&mut db.get(), &about.0, &about.1, files).await
        });
        if let Some(messages) = reading.await? {
            return Ok(messages);
        }
        let positions = &positions;
        let reading = self.backend.snapshot(|mut snapshot| async move {
            let messages = messages::at(&mut snapshot.get(), chat, positions, files).await?;
            Ok((snapshot, messages))
        });
        reading.await?.ok_or_else(lacks_value)
    }

    async fn file(&self, chat: &ChatId, name: &str) -> Result<Option<String>, StoreError> {
        let Some(hash) = name.strip_prefix(STORED_FILE) else { return Ok(None) };
        self.backend
            .read((chat.clone(), hash.to_owned()), |mut db, about| async move {
                messages::elsewhere::file(&mut db.get(), &about.0, &about.1).await
            })
            .await
    }

    async fn message(&self, chat: &ChatId, id: &MessageId) -> Result<Option<(usize, UiMessage)>, StoreError> {
        let reading = self.backend.read_chat(chat, id.clone(), |mut db, about| async move {
            messages::find(&mut db.get(), &about.0, &about.1).await
        });
        if let Some(found) = reading.await? {
            return Ok(found);
        }
        let reading = self.backend.snapshot(|mut snapshot| async move {
            let found = messages::find(&mut snapshot.get(), chat, id).await?;
            Ok((snapshot, found))
        });
        reading.await?.ok_or_else(lacks_value)
    }

    async fn last_message(
        &self,
        chat: &ChatId,
        before: usize,
        role: Option<Role>,
    ) -> Result<Option<(usize, MessageId)>, StoreError> {
        self.backend
            .look_up(|mut db| async move { messages::last(&mut db.get(), chat, before, role).await })
            .await
    }

    async fn summary(&self, chat: &ChatId, most: usize) -> Result<Option<SummaryRecord>, StoreError> {
        self.backend.look_up(|mut db| async move { summaries::find(&mut db.get(), chat, most).await }).await
    }

    async fn last_plan(&self, chat: &ChatId, most: usize) -> Result<Option<Plan>, StoreError> {
        self.backend.look_up(|mut db| async move { plans::last(&mut db.get(), chat, most).await }).await
    }

    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError> {
        self.backend.look_up(|mut db| async move { calls::find(&mut db.get(), chat, target).await }).await
    }

    async fn commit(
        &self,
        chat: &ChatId,
        from: Version,
        to: Version,
        at: Timestamp,
        changes: Arc<[Change]>,
    ) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let has_notice = changes.iter().any(|change| matches!(change, Change::Notify(_)));
        let made = if let Backend::Sqlite(database) = &self.backend {
            let chat = chat.clone();
            database
                .commit(move |connection| {
                    let mut connection = Connection::Sqlite(connection);
                    let made = changes::make(&mut connection, &chat, from, to, at, &changes).now_or_never();
                    made.unwrap_or_else(|| Err(conflict("a commit waits for something else")))
                })
                .await
        } else {
            let about = (chat.clone(), changes);
            self.backend
                .transact(Effect::Repeatable, about, |mut transaction, about| async move {
                    changes::make(&mut transaction.get(), &about.0, from, to, at, &about.1).await?;
                    Ok((transaction, ()))
                })
                .await
        };
        match made {
            // An earlier attempt may have made it.
            Err(StoreError::Fenced) if self.version(chat).await? == Some(to) => {}
            made => made?,
        }
        if has_notice {
            self.notice_added.notify_one();
        }
        Ok(())
    }

    async fn chats(&self, query: ChatQuery<'_>) -> Result<ChatPage, StoreError> {
        let ChatQuery { owner, archived, limit, before } = query;
        let before = before.map(Cursor::parse).transpose()?;
        self.backend
            .read((owner.clone(), before), move |mut db, about| async move {
                chats::page(&mut db.get(), &about.0, archived, limit, about.1.as_ref()).await
            })
            .await
    }

    async fn delete(
        &self,
        chat: &ChatId,
        version: Version,
        at: Timestamp,
        audit: Vec<AuditEntry>,
    ) -> Result<(), StoreError> {
        self.backend
            .transact(Effect::Repeatable, (chat.clone(), audit), move |mut transaction, about| async move {
                let (chat, audit) = &*about;
                changes::delete(&mut transaction.get(), chat, version, at, audit).await?;
                Ok((transaction, ()))
            })
            .await?;
        self.backend.forget_deleted().await;
        Ok(())
    }

    async fn add_audit(&self, at: Timestamp, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        self.backend
            .transact(Effect::Once, entries, move |mut transaction, entries| async move {
                for entry in entries.iter() {
                    audit::add(&mut transaction.get(), entry, at).await?;
                }
                Ok((transaction, ()))
            })
            .await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        self.backend.look_up(|mut db| async move { runs::due(&mut db.get(), now, limit).await }).await
    }

    async fn orphans(&self, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        self.backend.look_up(|mut db| async move { runs::orphans(&mut db.get(), limit).await }).await
    }

    async fn due_summaries(&self, now: Timestamp, limit: usize) -> Result<Vec<(ChatId, Owner)>, StoreError> {
        self.backend.look_up(|mut db| async move { summaries::due(&mut db.get(), now, limit).await }).await
    }

    async fn usage(
        &self,
        owner: &Owner,
        instance: &InstanceId,
        wanted: WantedUsage,
    ) -> Result<OwnerUsage, StoreError> {
        self.backend
            .look_up(|mut db| async move { owners::usage(&mut db.get(), owner, instance, wanted).await })
            .await
    }

    async fn answer_route(&self, owner: &Owner) -> Result<Option<AnswerRoute>, StoreError> {
        self.backend.look_up(|mut db| async move { owners::answer_route(&mut db.get(), owner).await }).await
    }

    async fn owner_grants(&self, owner: &Owner) -> Result<Vec<Grant>, StoreError> {
        self.backend
            .look_up(|mut db| async move { confirmations::of_owner(&mut db.get(), owner).await })
            .await
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut forgotten = 0;
        while forgotten < limit {
            let batch = chats::BATCH.min(limit - forgotten);
            // Each batch is a transaction, so that others can write before the next one.
            let deleting = self.backend.transact(Effect::Repeatable, (), |mut transaction, _| async move {
                let deleted = chats::forget(&mut transaction.get(), before, batch).await?;
                Ok((transaction, deleted))
            });
            let deleted = deleting.await?;
            if deleted == 0 {
                break;
            }
            forgotten += deleted;
        }
        Ok(forgotten)
    }

    async fn finished_log(
        &self,
        chat: &ChatId,
        run: &RunId,
    ) -> Result<Option<Vec<(u64, String)>>, StoreError> {
        self.backend
            .read((chat.clone(), run.clone()), |mut db, about| async move {
                runs::finished_log(&mut db.get(), &about.0, &about.1).await
            })
            .await
    }

    async fn forget_logs(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.backend
            .transact(Effect::Repeatable, (), |mut transaction, _| async move {
                let forgotten = runs::forget_logs(&mut transaction.get(), before, limit).await?;
                Ok((transaction, forgotten))
            })
            .await
    }

    async fn forget_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.backend
            .transact(Effect::Repeatable, self.audit_key.clone(), move |mut transaction, key| async move {
                let key = Option::as_ref(&key);
                let forgotten = audit::forget(&mut transaction.get(), before, limit, key).await?;
                Ok((transaction, forgotten))
            })
            .await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.backend
            .look_up(|mut db| async move { chats::find(&mut db.get(), &ChatId::new("")).await })
            .await?;
        match &self.backend {
            Backend::Sqlite(database) => database.check_writes().await,
            Backend::Postgres(_) => Ok(()),
        }
    }

    async fn healthy(&self) -> Result<(), StoreError> {
        match &self.backend {
            Backend::Sqlite(database) => database.check_lasting_failure().await,
            // A server that is away comes back by itself, and the runs in memory wait for it.
            Backend::Postgres(_) => Ok(()),
        }
    }
}

#[async_trait]
impl Membership for SqlStore {
    async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError> {
        match &self.backend {
            Backend::Sqlite(database) => database.join(instance).await,
            Backend::Postgres(database) => Ok(database.sessions.join(instance).await?),
        }
    }

    async fn heartbeat(&self, instance: &InstanceId) -> Result<Renewed, StoreError> {
        match &self.backend {
            Backend::Sqlite(database) => database.heartbeat(instance).await,
            Backend::Postgres(database) => Ok(database.sessions.heartbeat(instance).await?),
        }
    }

    async fn release(&self, instance: &InstanceId) -> Result<(), StoreError> {
        self.backend.write(|mut db| async move { instances::release(&mut db.get(), instance).await }).await
    }

    async fn leave(&self, instance: &InstanceId) -> Result<(), StoreError> {
        self.backend.write(|mut db| async move { instances::remove(&mut db.get(), instance).await }).await?;
        if let Backend::Postgres(database) = &self.backend {
            database.sessions.end(instance);
        }
        Ok(())
    }

    async fn note_time(&self, mark: ClockMark) -> Result<(), StoreError> {
        self.backend.write(|mut db| async move { clock_marks::put(&mut db.get(), mark).await }).await
    }

    fn is_shared(&self) -> bool {
        match self.backend {
            Backend::Sqlite(_) => false,
            Backend::Postgres(_) => true,
        }
    }
}

fn lacks_value() -> StoreError {
    StoreError::Corrupt("a file or a call to which a message refers is not there".into())
}

#[async_trait]
impl LockStore for SqlStore {
    async fn try_lock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<bool, StoreError> {
        self.backend.write(|mut db| async move { locks::take(&mut db.get(), key, instance).await }).await
    }

    async fn unlock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<(), StoreError> {
        self.backend.write(|mut db| async move { locks::give_back(&mut db.get(), key, instance).await }).await
    }

    async fn locks_of(&self, instance: &InstanceId) -> Result<Vec<ResourceKey>, StoreError> {
        self.backend.look_up(|mut db| async move { locks::of_instance(&mut db.get(), instance).await }).await
    }
}
