//! Turns the chunks of one answer into the engine's events.
//!
//! There is no I/O and no clock in here, so an answer is a list of chunks and its events are a function of them.
//!
//! Invariants: [`ModelEvent::Finished`] comes once and last; an empty delta is never passed on, and no half of a character.

use std::collections::{HashSet, VecDeque};

use fermata_engine::model::{Citation, ModelEvent, Usage};
use fermata_protocol::FinishReason;
use serde_json::Value;

use super::{
    calls::Calls,
    chunk::{CallPiece, Chunk, Delta},
    dialect::{LastReasoningField, ReasoningField},
    failure::Failure,
    provider_metadata::{
        Attached, EXTRA_CONTENT, PROVIDER_SPECIFIC_FIELDS, REASONING_DETAILS, THINKING_BLOCKS,
    },
    shape::TextField,
    surrogate_halves::{SurrogateHalves, without_halves},
    think_tags::{Divided, ThinkTags},
};

/// The limit on the bytes of a delta that is made of several. A person reads it as one, and the page draws it at once.
pub(super) const LONGEST_DELTA: usize = 4096;

/// The limit on the citations of an answer. Each is compared with all of them.
const MAX_CITATIONS: usize = 1_000;

/// The greatest number that JavaScript counts up to.
const SAFE: u64 = (1 << 53) - 1;

/// Decodes one answer.
pub(super) struct Decoder {
    /// The events that were decoded and not yet passed on. One chunk may hold several.
    pub(super) events: Events,
    text: SurrogateHalves,
    tags: ThinkTags,
    reasoning: SurrogateHalves,
    calls: Calls,
    attached: Attached,
    /// The URLs of the sources that were passed on.
    sources: HashSet<String>,
    /// The citations, which are passed on when the text has ended, because some come before it.
    citations: Vec<Citation>,
    usage: Option<Usage>,
    /// The field of the reasoning in this answer.
    reasoning_field: Option<ReasoningField>,
    last_reasoning_field: LastReasoningField,
}

/// Events that were decoded and are not handed out yet. A delta is a part of the last of them, if that is a delta of the same thing.
#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<ModelEvent>);

// === impl Decoder ===

impl Decoder {
    pub(super) fn new(last_reasoning_field: LastReasoningField) -> Self {
        Self {
            events: Events::default(),
            text: SurrogateHalves::default(),
            tags: ThinkTags::default(),
            reasoning: SurrogateHalves::default(),
            calls: Calls::default(),
            attached: Attached::default(),
            sources: HashSet::new(),
            citations: Vec::new(),
            usage: None,
            reasoning_field: None,
            last_reasoning_field,
        }
    }

    /// Decodes a chunk, and returns the reason to finish if the chunk gives one.
    ///
    /// # Errors
    /// Returns an error if the chunk reports that the provider failed, or if it is part of an answer that nobody could use.
    pub(super) fn decode(&mut self, chunk: Chunk) -> Result<Option<FinishReason>, Failure> {
        if let Some(error) = chunk.error() {
            return Err(Failure::from_object(&error));
        }
        if let Some(usage) = chunk.usage() {
            self.usage = Some(usage);
        }
        if let Some(results) = chunk.search_results {
            self.push_sources(&results);
        }
        if let Some(urls) = chunk.citations {
            self.push_sources(&urls);
        }
        let Some(choice) = chunk.choice else {
            return Ok(None);
        };
        match (choice.delta, choice.message.map(|message| *message)) {
            (Some(mut delta), message) => {
                // Some servers send the whole message so far with each delta.
                delta.annotations = delta.annotations.or(message.and_then(|message| message.annotations));
                self.decode_delta(delta)?;
            }
            (None, Some(message)) => self.decode_delta(message)?,
            (None, None) => {}
        }
        Ok(match choice.finish_reason.0.as_str() {
            "" | "null" => None,
            // OpenRouter and Mistral say this when the answer broke off on their side.
            "error" => return Err(Failure::provider("the answer ended with finish_reason \"error\"")),
            "stop" => Some(FinishReason::Stop),
            "length" | "model_length" => Some(FinishReason::Length),
            "content_filter" => Some(FinishReason::ContentFilter),
            "tool_calls" | "function_call" => Some(FinishReason::ToolCalls),
            _ => Some(FinishReason::Other),
        })
    }

    /// Decodes a piece of text that is all that a chunk has.
    pub(super) fn decode_text(&mut self, field: TextField, piece: String) {
        match field {
            TextField::Content => self.push_text(piece),
            TextField::ReasoningContent => self.push_reasoning(piece, ReasoningField::ReasoningContent),
            TextField::Reasoning => self.push_reasoning(piece, ReasoningField::Reasoning),
        }
    }

    fn decode_delta(&mut self, delta: Delta) -> Result<(), Failure> {
        let details = delta.reasoning_details.as_deref().map(text_of_details).unwrap_or_default();
        let reasoning = if delta.reasoning.0.is_empty() { details } else { delta.reasoning.0 };
        for (reasoning, field) in [
            (delta.reasoning_content.0, ReasoningField::ReasoningContent),
            (reasoning, ReasoningField::Reasoning),
            (delta.content.thinking, ReasoningField::Nowhere),
        ] {
            if !reasoning.is_empty() {
                self.push_reasoning(reasoning, field);
            }
        }
        for (name, piece) in [
            (REASONING_DETAILS, delta.reasoning_details),
            (THINKING_BLOCKS, delta.thinking_blocks),
            (EXTRA_CONTENT, delta.extra_content),
            (PROVIDER_SPECIFIC_FIELDS, delta.provider_specific_fields),
        ] {
            self.attached.add(name, piece);
        }
        for piece in [delta.content.text, delta.refusal.0] {
            if !piece.is_empty() {
                self.push_text(piece);
            }
        }
        // OpenRouter's image models draw images.
        for image in delta.images.iter().filter_map(|images| images.as_array()).flatten() {
            let url = image.pointer("/image_url/url").and_then(Value::as_str).unwrap_or_default();
            let head = url.strip_prefix("data:").and_then(|rest| rest.split_once([';', ',']));
            if let Some((media_type, _)) = head {
                let (media_type, url) = (media_type.to_owned(), url.to_owned());
                self.events.push(ModelEvent::File { media_type, url });
            }
        }
        if let Some(annotations) = delta.annotations {
            self.push_annotations(&annotations);
        }
        let mut pieces = delta.tool_calls;
        // The form that calls had once. llama-cpp-python sends both.
        if pieces.is_empty() {
            let function = delta.function_call.map(|function| *function);
            pieces.extend(
                function.map(|function| CallPiece { function: Some(function), ..CallPiece::default() }),
            );
        }
        if !pieces.is_empty() {
            self.flush_reasoning();
            self.flush_text();
            self.flush_citations();
            self.calls.decode(pieces, &mut self.events)?;
        }
        Ok(())
    }

    fn push_text(&mut self, piece: String) {
        if self.tags.is_text() {
            return self.push_plain_text(piece);
        }
        let divided = self.tags.divide(&piece);
        self.push_divided(divided);
    }

    fn push_divided(&mut self, Divided { reasoning, text }: Divided) {
        if !reasoning.is_empty() {
            self.push_reasoning(reasoning, ReasoningField::Nowhere);
        }
        if !text.is_empty() {
            self.push_plain_text(text);
        }
    }

    fn push_plain_text(&mut self, piece: String) {
        self.flush_reasoning();
        let text = self.text.join(piece);
        self.events.push(ModelEvent::Text(text));
    }

    fn push_reasoning(&mut self, piece: String, field: ReasoningField) {
        match self.reasoning_field {
            Some(known) if known == field => {}
            // A server that fills two fields puts the same text in both. The field that it filled first counts.
            Some(_) => return,
            None => {
                self.reasoning_field = Some(field);
                self.last_reasoning_field.set(field);
            }
        }
        self.flush_text();
        let text = self.reasoning.join(piece);
        self.events.push(ModelEvent::Reasoning(text));
    }

    fn flush_text(&mut self) {
        self.events.extend(self.text.flush().map(ModelEvent::Text));
    }

    fn flush_citations(&mut self) {
        self.events.extend(self.citations.drain(..).map(|citation| ModelEvent::Citation(Box::new(citation))));
    }

    fn flush_reasoning(&mut self) {
        self.events.extend(self.reasoning.flush().map(ModelEvent::Reasoning));
    }

    /// Passes on the pages that search models cite. Some repeat the list in every chunk.
    fn push_annotations(&mut self, annotations: &Value) {
        for annotation in annotations.as_array().into_iter().flatten() {
            let cited = annotation.get("url_citation");
            // Some gateways write it as OpenAI's other API does.
            let cited = cited.or_else(|| {
                if annotation.get("type")?.as_str()? == "url_citation" { Some(annotation) } else { None }
            });
            let Some(cited) = cited else { continue };
            let Some((url, title)) = page(cited) else { continue };
            self.push_source(url.clone(), title.clone());
            let place = |name: &str| cited.get(name).and_then(Value::as_u64).filter(|place| *place <= SAFE);
            let passage = text_field(cited, "content");
            let citation =
                Citation { url, title, start: place("start_index"), end: place("end_index"), passage };
            if self.citations.len() < MAX_CITATIONS && !self.citations.contains(&citation) {
                self.citations.push(citation);
            }
        }
    }

    /// Passes on pages that the model has found, each an object or a URL alone.
    fn push_sources(&mut self, pages: &Value) {
        for (url, title) in pages.as_array().into_iter().flatten().filter_map(page) {
            self.push_source(url, title);
        }
    }

    fn push_source(&mut self, url: String, title: Option<String>) {
        if self.sources.insert(url.clone()) {
            self.events.push(ModelEvent::Source { url, title });
        }
    }

    /// Returns whether nothing of an answer has come since the last event was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.calls.is_empty() && self.usage.is_none()
    }

    /// Ends the answer.
    pub(super) fn finish(&mut self, reason: Option<FinishReason>) {
        let divided = self.tags.flush();
        self.push_divided(divided);
        self.flush_reasoning();
        self.flush_text();
        self.flush_citations();
        self.calls.flush(&self.attached, &mut self.events);
        let metadata = self.attached.keep();
        self.events.extend(metadata.map(|metadata| ModelEvent::ProviderMetadata { key: None, metadata }));
        let reason = reason.unwrap_or(if self.calls.is_empty() {
            FinishReason::Other
        } else {
            FinishReason::ToolCalls
        });
        self.events.push(ModelEvent::Finished { reason, usage: self.usage });
    }
}

/// Returns the URL and the title of a web page, which is an object or its URL alone.
fn page(page: &Value) -> Option<(String, Option<String>)> {
    let url = match page.as_str() {
        Some(url) => without_halves(url.to_owned()),
        None => text_field(page, "url")?,
    };
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    is_web.then(|| (url, text_field(page, "title")))
}

/// Returns a text of an object that is not empty.
fn text_field(object: &Value, name: &str) -> Option<String> {
    let text = object.get(name)?.as_str()?;
    if text.is_empty() { None } else { Some(without_halves(text.to_owned())) }
}

/// Returns the text in pieces of reasoning. Others of them are encrypted.
fn text_of_details(details: &Value) -> String {
    let texts = details.as_array().into_iter().flatten();
    texts.filter_map(|detail| detail.get("text").or_else(|| detail.get("summary"))?.as_str()).collect()
}

// === impl Events ===

impl Events {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next event.
    pub(super) fn pop(&mut self) -> Option<ModelEvent> {
        self.0.pop_front()
    }

    fn push(&mut self, event: ModelEvent) {
        let (last, delta) = match (self.0.back_mut(), &event) {
            (Some(ModelEvent::Text(last)), ModelEvent::Text(delta))
            | (Some(ModelEvent::Reasoning(last)), ModelEvent::Reasoning(delta)) => (last, delta),
            (
                Some(ModelEvent::CallDelta { key: last_key, arguments: last }),
                ModelEvent::CallDelta { key, arguments: delta },
            ) if last_key == key => (last, delta),
            _ => return self.begin(event),
        };
        if last.len() + delta.len() > LONGEST_DELTA {
            return self.begin(event);
        }
        last.push_str(delta);
    }

    fn begin(&mut self, event: ModelEvent) {
        let is_empty = match &event {
            ModelEvent::Text(delta)
            | ModelEvent::Reasoning(delta)
            | ModelEvent::CallDelta { arguments: delta, .. } => delta.is_empty(),
            _ => false,
        };
        if !is_empty {
            self.0.push_back(event);
        }
    }
}

impl Extend<ModelEvent> for Events {
    fn extend<T: IntoIterator<Item = ModelEvent>>(&mut self, events: T) {
        for event in events {
            self.push(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decoder() -> Decoder {
        Decoder::new(LastReasoningField::new(ReasoningField::Nowhere))
    }

    /// The events of a complete answer of these chunks.
    fn events(chunks: Vec<Value>) -> Vec<ModelEvent> {
        let mut decoder = decoder();
        let mut reason = None;
        for chunk in chunks {
            reason = decoder.decode(serde_json::from_value(chunk).unwrap()).unwrap().or(reason);
        }
        decoder.finish(reason);
        decoder.events.0.into()
    }

    fn delta(delta: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    }

    fn finished(reason: FinishReason) -> ModelEvent {
        ModelEvent::Finished { reason, usage: None }
    }

    #[test]
    fn reasoning_in_two_fields_is_passed_on_once() {
        let chunks = vec![
            delta(json!({"reasoning": "a", "reasoning_content": "a"})),
            delta(json!({"reasoning": "a"})),
        ];
        let expected = vec![ModelEvent::Reasoning("a".into()), finished(FinishReason::Other)];
        assert_eq!(events(chunks), expected);
    }

    #[test]
    fn the_field_in_which_reasoning_came_is_noted() {
        let mut decoder = decoder();
        decoder.decode(serde_json::from_value(delta(json!({"reasoning": "a"}))).unwrap()).unwrap();
        assert_eq!(decoder.last_reasoning_field.get(), ReasoningField::Reasoning);
    }

    #[test]
    fn a_refusal_is_text() {
        let chunks = vec![delta(json!({"content": null, "refusal": "I can't."}))];
        assert_eq!(events(chunks)[0], ModelEvent::Text("I can't.".into()));
    }

    #[test]
    fn without_a_finish_reason_calls_give_one() {
        let call =
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]});
        assert_eq!(events(vec![delta(call)]).last(), Some(&finished(FinishReason::ToolCalls)));
        assert_eq!(events(vec![delta(json!({"content": "x"}))]).last(), Some(&finished(FinishReason::Other)));
    }

    #[test]
    fn every_finish_reason_is_understood_or_other() {
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
            assert_eq!(events(chunks), [finished(reason)], "{word}");
        }
    }

    #[test]
    fn images_and_web_sources_come_through() {
        let source = json!({"type": "url_citation", "url_citation": {"url": "https://a.b/", "title": "A"}});
        let chunks = vec![
            delta(
                json!({"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}),
            ),
            delta(json!({"annotations": [source]})),
            delta(json!({"annotations": [source, {"url_citation": {"url": "javascript:x"}}]})),
            // As OpenAI's other API writes it.
            delta(json!({"annotations": [{
                "type": "url_citation", "url": "https://a.b/", "start_index": 1, "end_index": 3, "content": "c",
            }]})),
        ];
        let cited = |title: Option<&str>, place: Option<(u64, u64)>, passage: Option<&str>| {
            ModelEvent::Citation(Box::new(Citation {
                url: "https://a.b/".into(),
                title: title.map(Into::into),
                start: place.map(|(start, _)| start),
                end: place.map(|(_, end)| end),
                passage: passage.map(Into::into),
            }))
        };
        let expected = vec![
            ModelEvent::File { media_type: "image/png".into(), url: "data:image/png;base64,AA==".into() },
            ModelEvent::Source { url: "https://a.b/".into(), title: Some("A".into()) },
            cited(Some("A"), None, None),
            cited(None, Some((1, 3)), Some("c")),
            finished(FinishReason::Other),
        ];
        assert_eq!(events(chunks), expected);
    }

    #[test]
    fn sources_are_found_wherever_providers_put_them() {
        let source = |title: Option<&str>| ModelEvent::Source {
            url: "https://a.b/".into(),
            title: title.map(Into::into),
        };
        let annotation = json!({"type": "url_citation", "url_citation": {"url": "https://a.b/"}});
        let (text, url) = (delta(json!({"content": "a"})), json!(["https://a.b/", "ftp://x", 7, null]));
        let with = |mut chunk: Value, field: &str, value: Value| {
            chunk[field] = value;
            chunk
        };
        let results = json!([{"url": "https://a.b/", "title": "A", "date": "2026-01-01"}, {"title": "x"}]);
        let whole = json!({"choices": [{"message": {"content": "a", "annotations": [annotation]}}]});
        let mut both = text.clone();
        both["choices"][0]["message"] = json!({"content": "a", "annotations": [annotation]});
        for (chunks, expected) in [
            (vec![with(text.clone(), "citations", url.clone())], source(None)),
            (vec![with(with(text.clone(), "citations", url), "search_results", results)], source(Some("A"))),
            (vec![whole], source(None)),
            (vec![both], source(None)),
        ] {
            let events = events(chunks);
            let sources: Vec<_> =
                events.iter().filter(|event| matches!(event, ModelEvent::Source { .. })).collect();
            assert_eq!(sources, [&expected], "{events:?}");
        }
    }

    #[test]
    fn an_answer_that_calls_itself_an_error_is_one() {
        let chunk = json!({"choices": [{"delta": {}, "finish_reason": "error"}]});
        assert!(decoder().decode(serde_json::from_value(chunk).unwrap()).is_err());
    }
}
