//! Characters that come in two halves.
//!
//! JSON may escape a character beyond U+FFFF as two UTF-16 units, and some servers cut their deltas between the two. No Rust
//! string holds half a character, and `serde_json` refuses one. So [`repair`] writes a half at the edge of a JSON string as
//! two characters that nobody sends, [`SurrogateHalves`] joins it with the other half from the next piece, and a half that remains
//! alone becomes U+FFFD. This module does not know what the text is for.

use std::{borrow::Cow, ops::RangeInclusive};

use fermata_protocol::utf16_unit;

/// The character before a half. It is a noncharacter, which programs may use internally and texts do not contain.
const MARK: char = '\u{fdd0}';

/// The number that is added to a half, which makes it a private-use character.
const OFFSET: u32 = 0x10_0000;

const HIGH: RangeInclusive<u16> = 0xd800..=0xdbff;
const LOW: RangeInclusive<u16> = 0xdc00..=0xdfff;

/// The length of an escape such as `\ud83e`.
const ESCAPE: usize = 6;

/// Joins the halves across the pieces of one text.
#[derive(Debug, Default)]
pub(super) struct SurrogateHalves {
    high: Option<u16>,
}

// === impl SurrogateHalves ===

impl SurrogateHalves {
    /// Puts the half that is held in front of the piece, and holds a first half that the piece ends with.
    pub(super) fn join(&mut self, piece: String) -> String {
        if self.high.is_none() && !piece.contains(MARK) {
            return piece;
        }
        let mut units: Vec<u16> = self.high.take().into_iter().collect();
        let mut characters = piece.chars().peekable();
        while let Some(character) = characters.next() {
            if character == MARK
                && let Some(half) = characters.peek().copied().and_then(half_in)
            {
                characters.next();
                units.push(half);
            } else {
                units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
            }
        }
        self.high = units.pop_if(|unit| HIGH.contains(unit));
        String::from_utf16_lossy(&units)
    }

    /// Ends the text: a half that is still held becomes U+FFFD.
    pub(super) fn flush(&mut self) -> Option<String> {
        self.high.take().map(|_| char::REPLACEMENT_CHARACTER.to_string())
    }
}

/// Replaces each half in a complete text by U+FFFD.
pub(super) fn without_halves(text: String) -> String {
    let mut halves = SurrogateHalves::default();
    let joined = halves.join(text);
    joined + &halves.flush().unwrap_or_default()
}

/// Rewrites the escapes of the JSON text that are half a character, so that `serde_json` accepts them.
pub(super) fn repair(json: &str) -> Cow<'_, str> {
    // Most texts have no escape at all.
    let Some(first) = memchr::memchr(b'\\', json.as_bytes()) else { return Cow::Borrowed(json) };
    if !json[first..].contains("\\ud") && !json[first..].contains("\\uD") {
        return Cow::Borrowed(json);
    }
    let mut repaired = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(position) = rest.find('\\') {
        let (before, escape) = rest.split_at(position);
        repaired.push_str(before);
        // A quote that is part of an escape was read with that escape, so this one begins the string.
        let (length, replacement) = read_escape(escape, before.ends_with('"'));
        match replacement {
            Some(characters) => repaired.extend(characters),
            None => repaired.push_str(&escape[..length]),
        }
        rest = &escape[length..];
    }
    repaired.push_str(rest);
    Cow::Owned(repaired)
}

/// Returns the length of the escape at the start of the text, and the characters that replace it if it is half a character.
fn read_escape(text: &str, begins_string: bool) -> (usize, Option<Vec<char>>) {
    let Some(unit) = utf16_unit(text) else {
        let length = text.chars().take(2).map(char::len_utf8).sum();
        return (length, None);
    };
    let after = &text[ESCAPE..];
    let (is_high, is_low) = (HIGH.contains(&unit), LOW.contains(&unit));
    if !is_high && !is_low {
        return (ESCAPE, None);
    }
    if is_high && utf16_unit(after).is_some_and(|unit| LOW.contains(&unit)) {
        return (2 * ESCAPE, None);
    }
    let may_be_joined = (is_high && after.starts_with('"')) || (is_low && begins_string);
    let replacement = match char::from_u32(OFFSET + u32::from(unit)) {
        Some(moved) if may_be_joined => vec![MARK, moved],
        _ => vec![char::REPLACEMENT_CHARACTER],
    };
    (ESCAPE, Some(replacement))
}

/// Returns the half that the character after a [`MARK`] stands for.
fn half_in(character: char) -> Option<u16> {
    let unit = u16::try_from(u32::from(character).checked_sub(OFFSET)?).ok()?;
    if HIGH.contains(&unit) || LOW.contains(&unit) { Some(unit) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins JSON strings with these contents as the pieces of one text.
    fn joined(pieces: &[&str]) -> String {
        let mut halves = SurrogateHalves::default();
        let piece = |piece: &&str| {
            let json = format!("\"{piece}\"");
            halves.join(serde_json::from_str(&repair(&json)).unwrap())
        };
        let text: String = pieces.iter().map(piece).collect();
        text + &halves.flush().unwrap_or_default()
    }

    #[test]
    fn halves_are_joined_across_pieces_and_nowhere_else() {
        for (pieces, text) in [
            (&[r"x\ud83e", r"\udd80y"][..], "x🦀y"),
            (&[r"\uD83E", "", r"\uDD80"], "🦀"),
            (&[r"\ud83e\udd80\ud83e", r"\udd80\ud83e\udd80"], "🦀🦀🦀"),
            (&[r"\ud83e", r"\ud83e", r"\udd80"], "\u{fffd}🦀"),
            (&[r"\ud83e", "a", r"\udd80"], "\u{fffd}a\u{fffd}"),
            (&[r"\ud83e", "🦀"], "\u{fffd}🦀"),
            (&[r"a\ud83eb", r"a\udd80b"], "a\u{fffd}ba\u{fffd}b"),
            (&[r"\ud83e\n", r"\n\udd80"], "\u{fffd}\n\n\u{fffd}"),
            (&[r#"\"\udd80"#, r#"\ud83e\""#], "\"\u{fffd}\u{fffd}\""),
            (&[r"\udd80\ud83e"], "\u{fffd}\u{fffd}"),
            (&[r"\\ud83e", r"\\udd80"], r"\ud83e\udd80"),
            (&[r"\ud7ff\ue000"], "\u{d7ff}\u{e000}"),
        ] {
            assert_eq!(joined(pieces), text, "{pieces:?}");
        }
    }

    #[test]
    fn json_that_is_cut_or_wrong_is_repaired_as_far_as_it_goes() {
        for json in [r#"{"\ud8"#, r#""\ud83e\"#, r#""\ud8ää""#, r"\u", "\\", "\\ä", r"\ud"] {
            assert!(!repair(json).contains(r"\ud83e"), "{json}");
        }
    }

    #[test]
    fn the_characters_that_stand_for_a_half_are_themselves_if_they_stand_alone() {
        let text = "\u{fdd0}a\u{10d83e}\u{fdd0}";
        assert_eq!(without_halves(text.into()), text);
    }
}
