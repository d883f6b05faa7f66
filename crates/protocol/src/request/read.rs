//! Reads a typed body from JSON. An error names the field, its value and the expected one.
//!
//! serde reads from [`Json`] and not from `serde_json`, because an error of `serde_json` is already a sentence, and may repeat
//! all of a long text.

use std::fmt;

use serde::{
    de::{
        self, Deserialize, DeserializeOwned, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor,
        value::{MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::RequestError;
use crate::{ChatId, MessageId};

/// The limit on the length of an id that a client sends, in characters.
const MAX_ID: usize = 256;
/// The limit on the characters of a client's text that an error repeats as a name.
const MAX_NAME: usize = 64;
/// The limit on the characters of a client's text that an error repeats as a value.
const MAX_VALUE: usize = 40;

/// The JSON that serde reads.
struct Json(Value);

/// The reason why a value cannot be read: the rest of the path to it, such as `.name` or nothing, then a space, then the words that follow
/// the path in the sentence.
#[derive(Debug)]
pub(super) struct Fault(String);

/// Learns the names of the fields that a type reads.
struct Names<'a>(&'a mut &'static [&'static str]);

/// Reads a body. `whole` names it in errors that concern no field.
pub(super) fn read<T: DeserializeOwned>(body: Value, whole: &str) -> Result<T, RequestError> {
    if !body.is_object() {
        return Err(RequestError(format!("The body is {}; it must be a JSON object.", described(&body))));
    }
    read_object(body).map_err(|(mut path, Fault(fault))| {
        let (rest, words) = fault.split_once(' ').unwrap_or(("", &fault));
        path.push_str(rest);
        match path.trim_start_matches('.') {
            "" => RequestError(format!("{whole} {words}")),
            path => RequestError(format!("`{path}` {words}")),
        }
    })
}

/// Reads an object that a field holds, for a function that serde calls for the field.
pub(super) fn read_field<T: DeserializeOwned>(object: Value) -> Result<T, Fault> {
    read_object(object).map_err(|(path, Fault(fault))| Fault(path + &fault))
}

/// Reads an object. The error comes with the path of the field that it is about.
fn read_object<T: DeserializeOwned>(object: Value) -> Result<T, (String, Fault)> {
    serde_path_to_error::deserialize(Json(object)).map_err(|error| {
        let path = path(error.path());
        (path, error.into_inner())
    })
}

/// The path of a field as its sender knows it, with long names shortened.
fn path(path: &Path) -> String {
    let mut written = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => written.push_str(&format!("[{index}]")),
            Segment::Map { key } => {
                written.push('.');
                written.push_str(&shortened(key));
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    written
}

/// The names of the fields that `T` reads, which must be a struct.
pub(super) fn names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It fails as soon as it has the names.
    let _ = T::deserialize(Names(&mut names));
    names
}

/// The words about a value that should be something else.
pub(super) fn wrong(was: &Value, should: &str) -> String {
    format!(" is {}; it must be {should}.", described(was))
}

/// A value as errors of serde have it.
pub(super) fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(flag) => Unexpected::Bool(*flag),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), _, _) => Unexpected::Unsigned(number),
            (None, Some(number), _) => Unexpected::Signed(number),
            (None, None, number) => Unexpected::Float(number.unwrap_or(f64::NAN)),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(items) if items.is_empty() => Unexpected::Other("an empty list"),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

/// A value in a sentence: short ones as they are, long ones by their kind.
fn described(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "empty".to_owned(),
        Value::String(text) if text.chars().count() > MAX_VALUE => "a long string".to_owned(),
        Value::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The beginning of a text, for an error that names it.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Alternatives in a sentence: `"a", "b" or "c"`.
fn alternatives(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some(_) | None => quoted.concat(),
    }
}

/// Reads a value that may also be `null`.
pub(super) fn any_value<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(json).map(Some)
}

/// Reads a text that is not empty.
pub(super) fn words<'de, D: Deserializer<'de>>(json: D) -> Result<Option<String>, D::Error> {
    match Option::<String>::deserialize(json)? {
        Some(text) if text.is_empty() => {
            Err(de::Error::custom(wrong(&text.into(), "a string that is not empty")))
        }
        other => Ok(other),
    }
}

/// Reads the id of a chat. An empty one counts as absent.
pub(super) fn chat_id<'de, D: Deserializer<'de>>(json: D) -> Result<Option<ChatId>, D::Error> {
    let Some(id) = Option::<String>::deserialize(json)?.filter(|id| !id.is_empty()) else { return Ok(None) };
    let id = ChatId::parse(&id).map_err(|error| de::Error::custom(format!(" is no chat id: {error}.")))?;
    Ok(Some(id))
}

/// Reads the id of a message. An empty one counts as absent, because imported histories have empty ids.
pub(super) fn message_id<'de, D: Deserializer<'de>>(json: D) -> Result<Option<MessageId>, D::Error> {
    match Option::<String>::deserialize(json)?.filter(|id| !id.is_empty()) {
        Some(id) if id.chars().count() > MAX_ID => {
            let should = format!("a string of at most {MAX_ID} characters");
            Err(de::Error::custom(wrong(&id.into(), &should)))
        }
        id => Ok(id.map(MessageId::new)),
    }
}

// === impl Fault ===

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(fault: T) -> Self {
        Self(fault.to_string())
    }

    fn invalid_type(was: Unexpected<'_>, should: &dyn Expected) -> Self {
        let was = match was {
            Unexpected::Bool(was) => described(&was.into()),
            Unexpected::Unsigned(was) => described(&was.into()),
            Unexpected::Signed(was) => described(&was.into()),
            Unexpected::Float(was) => described(&was.into()),
            Unexpected::Str(was) => described(&was.into()),
            Unexpected::Unit => "null".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "an object".to_owned(),
            Unexpected::Other(was) => was.to_owned(),
            // JSON has nothing else.
            _ => "of another kind".to_owned(),
        };
        let should = match should.to_string().as_str() {
            "a boolean" => "true or false".to_owned(),
            "a sequence" => "a list".to_owned(),
            "a map" => "an object".to_owned(),
            other => other.to_owned(),
        };
        Self(format!(" is {was}; it must be {should}."))
    }

    fn invalid_value(was: Unexpected<'_>, should: &dyn Expected) -> Self {
        Self::invalid_type(was, should)
    }

    fn unknown_variant(was: &str, known: &'static [&'static str]) -> Self {
        Self(wrong(&was.into(), &alternatives(known)))
    }

    fn unknown_field(_: &str, known: &'static [&'static str]) -> Self {
        // The path ends with the name.
        Self(format!(" is no known name; the known ones are: {}.", known.join(", ")))
    }

    fn missing_field(name: &'static str) -> Self {
        Self(format!(".{name} is missing."))
    }
}

// === impl Json ===

impl IntoDeserializer<'_, Fault> for Json {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Json {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), _, _) => visitor.visit_u64(number),
                (None, Some(number), _) => visitor.visit_i64(number),
                (None, None, number) => visitor.visit_f64(number.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Json))),
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name, Json(value)));
                visitor.visit_map(MapDeserializer::new(fields))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    /// A struct is an object only. serde would also take a list.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0 {
            Value::Object(_) => self.deserialize_any(visitor),
            other => Err(Fault(wrong(&other, "an object"))),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(name.into_deserializer()),
            other => Err(Fault(wrong(&other, &alternatives(variants)))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

// === impl Names ===

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(Fault(String::new()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Fault> {
        *self.0 = names;
        Err(Fault(String::new()))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
