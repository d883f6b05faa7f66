//! A chat that exists, as this process knows it.

use fermata_protocol::{ChatId, ClientOptions, Profile};
use fermata_tools::{Grants, Owner, grants};

use crate::{
    context::ModelContext,
    services::Services,
    store::{Change, ChatRecord, StoreError, Version},
};

/// A chat, as of what this process has read or written last.
pub(crate) struct Record {
    pub chat: ChatId,
    pub owner: Owner,
    pub version: Version,
    /// The client version of the last post.
    pub profile: Profile,
    /// The size of its messages in bytes of JSON, without the message of an open run.
    pub bytes: usize,
    /// The assistant that the chat has chosen last.
    pub assistant: Option<String>,
    /// The model that the chat has chosen last.
    pub model: Option<String>,
    /// The part of the chat that its model is sent.
    pub context: ModelContext,
    /// The tools that the user has allowed for always.
    pub grants: Grants,
    /// The lease epoch in which the chat was read or last verified.
    lease_epoch: u64,
}

// === impl Record ===

impl Record {
    /// Returns the record of a chat as it was saved. `lease_epoch` is that of the time before the chat was read.
    pub fn read(chat: ChatId, saved: &ChatRecord, lease_epoch: u64) -> Self {
        let open_message = saved.open_run.as_ref().map_or(0, |run| run.message_bytes);
        Self {
            chat,
            owner: saved.owner.clone(),
            version: saved.version,
            profile: saved.profile,
            bytes: saved.bytes.saturating_sub(open_message),
            context: ModelContext::read(&saved.context),
            assistant: saved.assistant.clone(),
            model: saved.model.clone(),
            grants: grants(&saved.confirmations, &saved.grant_ends),
            lease_epoch,
        }
    }

    /// Returns the record of a chat that is about to be created.
    pub fn new(chat: ChatId, owner: Owner, profile: Profile, lease_epoch: u64) -> Self {
        Self {
            chat,
            owner,
            version: Version::NONE,
            profile,
            bytes: 0,
            context: ModelContext::default(),
            assistant: None,
            model: None,
            grants: Grants::default(),
            lease_epoch,
        }
    }

    /// Notes who a post wants to answer in the chat. Returns the change to save, if it names anybody.
    pub fn choose(&mut self, options: &ClientOptions) -> Option<Change> {
        let (assistant, model) = (options.assistant.clone(), options.model.clone());
        if assistant.is_none() && model.is_none() {
            return None;
        }
        self.assistant = assistant.clone().or(self.assistant.take());
        self.model = model.clone().or(self.model.take());
        Some(Change::Choose { assistant, model })
    }

    /// Notes that only this many messages stay. If the history begins after them, all of it is sent again. Returns the change to save.
    pub fn truncate_context(&mut self, keep: usize) -> Option<Change> {
        if self.context.fit.left_out < keep || self.context == ModelContext::default() {
            return None;
        }
        self.context = ModelContext::default();
        Some(self.context.saved())
    }

    /// Makes changes to the chat, unless another instance has changed it meanwhile.
    pub async fn commit(&mut self, services: &Services, changes: Vec<Change>) -> Result<(), StoreError> {
        let now = services.clock.now();
        self.version = services.store.commit(&self.chat, self.version, now, changes).await?;
        Ok(())
    }

    /// Looks whether the chat is still as this process knows it.
    ///
    /// # Errors
    /// Returns [`StoreError::Fenced`] if it is not.
    pub async fn verify(&self, services: &Services) -> Result<(), StoreError> {
        if services.store.version(&self.chat).await? == Some(self.version) {
            Ok(())
        } else {
            Err(StoreError::Fenced)
        }
    }

    /// As [`Record::verify`], if the lease of this instance was lost since it looked last, or may have been.
    pub async fn verify_if_in_doubt(&mut self, services: &Services) -> Result<(), StoreError> {
        // In this order: a renewal raises the epoch before it removes the doubt.
        let is_in_doubt = services.lease.is_in_doubt();
        let epoch = services.lease.epoch();
        if is_in_doubt || epoch != self.lease_epoch {
            self.verify(services).await?;
            self.lease_epoch = epoch;
        }
        Ok(())
    }
}
