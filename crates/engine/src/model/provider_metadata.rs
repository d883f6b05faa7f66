//! The metadata that providers want back with the answers of their models. A message keeps it in one part of each step, and no client is
//! sent this part.
//!
//! A provider's module writes and reads the metadata. Here it is text, kept for the step and for each call by its id, even if the call is
//! denied.

use std::collections::HashMap;

use fermata_protocol::{JsonText, PROVIDER_METADATA, ToolCallId, UiChunk, UiPart};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The metadata of one step.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct StepMetadata {
    /// The metadata of the answer itself.
    pub answer: Option<JsonText>,
    /// The metadata of the calls that have any.
    pub calls: HashMap<ToolCallId, JsonText>,
}

/// The metadata as it is saved. Each is a text, because a message may be nested less deeply than a provider's answer.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Saved {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    answer: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    calls: Vec<(ToolCallId, String)>,
}

// === impl StepMetadata ===

impl StepMetadata {
    /// Returns the metadata in the parts of a step.
    pub fn of(parts: &[UiPart]) -> Self {
        let Some(saved) = parts.iter().find_map(saved) else { return Self::default() };
        let read = |text: &str| serde_json::from_str(text).ok();
        Self {
            answer: saved.answer.as_deref().and_then(read),
            calls: saved.calls.iter().filter_map(|(id, text)| Some((id.clone(), read(text)?))).collect(),
        }
    }
}

/// Returns the chunk that keeps the metadata of a step and of its calls; `None` if there is none.
pub(crate) fn chunk<'a>(
    answer: Option<&JsonText>,
    calls: impl Iterator<Item = (&'a ToolCallId, &'a JsonText)>,
) -> Option<UiChunk> {
    let text = |metadata: &JsonText| metadata.as_str().to_owned();
    let saved = Saved {
        answer: answer.map(text),
        calls: calls.map(|(id, metadata)| (id.clone(), text(metadata))).collect(),
    };
    if saved.answer.is_none() && saved.calls.is_empty() {
        return None;
    }
    Some(UiChunk::Custom {
        kind: PROVIDER_METADATA.to_owned(),
        provider_metadata: Some(json!({"fermata": saved})),
    })
}

/// Returns whether a part keeps the metadata of a step.
pub(crate) fn is_kept_in(part: &UiPart) -> bool {
    match part {
        UiPart::Unknown(fields) => {
            fields.get("type").is_some_and(|kind| kind == "custom")
                && fields.get("kind").is_some_and(|kind| kind == PROVIDER_METADATA)
        }
        UiPart::Text { .. }
        | UiPart::Reasoning { .. }
        | UiPart::File(_)
        | UiPart::StepStart
        | UiPart::Tool(_)
        | UiPart::Data(_) => false,
    }
}

fn saved(part: &UiPart) -> Option<Saved> {
    let UiPart::Unknown(fields) = part else { return None };
    if !is_kept_in(part) {
        return None;
    }
    Saved::deserialize(fields.get("providerMetadata")?.get("fermata")?).ok()
}

#[cfg(test)]
mod tests {
    use fermata_protocol::{Assembler, MessageId, UiMessage};

    use super::*;

    #[test]
    fn what_is_kept_of_a_step_is_found_in_its_parts() {
        let deep: JsonText =
            serde_json::from_str(&format!("{}{}", "[".repeat(127), "]".repeat(127))).unwrap();
        let (with, without) = (ToolCallId::new("a"), ToolCallId::new("b"));
        let chunk = chunk(Some(&deep), [(&with, &json!({"n": 1.0}).into())].into_iter()).unwrap();
        let mut assembler = Assembler::new(MessageId::new("m"));
        assembler.apply(&UiChunk::StartStep).unwrap();
        assembler.apply(&UiChunk::from_record(&chunk.to_record()).unwrap()).unwrap();
        let message = serde_json::to_string(&assembler.snapshot()).unwrap();
        let message: UiMessage = serde_json::from_str(&message).unwrap();
        let mut kept = StepMetadata::of(&message.parts);
        assert_eq!(kept.answer, Some(deep));
        assert_eq!(kept.calls.remove(&with).unwrap().as_str(), r#"{"n":1.0}"#);
        assert_eq!(kept.calls.remove(&without), None);
    }

    #[test]
    fn nothing_is_kept_of_a_step_that_has_nothing() {
        assert_eq!(chunk(None, std::iter::empty()), None);
        assert_eq!(StepMetadata::of(&[UiPart::StepStart]), StepMetadata::default());
    }
}
