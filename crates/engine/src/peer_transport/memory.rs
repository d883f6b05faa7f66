//! The reference: mailboxes in memory, for engines in one process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use super::{PeerTransport, TransportError};
use crate::store::InstanceId;

/// Mailboxes that live as long as the process.
#[derive(Default)]
pub struct MemoryTransport {
    // Held for a few instructions, never across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    mailboxes: HashMap<InstanceId, OpenMailbox>,
    /// Whether nothing can be sent or received, as a test wants it. Under one lock with the mailboxes, so that none is opened meanwhile.
    is_down: bool,
    /// How many sendings are still to be lost.
    to_lose: usize,
}

struct OpenMailbox {
    sender: mpsc::Sender<Vec<u8>>,
    messages: Arc<AsyncMutex<mpsc::Receiver<Vec<u8>>>>,
}

/// How many messages a mailbox holds. One that should take more is lost, and its owner has to open it again.
const CAPACITY: usize = 10_000;
/// How many messages are taken out at a time.
const BATCH: usize = 64;

// === impl MemoryTransport ===

impl MemoryTransport {
    /// No mailboxes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes everything fail from now on and loses all mailboxes, or makes it work again.
    pub fn set_down(&self, is_down: bool) {
        *self.lock() = State { is_down, ..State::default() };
    }

    /// Loses what is sent the next so many times.
    pub fn lose_next(&self, sendings: usize) {
        self.lock().to_lose = sendings;
    }

    /// The mailboxes, where they can be reached.
    fn reach(&self) -> Result<MutexGuard<'_, State>, TransportError> {
        let state = self.lock();
        if state.is_down { Err(TransportError::Unavailable("it is down".into())) } else { Ok(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl PeerTransport for MemoryTransport {
    async fn open(&self, instance: &InstanceId) -> Result<(), TransportError> {
        let (sender, messages) = mpsc::channel(CAPACITY);
        let messages = Arc::new(AsyncMutex::new(messages));
        self.reach()?.mailboxes.insert(instance.clone(), OpenMailbox { sender, messages });
        Ok(())
    }

    async fn send(&self, to: &InstanceId, messages: Vec<Vec<u8>>) -> Result<(), TransportError> {
        let mut state = self.reach()?;
        if state.to_lose > 0 {
            state.to_lose -= 1;
            return Ok(());
        }
        let open = state.mailboxes.get(to).ok_or(TransportError::NoMailbox)?;
        let put = messages.into_iter().try_for_each(|message| open.sender.try_send(message));
        put.map_err(|_| {
            state.mailboxes.remove(to);
            TransportError::NoMailbox
        })
    }

    async fn receive(&self, instance: &InstanceId) -> Result<Vec<Vec<u8>>, TransportError> {
        let messages = self
            .reach()?
            .mailboxes
            .get(instance)
            .map(|open| open.messages.clone())
            .ok_or(TransportError::NoMailbox)?;
        let mut taken = Vec::new();
        match messages.lock().await.recv_many(&mut taken, BATCH).await {
            0 => Err(TransportError::NoMailbox),
            _ => Ok(taken),
        }
    }

    async fn close(&self, instance: &InstanceId) {
        self.lock().mailboxes.remove(instance);
    }
}
