//! The reference: boxes in memory, for engines in one process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use super::{Mail, MailError};
use crate::store::InstanceId;

/// Boxes that live as long as the process.
#[derive(Default)]
pub struct MemoryMail {
    // Held for a few instructions, never across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    boxes: HashMap<InstanceId, OpenBox>,
    /// Whether nothing can be sent or received, as a test wants it. Under one lock with the boxes, so that none is opened meanwhile.
    is_down: bool,
    /// How many sendings are still to be lost.
    to_lose: usize,
}

struct OpenBox {
    sender: mpsc::Sender<Vec<u8>>,
    letters: Arc<AsyncMutex<mpsc::Receiver<Vec<u8>>>>,
}

/// How many letters a box holds. One that should take more is lost, and its owner has to open it again.
const MOST_LETTERS: usize = 10_000;
/// How many letters are taken out at a time.
const BATCH: usize = 64;

// === impl MemoryMail ===

impl MemoryMail {
    /// No boxes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes everything fail from now on and loses all boxes, or makes it work again.
    pub fn set_down(&self, is_down: bool) {
        *self.lock() = State { is_down, ..State::default() };
    }

    /// Loses what is sent the next so many times.
    pub fn lose_next(&self, sendings: usize) {
        self.lock().to_lose = sendings;
    }

    /// The boxes, where they can be reached.
    fn reach(&self) -> Result<MutexGuard<'_, State>, MailError> {
        let state = self.lock();
        if state.is_down { Err(MailError::Unavailable("it is down".into())) } else { Ok(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Mail for MemoryMail {
    async fn open(&self, instance: &InstanceId) -> Result<(), MailError> {
        let (sender, letters) = mpsc::channel(MOST_LETTERS);
        let letters = Arc::new(AsyncMutex::new(letters));
        self.reach()?.boxes.insert(instance.clone(), OpenBox { sender, letters });
        Ok(())
    }

    async fn send(&self, to: &InstanceId, letters: Vec<Vec<u8>>) -> Result<(), MailError> {
        let mut state = self.reach()?;
        if state.to_lose > 0 {
            state.to_lose -= 1;
            return Ok(());
        }
        let open = state.boxes.get(to).ok_or(MailError::NoBox)?;
        let put = letters.into_iter().try_for_each(|letter| open.sender.try_send(letter));
        put.map_err(|_| {
            state.boxes.remove(to);
            MailError::NoBox
        })
    }

    async fn receive(&self, instance: &InstanceId) -> Result<Vec<Vec<u8>>, MailError> {
        let letters =
            self.reach()?.boxes.get(instance).map(|open| open.letters.clone()).ok_or(MailError::NoBox)?;
        let mut taken = Vec::new();
        match letters.lock().await.recv_many(&mut taken, BATCH).await {
            0 => Err(MailError::NoBox),
            _ => Ok(taken),
        }
    }

    async fn close(&self, instance: &InstanceId) {
        self.lock().boxes.remove(instance);
    }
}
