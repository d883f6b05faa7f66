//! The port through which instances that share a store send each other messages.
//!
//! Each instance has one mailbox, which only that instance reads. Messages leave a mailbox in the order of their arrival, each at
//! most once. Their content is opaque here.
//!
//! A message may be lost, together with its mailbox or after it was received. Nothing depends on its arrival: every promise is in the
//! store, and callers and readers can do without a message that does not come.

pub mod in_memory;

use async_trait::async_trait;

pub use in_memory::InMemoryTransport;

use crate::ports::store::InstanceId;

/// The mailboxes of the instances.
#[async_trait]
pub trait PeerTransport: Send + Sync {
    /// Opens the mailbox of this instance, and keeps it open until it is closed. Messages that were in it are discarded.
    ///
    /// # Errors
    /// Returns an error if the mailbox cannot be opened now.
    async fn open(&self, instance: &InstanceId) -> Result<(), TransportError>;

    /// Puts messages into the mailbox of an instance, in this order.
    ///
    /// # Errors
    /// Returns [`TransportError::NoMailbox`] if the mailbox was never opened, or is gone.
    async fn send(&self, to: &InstanceId, messages: Vec<Vec<u8>>) -> Result<(), TransportError>;

    /// Waits for messages in the mailbox of this instance, and takes out the next ones, at least one.
    ///
    /// Only one caller at a time may receive. If the future is dropped, messages that it has taken out may be lost.
    ///
    /// # Errors
    /// Returns an error if messages may have been lost, because the connection broke, or because the mailbox is gone or was full. The
    /// mailbox then has to be opened again.
    async fn receive(&self, instance: &InstanceId) -> Result<Vec<Vec<u8>>, TransportError>;

    /// Closes the mailbox of this instance.
    async fn close(&self, instance: &InstanceId);
}

/// The reason why messages were not sent or received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The transport cannot be reached, or has failed. The text is for the operator.
    #[error("messages to other instances cannot be sent or received: {0}")]
    Unavailable(String),
    /// The mailbox is not open.
    #[error("the instance has no open mailbox")]
    NoMailbox,
}
