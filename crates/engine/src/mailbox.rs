//! The mailboxes of the chat actors in this process, by chat.
//!
//! A chat in which nothing happens has no actor and costs a row in the database.
//!
//! Invariant: a chat never has two actors. A message is put into a mailbox, and an actor leaves, under the lock of the chat's entry; so
//! a message either reaches the actor or finds none and starts the next.
//!
//! A mailbox holds [`CAPACITY`] messages. A sender never waits for room: a message that does not fit comes back at once.

use std::sync::Arc;

use dashmap::DashMap;
use fermata_protocol::ChatId;
use fermata_tools::{Owner, PendingCalls};
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::answer_batch::AnswerBatch;

/// The number of messages that may wait for one actor. If there are more, the actor is stuck or the chat is flooded. Each message that
/// waits holds what was posted with it.
const CAPACITY: usize = 256;

/// The mailboxes of all chats that have an actor.
pub(crate) struct Mailboxes<M> {
    by_chat: Arc<DashMap<ChatId, ActorEntry<M>>>,
}

/// A chat that has an actor.
struct ActorEntry<M> {
    sender: mpsc::Sender<M>,
    /// The user to whom the chat belongs, once the actor has read it.
    owner: Option<Owner>,
    /// The calls and questions of the chat that wait for an answer.
    pending: PendingCalls<AnswerBatch>,
}

/// The mailbox of one actor.
pub(crate) struct Mailbox<M> {
    pub chat: ChatId,
    /// The calls and questions of the chat that wait for an answer, where endpoints find them.
    pub pending: PendingCalls<AnswerBatch>,
    messages: mpsc::Receiver<M>,
    mailboxes: Mailboxes<M>,
}

/// A message for which the mailbox has no room.
pub(crate) struct Full<M>(pub M);

// === impl Mailboxes ===

impl<M> Mailboxes<M> {
    /// Puts a message into the chat's mailbox; `start` starts an actor if the chat has none.
    ///
    /// # Errors
    /// Returns the message if the mailbox is full.
    pub fn send(&self, chat: &ChatId, message: M, start: impl FnOnce(Mailbox<M>)) -> Result<(), Full<M>> {
        // The entry stays locked until the message is in the mailbox, so that the actor cannot leave in between.
        let closed = || ActorEntry { sender: mpsc::channel(1).0, owner: None, pending: PendingCalls::new() };
        let mut entry = self.by_chat.entry(chat.clone()).or_insert_with(closed);
        match entry.sender.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(message)) => Err(Full(message)),
            Err(TrySendError::Closed(message)) => {
                let (sender, messages) = mpsc::channel(CAPACITY);
                let _ = sender.try_send(message);
                let pending = entry.pending.clone();
                *entry = ActorEntry { sender, owner: None, pending: pending.clone() };
                start(Mailbox { chat: chat.clone(), pending, messages, mailboxes: self.clone() });
                Ok(())
            }
        }
    }

    /// Returns whether the chat has an actor that has read that the chat belongs to this user.
    pub fn belongs_to(&self, chat: &ChatId, owner: &Owner) -> bool {
        self.by_chat.get(chat).is_some_and(|entry| entry.owner.as_ref() == Some(owner))
    }

    /// Returns the calls and questions of the chat that wait for an answer, if the chat has an actor.
    pub fn pending(&self, chat: &ChatId) -> Option<PendingCalls<AnswerBatch>> {
        Some(self.by_chat.get(chat)?.pending.clone())
    }

    /// Returns whether the chat has an actor.
    pub fn contains(&self, chat: &ChatId) -> bool {
        self.by_chat.contains_key(chat)
    }

    /// Returns the chats that have an actor.
    pub fn chats(&self) -> Vec<ChatId> {
        self.by_chat.iter().map(|entry| entry.key().clone()).collect()
    }
}

impl<M> Clone for Mailboxes<M> {
    fn clone(&self) -> Self {
        Self { by_chat: self.by_chat.clone() }
    }
}

impl<M> Default for Mailboxes<M> {
    fn default() -> Self {
        Self { by_chat: Arc::default() }
    }
}

// === impl Mailbox ===

impl<M> Mailbox<M> {
    /// Waits for the next message; `None` once the mailbox is closed and empty.
    pub async fn receive(&mut self) -> Option<M> {
        self.messages.recv().await
    }

    /// Notes the user to whom the chat belongs, as the actor has read it.
    pub fn note_owner(&self, owner: Option<Owner>) {
        if let Some(mut entry) = self.mailboxes.by_chat.get_mut(&self.chat) {
            entry.owner = owner;
        }
    }

    /// Removes the mailbox unless it has messages. Returns whether it was removed.
    pub fn remove_if_empty(&self) -> bool {
        self.mailboxes.by_chat.remove_if(&self.chat, |_, _| self.messages.is_empty()).is_some()
    }

    /// Accepts no more messages: the next message starts another actor.
    pub fn close(&mut self) {
        self.messages.close();
        // Another actor may have been started already.
        self.mailboxes.by_chat.remove_if(&self.chat, |_, entry| entry.sender.is_closed());
    }
}
