//! The model that answers where no key is set: a script that shows what Fermata does.
//!
//! It looks only at the request (the last user message and what came after it), keeps nothing and is deterministic. It never
//! pretends to be a language model.

mod reply;
mod sample;
mod wish;

use std::time::Duration;

use async_trait::async_trait;
use fermata_engine::{
    Model,
    model::{ModelError, ModelEvent, ModelRequest},
};
use futures::stream::{self, BoxStream, StreamExt};

/// Between two deltas, so that one can see it stream.
const PAUSE: Duration = Duration::from_millis(4);

/// The demo model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demo;

// === impl Demo ===

impl Demo {
    /// The demo model.
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Model for Demo {
    fn name(&self) -> &str {
        "demo"
    }

    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        let events = reply::reply(&request).into_iter().flat_map(cut).enumerate();
        let paced = stream::iter(events).then(async |(place, event)| {
            if place > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            Ok(event)
        });
        Ok(paced.boxed())
    }
}

/// Cuts text into a few words each.
fn cut(event: ModelEvent) -> Vec<ModelEvent> {
    let pieces = |text: &str| -> Vec<String> {
        let words: Vec<&str> = text.split_inclusive(' ').collect();
        words.chunks(3).map(|words| words.concat()).collect()
    };
    match event {
        ModelEvent::Text(text) => pieces(&text).into_iter().map(ModelEvent::Text).collect(),
        ModelEvent::Reasoning(text) => pieces(&text).into_iter().map(ModelEvent::Reasoning).collect(),
        whole @ (ModelEvent::Alive
        | ModelEvent::CallStart { .. }
        | ModelEvent::CallDelta { .. }
        | ModelEvent::File { .. }
        | ModelEvent::Source { .. }
        | ModelEvent::Finished { .. }) => vec![whole],
    }
}

#[cfg(test)]
mod tests {
    use fermata_engine::model::{ModelContent, ModelMessage};
    use fermata_protocol::FinishReason;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_answer_streams_in_several_deltas_and_finishes_last() {
        let request = ModelRequest {
            messages: vec![ModelMessage::User(vec![ModelContent::Text("hi".into())])],
            ..ModelRequest::default()
        };
        let whole = match &reply::reply(&request)[0] {
            ModelEvent::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        let events: Vec<_> = Demo::new().stream(request).await.unwrap().map(Result::unwrap).collect().await;
        let (last, deltas) = events.split_last().unwrap();
        assert_eq!(*last, ModelEvent::Finished { reason: FinishReason::Stop, usage: None });
        assert!(deltas.len() > 5);
        let joined: String = deltas
            .iter()
            .map(|event| match event {
                ModelEvent::Text(text) => text.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(joined, whole);
    }
}
