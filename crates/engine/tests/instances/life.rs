//! What may become of an instance: how slow it is, when it ends, and what is lost on its way to the others.

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
    peer_transport::{MemoryTransport, TransportError},
    store::{InstanceId, StoreError},
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{facts::Facts, shared::shaky::Trouble};

/// What is left to chance, from a seed.
pub struct Chance(AtomicU64);

/// An instance, as its surroundings know it.
pub struct Life {
    /// The process is gone: nothing that it has begun goes on.
    pub dead: CancellationToken,
    /// Whether it was ever taken for dead while it lived.
    pub was_buried: AtomicBool,
    pub fuse: Mutex<Option<Fuse>>,
    /// Where it is shut, whatever is to be written waits.
    pub gate: watch::Sender<Gate>,
    pub world: Arc<Weather>,
    /// Which it is, counted from 0.
    pub number: u64,
}

/// What all instances have to live with.
pub struct Weather {
    pub chance: Chance,
    /// The most milliseconds that anything takes which leaves the process.
    pub pace: u64,
    /// How many of a hundred sendings are lost, and how many come twice.
    pub lost: AtomicU64,
    pub doubled: AtomicU64,
    /// The next sending that holds this is lost.
    pub loses: Mutex<Option<&'static str>>,
    /// How many instances there have been.
    pub lives: AtomicU64,
    /// How often the store was asked for something.
    pub asked: AtomicUsize,
    pub facts: Arc<Facts>,
}

/// Whether anything can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gate {
    #[default]
    Open,
    Shut,
    /// Somebody has come and waits.
    Stopped,
}

/// Something fails at a commit, so many commits from now.
#[derive(Clone, Copy, Debug)]
pub struct Fuse {
    pub commits: usize,
    /// Whether the commit is done all the same.
    pub after: bool,
    /// Whether the process ends, or only the connection.
    pub kills: bool,
}

/// The transport of an instance, which loses and repeats messages.
pub struct Wire {
    pub transport: Arc<MemoryTransport>,
    pub life: Arc<Life>,
}

/// More than any schedule needs: who asks more often turns in a circle.
const MOST_ASKED: usize = 400_000;

// === impl Chance ===

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A number below `most`; 0 where that is 0.
    pub fn below(&self, most: u64) -> u64 {
        // SplitMix64.
        let mut z =
            self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)).checked_rem(most).unwrap_or(0)
    }

    pub fn one_of<'a, T>(&self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

// === impl Weather ===

impl Weather {
    /// Time that something takes which leaves the process.
    pub async fn passes(&self) {
        match self.chance.below(self.pace + 1) {
            0 => tokio::task::yield_now().await,
            time => sleep(Duration::from_millis(time)).await,
        }
    }
}

// === impl Life ===

impl Life {
    pub fn new(world: Arc<Weather>) -> Arc<Self> {
        Arc::new(Self {
            dead: CancellationToken::new(),
            was_buried: AtomicBool::new(false),
            fuse: Mutex::default(),
            gate: watch::Sender::default(),
            number: world.lives.fetch_add(1, Ordering::Relaxed),
            world,
        })
    }

    /// For ever, where the process is gone.
    pub async fn goes_on(&self) {
        if self.dead.is_cancelled() {
            std::future::pending().await
        }
    }

    /// What it comes to, unless the process ends before.
    pub async fn lives<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = self.dead.cancelled() => std::future::pending().await,
            done = work => done,
        }
    }

    /// Whether something waits to be written.
    pub fn is_stopped(&self) -> bool {
        *self.gate.borrow() == Gate::Stopped
    }

    async fn passes_gate(&self) {
        self.gate.send_if_modified(|gate| {
            let is_shut = *gate == Gate::Shut;
            if is_shut {
                *gate = Gate::Stopped;
            }
            is_shut
        });
        let opened = self.gate.subscribe().wait_for(|gate| *gate == Gate::Open).await.map(|_| ());
        opened.unwrap();
    }

    async fn burn(&self, after: bool) -> Result<(), StoreError> {
        let burnt = {
            let mut fuse = self.fuse.lock().unwrap();
            match &mut *fuse {
                Some(burning) if burning.after == after && burning.commits == 0 => fuse.take(),
                Some(burning) if burning.after == after => {
                    burning.commits -= 1;
                    None
                }
                Some(_) | None => None,
            }
        };
        match burnt {
            Some(Fuse { kills: true, .. }) => {
                self.dead.cancel();
                std::future::pending().await
            }
            Some(Fuse { kills: false, .. }) => Err(StoreError::Unavailable("the connection broke".into())),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Trouble for Life {
    async fn before(&self, writes: bool) -> Result<(), StoreError> {
        self.goes_on().await;
        if self.world.asked.fetch_add(1, Ordering::Relaxed) > MOST_ASKED {
            self.world.facts.fault("the store is asked for ever");
            std::future::pending().await
        }
        self.world.passes().await;
        self.goes_on().await;
        if writes {
            self.passes_gate().await;
            self.world.facts.log(format!("{} writes", self.number));
            self.burn(false).await?;
        }
        Ok(())
    }

    async fn after(&self) -> Result<(), StoreError> {
        self.world.facts.log(format!("{} has written", self.number));
        self.burn(true).await?;
        self.world.passes().await;
        self.goes_on().await;
        Ok(())
    }
}

// === impl Wire ===

#[async_trait]
impl PeerTransport for Wire {
    async fn open(&self, instance: &InstanceId) -> Result<(), TransportError> {
        self.life.goes_on().await;
        self.transport.open(instance).await
    }

    async fn send(&self, to: &InstanceId, messages: Vec<Vec<u8>>) -> Result<(), TransportError> {
        self.life.goes_on().await;
        let weather = &self.life.world;
        weather.passes().await;
        self.life.goes_on().await;
        let holds = |what: &[u8]| {
            messages.iter().any(|message| message.windows(what.len()).any(|words| words == what))
        };
        if weather.loses.lock().unwrap().take_if(|what| holds(what.as_bytes())).is_some() {
            return Ok(());
        }
        if weather.chance.below(100) < weather.lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        // The port does not deliver a message twice, and a post would be carried out twice. Repeating other messages must do no harm.
        if !holds(b"\"submit\":") && weather.chance.below(100) < weather.doubled.load(Ordering::Relaxed) {
            self.transport.send(to, messages.clone()).await?;
        }
        self.transport.send(to, messages).await
    }

    async fn receive(&self, instance: &InstanceId) -> Result<Vec<Vec<u8>>, TransportError> {
        let messages = self.life.lives(self.transport.receive(instance)).await?;
        self.life.world.passes().await;
        self.life.goes_on().await;
        Ok(messages)
    }

    async fn close(&self, instance: &InstanceId) {
        self.life.goes_on().await;
        self.transport.close(instance).await;
    }
}
