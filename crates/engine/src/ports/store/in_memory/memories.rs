//! Memories of all owners in memory, with their changes and vectors.

use std::collections::BTreeMap;

use async_trait::async_trait;
use fermata_protocol::ChatId;
use fermata_tools::Owner;
use jiff::Timestamp;

use super::{AuditRecord, Contents, InMemoryStore, chat::StoredChat};
use crate::ports::store::{
    StoreError,
    memories::{
        MAX_EVENTS, Memories, Memory, MemoryAuthor, MemoryChange, MemoryEvent, MemoryFilter, MemoryId,
        MemoryOutcome, MemorySource, MemoryVector, NewMemory, OwnedMemories, Undone, check_vector, cosine,
    },
    page::whole_microseconds,
};

/// An owner's stored memories.
#[derive(Clone, Debug, Default)]
pub struct StoredMemories {
    owned: OwnedMemories,
    /// The changes that can be undone, in order.
    events: Vec<(Timestamp, MemoryEvent)>,
    /// The vector of each memory, with the name of its model.
    vectors: BTreeMap<MemoryId, (String, Vec<f32>)>,
}

// === impl StoredMemories ===

impl StoredMemories {
    pub fn change(
        &mut self,
        owner: &Owner,
        at: Timestamp,
        mut changes: Vec<MemoryChange>,
        most: usize,
        author: &MemoryAuthor,
        (chats, audit): (&BTreeMap<ChatId, StoredChat>, &mut Vec<AuditRecord>),
    ) -> Vec<MemoryOutcome> {
        for change in &mut changes {
            if let MemoryChange::Save(NewMemory { source, .. }) | MemoryChange::Edit { source, .. } = change {
                keep_source(source, owner, chats);
            }
        }
        let mut events = Vec::new();
        let outcomes = self.owned.change(changes, at, most, &author.origin, &mut events);
        audit.extend(events.iter().map(|event| AuditRecord::new(at, author.entry(owner, event))));
        self.note(at, events);
        outcomes
    }

    /// Notes that a chat is gone.
    pub fn forget_chat(&mut self, chat: &ChatId) {
        for memory in &mut self.owned.memories {
            memory.source.take_if(|source| source.chat == *chat);
        }
    }

    fn undo(
        &mut self,
        owner: &Owner,
        id: &MemoryId,
        at: Timestamp,
        author: &MemoryAuthor,
        (chats, audit): (&BTreeMap<ChatId, StoredChat>, &mut Vec<AuditRecord>),
    ) -> Undone {
        let newest = self.events.iter().rposition(|(_, event)| event.id() == Some(id));
        let Some(newest) = newest else {
            let is_known = self.owned.memories.iter().any(|memory| memory.id == *id);
            return if is_known { Undone::NothingLeft } else { Undone::Unknown };
        };
        let (_, mut undone) = self.events.remove(newest);
        if let Some(before) = &mut undone.before {
            keep_source(&mut before.source, owner, chats);
        }
        let mut events = Vec::new();
        let restored = self.owned.undo(undone, &mut events);
        let changed = events.iter().chain([&restored]);
        audit.extend(changed.map(|event| AuditRecord::new(at, author.entry(owner, event))));
        self.note(at, events);
        self.drop_vectors(&restored);
        Undone::Undone(restored.after)
    }

    fn note(&mut self, at: Timestamp, events: Vec<MemoryEvent>) {
        for event in events {
            self.drop_vectors(&event);
            self.events.push((at, event));
        }
        let surplus = self.events.len().saturating_sub(MAX_EVENTS);
        self.events.drain(..surplus);
    }

    fn drop_vectors(&mut self, event: &MemoryEvent) {
        let text = |memory: &Option<Memory>| memory.as_ref().map(|memory| memory.text.clone());
        if let Some(id) = event.id()
            && text(&event.before) != text(&event.after)
        {
            self.vectors.remove(id);
        }
    }
}

/// Removes a source whose chat is gone or belongs to somebody else.
fn keep_source(source: &mut Option<MemorySource>, owner: &Owner, chats: &BTreeMap<ChatId, StoredChat>) {
    source.take_if(|source| chats.get(&source.chat).is_none_or(|chat| chat.head.owner != *owner));
}

// === impl InMemoryStore ===

#[async_trait]
impl Memories for InMemoryStore {
    async fn memories(&self, owner: &Owner, filter: &MemoryFilter) -> Result<Vec<Memory>, StoreError> {
        let contents = self.lock();
        let Some(stored) = contents.memories.get(owner) else { return Ok(Vec::new()) };
        let meant = stored.owned.memories.iter().filter(|memory| {
            let Some(kind) = &filter.without_vector else { return true };
            stored
                .vectors
                .get(&memory.id)
                .is_none_or(|(model, vector)| *model != kind.model || vector.len() != kind.dimensions)
        });
        Ok(filter.select(meant))
    }

    async fn change_memories(
        &self,
        owner: &Owner,
        at: Timestamp,
        changes: Vec<MemoryChange>,
        most: usize,
        author: &MemoryAuthor,
    ) -> Result<Vec<MemoryOutcome>, StoreError> {
        let Contents { chats, memories, audit, .. } = &mut *self.lock();
        let stored = memories.entry(owner.clone()).or_default();
        Ok(stored.change(owner, at, changes, most, author, (chats, audit)))
    }

    async fn undo_memory(
        &self,
        owner: &Owner,
        id: &MemoryId,
        at: Timestamp,
        author: &MemoryAuthor,
    ) -> Result<Undone, StoreError> {
        let Contents { chats, memories, audit, .. } = &mut *self.lock();
        Ok(memories.entry(owner.clone()).or_default().undo(owner, id, at, author, (chats, audit)))
    }

    async fn delete_memories(
        &self,
        owner: &Owner,
        at: Timestamp,
        author: &MemoryAuthor,
    ) -> Result<usize, StoreError> {
        let mut contents = self.lock();
        let deleted = contents.memories.remove(owner);
        contents.audit.push(AuditRecord::new(at, author.entry_of_all(owner)));
        Ok(deleted.map_or(0, |stored| stored.owned.memories.len()))
    }

    async fn note_recalled(&self, owner: &Owner, ids: &[MemoryId], at: Timestamp) -> Result<(), StoreError> {
        if let Some(stored) = self.lock().memories.get_mut(owner) {
            for memory in stored.owned.memories.iter_mut().filter(|memory| ids.contains(&memory.id)) {
                memory.recalled_at = Some(whole_microseconds(at));
            }
        }
        Ok(())
    }

    async fn nearest_memories(
        &self,
        owner: &Owner,
        model: &str,
        vector: &[f32],
        limit: usize,
    ) -> Result<Vec<(Memory, f32)>, StoreError> {
        check_vector(vector)?;
        let contents = self.lock();
        let Some(stored) = contents.memories.get(owner) else { return Ok(Vec::new()) };
        let mut nearest = Vec::new();
        for memory in &stored.owned.memories {
            if let Some((of_model, other)) = stored.vectors.get(&memory.id)
                && of_model == model
                && other.len() == vector.len()
            {
                nearest.push((memory.clone(), cosine(vector, other)));
            }
        }
        nearest.sort_by(|(a, to_a), (b, to_b)| to_b.total_cmp(to_a).then_with(|| a.id.cmp(&b.id)));
        nearest.truncate(limit);
        Ok(nearest)
    }

    async fn unembedded_memories(
        &self,
        model: &str,
        limit: usize,
    ) -> Result<Vec<(Owner, Memory)>, StoreError> {
        let mut unembedded = Vec::new();
        for (owner, stored) in &self.lock().memories {
            for memory in &stored.owned.memories {
                if stored.vectors.get(&memory.id).is_none_or(|(of_model, _)| of_model != model) {
                    unembedded.push((owner.clone(), memory.clone()));
                }
            }
        }
        unembedded.truncate(limit);
        Ok(unembedded)
    }

    async fn put_vectors(&self, model: &str, vectors: Vec<MemoryVector>) -> Result<(), StoreError> {
        vectors.iter().try_for_each(|of_memory| check_vector(&of_memory.vector))?;
        let mut contents = self.lock();
        for MemoryVector { owner, id, version, vector } in vectors {
            let Some(stored) = contents.memories.get_mut(&owner) else { continue };
            if stored.owned.memories.iter().any(|memory| memory.id == id && memory.version == version) {
                stored.vectors.insert(id, (model.to_owned(), vector));
            }
        }
        Ok(())
    }

    async fn forget_memory_events(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut forgotten = 0;
        for stored in self.lock().memories.values_mut() {
            stored.events.retain(|(at, _)| {
                let is_old = *at < before && forgotten < limit;
                forgotten += usize::from(is_old);
                !is_old
            });
        }
        Ok(forgotten)
    }
}
