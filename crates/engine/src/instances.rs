//! This process among those that share a store.
//!
//! What keeps instances from harming each other is in the store: fences, and who is alive. This module is about the rest: staying alive
//! ([`keeper`]), asking the instance that drives a chat ([`relay`]) and answering those that ask ([`answering`]), following a run that
//! another instance drives ([`feeds`], [`home`]), and locks that hold for all of them ([`locks`]). Letters between instances may be lost; whoever misses one asks again, or is moved.

mod answering;
mod feeds;
mod heartbeat;
mod home;
mod keeper;
mod letter;
mod locks;
mod relay;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fermata_protocol::ChatId;
use tokio::{
    sync::{OnceCell, Semaphore, watch},
    time::Instant,
};

pub(crate) use answering::read_letters;
pub(crate) use heartbeat::Heartbeat;
pub(crate) use home::home_of;
pub(crate) use keeper::{follow_beats, keep_alive, sweep};
pub(crate) use locks::{Lock, free_locks};
pub(crate) use relay::{Order, forward};

use crate::{
    Mail,
    deployment_clock::DeploymentClock,
    store::{InstanceId, LEASE, Store, StoreError},
};

/// How long a chat that cannot be taken up is left alone.
const SHUN_FOR: Duration = Duration::from_secs(60);
/// How many readers may look for their runs at a time.
const REJOINING_AT_ONCE: usize = 64;

/// This process among the others.
pub(crate) struct Instances {
    pub me: InstanceId,
    /// How to reach the others; `None` where there are none.
    pub mail: Option<Arc<dyn Mail>>,
    pub relay: relay::Relay,
    pub feeds: feeds::Feeds,
    pub locks: locks::LocksToFree,
    pub heartbeat: Heartbeat,
    joined: OnceCell<()>,
    alive: watch::Sender<Arc<BTreeSet<InstanceId>>>,
    /// Chats whose driver has failed here: nobody else takes them up while this instance is alive. Held for an insert or a take.
    dropped: Mutex<BTreeSet<ChatId>>,
    /// Chats that hold what cannot be read or changed, until when there is no use in trying again without being asked. Held for a copy or
    /// a push.
    shunned: Mutex<BTreeMap<ChatId, Instant>>,
    /// How often this instance has asked who is alive.
    beats: AtomicU64,
    /// How often others have taken it for dead, as far as it knows.
    deaths: AtomicU64,
    /// When it was told last that it is alive itself. Held for a copy or a change.
    beat_at: Mutex<Instant>,
    /// So many readers at a time look for their runs, when an instance dies that had many.
    pub rejoining: Semaphore,
}

// === impl Instances ===

impl Instances {
    pub fn new(me: InstanceId, mail: Option<Arc<dyn Mail>>, heartbeat: Heartbeat) -> Self {
        Self {
            me,
            mail,
            heartbeat,
            relay: relay::Relay::default(),
            feeds: feeds::Feeds::default(),
            locks: locks::LocksToFree::new(),
            joined: OnceCell::new(),
            alive: watch::Sender::default(),
            dropped: Mutex::default(),
            beats: AtomicU64::new(0),
            deaths: AtomicU64::new(0),
            beat_at: Mutex::new(Instant::now()),
            rejoining: Semaphore::new(REJOINING_AT_ONCE),
            shunned: Mutex::default(),
        }
    }

    /// Counts this instance among those alive, once. What it drives is its own only from then on, and only then it knows what time it is.
    pub async fn join(&self, store: &Arc<dyn Store>, clock: &DeploymentClock) -> Result<(), StoreError> {
        let joining = || async {
            let (store, me, asked) = (store.clone(), self.me.clone(), Instant::now());
            let joined = self.heartbeat.run(async move { store.join(&me).await }).await?;
            clock.start(&joined, asked);
            Ok(())
        };
        self.joined.get_or_try_init(joining).await.copied()
    }

    /// This instance is no longer alive.
    pub async fn leave(&self, store: &Arc<dyn Store>) -> Result<(), StoreError> {
        let (store, me) = (store.clone(), self.me.clone());
        self.heartbeat.run(async move { store.leave(&me).await }).await
    }

    /// Notes a chat that is to be taken up again when the store is there again.
    pub fn drop_chat(&self, chat: ChatId) {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).insert(chat);
    }

    /// Takes what was noted.
    pub fn take_dropped(&self) -> BTreeSet<ChatId> {
        std::mem::take(&mut *self.dropped.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes a chat that cannot be taken up, for a while.
    pub fn shun(&self, chat: ChatId) {
        self.shunned.lock().unwrap_or_else(PoisonError::into_inner).insert(chat, Instant::now() + SHUN_FOR);
    }

    /// Those noted so.
    pub fn shunned(&self) -> BTreeSet<ChatId> {
        let mut shunned = self.shunned.lock().unwrap_or_else(PoisonError::into_inner);
        shunned.retain(|_, until| Instant::now() < *until);
        shunned.keys().cloned().collect()
    }

    /// Whether an instance was alive when this one asked last.
    pub fn is_alive(&self, instance: &InstanceId) -> bool {
        self.alive.borrow().contains(instance)
    }

    /// How often this instance has asked who is alive.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// How often others have taken this instance for dead, as far as it knows: what it has in memory from before may be out of date.
    pub fn deaths(&self) -> u64 {
        self.deaths.load(Ordering::Acquire)
    }

    /// Whether so much time has gone by that others may have taken this instance for dead.
    pub fn may_be_dead(&self) -> bool {
        self.beat_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= LEASE
    }

    fn note_death(&self) {
        self.deaths.fetch_add(1, Ordering::AcqRel);
    }

    /// What a beat has told, that was sent at this time.
    fn set_alive(&self, alive: BTreeSet<InstanceId>, at: Instant) {
        *self.beat_at.lock().unwrap_or_else(PoisonError::into_inner) = at;
        self.alive.send_replace(Arc::new(alive));
        self.beats.fetch_add(1, Ordering::Relaxed);
    }
}
