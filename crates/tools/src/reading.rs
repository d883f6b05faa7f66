//! The ways that programs may read a text.
//!
//! A file system may ignore the case of letters, a parser may drop a tab, and a person sees neither a soft hyphen nor the width of a letter.
//! This module knows texts only. It does not know what a text is about, and it does not look for letters of other scripts that look alike.

use unicode_normalization::UnicodeNormalization;

/// Returns whether a character leaves no mark of its own: a control character, a tag, or one of those that Unicode lists as
/// `Default_Ignorable_Code_Point`, such as the soft hyphen, zero-width and bidirectional characters, and variation selectors.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns a text without invisible characters, with compatible characters in one form (NFKC), and without differences of case.
pub(crate) fn fold(text: &str) -> String {
    let visible = text.nfkc().filter(|c| !is_invisible(*c));
    visible.flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfkc().collect()
}

/// Returns a text as it is, with percent signs decoded once, and with them decoded until none is left.
pub(crate) fn decodings(text: &str) -> Vec<String> {
    let mut decodings = vec![text.to_owned()];
    if text.contains('%') {
        decodings.extend([decoded(text, false), decoded(text, true)]);
        decodings.dedup();
    }
    decodings
}

/// Returns all readings of a text: its decodings, and each of them folded, with control characters dropped or taken for spaces.
pub(crate) fn readings(text: &str) -> Vec<String> {
    let mut readings = decodings(text);
    for decoding in readings.clone() {
        let spaced: String = decoding.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let spaced = fold(&spaced).split_whitespace().collect::<Vec<_>>().join(" ");
        readings.extend([fold(&decoding), spaced]);
    }
    readings.sort_unstable();
    readings.dedup();
    readings
}

/// Decodes percent signs. With `fully`, a character that results may be a part of the next escape, as in `%252e`. Bytes that are not UTF-8
/// become U+FFFD.
fn decoded(text: &str, fully: bool) -> String {
    let mut bytes: Vec<u8> = Vec::with_capacity(text.len());
    // The length of the part that is not looked at again.
    let mut done = 0;
    for byte in text.bytes() {
        bytes.push(byte);
        while let [.., b'%', high, low] = &bytes[done..]
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            bytes.truncate(bytes.len() - 3);
            bytes.push(high * 16 + low);
            if !fully {
                done = bytes.len();
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_that_look_alike_or_are_taken_for_each_other_fold_to_one() {
        for (text, folded) in [
            ("my SECRET", "my secret"),
            ("s\u{ad}ecret", "secret"),
            ("ｓｅｃｒｅｔ", "secret"),
            ("se\u{200b}cr\u{2060}et\u{feff}", "secret"),
            ("\u{202e}secret\u{202c}", "secret"),
            ("s\u{e0065}ecret\u{e007f}", "secret"),
            ("secret\u{fe0f}", "secret"),
            ("s\0ec\tret", "secret"),
            ("ⓢⓔⓒⓡⓔⓣ", "secret"),
            ("𝓼𝓮𝓬𝓻𝓮𝓽", "secret"),
            ("ſecret", "secret"),
            ("Straße", "strasse"),
            ("ﬁle", "file"),
            ("caf\u{65}\u{301}", "café"),
            ("cafe\u{200d}\u{301}", "café"),
            ("‥／ｅｔｃ", "../etc"),
        ] {
            assert_eq!(fold(text), folded, "{text:?}");
        }
    }

    #[test]
    fn percent_signs_are_decoded_once_and_fully() {
        for (text, decoded) in [
            ("a", vec!["a"]),
            ("100% of %zz", vec!["100% of %zz"]),
            ("%2e%2E/x", vec!["%2e%2E/x", "../x"]),
            ("%252e", vec!["%252e", "%2e", "."]),
            ("%2525252e", vec!["%2525252e", "%25252e", "."]),
            ("%%36%31", vec!["%%36%31", "%61", "a"]),
            ("%e4%b8%ad", vec!["%e4%b8%ad", "中"]),
            ("%c0%af", vec!["%c0%af", "\u{fffd}\u{fffd}"]),
        ] {
            assert_eq!(decodings(text), decoded, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn folding_twice_is_folding_once(text in any::<String>()) {
            prop_assert_eq!(fold(&fold(&text)), fold(&text));
        }

        #[test]
        fn a_text_is_a_reading_of_itself_and_its_case_makes_no_difference(text in "[ -~]{0,20}") {
            let readings = readings(&text);
            prop_assert!(readings.contains(&text));
            prop_assert!(readings.contains(&fold(&text.to_uppercase())));
        }
    }
}
