//! Reasoning that a model writes into its text, between `<think>` and `</think>` at the beginning.

const BEGIN: &str = "<think>";
const END: &str = "</think>";

/// Divides the text of one answer into reasoning and text.
#[derive(Debug)]
pub(super) enum ThinkTags {
    /// The beginning of the text, which may become the tag.
    Beginning(String),
    /// The reasoning, and the end of it that may become the closing tag.
    Thinking(String),
    /// The reasoning has ended, and the line breaks after it are left out.
    Between,
    /// The text.
    Text,
}

/// A piece of an answer's text, divided.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Divided {
    pub reasoning: String,
    pub text: String,
}

impl Default for ThinkTags {
    fn default() -> Self {
        Self::Beginning(String::new())
    }
}

impl ThinkTags {
    /// Returns whether all that comes is text, so that nothing needs to be divided.
    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Text)
    }

    /// Divides a piece. A possible beginning of a tag comes with a later piece.
    pub(super) fn divide(&mut self, piece: &str) -> Divided {
        let mut divided = Divided::default();
        let mut rest = piece.to_owned();
        loop {
            match self {
                Self::Beginning(before) => {
                    rest.insert_str(0, before);
                    let trimmed = rest.trim_start();
                    if let Some(thought) = trimmed.strip_prefix(BEGIN) {
                        rest = thought.to_owned();
                        *self = Self::Thinking(String::new());
                    } else if BEGIN.starts_with(trimmed) {
                        *self = Self::Beginning(rest);
                        return divided;
                    } else {
                        *self = Self::Text;
                    }
                }
                Self::Thinking(before) => {
                    rest.insert_str(0, before);
                    if let Some((thought, after)) = rest.split_once(END) {
                        divided.reasoning.push_str(thought);
                        rest = after.to_owned();
                        *self = Self::Between;
                    } else {
                        let kept = tag_begun_in(&rest);
                        divided.reasoning.push_str(&rest[..rest.len() - kept]);
                        *self = Self::Thinking(rest[rest.len() - kept..].to_owned());
                        return divided;
                    }
                }
                Self::Between => {
                    rest = rest.trim_start().to_owned();
                    if rest.is_empty() {
                        return divided;
                    }
                    *self = Self::Text;
                }
                Self::Text => {
                    divided.text.push_str(&rest);
                    return divided;
                }
            }
        }
    }

    /// Ends the text. If something was kept back, it was no tag.
    pub(super) fn flush(&mut self) -> Divided {
        match std::mem::replace(self, Self::Text) {
            Self::Beginning(text) => Divided { text, ..Divided::default() },
            Self::Thinking(reasoning) => Divided { reasoning, ..Divided::default() },
            Self::Between | Self::Text => Divided::default(),
        }
    }
}

/// Returns the number of bytes at the end of the reasoning that may be the beginning of the closing tag.
fn tag_begun_in(reasoning: &str) -> usize {
    (1..END.len()).rev().find(|length| reasoning.ends_with(&END[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn divide(pieces: &[&str]) -> (String, String) {
        let mut tags = ThinkTags::default();
        let mut whole = Divided::default();
        for piece in pieces
            .iter()
            .map(|piece| tags.divide(piece))
            .collect::<Vec<_>>()
            .into_iter()
            .chain([tags.flush()])
        {
            whole.reasoning.push_str(&piece.reasoning);
            whole.text.push_str(&piece.text);
        }
        (whole.reasoning, whole.text)
    }

    #[test]
    fn what_stands_between_the_tags_is_reasoning() {
        for (text, reasoning, rest) in [
            ("<think>hm</think>\n\nHello", "hm", "Hello"),
            ("\n<think>\nhm\n</think>Hello", "\nhm\n", "Hello"),
            ("<think></think>Hello", "", "Hello"),
            ("<think>hm", "hm", ""),
            ("<think>a < b </th", "a < b </th", ""),
            ("Hello <think>x</think>", "", "Hello <think>x</think>"),
            ("<thin", "", "<thin"),
            (" <b>Hello</b>", "", " <b>Hello</b>"),
            ("", "", ""),
            ("<think>a</think>b</think>c", "a", "b</think>c"),
        ] {
            assert_eq!(divide(&[text]), (reasoning.to_owned(), rest.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_text_is_cut(
            text in "(<think>)?[a<>/ thinké\n]{0,12}(</think>)?[a<\n]{0,6}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).filter(|end| text.is_char_boundary(*end)).collect();
            ends.extend([0, text.len()]);
            ends.sort_unstable();
            let pieces: Vec<&str> = ends.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
            prop_assert_eq!(divide(&pieces), divide(&[&text]));
        }
    }
}
