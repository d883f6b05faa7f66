//! The chunks of a streamed answer, as any vendor sends them.
//!
//! Reading is as lenient as the vendors are different: every field may be absent or null, and one that
//! is of another type than it should be is as good as absent. What a chunk means is decided in [`super::answer`].

use std::{fmt, marker::PhantomData};

use fermata_engine::model::Usage;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, json};

/// One event of the stream, or the one body of a server that does not stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    #[serde(deserialize_with = "read_list")]
    pub(super) choices: Vec<Choice>,
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
    /// `error` in vLLM's and Mistral's error objects, which are not wrapped in `error`; the next three are theirs too.
    pub(super) object: Word,
    pub(super) message: Option<Value>,
    pub(super) r#type: Option<Value>,
    pub(super) code: Option<Value>,
    /// Where Groq puts the usage.
    pub(super) x_groq: Option<Value>,
    /// Put there by [`super::framing`].
    pub(super) fermata_done: bool,
    pub(super) fermata_too_long: bool,
}

/// One of the alternative answers; only one is ever asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    #[serde(deserialize_with = "read_object")]
    pub(super) delta: Option<Delta>,
    /// Instead of `delta`, where the server does not stream.
    #[serde(deserialize_with = "read_object")]
    pub(super) message: Option<Delta>,
    pub(super) finish_reason: Word,
    /// Where Moonshot puts the usage.
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
}

/// What the model said since the last chunk.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    pub(super) content: Content,
    pub(super) reasoning_content: Word,
    pub(super) reasoning: Word,
    pub(super) refusal: Word,
    #[serde(deserialize_with = "read_list")]
    pub(super) tool_calls: Vec<CallPiece>,
    pub(super) images: Option<Value>,
    pub(super) annotations: Option<Value>,
}

/// A piece of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallPiece {
    pub(super) index: Option<Value>,
    pub(super) id: Word,
    #[serde(deserialize_with = "read_object")]
    pub(super) function: Option<FunctionPiece>,
}

/// The function half of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionPiece {
    pub(super) name: Word,
    pub(super) arguments: Arguments,
}

/// Text that may be absent, null, or of another type. A number is its digits, because ids come as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word(pub(super) String);

/// Arguments: JSON text, or the object itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments(pub(super) String);

/// Words and reasoning: a string, or a list of typed parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) thinking: String,
}

/// A part of such a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContentPart {
    text: Word,
    /// Itself a string or a list of text parts.
    thinking: Content,
}

// === impl Chunk ===

impl Chunk {
    /// The error this chunk tells of, where it does.
    pub(super) fn error(&self) -> Option<Value> {
        let in_choice = || self.choices.iter().find_map(|choice| choice.error.clone());
        let given = self.error.clone().or_else(in_choice).filter(|error| !error.is_null());
        let bare = || json!({"message": self.message, "type": self.r#type, "code": self.code});
        given.or_else(|| (self.object.0 == "error").then(bare))
    }

    /// What the step cost so far, where this chunk says so.
    pub(super) fn usage(&self) -> Option<Usage> {
        let groq = || self.x_groq.as_ref()?.get("usage");
        let moonshot = || self.choices.iter().find_map(|choice| choice.usage.as_ref());
        let counted = self.usage.as_ref().or_else(groq).or_else(moonshot)?.as_object()?;
        let count = |name: &str| counted.get(name).and_then(Value::as_u64);
        let (input, output) = (count("prompt_tokens"), count("completion_tokens"));
        let total = count("total_tokens");
        if input.is_none() && output.is_none() && total.is_none() {
            return None;
        }
        let (input_tokens, output_tokens) = (input.unwrap_or(0), output.unwrap_or(0));
        let total_tokens = total.unwrap_or(input_tokens.saturating_add(output_tokens));
        Some(Usage { input_tokens, output_tokens, total_tokens })
    }
}

/// The items of a list that can be read; of anything else, none. Read as it comes, because every delta passes here.
fn read_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(Lenient(PhantomData)).map(|read| read.items)
}

/// An object; of anything else, nothing.
fn read_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(Lenient(PhantomData)).map(|read| read.object)
}

/// Takes any JSON, and keeps an object, or the objects of a list.
struct Lenient<T>(PhantomData<T>);

/// What was kept.
struct Kept<T> {
    object: Option<T>,
    items: Vec<T>,
}

impl<T> Kept<T> {
    fn nothing() -> Self {
        Self { object: None, items: Vec::new() }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Kept<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Lenient(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Lenient<T> {
    type Value = Kept<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Kept<T>, A::Error> {
        let object = T::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Kept { object: Some(object), items: Vec::new() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Kept<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(Kept { object, .. }) = list.next_element::<Kept<T>>()? {
            items.extend(object);
        }
        Ok(Kept { object: None, items })
    }

    fn visit_unit<E>(self) -> Result<Kept<T>, E> {
        Ok(Kept::nothing())
    }

    fn visit_bool<E>(self, _value: bool) -> Result<Kept<T>, E> {
        Ok(Kept::nothing())
    }

    fn visit_i64<E>(self, _value: i64) -> Result<Kept<T>, E> {
        Ok(Kept::nothing())
    }

    fn visit_u64<E>(self, _value: u64) -> Result<Kept<T>, E> {
        Ok(Kept::nothing())
    }

    fn visit_f64<E>(self, _value: f64) -> Result<Kept<T>, E> {
        Ok(Kept::nothing())
    }

    fn visit_str<E>(self, _value: &str) -> Result<Kept<T>, E> {
        Ok(Kept::nothing())
    }
}

// === impl Word ===

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordVisitor { takes_objects: false }).map(Self)
    }
}

// === impl Arguments ===

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordVisitor { takes_objects: true }).map(Self)
    }
}

struct WordVisitor {
    takes_objects: bool,
}

impl<'de> Visitor<'de> for WordVisitor {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_unit<E>(self) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_bool<E>(self, _value: bool) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<String, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(String::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<String, A::Error> {
        let value = Value::deserialize(MapAccessDeserializer::new(map))?;
        Ok(if self.takes_objects { value.to_string() } else { String::new() })
    }
}

// === impl Content ===

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text or a list of parts")
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content { text: text.to_owned(), thinking: String::new() })
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::default())
    }

    fn visit_bool<E>(self, _value: bool) -> Result<Content, E> {
        Ok(Content::default())
    }

    fn visit_i64<E>(self, _number: i64) -> Result<Content, E> {
        Ok(Content::default())
    }

    fn visit_u64<E>(self, _number: u64) -> Result<Content, E> {
        Ok(Content::default())
    }

    fn visit_f64<E>(self, _number: f64) -> Result<Content, E> {
        Ok(Content::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
        let mut content = Content::default();
        while let Some(part) = list.next_element::<Self::Value>()? {
            content.text.push_str(&part.text);
            content.thinking.push_str(&part.thinking);
        }
        Ok(content)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Content, A::Error> {
        let part = ContentPart::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Content { text: part.text.0, thinking: part.thinking.text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Chunk {
        serde_json::from_str(json).unwrap()
    }

    fn delta(json: &str) -> Delta {
        let mut chunk = read(&format!(r#"{{"choices":[{{"delta":{json}}}]}}"#));
        chunk.choices.pop().unwrap().delta.unwrap()
    }

    #[test]
    fn absent_and_null_fields_are_read_alike() {
        for json in [
            "{}",
            r#"{"choices":null,"usage":null,"error":null}"#,
            r#"{"choices":[]}"#,
            r#"{"choices":[{"delta":null,"finish_reason":null}]}"#,
            r#"{"choices":[{"delta":{"content":null,"tool_calls":null,"reasoning":null,"refusal":null}}]}"#,
        ] {
            let chunk = read(json);
            assert!(chunk.error().is_none() && chunk.usage().is_none(), "{json}");
        }
    }

    #[test]
    fn fields_of_another_type_do_not_fail_the_chunk() {
        let delta = delta(r#"{"content":7,"reasoning":["x"],"refusal":false,"reasoning_content":{"a":1}}"#);
        assert_eq!(delta.content, Content::default());
        assert_eq!(delta.reasoning.0, "");
        assert_eq!(delta.reasoning_content.0, "");
        assert_eq!(delta.refusal.0, "");
    }

    #[test]
    fn what_cannot_be_read_in_a_list_takes_nothing_else_with_it() {
        let chunk = read(
            r#"{"choices":[null,{"finish_reason":"stop","message":[],"delta":{
               "content":[null,"a",{"text":"b"}],"tool_calls":[null,{"id":"c","function":"f"}]}}]}"#,
        );
        let [choice] = chunk.choices.as_slice() else { panic!("{chunk:?}") };
        assert_eq!(choice.finish_reason.0, "stop");
        let delta = choice.delta.as_ref().unwrap();
        assert_eq!(delta.content.text, "ab");
        assert_eq!(delta.tool_calls[0].id.0, "c");
    }

    #[test]
    fn a_list_of_parts_is_split_into_words_and_thinking() {
        let delta = delta(
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
               {"type":"thinking","thinking":"c"},{"type":"text","text":"d"},{"type":"reference","reference_ids":[1]}]}"#,
        );
        assert_eq!(delta.content, Content { text: "d".into(), thinking: "abc".into() });
    }

    #[test]
    fn arguments_and_ids_become_text_whatever_they_are() {
        let delta =
            delta(r#"{"tool_calls":[{"id":17,"function":{"name":"f","arguments":{"b":1,"a":[2]}}}]}"#);
        let piece = &delta.tool_calls[0];
        assert_eq!(piece.id.0, "17");
        assert_eq!(piece.function.as_ref().unwrap().arguments.0, r#"{"b":1,"a":[2]}"#);
    }

    #[test]
    fn usage_is_found_where_groq_puts_it_and_totalled_where_nobody_did() {
        let groq =
            read(r#"{"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":3,"completion_tokens":4}}}"#);
        assert_eq!(groq.usage(), Some(Usage { input_tokens: 3, output_tokens: 4, total_tokens: 7 }));
        assert_eq!(read(r#"{"usage":{}}"#).usage(), None);
        assert_eq!(read(r#"{"usage":"none"}"#).usage(), None);
    }

    #[test]
    fn errors_are_found_wrapped_bare_and_in_the_choice() {
        assert!(read(r#"{"error":{"message":"x"}}"#).error().is_some());
        assert_eq!(
            read(r#"{"object":"error","message":"x","code":400}"#).error(),
            Some(json!({"message": "x", "type": null, "code": 400}))
        );
        assert!(read(r#"{"choices":[{"delta":{},"error":{"code":502}}]}"#).error().is_some());
    }
}
