//! Repairs JSON text that `serde_json` refuses, without changing anything in text that it accepts.
//!
//! Servers write half a character (`"\ud83d"`), `NaN`, raw control characters and bytes that are not UTF-8, and they nest results
//! deeper than a parser goes. This module knows nothing of MCP.
//!
//! Invariant: repairing a text again changes nothing.

use serde_json::Value;

/// The number of levels of nesting that are kept. A value below them becomes a string with its text. Results are stored inside other values, and
/// `serde_json` reads 128 levels.
const MAX_DEPTH: usize = 100;

/// A repaired JSON value.
pub(crate) struct Repaired {
    pub(crate) value: Value,
    /// The number of bytes that the original takes.
    pub(crate) length: usize,
}

/// A copy in the making.
struct Repair<'a> {
    original: &'a [u8],
    at: usize,
    text: String,
}

/// Reads the JSON value that a text begins with. Text after the value is ignored.
pub(crate) fn read_first_value(original: &[u8]) -> Option<Repaired> {
    let mut repair = Repair { original, at: 0, text: String::with_capacity(original.len()) };
    repair.copy_value()?;
    let value = serde_json::from_str(&repair.text).ok()?;
    Some(Repaired { value, length: repair.at })
}

/// Returns whether a text has more levels of nesting than are kept.
pub(crate) fn is_too_deep(text: &[u8]) -> bool {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

// === impl Repair ===

impl Repair<'_> {
    /// Copies one value. Returns `None` if the text ends before the value does.
    fn copy_value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        // Where in `text` the value begins that is nested too deeply.
        let mut deep = None;
        loop {
            match self.original.get(self.at)? {
                b'"' => self.copy_string()?,
                b'{' | b'[' => {
                    depth += 1;
                    if depth > MAX_DEPTH && deep.is_none() {
                        deep = Some(self.text.len());
                    }
                    self.copy_byte();
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.copy_byte();
                    if depth == MAX_DEPTH
                        && let Some(start) = deep.take()
                    {
                        let value = Value::String(self.text.split_off(start));
                        self.text.push_str(&value.to_string());
                    }
                }
                byte if byte.is_ascii_alphabetic() || *byte == b'-' => self.copy_word(),
                byte if byte.is_ascii() => self.copy_byte(),
                _ => return None,
            }
            let ends_value = self.text.ends_with(['}', ']']);
            if depth == 0 && ends_value {
                return Some(());
            }
        }
    }

    fn copy_byte(&mut self) {
        self.text.push(char::from(self.original[self.at]));
        self.at += 1;
    }

    /// Copies a literal or a number. Words that JSON does not have become `null`.
    fn copy_word(&mut self) {
        let rest = &self.original[self.at..];
        let length =
            rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"-+._".contains(byte)).count();
        self.at += length;
        match &rest[..length] {
            b"NaN" | b"-NaN" | b"Infinity" | b"-Infinity" | b"undefined" | b"None" | b"nan" | b"inf"
            | b"-inf" => {
                self.text.push_str("null");
            }
            b"True" => self.text.push_str("true"),
            b"False" => self.text.push_str("false"),
            word => self.text.push_str(&String::from_utf8_lossy(word)),
        }
    }

    fn copy_string(&mut self) -> Option<()> {
        self.copy_byte();
        loop {
            let rest = &self.original[self.at..];
            match *rest.first()? {
                b'"' => {
                    self.copy_byte();
                    return Some(());
                }
                b'\\' => self.copy_escape()?,
                control @ ..0x20 => {
                    self.text.push_str(&format!("\\u{control:04x}"));
                    self.at += 1;
                }
                _ => {
                    let length = rest
                        .iter()
                        .take_while(|&&byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
                        .count();
                    self.text.push_str(&String::from_utf8_lossy(&rest[..length]));
                    self.at += length;
                }
            }
        }
    }

    fn copy_escape(&mut self) -> Option<()> {
        let rest = &self.original[self.at..];
        let length = match *rest.get(1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' => match (unit(rest), unit(rest.get(6..).unwrap_or_default())) {
                (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
                (Some(0xd800..=0xdfff), _) => {
                    self.text.push_str("\\ufffd");
                    self.at += 6;
                    return Some(());
                }
                (Some(_), _) => 6,
                (None, _) => 0,
            },
            _ => 0,
        };
        if length == 0 {
            // The backslash is one of the text.
            self.text.push_str(r"\\");
            self.at += 1;
        } else {
            self.text.push_str(&String::from_utf8_lossy(&rest[..length]));
            self.at += length;
        }
        Some(())
    }
}

/// Returns the UTF-16 unit of an escape such as `\ud83d`.
fn unit(escape: &[u8]) -> Option<u16> {
    let digits = escape.strip_prefix(br"\u")?.get(..4)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Option<Value> {
        read_first_value(text.as_bytes()).map(|repaired| repaired.value)
    }

    #[test]
    fn text_that_is_not_json_is_repaired() {
        for (text, expected) in [
            (r#"{"a": "x\ud83d"}"#, json!({"a": "x\u{fffd}"})),
            (r#"{"a": "\udd80\ud83e\udd80"}"#, json!({"a": "\u{fffd}\u{1f980}"})),
            (
                r#"{"a": [NaN, -Infinity, undefined, None, True]}"#,
                json!({"a": [null, null, null, null, true]}),
            ),
            ("{\"a\": \"tab\there \u{1b}[0m\"}", json!({"a": "tab\there \u{1b}[0m"})),
            (r#"{"path": "C:\Users\me \u12"}"#, json!({"path": "C:\\Users\\me \\u12"})),
            (r#"{"a": "NaN", "b": -1.5e3} and more"#, json!({"a": "NaN", "b": -1500.0})),
        ] {
            assert_eq!(read(text), Some(expected), "{text}");
        }
        let bytes = b"{\"a\": \"\xf0\x9f\"}";
        assert_eq!(read_first_value(bytes).unwrap().value, json!({"a": "\u{fffd}"}));
    }

    #[test]
    fn a_text_that_ends_before_its_value_has_none() {
        for text in ["", "{", r#"{"a": "x"#, r#"{"a": [1, 2}"#, "}", r#"{"a" 5}"#, r#"{"a": "x\"#] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn values_that_are_nested_too_deeply_become_text() {
        let nested = |levels: usize| format!("{}\"end\"{}", "[".repeat(levels), "]".repeat(levels));
        assert!(!is_too_deep(nested(MAX_DEPTH).as_bytes()) && is_too_deep(nested(MAX_DEPTH + 1).as_bytes()));
        assert!(
            !is_too_deep(format!("[\"\\\"{}\"]", "[".repeat(500)).as_bytes()),
            "brackets in a text do not count"
        );
        assert_eq!(
            read(&nested(MAX_DEPTH)).unwrap(),
            serde_json::from_str::<Value>(&nested(MAX_DEPTH)).unwrap()
        );
        let kept = read(&nested(50_000)).unwrap().to_string();
        assert!(!is_too_deep(kept.as_bytes()) && kept.contains(r#"\"end\""#), "{}", &kept[..200]);
    }

    proptest! {
        #[test]
        fn json_is_not_changed(value in any_json()) {
            let text = value.to_string();
            let read = read_first_value(text.as_bytes());
            prop_assert_eq!(read.map(|read| (read.value, read.length)), Some((value, text.len())));
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            ".*".prop_map(Value::from)
        ];
        let value = leaf.prop_recursive(4, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..4).prop_map(|map| map.into_iter().collect()),
            ]
        });
        prop::collection::vec(value, 0..4).prop_map(Value::from)
    }
}
