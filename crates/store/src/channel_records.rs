//! What channels keep: the messages that they have sent, one-time links, and the browsers that take push notifications.
//!
//! Messages and links are kept as long as their approval. The engine knows nothing of this. The outbox, which is written with the commits of
//! chats, is in [`Store`](fermata_engine::Store).

use fermata_engine::store::StoreError;
use fermata_protocol::ApprovalId;
use fermata_tools::{Owner, Principal};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    backend::Backend,
    queries::channel_records::{self, MailLink, PushDevice, SentMessage},
};

/// The records of all channels.
#[derive(Clone)]
pub struct ChannelRecords {
    pub(crate) backend: Backend,
}

// === impl ChannelRecords ===

impl ChannelRecords {
    /// Returns the messages that a channel has sent about an approval, by recipient.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn messages(
        &self,
        channel: &str,
        approval: &ApprovalId,
    ) -> Result<Vec<SentMessage>, StoreError> {
        self.backend
            .look_up(
                |mut db| async move { channel_records::messages(&mut db.get(), channel, approval).await },
            )
            .await
    }

    /// Notes a message, in place of an earlier one to the same recipient, unless the approval was deleted.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn note_message(
        &self,
        channel: &str,
        approval: &ApprovalId,
        recipient: &str,
        reference: &Value,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.backend
            .write(|mut db| async move {
                channel_records::note_message(&mut db.get(), channel, approval, recipient, reference, at)
                    .await
            })
            .await
    }

    /// Deletes what is known of the messages of a channel about an approval.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn delete_messages(&self, channel: &str, approval: &ApprovalId) -> Result<(), StoreError> {
        self.backend
            .write(|mut db| async move {
                channel_records::delete_messages(&mut db.get(), channel, approval).await
            })
            .await
    }

    /// Adds a one-time link, unless the approval was deleted.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn add_link(&self, link: &MailLink, at: Timestamp) -> Result<(), StoreError> {
        self.backend
            .write(|mut db| async move { channel_records::add_link(&mut db.get(), link, at).await })
            .await
    }

    /// Returns the link of a channel whose token has this hash, and whether it was used.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn link(&self, channel: &str, hash: &str) -> Result<Option<(MailLink, bool)>, StoreError> {
        self.backend
            .look_up(|mut db| async move { channel_records::link(&mut db.get(), channel, hash).await })
            .await
    }

    /// Notes that a link was used.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn use_link(&self, hash: &str, at: Timestamp) -> Result<(), StoreError> {
        self.backend
            .write(|mut db| async move { channel_records::use_link(&mut db.get(), hash, at).await })
            .await
    }

    /// Adds a device of a user, or replaces what is known of it, unless the user has `most` others. Returns whether it was added. A browser
    /// belongs to the user who registered it last.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn put_device(
        &self,
        device: &PushDevice,
        at: Timestamp,
        most: usize,
    ) -> Result<bool, StoreError> {
        self.backend
            .write(|mut db| async move { channel_records::put_device(&mut db.get(), device, at, most).await })
            .await
    }

    /// Returns all devices, those of one user next to each other.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn devices(&self) -> Result<Vec<PushDevice>, StoreError> {
        self.backend.read((), |mut db, _| async move { channel_records::devices(&mut db.get()).await }).await
    }

    /// Deletes a device of a user. Returns `false` if the user has no such device.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn delete_device(&self, owner: &Owner, endpoint: &str) -> Result<bool, StoreError> {
        self.backend
            .write(
                |mut db| async move { channel_records::delete_device(&mut db.get(), owner, endpoint).await },
            )
            .await
    }

    /// Deletes all devices of a user.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn delete_devices(&self, owner: &Owner) -> Result<(), StoreError> {
        self.backend
            .write(|mut db| async move { channel_records::delete_devices(&mut db.get(), owner).await })
            .await
    }

    /// Deletes a device that the push service does not know any more.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn drop_device(&self, endpoint: &str) -> Result<(), StoreError> {
        self.backend
            .write(|mut db| async move { channel_records::drop_device(&mut db.get(), endpoint).await })
            .await
    }

    /// Returns the private key for push services that all instances on this database share: `new`, if there is none yet.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn push_key(&self, new: &str) -> Result<String, StoreError> {
        self.backend.write(|mut db| async move { channel_records::push_key(&mut db.get(), new).await }).await
    }
}

// === impl PushDevice ===

impl PushDevice {
    /// Returns the user of the device, with the groups that the user has proved with the registration.
    pub fn principal(&self) -> Principal {
        Principal { user: self.owner.clone(), groups: self.groups.clone(), is_channel: false }
    }
}
