//! The words of a user that ask for a plan.

use std::collections::HashSet;

use unicode_normalization::UnicodeNormalization;

use crate::model::tokens::is_wide;

/// Decides from the words of a user whether an answer to them is planned first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanTriggers {
    /// A text of more characters than this is planned.
    pub over: usize,
    /// A text with two of these words is planned. Words of Chinese, Japanese and Korean count anywhere in the text, others as whole words.
    pub verbs: Vec<String>,
}

// === impl PlanTriggers ===

impl PlanTriggers {
    /// The words that name goals by default.
    pub const VERBS: [&str; 19] = [
        "compare",
        "summarise",
        "summarize",
        "write",
        "save",
        "search",
        "translate",
        "analyse",
        "analyze",
        "draft",
        "send",
        "比较",
        "总结",
        "写成",
        "保存",
        "搜索",
        "翻译",
        "分析",
        "发送",
    ];

    /// Returns whether an answer to this text is planned first.
    pub fn match_text(&self, text: &str) -> bool {
        if text.chars().count() > self.over {
            return true;
        }
        let text: String = text.nfkc().flat_map(char::to_lowercase).collect();
        let words: HashSet<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
        let named =
            self.verbs.iter().map(|verb| verb.nfkc().flat_map(char::to_lowercase).collect::<String>());
        let named: HashSet<String> = named
            .filter(|verb| {
                if verb.chars().any(is_wide) {
                    text.contains(verb.as_str())
                } else {
                    words.contains(verb.as_str())
                }
            })
            .collect();
        named.len() >= 2
    }
}

impl Default for PlanTriggers {
    /// Returns the triggers of a server without settings: 300 characters, or two of [`PlanTriggers::VERBS`].
    fn default() -> Self {
        Self { over: 300, verbs: Self::VERBS.map(str::to_owned).to_vec() }
    }
}
