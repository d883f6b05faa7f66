//! The part of the store that keeps memories, and every decision about them.
//!
//! A memory belongs to an owner and is known in all of the owner's chats. The decisions are made here without I/O ([`OwnedMemories`]), so
//! that all stores decide alike: a store reads the memories of an owner, has a change decided, and writes the [`MemoryEvent`]s that follow.
//! Invariants: an owner has one memory of a slot at most; each change of a memory can be undone, the newest first, until it is forgotten.

use std::{collections::BTreeSet, net::IpAddr};

use async_trait::async_trait;
use fermata_protocol::{ChatId, MemoryKind, MessageId, ToolCallId};
use fermata_tools::{AuditAction, AuditEvent, Owner};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AuditEntry, StoreError, page::whole_microseconds};

/// The number of memories of an owner that may be in every prompt: those that have a slot, and those that are pinned.
pub const MAX_ALWAYS: usize = 50;
/// The number of changes of an owner's memories that are kept to be undone. The oldest are forgotten first.
pub const MAX_EVENTS: usize = 1_000;

/// The id of a memory, which is unique among those of its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemoryId(pub String);

/// A memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// The memory's id.
    pub id: MemoryId,
    /// The kind of the memory.
    pub kind: MemoryKind,
    /// The words of the memory.
    pub text: String,
    /// The name of the one thing that the memory says, such as `timezone`. A memory with a slot is in every prompt.
    pub slot: Option<String>,
    /// `true` if the memory is never deleted to make room.
    pub pinned: bool,
    /// The place where the user has said it, if that is known.
    pub source: Option<MemorySource>,
    /// The party that has written it last.
    pub origin: MemoryOrigin,
    /// The time when it was saved, or replaced the one that had its slot.
    pub created_at: Timestamp,
    /// The time when it was last recalled; `None` if it never was.
    pub recalled_at: Option<Timestamp>,
    /// The number of times that the memory was changed. A vector belongs to one version.
    pub version: u64,
}

/// The place where a memory comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemorySource {
    /// The chat, as long as it is kept.
    pub chat: ChatId,
    /// The message in it, if it is known.
    pub message: Option<MessageId>,
}

/// The party that has written a memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "camelCase")]
pub enum MemoryOrigin {
    /// A person, on a page or with the API.
    #[default]
    Person,
    /// The model, with a call of a tool.
    Tool {
        /// The tool's name.
        tool: String,
        /// The call's id.
        call: ToolCallId,
        /// The outside sources that the model had read in the turn before, such as the URL of a page.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        read: Vec<String>,
    },
    /// The job that summarizes a chat.
    Summary,
}

/// The party that changes memories, for the memories and for the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryAuthor {
    /// The party.
    pub origin: MemoryOrigin,
    /// The chat where it happens, if it happens in one.
    pub chat: Option<ChatId>,
    /// The address that the person's request came from, if it is known.
    pub address: Option<IpAddr>,
}

/// A change that somebody wants to make to an owner's memories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryChange {
    /// Saves a memory. If its slot is taken, it replaces the memory there. If there is a memory with its id, nothing changes, so a change that
    /// is made twice is made once.
    Save(NewMemory),
    /// Changes parts of a memory. A memory that has the new slot is deleted.
    Edit {
        /// The memory's id.
        id: MemoryId,
        /// The new parts.
        edit: MemoryEdit,
        /// The place where the user has said it; `None` leaves it as it was.
        source: Option<MemorySource>,
    },
    /// Deletes a memory.
    Delete {
        /// The memory's id.
        id: MemoryId,
    },
}

/// A memory to be saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewMemory {
    /// The id, which comes from the caller.
    pub id: MemoryId,
    /// The kind of the memory.
    pub kind: MemoryKind,
    /// The words of the memory.
    pub text: String,
    /// The slot, if it has one.
    pub slot: Option<String>,
    /// `true` if the memory is never deleted to make room.
    pub pinned: bool,
    /// The place where the user has said it, if that is known.
    pub source: Option<MemorySource>,
}

/// New parts of a memory. A part that is `None` stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryEdit {
    /// The new kind.
    pub kind: Option<MemoryKind>,
    /// The new words.
    pub text: Option<String>,
    /// The new slot; `Some(None)` takes the slot away.
    pub slot: Option<Option<String>>,
    /// The new state of the pin.
    pub pinned: Option<bool>,
}

/// The outcome of a change.
#[expect(clippy::large_enum_variant, reason = "a value is made, read once and dropped; few exist at a time")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryOutcome {
    /// The memory was changed.
    Changed(MemoryEvent),
    /// The memory was like that before.
    Unchanged(Memory),
    /// The owner has no such memory.
    Unknown,
    /// The owner has as many memories as may be, and none that may be deleted to make room.
    Full,
    /// The owner has [`MAX_ALWAYS`] memories that are in every prompt.
    TooManyAlways,
}

/// A change that was made to one memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryEvent {
    /// The memory before; `None` if it is new.
    pub before: Option<Memory>,
    /// The memory after; `None` if it was deleted.
    pub after: Option<Memory>,
}

/// The outcome of undoing the newest change of a memory.
#[expect(clippy::large_enum_variant, reason = "a value is made, read once and dropped; few exist at a time")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The memory is as it was before; `None` if it was new then and is deleted now.
    Undone(Option<Memory>),
    /// No change of the memory is left to be undone.
    NothingLeft,
    /// The owner has no such memory, and had none whose change can be undone.
    Unknown,
}

/// Which memories of an owner are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFilter {
    /// Only memories of this kind.
    pub kind: Option<MemoryKind>,
    /// Only memories that are in every prompt, or only the others.
    pub is_always: Option<bool>,
    /// Only memories that have no such vector.
    pub without_vector: Option<VectorKind>,
    /// Only memories that come after this one in the order of the list.
    pub after: Option<MemoryCursor>,
    /// The number of memories at most; `None`: all.
    pub limit: Option<usize>,
}

/// The vectors that can be compared with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorKind {
    /// The name of the model that made them.
    pub model: String,
    /// The number of their dimensions.
    pub dimensions: usize,
}

/// A place in a list of memories, which is ordered by `created_at`, then by id, both downwards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryCursor {
    /// The time when the memory was saved.
    pub created_at: Timestamp,
    /// The memory's id.
    pub id: MemoryId,
}

/// The vector of a memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryVector {
    /// The owner of the memory.
    pub owner: Owner,
    /// The memory's id.
    pub id: MemoryId,
    /// The version of the memory that was embedded. The vector is dropped if there is a newer one by now.
    pub version: u64,
    /// The vector, as [`check_vector`] wants it.
    pub vector: Vec<f32>,
}

/// The store of memories.
#[async_trait]
pub trait Memories: Send + Sync {
    /// Returns memories of an owner, newest first.
    async fn memories(&self, owner: &Owner, filter: &MemoryFilter) -> Result<Vec<Memory>, StoreError>;

    /// Makes changes in one transaction, each decided by [`OwnedMemories::change`]. `most` is the number of memories that an owner may have.
    ///
    /// This and the next two operations add a row to the audit for each memory that changes ([`MemoryAuthor::entry`]).
    async fn change_memories(
        &self,
        owner: &Owner,
        at: Timestamp,
        changes: Vec<MemoryChange>,
        most: usize,
        author: &MemoryAuthor,
    ) -> Result<Vec<MemoryOutcome>, StoreError>;

    /// Undoes the newest change of a memory that was not undone.
    async fn undo_memory(
        &self,
        owner: &Owner,
        id: &MemoryId,
        at: Timestamp,
        author: &MemoryAuthor,
    ) -> Result<Undone, StoreError>;

    /// Deletes all memories of an owner, and what could bring one back. Returns the number of memories.
    async fn delete_memories(
        &self,
        owner: &Owner,
        at: Timestamp,
        author: &MemoryAuthor,
    ) -> Result<usize, StoreError>;

    /// Notes that memories were recalled.
    async fn note_recalled(&self, owner: &Owner, ids: &[MemoryId], at: Timestamp) -> Result<(), StoreError>;

    /// Returns the owner's memories that have a vector of a model, the most similar ones first, each with the cosine of the angle between the
    /// vectors. Vectors of another length are left out. If there are very many vectors and only some are wanted, they may be nearly the most
    /// similar ones. A vector that [`check_vector`] refuses is a conflict.
    async fn nearest_memories(
        &self,
        owner: &Owner,
        model: &str,
        vector: &[f32],
        limit: usize,
    ) -> Result<Vec<(Memory, f32)>, StoreError>;

    /// Returns memories of all owners that have no vector of this model.
    async fn unembedded_memories(
        &self,
        model: &str,
        limit: usize,
    ) -> Result<Vec<(Owner, Memory)>, StoreError>;

    /// Saves vectors of a model. A memory has one vector, so one of another model is replaced. If [`check_vector`] refuses one of them, none
    /// is saved.
    async fn put_vectors(&self, model: &str, vectors: Vec<MemoryVector>) -> Result<(), StoreError>;

    /// Forgets changes that were made before `before`, so that they cannot be undone any more. Returns the number of changes.
    async fn forget_memory_events(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
}

/// All memories of one owner, for a store that changes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedMemories {
    /// The memories, in any order.
    pub memories: Vec<Memory>,
}

// === impl MemoryAuthor ===

impl MemoryAuthor {
    /// Returns a person whose request came from this address.
    pub fn person(address: Option<IpAddr>) -> Self {
        Self { address, ..Self::default() }
    }

    /// Returns the job that summarizes this chat.
    pub fn summary_of(chat: &ChatId) -> Self {
        Self { origin: MemoryOrigin::Summary, chat: Some(chat.clone()), address: None }
    }

    /// Returns the entry of the audit for a change that was made to a memory.
    pub fn entry(&self, owner: &Owner, event: &MemoryEvent) -> AuditEntry {
        let action = match (&event.before, &event.after) {
            (None, _) => AuditAction::MemorySaved,
            (Some(_), Some(_)) => AuditAction::MemoryChanged,
            (Some(_), None) => AuditAction::MemoryForgotten,
        };
        self.entry_of(owner, action, event.id())
    }

    /// Returns the entry of the audit for the deletion of all memories.
    pub fn entry_of_all(&self, owner: &Owner) -> AuditEntry {
        self.entry_of(owner, AuditAction::MemoriesDeleted, None)
    }

    fn entry_of(&self, owner: &Owner, action: AuditAction, memory: Option<&MemoryId>) -> AuditEntry {
        let subject = memory.map(|MemoryId(id)| id.clone());
        let event = AuditEvent { subject, ..AuditEvent::new(action) };
        let event = match &self.origin {
            MemoryOrigin::Person => event.by(owner.clone(), self.address),
            MemoryOrigin::Tool { tool, call, .. } => {
                AuditEvent { tool: tool.clone(), call: Some(call.clone()), ..event }
            }
            MemoryOrigin::Summary => AuditEvent { reason: Some("summary".into()), ..event },
        };
        AuditEntry { owner: Some(owner.clone()), chat: self.chat.clone(), run: None, event }
    }
}

// === impl MemoryEvent ===

impl MemoryEvent {
    /// Returns the id of the memory.
    pub fn id(&self) -> Option<&MemoryId> {
        self.after.as_ref().or(self.before.as_ref()).map(|memory| &memory.id)
    }
}

// === impl MemoryCursor ===

impl MemoryCursor {
    /// Reads a text that [`MemoryCursor::encode`] wrote.
    ///
    /// # Errors
    /// Returns [`StoreError::BadCursor`] if it is any other text.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let (created_at, id) = text.split_once('~').ok_or(StoreError::BadCursor)?;
        let microseconds = created_at.parse().map_err(|_| StoreError::BadCursor)?;
        let created_at = Timestamp::from_microsecond(microseconds).map_err(|_| StoreError::BadCursor)?;
        let is_id =
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if is_id { Ok(Self { created_at, id: MemoryId(id.to_owned()) }) } else { Err(StoreError::BadCursor) }
    }

    /// Returns the place of a memory.
    pub fn of(memory: &Memory) -> Self {
        Self { created_at: memory.created_at, id: memory.id.clone() }
    }

    /// Returns the cursor as text, which needs no escaping in a URL.
    pub fn encode(&self) -> String {
        format!("{}~{}", self.created_at.as_microsecond(), self.id.0)
    }
}

// === impl Memory ===

impl Memory {
    /// Returns whether the memory is in every prompt, and is never deleted to make room.
    pub fn is_always(&self) -> bool {
        self.pinned || self.slot.is_some()
    }
}

// === impl MemoryFilter ===

impl MemoryFilter {
    /// Returns the memories that are meant, newest first. Vectors are not looked at.
    pub fn select<'a>(&self, memories: impl IntoIterator<Item = &'a Memory>) -> Vec<Memory> {
        let selected = memories.into_iter().filter(|memory| {
            self.kind.is_none_or(|kind| memory.kind == kind)
                && self.is_always.is_none_or(|is_always| memory.is_always() == is_always)
                && self.after.as_ref().is_none_or(|after| MemoryCursor::of(memory) < *after)
        });
        let mut selected: Vec<Memory> = selected.cloned().collect();
        selected.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        selected.truncate(self.limit.unwrap_or(usize::MAX));
        selected
    }
}

// === impl OwnedMemories ===

impl OwnedMemories {
    /// Makes changes, and returns the outcome of each. `events` gets all changes, including the memories that were deleted to make
    /// room: those that were never recalled first, then those that were not recalled for longest, then the oldest; never one that is pinned, has a
    /// slot, or was just saved.
    pub fn change(
        &mut self,
        changes: Vec<MemoryChange>,
        at: Timestamp,
        most: usize,
        origin: &MemoryOrigin,
        events: &mut Vec<MemoryEvent>,
    ) -> Vec<MemoryOutcome> {
        let at = whole_microseconds(at);
        let mut just_saved = BTreeSet::new();
        let mut outcomes = Vec::new();
        for change in changes {
            let outcome = match change {
                MemoryChange::Save(new) => {
                    just_saved.insert(new.id.clone());
                    self.save((new, origin.clone()), at, most, &just_saved, events)
                }
                MemoryChange::Edit { id, edit, source } => {
                    self.edit(&id, edit, (source, origin.clone()), events)
                }
                MemoryChange::Delete { id } => match self.find(&id).cloned() {
                    Some(memory) => self.put(MemoryEvent { before: Some(memory), after: None }, events),
                    None => MemoryOutcome::Unknown,
                },
            };
            outcomes.push(outcome);
        }
        outcomes
    }

    /// Takes a memory back to its state before a change. `events` gets everything that has changed besides.
    pub fn undo(&mut self, undone: MemoryEvent, events: &mut Vec<MemoryEvent>) -> MemoryEvent {
        let current = undone.id().and_then(|id| self.find(id)).cloned();
        // No version comes twice, even if the memory was deleted meanwhile.
        let known = [&current, &undone.after, &undone.before].into_iter().flatten();
        let next_version = known.map(|memory| memory.version + 1).max().unwrap_or_default();
        let restored = undone.before.map(|memory| Memory { version: next_version, ..memory });
        if let Some(Memory { id, slot: Some(slot), .. }) = &restored {
            self.vacate(slot, id, events);
        }
        let event = MemoryEvent { before: current, after: restored };
        self.apply(&event);
        event
    }

    fn save(
        &mut self,
        (new, origin): (NewMemory, MemoryOrigin),
        at: Timestamp,
        most: usize,
        just_saved: &BTreeSet<MemoryId>,
        events: &mut Vec<MemoryEvent>,
    ) -> MemoryOutcome {
        let NewMemory { id, kind, text, slot, pinned, source } = new;
        if let Some(known) = self.find(&id) {
            return MemoryOutcome::Unchanged(known.clone());
        }
        let (recalled_at, version) = (None, 0);
        let saved =
            Memory { id, kind, text, slot, pinned, source, origin, created_at: at, recalled_at, version };
        let taken = self.memories.iter().find(|memory| saved.slot.is_some() && memory.slot == saved.slot);
        if let Some(taken) = taken {
            if taken.text == saved.text && taken.kind == saved.kind {
                return MemoryOutcome::Unchanged(taken.clone());
            }
            let pinned = saved.pinned || taken.pinned;
            let replaced = Memory { id: taken.id.clone(), version: taken.version + 1, pinned, ..saved };
            let before = Some(taken.clone());
            return self.put(MemoryEvent { before, after: Some(replaced) }, events);
        }
        if saved.is_always() && self.count_always(&saved.id) >= MAX_ALWAYS {
            return MemoryOutcome::TooManyAlways;
        }
        while self.memories.len() >= most.max(1) {
            let candidates =
                self.memories.iter().filter(|memory| !memory.is_always() && !just_saved.contains(&memory.id));
            let first = candidates.min_by_key(|memory| (memory.recalled_at, memory.created_at, &memory.id));
            let Some(first) = first.cloned() else { return MemoryOutcome::Full };
            self.put(MemoryEvent { before: Some(first), after: None }, events);
        }
        self.put(MemoryEvent { before: None, after: Some(saved) }, events)
    }

    fn edit(
        &mut self,
        id: &MemoryId,
        edit: MemoryEdit,
        (source, origin): (Option<MemorySource>, MemoryOrigin),
        events: &mut Vec<MemoryEvent>,
    ) -> MemoryOutcome {
        let Some(before) = self.find(id).cloned() else { return MemoryOutcome::Unknown };
        let MemoryEdit { kind, text, slot, pinned } = edit;
        let mut after = before.clone();
        after.kind = kind.unwrap_or(after.kind);
        after.text = text.unwrap_or(after.text);
        after.slot = slot.unwrap_or(after.slot);
        after.pinned = pinned.unwrap_or(after.pinned);
        if after == before {
            return MemoryOutcome::Unchanged(before);
        }
        let takes_slot = after.slot.is_some()
            && self.memories.iter().any(|memory| memory.id != *id && memory.slot == after.slot);
        if after.is_always() && !before.is_always() && !takes_slot && self.count_always(id) >= MAX_ALWAYS {
            return MemoryOutcome::TooManyAlways;
        }
        if let Some(slot) = &after.slot
            && after.slot != before.slot
        {
            self.vacate(slot, id, events);
        }
        after.source = source.or(after.source);
        after.origin = origin;
        after.version += 1;
        self.put(MemoryEvent { before: Some(before), after: Some(after) }, events)
    }

    /// Deletes the memory that has a slot, unless it is the one with this id.
    fn vacate(&mut self, slot: &str, id: &MemoryId, events: &mut Vec<MemoryEvent>) {
        let taken =
            self.memories.iter().find(|memory| memory.slot.as_deref() == Some(slot) && memory.id != *id);
        if let Some(taken) = taken.cloned() {
            self.put(MemoryEvent { before: Some(taken), after: None }, events);
        }
    }

    fn put(&mut self, event: MemoryEvent, events: &mut Vec<MemoryEvent>) -> MemoryOutcome {
        self.apply(&event);
        events.push(event.clone());
        MemoryOutcome::Changed(event)
    }

    fn apply(&mut self, event: &MemoryEvent) {
        self.memories.retain(|memory| Some(&memory.id) != event.id());
        self.memories.extend(event.after.clone());
    }

    /// Returns the number of memories besides this one that are in every prompt.
    fn count_always(&self, id: &MemoryId) -> usize {
        self.memories.iter().filter(|memory| memory.id != *id && memory.is_always()).count()
    }

    fn find(&self, id: &MemoryId) -> Option<&Memory> {
        self.memories.iter().find(|memory| memory.id == *id)
    }
}

/// Checks a vector: it has numbers, and all of them are finite. With others nothing can be compared, and some databases refuse them.
///
/// # Errors
/// Returns [`StoreError::Conflict`] if it is not so.
pub fn check_vector(vector: &[f32]) -> Result<(), StoreError> {
    if vector.is_empty() || !vector.iter().all(|number| number.is_finite()) {
        return Err(StoreError::Conflict("a vector without numbers, or with one that is not finite".into()));
    }
    Ok(())
}

/// Returns the cosine of the angle between two vectors; 0 if their lengths differ or one of them is zero.
pub fn cosine(one: &[f32], other: &[f32]) -> f32 {
    if one.len() != other.len() {
        return 0.0;
    }
    let (mut product, mut one_square, mut other_square) = (0.0, 0.0, 0.0);
    for (a, b) in one.iter().zip(other) {
        product += a * b;
        one_square += a * a;
        other_square += b * b;
    }
    let length: f32 = one_square.sqrt() * other_square.sqrt();
    if length > 0.0 { product / length } else { 0.0 }
}

#[cfg(test)]
mod tests;
