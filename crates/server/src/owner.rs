//! The names of owners, as tokens, proxies and settings give them.
//!
//! Invariant: two owners whose names look the same on a screen are the same owner, as far as white space, invisible characters and other
//! forms of Latin letters and digits are concerned. Letters of other scripts that look like Latin ones are allowed: names are written with
//! them.

use fermata_tools::Owner;
use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization;

/// The limit on the name of an owner, in characters.
const LONGEST_NAME: usize = 255;

/// Returns the owner with this name, or a predicate that describes the fault of the name.
pub(crate) fn read_owner(name: &str) -> Result<Owner, &'static str> {
    let owner = Owner::new(name);
    if name.trim().is_empty() {
        Err("is empty")
    } else if name.chars().nth(LONGEST_NAME).is_some() {
        Err("is longer than 255 characters")
    } else if name.chars().any(char::is_control) {
        Err("has a control character")
    } else if name.trim() != name {
        Err("begins or ends with white space")
    } else if name.chars().any(is_invisible) {
        Err("has an invisible character")
    } else if name.chars().any(is_other_form) {
        Err("has a letter or digit in another form than the usual one, such as a full-width letter")
    } else if owner == Owner::anyone() {
        Err("is the reserved name of the owner of a server without authentication")
    } else {
        Ok(owner)
    }
}

/// Returns whether nothing of a character is seen: it formats others, separates lines, selects a variant, or fills a place.
fn is_invisible(c: char) -> bool {
    let category = get_general_category(c);
    matches!(
        category,
        GeneralCategory::Format | GeneralCategory::LineSeparator | GeneralCategory::ParagraphSeparator
    ) || matches!(
        c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Returns whether a character is another form of ASCII letters or digits, such as a full-width, a superscript or a mathematical one.
fn is_other_form(c: char) -> bool {
    !c.is_ascii() && std::iter::once(c).nfkc().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_others_are_refused() {
        for (name, reason) in [
            ("", "empty"),
            (" ", "empty"),
            (" alice", "white space"),
            ("alice ", "white space"),
            ("alice\u{a0}", "white space"),
            ("\u{3000}alice", "white space"),
            ("alice\n", "control"),
            ("al\u{85}ice", "control"),
            ("\u{202e}alice", "invisible"),
            ("al\u{200b}ice", "invisible"),
            ("al\u{ad}ice", "invisible"),
            ("\u{feff}alice", "invisible"),
            ("alice\u{2028}b", "invisible"),
            ("alice\u{fe0f}", "invisible"),
            ("alice\u{e0061}", "invisible"),
            ("al\u{3164}ice", "invisible"),
            ("\u{ff41}lice", "another form"),
            ("user-\u{ff11}", "another form"),
            ("\u{1d41a}lice", "another form"),
            ("\u{fb01}n", "another form"),
            ("anyone", "reserved"),
        ] {
            let fault = read_owner(name).expect_err(name);
            assert!(fault.contains(reason), "{name:?}: {fault}");
        }
        let longest = "x".repeat(LONGEST_NAME);
        assert_eq!(read_owner(&format!("{longest}x")), Err("is longer than 255 characters"));
        for name in [
            &longest,
            "alice",
            "Anyone",
            "alice smith",
            "auth0|5f7c8ec7c33c6c004bbafe82",
            "örtlich@exämple.com",
            "王小明（研发）",
            "山田\u{3000}太郎",
            "Алиса",
            "محمد",
        ] {
            assert_eq!(read_owner(name), Ok(Owner::new(name)), "{name}");
        }
    }
}
