//! Calls of the embedding model, which are bounded in number, size and time. Nobody fails because of one: texts are compared by their
//! words instead.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tracing::Instrument;

use crate::{Embedder, model::ModelError, model_metrics::record_duration};

/// The time after which somebody who waits for vectors goes on without them.
pub(crate) const WAIT: Duration = Duration::from_secs(5);
/// The number of calls that are under way at a time. Others wait for their turn, within their time.
const MAX_CALLS: usize = 8;
/// The length of a text at most, in bytes. What is behind it is not compared.
const TEXT_BYTES: usize = 8_000;

/// The embedding model, if there is one.
pub(crate) struct Embedding {
    model: RwLock<Option<Arc<dyn Embedder>>>,
    calls: Semaphore,
    /// `true` if the newest call has failed, which was logged then.
    has_failed: AtomicBool,
}

// === impl Embedding ===

impl Embedding {
    pub fn new(model: Option<Arc<dyn Embedder>>) -> Self {
        Self {
            model: RwLock::new(model),
            calls: Semaphore::new(MAX_CALLS),
            has_failed: AtomicBool::new(false),
        }
    }

    pub fn set_model(&self, model: Option<Arc<dyn Embedder>>) {
        *self.model.write().unwrap_or_else(PoisonError::into_inner) = model;
    }

    pub fn model(&self) -> Option<Arc<dyn Embedder>> {
        self.model.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the name of the model and the vector of each text; `None` if there is no model, or if it gives no answer in time.
    pub async fn vectors(&self, texts: &[&str], within: Duration) -> Option<(String, Vec<Vec<f32>>)> {
        let model = self.model()?;
        let name = model.name().to_owned();
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
        record_duration("embeddings", &name, asked_at.elapsed());
        let outcome = if answer.is_ok() { "done" } else { "failed" };
        metrics::counter!("fermata_embeddings_total", "outcome" => outcome).increment(1);
        match answer {
            Ok(vectors) => {
                if self.has_failed.swap(false, Ordering::Relaxed) {
                    tracing::info!(model = %name, "the embedding model answers again");
                }
                Some((name, vectors))
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
                None
            }
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
