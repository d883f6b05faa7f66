//! An instance's store, and what may become of it.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fermata_engine::{
    Clock,
    store::{
        Beat, Change, ChatOwner, ChatPage, ChatRecord, ChatStore, ClockMark, Fence, InstanceId, Joined, Kept,
        LockStore, Membership, MemoryStore, Outlined, StoreError,
    },
};
use fermata_protocol::{AnswerTarget, ChatId, RunId, UiMessage};
use fermata_tools::{Call, Owner, ResourceKey, StateName};
use jiff::Timestamp;
use tokio::{sync::watch, time::Instant};

use super::Paused;

/// One instance's way to the store, which fails while it is told to, and for ever when the instance was killed.
#[derive(Default)]
pub struct Shaky {
    pub store: Arc<MemoryStore>,
    pub fails: AtomicBool,
    /// While this holds, nothing of a chat can be read or written, and nothing fails either.
    pub is_silent: watch::Sender<bool>,
    /// How often more of a chat was read than its owner or its version.
    pub reads: AtomicUsize,
    /// The clock that all instances share, if the store is one that has a clock.
    pub clock: Option<Arc<Paused>>,
    /// Told of each beat.
    pub beats: Mutex<Option<std::sync::mpsc::Sender<()>>>,
    is_dead: AtomicBool,
    instance: Mutex<Option<InstanceId>>,
    trouble: Option<Arc<dyn Trouble>>,
    /// For how long the process is to stand still right after it has saved that a call begins.
    pause: Mutex<Option<Duration>>,
    /// How often whoever is about to end a run fails instead.
    pub endings_to_fail: AtomicUsize,
    /// Until when it does.
    stands_still: Mutex<Option<Instant>>,
}

/// What else may become of what is asked of a store.
#[async_trait]
pub trait Trouble: Send + Sync {
    /// Before anything; `writes` where it changes a chat.
    async fn before(&self, writes: bool) -> Result<(), StoreError>;
    /// After a chat was changed, before who asked knows it.
    async fn after(&self) -> Result<(), StoreError>;
}

impl Shaky {
    pub fn on(store: Arc<MemoryStore>, clock: Option<Arc<Paused>>) -> Arc<Self> {
        Arc::new(Self { store, clock, ..Self::default() })
    }

    /// One to which more may happen than it is told.
    pub fn troubled(store: Arc<MemoryStore>, trouble: Arc<dyn Trouble>) -> Arc<Self> {
        Arc::new(Self { store, trouble: Some(trouble), ..Self::default() })
    }

    /// What is left of the process does nothing more that anybody else could notice.
    pub fn kill(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        self.bury();
    }

    /// Has the process stand still for a while, right after it has saved that a call begins.
    pub fn stand_still_when_a_call_begins(&self, pause: Duration) {
        *self.pause.lock().unwrap() = Some(pause);
    }

    async fn stand_still(&self) {
        let until = *self.stands_still.lock().unwrap();
        if let Some(until) = until {
            tokio::time::sleep_until(until).await;
        }
    }

    /// The others take the instance for dead.
    pub fn bury(&self) {
        self.store.bury(&self.instance());
    }

    pub fn instance(&self) -> InstanceId {
        self.joined().unwrap()
    }

    /// Its name, once it has told it.
    pub fn joined(&self) -> Option<InstanceId> {
        self.instance.lock().unwrap().clone()
    }

    fn time(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.begin(false).await
    }

    async fn begin(&self, writes: bool) -> Result<(), StoreError> {
        self.stand_still().await;
        if let Some(trouble) = &self.trouble {
            trouble.before(writes).await?;
        }
        if self.is_dead.load(Ordering::SeqCst) || self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("told to fail".into()));
        }
        Ok(())
    }

    async fn answers(&self) {
        self.is_silent.subscribe().wait_for(|is_silent| !is_silent).await.map(|_| ()).unwrap();
    }

    async fn end(&self) -> Result<(), StoreError> {
        match &self.trouble {
            Some(trouble) => trouble.after().await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl ChatStore for Shaky {
    async fn chat(&self, chat: &ChatId) -> Result<Option<ChatRecord>, StoreError> {
        self.answers().await;
        self.check().await?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        let read = self.store.chat(chat).await;
        // As with a real database others may be first.
        tokio::task::yield_now().await;
        read
    }
    async fn messages(&self, chat: &ChatId) -> Result<Vec<UiMessage>, StoreError> {
        self.answers().await;
        self.check().await?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.messages(chat).await
    }
    async fn outline(&self, chat: &ChatId) -> Result<Vec<Outlined>, StoreError> {
        self.check().await?;
        self.store.outline(chat).await
    }
    async fn messages_at(
        &self,
        chat: &ChatId,
        positions: Range<usize>,
    ) -> Result<Vec<UiMessage>, StoreError> {
        self.check().await?;
        self.store.messages_at(chat, positions).await
    }
    async fn version(&self, chat: &ChatId) -> Result<Option<Fence>, StoreError> {
        self.answers().await;
        self.check().await?;
        self.store.version(chat).await
    }
    async fn owner_of(&self, chat: &ChatId) -> Result<Option<ChatOwner>, StoreError> {
        self.check().await?;
        self.store.owner_of(chat).await
    }
    async fn call(&self, chat: &ChatId, target: &AnswerTarget) -> Result<Option<Call>, StoreError> {
        self.answers().await;
        self.check().await?;
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.call(chat, target).await
    }
    async fn commit(
        &self,
        chat: &ChatId,
        fence: Fence,
        at: Timestamp,
        changes: Vec<Change>,
    ) -> Result<Fence, StoreError> {
        self.answers().await;
        self.begin(true).await?;
        let ends = changes.iter().any(|change| matches!(change, Change::CloseRun { .. }));
        let fewer = |left: usize| left.checked_sub(1);
        if ends && self.endings_to_fail.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_ok() {
            return Err(StoreError::Unavailable("told to fail when a run ends".into()));
        }
        let begins = |change: &Change| matches!(change, Change::PutCall { call, .. } if call.state().name() == StateName::Executing);
        let begins = changes.iter().any(begins);
        let fence = self.store.commit(chat, fence, at, changes).await?;
        if begins && let Some(pause) = self.pause.lock().unwrap().take() {
            *self.stands_still.lock().unwrap() = Some(Instant::now() + pause);
        }
        self.stand_still().await;
        self.end().await?;
        Ok(fence)
    }
    async fn chats(&self, owner: &Owner, limit: usize, before: Option<&str>) -> Result<ChatPage, StoreError> {
        self.check().await?;
        self.store.chats(owner, limit, before).await
    }
    async fn delete(&self, chat: &ChatId, fence: Fence) -> Result<(), StoreError> {
        self.begin(true).await?;
        self.store.delete(chat, fence).await?;
        self.end().await
    }
    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        self.check().await?;
        self.store.due(now, limit).await
    }
    async fn orphans(&self, limit: usize) -> Result<Vec<ChatId>, StoreError> {
        self.check().await?;
        self.store.orphans(limit).await
    }
    async fn kept(&self, owner: &Owner, instance: &InstanceId) -> Result<Kept, StoreError> {
        self.check().await?;
        self.store.kept(owner, instance).await
    }
    async fn forget(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.check().await?;
        self.store.forget(before, limit).await
    }
    async fn finished_log(
        &self,
        chat: &ChatId,
        run: &RunId,
    ) -> Result<Option<Vec<(u64, String)>>, StoreError> {
        self.check().await?;
        self.store.finished_log(chat, run).await
    }
    async fn forget_logs(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.check().await?;
        self.store.forget_logs(before, limit).await
    }
    async fn forget_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.check().await?;
        self.store.forget_audit(before, limit).await
    }
    async fn ready(&self) -> Result<(), StoreError> {
        self.check().await?;
        self.store.ready().await
    }
}

#[async_trait]
impl Membership for Shaky {
    async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError> {
        self.check().await?;
        *self.instance.lock().unwrap() = Some(instance.clone());
        let joined = self.store.join(instance).await?;
        Ok(Joined { now: self.time(), ..joined })
    }
    async fn beat(&self, instance: &InstanceId) -> Result<Beat, StoreError> {
        self.check().await?;
        if let Some(beats) = &*self.beats.lock().unwrap() {
            let _ = beats.send(());
        }
        let beat = self.store.beat(instance).await?;
        Ok(Beat { now: self.time(), ..beat })
    }
    async fn note_time(&self, mark: ClockMark) -> Result<(), StoreError> {
        self.check().await?;
        self.store.note_time(mark).await
    }
    async fn release(&self, instance: &InstanceId) -> Result<(), StoreError> {
        self.check().await?;
        self.store.release(instance).await
    }
    async fn leave(&self, instance: &InstanceId) -> Result<(), StoreError> {
        self.check().await?;
        self.store.leave(instance).await
    }
    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }
}

#[async_trait]
impl LockStore for Shaky {
    async fn try_lock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<bool, StoreError> {
        self.check().await?;
        self.store.try_lock(key, instance).await
    }
    async fn unlock(&self, key: &ResourceKey, instance: &InstanceId) -> Result<(), StoreError> {
        self.check().await?;
        self.store.unlock(key, instance).await
    }
}
