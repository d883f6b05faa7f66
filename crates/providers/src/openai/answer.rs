//! One answer: from the chunks of the stream to the engine's events.
//!
//! Invariants: [`ModelEvent::Finished`] comes exactly once and last, or not at all and an error instead; an empty delta is
//! never passed on, and no half of a character; [`ModelEvent::Alive`] comes at most once a second.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_openai::types::stream::StreamResponse;
use fermata_engine::model::{ModelEvent, Usage};
use fermata_protocol::FinishReason;
use futures::stream::{self, StreamExt};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    calls::Calls,
    chunk::{Choice, Chunk, Delta},
    dialect::ReasoningField,
    failure::Failure,
    framing::LONGEST_EVENT,
    surrogate_halves::{SurrogateHalves, without_halves},
};

/// How long usage and `[DONE]` are waited for once the reason to finish is known: some servers send neither and keep the
/// connection open.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How far apart signs of life are at least: more would be work for nobody.
const SIGNS_OF_LIFE: Duration = Duration::from_secs(1);

/// An answer that is being read. Dropping it closes the connection.
pub(super) struct Answer {
    chunks: StreamResponse<Chunk>,
    ready: VecDeque<ModelEvent>,
    text: SurrogateHalves,
    reasoning: SurrogateHalves,
    calls: Calls,
    sources: HashSet<String>,
    usage: Option<Usage>,
    reason: Option<FinishReason>,
    reasoning_field: Arc<Mutex<ReasoningField>>,
    noted_field: Option<ReasoningField>,
    /// When the provider last said something that matters.
    heard: Instant,
    last_sign: Option<Instant>,
    is_over: bool,
}

/// What the stream gave.
#[expect(clippy::large_enum_variant, reason = "nearly every one is a chunk, and none is kept")]
enum Arrival {
    Chunk(Chunk),
    /// `[DONE]`.
    Done,
    /// The stream ended without it.
    BrokenOff,
    Failed(Failure),
    /// Nothing more came after the reason to finish.
    Silence,
}

// === impl Answer ===

impl Answer {
    pub(super) fn new(chunks: StreamResponse<Chunk>, reasoning_field: Arc<Mutex<ReasoningField>>) -> Self {
        Self {
            chunks,
            ready: VecDeque::new(),
            text: SurrogateHalves::default(),
            reasoning: SurrogateHalves::default(),
            calls: Calls::default(),
            sources: HashSet::new(),
            usage: None,
            reason: None,
            reasoning_field,
            noted_field: None,
            heard: Instant::now(),
            last_sign: None,
            is_over: false,
        }
    }

    /// The next event; none after the last.
    pub(super) async fn next(&mut self) -> Option<Result<ModelEvent, Failure>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.is_over {
                return None;
            }
            let arrival = self.arrival().await;
            if let Err(failure) = self.take(arrival) {
                self.close();
                return Some(Err(failure));
            }
            if !self.ready.is_empty() {
                self.heard = Instant::now();
            } else if self.is_sign_due() {
                return Some(Ok(ModelEvent::Alive));
            }
        }
    }

    /// Whether what came is to be told as a sign of life, as it said nothing else.
    fn is_sign_due(&mut self) -> bool {
        let is_due = !self.is_over
            && self.reason.is_none()
            && self.last_sign.is_none_or(|last| last.elapsed() >= SIGNS_OF_LIFE);
        if is_due {
            self.last_sign = Some(Instant::now());
        }
        is_due
    }

    async fn arrival(&mut self) -> Arrival {
        let next = if self.reason.is_some() {
            match tokio::time::timeout_at(self.heard + LAST_WORDS, self.chunks.next()).await {
                Ok(next) => next,
                Err(_) => return Arrival::Silence,
            }
        } else {
            self.chunks.next().await
        };
        match next {
            // Also where the task that reads the stream has died.
            None => Arrival::BrokenOff,
            Some(Ok(chunk)) if chunk.fermata_done => Arrival::Done,
            Some(Ok(chunk)) if chunk.fermata_too_long => {
                Arrival::Failed(Failure::format(format!("one event has more than {LONGEST_EVENT} bytes")))
            }
            Some(Ok(chunk)) => Arrival::Chunk(chunk),
            Some(Err(error)) => Arrival::Failed(error.into()),
        }
    }

    fn take(&mut self, arrival: Arrival) -> Result<(), Failure> {
        match arrival {
            Arrival::Chunk(chunk) => self.take_chunk(chunk)?,
            Arrival::Done | Arrival::Silence => self.finish()?,
            // All that mattered had come.
            Arrival::BrokenOff | Arrival::Failed(_) if self.reason.is_some() => self.finish()?,
            Arrival::BrokenOff => return Err(Failure::network("the answer broke off")),
            Arrival::Failed(failure) => return Err(failure),
        }
        Ok(())
    }

    fn take_chunk(&mut self, chunk: Chunk) -> Result<(), Failure> {
        if let Some(error) = chunk.error() {
            return Err(Failure::from_object(&error));
        }
        self.usage = chunk.usage().or(self.usage);
        match chunk.choices.into_iter().next() {
            Some(choice) => self.take_choice(choice),
            None => Ok(()),
        }
    }

    fn take_choice(&mut self, choice: Choice) -> Result<(), Failure> {
        if let Some(delta) = choice.delta.or(choice.message) {
            self.take_delta(delta)?;
        }
        match choice.finish_reason.0.as_str() {
            "" => {}
            // OpenRouter's and Mistral's word for an answer that broke off on their side.
            "error" => return Err(Failure::provider("the answer ended with finish_reason \"error\"")),
            reason => {
                self.reason = Some(finish_reason(reason));
                self.heard = Instant::now();
            }
        }
        Ok(())
    }

    fn take_delta(&mut self, delta: Delta) -> Result<(), Failure> {
        for (reasoning, field) in [
            (delta.reasoning_content.0, ReasoningField::ReasoningContent),
            (delta.reasoning.0, ReasoningField::Reasoning),
            (delta.content.thinking, ReasoningField::Nowhere),
        ] {
            // A server that fills two fields says the same in both: the one that it filled first counts.
            if !reasoning.is_empty() && self.noted_field.is_none_or(|noted| noted == field) {
                self.note_field(field);
                self.say_reasoning(reasoning);
            }
        }
        for text in [delta.content.text, delta.refusal.0] {
            if !text.is_empty() {
                self.say_text(text);
            }
        }
        self.take_images(delta.images);
        self.take_sources(delta.annotations);
        if !delta.tool_calls.is_empty() {
            self.end_reasoning();
            self.end_text();
            self.calls.decode(delta.tool_calls, &mut self.ready)?;
        }
        Ok(())
    }

    fn say_text(&mut self, piece: String) {
        self.end_reasoning();
        let text = self.text.join(piece);
        self.ready.extend(Some(text).filter(|text| !text.is_empty()).map(ModelEvent::Text));
    }

    fn say_reasoning(&mut self, piece: String) {
        self.end_text();
        let text = self.reasoning.join(piece);
        self.ready.extend(Some(text).filter(|text| !text.is_empty()).map(ModelEvent::Reasoning));
    }

    fn end_text(&mut self) {
        self.ready.extend(self.text.flush().map(ModelEvent::Text));
    }

    fn end_reasoning(&mut self) {
        self.ready.extend(self.reasoning.flush().map(ModelEvent::Reasoning));
    }

    fn note_field(&mut self, field: ReasoningField) {
        if self.noted_field.replace(field).is_none() {
            *self.reasoning_field.lock().unwrap_or_else(PoisonError::into_inner) = field;
        }
    }

    /// Images that OpenRouter's image models draw.
    fn take_images(&mut self, images: Option<Value>) {
        for image in images.iter().filter_map(Value::as_array).flatten() {
            let url = image.pointer("/image_url/url").and_then(Value::as_str).unwrap_or_default();
            let Some((media_type, _)) =
                url.strip_prefix("data:").and_then(|rest| rest.split_once([';', ',']))
            else {
                continue;
            };
            self.ready.push_back(ModelEvent::File { media_type: media_type.to_owned(), url: url.to_owned() });
        }
    }

    /// Web sources, as search models annotate them; some repeat the list in every chunk.
    fn take_sources(&mut self, annotations: Option<Value>) {
        for citation in annotations.iter().filter_map(Value::as_array).flatten() {
            let Some(citation) = citation.get("url_citation") else {
                continue;
            };
            let url = citation.get("url").and_then(Value::as_str).unwrap_or_default();
            let is_web = url.starts_with("https://") || url.starts_with("http://");
            if is_web && self.sources.insert(url.to_owned()) {
                let title = citation.get("title").and_then(Value::as_str).filter(|title| !title.is_empty());
                self.ready.push_back(ModelEvent::Source {
                    url: without_halves(url.to_owned()),
                    title: title.map(|title| without_halves(title.to_owned())),
                });
            }
        }
    }

    fn finish(&mut self) -> Result<(), Failure> {
        if self.calls.has_nameless() {
            return Err(Failure::format("a call came without the name of its tool"));
        }
        self.end_reasoning();
        self.end_text();
        self.calls.flush(&mut self.ready);
        let unsaid = if self.calls.is_empty() { FinishReason::Other } else { FinishReason::ToolCalls };
        let reason = self.reason.take().unwrap_or(unsaid);
        self.ready.push_back(ModelEvent::Finished { reason, usage: self.usage });
        self.close();
        Ok(())
    }

    /// Lets go of the connection, also where the answer itself is still held.
    fn close(&mut self) {
        self.is_over = true;
        self.chunks = stream::empty().boxed();
    }
}

fn finish_reason(reason: &str) -> FinishReason {
    match reason {
        "stop" => FinishReason::Stop,
        "length" | "model_length" => FinishReason::Length,
        "content_filter" => FinishReason::ContentFilter,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        _ => FinishReason::Other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(chunks: Vec<Value>, then_silence: bool) -> Answer {
        let chunks = stream::iter(chunks).map(|chunk| Ok(serde_json::from_value(chunk).unwrap()));
        let chunks: StreamResponse<Chunk> =
            if then_silence { chunks.chain(stream::pending()).boxed() } else { chunks.boxed() };
        Answer::new(chunks, Arc::new(Mutex::new(ReasoningField::ReasoningContent)))
    }

    /// What a complete answer of these chunks says.
    async fn events(mut chunks: Vec<Value>) -> Vec<ModelEvent> {
        chunks.push(json!({"fermata_done": true}));
        let mut answer = answer(chunks, false);
        let mut events = Vec::new();
        while let Some(event) = answer.next().await {
            events.push(event.unwrap());
        }
        events.retain(|event| *event != ModelEvent::Alive);
        events
    }

    fn delta(delta: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    }

    fn finished(reason: FinishReason) -> ModelEvent {
        ModelEvent::Finished { reason, usage: None }
    }

    #[tokio::test]
    async fn reasoning_in_two_fields_is_told_once() {
        let chunks = vec![
            delta(json!({"reasoning": "a", "reasoning_content": "a"})),
            delta(json!({"reasoning": "a"})),
        ];
        let expected = vec![ModelEvent::Reasoning("a".into()), finished(FinishReason::Other)];
        assert_eq!(events(chunks).await, expected);
    }

    #[tokio::test]
    async fn the_field_in_which_reasoning_came_is_noted() {
        let mut answer = answer(vec![delta(json!({"reasoning": "a"}))], false);
        answer.next().await.unwrap().unwrap();
        assert_eq!(*answer.reasoning_field.lock().unwrap(), ReasoningField::Reasoning);
    }

    #[tokio::test]
    async fn a_refusal_is_text() {
        let chunks = vec![delta(json!({"content": null, "refusal": "I can't."}))];
        assert_eq!(events(chunks).await[0], ModelEvent::Text("I can't.".into()));
    }

    #[tokio::test]
    async fn a_server_that_falls_silent_after_its_finish_reason_does_not_hold_the_step() {
        tokio::time::pause();
        let mut answer = answer(vec![json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})], true);
        assert_eq!(answer.next().await.unwrap().unwrap(), finished(FinishReason::Stop));
        assert!(answer.next().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_that_ends_without_saying_so_is_broken_off() {
        let mut answer = answer(vec![delta(json!({"content": "a"}))], false);
        assert_eq!(answer.next().await.unwrap().unwrap(), ModelEvent::Text("a".into()));
        let failure = answer.next().await.unwrap().unwrap_err();
        assert!(matches!(failure.into_error(&[]), fermata_engine::model::ModelError::Network(_)));
        assert!(answer.next().await.is_none());
    }

    /// The chunks, and then for ever one every 300 ms that says nothing.
    fn humming(chunks: Vec<Value>) -> Answer {
        let hum = stream::repeat_with(|| json!({})).then(async |chunk| {
            tokio::time::sleep(Duration::from_millis(300)).await;
            chunk
        });
        let chunks = stream::iter(chunks).chain(hum);
        let chunks = chunks.map(|chunk| Ok(serde_json::from_value(chunk).unwrap()));
        Answer::new(chunks.boxed(), Arc::new(Mutex::new(ReasoningField::ReasoningContent)))
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_come_at_most_once_a_second() {
        let mut answer = humming(vec![]);
        let began = Instant::now();
        for expected in [300, 1500, 2700] {
            assert_eq!(answer.next().await.unwrap().unwrap(), ModelEvent::Alive);
            assert_eq!(began.elapsed().as_millis() / 100, expected / 100);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_after_the_finish_reason_do_not_hold_the_step() {
        let mut answer = humming(vec![json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})]);
        assert_eq!(answer.next().await.unwrap().unwrap(), finished(FinishReason::Stop));
    }

    #[tokio::test]
    async fn without_a_finish_reason_calls_give_one() {
        let call =
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]});
        assert_eq!(events(vec![delta(call)]).await.last(), Some(&finished(FinishReason::ToolCalls)));
        assert_eq!(
            events(vec![delta(json!({"content": "x"}))]).await.last(),
            Some(&finished(FinishReason::Other))
        );
    }

    #[tokio::test]
    async fn every_finish_reason_is_understood_or_other() {
        for (word, reason) in [
            ("stop", FinishReason::Stop),
            ("length", FinishReason::Length),
            ("model_length", FinishReason::Length),
            ("content_filter", FinishReason::ContentFilter),
            ("tool_calls", FinishReason::ToolCalls),
            ("function_call", FinishReason::ToolCalls),
            ("STOP_BECAUSE", FinishReason::Other),
        ] {
            let chunks = vec![json!({"choices": [{"delta": {}, "finish_reason": word}]})];
            assert_eq!(events(chunks).await, [finished(reason)], "{word}");
        }
    }

    #[tokio::test]
    async fn images_and_web_sources_come_through() {
        let source = json!({"type": "url_citation", "url_citation": {"url": "https://a.b/", "title": "A"}});
        let chunks = vec![
            delta(
                json!({"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}),
            ),
            delta(json!({"annotations": [source]})),
            delta(json!({"annotations": [source, {"url_citation": {"url": "javascript:x"}}]})),
        ];
        let expected = vec![
            ModelEvent::File { media_type: "image/png".into(), url: "data:image/png;base64,AA==".into() },
            ModelEvent::Source { url: "https://a.b/".into(), title: Some("A".into()) },
            finished(FinishReason::Other),
        ];
        assert_eq!(events(chunks).await, expected);
    }

    #[tokio::test]
    async fn an_answer_that_calls_itself_an_error_is_one() {
        let mut answer = answer(vec![json!({"choices": [{"delta": {}, "finish_reason": "error"}]})], false);
        assert!(answer.next().await.unwrap().is_err());
        assert!(answer.next().await.is_none());
    }
}
