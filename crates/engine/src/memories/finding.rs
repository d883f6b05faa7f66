//! Finding the memories that have to do with a text: by their meaning, or by their words.

use std::collections::{BTreeMap, btree_map::Entry};

use fermata_protocol::ChatId;
use fermata_tools::Owner;

use super::{MemoryNote, MemoryService, Recollection, count, embedding::Asker, words::Words};
use crate::ports::store::{
    StoreError,
    memories::{MAX_ALWAYS, Memories, Memory, MemoryCursor, MemoryFilter, MemoryId, VectorKind},
};

/// The similarity by words below which a memory has nothing to do with a text.
const WORDS_THRESHOLD: f32 = 0.3;
/// The weight of the similarity to what was said before the last message.
const EARLIER_WEIGHT: f32 = 0.8;
/// The number of known memories that a model is shown when it says which facts to keep.
const KNOWN: usize = 10;

/// A memory, compared with a text.
pub(super) struct Ranked {
    pub memory: Memory,
    similarity: f32,
    /// `true` if the memory has to do with the text.
    pub is_similar: bool,
}

/// Returns the memories of an owner that are in every prompt, by the name of their slot; those without one come last, the oldest first.
pub(crate) async fn always_known<S: Memories + ?Sized>(
    store: &S,
    owner: &Owner,
) -> Result<Vec<Memory>, StoreError> {
    let filter = MemoryFilter { is_always: Some(true), ..MemoryFilter::default() };
    let mut always = store.memories(owner, &filter).await?;
    always.sort_by(|a, b| {
        let place = |memory: &Memory| (memory.slot.is_none(), memory.slot.clone(), memory.created_at);
        place(a).cmp(&place(b))
    });
    Ok(always)
}

// === impl MemoryService ===

impl MemoryService {
    /// Returns the memories that have to do with one of these texts, the most similar one first, at most as many as are recalled for a
    /// message. Those that are in every prompt are not among them. It is noted that they were recalled.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn recall(&self, owner: &Owner, text: &str) -> Result<Vec<Memory>, StoreError> {
        self.recall_for(owner, Asker::Owner(owner), &[text]).await
    }

    async fn recall_for(
        &self,
        owner: &Owner,
        asker: Asker<'_>,
        texts: &[&str],
    ) -> Result<Vec<Memory>, StoreError> {
        let ranked = self.ranked_others(owner, asker, texts, self.0.limits.recalled).await?;
        let recalled: Vec<Memory> =
            ranked.into_iter().filter(|ranked| ranked.is_similar).map(|ranked| ranked.memory).collect();
        if !recalled.is_empty() {
            count("recalled", recalled.len());
            let ids: Vec<MemoryId> = recalled.iter().map(|memory| memory.id.clone()).collect();
            self.0.store.note_recalled(owner, &ids, self.0.clock.now()).await?;
        }
        Ok(recalled)
    }

    /// Returns a run's knowledge of its user: the memories that are in every prompt, and those about one of the texts. The
    /// newest text comes first. If the store fails, nothing is recalled, and the run continues. The run holds a slot for its
    /// requests to models, which this uses.
    pub(crate) async fn recollect(&self, owner: &Owner, chat: &ChatId, texts: &[String]) -> Recollection {
        let notes = |memories: Vec<Memory>| memories.iter().map(MemoryNote::from).collect();
        let recollected = async {
            // Most users have no memories, and each read takes time from the answer.
            let any = MemoryFilter { limit: Some(1), ..MemoryFilter::default() };
            if self.0.store.memories(owner, &any).await?.is_empty() {
                return Ok(Recollection::default());
            }
            let always = always_known(&*self.0.store, owner).await?;
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let recalled = if texts.is_empty() {
                Vec::new()
            } else {
                self.recall_for(owner, Asker::SlotHolder, &texts).await?
            };
            Ok::<_, StoreError>(Recollection { always: notes(always), recalled: notes(recalled) })
        };
        match recollected.await {
            Ok(recollection) => recollection,
            Err(error) => {
                tracing::warn!(%chat, %error, "the memories could not be read, so this run goes on without them");
                Recollection::default()
            }
        }
    }

    /// Returns the known memories that the facts of a text are compared with: those that are in every prompt, and the most similar others.
    /// The caller holds a slot for its requests to models, which this uses.
    pub(crate) async fn known(&self, owner: &Owner, text: &str) -> Result<Vec<Memory>, StoreError> {
        let mut known = always_known(&*self.0.store, owner).await?;
        let ranked = self.ranked_others(owner, Asker::SlotHolder, &[text], KNOWN).await?;
        known.extend(ranked.into_iter().map(|ranked| ranked.memory));
        Ok(known)
    }

    /// Returns the memories that are not in every prompt and are most similar to the texts, the most similar one first, `limit` at most.
    async fn ranked_others(
        &self,
        owner: &Owner,
        asker: Asker<'_>,
        texts: &[&str],
        limit: usize,
    ) -> Result<Vec<Ranked>, StoreError> {
        // Memories that are in every prompt may be among the most similar ones. They are few.
        let mut ranked = self.ranked(owner, asker, texts, Some(false), limit + MAX_ALWAYS).await?;
        ranked.retain(|ranked| !ranked.memory.is_always());
        ranked.truncate(limit);
        Ok(ranked)
    }

    /// Returns the memories of an owner that are most similar to one of the texts, the most similar one first, at least `limit` if there are
    /// so many. They are compared by their meaning, or by their words if they or the texts have no vector. An earlier text counts for
    /// less. If `is_always` says which ones are meant, the others may be among them.
    pub(super) async fn ranked(
        &self,
        owner: &Owner,
        asker: Asker<'_>,
        texts: &[&str],
        is_always: Option<bool>,
        limit: usize,
    ) -> Result<Vec<Ranked>, StoreError> {
        let any = MemoryFilter { is_always, limit: Some(1), ..MemoryFilter::default() };
        if self.0.store.memories(owner, &any).await?.is_empty() {
            return Ok(Vec::new());
        }
        let mut by_words = MemoryFilter { is_always, ..MemoryFilter::default() };
        let mut embedded = None;
        if let Ok((model, vectors)) = self.0.embedding.vectors(texts, asker).await
            && let Some(vector) = vectors.first()
        {
            by_words.without_vector = Some(VectorKind { model: model.clone(), dimensions: vector.len() });
            embedded = Some((model, vectors));
        }
        let mut ranked: BTreeMap<MemoryId, Ranked> = BTreeMap::new();
        let mut add = |memory: Memory, similarity: f32, threshold: f32, weight: f32| {
            let is_similar = similarity >= threshold;
            let similarity = similarity * weight;
            match ranked.entry(memory.id.clone()) {
                Entry::Vacant(entry) => _ = entry.insert(Ranked { memory, similarity, is_similar }),
                Entry::Occupied(mut entry) => {
                    let known = entry.get_mut();
                    known.is_similar |= is_similar;
                    known.similarity = known.similarity.max(similarity);
                }
            }
        };
        let words: Vec<Words> = texts.iter().map(|text| Words::of(text)).collect();
        for memory in self.0.store.memories(owner, &by_words).await? {
            let of_memory = Words::of(&memory.text);
            for (words, weight) in words.iter().zip(weights()) {
                add(memory.clone(), words.similarity(&of_memory), WORDS_THRESHOLD, weight);
            }
        }
        // A memory that was embedded just now is in both lists.
        if let Some((model, vectors)) = embedded {
            for (vector, weight) in vectors.iter().zip(weights()) {
                for (memory, similarity) in
                    self.0.store.nearest_memories(owner, &model, vector, limit).await?
                {
                    add(memory, similarity, self.0.limits.threshold, weight);
                }
            }
        }
        let mut ranked: Vec<Ranked> = ranked.into_values().collect();
        // Of two that are alike, the newer one comes first.
        let place = |ranked: &Ranked| MemoryCursor::of(&ranked.memory);
        ranked.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then_with(|| place(b).cmp(&place(a))));
        Ok(ranked)
    }
}

/// Returns how much the similarity to each text counts: what was said before counts less than what was said last.
fn weights() -> impl Iterator<Item = f32> {
    std::iter::once(1.0).chain(std::iter::repeat(EARLIER_WEIGHT))
}
