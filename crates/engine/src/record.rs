//! A chat that exists, as this process knows it.

use std::{collections::BTreeSet, sync::Arc};

use fermata_protocol::{ChatId, ClientOptions, MessageId, Profile, Show};
use fermata_tools::{Grants, MemoryWrites, Owner};
use jiff::Timestamp;

use crate::{
    context::{
        ModelContext, Unremembered,
        summary::{Covered, MemoryPlan, WrittenSummary},
    },
    memories::count_changes,
    ports::store::{
        Change, ChatHead, ChatRecord, Listing, Store, StoreError, Version,
        memories::{MemoryAuthor, MemoryChange},
    },
    services::{Patience, PolicySnapshot, Services},
};

/// A chat, as of what this process has read or written last.
pub(crate) struct Record {
    pub chat: ChatId,
    /// The chat's head. Some messages may be counted more than once, and the bytes are without the message of an open run.
    pub head: ChatHead,
    /// The part of the chat that its model is sent.
    pub context: ModelContext,
    /// The grants of the chat, and those of its owner as of the last step that was begun.
    pub grants: Grants,
    /// The lease epoch when the chat was read or last verified.
    lease_epoch: u64,
}

// === impl Record ===

impl Record {
    /// Returns the record of a chat as it was saved. `lease_epoch` is that of the time before the chat was read.
    pub fn read(chat: ChatId, saved: &ChatRecord, lease_epoch: u64) -> Self {
        let open_message = saved.open_run.as_ref().map_or(0, |run| run.message_bytes);
        Self {
            chat,
            head: ChatHead { bytes: saved.head.bytes.saturating_sub(open_message), ..saved.head.clone() },
            context: ModelContext::read(&saved.context),
            grants: Grants::of_history(&saved.confirmations, &saved.grant_ends),
            lease_epoch,
        }
    }

    /// Returns the record of a chat that is about to be created.
    pub fn new(chat: ChatId, owner: Owner, profile: Profile, lease_epoch: u64) -> Self {
        Self {
            chat,
            head: ChatHead::new(owner, profile),
            context: ModelContext::default(),
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
        self.head.choose(assistant.clone(), model.clone());
        Some(Change::Choose { assistant, model })
    }

    /// Notes the choices of a post, and that these messages are of it. Returns the changes to save.
    pub fn note_post(
        &mut self,
        options: &ClientOptions,
        messages: impl IntoIterator<Item = MessageId>,
    ) -> Vec<Change> {
        let mut changes: Vec<Change> = self.choose(options).into_iter().collect();
        changes.extend(self.put_show(&options.show));
        let is_unremembered = options.memory == Some(false);
        if self.context.next.is_some() || is_unremembered {
            self.context.use_next();
            if is_unremembered {
                self.context.unremembered.add(messages);
            }
            changes.push(self.context.saved());
        }
        changes
    }

    /// Notes which data chunks a post asks for. Returns the change to save, if there is any.
    pub fn put_show(&mut self, show: &BTreeSet<Show>) -> Option<Change> {
        if self.head.show == *show {
            return None;
        }
        self.head.show.clone_from(show);
        Some(Change::PutShow { show: show.clone() })
    }

    /// Notes that only this many messages stay. If the omitted part goes beyond them, the last summary that still holds counts again.
    /// Returns the change to save, if there is any.
    pub async fn truncate_context(
        &mut self,
        services: &Services,
        keep: usize,
    ) -> Result<Option<Change>, StoreError> {
        let before = self.context.clone();
        if !self.context.truncate(keep)
            && let Some(summary) = services.store.summary(&self.chat, keep).await?
        {
            self.context.fit.use_summary(Box::new(Covered::read(&summary)));
        }
        Ok(if self.context == before { None } else { Some(self.context.saved()) })
    }

    /// Returns whose memories a summary of the chat changes; `None` if its assistant remembers nothing, or the user wants nothing of the chat to
    /// be remembered.
    pub fn memory_plan(&self, policies: &PolicySnapshot) -> Option<MemoryPlan> {
        let Unremembered::Messages(unremembered) = &self.context.unremembered else { return None };
        // Nobody is there to be asked.
        let is_asked = policies.rules.memory_writes == MemoryWrites::Ask;
        if is_asked || !policies.assistant(self.head.assistant.as_deref()).remembers {
            return None;
        }
        let (owner, unremembered) = (self.head.owner.clone(), unremembered.clone());
        Some(MemoryPlan { owner, from: self.context.noted, unremembered })
    }

    /// Returns the changes that save a summary, and the facts about the user that were found with it.
    pub fn put_summary(&self, services: &Services, written: &WrittenSummary, now: Timestamp) -> Vec<Change> {
        let mut changes = vec![Change::PutSummary(Box::new(written.record(now)))];
        changes.extend(self.put_memories(services, &written.memories));
        changes
    }

    /// Returns the change that saves facts about the user, if there are any.
    pub fn put_memories(&self, services: &Services, memories: &[MemoryChange]) -> Option<Change> {
        if memories.is_empty() {
            return None;
        }
        count_changes(memories);
        Some(Change::ChangeMemories {
            owner: self.head.owner.clone(),
            changes: memories.to_vec(),
            most: services.memories.most(),
            author: MemoryAuthor::summary_of(&self.chat),
        })
    }

    /// Returns when facts about the user are to be looked for in the new messages, if nothing more is said; `None` if they are not.
    pub fn noting_due(&self, policies: &PolicySnapshot) -> Option<Timestamp> {
        self.context.note_at.filter(|_| self.memory_plan(policies).is_some())
    }

    /// Returns the entry of the chat in lists.
    pub async fn listing(&self, store: &dyn Store) -> Result<Listing, StoreError> {
        let mut listing = self.head.listing.clone();
        if listing.title.is_none() {
            listing.title = store.first_words(&self.chat).await?;
        }
        Ok(listing)
    }

    /// Makes changes to the chat, unless another instance has changed it meanwhile.
    pub async fn commit(
        &mut self,
        services: &Services,
        patience: Patience,
        changes: Vec<Change>,
    ) -> Result<(), StoreError> {
        let now = services.clock.now();
        let mut messages = self.head.messages;
        for change in &changes {
            if let Change::TruncateMessages { keep } = change {
                messages = messages.min(*keep);
            } else if let Change::PutMessage(_) = change {
                messages += 1;
            } else if let Change::DeleteMessage { .. } = change {
                messages = messages.saturating_sub(1);
            }
        }
        let changes_memories = changes.iter().any(|change| matches!(change, Change::ChangeMemories { .. }));
        if !changes.is_empty() {
            let to = Version(services.ids.next_number());
            let (store, changes) = (&services.store, Arc::<[Change]>::from(changes));
            services
                .patiently(patience, || store.commit(&self.chat, self.head.version, to, now, changes.clone()))
                .await?;
            self.head.version = to;
        }
        self.head.messages = messages;
        if changes_memories {
            services.memories.note_unembedded();
        }
        Ok(())
    }

    /// Looks whether the chat is still as this process knows it.
    ///
    /// # Errors
    /// Returns [`StoreError::Fenced`] if it is not.
    pub async fn verify(&self, services: &Services, patience: Patience) -> Result<(), StoreError> {
        let stored = services.patiently(patience, || services.store.version(&self.chat)).await?;
        if stored == Some(self.head.version) { Ok(()) } else { Err(StoreError::Fenced) }
    }

    /// As [`Record::verify`], if the lease of this instance was lost since it looked last, or may have been.
    pub async fn verify_if_in_doubt(
        &mut self,
        services: &Services,
        patience: Patience,
    ) -> Result<(), StoreError> {
        // In this order: a renewal raises the epoch before it removes the doubt.
        let is_in_doubt = services.lease.is_in_doubt();
        let epoch = services.lease.epoch();
        if is_in_doubt || epoch != self.lease_epoch {
            self.verify(services, patience).await?;
            self.lease_epoch = epoch;
        }
        Ok(())
    }
}
