//! The languages of the demo's answers.

/// A language that the demo answers in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// English, and every language without Chinese characters.
    English,
    /// Chinese.
    Chinese,
}

// === impl Language ===

impl Language {
    /// Returns the language of a message: one Chinese character makes it Chinese.
    pub(super) fn of(text: &str) -> Self {
        if text.chars().any(is_han) { Self::Chinese } else { Self::English }
    }

    /// Returns the value for this language.
    pub(super) fn pick<T>(self, english: T, chinese: T) -> T {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }
}

/// Returns whether a letter is a Chinese character.
pub(super) fn is_han(letter: char) -> bool {
    matches!(letter, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}
