//! Settings and tables of the file, as serde reads them.
//!
//! serde reads from [`Node`] and not from `toml`, because an error of `toml` is already a sentence, and may repeat a value.

use std::{
    borrow::Cow,
    num::{NonZeroU32, NonZeroU64},
    str::FromStr,
};

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
    variables::Variables,
};

/// A value that serde reads.
pub(super) enum Node<'a> {
    /// The text of a setting, which has the same form in an option, a variable and the file. Commas separate the elements of a list.
    Text(Cow<'a, str>),
    /// A value in a table of the file. `${NAME}` in its strings is replaced from the variables.
    Value(DeValue<'a>, Variables<'a>),
}

const UNQUOTED_TIME: &str = "a date or time must be a string, in quotes";

/// Reads the value of a key.
pub(super) fn read<T: DeserializeOwned>(
    key: &str,
    value: Spanned<DeValue<'_>>,
    variables: Variables<'_>,
) -> Result<T, Fault> {
    let spanned = value.clone();
    serde_path_to_error::deserialize(Node::Value(value.into_inner(), variables)).map_err(|error| {
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
        let found = variables.get(name)?;
        expanded += &found.ok_or_else(|| format!("the environment variable {name} is not set"))?.text;
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

impl<'a> Node<'a> {
    /// Returns an error if it is a value of another kind than this. A text may be read as any kind.
    fn must_be(self, is_kind: fn(&DeValue<'a>) -> bool, expected: &str) -> Result<Self, Wrong> {
        let found = match &self {
            Self::Text(_) => return Ok(self),
            Self::Value(value, _) if is_kind(value) => return Ok(self),
            Self::Value(DeValue::String(_), _) => Unexpected::Str(""),
            Self::Value(DeValue::Integer(_), _) => Unexpected::Signed(0),
            Self::Value(DeValue::Float(_), _) => Unexpected::Float(0.0),
            Self::Value(DeValue::Boolean(_), _) => Unexpected::Bool(true),
            Self::Value(DeValue::Array(_), _) => Unexpected::Seq,
            Self::Value(DeValue::Table(_), _) => Unexpected::Map,
            Self::Value(DeValue::Datetime(_), _) => return Err(Wrong::custom(UNQUOTED_TIME)),
        };
        Err(Wrong::invalid_type(found, &expected))
    }

    fn text(self) -> Result<String, Wrong> {
        match self {
            Self::Text(text) => Ok(text.into_owned()),
            Self::Value(value, variables) => text(&value, variables).map_err(Wrong::Value),
        }
    }

    fn parse<T: FromStr>(self, form: &str) -> Result<T, Wrong> {
        let text = self.text()?;
        text.trim().parse().map_err(|_| Wrong::Value(format!("{text:?} is not {form}")))
    }
}

impl IntoDeserializer<'_, Wrong> for Node<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Every number is a port or counts something, and may be a string, because a variable has nothing else.
impl<'de> Deserializer<'de> for Node<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let (value, variables) = match self {
            Self::Text(text) => return visitor.visit_str(&text),
            Self::Value(value, variables) => (value, variables),
        };
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
                let elements = elements.into_iter().map(|value| Self::Value(value.into_inner(), variables));
                visitor.visit_seq(SeqDeserializer::new(elements))
            }
            DeValue::Table(table) => {
                let entries = table.into_iter().map(|(name, value)| {
                    (name.into_inner().into_owned(), Self::Value(value.into_inner(), variables))
                });
                visitor.visit_map(MapDeserializer::new(entries))
            }
            DeValue::Datetime(_) => Err(Wrong::custom(UNQUOTED_TIME)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_bool(self.must_be(DeValue::is_bool, "true or false")?.parse("true or false")?)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_u16(self.parse("a port, from 0 to 65535")?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_u32(self.parse::<NonZeroU32>("a whole number above zero")?.get())
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_u64(self.parse::<NonZeroU64>("a whole number above zero")?.get())
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_f64(self.parse("a number")?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_string(self.must_be(DeValue::is_str, "a string")?.text()?)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.must_be(DeValue::is_array, "a list")? {
            Self::Text(text) => {
                let elements = text.split(',').map(str::trim).filter(|element| !element.is_empty());
                visitor.visit_seq(SeqDeserializer::new(elements.map(|element| Node::Text(element.into()))))
            }
            list @ Self::Value(..) => list.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.must_be(DeValue::is_table, "a table")?.deserialize_any(visitor)
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
        visitor.visit_enum(word.trim().into_deserializer())
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
        i8 i16 i32 i64 i128 u8 u128 f32 char str bytes byte_buf unit unit_struct tuple tuple_struct identifier
        ignored_any
    }
}
