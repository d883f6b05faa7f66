//! Consent in words: a message such as "yes" decides about the calls that wait for a person.
//!
//! This module knows words only. Whether a message may decide anything is for the plan of the post (`post.rs`).

use unicode_normalization::UnicodeNormalization;

/// The words with which a person decides about all calls that wait for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsentWords {
    /// A message that is one of these approves the calls. If there are none, no message decides anything.
    pub confirm: Vec<String>,
    /// A message that is one of these denies the calls.
    pub deny: Vec<String>,
}

impl ConsentWords {
    /// The words that approve by default.
    pub const CONFIRM: [&str; 7] = ["yes", "ok", "confirm", "确认", "继续", "同意", "是"];
    /// The words that deny by default.
    pub const DENY: [&str; 4] = ["no", "cancel", "不", "取消"];

    /// Returns `true` if a text approves, `false` if it denies, and `None` if it is about something else. The text has to be one of the words;
    /// case, width, and spaces and punctuation around it do not count.
    pub fn decision(&self, text: &str) -> Option<bool> {
        let said = folded(text);
        if said.is_empty() || self.confirm.is_empty() {
            return None;
        }
        let is_in = |words: &[String]| words.iter().any(|word| folded(word) == said);
        match (is_in(&self.confirm), is_in(&self.deny)) {
            // What is in both lists is not clear enough to run anything.
            (true, false) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        }
    }
}

impl Default for ConsentWords {
    fn default() -> Self {
        Self {
            confirm: Self::CONFIRM.map(str::to_owned).to_vec(),
            deny: Self::DENY.map(str::to_owned).to_vec(),
        }
    }
}

fn folded(text: &str) -> String {
    let folded: String = text.nfkc().flat_map(char::to_lowercase).collect();
    let words = folded.trim_matches(|c: char| !c.is_alphanumeric());
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_that_is_one_of_the_words_decides() {
        let words = ConsentWords::default();
        for (said, decision) in [
            ("yes", Some(true)),
            ("  OK!! ", Some(true)),
            ("ＹＥＳ", Some(true)),
            ("确认。", Some(true)),
            ("「是」", Some(true)),
            ("No.", Some(false)),
            ("CANCEL", Some(false)),
            ("不", Some(false)),
            ("", None),
            ("!?", None),
            ("👍", None),
            ("yes yes", None),
            ("yes, but make it blue", None),
            ("yes\n\nno", None),
            ("oh yes", None),
            ("yesterday", None),
            ("不是", None),
            ("y e s", None),
            ("no, wait, yes", None),
            ("> yes\nwhat is this?", None),
        ] {
            assert_eq!(words.decision(said), decision, "{said:?}");
        }
    }

    #[test]
    fn operators_may_have_other_words_and_may_turn_it_off() {
        let own =
            ConsentWords { confirm: vec!["Go  Ahead!".into()], deny: vec!["stop".into(), "go ahead".into()] };
        assert_eq!(own.decision("go ahead"), Some(false), "what is in both lists denies");
        let own = ConsentWords { deny: vec!["stop".into()], ..own };
        assert_eq!(own.decision("go \n ahead"), Some(true));
        assert_eq!(own.decision("yes"), None);
        let off = ConsentWords { confirm: Vec::new(), ..ConsentWords::default() };
        assert_eq!((off.decision("yes"), off.decision("no")), (None, None));
    }
}
