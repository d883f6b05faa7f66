//! Globs, as rules and settings use them.

use std::fmt;

use wildmatch::WildMatch;

/// A glob over the whole of a text: `*` is any characters, also `/` and line ends, `?` is one. Case counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern(WildMatch);

impl Pattern {
    /// Reads a glob; every text is one.
    pub fn new(glob: &str) -> Self {
        Self(WildMatch::new(glob))
    }

    /// Whether it matches all of the text.
    pub fn matches(&self, text: &str) -> bool {
        self.0.matches(text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_is_about_all_of_the_text_whatever_its_characters() {
        let secret = Pattern::new("*secret*");
        for text in ["secret", "a/secret/b", "two\nlines, secret\n", "a.secret.b", "ünsecretß"] {
            assert!(secret.matches(text), "{text:?}");
        }
        assert!(!secret.matches("Secret") && !Pattern::new("secret").matches("a secret"));
        assert!(Pattern::new("a?c").matches("aßc") && !Pattern::new("a?c").matches("ac"));
        assert!(Pattern::new("").matches("") && !Pattern::new("").matches("a"));
        assert_eq!(Pattern::new("a*b?").to_string(), "a*b?");
    }
}
