//! Text that people and models wrote, as a column.
//!
//! SQLite takes every character, and PostgreSQL every character but U+0000. In PostgreSQL two other characters stand for it, such that
//! different texts stay different. JSON does not need this, because it escapes control characters.

use bytes::BytesMut;
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};
use tokio_postgres::types::{self, IsNull, Type, accepts, to_sql_checked};

use crate::error::BoxError;

/// A text in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

/// A text that is to be in a column.
#[derive(Clone, Copy, Debug)]
pub struct TextRef<'a>(pub &'a str);

/// Begins a pair in PostgreSQL. Few texts contain this character; those that do get one character longer for each.
const ESCAPE: char = '\u{1a}';
/// Follows [`ESCAPE`] in the pair that stands for U+0000.
const ZERO: char = '0';
/// Follows [`ESCAPE`] in the pair that stands for [`ESCAPE`] itself.
const ITSELF: char = '1';

/// The text as a column takes it.
pub fn text(text: &str) -> TextRef<'_> {
    TextRef(text)
}

fn escape(text: &str) -> Option<String> {
    text.contains(['\0', ESCAPE]).then(|| {
        let mut escaped = String::with_capacity(text.len() + 8);
        for character in text.chars() {
            match character {
                '\0' => escaped.extend([ESCAPE, ZERO]),
                ESCAPE => escaped.extend([ESCAPE, ITSELF]),
                other => escaped.push(other),
            }
        }
        escaped
    })
}

fn unescape(text: &str) -> Result<String, BoxError> {
    let mut unescaped = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        unescaped.push(match character {
            ESCAPE => match characters.next() {
                Some(ZERO) => '\0',
                Some(ITSELF) => ESCAPE,
                Some(_) | None => return Err("a text ends in the middle of a pair".into()),
            },
            other => other,
        });
    }
    Ok(unescaped)
}

// === impl Text ===

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<Text> for ToSqlOutput<'_> {
    fn from(Text(text): Text) -> Self {
        text.into()
    }
}

impl FromSql for Text {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        String::column_result(value).map(Self)
    }
}

impl types::ToSql for Text {
    fn to_sql(&self, r#type: &Type, buffer: &mut BytesMut) -> Result<IsNull, BoxError> {
        let escaped = escape(&self.0);
        types::ToSql::to_sql(escaped.as_ref().unwrap_or(&self.0), r#type, buffer)
    }

    accepts!(TEXT);
    to_sql_checked!();
}

impl<'r> types::FromSql<'r> for Text {
    fn from_sql(r#type: &Type, bytes: &'r [u8]) -> Result<Self, BoxError> {
        let text = <&str as types::FromSql>::from_sql(r#type, bytes)?;
        if text.contains(ESCAPE) { unescape(text).map(Self) } else { Ok(Self(text.to_owned())) }
    }

    fn accepts(r#type: &Type) -> bool {
        <&str as types::FromSql>::accepts(r#type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_and_no_two_are_alike() {
        let texts = ["", "a", "\0", "\u{1a}", "\u{1a}0", "\u{1a}1", "\0\0", "a\0b\u{1a}c", "0", "\u{1a}\0"];
        let stored: Vec<_> = texts.map(|text| escape(text).unwrap_or_else(|| text.to_owned())).into();
        for (n, (text, escaped)) in texts.iter().zip(&stored).enumerate() {
            assert!(!escaped.contains('\0'));
            assert_eq!(unescape(escaped).unwrap(), *text);
            assert!(!stored[..n].contains(escaped), "{escaped:?} stands for two");
        }
    }

    #[test]
    fn a_text_that_nobody_wrote_so_is_not_read() {
        for wrong in ["\u{1a}", "\u{1a}2", "a\u{1a}"] {
            assert!(unescape(wrong).is_err(), "{wrong:?}");
        }
    }
}
