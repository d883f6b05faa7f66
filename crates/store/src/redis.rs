//! Letters between instances, in Redis 7 or Valkey.
//!
//! A box is a stream under the key `<prefix>:box:<instance>`. It expires where nobody reads it, and holds a limited number of letters;
//! Redis keeps nothing else, and nothing that may not be lost. What a letter says is not known here.
//!
//! Invariant: letters that are lost are noticed by the box's owner. Redis itself numbers the letters of an opening without gaps (see
//! [`reading`]), so whoever reads sees what fell out; a box that is gone, a connection that broke and a Redis that does not answer end
//! the opening, and until the next one nothing is received. A `send` that failed for want of an answer may yet arrive, even after later
//! letters, when Redis goes on with what it had taken in.

mod connection;
mod reading;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
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

/// How long a Redis that does not answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Boxes in Redis, which are reached as soon as Redis is.
pub struct RedisMail {
    server: Server,
    prefix: String,
    limits: BoxLimits,
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
    /// `<prefix>:`. Deployments that share a Redis have a prefix each.
    ///
    /// Redis need not be there: each operation connects where it has to.
    ///
    /// # Errors
    /// Where the URL is none of Redis's. The text does not quote it, because it may hold a password.
    pub fn connect(url: &str, prefix: &str) -> Result<Self, BadRedisUrl> {
        Ok(Self {
            server: Server::new(url)?,
            prefix: prefix.to_owned(),
            limits: BoxLimits::default(),
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
        format!("{}:box:{instance}", self.prefix)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<InstanceId, OpenBox>> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
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
        let question = putting(&self.key(to), self.limits.letters, &letters);
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
        let taken = tokio::select! {
            taken = async { reading.lock().await.next().await } => taken,
            _ = opening.changed() => Err(MailError::NoBox),
        };
        if taken.is_err() {
            self.give_up(instance, &reading);
        }
        taken
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
