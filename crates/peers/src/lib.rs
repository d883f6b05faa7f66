//! Messages between instances, in Redis 7 or Valkey.
//!
//! A mailbox is a Redis stream under the key `<prefix>:box:<instance>:<name of the cluster key>`. It holds a limited number of messages,
//! and expires if its owner does not read it. Redis holds nothing else, and nothing that must not be lost. The content of messages is
//! opaque here.
//!
//! Redis is not trusted with the content of messages: they are sealed (see [`seal`]), and a message that does not open is dropped. Redis
//! can still lose messages, and it sees the sender, the receiver and the size of each. A mailbox is named after the key that seals
//! its messages. Instances with different keys, and versions that did not seal, thus find no mailbox of each other, and know at once that
//! their request was not received.
//!
//! Invariant: the owner of a mailbox notices every loss of messages. Redis numbers the messages of a mailbox without gaps (see
//! `mailbox_reader`), so its reader sees which are missing. If the mailbox is gone, the connection breaks or Redis does not answer, the
//! mailbox counts as closed, and nothing is received until it is opened again. A `send` that got no answer may still be carried out later,
//! even after messages that were sent after it.

mod connection;
mod guessing;
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
use futures::future::select_all;
use tokio::{
    sync::{Mutex as AsyncMutex, watch},
    time::Instant,
};

pub use connection::BadRedisUrl;
use connection::{Server, SharedConnection};
pub use guessing::is_guessable;
use mailbox_reader::MailboxReader;
pub use seal::{BadClusterKey, ClusterKey};
use seal::{Opener, Refusal, Seal};

/// A Redis that does not answer for this long counts as unreachable.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The shortest interval between two warnings that messages were dropped.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// Mailboxes in Redis. It connects when it is used, not before.
pub struct RedisTransport {
    server: Server,
    prefix: String,
    limits: MailboxLimits,
    /// The keys of the deployment, at least one. The first one seals messages.
    keys: Vec<KnownKey>,
    seal: Seal,
    dropped: Mutex<DroppedMessages>,
    /// The connection that sends all messages. Each mailbox is read on its own connection, because a read waits most of the time.
    sending: SharedConnection,
    /// The mailboxes that were opened here. Held for a few instructions, never across an await.
    mailboxes: Mutex<HashMap<InstanceId, OpenMailbox>>,
    /// The time that seals tell, and are compared with.
    clock: Clock,
}

/// A key, and what it has opened.
struct KnownKey {
    cluster: ClusterKey,
    /// Kept when a mailbox is opened again, so that it recognizes messages that it has opened before. Held while the messages of one read
    /// are opened, never across an await.
    opener: Mutex<Opener>,
}

/// The time of all instances.
type Clock = Box<dyn Fn() -> SystemTime + Send + Sync>;

/// The capacity and the lifetime of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxLimits {
    /// The number of messages that a mailbox holds before it drops the oldest. It may hold a few hundred more, because Redis drops them in
    /// blocks.
    pub messages: usize,
    /// The lifetime of a mailbox without a reader.
    pub expiry: Duration,
}

/// The messages that were dropped since the last warning.
#[derive(Default)]
struct DroppedMessages {
    count: u64,
    warned_at: Option<Instant>,
}

/// The reason why a transport cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The URL is not one of Redis. The text does not quote it, because it may hold a password.
    #[error(transparent)]
    Url(#[from] BadRedisUrl),
    /// Messages cannot be sealed.
    #[error("the system has no random numbers")]
    NoRandomNumbers,
}

struct OpenMailbox {
    /// A reader for each key.
    readers: Arc<[AsyncMutex<MailboxReader>]>,
    /// Dropped when the mailbox is closed or opened again, which ends a `receive` that waits.
    closed: watch::Sender<()>,
}

// === impl MailboxLimits ===

impl Default for MailboxLimits {
    /// A reader empties its mailbox at once, so messages gather only while an instance stalls. 16,384 messages are a few seconds of many
    /// busy chats, in a few megabytes; an instance that stalls for longer had better read again from the store. Messages of one megabyte
    /// would fill the memory of Redis first: it then refuses them, and `send` fails. The mailbox of a dead instance fills for half a minute
    /// at most.
    fn default() -> Self {
        Self { messages: 16_384, expiry: Duration::from_secs(30) }
    }
}

// === impl KnownKey ===

impl KnownKey {
    fn new(cluster: ClusterKey) -> Self {
        let opener = Mutex::new(Opener::new(cluster.clone()));
        Self { cluster, opener }
    }
}

// === impl RedisTransport ===

impl RedisTransport {
    /// Sets up a transport through the Redis at this URL: `redis://`, `rediss://` with TLS, or `unix://` with a path.
    ///
    /// All its keys begin with `<prefix>:`. It opens only messages that were sealed with this cluster key, so deployments that share a
    /// Redis need different ones. Redis need not be running yet: each operation connects if it has to.
    ///
    /// # Errors
    /// Returns an error if the URL is not one of Redis, or if messages cannot be sealed.
    pub fn connect(url: &str, prefix: &str, cluster: &ClusterKey) -> Result<Self, ConnectError> {
        Ok(Self {
            server: Server::new(url)?,
            prefix: prefix.to_owned(),
            limits: MailboxLimits::default(),
            keys: vec![KnownKey::new(cluster.clone())],
            seal: Seal::new(cluster).map_err(|_| ConnectError::NoRandomNumbers)?,
            dropped: Mutex::default(),
            sending: SharedConnection::default(),
            mailboxes: Mutex::default(),
            clock: Box::new(SystemTime::now),
        })
    }

    /// Takes messages that are sealed with one of these keys as well, while the instances get a new key one after the other.
    #[must_use]
    pub fn with_other_keys(mut self, others: impl IntoIterator<Item = ClusterKey>) -> Self {
        self.keys.extend(others.into_iter().map(KnownKey::new));
        self
    }

    /// Uses this clock instead of the machine's.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(clock), ..self }
    }

    /// Sets the limits of the mailboxes that are opened here or sent to from here.
    #[must_use]
    pub fn with_limits(self, limits: MailboxLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the mailbox of an instance for messages that are sealed with this key.
    fn mailbox(&self, instance: &InstanceId, key: &KnownKey) -> String {
        format!("{}:box:{instance}:{}", self.prefix, key.cluster.name())
    }

    fn mailboxes_of(&self, instance: &InstanceId) -> Vec<String> {
        self.keys.iter().map(|key| self.mailbox(instance, key)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InstanceId, OpenMailbox>> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the seals of what was found in the mailbox of the key at this place, and returns the messages that are genuine.
    fn open_seals(&self, instance: &InstanceId, place: usize, found: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (mailbox, now) = (self.mailbox(instance, &self.keys[place]), (self.clock)());
        let mut opener = self.keys[place].opener.lock().unwrap_or_else(PoisonError::into_inner);
        let mut messages = Vec::new();
        for sealed in found {
            match opener.open(&mailbox, sealed, now) {
                Ok(message) => messages.push(message),
                Err(refusal) => self.warn_dropped(instance, refusal),
            }
        }
        messages
    }

    /// Counts a message that was dropped. The log gives their number at most once per [`WARN_INTERVAL`], because anyone who can write to
    /// Redis can cause any number of them.
    fn warn_dropped(&self, instance: &InstanceId, refusal: Refusal) {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        dropped.count += 1;
        if dropped.warned_at.is_none_or(|warned_at| warned_at.elapsed() >= WARN_INTERVAL) {
            let messages = std::mem::take(&mut dropped.count);
            tracing::warn!(%instance, messages, reason = %refusal, "messages in the mailbox of this instance in Redis were dropped");
            dropped.warned_at = Some(Instant::now());
        }
    }
}

#[async_trait]
impl PeerTransport for RedisTransport {
    async fn open(&self, instance: &InstanceId) -> Result<(), TransportError> {
        // If this fails, a caller that waits for messages must not go on waiting for those of the old mailbox.
        self.lock().remove(instance);
        let mut readers = Vec::new();
        for mailbox in self.mailboxes_of(instance) {
            let reader = MailboxReader::open(&self.server, mailbox, self.limits.expiry).await?;
            readers.push(AsyncMutex::new(reader));
        }
        let open = OpenMailbox { readers: readers.into(), closed: watch::Sender::new(()) };
        self.lock().insert(instance.clone(), open);
        Ok(())
    }

    async fn send(&self, to: &InstanceId, messages: Vec<Vec<u8>>) -> Result<(), TransportError> {
        if messages.is_empty() {
            return Ok(());
        }
        let (key, now) = (self.mailbox(to, &self.keys[0]), (self.clock)());
        let mut sealed = Vec::with_capacity(messages.len());
        for message in messages {
            let Ok(message) = self.seal.seal(&key, message, now) else {
                return Err(TransportError::Unavailable("a message cannot be sealed".into()));
            };
            sealed.push(message);
        }
        let mut commands = redis::pipe();
        if sealed.len() > 1 {
            commands.atomic();
        }
        for message in &sealed {
            // Nothing is appended if there is no such mailbox.
            let add = commands.cmd("XADD").arg(&key).arg("NOMKSTREAM");
            add.arg("MAXLEN").arg("~").arg(self.limits.messages);
            add.arg("*").arg(mailbox_reader::FIELD).arg(message);
        }
        let ids: Vec<Option<String>> =
            self.sending.execute(&self.server, &commands, Instant::now() + TIMEOUT).await?;
        // Redis returns no id if the stream does not exist.
        if ids.iter().any(Option::is_none) { Err(TransportError::NoMailbox) } else { Ok(()) }
    }

    async fn receive(&self, instance: &InstanceId) -> Result<Vec<Vec<u8>>, TransportError> {
        let (readers, mut closed) = match self.lock().get(instance) {
            Some(mailbox) => (mailbox.readers.clone(), mailbox.closed.subscribe()),
            None => return Err(TransportError::NoMailbox),
        };
        loop {
            let nexts = readers.iter().map(|reader| Box::pin(async { reader.lock().await.next().await }));
            let (found, place) = tokio::select! {
                (found, place, _) = select_all(nexts) => (found, place),
                _ = closed.changed() => (Err(TransportError::NoMailbox), 0),
            };
            if found.is_err() {
                // The mailbox may have lost messages. It may also have been opened again meanwhile, and the new one stays.
                let mut mailboxes = self.lock();
                if mailboxes.get(instance).is_some_and(|open| Arc::ptr_eq(&open.readers, &readers)) {
                    mailboxes.remove(instance);
                }
            }
            let messages = self.open_seals(instance, place, &found?);
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
    }

    async fn close(&self, instance: &InstanceId) {
        self.lock().remove(instance);
        let mut commands = redis::pipe();
        commands.cmd("UNLINK").arg(self.mailboxes_of(instance));
        // A mailbox that cannot be removed now expires by itself.
        let _: Result<(), TransportError> =
            self.sending.execute(&self.server, &commands, Instant::now() + TIMEOUT).await;
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
