//! Characters that come in two halves.
//!
//! JSON may escape a character beyond U+FFFF as two UTF-16 units, and some servers cut their deltas between the two. No Rust
//! string holds half a character and no JSON parser here takes one. So [`mend`] writes a half at the edge of a JSON string as
//! two characters that nobody sends, [`Halves`] joins it with the other half from the next piece, and a half that remains
//! alone is U+FFFD. This module does not know what the text is for.

use std::{borrow::Cow, ops::RangeInclusive};

/// Stands before a half. A noncharacter: it is for a program's own use and not for text.
const MARK: char = '\u{fdd0}';

/// What a half is moved up by; that makes it a private character.
const MOVED_BY: u32 = 0x10_0000;

const HIGH: RangeInclusive<u16> = 0xd800..=0xdbff;
const LOW: RangeInclusive<u16> = 0xdc00..=0xdfff;

/// The length of an escape such as `\ud83e`.
const ESCAPE: usize = 6;

/// Joins halves across the pieces of one text.
#[derive(Debug, Default)]
pub(super) struct Halves {
    high: Option<u16>,
}

// === impl Halves ===

impl Halves {
    /// The piece with the half that was held before it, and without a first half at its end, which is held.
    pub(super) fn join(&mut self, piece: String) -> String {
        if self.high.is_none() && !piece.contains(MARK) {
            return piece;
        }
        let mut units: Vec<u16> = self.high.take().into_iter().collect();
        let mut characters = piece.chars().peekable();
        while let Some(character) = characters.next() {
            let half = characters.peek().copied().and_then(half_in).filter(|_| character == MARK);
            if let Some(half) = half {
                characters.next();
                units.push(half);
            } else {
                units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
            }
        }
        self.high = units.pop_if(|unit| HIGH.contains(unit));
        String::from_utf16_lossy(&units)
    }

    /// What stands for a half that is still held, now that the text is over.
    pub(super) fn rest(&mut self) -> Option<String> {
        self.high.take().map(|_| char::REPLACEMENT_CHARACTER.to_string())
    }
}

/// A text that came whole, with U+FFFD for each half.
pub(super) fn whole(text: String) -> String {
    let mut halves = Halves::default();
    let joined = halves.join(text);
    joined + &halves.rest().unwrap_or_default()
}

/// The JSON text without escapes that are half a character.
pub(super) fn mend(json: &str) -> Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return Cow::Borrowed(json);
    }
    let mut mended = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(place) = rest.find('\\') {
        let (before, escape) = rest.split_at(place);
        mended.push_str(before);
        // A quote that is part of an escape was taken with it: this one begins the string.
        let (length, half) = read_escape(escape, before.ends_with('"'));
        match half {
            Some(half) => mended.extend(half),
            None => mended.push_str(&escape[..length]),
        }
        rest = &escape[length..];
    }
    mended.push_str(rest);
    Cow::Owned(mended)
}

/// How long the escape at the start of the text is, and what to write instead where it is half a character.
fn read_escape(text: &str, begins_string: bool) -> (usize, Option<Vec<char>>) {
    let Some(unit) = unit(text) else {
        let length = text.chars().take(2).map(char::len_utf8).sum();
        return (length, None);
    };
    let after = &text[ESCAPE..];
    let (is_high, is_low) = (HIGH.contains(&unit), LOW.contains(&unit));
    if is_high && self::unit(after).is_some_and(|unit| LOW.contains(&unit)) {
        return (2 * ESCAPE, None);
    }
    let may_be_joined = (is_high && after.starts_with('"')) || (is_low && begins_string);
    let half = match char::from_u32(MOVED_BY + u32::from(unit)).filter(|_| may_be_joined) {
        Some(moved) => vec![MARK, moved],
        None => vec![char::REPLACEMENT_CHARACTER],
    };
    (ESCAPE, (is_high || is_low).then_some(half))
}

/// The UTF-16 unit that the escape at the start of the text stands for.
fn unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

fn half_in(character: char) -> Option<u16> {
    let unit = u16::try_from(u32::from(character).checked_sub(MOVED_BY)?).ok()?;
    (HIGH.contains(&unit) || LOW.contains(&unit)).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What JSON strings with these contents come to as the pieces of one text.
    fn joined(pieces: &[&str]) -> String {
        let mut halves = Halves::default();
        let piece = |piece: &&str| {
            let json = format!("\"{piece}\"");
            halves.join(serde_json::from_str(&mend(&json)).unwrap())
        };
        let text: String = pieces.iter().map(piece).collect();
        text + &halves.rest().unwrap_or_default()
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
    fn json_that_is_cut_or_wrong_is_mended_as_far_as_it_goes() {
        for json in [r#"{"\ud8"#, r#""\ud83e\"#, r#""\ud8ää""#, r"\u", "\\", "\\ä", r"\ud"] {
            assert!(!mend(json).contains(r"\ud83e"), "{json}");
        }
    }

    #[test]
    fn the_characters_that_stand_for_a_half_are_themselves_where_they_stand_alone() {
        let text = "\u{fdd0}a\u{10d83e}\u{fdd0}";
        assert_eq!(whole(text.into()), text);
    }
}
