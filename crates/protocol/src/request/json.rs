//! A body as JSON: its size, and only those of its fields that are read.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::RequestError;

/// A body that clients post.
pub trait Posted: Sized {
    /// Reads it. Unknown fields are skipped, and cost nothing even if they are large.
    ///
    /// # Errors
    /// Returns the reason why it cannot be taken.
    fn from_json(json: &[u8]) -> Result<Self, BodyError>;

    /// `true` if a [`HistorySkipper`](super::HistorySkipper) may shorten it.
    const HAS_HISTORY: bool = false;

    /// Notes that the history was shortened.
    fn note_skipped_history(&mut self) {}
}

/// The reason why a body cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is no JSON.
    #[error(transparent)]
    NotJson(#[from] serde_json::Error),
    /// It has an unexpected type or value.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// The amount of JSON, whether or not it is well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Values: each object, list, text, number, truth value and `null`.
    pub nodes: usize,
    /// Objects and lists within one another.
    pub depth: usize,
}

/// The most memory that a value of a body takes while it is read, apart from its text. A test watches over it.
pub const NODE_BYTES: usize = 1 << 10;

/// Builds an object with these fields, and skips all others.
struct Known<'a>(&'a [&'static [&'static str]]);

/// Counts what would be built, without building it.
pub fn measure(json: &[u8]) -> Measure {
    let (mut nodes, mut depth, mut deepest) = (1, 0_usize, 0);
    let (mut in_text, mut escaped, mut just_opened) = (false, false, false);
    for byte in json {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        // The token behind a bracket is the first of its contents, unless it is the other bracket.
        if just_opened && !matches!(byte, b']' | b'}') {
            nodes += 1;
        }
        just_opened = matches!(byte, b'[' | b'{');
        match byte {
            b'"' => in_text = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => nodes += 1,
            _ => {}
        }
    }
    Measure { nodes, depth: deepest }
}

/// The body with the fields of these lists, as far as it has them. Anything but an object is built only as far as an error names its kind.
pub(super) fn known_fields(
    json: &[u8],
    known: &[&'static [&'static str]],
) -> Result<Value, serde_json::Error> {
    read_text(json, |json| {
        let mut json = serde_json::Deserializer::from_str(json);
        let body = Known(known).deserialize(&mut json)?;
        json.end()?;
        Ok(body)
    })
}

/// Reads a JSON value. Lone surrogates in its texts become U+FFFD.
pub(super) fn read_value(json: &[u8]) -> Result<Value, serde_json::Error> {
    read_text(json, |json| serde_json::from_str(json))
}

fn read_text(
    json: &[u8],
    read: impl Fn(&str) -> Result<Value, serde_json::Error>,
) -> Result<Value, serde_json::Error> {
    // The parser would not look at the parts that it skips.
    let json = std::str::from_utf8(json).map_err(serde_json::Error::custom)?;
    read(json).or_else(|error| match without_lone_surrogates(json) {
        Some(json) => read(&json),
        None => Err(error),
    })
}

/// Replaces the escapes of lone surrogates by that of U+FFFD; `None` if there are none. JavaScript writes them for a string that was cut in the
/// middle of a character, and no Rust string can hold them.
pub(super) fn without_lone_surrogates(json: &str) -> Option<String> {
    let mut written = String::new();
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at..];
        let (length, is_lone) = match (utf16_unit(escape), escape.get(6..).and_then(utf16_unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, false),
            (Some(0xd800..=0xdfff), _) => (6, true),
            (Some(_), _) => (6, false),
            (None, _) => (escape.chars().take(2).map(char::len_utf8).sum(), false),
        };
        if is_lone {
            written.push_str(&rest[..at]);
            written.push_str("\\ufffd");
        } else {
            written.push_str(&rest[..at + length]);
        }
        rest = &escape[length..];
    }
    written.push_str(rest);
    if written == json { None } else { Some(written) }
}

/// Returns the UTF-16 unit of the escape that a text begins with, such as `\ud83d`.
pub fn utf16_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        u16::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

impl<'de> DeserializeSeed<'de> for Known<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Known<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if self.0.iter().any(|known| known.contains(&name.as_str())) {
                fields.insert(name, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut is_empty = true;
        while list.next_element::<IgnoredAny>()?.is_some() {
            is_empty = false;
        }
        Ok(Value::Array(if is_empty { Vec::new() } else { vec![Value::Null] }))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
            Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        }
    }

    #[test]
    fn as_many_values_are_counted_as_would_be_built() {
        for (json, depth) in [
            ("1", 0),
            ("[]", 1),
            (" [ ] ", 1),
            ("{ }", 1),
            ("[1]", 1),
            ("[[],[]]", 2),
            ("[[[]]]", 3),
            ("{\"\":0}", 1),
            ("[{\"\":0},{\"\":0}]", 2),
            ("{\"a\":[1, 2 ,3],\"b\":{\"c\":null,\"d\":[{}]}}", 4),
            ("[\"a,b[{\\\"]\",\"\\\\\",\"\\\\\\\",[\"]", 1),
        ] {
            let value: Value = serde_json::from_str(json).expect("JSON");
            assert_eq!(measure(json.as_bytes()), Measure { nodes: count(&value), depth }, "{json}");
        }
    }

    #[test]
    fn what_is_no_json_can_be_measured_too() {
        for json in ["", "]]]", "[[[", "\"", "\"\\", ",,,", "{\"a\":", "\u{0}"] {
            measure(json.as_bytes());
        }
        assert_eq!(measure("[".repeat(1000).as_bytes()).depth, 1000);
        assert_eq!(measure(b"]]]]]][[").depth, 2);
    }

    #[test]
    fn only_known_fields_are_built() {
        let json = br#"{"a": 1, "zzz": [[], {"a": 2}, "\"}"], "b": {"zzz": 3}, "a": 4}"#;
        let body = known_fields(json, &[&["a"], &["b"]]).expect("a body");
        assert_eq!(body, serde_json::json!({"a": 4, "b": {"zzz": 3}}));
    }

    #[test]
    fn a_skipped_field_must_be_json_and_nothing_may_follow() {
        for json in [r#"{"zzz": [}"#, r#"{"zzz": 01}"#, r#"{"zzz": 1"#, r#"{"zzz": 1} 2"#, "[1,]", "", "nul"]
        {
            assert!(known_fields(json.as_bytes(), &[&["a"]]).is_err(), "{json}");
        }
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        for (json, read) in [
            (r#"{"a": "x\ud83d"}"#, "x\u{fffd}"),
            (r#"{"a": "\ude00x"}"#, "\u{fffd}x"),
            (r#"{"a": "\uD83D\uD83D\uDE00"}"#, "\u{fffd}😀"),
            (r#"{"a": "\\ud83d \\\ud83d"}"#, "\\ud83d \\\u{fffd}"),
            (r#"{"a": "😀\ud83dä"}"#, "😀\u{fffd}ä"),
            (r#"{"\ud83d": 1, "a": "\u00e4\ude00"}"#, "ä\u{fffd}"),
        ] {
            assert_eq!(known_fields(json.as_bytes(), &[&["a"]]).expect("JSON")["a"], read, "{json}");
        }
        for json in [r#"{"a": "\ud83"}"#, r#"{"a": "\ud83"#, r#"{"a": \ud83d}"#, "\\ä"] {
            assert!(known_fields(json.as_bytes(), &[&["a"]]).is_err(), "{json}");
        }
    }

    #[test]
    fn what_is_no_object_is_told_apart() {
        for (json, built) in [
            ("[]", "[]"),
            ("[1,2]", "[null]"),
            ("\"x\"", "\"x\""),
            ("-7", "-7"),
            ("1.5", "1.5"),
            ("null", "null"),
            ("true", "true"),
        ] {
            assert_eq!(known_fields(json.as_bytes(), &[]).expect("JSON").to_string(), built);
        }
    }
}
