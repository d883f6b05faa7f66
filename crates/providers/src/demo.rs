//! The model that answers if no key is set: it plays scenes from a file, which show what Fermata does.
//!
//! It looks only at the request (the last user message and what came after it), keeps nothing and is deterministic. It never
//! pretends to be a language model.

mod language;
mod reply;
mod sample;
mod scenes;
mod summary;
mod template;

use std::{
    num::NonZeroU32,
    sync::{Arc, LazyLock},
};

use async_trait::async_trait;
use fermata_engine::{
    Model,
    model::{ModelError, ModelEvent, ModelRequest},
    summary::is_summary_request,
};
use fermata_protocol::FinishReason;
use futures::stream::{self, BoxStream, StreamExt};
use language::is_han;
use scenes::Scenes;

/// The number of words in a delta.
const WORDS: usize = 3;

/// The demo model.
#[derive(Clone, Debug)]
pub struct Demo {
    /// `None` for the built-in scenes.
    scenes: Option<Arc<Scenes>>,
}

/// The reason why a file of scenes cannot be used: one line that names the file, the line and the fault there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SceneError(pub String);

// === impl Demo ===

impl Demo {
    /// The name of the demo model.
    pub const NAME: &str = "demo";
    /// The number of tokens that it is said to take. It is small, so that people see what happens when a window fills up.
    pub const CONTEXT: NonZeroU32 = NonZeroU32::new(8_000).expect("not zero");

    /// Returns the demo model with its built-in scenes.
    #[must_use]
    pub fn new() -> Self {
        Self { scenes: None }
    }

    /// Returns the demo model with scenes from a TOML text, before the built-in ones unless the text leaves these out. `file` is the
    /// name of the text in errors.
    ///
    /// # Errors
    /// Returns an error if the text is no valid TOML, or if a scene in it cannot be played.
    pub fn with_scenes(file: &str, text: &str) -> Result<Self, SceneError> {
        Ok(Self { scenes: Some(Arc::new(Scenes::read(file, text).map_err(SceneError)?)) })
    }

    /// Returns the scenes. The built-in ones are read when the model is asked for the first time, because to compile their patterns takes longer
    /// than all else that a server does to start.
    fn scenes(&self) -> &Scenes {
        static BUILTIN: LazyLock<Scenes> =
            LazyLock::new(|| Scenes::builtin().expect("a test checks the built-in scenes"));
        self.scenes.as_deref().unwrap_or_else(|| &BUILTIN)
    }
}

impl Default for Demo {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Model for Demo {
    fn name(&self) -> &str {
        Self::NAME
    }

    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        if is_summary_request(&request) {
            let finished = ModelEvent::Finished { reason: FinishReason::Stop, usage: None };
            let events = [ModelEvent::Text(summary::summary(&request)), finished];
            return Ok(stream::iter(events.map(Ok)).boxed());
        }
        let events: Vec<_> = reply::reply(&request, self.scenes())
            .into_iter()
            .flat_map(|event| match event {
                Ok(ModelEvent::Text(text)) => {
                    pieces(&text).into_iter().map(ModelEvent::Text).map(Ok).collect()
                }
                Ok(ModelEvent::Reasoning(text)) => {
                    pieces(&text).into_iter().map(ModelEvent::Reasoning).map(Ok).collect()
                }
                whole => vec![whole],
            })
            .collect();
        let pace = self.scenes().pace();
        let paced = stream::iter(events.into_iter().enumerate()).then(move |(place, event)| async move {
            if place > 0 && !pace.is_zero() {
                tokio::time::sleep(pace).await;
            }
            event
        });
        Ok(paced.boxed())
    }
}

/// Cuts a text into pieces of a few words. A word ends at a space; a Chinese character is one.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut words = 0;
    for letter in text.chars() {
        if words == WORDS {
            words = 0;
            pieces.push(String::new());
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(letter);
        }
        words += usize::from(letter == ' ' || is_han(letter));
    }
    pieces
}

#[cfg(test)]
mod tests;
