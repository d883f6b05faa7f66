//! What somebody who plays with the demo wants, read from their words.

/// A wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing the demo knows, or a greeting.
    Talk,
    /// What time it is.
    Time,
    /// A note to be written, with its text.
    WriteNote(String),
    /// Notes to be found, by these words.
    FindNotes(String),
    /// Where they are.
    Location,
    /// Several things at once.
    Everything,
    /// Reasoning about something.
    Think(String),
    /// A tool called by its name.
    Use(String),
}

// === impl Wish ===

impl Wish {
    /// Reads the words.
    pub(super) fn read(text: &str) -> Self {
        let text = text.trim();
        let lower = text.to_lowercase();
        let words: Vec<&str> = lower.split(|letter: char| !letter.is_alphanumeric()).collect();
        let has = |options: &[&str]| words.iter().any(|word| options.contains(word));
        if has(&["everything"]) {
            Self::Everything
        } else if let Some(name) = after(text, "use ") {
            Self::Use(name)
        } else if has(&["think"]) {
            Self::Think(after_word(text, &["about"]).unwrap_or_else(|| "that".to_owned()))
        } else if has(&["find", "search", "look"]) && has(&["note", "notes"]) {
            Self::FindNotes(after_word(text, &["about", "for", "with", "notes"]).unwrap_or_default())
        } else if has(&["note", "remember"]) {
            Self::WriteNote(
                after_word(text, &[":", "note", "remember"]).unwrap_or_else(|| "a note".to_owned()),
            )
        } else if lower.contains("where am i") || has(&["location"]) {
            Self::Location
        } else if has(&["time", "clock", "date"]) {
            Self::Time
        } else {
            Self::Talk
        }
    }
}

/// The rest after a beginning, whatever its case, without quotes and full stop.
fn after(text: &str, beginning: &str) -> Option<String> {
    let head = text.get(..beginning.len())?;
    head.eq_ignore_ascii_case(beginning)
        .then(|| bare(&text[beginning.len()..]))
        .filter(|rest| !rest.is_empty())
}

/// What follows the first of the words that is there and is followed by something.
fn after_word(text: &str, words: &[&str]) -> Option<String> {
    // Lower case may change a letter's length, so that offsets would not fit; ASCII lower case does not.
    let lower = text.to_ascii_lowercase();
    words
        .iter()
        .filter_map(|word| lower.find(word).map(|start| bare(&text[start + word.len()..])))
        .find(|rest| !rest.is_empty())
}

fn bare(text: &str) -> String {
    text.trim().trim_matches(['"', '\'', '`', '“', '”', '.', '!', '?', ':', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_are_understood() {
        for (words, wish) in [
            ("What time is it?", Wish::Time),
            ("write a note: buy milk", Wish::WriteNote("buy milk".into())),
            ("Please write a note \"Buy milk.\"", Wish::WriteNote("Buy milk".into())),
            ("remember the milk", Wish::WriteNote("the milk".into())),
            ("find my notes about milk", Wish::FindNotes("milk".into())),
            ("search notes", Wish::FindNotes(String::new())),
            ("Where am I?", Wish::Location),
            ("do everything", Wish::Everything),
            ("think about tea", Wish::Think("tea".into())),
            ("Use get_weather.", Wish::Use("get_weather".into())),
            ("hello", Wish::Talk),
            ("useful", Wish::Talk),
            ("", Wish::Talk),
            ("ÄÖ", Wish::Talk),
        ] {
            assert_eq!(Wish::read(words), wish, "{words}");
        }
    }
}
