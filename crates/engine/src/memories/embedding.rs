//! Vectors of texts and of memories. Calls of the embedding model are bounded in number, size and time, and nobody fails because of one:
//! texts are compared by their words instead.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tracing::Instrument;

use fermata_tools::{Capacity, Owner};

use super::MemoryService;
use crate::{
    model::{ModelError, embedder::Embedder, metrics::record_duration},
    ports::store::{
        StoreError,
        memories::{Memory, MemoryId, MemoryVector},
    },
};

/// A caller that waits for vectors goes on without them after this time.
const WAIT: Duration = Duration::from_secs(5);
/// The time that nobody waits for a model that was silent. Meanwhile it is asked in the background.
const SILENCE: Duration = Duration::from_secs(30);
/// The number of calls that are under way at a time. Others wait for their turn, within their time.
const MAX_CALLS: usize = 8;
/// The number of memories that are embedded in the background with one call, and the time that the call may take.
const BATCH: usize = 64;
const BATCH_WAIT: Duration = Duration::from_secs(60);
/// The pause before the embedding model is asked again that did not answer, in the background.
const PAUSE: Duration = Duration::from_secs(60);
/// The maximum length of a text, in bytes. The rest is not compared.
const TEXT_BYTES: usize = 8_000;

/// The work that asks for vectors.
#[derive(Clone, Copy)]
pub(crate) enum Asker<'a> {
    /// A request or a tool of this owner that somebody waits for.
    Owner(&'a Owner),
    /// Work that somebody waits for, and that holds a slot for its requests to models.
    SlotHolder,
    /// Work in the background for this owner.
    Background(&'a Owner),
}

/// The embedding model, if there is one.
pub(crate) struct Embedding {
    model: RwLock<Option<Arc<dyn Embedder>>>,
    /// The slots of requests to models, which others use as well.
    model_requests: Capacity,
    calls: Semaphore,
    /// `true` if the newest call has failed, which was logged then.
    has_failed: AtomicBool,
    /// The time until which nobody waits for the model, because it was silent. Held for a copy.
    silent_until: Mutex<Option<Instant>>,
}

/// The reason why there are no vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoVectors {
    /// There is no embedding model, or nobody waits for it at the moment.
    NotAsked,
    /// The model is not there, or not for us.
    Unavailable,
    /// The model has answered, but not with vectors. One of the texts may be too long for it.
    Refused,
}

/// The work of embedding memories in the background.
#[derive(Default)]
struct Backlog {
    /// The model that is asked.
    model: String,
    /// The memories that the model refuses by themselves, with their versions. They are found by their words.
    refused: HashSet<(Owner, MemoryId, u64)>,
}

/// The result of embedding some memories.
enum Batch {
    /// There may be more.
    Whole,
    /// There are no more.
    Last,
    /// The model gave no answer.
    Failed,
}

// === impl Embedding ===

impl Embedding {
    pub fn new(model: Option<Arc<dyn Embedder>>, model_requests: Capacity) -> Self {
        Self {
            model: RwLock::new(model),
            model_requests,
            calls: Semaphore::new(MAX_CALLS),
            has_failed: AtomicBool::new(false),
            silent_until: Mutex::default(),
        }
    }

    pub fn set_model(&self, model: Option<Arc<dyn Embedder>>) {
        *self.model.write().unwrap_or_else(PoisonError::into_inner) = model;
    }

    pub fn model(&self) -> Option<Arc<dyn Embedder>> {
        self.model.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn silent_until(&self) -> Option<Instant> {
        *self.silent_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of the model and the vector of each text.
    ///
    /// # Errors
    /// Returns an error if there is no model, if it gives no vectors in time, or if too many requests to models are under way.
    pub async fn vectors(
        &self,
        texts: &[&str],
        asker: Asker<'_>,
    ) -> Result<(String, Vec<Vec<f32>>), NoVectors> {
        let model = self.model().ok_or(NoVectors::NotAsked)?;
        let name = model.name().to_owned();
        let is_silent = self.silent_until().is_some_and(|until| Instant::now() < until);
        let (slot, within) = match asker {
            Asker::Owner(_) | Asker::SlotHolder if is_silent => return Err(NoVectors::NotAsked),
            Asker::Owner(owner) => match timeout(WAIT, self.model_requests.acquire(owner)).await {
                Ok(slot) => (Some(slot), WAIT),
                Err(_) => return Err(NoVectors::NotAsked),
            },
            Asker::SlotHolder => (None, WAIT),
            Asker::Background(owner) => (Some(self.model_requests.acquire(owner).await), BATCH_WAIT),
        };
        let shortened: Vec<String> =
            texts.iter().map(|text| text[..text.floor_char_boundary(TEXT_BYTES)].to_owned()).collect();
        let asked_at = Instant::now();
        let span = tracing::info_span!(
            "embeddings",
            gen_ai.operation.name = "embeddings",
            gen_ai.request.model = %name,
            error.type = tracing::field::Empty,
        );
        let answer = timeout(within, async {
            let _turn = self.calls.acquire().await;
            model.embed(shortened).await
        });
        let answer = match answer.instrument(span.clone()).await {
            Ok(Ok(vectors)) if is_whole(&vectors, texts.len()) => Ok(vectors),
            Ok(Ok(_)) => Err(ModelError::Format("the vectors do not fit the texts".into())),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ModelError::Timeout),
        };
        drop(slot);
        let is_silent = matches!(answer, Err(ModelError::Timeout));
        *self.silent_until.lock().unwrap_or_else(PoisonError::into_inner) =
            if is_silent { Some(Instant::now() + SILENCE) } else { None };
        record_duration("embeddings", &name, asked_at.elapsed());
        let outcome = if answer.is_ok() { "done" } else { "failed" };
        metrics::counter!("fermata_embeddings_total", "outcome" => outcome).increment(1);
        match answer {
            Ok(vectors) => {
                if self.has_failed.swap(false, Ordering::Relaxed) {
                    tracing::info!(model = %name, "the embedding model answers again");
                }
                Ok((name, vectors))
            }
            Err(error) => {
                span.record("error.type", error.error_type().as_str());
                if !self.has_failed.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        model = %name,
                        %error,
                        "the embedding model gives no vectors, so memories are found by their words; further failures are not logged"
                    );
                }
                Err(NoVectors::from(&error))
            }
        }
    }
}

// === impl MemoryService ===

impl MemoryService {
    /// Has memories embedded in the background that have no vector.
    pub(crate) fn note_unembedded(&self) {
        self.0.unembedded.notify_one();
    }

    /// Embeds memories that have no vector of the current model, whenever there may be some, until this is dropped.
    pub(crate) async fn embed_in_background(self) {
        let mut backlog = Backlog::default();
        loop {
            while let Some(model) = self.0.embedding.model() {
                if backlog.model != model.name() {
                    backlog = Backlog { model: model.name().to_owned(), refused: HashSet::new() };
                }
                match self.embed_batch(&mut backlog).await {
                    Ok(Batch::Whole) => {}
                    Ok(Batch::Last) => break,
                    Ok(Batch::Failed) => tokio::time::sleep(PAUSE).await,
                    Err(error) => {
                        tracing::warn!(%error, "memories could not be embedded; it is tried again later");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
            self.0.unembedded.notified().await;
        }
    }

    async fn embed_batch(&self, Backlog { model, refused }: &mut Backlog) -> Result<Batch, StoreError> {
        let mut memories = self.0.store.unembedded_memories(model, BATCH + refused.len()).await?;
        memories
            .retain(|(owner, memory)| !refused.contains(&(owner.clone(), memory.id.clone(), memory.version)));
        let Some((owner, _)) = memories.first().cloned() else { return Ok(Batch::Last) };
        let all = memories.len();
        // Each request takes a slot of one owner.
        memories.retain(|(other, _)| *other == owner);
        memories.truncate(BATCH);
        let is_last = memories.len() == all && all < BATCH;
        let asker = Asker::Background(&owner);
        match self.put_vectors_of(&memories, asker).await? {
            Ok(()) => {}
            Err(NoVectors::NotAsked | NoVectors::Unavailable) => return Ok(Batch::Failed),
            Err(NoVectors::Refused) => {
                // One text may spoil it for all. If the model takes none of them by itself, it may not be about the texts.
                let mut refused_now = Vec::new();
                let mut is_any_embedded = false;
                for memory in &memories {
                    match self.put_vectors_of(std::slice::from_ref(memory), asker).await? {
                        Ok(()) => is_any_embedded = true,
                        Err(NoVectors::Refused) => refused_now.push(memory),
                        Err(NoVectors::NotAsked | NoVectors::Unavailable) => return Ok(Batch::Failed),
                    }
                }
                if !is_any_embedded {
                    return Ok(Batch::Failed);
                }
                for (owner, memory) in refused_now {
                    tracing::warn!(memory = %memory.id.0, "the embedding model refuses a memory, which is found by its words only");
                    refused.insert((owner.clone(), memory.id.clone(), memory.version));
                }
            }
        }
        Ok(if is_last { Batch::Last } else { Batch::Whole })
    }

    /// Embeds these memories and saves their vectors.
    async fn put_vectors_of(
        &self,
        memories: &[(Owner, Memory)],
        asker: Asker<'_>,
    ) -> Result<Result<(), NoVectors>, StoreError> {
        let texts: Vec<&str> = memories.iter().map(|(_, memory)| memory.text.as_str()).collect();
        let (model, vectors) = match self.0.embedding.vectors(&texts, asker).await {
            Ok(embedded) => embedded,
            Err(no_vectors) => return Ok(Err(no_vectors)),
        };
        let vectors = memories.iter().zip(vectors).map(|((owner, memory), vector)| MemoryVector {
            owner: owner.clone(),
            id: memory.id.clone(),
            version: memory.version,
            vector,
        });
        self.0.store.put_vectors(&model, vectors.collect()).await?;
        Ok(Ok(()))
    }

    /// Embeds a memory that has just changed, so that it is found by its meaning at once. If that takes too long, it is done later.
    pub(super) async fn embed(&self, owner: &Owner, memory: Option<&Memory>) {
        let Some(memory) = memory else { return };
        if memory.slot.is_some() || self.0.embedding.model().is_none() {
            return;
        }
        match self.put_vectors_of(&[(owner.clone(), memory.clone())], Asker::Owner(owner)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => self.note_unembedded(),
            Err(error) => {
                tracing::warn!(%error, "the vector of a memory could not be saved; it is made again later");
                self.note_unembedded();
            }
        }
    }
}

// === impl NoVectors ===

impl From<&ModelError> for NoVectors {
    fn from(error: &ModelError) -> Self {
        match error {
            ModelError::TooLong(_)
            | ModelError::Refused(_)
            | ModelError::Provider(_)
            | ModelError::NoAnswer(_)
            | ModelError::Format(_) => Self::Refused,
            ModelError::Auth(_)
            | ModelError::RateLimit(_)
            | ModelError::UnknownModel(_)
            | ModelError::Unreachable(_)
            | ModelError::Network(_)
            | ModelError::Timeout => Self::Unavailable,
        }
    }
}

/// Returns whether these are vectors of so many texts.
fn is_whole(vectors: &[Vec<f32>], texts: usize) -> bool {
    let length = vectors.first().map_or(0, Vec::len);
    vectors.len() == texts
        && length > 0
        && vectors.iter().all(|vector| vector.len() == length && vector.iter().all(|x| x.is_finite()))
}
