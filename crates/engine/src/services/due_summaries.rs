//! The chats of this process that need a summary.

use fermata_protocol::ChatId;
use fermata_tools::Owner;
use tokio::sync::{Mutex, Semaphore, mpsc};

/// The number of chats that may wait here. The database also knows the others.
const CAPACITY: usize = 1000;

/// The number of summaries that are written in the background at a time.
const MAX_WRITING: usize = 4;

/// A queue of chats.
pub(crate) struct DueSummaries {
    sender: mpsc::Sender<(ChatId, Owner)>,
    /// Held by the one task that writes summaries.
    receiver: Mutex<mpsc::Receiver<(ChatId, Owner)>>,
    /// The permits of summaries that are being written in the background.
    pub writing: Semaphore,
}

impl DueSummaries {
    pub fn new() -> Self {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        Self { sender, receiver: Mutex::new(receiver), writing: Semaphore::new(MAX_WRITING) }
    }

    /// Adds a chat. If there is no room, the chat is found in the database later.
    pub fn add(&self, chat: ChatId, owner: Owner) {
        let _ = self.sender.try_send((chat, owner));
    }

    /// Waits for the next chat.
    pub async fn next(&self) -> Option<(ChatId, Owner)> {
        self.receiver.lock().await.recv().await
    }
}
