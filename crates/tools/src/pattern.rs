//! Globs in rules and settings.

use std::fmt;

use wildmatch::WildMatch;

/// A glob that must match a whole text. `*` matches any characters, including `/` and line ends; `?` matches one. Case is significant.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern(WildMatch);

impl Pattern {
    /// Parses a glob. Every text is a valid glob.
    pub fn new(glob: &str) -> Self {
        Self(WildMatch::new(glob))
    }

    /// Returns whether the glob matches the whole text.
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
    fn a_glob_matches_the_whole_text_with_any_characters() {
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
