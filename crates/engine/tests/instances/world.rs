//! Several instances on one store, which start and end, and the requests to them.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use fermata_engine::{
    Assistants, Engine, EngineParts, Following, Hold, Limits, MemoryService, Rules, Settings,
    memories::MemoryLimits,
    peer_transport::InMemoryTransport,
    store::{ChatRecord, ChatStore, InMemoryStore},
};
use fermata_protocol::{ChatId, Profile, UiMessage};
use fermata_tools::{Capacity, MemoryWrites, Owner, Tool};
use futures::FutureExt;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::{
    clients::{self, Client, SharedClient},
    history::History,
    model::{InstanceModel, RandomModel},
    process::{Conditions, FaultyTransport, Process, Random},
    shared::{CountingIds, FaultyStore, TestClock},
    tools::{Executions, REMEMBER, ScriptedTool, TOOLS},
};

/// The number of chats, and of the runs that their owner may have open.
pub const CHATS: usize = 3;

/// The deployment, and its clients.
pub struct World {
    pub conditions: Arc<Conditions>,
    pub store: Arc<InMemoryStore>,
    pub transport: Arc<InMemoryTransport>,
    pub model: Arc<RandomModel>,
    pub executions: Arc<Executions>,
    ids: Arc<CountingIds>,
    clock: Arc<TestClock>,
    pub instances: Vec<Instance>,
    /// The instances that are shutting down.
    pub shutting_down: Vec<Instance>,
    pub clients: Arc<Mutex<Vec<SharedClient>>>,
    /// The requests that have no reply yet.
    pub requests: TaskTracker,
    pub owner: Owner,
    /// The number of messages and outputs so far, which makes each of them unique.
    pub texts: usize,
}

/// An instance.
#[derive(Clone)]
pub struct Instance {
    pub engine: Engine,
    pub process: Arc<Process>,
    pub store: Arc<FaultyStore>,
}

/// A request counts as hanging after this time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

// === impl World ===

impl World {
    pub fn new(seed: u64, max_delay_ms: u64, instances: usize) -> Self {
        let conditions = Conditions {
            random: Random::new(seed),
            max_delay_ms,
            lost_percent: 0.into(),
            duplicated_percent: 0.into(),
            lose_next: Mutex::default(),
            processes: 0.into(),
            store_operations: 0.into(),
            history: Arc::new(History::new()),
        };
        let mut world = Self {
            conditions: Arc::new(conditions),
            store: Arc::default(),
            transport: Arc::default(),
            model: Arc::default(),
            executions: Arc::default(),
            ids: Arc::default(),
            clock: Arc::default(),
            instances: Vec::new(),
            shutting_down: Vec::new(),
            clients: Arc::default(),
            requests: TaskTracker::new(),
            owner: Owner::new("alice"),
            texts: 0,
        };
        world.instances = (0..instances).map(|_| world.start()).collect();
        world
    }

    pub fn history(&self) -> &Arc<History> {
        &self.conditions.history
    }

    /// Starts another instance.
    pub fn start(&self) -> Instance {
        let process = Process::new(self.conditions.clone());
        let store = FaultyStore::with_faults(self.store.clone(), process.clone());
        let tool = |kind| {
            let (process, store, executions) = (process.clone(), store.clone(), self.executions.clone());
            Arc::new(ScriptedTool { kind, process, store, executions }) as Arc<dyn Tool>
        };
        let mut assistants = Assistants::answered_by(Arc::new(InstanceModel {
            model: self.model.clone(),
            process: process.clone(),
            store: store.clone(),
        }));
        assistants.default.remembers = true;
        let engine = Engine::new(EngineParts {
            assistants,
            store: store.clone(),
            peers: Some(Arc::new(FaultyTransport {
                transport: self.transport.clone(),
                process: process.clone(),
            })),
            tools: TOOLS.iter().chain([&REMEMBER]).map(tool).collect(),
            // The facts of a summary are remembered even after outside text was read, so the checks can tell that nothing of it is lost.
            rules: Rules { memory_writes: MemoryWrites::Free, ..Rules::default() },
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            resolver: Arc::new(fermata_engine::SystemResolver::default()),
            memories: MemoryService::new(
                store.clone(),
                self.clock.clone(),
                self.ids.clone(),
                None,
                Capacity::unlimited(),
                MemoryLimits::default(),
            ),
            model_requests: Capacity::unlimited(),
            traces: None,
            settings: settings(),
        });
        let instance = Instance { engine: engine.unwrap(), process, store };
        tokio::spawn(self.expire_after_death(&instance));
        instance
    }

    /// Lets the lease of an instance expire some time after its process was killed, and ends its tools.
    fn expire_after_death(&self, instance: &Instance) -> impl Future<Output = ()> + Send + use<> {
        let (instance, transport, executions) =
            (instance.clone(), self.transport.clone(), self.executions.clone());
        async move {
            instance.process.killed.cancelled().await;
            executions.end_process(&instance.process);
            let random = &instance.process.conditions.random;
            let Some(id) = instance.store.joined() else { return };
            instance.process.conditions.history.log(format!("{id} was killed"));
            if random.below(2) == 0 {
                sleep(fermata_engine::store::LEASE).await;
            }
            instance.store.store.expire(&id);
            if random.below(2) == 0 {
                fermata_engine::PeerTransport::close(&*transport, &id).await;
            }
        }
    }

    /// Returns the instance with this index, or a new one if it was killed.
    pub fn instance(&mut self, index: usize) -> Instance {
        let index = index % self.instances.len();
        if self.instances[index].process.killed.is_cancelled() {
            self.instances[index] = self.start();
        }
        self.instances[index].clone()
    }

    pub fn chat(&self, chat: usize) -> ChatId {
        ChatId::new(format!("c{}", chat % CHATS))
    }

    /// Returns a chat as it is saved.
    pub fn record(&self, chat: &ChatId) -> Option<ChatRecord> {
        self.store.chat(chat).now_or_never().unwrap().unwrap()
    }

    /// Returns the messages of a chat as they are saved.
    pub fn messages(&self, chat: &ChatId) -> Vec<UiMessage> {
        self.store.messages(chat).now_or_never().unwrap().unwrap()
    }

    /// Makes a request to an instance. `then` gets the result, or `None` if the instance was killed or the request hangs.
    pub fn request<T: Send + 'static>(
        &self,
        instance: &Instance,
        what: String,
        work: impl Future<Output = T> + Send + 'static,
        then: impl FnOnce(Option<T>) + Send + 'static,
    ) {
        let killed = instance.process.killed.clone();
        let history = self.history().clone();
        self.requests.spawn(async move {
            let done = tokio::select! {
                biased;
                () = killed.cancelled() => None,
                done = timeout(REQUEST_TIMEOUT, work) => match done {
                    Ok(done) => Some(done),
                    Err(_) => {
                        history.violation(format!("{what} hangs"));
                        None
                    }
                }
            };
            then(done);
        });
    }

    /// Returns a function that begins to read a run as a client.
    pub fn follower(
        &self,
        instance: &Instance,
        base: Option<UiMessage>,
        before: Option<SharedClient>,
    ) -> impl FnOnce(Following) + Send + use<> {
        let (clients, process) = (self.clients.clone(), instance.process.clone());
        let requests = self.requests.clone();
        move |following| {
            let client = match &before {
                Some(before) => Client::new(&following, base, Some(&before.lock().unwrap())),
                None => Client::new(&following, base, None),
            };
            let client = Arc::new(Mutex::new(client));
            clients.lock().unwrap().push(client.clone());
            requests.spawn(clients::read_stream(client, following, process));
        }
    }

    /// Returns one of the newest clients.
    pub fn client(&self, index: usize) -> Option<SharedClient> {
        let clients = self.clients.lock().unwrap();
        clients.iter().rev().nth(index % clients.len().clamp(1, 6)).cloned()
    }

    /// Ends all faults.
    pub fn end_faults(&mut self) {
        self.transport.set_down(false);
        self.conditions.lost_percent.store(0, Ordering::Relaxed);
        self.conditions.duplicated_percent.store(0, Ordering::Relaxed);
        for instance in 0..self.instances.len() {
            self.instance(instance);
        }
        for instance in self.instances.iter().chain(&self.shutting_down) {
            instance.store.fails.store(false, Ordering::SeqCst);
            *instance.process.commit_fault.lock().unwrap() = None;
        }
    }
}

fn settings() -> Settings {
    Settings {
        hold: Hold::For(Duration::from_secs(60)),
        // Short, because each second of paused time costs some real time.
        expire: Duration::from_secs(400),
        heartbeat_thread: false,
        drain: Duration::from_secs(3),
        client: Profile::V6,
        keep_recent: 2,
        summary_every: 2,
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
