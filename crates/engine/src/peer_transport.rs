//! The port through which instances that share a store talk to each other.
//!
//! Each instance has one mailbox, messages come out of it in the order in which they were put in, and nobody but its owner reads it. A message
//! is opaque here, and comes out at most once. Messages may be lost, with the mailbox or with whoever read it: what was promised is in the store, and who waits for a
//! message that does not come asks again.

pub mod memory;

use async_trait::async_trait;

pub use memory::MemoryTransport;

use crate::store::InstanceId;

/// How instances reach each other.
#[async_trait]
pub trait PeerTransport: Send + Sync {
    /// Opens this instance's mailbox, and keeps it open from now on until it is closed. Messages that were in it are gone.
    ///
    /// # Errors
    /// Where that is not possible now.
    async fn open(&self, instance: &InstanceId) -> Result<(), TransportError>;

    /// Puts messages into an instance's mailbox, in this order.
    ///
    /// # Errors
    /// [`TransportError::NoMailbox`] where nobody has opened that mailbox, or who did is long gone.
    async fn send(&self, to: &InstanceId, messages: Vec<Vec<u8>>) -> Result<(), TransportError>;

    /// Takes the next messages out of this instance's own mailbox, at least one; waits where there is none. For one caller at a time, and
    /// cancel safe only where nothing is lost by losing messages.
    ///
    /// # Errors
    /// Where messages may have been lost: the connection broke, the mailbox was gone or had too many messages. The mailbox has to be opened again.
    async fn receive(&self, instance: &InstanceId) -> Result<Vec<Vec<u8>>, TransportError>;

    /// Closes this instance's mailbox.
    async fn close(&self, instance: &InstanceId);
}

/// Why a message did not go or come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// What carries messages cannot be reached, or has failed. The text is for the operator.
    #[error("messages to other instances cannot be sent or received: {0}")]
    Unavailable(String),
    /// Nobody has opened this mailbox.
    #[error("the instance has no open mailbox")]
    NoMailbox,
}
