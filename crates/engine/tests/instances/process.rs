//! The faults of an instance: slow operations, commits that fail, lost messages, and its death.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use fermata_engine::{
    PeerTransport,
    peer_transport::{InMemoryTransport, TransportError},
    store::{InstanceId, StoreError},
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{history::History, shared::faulty_store::Faults};

/// Random numbers from a seed.
pub struct Random(AtomicU64);

/// The process of an instance.
pub struct Process {
    /// Cancelled when the process is killed: nothing that it has begun goes on.
    pub killed: CancellationToken,
    /// `true` if the lease has expired while the process was alive.
    pub lease_expired: AtomicBool,
    pub commit_fault: Mutex<Option<CommitFault>>,
    /// While it is closed, writes wait.
    pub write_gate: watch::Sender<WriteGate>,
    pub conditions: Arc<Conditions>,
    /// The number of the process, counted from 0.
    pub number: u64,
}

/// The conditions that all instances share.
pub struct Conditions {
    pub random: Random,
    /// The maximum delay of an operation outside of the process, in milliseconds.
    pub max_delay_ms: u64,
    /// The percentages of messages that are lost and duplicated.
    pub lost_percent: AtomicU64,
    pub duplicated_percent: AtomicU64,
    /// If this is set, the next message that contains it is lost.
    pub lose_next: Mutex<Option<&'static str>>,
    /// The number of processes so far.
    pub processes: AtomicU64,
    /// The number of operations of the store so far.
    pub store_operations: AtomicUsize,
    pub history: Arc<History>,
}

/// Lets writes pass, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteGate {
    #[default]
    Open,
    Closed,
    /// Closed, and a write waits.
    Waiting,
}

/// A failure at a commit.
#[derive(Clone, Copy, Debug)]
pub struct CommitFault {
    /// The number of commits that succeed before.
    pub commits: usize,
    /// If `true`, the commit is made before the failure.
    pub after: bool,
    /// If `true`, the process is killed; otherwise the connection breaks.
    pub kills: bool,
}

/// The transport of an instance, which loses and duplicates messages.
pub struct FaultyTransport {
    pub transport: Arc<InMemoryTransport>,
    pub process: Arc<Process>,
}

/// More operations than any schedule needs; more of them mean an endless loop.
const MAX_STORE_OPERATIONS: usize = 400_000;

// === impl Chance ===

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        // SplitMix64.
        let mut z =
            self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)).checked_rem(bound).unwrap_or(0)
    }

    pub fn one_of<'a, T>(&self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

// === impl Weather ===

impl Conditions {
    /// Waits as long as an operation outside of the process takes.
    pub async fn delay(&self) {
        match self.random.below(self.max_delay_ms + 1) {
            0 => tokio::task::yield_now().await,
            time => sleep(Duration::from_millis(time)).await,
        }
    }
}

// === impl Life ===

impl Process {
    pub fn new(conditions: Arc<Conditions>) -> Arc<Self> {
        Arc::new(Self {
            killed: CancellationToken::new(),
            lease_expired: AtomicBool::new(false),
            commit_fault: Mutex::default(),
            write_gate: watch::Sender::default(),
            number: conditions.processes.fetch_add(1, Ordering::Relaxed),
            conditions,
        })
    }

    /// Never returns if the process was killed.
    pub async fn hang_if_killed(&self) {
        if self.killed.is_cancelled() {
            std::future::pending().await
        }
    }

    /// Runs a future; never returns if the process is killed before its end.
    pub async fn run_until_killed<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = self.killed.cancelled() => std::future::pending().await,
            done = work => done,
        }
    }

    /// Returns whether a write waits at the gate.
    pub fn is_write_waiting(&self) -> bool {
        *self.write_gate.borrow() == WriteGate::Waiting
    }

    async fn pass_write_gate(&self) {
        self.write_gate.send_if_modified(|write_gate| {
            let is_shut = *write_gate == WriteGate::Closed;
            if is_shut {
                *write_gate = WriteGate::Waiting;
            }
            is_shut
        });
        let opened = self
            .write_gate
            .subscribe()
            .wait_for(|write_gate| *write_gate == WriteGate::Open)
            .await
            .map(|_| ());
        opened.unwrap();
    }

    async fn trigger_commit_fault(&self, after: bool) -> Result<(), StoreError> {
        let fault = {
            let mut commit_fault = self.commit_fault.lock().unwrap();
            match &mut *commit_fault {
                Some(fault) if fault.after == after && fault.commits == 0 => commit_fault.take(),
                Some(fault) if fault.after == after => {
                    fault.commits -= 1;
                    None
                }
                Some(_) | None => None,
            }
        };
        match fault {
            Some(CommitFault { kills: true, .. }) => {
                self.killed.cancel();
                std::future::pending().await
            }
            Some(CommitFault { kills: false, .. }) => {
                Err(StoreError::Unavailable("the connection broke".into()))
            }
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Faults for Process {
    async fn before_operation(&self, is_write: bool) -> Result<(), StoreError> {
        self.hang_if_killed().await;
        if self.conditions.store_operations.fetch_add(1, Ordering::Relaxed) > MAX_STORE_OPERATIONS {
            self.conditions.history.violation("the store is used for ever");
            std::future::pending().await
        }
        self.conditions.delay().await;
        self.hang_if_killed().await;
        if is_write {
            self.pass_write_gate().await;
            self.conditions.history.log(format!("{} writes", self.number));
            self.trigger_commit_fault(false).await?;
        }
        Ok(())
    }

    async fn after_write(&self) -> Result<(), StoreError> {
        self.conditions.history.log(format!("{} has written", self.number));
        self.trigger_commit_fault(true).await?;
        self.conditions.delay().await;
        self.hang_if_killed().await;
        Ok(())
    }
}

// === impl Wire ===

#[async_trait]
impl PeerTransport for FaultyTransport {
    async fn open(&self, instance: &InstanceId) -> Result<(), TransportError> {
        self.process.hang_if_killed().await;
        self.transport.open(instance).await
    }

    async fn send(&self, to: &InstanceId, messages: Vec<Vec<u8>>) -> Result<(), TransportError> {
        self.process.hang_if_killed().await;
        let conditions = &self.process.conditions;
        conditions.delay().await;
        self.process.hang_if_killed().await;
        let contains = |what: &[u8]| {
            messages.iter().any(|message| message.windows(what.len()).any(|bytes| bytes == what))
        };
        if conditions.lose_next.lock().unwrap().take_if(|what| contains(what.as_bytes())).is_some() {
            return Ok(());
        }
        if conditions.random.below(100) < conditions.lost_percent.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Transports deliver no message twice, and a post would be carried out twice. Duplicates of other messages must do no harm.
        if !contains(b"\"submit\":")
            && conditions.random.below(100) < conditions.duplicated_percent.load(Ordering::Relaxed)
        {
            self.transport.send(to, messages.clone()).await?;
        }
        self.transport.send(to, messages).await
    }

    async fn receive(&self, instance: &InstanceId) -> Result<Vec<Vec<u8>>, TransportError> {
        let messages = self.process.run_until_killed(self.transport.receive(instance)).await?;
        self.process.conditions.delay().await;
        self.process.hang_if_killed().await;
        Ok(messages)
    }

    async fn close(&self, instance: &InstanceId) {
        self.process.hang_if_killed().await;
        self.transport.close(instance).await;
    }
}
