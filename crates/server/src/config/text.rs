//! Values of the file as the text that a variable would have.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};

/// A string, a number, `true`, `false`, or a list of these, as text: the elements of a list are separated by commas.
pub(super) struct Text(pub(super) String);

/// A text that is not empty.
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub(super) struct NonEmpty(pub(super) String);

struct TextVisitor;

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, not a table")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.to_owned()))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Text, E> {
        Ok(Text(truth.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Text, A::Error> {
        let mut texts = Vec::new();
        while let Some(Text(text)) = elements.next_element()? {
            texts.push(text);
        }
        Ok(Text(texts.join(",")))
    }
}

impl TryFrom<String> for NonEmpty {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.trim().is_empty() { Err("must not be empty") } else { Ok(Self(text)) }
    }
}
