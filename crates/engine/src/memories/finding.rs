//! Finding the memories that have to do with a text: by their meaning, or by their words.

use std::collections::HashMap;

use fermata_protocol::ChatId;
use fermata_tools::Owner;

use super::{MemoryNote, MemoryService, Recollection, count, embedding::Waiting, words::Words};
use crate::store::{
    StoreError,
    memories::{Memory, MemoryFilter, MemoryId},
};

/// The similarity by words below which a memory has nothing to do with a text.
const WORDS_THRESHOLD: f32 = 0.3;
/// The number of known memories that a model is shown when it says which facts to keep.
const KNOWN: usize = 10;
/// A memory, compared with a text.
pub(super) struct Ranked<'a> {
    pub memory: &'a Memory,
    similarity: f32,
    /// `true` if the memory has to do with the text.
    pub is_similar: bool,
}

// === impl MemoryService ===

impl MemoryService {
    /// Returns the memories that have to do with a text, the most similar one first, at most as many as are recalled for a message. It is
    /// noted that they were recalled.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn recall(&self, owner: &Owner, text: &str) -> Result<Vec<Memory>, StoreError> {
        let mut memories = self.0.store.memories(owner, &MemoryFilter::default()).await?;
        memories.retain(|memory| memory.slot.is_none());
        let ranked = self.ranked(owner, text, &memories).await?;
        let similar = ranked.into_iter().filter(|ranked| ranked.is_similar).take(self.0.limits.recalled);
        let recalled: Vec<Memory> = similar.map(|ranked| ranked.memory.clone()).collect();
        if !recalled.is_empty() {
            count("recalled", recalled.len());
            let ids: Vec<MemoryId> = recalled.iter().map(|memory| memory.id.clone()).collect();
            self.0.store.note_recalled(owner, &ids, self.0.clock.now()).await?;
        }
        Ok(recalled)
    }

    /// Returns what a run knows of its user. If the store fails, that is nothing, because a run does not end for it.
    pub(crate) async fn recollect(&self, owner: &Owner, chat: &ChatId, text: &str) -> Recollection {
        let notes = |memories: Vec<Memory>| memories.iter().map(MemoryNote::from).collect();
        let recollected = async {
            let slots = self.slots(owner).await?;
            let recalled = if text.is_empty() { Vec::new() } else { self.recall(owner, text).await? };
            Ok::<_, StoreError>(Recollection { slots: notes(slots), recalled: notes(recalled) })
        };
        match recollected.await {
            Ok(recollection) => recollection,
            Err(error) => {
                tracing::warn!(%chat, %error, "the memories could not be read, so this run goes on without them");
                Recollection::default()
            }
        }
    }

    /// Returns the memories that have a slot, by the name of the slot.
    pub(crate) async fn slots(&self, owner: &Owner) -> Result<Vec<Memory>, StoreError> {
        let filter = MemoryFilter { has_slot: true, ..MemoryFilter::default() };
        let mut slots = self.0.store.memories(owner, &filter).await?;
        slots.sort_by(|a, b| a.slot.cmp(&b.slot));
        Ok(slots)
    }

    /// Returns the known memories with which the facts of a text are compared: those that have a slot, and the most similar others.
    pub(crate) async fn known(&self, owner: &Owner, text: &str) -> Result<Vec<Memory>, StoreError> {
        let memories = self.0.store.memories(owner, &MemoryFilter::default()).await?;
        let (mut known, others): (Vec<_>, Vec<_>) =
            memories.into_iter().partition(|memory| memory.slot.is_some());
        let ranked = self.ranked(owner, text, &others).await?;
        known.extend(ranked.into_iter().take(KNOWN).map(|ranked| ranked.memory.clone()));
        Ok(known)
    }

    /// Returns memories of an owner in the order of their similarity to a text, the most similar one first. They are compared by their
    /// meaning, or by their words if they have no vector or none can be had of the text.
    pub(super) async fn ranked<'a>(
        &self,
        owner: &Owner,
        text: &str,
        memories: &'a [Memory],
    ) -> Result<Vec<Ranked<'a>>, StoreError> {
        if memories.is_empty() {
            return Ok(Vec::new());
        }
        let mut cosines = HashMap::new();
        if let Some((model, vectors)) = self.0.embedding.vectors(&[text], Waiting::Somebody).await
            && let Some(vector) = vectors.first()
        {
            cosines.extend(self.0.store.nearest_memories(owner, &model, vector, usize::MAX).await?);
        }
        let words = Words::of(text);
        let mut ranked = Vec::new();
        for memory in memories {
            let (similarity, threshold) = match cosines.get(&memory.id) {
                Some(cosine) => (*cosine, self.0.limits.threshold),
                None => (words.similarity(&Words::of(&memory.text)), WORDS_THRESHOLD),
            };
            ranked.push(Ranked { memory, similarity, is_similar: similarity >= threshold });
        }
        // The list is newest first, and the sort is stable: of two that are alike, the newer one comes first.
        ranked.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        Ok(ranked)
    }
}
