//! Letters between instances, in Redis 7 or Valkey.
//!
//! A box is a stream under the key `<prefix>:box:<instance>:<name of the cluster's key>`. It expires where nobody reads it, and holds a
//! limited number of letters; Redis keeps nothing else, and nothing that may not be lost. What a letter says is not known here.
//!
//! Redis is not trusted with what letters say: they are sealed (see [`seal`]), and what does not open is dropped. It can lose letters,
//! and it can tell who writes to whom and how much. As a box is named by the key with which its letters are sealed, instances with
//! different keys, and versions that did not seal, find no box of one another, and know at once that nothing was asked.
//!
//! Invariant: letters that are lost are noticed by the box's owner. Redis itself numbers the letters of an opening without gaps (see
//! [`reading`]), so whoever reads sees what fell out; a box that is gone, a connection that broke and a Redis that does not answer end
//! the opening, and until the next one nothing is received. A `send` that failed for want of an answer may yet arrive, even after later
//! letters, when Redis goes on with what it had taken in.

mod connection;
mod reading;
pub mod seal;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use fermata_engine::{
    mail::{Mail, MailError},
    store::InstanceId,
};
use redis::Pipeline;
use tokio::{
    sync::{Mutex as AsyncMutex, watch},
    time::Instant,
};

pub use connection::BadRedisUrl;
use connection::{Server, Shared};
use reading::Reading;
pub use seal::{BadClusterKey, ClusterKey};
use seal::{Opener, Refusal, Seal};

/// How long a Redis that does not answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the log says that letters were dropped.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Boxes in Redis, which are reached as soon as Redis is.
pub struct RedisMail {
    server: Server,
    prefix: String,
    limits: BoxLimits,
    cluster: ClusterKey,
    seal: Seal,
    /// Outlives openings, so that a letter of an earlier one is known. Held while some letters are opened, never across an await.
    opener: Mutex<Opener>,
    dropped: Mutex<Dropped>,
    /// All letters go through one connection; a box is read on one of its own, which waits most of the time.
    sending: Shared,
    /// The boxes that were opened here. Held for a few instructions, never across an await.
    boxes: Mutex<HashMap<InstanceId, OpenBox>>,
}

/// How much a box holds, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxLimits {
    /// The least number of letters that a box holds before it drops the oldest; it may hold some hundred more, because Redis drops them
    /// by the block.
    pub letters: usize,
    /// After what time without a reader a box vanishes.
    pub expiry: Duration,
}

/// Letters that did not open, and of which the log has not spoken yet.
#[derive(Default)]
struct Dropped {
    letters: u64,
    told_at: Option<Instant>,
}

/// Why letters cannot be sent and received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The URL is none of Redis's. The text does not quote it, because it may hold a password.
    #[error(transparent)]
    Url(#[from] BadRedisUrl),
    /// Nothing can be sealed.
    #[error("the system has no random numbers")]
    NoRandomNumbers,
}

struct OpenBox {
    reading: Arc<AsyncMutex<Reading>>,
    /// Whoever waits for letters learns by its end that the box was closed or opened anew.
    opening: watch::Sender<()>,
}

// === impl BoxLimits ===

impl Default for BoxLimits {
    /// A reader empties its box at once, so letters gather only while an instance stalls. 16,384 of them are some seconds of many busy
    /// chats, in a few megabytes; who stalls for longer does better to read again from the store. Letters of one megabyte would fill
    /// Redis's memory first: it then refuses them, and `send` fails. An instance that is dead fills its box for half a minute at most.
    fn default() -> Self {
        Self { letters: 16_384, expiry: Duration::from_secs(30) }
    }
}

// === impl RedisMail ===

impl RedisMail {
    /// Mail through the Redis of this URL (`redis://`, `rediss://` with TLS, or `unix://` with a path), whose keys all begin with
    /// `<prefix>:`, and which opens only what was sealed with this key. Deployments that share a Redis have a key each.
    ///
    /// Redis need not be there: each operation connects where it has to.
    ///
    /// # Errors
    /// Where the URL is none of Redis's, or nothing can be sealed.
    pub fn connect(url: &str, prefix: &str, cluster: &ClusterKey) -> Result<Self, ConnectError> {
        Ok(Self {
            server: Server::new(url)?,
            prefix: prefix.to_owned(),
            limits: BoxLimits::default(),
            cluster: cluster.clone(),
            seal: Seal::new(cluster).map_err(|_| ConnectError::NoRandomNumbers)?,
            opener: Mutex::new(Opener::new(cluster.clone())),
            dropped: Mutex::default(),
            sending: Shared::default(),
            boxes: Mutex::default(),
        })
    }

    /// Has other limits for the boxes that letters are put into, and that are opened, here.
    #[must_use]
    pub fn with_limits(self, limits: BoxLimits) -> Self {
        Self { limits, ..self }
    }

    fn key(&self, instance: &InstanceId) -> String {
        format!("{}:box:{instance}:{}", self.prefix, self.cluster.name())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InstanceId, OpenBox>> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The letters among what was found in a box.
    fn open_all(&self, at: &str, found: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let now = SystemTime::now();
        let mut opener = self.opener.lock().unwrap_or_else(PoisonError::into_inner);
        let mut letters = Vec::new();
        for sealed in found {
            match opener.open(at, sealed, now) {
                Ok(letter) => letters.push(letter),
                Err(refusal) => self.complain(refusal),
            }
        }
        letters
    }

    /// Says in the log that a letter was dropped, and now and then how many were, because whoever writes to Redis can send any number.
    fn complain(&self, refusal: Refusal) {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        dropped.letters += 1;
        if dropped.told_at.is_none_or(|told_at| told_at.elapsed() >= COMPLAIN_EVERY) {
            let letters = std::mem::take(&mut dropped.letters);
            tracing::warn!(letters, reason = %refusal, "letters in this instance's box in Redis were dropped");
            dropped.told_at = Some(Instant::now());
        }
    }

    /// Ends an opening whose letters can no longer be trusted to be all.
    fn give_up(&self, instance: &InstanceId, reading: &Arc<AsyncMutex<Reading>>) {
        let mut boxes = self.lock();
        if boxes.get(instance).is_some_and(|open| Arc::ptr_eq(&open.reading, reading)) {
            boxes.remove(instance);
        }
    }
}

#[async_trait]
impl Mail for RedisMail {
    async fn open(&self, instance: &InstanceId) -> Result<(), MailError> {
        // Who waits for letters of the last opening must not be left with it if this one fails.
        self.lock().remove(instance);
        let reading = Reading::open(&self.server, self.key(instance), self.limits.expiry).await?;
        let reading = Arc::new(AsyncMutex::new(reading));
        self.lock().insert(instance.clone(), OpenBox { reading, opening: watch::Sender::new(()) });
        Ok(())
    }

    async fn send(&self, to: &InstanceId, letters: Vec<Vec<u8>>) -> Result<(), MailError> {
        if letters.is_empty() {
            return Ok(());
        }
        let (key, now) = (self.key(to), SystemTime::now());
        let sealed: Result<Vec<_>, _> =
            letters.into_iter().map(|letter| self.seal.seal(&key, letter, now)).collect();
        let sealed = sealed.map_err(|_| MailError::Unavailable("a letter cannot be sealed".into()))?;
        let question = putting(&key, self.limits.letters, &sealed);
        let put: Vec<Option<String>> =
            self.sending.ask(&self.server, &question, Instant::now() + PATIENCE).await?;
        if put.iter().any(Option::is_none) { Err(MailError::NoBox) } else { Ok(()) }
    }

    async fn receive(&self, instance: &InstanceId) -> Result<Vec<Vec<u8>>, MailError> {
        let (reading, mut opening) = self
            .lock()
            .get(instance)
            .map(|open| (open.reading.clone(), open.opening.subscribe()))
            .ok_or(MailError::NoBox)?;
        let key = self.key(instance);
        loop {
            let taken = tokio::select! {
                taken = async { reading.lock().await.next().await } => taken,
                _ = opening.changed() => Err(MailError::NoBox),
            };
            if taken.is_err() {
                self.give_up(instance, &reading);
            }
            let letters = self.open_all(&key, &taken?);
            if !letters.is_empty() {
                return Ok(letters);
            }
        }
    }

    async fn close(&self, instance: &InstanceId) {
        self.lock().remove(instance);
        let mut question = redis::pipe();
        question.cmd("UNLINK").arg(self.key(instance));
        // A box that cannot be removed now expires by itself.
        let _: Result<(), MailError> =
            self.sending.ask(&self.server, &question, Instant::now() + PATIENCE).await;
    }
}

impl fmt::Display for RedisMail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, keys {}:*", self.server, self.prefix)
    }
}

impl fmt::Debug for RedisMail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisMail({self})")
    }
}

/// Puts letters into a box, all or none, and makes no box where there is none.
fn putting(key: &str, limit: usize, letters: &[Vec<u8>]) -> Pipeline {
    let mut question = redis::pipe();
    if letters.len() > 1 {
        question.atomic();
    }
    for letter in letters {
        let put = question.cmd("XADD").arg(key).arg("NOMKSTREAM").arg("MAXLEN").arg("~").arg(limit);
        put.arg("*").arg(reading::FIELD).arg(letter);
    }
    question
}
