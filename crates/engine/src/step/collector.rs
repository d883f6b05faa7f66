//! The events of a model's stream, collected into one step.
//!
//! Both loops use it: a chat's run shows every change at once, and a [`Runner`](crate::runner::Runner) returns the step when it is complete.
//! This module knows no tools, no chat and no stream, and does no I/O.
//!
//! Invariants: at most one text or reasoning part is open at a time, and it is closed before anything but a source begins; a step keeps no more
//! than its limits allow; a call of a step that was cut off never gets an input to run with.

mod collected_call;

use fermata_protocol::{FinishReason, JsonText};
use fermata_tools::{ErrorType, ToolError};

pub(crate) use self::collected_call::{CollectedCall, InvalidArguments};
use crate::model::{Citation, ModelContent, ModelError, ModelEvent, Usage};

/// Bytes that a call, a file or a source counts besides its text, because each costs memory even if it is empty.
const PART_BYTES: usize = 64;

/// The limits of one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepLimits {
    /// Calls that a model may make.
    pub calls: usize,
    /// Bytes of the arguments of one call.
    pub argument_bytes: usize,
    /// JSON values in the arguments of one call.
    pub argument_nodes: usize,
    /// Bytes of the model's output in the step.
    pub output_bytes: usize,
}

/// A step that is being collected. After [`StepChange::Completed`] it is empty again, and ready for the next step.
#[derive(Debug, Default)]
pub(crate) struct StepCollector {
    open_part: Option<PartKind>,
    /// The characters of text before the open part.
    text_before: u64,
    /// Bytes of the model's output in this step.
    output_bytes: usize,
    has_too_many_calls: bool,
    text: String,
    reasoning: String,
    calls: Vec<CollectedCall>,
    files: Vec<ModelContent>,
    sources: Vec<UrlSource>,
    provider_metadata: Option<JsonText>,
}

/// The two kinds of parts that grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    Text,
    Reasoning,
}

/// A change to the step. An event of the model makes several of them if it also closes a part.
#[derive(Debug, PartialEq)]
pub(crate) enum StepChange {
    PartStarted(PartKind),
    PartGrew(PartKind, String),
    PartEnded(PartKind),
    /// A call begins. Calls are counted from 0, in the order that they begin.
    CallStarted {
        tool: String,
    },
    ArgumentsGrew {
        /// The call's number in the step.
        call: usize,
        delta: String,
    },
    /// A call is left out of the step, because the step has too many.
    CallLeftOut,
    /// Arguments came for a call that never began.
    ArgumentsWithoutCall {
        key: usize,
    },
    File {
        media_type: String,
        url: String,
    },
    Source(UrlSource),
    /// The open text is based on a page. The places are those in this text.
    Citation(Citation),
    /// The model has ended its answer, or the provider has.
    Completed(CollectedStep),
}

/// The whole output of a model in one step.
#[derive(Debug, PartialEq)]
pub(crate) struct CollectedStep {
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<CollectedCall>,
    pub files: Vec<ModelContent>,
    pub sources: Vec<UrlSource>,
    pub provider_metadata: Option<JsonText>,
    pub usage: Option<Usage>,
    pub finish_reason: FinishReason,
}

/// A page that the model based its answer on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlSource {
    /// The URL.
    pub url: String,
    /// The page's title.
    pub title: Option<String>,
}

/// The model's output in one step exceeded its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputLimitExceeded {
    /// The limit.
    pub bytes: usize,
}

// === impl StepCollector ===

impl StepCollector {
    /// Returns whether the model has sent any text in the step.
    pub fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    /// Adds an event to the step, and returns the changes that it made, in their order.
    ///
    /// # Errors
    /// If the model's output exceeds the limit of the step. The step is incomplete then and cannot be used.
    pub fn on_event(
        &mut self,
        event: ModelEvent,
        limits: StepLimits,
    ) -> Result<Vec<StepChange>, OutputLimitExceeded> {
        self.output_bytes += output_bytes(&event);
        if self.output_bytes > limits.output_bytes {
            return Err(OutputLimitExceeded { bytes: limits.output_bytes });
        }
        let mut changes = Vec::new();
        match event {
            ModelEvent::Alive => {}
            ModelEvent::Text(delta) => self.grow_part(PartKind::Text, delta, &mut changes),
            ModelEvent::Reasoning(delta) => self.grow_part(PartKind::Reasoning, delta, &mut changes),
            ModelEvent::CallStart { key, tool } => {
                changes.extend(self.end_part().map(StepChange::PartEnded));
                changes.push(self.start_call(key, tool, limits));
            }
            ModelEvent::CallDelta { key, arguments } => {
                changes.extend(self.grow_arguments(key, arguments, limits));
            }
            ModelEvent::File { media_type, url } => {
                changes.extend(self.end_part().map(StepChange::PartEnded));
                self.files.push(ModelContent::File {
                    media_type: media_type.clone(),
                    url: url.clone(),
                    filename: None,
                });
                changes.push(StepChange::File { media_type, url });
            }
            ModelEvent::Source { url, title } => {
                // A text goes on, and ends with the citation of the source.
                let source = UrlSource { url, title };
                self.sources.push(source.clone());
                changes.push(StepChange::Source(source));
            }
            ModelEvent::Citation(citation) => {
                if self.open_part == Some(PartKind::Text) {
                    changes.push(StepChange::Citation(self.in_open_text(*citation)));
                }
            }
            ModelEvent::ProviderMetadata { key: None, metadata } => self.provider_metadata = Some(metadata),
            ModelEvent::ProviderMetadata { key: Some(key), metadata } => {
                if let Some(call) = self.calls.iter_mut().rfind(|call| call.key == key) {
                    call.provider_metadata = Some(metadata);
                }
            }
            ModelEvent::Finished { reason, usage } => {
                changes.extend(self.end_part().map(StepChange::PartEnded));
                let Self { text, reasoning, calls, files, sources, provider_metadata, .. } =
                    std::mem::take(self);
                changes.push(StepChange::Completed(CollectedStep {
                    text,
                    reasoning,
                    calls,
                    files,
                    sources,
                    provider_metadata,
                    usage,
                    finish_reason: reason,
                }));
            }
        }
        Ok(changes)
    }

    /// Returns the kind of the open part if these events continue it within the limit and do nothing else.
    pub fn continued_part(&self, events: &[ModelEvent], limits: StepLimits) -> Option<PartKind> {
        let open = self.open_part?;
        let mut bytes = self.output_bytes;
        for event in events {
            bytes += match (open, event) {
                (PartKind::Text, ModelEvent::Text(delta))
                | (PartKind::Reasoning, ModelEvent::Reasoning(delta)) => delta.len(),
                _ => return None,
            };
        }
        if bytes <= limits.output_bytes { Some(open) } else { None }
    }

    /// Adds a delta to the open part, after [`Self::continued_part`] has allowed it.
    pub fn continue_part(&mut self, kind: PartKind, delta: &str) {
        self.output_bytes += delta.len();
        match kind {
            PartKind::Text => self.text.push_str(delta),
            PartKind::Reasoning => self.reasoning.push_str(delta),
        }
    }

    /// Closes the part that is open, if one is, and returns its kind.
    pub fn end_part(&mut self) -> Option<PartKind> {
        self.open_part.take()
    }

    /// Abandons the step and returns its calls, which may be incomplete.
    pub fn into_calls(self) -> Vec<CollectedCall> {
        self.calls
    }

    fn grow_part(&mut self, kind: PartKind, delta: String, changes: &mut Vec<StepChange>) {
        if self.open_part != Some(kind) {
            changes.extend(self.end_part().map(StepChange::PartEnded));
            self.open_part = Some(kind);
            self.text_before = self.text.chars().count() as u64;
            changes.push(StepChange::PartStarted(kind));
        }
        match kind {
            PartKind::Text => self.text.push_str(&delta),
            PartKind::Reasoning => self.reasoning.push_str(&delta),
        }
        changes.push(StepChange::PartGrew(kind, delta));
    }

    /// Returns the citation with places in the open text. One whose places are not all in there has none.
    fn in_open_text(&self, citation: Citation) -> Citation {
        let place = |place: Option<u64>| place?.checked_sub(self.text_before);
        let (start, end) = match (place(citation.start), place(citation.end)) {
            (Some(start), Some(end)) if start <= end => (Some(start), Some(end)),
            _ => (None, None),
        };
        Citation { start, end, ..citation }
    }

    fn start_call(&mut self, key: usize, tool: String, limits: StepLimits) -> StepChange {
        if self.has_too_many_calls {
            return StepChange::CallLeftOut;
        }
        let limit = limits.calls;
        let mut error_text = None;
        if self.calls.len() >= limit {
            // The first call over the limit stays, so that the model learns that calls were left out.
            self.has_too_many_calls = true;
            error_text = Some(format!(
                "The step has more than {limit} calls (max_calls_per_step). This one and those after it were left out; make them in \
                 the next step."
            ));
        }
        let (arguments, max_nodes) = (String::new(), limits.argument_nodes);
        self.calls.push(CollectedCall {
            key,
            tool: tool.clone(),
            arguments,
            max_nodes,
            error_text,
            provider_metadata: None,
        });
        StepChange::CallStarted { tool }
    }

    fn grow_arguments(&mut self, key: usize, delta: String, limits: StepLimits) -> Option<StepChange> {
        // Providers that give every call the same key mean the newest.
        let Some(index) = self.calls.iter().rposition(|call| call.key == key) else {
            return Some(StepChange::ArgumentsWithoutCall { key });
        };
        let call = &mut self.calls[index];
        if call.error_text.is_some() {
            return None;
        }
        let limit = limits.argument_bytes;
        if call.arguments.len() + delta.len() > limit {
            call.arguments = String::new();
            call.error_text = Some(format!(
                "The arguments of {} have more than {limit} bytes (max_arguments). Call it again with less.",
                call.tool
            ));
            return None;
        }
        call.arguments.push_str(&delta);
        Some(StepChange::ArgumentsGrew { call: index, delta })
    }
}

/// Returns the error of every call of a step that ended for this reason, if the step was cut off. The missing rest of the answer could
/// have changed the calls, and a content filter has not checked their arguments, so none of them runs. An answer that ends at its token
/// limit is not cut off in this sense: each of its calls whose arguments are complete runs.
pub(crate) fn cut_off(reason: FinishReason) -> Option<ToolError> {
    let cause = match reason {
        FinishReason::Stop | FinishReason::Length | FinishReason::ToolCalls | FinishReason::Other => {
            return None;
        }
        FinishReason::ContentFilter => "by the provider's content filter",
        FinishReason::Interrupted => "before its end",
        FinishReason::Error => "because the model failed",
    };
    let text = format!("The answer was cut off {cause}, so this call did not run.");
    Some(ToolError::new(ErrorType::Cancelled, text))
}

/// Returns the error of a model whose stream ended without [`ModelEvent::Finished`].
pub(crate) fn stream_ended_early() -> ModelError {
    ModelError::Network("the stream ended before the answer did".into())
}

/// Returns the number of bytes that an event adds to the model's output.
fn output_bytes(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::Alive | ModelEvent::Finished { .. } => 0,
        ModelEvent::Text(delta) | ModelEvent::Reasoning(delta) => delta.len(),
        ModelEvent::CallStart { tool, .. } => PART_BYTES + tool.len(),
        ModelEvent::CallDelta { arguments, .. } => arguments.len(),
        ModelEvent::File { media_type, url } => PART_BYTES + media_type.len() + url.len(),
        ModelEvent::Source { url, title } => PART_BYTES + url.len() + title.as_ref().map_or(0, String::len),
        ModelEvent::Citation(citation) => {
            let Citation { url, title, passage, .. } = &**citation;
            let texts = [title, passage].into_iter().flatten().map(String::len);
            PART_BYTES + url.len() + texts.sum::<usize>()
        }
        ModelEvent::ProviderMetadata { metadata, .. } => PART_BYTES + metadata.as_str().len(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIMITS: StepLimits =
        StepLimits { calls: 2, argument_bytes: 20, argument_nodes: 5, output_bytes: 1000 };

    fn text(delta: &str) -> ModelEvent {
        ModelEvent::Text(delta.into())
    }

    fn call_start(key: usize, tool: &str) -> ModelEvent {
        ModelEvent::CallStart { key, tool: tool.into() }
    }

    fn call_delta(key: usize, arguments: &str) -> ModelEvent {
        ModelEvent::CallDelta { key, arguments: arguments.into() }
    }

    /// The changes that these events make, and the step that they end in for this reason.
    fn collect(events: Vec<ModelEvent>, reason: FinishReason) -> (Vec<StepChange>, CollectedStep) {
        let mut collector = StepCollector::default();
        let finished = ModelEvent::Finished { reason, usage: None };
        let events = events.into_iter().chain([finished]);
        let mut changes: Vec<_> = events
            .flat_map(|event| collector.on_event(event, LIMITS).expect("the limit is not reached"))
            .collect();
        let Some(StepChange::Completed(step)) = changes.pop() else { panic!("{changes:?}") };
        (changes, step)
    }

    #[test]
    fn a_part_ends_before_anything_else_begins() {
        let events = vec![ModelEvent::Reasoning("hm".into()), text("a"), text("b"), call_start(0, "look")];
        let (changes, step) = collect(events, FinishReason::ToolCalls);
        assert_eq!(
            changes,
            [
                StepChange::PartStarted(PartKind::Reasoning),
                StepChange::PartGrew(PartKind::Reasoning, "hm".into()),
                StepChange::PartEnded(PartKind::Reasoning),
                StepChange::PartStarted(PartKind::Text),
                StepChange::PartGrew(PartKind::Text, "a".into()),
                StepChange::PartGrew(PartKind::Text, "b".into()),
                StepChange::PartEnded(PartKind::Text),
                StepChange::CallStarted { tool: "look".into() },
            ]
        );
        assert_eq!((step.reasoning.as_str(), step.text.as_str()), ("hm", "ab"));
    }

    #[test]
    fn a_citation_has_its_place_in_the_text_that_is_open() {
        let cites = |start, end| {
            let url = "https://a.example".to_owned();
            ModelEvent::Citation(Box::new(Citation { url, start, end, ..Citation::default() }))
        };
        let source = ModelEvent::Source { url: "https://a.example".into(), title: None };
        let events = vec![
            cites(Some(0), Some(1)),
            text("äb"),
            source,
            cites(Some(0), Some(2)),
            call_start(0, "look"),
            text("cde"),
            cites(Some(3), Some(5)),
            cites(Some(0), Some(2)),
            cites(Some(3), None),
        ];
        let (changes, _) = collect(events, FinishReason::Stop);
        let places: Vec<_> = changes
            .iter()
            .filter_map(|change| match change {
                StepChange::Citation(citation) => Some((citation.start, citation.end)),
                _ => None,
            })
            .collect();
        assert_eq!(places, [(Some(0), Some(2)), (Some(1), Some(3)), (None, None), (None, None)]);
        let ends = changes.iter().filter(|change| matches!(change, StepChange::PartEnded(_)));
        assert_eq!(ends.count(), 2, "a source ends no text");
    }

    #[test]
    fn arguments_are_those_of_the_newest_call_with_their_key() {
        let events = vec![
            call_start(0, "first"),
            call_delta(0, "{}"),
            call_start(0, "second"),
            call_delta(0, r#"{"n":1}"#),
            call_delta(7, "{}"),
        ];
        let (changes, step) = collect(events, FinishReason::ToolCalls);
        assert_eq!(changes.last(), Some(&StepChange::ArgumentsWithoutCall { key: 7 }));
        let inputs: Vec<_> = step
            .calls
            .into_iter()
            .map(|call| call.into_input(FinishReason::ToolCalls).expect("an input"))
            .collect();
        assert_eq!(inputs, [json!({}), json!({"n": 1})].map(JsonText::from));
    }

    #[test]
    fn the_first_call_over_the_limit_says_that_calls_were_left_out() {
        let events = ["a", "b", "c", "d"].map(|tool| call_start(0, tool)).to_vec();
        let (changes, step) = collect(events, FinishReason::ToolCalls);
        assert_eq!(changes.last(), Some(&StepChange::CallLeftOut));
        let inputs: Vec<_> =
            step.calls.into_iter().map(|call| call.into_input(FinishReason::ToolCalls)).collect();
        assert_eq!(inputs.len(), 3);
        assert!(inputs[2].as_ref().is_err_and(|invalid| invalid.error_text.contains("more than 2 calls")));
    }

    #[test]
    fn arguments_over_their_limit_are_no_input() {
        let arguments = call_delta(0, r#"{"n": "0123456789012345"}"#);
        let (_, step) = collect(vec![call_start(0, "look"), arguments], FinishReason::ToolCalls);
        let input = step.calls.into_iter().next().expect("a call").into_input(FinishReason::ToolCalls);
        assert!(input.is_err_and(|invalid| invalid.error_text.contains("more than 20 bytes")));
    }

    #[test]
    fn arguments_with_too_many_values_are_no_input_and_are_never_built() {
        for (arguments, is_input) in [(r#"{"a":[1,2,3]}"#, true), (r#"{"a":[1,2,3,4]}"#, false)] {
            let (_, step) =
                collect(vec![call_start(0, "look"), call_delta(0, arguments)], FinishReason::ToolCalls);
            let input = step.calls.into_iter().next().expect("a call").into_input(FinishReason::ToolCalls);
            assert_eq!(input.is_ok(), is_input, "{arguments}");
            let mut collector = StepCollector::default();
            for event in [call_start(0, "look"), call_delta(0, arguments)] {
                collector.on_event(event, LIMITS).expect("the limit is not reached");
            }
            let received = collector.into_calls().remove(0).into_received();
            assert_eq!(received.is_object(), is_input, "{arguments}");
            let Err(invalid) = input else { continue };
            assert_eq!(invalid.received, JsonText::default());
            assert_eq!(
                invalid.error_text,
                "The arguments of look have 6 JSON values; the limit is 5 (max_argument_nodes). Call it again with less."
            );
        }
    }

    #[test]
    fn output_over_the_limit_of_a_step_is_refused() {
        let mut collector = StepCollector::default();
        assert!(collector.on_event(text(&"a".repeat(1000)), LIMITS).is_ok());
        let refused = collector.on_event(text("a"), LIMITS);
        assert_eq!(refused, Err(OutputLimitExceeded { bytes: 1000 }));
    }
}
