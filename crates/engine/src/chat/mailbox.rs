//! The mailboxes of the chat actors in this process, by chat.
//!
//! An idle chat has no actor and costs a row in the database.
//!
//! Invariant: a chat never has two actors. A message is put into a mailbox, and an actor leaves, under the lock of the chat's entry; so
//! a message either reaches the actor or finds none and starts the next.
//!
//! A mailbox holds [`CAPACITY`] messages. A sender never waits for room: a message that does not fit comes back at once.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use dashmap::DashMap;
use fermata_protocol::ChatId;
use fermata_tools::Owner;
use futures::task::AtomicWaker;

/// The number of messages that may wait for one actor: a thousand readers that all come back at once, after a restart, find room. If there
/// are more, the actor is stuck or the chat is flooded. Each message that waits holds its posted body, which the server bounds.
const CAPACITY: usize = 2048;

/// The mailboxes of all chats that have an actor.
pub(crate) struct Mailboxes<M> {
    by_chat: Arc<DashMap<ChatId, ActorEntry<M>>>,
}

/// A chat that has an actor.
struct ActorEntry<M> {
    messages: Arc<Queue<M>>,
    /// The owner of the chat, once the actor has read it.
    owner: Option<Owner>,
}

/// The mailbox of one actor.
pub(crate) struct Mailbox<M> {
    pub chat: ChatId,
    messages: Arc<Queue<M>>,
    mailboxes: Mailboxes<M>,
}

/// The messages for one actor. A channel of tokio has room for 32 messages from the beginning, and there may be a hundred thousand actors
/// that have none.
struct Queue<M> {
    // The mutex is held for a few instructions, never across an await.
    state: Mutex<QueueState<M>>,
    actor: AtomicWaker,
}

struct QueueState<M> {
    waiting: VecDeque<M>,
    /// `true` once no more messages are accepted.
    is_closed: bool,
}

/// A message that finds the mailbox full.
pub(crate) struct Full<M>(pub M);

// === impl Mailboxes ===

impl<M> Mailboxes<M> {
    /// Puts a message into the chat's mailbox; `start` starts an actor if the chat has none.
    ///
    /// # Errors
    /// Returns the message if the mailbox is full.
    pub fn send(&self, chat: &ChatId, message: M, start: impl FnOnce(Mailbox<M>)) -> Result<(), Full<M>> {
        // The entry stays locked until the message is in the mailbox, so that the actor cannot leave in between.
        let closed = || {
            let messages = Queue::new(QueueState { waiting: VecDeque::new(), is_closed: true });
            ActorEntry { messages: Arc::new(messages), owner: None }
        };
        let mut entry = self.by_chat.entry(chat.clone()).or_insert_with(closed);
        let mut queue = entry.messages.lock();
        if !queue.is_closed {
            if queue.waiting.len() >= CAPACITY {
                return Err(Full(message));
            }
            queue.waiting.push_back(message);
            drop(queue);
            entry.messages.actor.wake();
            return Ok(());
        }
        drop(queue);
        let open = QueueState { waiting: VecDeque::from([message]), is_closed: false };
        let messages = Arc::new(Queue::new(open));
        *entry = ActorEntry { messages: messages.clone(), owner: None };
        start(Mailbox { chat: chat.clone(), messages, mailboxes: self.clone() });
        Ok(())
    }

    /// Returns whether the chat has an actor that has read that the chat belongs to this user.
    pub fn belongs_to(&self, chat: &ChatId, owner: &Owner) -> bool {
        self.by_chat.get(chat).is_some_and(|entry| entry.owner.as_ref() == Some(owner))
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
    /// Waits for the next message; `None` once the mailbox is closed and empty. Cancel safe.
    pub async fn receive(&mut self) -> Option<M> {
        poll_fn(|cx| {
            // The actor is registered first, so that it misses no message that comes in between.
            self.messages.actor.register(cx.waker());
            let mut queue = self.messages.lock();
            match queue.waiting.pop_front() {
                Some(message) => Poll::Ready(Some(message)),
                None if queue.is_closed => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Notes the owner of the chat, as the actor has read it.
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
        self.mailboxes.by_chat.remove_if(&self.chat, |_, entry| entry.messages.is_closed());
    }
}

impl<M> Drop for Mailbox<M> {
    fn drop(&mut self) {
        self.messages.close();
        let left = std::mem::take(&mut self.messages.lock().waiting);
        // Their senders get an error, without the lock.
        drop(left);
    }
}

// === impl Queue ===

impl<M> Queue<M> {
    fn new(state: QueueState<M>) -> Self {
        Self { state: Mutex::new(state), actor: AtomicWaker::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn close(&self) {
        self.lock().is_closed = true;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Sends a number. Returns the mailbox of the actor that is started for it, if one is.
    fn send(mailboxes: &Mailboxes<usize>, number: usize) -> Result<Option<Mailbox<usize>>, usize> {
        let mut started = None;
        match mailboxes.send(&ChatId::new("c"), number, |mailbox| started = Some(mailbox)) {
            Ok(()) => Ok(started),
            Err(Full(number)) => Err(number),
        }
    }

    #[tokio::test]
    async fn messages_come_in_order_and_no_more_of_them_than_fit() {
        let mailboxes = Mailboxes::default();
        let mut mailbox = send(&mailboxes, 0).unwrap().expect("the first message starts an actor");
        for number in 1..CAPACITY {
            assert!(send(&mailboxes, number).unwrap().is_none(), "there is an actor");
        }
        assert_eq!(send(&mailboxes, CAPACITY).err(), Some(CAPACITY));
        assert!(!mailbox.remove_if_empty());
        for number in 0..CAPACITY {
            assert_eq!(mailbox.receive().await, Some(number));
        }
        assert_eq!(mailbox.receive().now_or_never(), None);
        assert!(mailbox.remove_if_empty() && !mailboxes.contains(&ChatId::new("c")));
    }

    #[tokio::test]
    async fn an_actor_that_waits_is_woken() {
        let mailboxes = Mailboxes::default();
        let mut mailbox = send(&mailboxes, 0).unwrap().unwrap();
        assert_eq!(mailbox.receive().await, Some(0));
        let actor = tokio::spawn(async move { mailbox.receive().await });
        tokio::task::yield_now().await;
        assert!(send(&mailboxes, 1).unwrap().is_none());
        assert_eq!(actor.await.unwrap(), Some(1));
    }

    #[tokio::test]
    async fn after_an_actor_has_left_the_next_message_starts_another() {
        let mailboxes = Mailboxes::default();
        let mut leaving = send(&mailboxes, 0).unwrap().unwrap();
        leaving.close();
        let mut next = send(&mailboxes, 1).unwrap().expect("another actor");
        assert_eq!((leaving.receive().await, leaving.receive().await), (Some(0), None));
        drop(leaving);
        assert_eq!(next.receive().await, Some(1));
        // It has panicked.
        drop(next);
        assert!(send(&mailboxes, 2).unwrap().is_some());
    }
}
