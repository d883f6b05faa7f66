//! The chats of this process of which a summary is to be written.

use fermata_protocol::ChatId;
use fermata_tools::Owner;
use tokio::sync::{Mutex, mpsc};

/// The number of chats that may wait here. The database knows the others, too.
const CAPACITY: usize = 1000;

/// A queue of chats.
pub(crate) struct DueSummaries {
    sender: mpsc::Sender<(ChatId, Owner)>,
    /// Held by the one task that writes summaries.
    receiver: Mutex<mpsc::Receiver<(ChatId, Owner)>>,
}

impl DueSummaries {
    pub fn new() -> Self {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        Self { sender, receiver: Mutex::new(receiver) }
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
