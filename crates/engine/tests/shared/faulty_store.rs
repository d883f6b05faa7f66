//! A store that fails, blocks or dies on a test's command.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use async_trait::async_trait;
use fermata_engine::{
    Clock,
    store::{
        AnswerRoute, ApprovalList, ApprovalRecord, Approvals, Attempt, AuditEntry, Change, ChatOwner,
        ChatPage, ChatQuery, ChatRecord, ChatStore, ClaimedNotice, ClockMark, Files, InMemoryStore,
        InstanceId, Joined, LockStore, Membership, MessageOutline, Outbox, OwnerUsage, Renewed, SavedNotice,
        SavedTerms, StoreError, SummaryRecord, Version, WantedUsage, page::ApprovalCursor,
    },
};
use fermata_protocol::{AnswerTarget, ApprovalId, ChatId, MessageId, Plan, Role, RunId, UiMessage};
use fermata_tools::{Call, Grant, Owner, ResourceKey, StateName};
use jiff::Timestamp;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::TestClock;

/// The store as one instance reaches it. Other instances share the [`InMemoryStore`] and have a `FaultyStore` of their own.
#[derive(Default)]
pub struct FaultyStore {
    pub store: Arc<InMemoryStore>,
    /// While this is `true`, every operation fails.
    pub fails: AtomicBool,
    /// While this is `true`, every operation on memories fails.
    pub memories_fail: AtomicBool,
    /// While this is `true`, operations on the contents of a chat neither succeed nor fail.
    pub is_blocked: watch::Sender<bool>,
    /// The number of reads of more of a chat than its owner or its version.
    pub reads: AtomicUsize,
    /// The number of messages that were read.
    pub messages_read: AtomicUsize,
    /// The number of commits that end a run and are still to fail.
    pub endings_to_fail: AtomicUsize,
    /// The number of reads that fail after the next commit.
    pub reads_to_fail_after_commit: AtomicUsize,
    /// The number of reads that are still to fail.
    pub reads_to_fail: AtomicUsize,
    /// Among this many replies to commits, every second one is lost.
    pub replies_to_lose: AtomicUsize,
    /// The store's own clock, if it has one.
    pub clock: Option<Arc<TestClock>>,
    /// Is sent a message with each heartbeat.
    pub heartbeats: Mutex<Option<mpsc::Sender<()>>>,
    faults: Option<Arc<dyn Faults>>,
    is_killed: AtomicBool,
    instance: Mutex<Option<InstanceId>>,
    /// The length of the suspension of the process after the next commit with a call that begins to run.
    suspension: Mutex<Option<Duration>>,
    suspended_until: Mutex<Option<Instant>>,
}

/// Faults beyond those that a test switches on and off.
#[async_trait]
pub trait Faults: Send + Sync {
    /// Runs before each operation. `is_write` is `true` if the operation changes a chat.
    async fn before_operation(&self, is_write: bool) -> Result<(), StoreError>;
    /// Runs after a chat was changed, before the caller gets the result.
    async fn after_write(&self) -> Result<(), StoreError>;
}

impl FaultyStore {
    pub fn new(store: Arc<InMemoryStore>, clock: Option<Arc<TestClock>>) -> Arc<Self> {
        Arc::new(Self { store, clock, ..Self::default() })
    }

    pub fn with_faults(store: Arc<InMemoryStore>, faults: Arc<dyn Faults>) -> Arc<Self> {
        Arc::new(Self { store, faults: Some(faults), ..Self::default() })
    }

    /// Kills the instance: it can write nothing more, and its lease has expired.
    pub fn kill(&self) {
        self.is_killed.store(true, Ordering::SeqCst);
        self.expire_lease();
    }

    /// Lets the lease of the instance expire, so that others may own its chats.
    pub fn expire_lease(&self) {
        self.store.expire(&self.joined().unwrap());
    }

    /// Returns the id of the instance, once it has joined.
    pub fn joined(&self) -> Option<InstanceId> {
        self.instance.lock().unwrap().clone()
    }

    /// Suspends the process for a while, right after it has saved that a call begins to run.
    pub fn suspend_when_a_call_begins(&self, suspension: Duration) {
        *self.suspension.lock().unwrap() = Some(suspension);
    }

    async fn wait_while_suspended(&self) {
        let until = *self.suspended_until.lock().unwrap();
        if let Some(until) = until {
            sleep_until(until).await;
        }
    }

    async fn wait_while_blocked(&self) {
        self.is_blocked.subscribe().wait_for(|is_blocked| !is_blocked).await.map(|_| ()).unwrap();
    }

    async fn before_read(&self) -> Result<(), StoreError> {
        let decrement = |left: usize| left.checked_sub(1);
        if self.reads_to_fail.fetch_update(Ordering::SeqCst, Ordering::SeqCst, decrement).is_ok() {
            return Err(StoreError::Unavailable("the test lets reads fail".into()));
        }
        self.before_operation(false).await
    }

    pub(super) async fn before_operation(&self, is_write: bool) -> Result<(), StoreError> {
        self.wait_while_suspended().await;
        if let Some(faults) = &self.faults {
            faults.before_operation(is_write).await?;
        }
        if self.is_killed.load(Ordering::SeqCst) || self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("the test lets the store fail".into()));
        }
        Ok(())
    }

    pub(super) async fn after_write(&self) -> Result<(), StoreError> {
        match &self.faults {
            Some(faults) => faults.after_write().await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Approvals for FaultyStore {
    async fn approval(&self, id: &ApprovalId, viewer: &Owner) -> Result<Option<ApprovalRecord>, StoreError> {
        self.before_read().await?;
        self.store.approval(id, viewer).await
    }
    async fn approvals(&self, list: ApprovalList<'_>) -> Result<Vec<ApprovalRecord>, StoreError> {
        self.before_read().await?;
        self.store.approvals(list).await
    }
    async fn approval_terms(&self) -> Result<Vec<SavedTerms>, StoreError> {
        self.before_read().await?;
        self.store.approval_terms().await
    }
    async fn changed_approvals(
        &self,
        after: &ApprovalCursor,
        limit: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        self.before_read().await?;
        self.store.changed_approvals(after, limit).await
    }
    async fn put_approval_terms(
        &self,
        id: &ApprovalId,
        terms: Option<&SavedTerms>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.before_operation(true).await?;
        self.store.put_approval_terms(id, terms, at).await
    }
}

#[async_trait]
impl ChatStore for FaultyStore {
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError> {
        self.wait_while_blocked().await;
        self.before_read().await?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        let read = self.store.chat(chat).await;
        // Other instances may be faster, as with a real database.
        tokio::task::yield_now().await;
        read
    }
    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError> {
        self.wait_while_blocked().await;
        self.before_read().await?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        let messages = self.store.messages(chat).await?;
        self.messages_read.fetch_add(messages.len(), Ordering::SeqCst);
        Ok(messages)
    }
    async fn outline(&self, chat: &ChatId) -> Result<Vec<MessageOutline>, StoreError> {
        self.before_read().await?;
        self.store.outline(chat).await
    }
    async fn messages_at(
        &self,
        chat: &ChatId,
        positions: Range<usize>,
        files: Files,
    ) -> Result<Vec<UiMessage>, StoreError> {
        self.before_read().await?;
        let messages = self.store.messages_at(chat, positions, files).await?;
        self.messages_read.fetch_add(messages.len(), Ordering::SeqCst);
        Ok(messages)
    }
    async fn file(&self, chat: &ChatId, name: &str) -> Result<Option<String>, StoreError> {
        self.before_read().await?;
        self.store.file(chat, name).await
    }
    async fn version(&self, chat: &ChatId) -> Result<Option<Version>, StoreError> {
        self.wait_while_blocked().await;
        self.before_read().await?;
        self.store.version(chat).await
    }
    async fn owner_of(&self, chat: &ChatId) -> Result<Option<ChatOwner>, StoreError> {
        self.before_read().await?;
        self.store.owner_of(chat).await
    }
    async fn message(&self, chat: &ChatId, id: &MessageId) -> Result<Option<(usize, UiMessage)>, StoreError> {
        self.wait_while_blocked().await;
        self.before_read().await?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.message(chat, id).await
    }
    async fn last_message(
        &self,
        chat: &ChatId,
        before: usize,
        role: Option<Role>,
    ) -> Result<Option<(usize, MessageId)>, StoreError> {
        self.wait_while_blocked().await;
        self.before_read().await?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.last_message(chat, before, role).await
    }
    async fn summary(&self, chat: &ChatId, most: usize) -> Result<Option<SummaryRecord>, StoreError> {
        self.before_read().await?;
        self.store.summary(chat, most).await
    }
    async fn was_deleted(&self, owner: &Owner, chat: &ChatId) -> Result<bool, StoreError> {
        self.before_read().await?;
        self.store.was_deleted(owner, chat).await
    }

    async fn last_plan(&self, chat: &ChatId, most: usize) -> Result<Option<Plan>, StoreError> {
        self.before_read().await?;
        self.store.last_plan(chat, most).await
    }
    async fn due_summaries(&self, now: Timestamp, limit: usize) -> Result<Vec<(ChatId, Owner)>, StoreError> {
        self.before_read().await?;
        self.store.due_summaries(now, limit).await
    }
    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError> {
        self.wait_while_blocked().await;
        self.before_read().await?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.call(chat, target).await
    }
    async fn commit(
        &self,
        chat: &ChatId,
        from: Version,
        to: Version,
        at: Timestamp,
        changes: Arc<[Change]>,
    ) -> Result<(), StoreError> {
        self.wait_while_blocked().await;
        self.before_operation(true).await?;
        let ends = changes.iter().any(|change| matches!(change, Change::CloseRun { .. }));
        let decrement = |left: usize| left.checked_sub(1);
        if ends && self.endings_to_fail.fetch_update(Ordering::SeqCst, Ordering::SeqCst, decrement).is_ok() {
            return Err(StoreError::Unavailable("the test lets the ends of runs fail".into()));
        }
        let begins_call = changes.iter().any(
            |change| matches!(change, Change::PutCall { call, .. } if call.state().name() == StateName::Executing),
        );
        self.store.commit(chat, from, to, at, changes).await?;
        if begins_call && let Some(suspension) = self.suspension.lock().unwrap().take() {
            *self.suspended_until.lock().unwrap() = Some(Instant::now() + suspension);
        }
        self.wait_while_suspended().await;
        self.reads_to_fail
            .fetch_add(self.reads_to_fail_after_commit.swap(0, Ordering::SeqCst), Ordering::SeqCst);
        let left = self.replies_to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, decrement);
        if left.is_ok_and(|left| left % 2 == 0) {
            return Err(StoreError::Unclear("the test loses the reply".into()));
        }
        self.after_write().await
    }
    async fn chats(&self, query: ChatQuery<'_>) -> Result<ChatPage, StoreError> {
        self.before_read().await?;
        self.store.chats(query).await
    }
    async fn first_words(&self, chat: &ChatId) -> Result<Option<String>, StoreError> {
        self.before_read().await?;
        self.store.first_words(chat).await
    }
    async fn delete(
        &self,
        chat: &ChatId,
        version: Version,
        at: Timestamp,
        audit: Vec<AuditEntry>,
    ) -> Result<(), StoreError> {
        self.before_operation(true).await?;
        self.store.delete(chat, version, at, audit).await?;
        self.after_write().await
    }
    async fn add_audit(&self, at: Timestamp, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        self.before_operation(true).await?;
        self.store.add_audit(at, entries).await
    }
    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        self.before_read().await?;
        self.store.due(now, limit).await
    }
    async fn orphans(&self, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        self.before_read().await?;
        self.store.orphans(limit).await
    }
    async fn answer_route(&self, owner: &Owner) -> Result<Option<AnswerRoute>, StoreError> {
        self.before_read().await?;
        self.store.answer_route(owner).await
    }
    async fn owner_grants(&self, owner: &Owner) -> Result<Vec<Grant>, StoreError> {
        self.before_read().await?;
        self.store.owner_grants(owner).await
    }
    async fn usage(
        &self,
        owner: &Owner,
        instance: &InstanceId,
        wanted: WantedUsage,
    ) -> Result<OwnerUsage, StoreError> {
        self.before_read().await?;
        self.store.usage(owner, instance, wanted).await
    }
    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.before_read().await?;
        self.store.forget(before, limit).await
    }
    async fn finished_log(
        &self,
        chat: &ChatId,
        run: &RunId,
    ) -> Result<Option<Vec<(u64, String)>>, StoreError> {
        self.before_read().await?;
        self.store.finished_log(chat, run).await
    }
    async fn forget_logs(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.before_read().await?;
        self.store.forget_logs(before, limit).await
    }
    async fn forget_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.before_read().await?;
        self.store.forget_audit(before, limit).await
    }
    async fn healthy(&self) -> Result<(), StoreError> {
        self.store.healthy().await
    }
    async fn ready(&self) -> Result<(), StoreError> {
        self.before_read().await?;
        self.store.ready().await
    }
}

#[async_trait]
impl Membership for FaultyStore {
    async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError> {
        self.before_read().await?;
        *self.instance.lock().unwrap() = Some(instance.clone());
        let joined = self.store.join(instance).await?;
        Ok(Joined { now: self.clock.as_ref().map(|clock| clock.now()), ..joined })
    }
    async fn heartbeat(&self, instance: &InstanceId) -> Result<Renewed, StoreError> {
        self.before_read().await?;
        if let Some(heartbeats) = &*self.heartbeats.lock().unwrap() {
            let _ = heartbeats.send(());
        }
        let renewed = self.store.heartbeat(instance).await?;
        Ok(Renewed { now: self.clock.as_ref().map(|clock| clock.now()), ..renewed })
    }
    async fn note_time(&self, mark: ClockMark) -> Result<(), StoreError> {
        self.before_read().await?;
        self.store.note_time(mark).await
    }
    async fn release(&self, instance: &InstanceId) -> Result<(), StoreError> {
        self.before_read().await?;
        self.store.release(instance).await
    }
    async fn leave(&self, instance: &InstanceId) -> Result<(), StoreError> {
        self.before_read().await?;
        self.store.leave(instance).await
    }
    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }
}

#[async_trait]
impl LockStore for FaultyStore {
    async fn try_lock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<bool, StoreError> {
        self.before_read().await?;
        self.store.try_lock(key, instance).await
    }
    async fn unlock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<(), StoreError> {
        self.before_read().await?;
        self.store.unlock(key, instance).await
    }
    async fn locks_of(&self, instance: &InstanceId) -> Result<Vec<ResourceKey>, StoreError> {
        self.before_read().await?;
        self.store.locks_of(instance).await
    }
}

#[async_trait]
impl Outbox for FaultyStore {
    async fn notice_added(&self) {
        self.store.notice_added().await;
    }
    async fn due_channels(&self, now: Timestamp) -> Result<Vec<String>, StoreError> {
        self.before_read().await?;
        self.store.due_channels(now).await
    }
    async fn claim_notices(
        &self,
        channel: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<ClaimedNotice>, StoreError> {
        self.before_read().await?;
        self.store.claim_notices(channel, now, until, limit).await
    }
    async fn next_notice(&self) -> Result<Option<Timestamp>, StoreError> {
        self.before_read().await?;
        self.store.next_notice().await
    }
    async fn note_attempt(
        &self,
        claimed: &ClaimedNotice,
        at: Timestamp,
        attempt: Attempt,
    ) -> Result<(), StoreError> {
        self.before_read().await?;
        self.store.note_attempt(claimed, at, attempt).await
    }
    async fn open_notices(&self) -> Result<usize, StoreError> {
        self.before_read().await?;
        self.store.open_notices().await
    }
    async fn notices(&self, limit: usize) -> Result<Vec<SavedNotice>, StoreError> {
        self.before_read().await?;
        self.store.notices(limit).await
    }
    async fn retry_notice(&self, id: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.before_read().await?;
        self.store.retry_notice(id, now).await
    }
    async fn forget_notices(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.before_read().await?;
        self.store.forget_notices(before, limit).await
    }
}
