//! The chats that something happens in right now.
//!
//! Each has one driver, a task that everything about the chat goes through, one thing after the other. A chat in which nothing
//! happens has none and costs a row in the database.
//!
//! Invariant: a chat never has two drivers. Commands are put into a driver's inbox, and a driver leaves, under the lock of the
//! chat's entry; so a command either reaches the driver or finds none and starts the next.

use std::sync::Arc;

use dashmap::DashMap;
use fermata_protocol::ChatId;
use fermata_tools::Owner;
use tokio::sync::mpsc;

use crate::instances::Order;

pub(crate) type Inbox = mpsc::UnboundedReceiver<Order>;

/// Drivers by chat.
#[derive(Clone, Default)]
pub(crate) struct Chats {
    drivers: Arc<DashMap<ChatId, Driven>>,
}

/// A chat that has a driver.
struct Driven {
    orders: mpsc::UnboundedSender<Order>,
    /// Whose it is, once the driver has read it.
    owner: Option<Owner>,
}

/// The driver is gone before it answered: it has failed, and the chat is as it was saved.
#[derive(Debug)]
pub(crate) struct Lost;

impl Chats {
    /// Puts a command to the chat's driver; `start` starts one where the chat has none.
    pub fn tell(&self, chat: &ChatId, start: impl FnOnce(Inbox), order: Order) {
        // The entry stays locked until the command is in the inbox: the driver cannot leave in between.
        let none = || Driven { orders: mpsc::unbounded_channel().0, owner: None };
        let mut driver = self.drivers.entry(chat.clone()).or_insert_with(none);
        if let Err(mpsc::error::SendError(order)) = driver.orders.send(order) {
            let (orders, inbox) = mpsc::unbounded_channel();
            let _ = orders.send(order);
            *driver = Driven { orders, owner: None };
            start(inbox);
        }
    }

    /// Notes whose chat it is, as its driver has read it.
    pub fn note_owner(&self, chat: &ChatId, owner: Option<Owner>) {
        if let Some(mut driver) = self.drivers.get_mut(chat) {
            driver.owner = owner;
        }
    }

    /// Whether the chat has a driver that knows it as this owner's.
    pub fn is_known_as(&self, chat: &ChatId, owner: &Owner) -> bool {
        self.drivers.get(chat).is_some_and(|driver| driver.owner.as_ref() == Some(owner))
    }

    /// Takes the driver's leave, unless something has come in meanwhile.
    pub fn leave(&self, chat: &ChatId, inbox: &Inbox) -> bool {
        self.drivers.remove_if(chat, |_, _| inbox.is_empty()).is_some()
    }

    /// Forgets a driver that takes nothing more, unless another is there already.
    pub fn forget_closed(&self, chat: &ChatId) {
        self.drivers.remove_if(chat, |_, driver| driver.orders.is_closed());
    }

    /// The chats that have one.
    pub fn driven(&self) -> Vec<ChatId> {
        self.drivers.iter().map(|driver| driver.key().clone()).collect()
    }

    /// Whether the chat has a driver.
    pub fn is_driven(&self, chat: &ChatId) -> bool {
        self.drivers.contains_key(chat)
    }
}
