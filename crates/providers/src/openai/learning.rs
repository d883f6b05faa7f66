//! The lessons of refusals about a model: the next request leaves out the fields that the provider has refused.
//!
//! A refusal that is not understood teaches nothing, and the same refusal never teaches twice. The lessons are kept with the model until
//! the process ends, and are logged, so that an operator can set them.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::Regex;
use serde_json::Value;

use super::{dialect::Dialect, provider_metadata::ALL};

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern that is tested")
}

/// The words for something that a provider does not take at all. A value that is out of range is another matter.
static UNSUPPORTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)unsupported|n[o']t (be )?(support|permit|allow|accept|recogni[sz]|available|a valid)|cannot be (used|set|combined|specified)|unknown|unrecogni[sz]ed|unexpected|incompatible|deprecated|extra (field|input|param|key)|additional propert|invalid (field|param|argument|key)|text[- ]only|only (supports?|accepts?) text|no endpoints found that support",
    )
});

/// The words for files in a conversation.
static FILES: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)image|vision|multi-?modal|\baudio\b|input_audio|file_data|content type"));

/// The words for one file that is wrong, which says nothing of others.
static ONE_FILE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)corrupt|decod|download|fetch|too (large|many|small|big)|size|resolution|base64|url|media type|format",
    )
});

/// The names of the limit of the answer. Some models take only the one, some only the other.
const OUTPUT_LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];
/// The fields without which there is no request.
const NEEDED: [&str; 4] = ["model", "messages", "stream", "tools"];

/// The dialect of a model. Refusals add to it. Clones are the same.
///
/// It is a mutex because it is copied once per request, and never held across an await.
#[derive(Clone, Debug)]
pub(super) struct LearnedDialect(Arc<Mutex<Arc<Dialect>>>);

/// A refusal's lesson.
#[derive(Clone, Debug, PartialEq)]
enum Lesson {
    /// The model takes no such field.
    Omit(String),
    /// The field has another name.
    Rename(String, String),
    /// The model cannot be made to call a tool.
    NoForcedTool,
    /// The model takes text only.
    TextOnly,
}

// === impl LearnedDialect ===

impl LearnedDialect {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(dialect))))
    }

    pub(super) fn get(&self) -> Arc<Dialect> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Learns from the refusal of a request with this body. Returns whether the next request will be another one.
    pub(super) fn learn(&self, model: &str, refusal: &str, body: &str) -> bool {
        let Ok(body) = serde_json::from_str::<Value>(body) else { return false };
        let Some(lesson) = Lesson::of(refusal, &body) else { return false };
        let mut dialect = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut better = Dialect::clone(&dialect);
        lesson.apply(&mut better);
        if better == **dialect {
            return false;
        }
        *dialect = Arc::new(better);
        tracing::warn!(
            model,
            refusal,
            "the provider has refused a request, and is asked once more: {}",
            lesson.text()
        );
        true
    }
}

// === impl Lesson ===

impl Lesson {
    fn of(refusal: &str, body: &Value) -> Option<Self> {
        for (field, other) in [(OUTPUT_LIMITS[0], OUTPUT_LIMITS[1]), (OUTPUT_LIMITS[1], OUTPUT_LIMITS[0])] {
            if body.get(field).is_some() && names(refusal, other) && names(refusal, field) {
                return Some(Self::Rename(field.to_owned(), other.to_owned()));
            }
        }
        if !UNSUPPORTED.is_match(refusal) {
            return None;
        }
        let is_forced =
            body.get("tool_choice").is_some_and(|choice| choice.is_object() || choice == "required");
        if is_forced && names(refusal, "tool_choice") {
            return Some(Self::NoForcedTool);
        }
        let mut fields = body.as_object()?.keys().filter(|field| !NEEDED.contains(&field.as_str()));
        if let Some(named) = fields.find(|field| names(refusal, field)) {
            return Some(Self::Omit(named.clone()));
        }
        if let Some(named) = ALL.iter().find(|field| names(refusal, field) && has_attached(body, field)) {
            return Some(Self::Omit((*named).to_owned()));
        }
        let is_about_files = FILES.is_match(refusal) && !ONE_FILE.is_match(&without_part_names(refusal));
        (is_about_files && has_files(body)).then_some(Self::TextOnly)
    }

    fn apply(&self, dialect: &mut Dialect) {
        match self {
            Self::Omit(field) => {
                dialect.omit.insert(field.clone());
            }
            Self::Rename(from, to) => {
                // A field that is renamed to the refused name also gets the other one.
                dialect.rename.retain(|_, name| name != from);
                dialect.rename.remove(to);
                dialect.rename.insert(from.clone(), to.clone());
            }
            Self::NoForcedTool => dialect.forces_tools = false,
            Self::TextOnly => dialect.vision = false,
        }
    }

    /// Returns the lesson in words, with the setting that says the same.
    fn text(&self) -> String {
        match self {
            Self::Omit(field) => format!("without {field} (omit = [\"{field}\"])"),
            Self::Rename(from, to) => {
                format!("with {to} in place of {from} (rename = {{ {from} = \"{to}\" }})")
            }
            Self::NoForcedTool => "without a tool that it has to call".to_owned(),
            Self::TextOnly => "with a line of text in place of each file (vision = false)".to_owned(),
        }
    }
}

/// Returns whether a text names a field.
fn names(text: &str, field: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.match_indices(field).any(|(start, _)| {
        !text[..start].ends_with(is_part) && !text[start + field.len()..].starts_with(is_part)
    })
}

/// Returns a text without the names of parts of a message, which have words in them.
fn without_part_names(text: &str) -> String {
    text.replace("image_url", "image").replace("file_data", "file")
}

/// Returns whether a message of the body, or a call in one, has a field that came from the provider.
fn has_attached(body: &Value, field: &str) -> bool {
    let mut messages = body["messages"].as_array().into_iter().flatten();
    messages.any(|message| {
        let mut calls = message["tool_calls"].as_array().into_iter().flatten();
        message.get(field).is_some() || calls.any(|call| call.get(field).is_some())
    })
}

/// Returns whether a message of the body has a part that is no text.
fn has_files(body: &Value) -> bool {
    let messages = body["messages"].as_array().into_iter().flatten();
    let mut parts = messages.filter_map(|message| message["content"].as_array()).flatten();
    parts.any(|part| part["type"] != "text")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body() -> Value {
        json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 100, "temperature": 0.5,
            "tools": [], "tool_choice": "required",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:"}}]}],
        })
    }

    #[test]
    fn a_refusal_that_names_what_is_not_taken_teaches_to_leave_it_out() {
        let omit = |field: &str| Some(Lesson::Omit(field.to_owned()));
        for (refusal, lesson) in [
            ("Unsupported parameter: 'stream_options'", omit("stream_options")),
            ("Extra inputs are not permitted: body.stream_options", omit("stream_options")),
            ("unknown field \"temperature\"", omit("temperature")),
            ("`temperature` is not supported with this model.", omit("temperature")),
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                Some(Lesson::Rename("max_tokens".into(), "max_completion_tokens".into())),
            ),
            ("max_tokens: unknown field", omit("max_tokens")),
            ("tool_choice 'specified' is incompatible with thinking enabled", Some(Lesson::NoForcedTool)),
            ("messages[1]: unknown variant `image_url`, expected `text`", Some(Lesson::TextOnly)),
            ("this model does not support image input", Some(Lesson::TextOnly)),
            ("No endpoints found that support image input", Some(Lesson::TextOnly)),
            ("temperature must be at most 1", None),
            ("Invalid image: unsupported format of the data", None),
            ("the image could not be downloaded", None),
            ("unknown error", None),
            ("messages: unexpected role", None),
        ] {
            assert_eq!(Lesson::of(refusal, &body()), lesson, "{refusal}");
        }
    }

    #[test]
    fn what_the_provider_attached_is_left_out_if_it_is_refused() {
        let call = json!({"id": "a", "extra_content": {"google": {}}});
        let messages = json!([{"role": "assistant", "reasoning_details": [], "tool_calls": [call]}]);
        let body = json!({"model": "m", "messages": messages});
        for (refusal, field) in [
            ("messages[0].tool_calls[0]: unknown field `extra_content`", Some("extra_content")),
            ("property 'reasoning_details' is unsupported", Some("reasoning_details")),
            ("unknown field `thinking_blocks`", None),
            ("Function call is missing a thought_signature in functionCall parts.", None),
        ] {
            let lesson = field.map(|field: &str| Lesson::Omit(field.to_owned()));
            assert_eq!(Lesson::of(refusal, &body), lesson, "{refusal}");
        }
    }

    #[test]
    fn the_same_refusal_teaches_once() {
        let dialect = Dialect::of(&"http://localhost/v1".parse().unwrap(), "m", &Default::default());
        let learned = LearnedDialect::new(dialect);
        let body = body().to_string();
        assert!(learned.learn("m", "unknown field stream_options", &body));
        assert!(!learned.learn("m", "unknown field stream_options", &body));
        assert_eq!(learned.get().field("stream_options"), None);
        assert!(learned.learn("m", "max_tokens is not supported, use max_completion_tokens", &body));
        assert_eq!(learned.get().field("max_tokens"), Some("max_completion_tokens"));
    }
}
