//! A shape is what stays the same from one event of an answer to the next.
//!
//! Of the 400 bytes of an event, a provider changes the text, and OpenAI also the padding that hides the text's length. So each event is
//! compared with the last one that was a piece of text and nothing else, and is parsed only if it differs in another place.
//!
//! Invariant: a text that is read here is the one that parsing the event would have found.

use std::sync::LazyLock;

use super::chunk::{Chunk, Delta};
use memchr::memmem::Finder;

// The finders are made once, because making one takes longer than searching an event with it.
static CONTENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"content\""));
static REASONING: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"reasoning\""));
static REASONING_CONTENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"reasoning_content\""));
/// The beginning of the padding that OpenAI adds to each event.
static PADDING: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"obfuscation\":\""));

/// The bytes of an event around its text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    field: TextField,
    before: Box<[u8]>,
    /// The bytes after the text, up to the padding if the event has any.
    after: Box<[u8]>,
    /// The bytes after the padding, if the event has any.
    after_padding: Option<Box<[u8]>>,
}

/// The field of a delta that a text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextField {
    Content,
    ReasoningContent,
    Reasoning,
}

// === impl Shape ===

impl Shape {
    /// Returns the shape of the event that this chunk comes from. There is none if the chunk has more than one piece of text, or if the
    /// place of the text is not certain.
    pub(super) fn of(event: &[u8], chunk: &Chunk) -> Option<Self> {
        let (field, text) = only_text(chunk)?;
        // A list may have more chunks. Without escapes, each quote begins or ends a string, so a key is found only where it is one.
        if !event.trim_ascii_start().starts_with(b"{") || memchr::memchr(b'\\', event).is_some() {
            return None;
        }
        let key = field.key();
        let mut places = key.find_iter(event);
        let (Some(place), None) = (places.next(), places.next()) else { return None };
        let value = event[place + key.needle().len()..].trim_ascii_start().strip_prefix(b":")?;
        let value = value.trim_ascii_start().strip_prefix(b"\"")?;
        let before = &event[..event.len() - value.len()];
        let mut after = value.strip_prefix(text.as_bytes())?;
        let mut after_padding = None;
        if let Some(place) = PADDING.find(after) {
            let (before_padding, padding) = after.split_at(place + PADDING.needle().len());
            after = before_padding;
            after_padding = Some(split_string(padding)?.1.into());
        }
        Some(Self { field, before: before.into(), after: after.into(), after_padding })
    }

    /// Returns the text of an event that has this shape, and its field.
    pub(super) fn text_of<'a>(&self, event: &'a [u8]) -> Option<(TextField, &'a str)> {
        let (text, rest) = split_string(event.strip_prefix(&*self.before)?)?;
        let mut rest = rest.strip_prefix(&*self.after)?;
        if let Some(after_padding) = &self.after_padding {
            rest = split_string(rest)?.1.strip_prefix(&**after_padding)?;
        }
        if rest.is_empty() && !text.is_empty() { Some((self.field, text)) } else { None }
    }
}

// === impl TextField ===

impl TextField {
    fn key(self) -> &'static Finder<'static> {
        match self {
            Self::Content => &CONTENT,
            Self::ReasoningContent => &REASONING_CONTENT,
            Self::Reasoning => &REASONING,
        }
    }
}

/// Returns the text of a chunk that has nothing else, with its field.
fn only_text(chunk: &Chunk) -> Option<(TextField, &str)> {
    let choice = chunk.choice.as_ref()?;
    let is_delta = choice.message.is_none() && choice.finish_reason.0.is_empty();
    let has_sources = chunk.search_results.is_some() || chunk.citations.is_some();
    if !is_delta || has_sources || chunk.usage().is_some() || chunk.error().is_some() {
        return None;
    }
    let Delta {
        content,
        reasoning_content,
        reasoning,
        reasoning_details,
        thinking_blocks,
        extra_content,
        provider_specific_fields,
        refusal,
        tool_calls,
        function_call,
        images,
        annotations,
    } = choice.delta.as_ref()?;
    let has_more = !content.thinking.is_empty()
        || [reasoning_details, thinking_blocks, extra_content, provider_specific_fields]
            .into_iter()
            .any(|field| field.as_deref().is_some_and(|value| !value.is_null()))
        || !refusal.0.is_empty()
        || !tool_calls.is_empty()
        || function_call.is_some()
        || images.is_some()
        || annotations.is_some();
    if has_more {
        return None;
    }
    match (content.text.as_str(), reasoning_content.0.as_str(), reasoning.0.as_str()) {
        ("", "", "") => None,
        (text, "", "") => Some((TextField::Content, text)),
        ("", text, "") => Some((TextField::ReasoningContent, text)),
        ("", "", text) => Some((TextField::Reasoning, text)),
        _ => None,
    }
}

/// Splits JSON that begins in a string into the rest of the string and what follows, from the quote on. There is nothing to split if the
/// string has escapes, or what no string may have.
fn split_string(json: &[u8]) -> Option<(&str, &[u8])> {
    let end = memchr::memchr2(b'"', b'\\', json)?;
    let (string, after) = json.split_at(end);
    let string = str::from_utf8(string).ok()?;
    let is_plain = after.starts_with(b"\"") && !string.bytes().any(|byte| byte.is_ascii_control());
    if is_plain { Some((string, after)) } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An event with this delta, which ends as it does with OpenAI.
    fn event(delta: &str, padding: &str) -> String {
        format!(
            r#"{{"id":"c","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}],"usage":null,"obfuscation":"{padding}"}}"#
        )
    }

    fn parse(event: &[u8]) -> Option<Chunk> {
        let mut chunks = Chunk::read_all(event).ok()?;
        let chunk = chunks.next()?;
        chunks.next().is_none().then_some(chunk)
    }

    fn shape(event: &str) -> Option<Shape> {
        Shape::of(event.as_bytes(), &parse(event.as_bytes()).unwrap())
    }

    /// The text of the second event if it has the shape of the first.
    fn text(first: &str, second: &str) -> Option<(TextField, String)> {
        let shape = shape(first)?;
        shape.text_of(second.as_bytes()).map(|(field, text)| (field, text.to_owned()))
    }

    #[test]
    fn events_that_differ_in_text_and_padding_have_one_shape() {
        for (key, field) in [
            ("content", TextField::Content),
            ("reasoning", TextField::Reasoning),
            ("reasoning_content", TextField::ReasoningContent),
        ] {
            let first = event(&format!(r#"{{"{key}": "a"}}"#), "x");
            let second = event(&format!(r#"{{"{key}": "bcä"}}"#), "yz");
            assert_eq!(text(&first, &second), Some((field, "bcä".to_owned())));
        }
    }

    #[test]
    fn what_differs_elsewhere_is_parsed() {
        let first = event(r#"{"content":"a"}"#, "x");
        for second in [
            event(r#"{"content":""}"#, "x"),
            event(r#"{"content":"\n"}"#, "x"),
            event(r#"{"content":"a\"}"#, "x"),
            event(r#"{"content":"b","refusal":"c"}"#, "x"),
            event(r#"{"content":null}"#, "x"),
            event(r#"{"content":"b"}"#, "x").replace("null", "\"stop\""),
            event(r#"{"content":"b"}"#, "x\",\"error\":\"y"),
            event(r#"{"content":"b"}"#, "x") + " {}",
            event("{\"content\":\"b\n\"}", "x"),
            event("{\"content\":\"b", "x"),
        ] {
            assert_eq!(text(&first, &second), None, "{second}");
        }
        let mut torn = event(r#"{"content":"?"}"#, "x").into_bytes();
        torn.iter_mut().filter(|byte| **byte == b'?').for_each(|byte| *byte = 0xff);
        assert_eq!(shape(&first).unwrap().text_of(&torn), None);
    }

    #[test]
    fn an_event_has_no_shape_if_its_text_is_not_all_of_it_or_not_in_one_place() {
        for first in [
            event(r#"{"content":"a","refusal":"b"}"#, "x"),
            event(r#"{"content":"a","reasoning":"b"}"#, "x"),
            event(r#"{"content":"a","tool_calls":[{"index":0}]}"#, "x"),
            event(r#"{"content":[{"type":"text","text":"a"}]}"#, "x"),
            event(r#"{"content":"\u0061"}"#, "x"),
            event(r#"{"role":"content","content":"a"}"#, "x"),
            event(r#"{"content":"a"}"#, "\\n"),
            event(r#"{"content":"a"}"#, "x").replace("null", "\"stop\""),
            event(r#"{"content":"a"}"#, "x").replace("null}", r#"null,"message":{"role":"b"}}"#),
            event(r#"{"content":"a"}"#, "x").replace("null,", r#"{"total_tokens":7},"#),
            event(r#"{"content":"a"}"#, "x").replace("null,", r#"null,"error":{},"#),
            event(r#"{"content":"a"}"#, "x").replace("null}", r#"null},{"delta":{"content":"b"}}"#),
            format!("[{}]", event(r#"{"content":"a"}"#, "x")),
        ] {
            assert_eq!(shape(&first), None, "{first}");
        }
    }

    proptest! {
        #[test]
        fn a_text_is_the_one_that_parsing_finds(
            key in prop::sample::select(vec!["content", "reasoning", "reasoning_content"]),
            second in "[a\u{e4} ]{0,3}",
            padding in "[a-z]{0,3}",
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0..3, prop::sample::select(b"\"\\,:{}[]a \n\xff".to_vec())), 0..3),
        ) {
            let first = event(&format!(r#"{{"{key}":"a"}}"#), "x");
            let mut second = event(&format!(r#"{{"{key}":"{second}"}}"#), &padding).into_bytes();
            for (place, change, byte) in changes {
                let place = place.index(second.len());
                match change {
                    0 => second[place] = byte,
                    1 => second.insert(place, byte),
                    _ => drop(second.remove(place)),
                }
            }
            if let Some((field, text)) = shape(&first).unwrap().text_of(&second) {
                let chunk = parse(&second).unwrap();
                let (parsed_field, parsed) = only_text(&chunk).unwrap();
                prop_assert_eq!((field, text), (parsed_field, parsed));
            }
        }
    }
}
