//! Messages between instances, in Redis 7 or Valkey.
//!
//! A mailbox is a stream under the key `<prefix>:box:<instance>:<name of the cluster's key>`. It expires where nobody reads it, and holds a
//! limited number of messages; Redis keeps nothing else, and nothing that may not be lost. What a message says is not known here.
//!
//! Redis is not trusted with what messages say: they are sealed (see [`seal`]), and what does not open is dropped. It can lose messages,
//! and it can tell who writes to whom and how much. As a mailbox is named by the key with which its messages are sealed, instances with
//! different keys, and versions that did not seal, find no mailbox of one another, and know at once that nothing was asked.
//!
//! Invariant: messages that are lost are noticed by the mailbox's owner. Redis itself numbers the messages of an opening without gaps (see
//! [`mailbox_reader`]), so whoever reads sees what fell out; a mailbox that is gone, a connection that broke and a Redis that does not answer end
//! the opening, and until the next one nothing is received. A `send` that failed for want of an answer may yet arrive, even after later
//! messages, when Redis goes on with what it had taken in.

mod connection;
mod mailbox_reader;
pub mod seal;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use fermata_engine::{
    peer_transport::{PeerTransport, TransportError},
    store::InstanceId,
};
use redis::Pipeline;
use tokio::{
    sync::{Mutex as AsyncMutex, watch},
    time::Instant,
};

pub use connection::BadRedisUrl;
use connection::{Server, Shared};
use mailbox_reader::MailboxReader;
pub use seal::{BadClusterKey, ClusterKey};
use seal::{Opener, Refusal, Seal};

/// How long a Redis that does not answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the log says that messages were dropped.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Mailboxes in Redis, which are reached as soon as Redis is.
pub struct RedisTransport {
    server: Server,
    prefix: String,
    limits: MailboxLimits,
    cluster: ClusterKey,
    seal: Seal,
    /// Outlives openings, so that a message of an earlier one is known. Held while some messages are opened, never across an await.
    opener: Mutex<Opener>,
    dropped: Mutex<Dropped>,
    /// All messages go through one connection; a mailbox is read on one of its own, which waits most of the time.
    sending: Shared,
    /// The mailboxes that were opened here. Held for a few instructions, never across an await.
    mailboxes: Mutex<HashMap<InstanceId, OpenMailbox>>,
}

/// How much a mailbox holds, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxLimits {
    /// The least number of messages that a mailbox holds before it drops the oldest; it may hold some hundred more, because Redis drops them
    /// by the block.
    pub messages: usize,
    /// After what time without a reader a mailbox vanishes.
    pub expiry: Duration,
}

/// Messages that did not open, and of which the log has not spoken yet.
#[derive(Default)]
struct Dropped {
    messages: u64,
    told_at: Option<Instant>,
}

/// Why messages cannot be sent and received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The URL is none of Redis's. The text does not quote it, because it may hold a password.
    #[error(transparent)]
    Url(#[from] BadRedisUrl),
    /// Nothing can be sealed.
    #[error("the system has no random numbers")]
    NoRandomNumbers,
}

struct OpenMailbox {
    reading: Arc<AsyncMutex<MailboxReader>>,
    /// Whoever waits for messages learns by its end that the mailbox was closed or opened anew.
    opening: watch::Sender<()>,
}

// === impl MailboxLimits ===

impl Default for MailboxLimits {
    /// A reader empties its mailbox at once, so messages gather only while an instance stalls. 16,384 of them are some seconds of many busy
    /// chats, in a few megabytes; who stalls for longer does better to read again from the store. Messages of one megabyte would fill
    /// Redis's memory first: it then refuses them, and `send` fails. An instance that is dead fills its mailbox for half a minute at most.
    fn default() -> Self {
        Self { messages: 16_384, expiry: Duration::from_secs(30) }
    }
}

// === impl RedisTransport ===

impl RedisTransport {
    /// Transport through the Redis of this URL (`redis://`, `rediss://` with TLS, or `unix://` with a path), whose keys all begin with
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
            limits: MailboxLimits::default(),
            cluster: cluster.clone(),
            seal: Seal::new(cluster).map_err(|_| ConnectError::NoRandomNumbers)?,
            opener: Mutex::new(Opener::new(cluster.clone())),
            dropped: Mutex::default(),
            sending: Shared::default(),
            mailboxes: Mutex::default(),
        })
    }

    /// Has other limits for the mailboxes that messages are put into, and that are opened, here.
    #[must_use]
    pub fn with_limits(self, limits: MailboxLimits) -> Self {
        Self { limits, ..self }
    }

    fn key(&self, instance: &InstanceId) -> String {
        format!("{}:box:{instance}:{}", self.prefix, self.cluster.name())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InstanceId, OpenMailbox>> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The messages among what was found in a mailbox.
    fn open_all(&self, at: &str, found: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let now = SystemTime::now();
        let mut opener = self.opener.lock().unwrap_or_else(PoisonError::into_inner);
        let mut messages = Vec::new();
        for sealed in found {
            match opener.open(at, sealed, now) {
                Ok(message) => messages.push(message),
                Err(refusal) => self.complain(refusal),
            }
        }
        messages
    }

    /// Says in the log that a message was dropped, and now and then how many were, because whoever writes to Redis can send any number.
    fn complain(&self, refusal: Refusal) {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        dropped.messages += 1;
        if dropped.told_at.is_none_or(|told_at| told_at.elapsed() >= COMPLAIN_EVERY) {
            let messages = std::mem::take(&mut dropped.messages);
            tracing::warn!(messages, reason = %refusal, "messages in this instance's mailbox in Redis were dropped");
            dropped.told_at = Some(Instant::now());
        }
    }

    /// Ends an opening whose messages can no longer be trusted to be all.
    fn give_up(&self, instance: &InstanceId, reading: &Arc<AsyncMutex<MailboxReader>>) {
        let mut mailboxes = self.lock();
        if mailboxes.get(instance).is_some_and(|open| Arc::ptr_eq(&open.reading, reading)) {
            mailboxes.remove(instance);
        }
    }
}

#[async_trait]
impl PeerTransport for RedisTransport {
    async fn open(&self, instance: &InstanceId) -> Result<(), TransportError> {
        // Who waits for messages of the last opening must not be left with it if this one fails.
        self.lock().remove(instance);
        let reading = MailboxReader::open(&self.server, self.key(instance), self.limits.expiry).await?;
        let reading = Arc::new(AsyncMutex::new(reading));
        self.lock().insert(instance.clone(), OpenMailbox { reading, opening: watch::Sender::new(()) });
        Ok(())
    }

    async fn send(&self, to: &InstanceId, messages: Vec<Vec<u8>>) -> Result<(), TransportError> {
        if messages.is_empty() {
            return Ok(());
        }
        let (key, now) = (self.key(to), SystemTime::now());
        let sealed: Result<Vec<_>, _> =
            messages.into_iter().map(|message| self.seal.seal(&key, message, now)).collect();
        let sealed = sealed.map_err(|_| TransportError::Unavailable("a message cannot be sealed".into()))?;
        let question = putting(&key, self.limits.messages, &sealed);
        let put: Vec<Option<String>> =
            self.sending.ask(&self.server, &question, Instant::now() + PATIENCE).await?;
        if put.iter().any(Option::is_none) { Err(TransportError::NoMailbox) } else { Ok(()) }
    }

    async fn receive(&self, instance: &InstanceId) -> Result<Vec<Vec<u8>>, TransportError> {
        let (reading, mut opening) = self
            .lock()
            .get(instance)
            .map(|open| (open.reading.clone(), open.opening.subscribe()))
            .ok_or(TransportError::NoMailbox)?;
        let key = self.key(instance);
        loop {
            let taken = tokio::select! {
                taken = async { reading.lock().await.next().await } => taken,
                _ = opening.changed() => Err(TransportError::NoMailbox),
            };
            if taken.is_err() {
                self.give_up(instance, &reading);
            }
            let messages = self.open_all(&key, &taken?);
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
    }

    async fn close(&self, instance: &InstanceId) {
        self.lock().remove(instance);
        let mut question = redis::pipe();
        question.cmd("UNLINK").arg(self.key(instance));
        // A mailbox that cannot be removed now expires by itself.
        let _: Result<(), TransportError> =
            self.sending.ask(&self.server, &question, Instant::now() + PATIENCE).await;
    }
}

impl fmt::Display for RedisTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, keys {}:*", self.server, self.prefix)
    }
}

impl fmt::Debug for RedisTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisTransport({self})")
    }
}

/// Puts messages into a mailbox, all or none, and makes no mailbox where there is none.
fn putting(key: &str, limit: usize, messages: &[Vec<u8>]) -> Pipeline {
    let mut question = redis::pipe();
    if messages.len() > 1 {
        question.atomic();
    }
    for message in messages {
        let put = question.cmd("XADD").arg(key).arg("NOMKSTREAM").arg("MAXLEN").arg("~").arg(limit);
        put.arg("*").arg(mailbox_reader::FIELD).arg(message);
    }
    question
}
