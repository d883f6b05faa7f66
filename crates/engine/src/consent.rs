//! Consent in words: a message such as "yes" decides about the calls that wait for a person.
//!
//! This module knows words only. The plan of the post decides whether a message counts (`post.rs`).
//!
//! Invariant: a message decides only if it is nothing but one of the words. Everything that could ask, doubt or quote makes it an ordinary
//! message.

use unicode_normalization::UnicodeNormalization;

/// The words that decide about all calls that wait for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsentWords {
    confirm: Vec<String>,
    deny: Vec<String>,
}

/// The words that approve: English, Chinese, Spanish, French, German, Japanese.
const CONFIRM: [&str; 58] = [
    "yes",
    "y",
    "yeah",
    "yep",
    "yup",
    "sure",
    "proceed",
    "do it",
    "ok",
    "okay",
    "confirm",
    "confirmed",
    "approve",
    "approved",
    "go ahead",
    "确认",
    "继续",
    "同意",
    "是",
    "好",
    "可以",
    "批准",
    "行",
    "确定",
    "没问题",
    "执行",
    "确认执行",
    "確認",
    "繼續",
    "sí",
    "si",
    "vale",
    "de acuerdo",
    "confirmar",
    "confirmo",
    "adelante",
    "claro",
    "oui",
    "vas-y",
    "d'accord",
    "confirmer",
    "je confirme",
    "ja",
    "einverstanden",
    "klar",
    "bestätigen",
    "in ordnung",
    "はい",
    "ええ",
    "承認",
    "承認します",
    "同意します",
    "続けて",
    "続行",
    "オーケー",
    "どうぞ",
    "👍",
    "✅",
];

/// The words that deny, in the same languages.
const DENY: [&str; 40] = [
    "no",
    "n",
    "nope",
    "nah",
    "stop",
    "cancel",
    "deny",
    "reject",
    "don't",
    "do not",
    "不",
    "取消",
    "不要",
    "不行",
    "不可以",
    "不同意",
    "不用",
    "否",
    "拒绝",
    "拒絕",
    "算了",
    "别",
    "停止",
    "cancelar",
    "rechazar",
    "non",
    "annuler",
    "refuser",
    "pas d'accord",
    "nein",
    "abbrechen",
    "ablehnen",
    "いいえ",
    "いや",
    "キャンセル",
    "拒否",
    "中止",
    "やめて",
    "👎",
    "❌",
];

/// Polite words that may stand before or after a word of consent.
const POLITE_WORDS: [&str; 16] = [
    "please",
    "thanks",
    "thank you",
    "por favor",
    "gracias",
    "muchas gracias",
    "s'il te plaît",
    "s'il vous plaît",
    "stp",
    "svp",
    "merci",
    "bitte",
    "danke",
    "danke schön",
    "gern",
    "gerne",
];

/// Polite endings and beginnings in languages without spaces.
const POLITE_ENDINGS: [&str; 14] = [
    "吧",
    "的",
    "了",
    "谢谢",
    "谢谢你",
    "谢谢您",
    "多谢",
    "謝謝",
    "です",
    "ください",
    "下さい",
    "お願いします",
    "ありがとう",
    "ありがとうございます",
];
const POLITE_BEGINNINGS: [&str; 2] = ["请", "請"];

/// The emoji among the words.
const EMOJI: [char; 4] = ['👍', '✅', '👎', '❌'];

/// The marks that may end a message; `！` is the wide form of one.
const FINAL_MARKS: [char; 3] = ['.', '!', '。'];

/// The marks between a word and a polite addition.
const COMMAS: [char; 3] = [' ', ',', '、'];

/// The length of the longest message that can be a word, in bytes.
const LONGEST: usize = 1000;

// === impl ConsentWords ===

impl ConsentWords {
    /// Returns the default words with these.
    #[must_use]
    pub fn with(mut self, confirm: &[String], deny: &[String]) -> Self {
        self.confirm.extend_from_slice(confirm);
        self.deny.extend_from_slice(deny);
        self
    }

    /// Returns no words: no message decides anything.
    pub fn off() -> Self {
        Self { confirm: Vec::new(), deny: Vec::new() }
    }

    /// Returns the words that approve.
    pub fn confirm(&self) -> &[String] {
        &self.confirm
    }

    /// Returns `true` if a message with this text approves, `false` if it denies, and `None` if it is about something else.
    pub fn decision(&self, text: &str) -> Option<bool> {
        if text.len() > LONGEST {
            return None;
        }
        let said = folded(text)?;
        self.decision_of(without_modifier(&said))
    }

    /// Looks for the words, then leaves out one polite addition after the other: "不了" is "不", but "算了" is a word of its own.
    fn decision_of(&self, said: &str) -> Option<bool> {
        let is_in = |words: &[String]| words.iter().filter_map(|word| folded(word)).any(|word| word == said);
        match (is_in(&self.confirm), is_in(&self.deny)) {
            // A word in both lists is not clear enough to run anything.
            (_, true) => Some(false),
            (true, false) => Some(true),
            (false, false) => self.decision_of(without_polite_addition(said)?),
        }
    }
}

impl Default for ConsentWords {
    fn default() -> Self {
        Self { confirm: CONFIRM.map(str::to_owned).to_vec(), deny: DENY.map(str::to_owned).to_vec() }
    }
}

/// Returns a text without differences of case, width and white space, and without final marks. Returns `None` if a character is the
/// compatibility form of another one, such as a mathematical or a circled letter.
fn folded(text: &str) -> Option<String> {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        let plain = match c {
            c if c.is_whitespace() => {
                if !folded.ends_with(' ') {
                    folded.push(' ');
                }
                continue;
            }
            '’' => '\'',
            // The full-width and half-width forms.
            '\u{ff01}'..='\u{ff9d}' => std::iter::once(c).nfkc().next()?,
            c if std::iter::once(c).nfkc().eq([c]) => c,
            _ => return None,
        };
        folded.extend(plain.to_lowercase());
    }
    // Some keyboards send an accent as a character of its own.
    let composed: String = folded.nfc().collect();
    Some(without_final_marks(composed.trim_start()).to_owned())
}

fn without_final_marks(said: &str) -> &str {
    said.trim_end_matches(|c: char| c == ' ' || FINAL_MARKS.contains(&c))
}

/// Returns an emoji without the color of the skin, and without the selector that asks for a picture.
fn without_modifier(said: &str) -> &str {
    match said.strip_suffix(|c| matches!(c, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}')) {
        Some(emoji) if EMOJI.iter().any(|known| emoji.chars().eq([*known])) => emoji,
        Some(_) | None => said,
    }
}

/// Returns the rest of a folded text that ends or begins with something polite.
fn without_polite_addition(said: &str) -> Option<&str> {
    let is_apart = |c: char| COMMAS.contains(&c) || FINAL_MARKS.contains(&c);
    let before = POLITE_WORDS
        .iter()
        .find_map(|polite| said.strip_suffix(polite).filter(|rest| rest.ends_with(is_apart)))
        .or_else(|| POLITE_ENDINGS.iter().find_map(|polite| said.strip_suffix(polite)));
    if let Some(before) = before {
        let rest = before.trim_end_matches(is_apart);
        return if rest.is_empty() { None } else { Some(rest) };
    }
    let after = POLITE_WORDS
        .iter()
        .find_map(|polite| said.strip_prefix(polite).filter(|rest| rest.starts_with(COMMAS)))
        .or_else(|| POLITE_BEGINNINGS.iter().find_map(|polite| said.strip_prefix(polite)))?;
    Some(after.trim_start_matches(COMMAS))
}

#[cfg(test)]
mod tests;
