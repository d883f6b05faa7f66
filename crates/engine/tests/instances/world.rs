//! Several engines on one store, which come and go, and all that is asked of them.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use fermata_engine::{
    Engine, EngineParts, Following, Limits, Rules, Settings,
    peer_transport::MemoryTransport,
    store::{ChatRecord, ChatStore, MemoryStore},
};
use fermata_protocol::{ChatId, Profile, UiMessage};
use fermata_tools::{Owner, Tool};
use futures::FutureExt;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::{
    clients::{self, Client, Shared},
    facts::Facts,
    life::{Chance, Life, Weather, Wire},
    model::{Mouth, Oracle},
    shared::{Counting, Paused, Shaky},
    tools::{Deed, KINDS, Runs},
};

/// How many chats there are, and how many runs their owner may have open.
pub const CHATS: usize = 3;

/// All there is.
pub struct World {
    pub weather: Arc<Weather>,
    pub store: Arc<MemoryStore>,
    pub transport: Arc<MemoryTransport>,
    pub oracle: Arc<Oracle>,
    pub runs: Arc<Runs>,
    ids: Arc<Counting>,
    clock: Arc<Paused>,
    pub slots: Vec<Slot>,
    /// Those that were told to end.
    pub ending: Vec<Slot>,
    pub clients: Arc<Mutex<Vec<Shared>>>,
    /// What was asked and has not come to an end.
    pub requests: TaskTracker,
    pub owner: Owner,
    /// Counts messages and outputs, so that each is another.
    pub said: usize,
}

/// An instance.
#[derive(Clone)]
pub struct Slot {
    pub engine: Engine,
    pub life: Arc<Life>,
    pub store: Arc<Shaky>,
}

/// Nobody waits for longer than this for a reply.
const PATIENCE: Duration = Duration::from_secs(90);

// === impl World ===

impl World {
    pub fn new(seed: u64, pace: u64, instances: usize) -> Self {
        let weather = Weather {
            chance: Chance::new(seed),
            pace,
            lost: 0.into(),
            doubled: 0.into(),
            loses: Mutex::default(),
            lives: 0.into(),
            asked: 0.into(),
            facts: Arc::new(Facts::new()),
        };
        let mut world = Self {
            weather: Arc::new(weather),
            store: Arc::default(),
            transport: Arc::default(),
            oracle: Arc::default(),
            runs: Arc::default(),
            ids: Arc::default(),
            clock: Arc::default(),
            slots: Vec::new(),
            ending: Vec::new(),
            clients: Arc::default(),
            requests: TaskTracker::new(),
            owner: Owner::new("alice"),
            said: 0,
        };
        world.slots = (0..instances).map(|_| world.start()).collect();
        world
    }

    pub fn facts(&self) -> &Arc<Facts> {
        &self.weather.facts
    }

    /// Another instance.
    pub fn start(&self) -> Slot {
        let life = Life::new(self.weather.clone());
        let store = Shaky::troubled(self.store.clone(), life.clone());
        let deed = |kind| {
            let (life, store, runs) = (life.clone(), store.clone(), self.runs.clone());
            Arc::new(Deed { kind, life, store, runs }) as Arc<dyn Tool>
        };
        let engine = Engine::new(EngineParts {
            model: Arc::new(Mouth { oracle: self.oracle.clone(), life: life.clone(), store: store.clone() }),
            store: store.clone(),
            peers: Some(Arc::new(Wire { transport: self.transport.clone(), life: life.clone() })),
            tools: KINDS.iter().map(deed).collect(),
            rules: Rules::default(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            settings: settings(),
        });
        let slot = Slot { engine: engine.unwrap(), life, store };
        tokio::spawn(self.notices_death(&slot));
        slot
    }

    /// What becomes of an instance whose process has ended: its tools have ended, and the others notice sooner or later.
    fn notices_death(&self, slot: &Slot) -> impl Future<Output = ()> + Send + use<> {
        let (slot, transport, runs) = (slot.clone(), self.transport.clone(), self.runs.clone());
        async move {
            slot.life.dead.cancelled().await;
            runs.end_with(&slot.life);
            let chance = &slot.life.world.chance;
            let Some(instance) = slot.store.joined() else { return };
            slot.life.world.facts.log(format!("{instance} is dead"));
            if chance.below(2) == 0 {
                sleep(fermata_engine::store::LEASE).await;
            }
            slot.store.store.bury(&instance);
            if chance.below(2) == 0 {
                fermata_engine::PeerTransport::close(&*transport, &instance).await;
            }
        }
    }

    /// The instance in this place; another, where that one has died.
    pub fn slot(&mut self, at: usize) -> Slot {
        let at = at % self.slots.len();
        if self.slots[at].life.dead.is_cancelled() {
            self.slots[at] = self.start();
        }
        self.slots[at].clone()
    }

    pub fn chat(&self, chat: usize) -> ChatId {
        ChatId::new(format!("c{}", chat % CHATS))
    }

    /// A chat as the database has it.
    pub fn record(&self, chat: &ChatId) -> Option<ChatRecord> {
        self.store.chat(chat).now_or_never().unwrap().unwrap()
    }

    /// Its messages as the database has them.
    pub fn messages(&self, chat: &ChatId) -> Vec<UiMessage> {
        self.store.messages(chat).now_or_never().unwrap().unwrap()
    }

    /// Asks an instance; `then` gets what came of it, or nothing where the instance has died.
    pub fn ask<T: Send + 'static>(
        &self,
        slot: &Slot,
        what: String,
        work: impl Future<Output = T> + Send + 'static,
        then: impl FnOnce(Option<T>) + Send + 'static,
    ) {
        let dead = slot.life.dead.clone();
        let facts = self.facts().clone();
        self.requests.spawn(async move {
            let done = tokio::select! {
                biased;
                () = dead.cancelled() => None,
                done = timeout(PATIENCE, work) => match done {
                    Ok(done) => Some(done),
                    Err(_) => {
                        facts.fault(format!("{what} hangs"));
                        None
                    }
                }
            };
            then(done);
        });
    }

    /// What lets somebody follow a run.
    pub fn follower(
        &self,
        slot: &Slot,
        base: Option<UiMessage>,
        before: Option<Shared>,
    ) -> impl FnOnce(Following) + Send + use<> {
        let (clients, life) = (self.clients.clone(), slot.life.clone());
        let requests = self.requests.clone();
        move |following| {
            let client = match &before {
                Some(before) => Client::new(&following, base, Some(&before.lock().unwrap())),
                None => Client::new(&following, base, None),
            };
            let client = Arc::new(Mutex::new(client));
            clients.lock().unwrap().push(client.clone());
            requests.spawn(clients::reads(client, following, life));
        }
    }

    /// The nth of those who have read.
    pub fn client(&self, nth: usize) -> Option<Shared> {
        let clients = self.clients.lock().unwrap();
        // The newest are more interesting than those of long ago.
        clients.iter().rev().nth(nth % clients.len().clamp(1, 6)).cloned()
    }

    /// All instances are well, and so is what is between them.
    pub fn heals(&mut self) {
        self.transport.set_down(false);
        self.weather.lost.store(0, Ordering::Relaxed);
        self.weather.doubled.store(0, Ordering::Relaxed);
        for at in 0..self.slots.len() {
            self.slot(at);
        }
        for slot in self.slots.iter().chain(&self.ending) {
            slot.store.fails.store(false, Ordering::SeqCst);
            *slot.life.fuse.lock().unwrap() = None;
        }
    }
}

fn settings() -> Settings {
    Settings {
        hold: Duration::from_secs(60),
        // Short, because every second that passes costs some real time.
        expire: Duration::from_secs(400),
        heartbeat_thread: false,
        drain: Duration::from_secs(3),
        client: Profile::V6,
        limits: Limits {
            steps: 5,
            runs_per_owner: NonZeroUsize::new(CHATS),
            model_timeout: Duration::from_secs(30),
            tool_timeout: Duration::from_secs(20),
            lock_timeout: Duration::from_secs(45),
            ..Limits::default()
        },
        ..Settings::default()
    }
}
