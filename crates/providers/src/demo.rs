//! The model that answers where no key is set: a script that shows what Fermata does.
//!
//! It looks only at the request (the last user message and what came after it), keeps nothing and is deterministic. It never
//! pretends to be a language model.

mod language;
mod reply;
mod sample;
mod tell;
mod wish;
mod words;

use std::time::Duration;

use async_trait::async_trait;
use fermata_engine::{
    Model,
    model::{ModelError, ModelEvent, ModelRequest},
};
use futures::stream::{self, BoxStream, StreamExt};
use language::is_han;

/// Between two deltas, so that one can see it stream.
const PAUSE: Duration = Duration::from_millis(4);
/// The same in an answer of many deltas, so that there is time to press stop.
const LONG_PAUSE: Duration = Duration::from_millis(30);
/// How many deltas are many.
const MANY: usize = 100;
/// How many words a delta has.
const WORDS: usize = 3;

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
        let events: Vec<_> = reply::reply(&request).into_iter().flat_map(cut).collect();
        let pause = if events.len() < MANY { PAUSE } else { LONG_PAUSE };
        let paced = stream::iter(events.into_iter().enumerate()).then(move |(place, event)| async move {
            if place > 0 {
                tokio::time::sleep(pause).await;
            }
            Ok(event)
        });
        Ok(paced.boxed())
    }
}

/// Cuts text into a few words each.
fn cut(event: ModelEvent) -> Vec<ModelEvent> {
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

/// The text in pieces. A word ends at a space; a Chinese character is one.
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
mod tests {
    use fermata_engine::model::{ModelContent, ModelMessage};
    use fermata_protocol::FinishReason;

    use super::*;

    fn says(words: &str) -> ModelRequest {
        ModelRequest {
            messages: vec![ModelMessage::User(vec![ModelContent::Text(words.into())])],
            ..ModelRequest::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_streams_in_several_deltas_and_finishes_last() {
        let request = says("hi");
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

    #[test]
    fn pieces_are_a_few_words_in_either_language_and_lose_nothing() {
        assert_eq!(pieces("one two three four"), ["one two three ", "four"]);
        assert_eq!(pieces("暂停和结束，分得清。"), ["暂停和", "结束，分", "得清。"]);
        assert_eq!(pieces(""), [""]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_story_takes_long_enough_to_be_stopped() {
        for words in ["tell me a long story", "讲一个长故事"] {
            let begun = tokio::time::Instant::now();
            let events = Demo::new().stream(says(words)).await.unwrap().count().await;
            assert!(events > MANY && begun.elapsed() > Duration::from_secs(3), "{words}");
        }
    }
}
