//! Text that people and models wrote, as a column.
//!
//! SQLite takes every character, and PostgreSQL every character but U+0000. In PostgreSQL two other characters stand for it, such that
//! different texts stay different. JSON escapes control characters, so only JSON that PostgreSQL parses needs this.

use bytes::BytesMut;
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};
use tokio_postgres::types::{self, IsNull, Type, accepts, to_sql_checked};

use crate::error::BoxError;

/// A text in a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

/// JSON in a column that PostgreSQL parses, which it does not do if a string has U+0000.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedJson(pub String);

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

/// Replaces U+0000 in the strings of compact JSON as [`escape`] does in a text.
fn escape_json(json: &str) -> String {
    replace_escapes(json, &[("\\u0000", "\\u001a0"), ("\\u001a", "\\u001a1")])
}

fn unescape_json(json: &str) -> String {
    replace_escapes(json, &[("\\u001a0", "\\u0000"), ("\\u001a1", "\\u001a")])
}

/// Replaces escape sequences of JSON. A backslash that is escaped itself begins none.
fn replace_escapes(json: &str, replacements: &[(&str, &str)]) -> String {
    let mut replaced = String::with_capacity(json.len() + 8);
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        replaced.push_str(&rest[..at]);
        rest = &rest[at..];
        let (taken, given) = match replacements.iter().find(|(sequence, _)| rest.starts_with(sequence)) {
            Some((sequence, by)) => (sequence.len(), *by),
            None => {
                let both = rest.len().min(2);
                (both, &rest[..both])
            }
        };
        replaced.push_str(given);
        rest = &rest[taken..];
    }
    replaced.push_str(rest);
    replaced
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

// === impl ParsedJson ===

impl From<ParsedJson> for ToSqlOutput<'_> {
    fn from(ParsedJson(json): ParsedJson) -> Self {
        json.into()
    }
}

impl FromSql for ParsedJson {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        String::column_result(value).map(Self)
    }
}

impl types::ToSql for ParsedJson {
    fn to_sql(&self, r#type: &Type, buffer: &mut BytesMut) -> Result<IsNull, BoxError> {
        if self.0.contains("\\u00") {
            return types::ToSql::to_sql(&escape_json(&self.0), r#type, buffer);
        }
        types::ToSql::to_sql(&self.0, r#type, buffer)
    }

    accepts!(TEXT);
    to_sql_checked!();
}

impl<'r> types::FromSql<'r> for ParsedJson {
    fn from_sql(r#type: &Type, bytes: &'r [u8]) -> Result<Self, BoxError> {
        let json = <&str as types::FromSql>::from_sql(r#type, bytes)?;
        Ok(Self(if json.contains("\\u001a") { unescape_json(json) } else { json.to_owned() }))
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

    #[test]
    fn json_comes_back_and_postgres_can_parse_it() {
        for text in ["", "\0", "\u{1a}", "\u{1a}0", "\\u0000", "\\", "a\0\u{1a}\"\\\u{1}", "ü\0"] {
            let json = serde_json::to_string(text).unwrap();
            let escaped = escape_json(&json);
            let parsed: String = serde_json::from_str(&escaped).unwrap();
            assert!(!parsed.contains('\0'), "{escaped}");
            assert_eq!(unescape_json(&escaped), json);
        }
    }
}
