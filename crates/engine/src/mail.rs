//! The port through which instances that share a store talk to each other.
//!
//! Each instance has one box, letters come out of it in the order in which they were put in, and nobody but its owner reads it. A letter
//! is opaque here, and comes out at most once. Letters may be lost, with the box or with whoever read it: what was promised is in the store, and who waits for a
//! letter that does not come asks again.

pub mod memory;

use async_trait::async_trait;

pub use memory::MemoryMail;

use crate::store::InstanceId;

/// How instances reach each other.
#[async_trait]
pub trait Mail: Send + Sync {
    /// Opens this instance's box, and keeps it open from now on until it is closed. Letters that were in it are gone.
    ///
    /// # Errors
    /// Where that is not possible now.
    async fn open(&self, instance: &InstanceId) -> Result<(), MailError>;

    /// Puts letters into an instance's box, in this order.
    ///
    /// # Errors
    /// [`MailError::NoBox`] where nobody has opened that box, or who did is long gone.
    async fn send(&self, to: &InstanceId, letters: Vec<Vec<u8>>) -> Result<(), MailError>;

    /// Takes the next letters out of this instance's own box, at least one; waits where there is none. For one caller at a time, and
    /// cancel safe only where nothing is lost by losing letters.
    ///
    /// # Errors
    /// Where letters may have been lost: the connection broke, the box was gone or had too many letters. The box has to be opened again.
    async fn receive(&self, instance: &InstanceId) -> Result<Vec<Vec<u8>>, MailError>;

    /// Closes this instance's box.
    async fn close(&self, instance: &InstanceId);
}

/// Why a letter did not go or come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    /// What carries letters cannot be reached, or has failed. The text is for the operator.
    #[error("letters to other instances cannot be sent or received: {0}")]
    Unavailable(String),
    /// Nobody has opened this box.
    #[error("the instance has no open box")]
    NoBox,
}
