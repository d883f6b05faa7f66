//! Finding the memories that have to do with a text: by their meaning, or by their words.

use std::collections::BTreeMap;

use fermata_protocol::ChatId;
use fermata_tools::Owner;

use super::{MemoryNote, MemoryService, Recollection, count, embedding::Asker, words::Words};
use crate::ports::store::{
    StoreError,
    memories::{MAX_SLOTS, Memory, MemoryCursor, MemoryFilter, MemoryId, VectorKind},
};

/// The similarity by words below which a memory has nothing to do with a text.
const WORDS_THRESHOLD: f32 = 0.3;
/// The number of known memories that a model is shown when it says which facts to keep.
const KNOWN: usize = 10;

/// A memory, compared with a text.
pub(super) struct Ranked {
    pub memory: Memory,
    similarity: f32,
    /// `true` if the memory has to do with the text.
    pub is_similar: bool,
}

// === impl MemoryService ===

impl MemoryService {
    /// Returns the memories that have to do with a text, the most similar one first, at most as many as are recalled for a message. Those that
    /// have a slot are not among them. It is noted that they were recalled.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn recall(&self, owner: &Owner, text: &str) -> Result<Vec<Memory>, StoreError> {
        self.recall_for(owner, Asker::Owner(owner), text).await
    }

    async fn recall_for(
        &self,
        owner: &Owner,
        asker: Asker<'_>,
        text: &str,
    ) -> Result<Vec<Memory>, StoreError> {
        let ranked = self.ranked_without_slot(owner, asker, text, self.0.limits.recalled).await?;
        let recalled: Vec<Memory> =
            ranked.into_iter().filter(|ranked| ranked.is_similar).map(|ranked| ranked.memory).collect();
        if !recalled.is_empty() {
            count("recalled", recalled.len());
            let ids: Vec<MemoryId> = recalled.iter().map(|memory| memory.id.clone()).collect();
            self.0.store.note_recalled(owner, &ids, self.0.clock.now()).await?;
        }
        Ok(recalled)
    }

    /// Returns a run's knowledge of its user. If the store fails, that is nothing, because a run does not end for it. The run holds a slot
    /// for its requests to models, which this uses.
    pub(crate) async fn recollect(&self, owner: &Owner, chat: &ChatId, text: &str) -> Recollection {
        let notes = |memories: Vec<Memory>| memories.iter().map(MemoryNote::from).collect();
        let recollected = async {
            // Most users have no memories, and each read takes time from the answer.
            let any = MemoryFilter { limit: Some(1), ..MemoryFilter::default() };
            if self.0.store.memories(owner, &any).await?.is_empty() {
                return Ok(Recollection::default());
            }
            let slots = self.slots(owner).await?;
            let recalled = if text.is_empty() {
                Vec::new()
            } else {
                self.recall_for(owner, Asker::SlotHolder, text).await?
            };
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
        let filter = MemoryFilter { has_slot: Some(true), ..MemoryFilter::default() };
        let mut slots = self.0.store.memories(owner, &filter).await?;
        slots.sort_by(|a, b| a.slot.cmp(&b.slot));
        Ok(slots)
    }

    /// Returns the known memories that the facts of a text are compared with: those that have a slot, and the most similar others. The
    /// caller holds a slot for its requests to models, which this uses.
    pub(crate) async fn known(&self, owner: &Owner, text: &str) -> Result<Vec<Memory>, StoreError> {
        let mut known = self.slots(owner).await?;
        let ranked = self.ranked_without_slot(owner, Asker::SlotHolder, text, KNOWN).await?;
        known.extend(ranked.into_iter().map(|ranked| ranked.memory));
        Ok(known)
    }

    /// Returns the memories that have no slot and are most similar to a text, the most similar one first, `limit` at most.
    async fn ranked_without_slot(
        &self,
        owner: &Owner,
        asker: Asker<'_>,
        text: &str,
        limit: usize,
    ) -> Result<Vec<Ranked>, StoreError> {
        // Memories that have a slot may be among the most similar ones. They are few.
        let mut ranked = self.ranked(owner, asker, text, Some(false), limit + MAX_SLOTS).await?;
        ranked.retain(|ranked| ranked.memory.slot.is_none());
        ranked.truncate(limit);
        Ok(ranked)
    }

    /// Returns the memories of an owner that are most similar to a text, the most similar one first, at least `limit` if there are so many.
    /// They are compared by their meaning, or by their words if they or the text have no vector. If `has_slot` says which ones
    /// are meant, the others may be among them.
    pub(super) async fn ranked(
        &self,
        owner: &Owner,
        asker: Asker<'_>,
        text: &str,
        has_slot: Option<bool>,
        limit: usize,
    ) -> Result<Vec<Ranked>, StoreError> {
        let any = MemoryFilter { has_slot, limit: Some(1), ..MemoryFilter::default() };
        if self.0.store.memories(owner, &any).await?.is_empty() {
            return Ok(Vec::new());
        }
        let mut by_words = MemoryFilter { has_slot, ..MemoryFilter::default() };
        let mut embedded = None;
        if let Ok((model, vectors)) = self.0.embedding.vectors(&[text], asker).await
            && let Some(vector) = vectors.into_iter().next()
        {
            by_words.without_vector = Some(VectorKind { model: model.clone(), dimensions: vector.len() });
            embedded = Some((model, vector));
        }
        let words = Words::of(text);
        let mut ranked = BTreeMap::new();
        for memory in self.0.store.memories(owner, &by_words).await? {
            let similarity = words.similarity(&Words::of(&memory.text));
            let is_similar = similarity >= WORDS_THRESHOLD;
            ranked.insert(memory.id.clone(), Ranked { memory, similarity, is_similar });
        }
        // A memory that was embedded just now is in both lists.
        if let Some((model, vector)) = embedded {
            for (memory, similarity) in self.0.store.nearest_memories(owner, &model, &vector, limit).await? {
                let is_similar = similarity >= self.0.limits.threshold;
                ranked.insert(memory.id.clone(), Ranked { memory, similarity, is_similar });
            }
        }
        let mut ranked: Vec<Ranked> = ranked.into_values().collect();
        // Of two that are alike, the newer one comes first.
        let place = |ranked: &Ranked| MemoryCursor::of(&ranked.memory);
        ranked.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then_with(|| place(b).cmp(&place(a))));
        Ok(ranked)
    }
}
