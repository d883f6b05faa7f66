//! The similarity of two texts by their words, for when there are no vectors.
//!
//! Words are compared without case, accents and English plurals. Chinese, Japanese and Korean have no spaces between words, so pairs of
//! characters stand for words there. Words that say nothing, such as "the", do not count.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization;

use crate::model::tokens::is_wide;

/// English words that say nothing about the subject of a text.
const EMPTY_WORDS: &str = "a about all also am an and any are as at be because been but by can could did do does for from get had has have he \
her him his how i if in into is it its just let like me more my no not now of on only or our out please remember s she should so some \
such tell than that the their them then there these they this to too u us use user very want was we were what when where which while who \
why will with would you your";

/// Characters of Chinese that say nothing by themselves.
const EMPTY_CHARACTERS: &str =
    "的了是我你您他她它们吗呢吧啊呀在有和与及也都就很这那什么哪谁怎个请把被让给对从到不没会能可要想着过还";

/// The words of a text that count, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words(BTreeSet<String>);

// === impl Words ===

impl Words {
    pub fn of(text: &str) -> Self {
        let folded: String = text.nfkd().filter(|c| !is_mark(*c)).flat_map(char::to_lowercase).collect();
        let mut words = BTreeSet::new();
        for word in folded.split(|c: char| !c.is_alphanumeric() || EMPTY_CHARACTERS.contains(c)) {
            let mut rest = word;
            while let Some(first) = rest.chars().next() {
                let is_first_wide = is_wide(first);
                let end = rest.find(|c| is_wide(c) != is_first_wide).unwrap_or(rest.len());
                let (run, behind) = rest.split_at(end);
                if is_first_wide {
                    add_pairs(run, &mut words);
                } else if EMPTY_WORDS.split(' ').all(|empty| empty != run) {
                    words.insert(singular(run).to_owned());
                }
                rest = behind;
            }
        }
        Self(words)
    }

    /// Returns how many of the words are in both texts, from 0 for none to 1 for all of the text that has fewer.
    pub fn similarity(&self, other: &Self) -> f32 {
        let fewer = self.0.len().min(other.0.len());
        if fewer == 0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "texts of 2^23 words are not compared")]
        let (common, fewer) = (self.0.intersection(&other.0).count() as f32, fewer as f32);
        common / fewer
    }
}

/// Adds each pair of neighbours, or the one character that there is.
fn add_pairs(run: &str, words: &mut BTreeSet<String>) {
    let characters: Vec<char> = run.chars().collect();
    if characters.len() == 1 {
        words.insert(run.to_owned());
    }
    words.extend(characters.windows(2).map(|pair| pair.iter().collect::<String>()));
}

/// Returns an English word without the s of its plural.
fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(rest) if rest.len() >= 3 && !rest.ends_with('s') => rest,
        Some(_) | None => word,
    }
}

/// Returns whether a character is a mark that belongs to the letter before it.
fn is_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similarity(one: &str, other: &str) -> f32 {
        Words::of(one).similarity(&Words::of(other))
    }

    #[test]
    fn case_accents_and_plurals_do_not_matter() {
        assert_eq!(Words::of("Two CAFÉS, naïve"), Words::of("two cafe naive"));
        assert_eq!(Words::of("ＦＵＬＬ width"), Words::of("full widths"));
        assert_ne!(Words::of("glass"), Words::of("glas"));
    }

    #[test]
    fn words_that_say_nothing_do_not_count() {
        for text in ["What is it that you want, and why?", "你是谁？", ""] {
            assert_eq!(Words::of(text), Words::default(), "{text}");
        }
    }

    #[test]
    fn a_question_is_near_to_what_it_is_about() {
        let colour = "Anna's favourite colour is turquoise.";
        assert!(similarity("What is Anna's favourite colour?", colour) > 0.9);
        assert!(similarity("How tall are giraffes?", colour) < 0.01);
        let long =
            format!("{} and which colours does Anna like?", "On another day we went to the sea. ".repeat(20));
        assert!(similarity(&long, colour) >= 0.5);
    }

    #[test]
    fn chinese_is_compared_by_pairs_of_characters() {
        assert!(similarity("我喜欢喝什么茶？", "用户喜欢绿茶。") > 0.3);
        assert!(similarity("今天天气怎么样？", "用户喜欢绿茶。") < 0.01);
        assert!(similarity("GPT模型怎么用", "模型") > 0.9);
    }
}
