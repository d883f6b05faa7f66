//! The chats that something happens in right now.
//!
//! Each has one driver, a task that everything about the chat goes through, one thing after the other. A chat in which nothing
//! happens has none and costs a row in the database.
//!
//! Invariant: a chat never has two drivers. Commands are put into a driver's inbox, and a driver leaves, under the lock of the
//! chat's entry; so a command either reaches the driver or finds none and starts the next.
//!
//! An inbox holds [`MOST_COMMANDS`]. Nobody waits for room in it: what does not fit comes back at once, and whoever asked is told.

use std::sync::Arc;

use dashmap::DashMap;
use fermata_protocol::ChatId;
use fermata_tools::Owner;
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::instances::Order;

pub(crate) type Inbox = mpsc::Receiver<Order>;

/// The number of commands that may wait for one driver. A driver that has more to do than this is stuck, or the chat is flooded. Each command that
/// waits holds what was posted with it.
const MOST_COMMANDS: usize = 256;

/// Drivers by chat.
#[derive(Clone, Default)]
pub(crate) struct Chats {
    drivers: Arc<DashMap<ChatId, Driven>>,
}

/// A chat that has a driver.
struct Driven {
    orders: mpsc::Sender<Order>,
    /// Whose it is, once the driver has read it.
    owner: Option<Owner>,
}

/// The driver is gone before it answered: it has failed, and the chat is as it was saved.
#[derive(Debug)]
pub(crate) struct Lost;

/// A command for which the chat's driver has no room.
pub(crate) struct Full(pub Box<Order>);

impl Chats {
    /// Puts a command to the chat's driver; `start` starts one if the chat has none.
    ///
    /// # Errors
    /// The command, if the driver's inbox is full.
    pub fn tell(&self, chat: &ChatId, start: impl FnOnce(Inbox), order: Order) -> Result<(), Full> {
        // The entry stays locked until the command is in the inbox: the driver cannot leave in between.
        let none = || Driven { orders: mpsc::channel(1).0, owner: None };
        let mut driver = self.drivers.entry(chat.clone()).or_insert_with(none);
        match driver.orders.try_send(order) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(order)) => Err(Full(Box::new(order))),
            Err(TrySendError::Closed(order)) => {
                let (orders, inbox) = mpsc::channel(MOST_COMMANDS);
                let _ = orders.try_send(order);
                *driver = Driven { orders, owner: None };
                start(inbox);
                Ok(())
            }
        }
    }

    /// Notes whose chat it is, as its driver has read it.
    pub fn note_owner(&self, chat: &ChatId, owner: Option<Owner>) {
        if let Some(mut driver) = self.drivers.get_mut(chat) {
            driver.owner = owner;
        }
    }

    /// Returns whether the chat has a driver that has read that it is this owner's.
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
