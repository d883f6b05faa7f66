//! Memories of users: saving, finding and undoing them, for chats, tools and pages alike.
//!
//! The store keeps them; this decides which ones have to do with a text, and keeps the limits. Invariants: a memory is only found for its
//! owner; no failure of the embedding model fails anything, because texts can always be compared by their words.

mod embedding;
pub(crate) mod extraction;
mod finding;
mod notes;
mod words;

use std::{sync::Arc, time::Duration};

use fermata_protocol::{ChatId, MemoryKind, Role};
use fermata_tools::{Capacity, Owner};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::{
    deployment_clock::Clock,
    model::embedder::Embedder,
    ports::{
        ids::Ids,
        store::{
            Store, StoreError,
            memories::{
                MAX_ALWAYS, Memory, MemoryAuthor, MemoryChange, MemoryCursor, MemoryEdit, MemoryEvent,
                MemoryFilter, MemoryId, MemoryOutcome, MemorySource, NewMemory, Undone,
            },
        },
    },
};
use embedding::{Asker, Embedding};

pub(crate) use finding::always_known;
pub(crate) use notes::element_text;
pub use notes::{MemoryNote, Recollection, split_note};

/// The tool that saves a memory.
pub const REMEMBER: &str = "remember";
/// The tool that looks for memories.
pub const RECALL: &str = "recall";
/// The tool that deletes a memory.
pub const FORGET: &str = "forget";
/// The tools of memory. An assistant has all of them or none.
pub const TOOLS: [&str; 3] = [REMEMBER, RECALL, FORGET];

/// The length of the name of a slot at most, in characters.
const SLOT_CHARACTERS: usize = 64;
/// A change of a memory can be undone for this time.
pub(crate) const UNDO: Duration = Duration::from_secs(30 * 24 * 3600);

/// The limits on memories.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryLimits {
    /// The number of memories of an owner. If there are more, those that were never or not lately recalled are deleted.
    pub per_owner: usize,
    /// The length of a memory, in bytes.
    pub text_bytes: usize,
    /// The number of memories that are recalled for a message.
    pub recalled: usize,
    /// The cosine of the angle between two vectors below which a memory has nothing to do with a text.
    pub threshold: f32,
}

/// Keeps and finds memories. Clones share everything.
#[derive(Clone)]
pub struct MemoryService(Arc<Parts>);

struct Parts {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    embedding: Embedding,
    limits: MemoryLimits,
    /// Notified when memories may have no vector.
    unembedded: Notify,
}

/// A memory that somebody wants to be saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryDraft {
    /// The id, if the caller has one; the memory is then saved once, however often it is saved.
    pub id: Option<MemoryId>,
    /// The kind of the memory.
    pub kind: MemoryKind,
    /// The words of the memory.
    pub text: String,
    /// The slot, if it has one.
    pub slot: Option<String>,
    /// `true` if the memory is never deleted to make room.
    pub pinned: bool,
}

/// A page of a list of memories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPage {
    /// The memories, newest first.
    pub memories: Vec<Memory>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// The result of a call of a memory tool, which is its output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryToolOutput {
    /// The memory is new.
    Saved(MemoryNote),
    /// The memory was like that before.
    Known(MemoryNote),
    /// The memory has replaced the one that had its slot.
    Changed(MemoryNote),
    /// The memory was deleted.
    Forgotten(MemoryNote),
}

/// The reason why a memory is not saved or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the sentences say it")]
pub enum MemoryError {
    #[error("There is no memory with this id.")]
    NotFound,
    #[error("No change of this memory is left to be undone.")]
    NothingToUndo,
    #[error("A memory has some text; this one has none.")]
    Empty,
    #[error("The text has {bytes} bytes; a memory may have {limit} (max_memory).")]
    TooLong { bytes: usize, limit: usize },
    #[error("The name of a slot has 1 to {SLOT_CHARACTERS} characters, and no line ends: {0:?} is none.")]
    BadSlot(String),
    #[error(
        "There are {0} memories already (memory_max), and all of them are pinned or have a slot. Delete one."
    )]
    Full(usize),
    #[error(
        "There are {MAX_ALWAYS} memories already that are in every prompt, because they are pinned or have a slot. Delete or unpin one."
    )]
    TooManyAlways,
    #[error(transparent)]
    Store(#[from] StoreError),
}

// === impl MemoryLimits ===

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { per_owner: 1_000, text_bytes: 2_000, recalled: 5, threshold: 0.25 }
    }
}

// === impl MemoryService ===

impl MemoryService {
    /// Returns a service that keeps memories in this store. Its requests to the embedding model take slots of `model_requests`.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        embedder: Option<Arc<dyn Embedder>>,
        model_requests: Capacity,
        limits: MemoryLimits,
    ) -> Self {
        let embedding = Embedding::new(embedder, model_requests);
        Self(Arc::new(Parts { store, clock, ids, embedding, limits, unembedded: Notify::new() }))
    }

    /// Replaces the embedding model. The memories are embedded again in the background, and found by their words meanwhile.
    pub fn set_embedder(&self, embedder: Option<Arc<dyn Embedder>>) {
        self.0.embedding.set_model(embedder);
        self.note_unembedded();
    }

    /// Returns the number of memories that an owner may have.
    pub(crate) fn most(&self) -> usize {
        self.0.limits.per_owner
    }

    /// Lists memories, newest first: of one kind, or those that have to do with a query, if these are given. `before` is the `next` of the
    /// page before.
    ///
    /// # Errors
    /// Returns an error if the memories cannot be read, or `before` is not a cursor of this list.
    pub async fn list(
        &self,
        owner: &Owner,
        query: Option<&str>,
        kind: Option<MemoryKind>,
        limit: usize,
        before: Option<&str>,
    ) -> Result<MemoryPage, StoreError> {
        let after = before.map(MemoryCursor::parse).transpose()?;
        let filter = MemoryFilter { kind, after, limit: Some(limit + 1), ..MemoryFilter::default() };
        let mut memories = match query.map(str::trim).filter(|query| !query.is_empty()) {
            Some(query) => {
                let lower = query.to_lowercase();
                let mut ranked = self.ranked(owner, Asker::Owner(owner), &[query], None, usize::MAX).await?;
                ranked
                    .retain(|ranked| ranked.is_similar || ranked.memory.text.to_lowercase().contains(&lower));
                filter.select(ranked.iter().map(|ranked| &ranked.memory))
            }
            None => self.0.store.memories(owner, &filter).await?,
        };
        let has_more = memories.len() > limit;
        memories.truncate(limit);
        let last = if has_more { memories.last() } else { None };
        Ok(MemoryPage { next: last.map(|memory| MemoryCursor::of(memory).encode()), memories })
    }

    /// Saves a memory. One that says the same as a known one is not saved again.
    ///
    /// # Errors
    /// Returns an error if the memory is not valid or there is no room for it.
    pub async fn save(
        &self,
        owner: &Owner,
        draft: MemoryDraft,
        author: &MemoryAuthor,
    ) -> Result<MemoryOutcome, MemoryError> {
        let MemoryDraft { id, kind, text, slot, pinned } = draft;
        let text = self.checked_text(&text)?;
        let slot = slot.map(|slot| checked_slot(&slot)).transpose()?;
        if slot.is_none() {
            let known = self.0.store.memories(owner, &MemoryFilter::default()).await?;
            let same = known
                .into_iter()
                .find(|memory| memory.kind == kind && memory.text.to_lowercase() == text.to_lowercase());
            if let Some(known) = same
                && (known.pinned || !pinned)
            {
                return Ok(MemoryOutcome::Unchanged(known));
            }
        }
        let source = match &author.chat {
            Some(chat) => {
                let message = self.0.store.last_message(chat, usize::MAX, Some(Role::User)).await?;
                Some(MemorySource { chat: chat.clone(), message: message.map(|(_, id)| id) })
            }
            None => None,
        };
        let id = id.unwrap_or_else(|| self.new_id());
        let new = NewMemory { id, kind, text, slot, pinned, source };
        self.change(owner, MemoryChange::Save(new), author).await
    }

    /// Changes parts of a memory.
    ///
    /// # Errors
    /// Returns an error if the memory would not be valid, or does not exist.
    pub async fn edit(
        &self,
        owner: &Owner,
        id: MemoryId,
        edit: MemoryEdit,
        author: &MemoryAuthor,
    ) -> Result<Memory, MemoryError> {
        let edit = MemoryEdit {
            text: edit.text.map(|text| self.checked_text(&text)).transpose()?,
            slot: match edit.slot {
                Some(Some(slot)) => Some(Some(checked_slot(&slot)?)),
                unchanged_or_none => unchanged_or_none,
            },
            ..edit
        };
        match self.change(owner, MemoryChange::Edit { id, edit, source: None }, author).await? {
            MemoryOutcome::Changed(MemoryEvent { after: Some(memory), .. })
            | MemoryOutcome::Unchanged(memory) => Ok(memory),
            MemoryOutcome::Changed(MemoryEvent { after: None, .. })
            | MemoryOutcome::Unknown
            | MemoryOutcome::Full
            | MemoryOutcome::TooManyAlways => Err(MemoryError::NotFound),
        }
    }

    /// Deletes a memory, and returns it.
    ///
    /// # Errors
    /// Returns an error if the memory does not exist.
    pub async fn forget(
        &self,
        owner: &Owner,
        id: MemoryId,
        author: &MemoryAuthor,
    ) -> Result<Memory, MemoryError> {
        match self.change(owner, MemoryChange::Delete { id }, author).await? {
            MemoryOutcome::Changed(MemoryEvent { before: Some(memory), .. }) => Ok(memory),
            MemoryOutcome::Changed(MemoryEvent { before: None, .. })
            | MemoryOutcome::Unchanged(_)
            | MemoryOutcome::Unknown
            | MemoryOutcome::Full
            | MemoryOutcome::TooManyAlways => Err(MemoryError::NotFound),
        }
    }

    /// Undoes the newest change of a memory. Returns the memory as it is then; `None` if it was new and is deleted now.
    ///
    /// # Errors
    /// Returns an error if there is no such memory, or nothing is left to be undone.
    pub async fn undo(
        &self,
        owner: &Owner,
        id: &MemoryId,
        author: &MemoryAuthor,
    ) -> Result<Option<Memory>, MemoryError> {
        match self.0.store.undo_memory(owner, id, self.0.clock.now(), author).await? {
            Undone::Undone(memory) => {
                count("undone", 1);
                self.embed(owner, memory.as_ref()).await;
                Ok(memory)
            }
            Undone::NothingLeft => Err(MemoryError::NothingToUndo),
            Undone::Unknown => Err(MemoryError::NotFound),
        }
    }

    /// Deletes all memories of an owner for good. Returns the number of memories.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn forget_all(&self, owner: &Owner, author: &MemoryAuthor) -> Result<usize, StoreError> {
        let deleted = self.0.store.delete_memories(owner, self.0.clock.now(), author).await?;
        count("forgotten", deleted);
        Ok(deleted)
    }

    /// Deletes the memories that come from a chat.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub(crate) async fn forget_those_of(&self, owner: &Owner, chat: &ChatId) -> Result<(), StoreError> {
        let memories = self.0.store.memories(owner, &MemoryFilter::default()).await?;
        let of_chat = memories
            .into_iter()
            .filter(|memory| memory.source.as_ref().is_some_and(|source| source.chat == *chat));
        let changes: Vec<MemoryChange> =
            of_chat.map(|memory| MemoryChange::Delete { id: memory.id }).collect();
        count("forgotten", changes.len());
        if !changes.is_empty() {
            let author = MemoryAuthor { chat: Some(chat.clone()), ..MemoryAuthor::default() };
            self.0.store.change_memories(owner, self.0.clock.now(), changes, self.most(), &author).await?;
        }
        Ok(())
    }

    pub(crate) fn new_id(&self) -> MemoryId {
        MemoryId(self.0.ids.next("mem_"))
    }

    async fn change(
        &self,
        owner: &Owner,
        change: MemoryChange,
        author: &MemoryAuthor,
    ) -> Result<MemoryOutcome, MemoryError> {
        let at = self.0.clock.now();
        let changes = vec![change];
        let outcomes = self.0.store.change_memories(owner, at, changes.clone(), self.most(), author).await?;
        let outcome = outcomes.into_iter().next().unwrap_or(MemoryOutcome::Unknown);
        match &outcome {
            MemoryOutcome::Changed(event) => {
                count_changes(&changes);
                self.embed(owner, event.after.as_ref()).await;
            }
            MemoryOutcome::Unchanged(_) | MemoryOutcome::Unknown => {}
            MemoryOutcome::Full => return Err(MemoryError::Full(self.most())),
            MemoryOutcome::TooManyAlways => return Err(MemoryError::TooManyAlways),
        }
        Ok(outcome)
    }

    fn checked_text(&self, text: &str) -> Result<String, MemoryError> {
        let (text, limit) = (text.trim(), self.0.limits.text_bytes);
        if text.is_empty() {
            return Err(MemoryError::Empty);
        }
        if text.len() > limit {
            return Err(MemoryError::TooLong { bytes: text.len(), limit });
        }
        Ok(text.to_owned())
    }
}

/// Returns the name of a slot as it is compared.
fn checked_slot(slot: &str) -> Result<String, MemoryError> {
    let name = slot.trim();
    let is_valid =
        (1..=SLOT_CHARACTERS).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    if is_valid {
        Ok(name.to_lowercase())
    } else {
        Err(MemoryError::BadSlot(slot.chars().take(100).collect()))
    }
}

/// Counts changes for the operator.
pub(crate) fn count_changes(changes: &[MemoryChange]) {
    for change in changes {
        match change {
            MemoryChange::Save(_) => count("saved", 1),
            MemoryChange::Edit { .. } => count("changed", 1),
            MemoryChange::Delete { .. } => count("forgotten", 1),
        }
    }
}

/// The changes that are counted.
pub(crate) const CHANGES: [&str; 5] = ["saved", "changed", "forgotten", "undone", "recalled"];

pub(crate) fn count(change: &'static str, number: usize) {
    metrics::counter!("fermata_memories_total", "change" => change).increment(number as u64);
}
