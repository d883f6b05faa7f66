//! Fields that may have any type.
//!
//! Vendors leave fields out, set them to null and give them types of their own. Nothing here fails on well-formed JSON: a value of an
//! unexpected type counts as absent. The fields are read directly, without a `Value` in between, because every delta passes through here.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

/// Text that may be absent, null, or of another type. A number becomes its digits, because some ids are numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text(pub(super) String);

/// The arguments of a call: JSON text, or the object itself, which becomes its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments(pub(super) String);

/// Text and reasoning: a string, or a list of typed parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) thinking: String,
}

/// A part of such a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContentPart {
    text: Text,
    /// It is a string or a list of text parts.
    thinking: Content,
}

/// The limit on the objects of a list. An answer of a few bytes per object would take hundreds of times its size in memory otherwise.
const MAX_OBJECTS: usize = 1_000;

/// The objects in any JSON: the object itself, or those among the items of a list. Any other JSON has none.
#[derive(Debug)]
pub(super) struct Objects<T> {
    pub(super) object: Option<T>,
    pub(super) items: Vec<T>,
}

struct ObjectsVisitor<T>(PhantomData<T>);

struct FirstVisitor<T>(PhantomData<T>);

struct TextVisitor {
    takes_objects: bool,
}

struct ContentVisitor;

/// Implements the visits of scalars that count as absent.
macro_rules! absent {
    ($($visit:ident: $scalar:ty),+) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }

        $(fn $visit<E>(self, _: $scalar) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        })+
    };
}

/// Reads the objects of a list. Any other JSON has none.
pub(super) fn read_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Objects::deserialize(deserializer)?.items)
}

/// Reads the first object of a list, and passes over the rest. Any other JSON has none.
pub(super) fn read_first<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(FirstVisitor(PhantomData))
}

/// Reads an object. Any other JSON counts as absent.
pub(super) fn read_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(Objects::deserialize(deserializer)?.object)
}

// === impl Objects ===

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self { object: None, items: Vec::new() }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Objects<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectsVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectsVisitor<T> {
    type Value = Objects<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Objects<T>, A::Error> {
        let object = T::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Objects { object: Some(object), items: Vec::new() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Objects<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(Objects { object, .. }) = list.next_element::<Objects<T>>()? {
            items.extend(object);
            if items.len() > MAX_OBJECTS {
                return Err(de::Error::custom(format_args!("a list has more than {MAX_OBJECTS} objects")));
            }
        }
        Ok(Objects { object: None, items })
    }

    absent!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);
}

// === impl FirstVisitor ===

impl<'de, T: Deserialize<'de>> Visitor<'de> for FirstVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<T>, A::Error> {
        let mut first = None;
        while first.is_none() {
            let Some(Objects { object, .. }) = list.next_element()? else { return Ok(None) };
            first = object;
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(first)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<T>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    absent!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);
}

// === impl Text ===

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor { takes_objects: false }).map(Self)
    }
}

// === impl Arguments ===

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor { takes_objects: true }).map(Self)
    }
}

impl<'de> Visitor<'de> for TextVisitor {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    absent!(visit_bool: bool);

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

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text or a list of parts")
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content { text: text.to_owned(), thinking: String::new() })
    }

    absent!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64);

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
