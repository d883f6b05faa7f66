//! Values of the file as serde reads them, with the variables that their strings name.
//!
//! serde reads from [`Node`] and not from `toml`, because an error of `toml` is already a sentence, and may repeat a value.

use serde::{
    de::{
        Deserialize, DeserializeOwned, Deserializer, Error, IntoDeserializer, Unexpected, Visitor,
        value::{MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_path_to_error::{Path, Segment};
use toml::{
    Spanned,
    de::{DeInteger, DeValue},
};

use super::{
    fault::{Fault, Wrong},
    text::Text,
};

/// The environment.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A value. `${NAME}` in its strings is replaced from the variables.
struct Node<'a> {
    value: DeValue<'a>,
    variables: Variables<'a>,
}

const UNQUOTED_TIME: &str = "a date or time must be a string, in quotes";

/// Reads the value of a key.
pub(super) fn read<T: DeserializeOwned>(
    key: &str,
    value: Spanned<DeValue<'_>>,
    variables: Variables<'_>,
) -> Result<T, Fault> {
    let spanned = value.clone();
    let node = Node { value: value.into_inner(), variables };
    serde_path_to_error::deserialize(node).map_err(|error| {
        let (key, at) = innermost(error.path(), key, &spanned);
        Fault { at, reason: error.inner().about(key) }
    })
}

/// Returns the last key on a path, and where the path leads to.
fn innermost<'v>(path: &Path, key: &'v str, value: &'v Spanned<DeValue<'_>>) -> (&'v str, usize) {
    let (mut key, mut at, mut value) = (key, value.span().start, value);
    for segment in path {
        match (segment, value.get_ref()) {
            (Segment::Map { key: name }, DeValue::Table(table)) => {
                let Some((name, inner)) = table.iter().find(|(known, _)| known.get_ref() == name) else {
                    break;
                };
                (key, at, value) = (name.get_ref(), name.span().start, inner);
            }
            (Segment::Seq { index }, DeValue::Array(elements)) => {
                let Some(element) = elements.get(*index) else { break };
                (at, value) = (element.span().start, element);
            }
            _ => break,
        }
    }
    (key, at)
}

/// Returns a text with the variables that it names.
fn expand(text: &str, variables: Variables<'_>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, behind) = after.split_once('}').ok_or("a ${ has no }")?;
        expanded += before;
        expanded += &variables(name).ok_or_else(|| format!("the environment variable {name} is not set"))?;
        rest = behind;
    }
    Ok(expanded + rest)
}

/// Returns a value as the text that a variable would have.
pub(super) fn text(value: &DeValue<'_>, variables: Variables<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => expand(text, variables),
        DeValue::Integer(number) => Ok(integer(number)?.to_string()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Ok(truth.to_string()),
        DeValue::Array(elements) => {
            let texts = elements.iter().map(|element| text(element.get_ref(), variables));
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join(","))
        }
        DeValue::Datetime(_) => Err(UNQUOTED_TIME.to_owned()),
        DeValue::Table(_) => Err("must be a value, not a table".to_owned()),
    }
}

fn integer(number: &DeInteger<'_>) -> Result<i128, &'static str> {
    i128::from_str_radix(number.as_str(), number.radix()).map_err(|_| "is too large")
}

// === impl Node ===

impl Node<'_> {
    fn is_not(&self, expected: &str) -> Wrong {
        let found = match &self.value {
            DeValue::String(_) => Unexpected::Str(""),
            DeValue::Integer(_) => Unexpected::Signed(0),
            DeValue::Float(_) => Unexpected::Float(0.0),
            DeValue::Boolean(_) => Unexpected::Bool(true),
            DeValue::Array(_) => Unexpected::Seq,
            DeValue::Table(_) => Unexpected::Map,
            DeValue::Datetime(_) => return Wrong::custom(UNQUOTED_TIME),
        };
        Wrong::invalid_type(found, &expected)
    }
}

impl IntoDeserializer<'_, Wrong> for Node<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let Self { value, variables } = self;
        match value {
            DeValue::String(text) => visitor.visit_string(expand(&text, variables).map_err(Wrong::Value)?),
            DeValue::Integer(number) => {
                let number = integer(&number).map_err(Wrong::custom)?;
                match i64::try_from(number) {
                    Ok(number) => visitor.visit_i64(number),
                    Err(_) => visitor.visit_i128(number),
                }
            }
            DeValue::Float(number) => visitor.visit_f64(number.as_str().parse().map_err(Wrong::custom)?),
            DeValue::Boolean(truth) => visitor.visit_bool(truth),
            DeValue::Array(elements) => {
                let elements = elements.into_iter().map(Spanned::into_inner);
                visitor.visit_seq(SeqDeserializer::new(elements.map(|value| Self { value, variables })))
            }
            DeValue::Table(table) => {
                let entries = table.into_iter().map(|(name, value)| {
                    (name.into_inner().into_owned(), Self { value: value.into_inner(), variables })
                });
                visitor.visit_map(MapDeserializer::new(entries))
            }
            value @ DeValue::Datetime(_) => Err(Self { value, variables }.is_not("a value")),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.value.is_bool() { self.deserialize_any(visitor) } else { Err(self.is_not("true or false")) }
    }

    /// A number may be a string, because a variable has nothing else.
    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        Text(&text(&self.value, self.variables).map_err(Wrong::Value)?).deserialize_u32(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        Text(&text(&self.value, self.variables).map_err(Wrong::Value)?).deserialize_u64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.value.is_str() { self.deserialize_any(visitor) } else { Err(self.is_not("a string")) }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.value.is_array() { self.deserialize_any(visitor) } else { Err(self.is_not("a list")) }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.value.is_table() { self.deserialize_any(visitor) } else { Err(self.is_not("a table")) }
    }

    /// A struct is a table only. serde would also take a list.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let word = String::deserialize(self)?;
        visitor.visit_enum(word.into_deserializer())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}
