//! The reference implementation: mailboxes in memory, for engines in one process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use super::{PeerTransport, TransportError};
use crate::ports::store::InstanceId;

/// A transport whose mailboxes live as long as the process. A test can make it fail.
#[derive(Default)]
pub struct InMemoryTransport {
    // Held for a few instructions, never across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    mailboxes: HashMap<InstanceId, OpenMailbox>,
    /// `true` while every operation fails. It shares a lock with the mailboxes, so that none is opened meanwhile.
    is_down: bool,
    /// The number of calls of `send` whose messages are still to be lost.
    to_lose: usize,
    /// The messages that were sent since [`InMemoryTransport::keep_sent`], with their mailboxes.
    sent: Option<Vec<(InstanceId, Vec<Vec<u8>>)>>,
}

struct OpenMailbox {
    sender: mpsc::Sender<Vec<u8>>,
    messages: Arc<AsyncMutex<mpsc::Receiver<Vec<u8>>>>,
}

/// The number of messages that a mailbox holds. A mailbox that would exceed it is removed, and its owner has to open it again.
const CAPACITY: usize = 10_000;
/// The maximum number of messages that one call of `receive` returns.
const BATCH: usize = 64;

// === impl InMemoryTransport ===

impl InMemoryTransport {
    /// Returns a transport without mailboxes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all mailboxes, and makes every operation fail from now on, or work again.
    pub fn set_down(&self, is_down: bool) {
        *self.lock() = State { is_down, ..State::default() };
    }

    /// Loses the messages of this number of calls of `send`, beginning with the next one.
    pub fn lose_next(&self, sends: usize) {
        self.lock().to_lose = sends;
    }

    /// Keeps the messages that are sent from now on, for [`InMemoryTransport::send_again`].
    pub fn keep_sent(&self) {
        self.lock().sent = Some(Vec::new());
    }

    /// Sends the kept messages a second time, as a network does if a copy was late.
    ///
    /// # Errors
    /// If a mailbox is gone.
    pub async fn send_again(&self) -> Result<(), TransportError> {
        let sent = self.lock().sent.take().unwrap_or_default();
        for (to, messages) in sent {
            self.send(&to, messages).await?;
        }
        Ok(())
    }

    /// Returns the state unless the transport is down.
    fn state(&self) -> Result<MutexGuard<'_, State>, TransportError> {
        let state = self.lock();
        if state.is_down {
            return Err(TransportError::Unavailable("the transport is down".into()));
        }
        Ok(state)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl PeerTransport for InMemoryTransport {
    async fn open(&self, instance: &InstanceId) -> Result<(), TransportError> {
        let (sender, messages) = mpsc::channel(CAPACITY);
        let messages = Arc::new(AsyncMutex::new(messages));
        self.state()?.mailboxes.insert(instance.clone(), OpenMailbox { sender, messages });
        Ok(())
    }

    async fn send(&self, to: &InstanceId, messages: Vec<Vec<u8>>) -> Result<(), TransportError> {
        let mut state = self.state()?;
        if state.to_lose > 0 {
            state.to_lose -= 1;
            return Ok(());
        }
        if let Some(sent) = &mut state.sent {
            sent.push((to.clone(), messages.clone()));
        }
        let mailbox = state.mailboxes.get(to).ok_or(TransportError::NoMailbox)?;
        for message in messages {
            if mailbox.sender.try_send(message).is_err() {
                state.mailboxes.remove(to);
                return Err(TransportError::NoMailbox);
            }
        }
        Ok(())
    }

    async fn receive(&self, instance: &InstanceId) -> Result<Vec<Vec<u8>>, TransportError> {
        let messages = match self.state()?.mailboxes.get(instance) {
            Some(mailbox) => mailbox.messages.clone(),
            None => return Err(TransportError::NoMailbox),
        };
        let mut received = Vec::new();
        // The channel ends when its mailbox is removed.
        if messages.lock().await.recv_many(&mut received, BATCH).await == 0 {
            return Err(TransportError::NoMailbox);
        }
        Ok(received)
    }

    async fn close(&self, instance: &InstanceId) {
        self.lock().mailboxes.remove(instance);
    }
}
