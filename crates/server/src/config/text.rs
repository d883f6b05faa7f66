//! The text of a setting, which has the same form in an option, a variable and the file, as serde reads it.

use std::{
    num::{NonZeroU32, NonZeroU64},
    str::FromStr,
};

use schemars::JsonSchema;
use serde::{
    Deserialize,
    de::{Deserializer, IntoDeserializer, Visitor, value::SeqDeserializer},
    forward_to_deserialize_any,
};

use super::fault::Wrong;

/// A text of any value. The elements of a list are separated by commas.
#[derive(Clone, Copy)]
pub(super) struct Text<'a>(pub(super) &'a str);

/// A text that is not empty.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct NonEmpty(pub String);

impl TryFrom<String> for NonEmpty {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.trim().is_empty() { Err("must not be empty") } else { Ok(Self(text)) }
    }
}

// === impl Text ===

impl Text<'_> {
    fn parse<T: FromStr>(self, form: &str) -> Result<T, Wrong> {
        self.0.trim().parse().map_err(|_| Wrong::Value(format!("{:?} is not {form}", self.0)))
    }
}

impl IntoDeserializer<'_, Wrong> for Text<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Every number but a port is one that counts something, so it is above zero.
impl<'de> Deserializer<'de> for Text<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_str(self.0)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_bool(self.parse("true or false")?)
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

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let elements = self.0.split(',').map(str::trim).filter(|element| !element.is_empty());
        visitor.visit_seq(SeqDeserializer::new(elements.map(Text)))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_enum(self.0.trim().into_deserializer())
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
        i8 i16 i32 i64 i128 u8 u128 f32 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct
        identifier ignored_any
    }
}
