//! The words of a user that suggest a plan.
//!
//! A plan pays for a message that asks for several things. Such a message names several goals, or says in which order to do them. What the
//! user quotes, pastes or thanks for asks for nothing.

use std::{collections::HashSet, sync::LazyLock};

use regex::Regex;
use unicode_normalization::UnicodeNormalization;

use crate::model::tokens::is_wide;

/// Decides from the words of a user whether a plan is suggested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanTriggers {
    /// A plan is suggested for a text of more characters than this.
    pub over: usize,
    /// A plan is suggested for a text that asks for two of these. Words of Chinese, Japanese and Korean count anywhere in a clause, others as
    /// whole words.
    pub verbs: Vec<String>,
}

/// The number of clauses with an action that make a plan worth it.
const ACTIONS: usize = 3;
/// The number of items that make a list.
const ITEMS: usize = 2;

/// The text that a user quotes or pastes: code, quoted lines, quotations, and the text after "translate this:".
static QUOTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?msx)
        ```.*?(```|\z) | `[^`\n]*`
        | ^\s*>.*?$ | ^(\ {4}|\t|\s+at\s).*?$
        | "[^"\n]*" | “[^”]*” | ‘[^’]*’ | «[^»]*» | „[^“”]*[“”] | 「[^」]*」 | 『[^』]*』 | 《[^》]*》
        | \b(translate|proofread|rephrase)\b[^:.\n]*:.*\z | (翻译|润色|校对)[^：:。\n]*[：:].*\z
        | https?://\S+
        "#,
    )
});

/// The beginning of a question for knowledge, which asks for no action.
static QUESTION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)^\s*(how|what|why|when|where|which|who|whose|is|are|was|were|do|does|did|has|have|should)\b
        | 怎么|怎样|如何|为什么|为何|什么是|是什么",
    )
});

/// Thanks, and the words of a request that may follow them.
static THANKS: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?x)\b(thanks|thank\s+you)\b | 谢谢|感谢|多谢"));
static REQUEST: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?x)\b(now|next|please|(can|could|will|would)\s+you)\b | 请|现在|接下来|帮我")
});

/// The words for something that is over or not wanted.
static NOTHING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?x)\b(nothing|nobody|never|not|don't|do\s+not|already)\b | 已经|已|不要|不用|别")
});

/// A word that gives an order.
static ORDER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)\bfirst(ly)?\b.*\b(then|next|after\s+that|afterwards|finally)\b | \bthen\b.*\b(finally|at\s+last|in\s+the\s+end)\b
        | 先.*(再|然后|接着|之后|最后) | (再|然后|接着).*最后",
    )
});

/// The items of a list that the user has written.
static ITEM: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^\s*(\d{1,2}[.)、]|[-*•])\s*\S"));

/// The ends of sentences, and of clauses in them.
static SENTENCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"[.!?。！？;；\n]+"));
static CLAUSE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[,，、:：]|\band\b|\bthen\b|并且|并|然后|接着|最后|再"));

/// The verbs that begin a clause with an action.
static ACTION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)^\s*(please|then|finally|next|also|can\ you|could\ you|will\ you|would\ you)?\s*
        (look|find|search|research|get|fetch|gather|collect|check|read|review|compare|analy[sz]e|calculate|compute|count|list|sort|summari[sz]e
        |write|draft|put|prepare|make|create|build|plan|translate|edit|update|change|rename|move|copy|add|save|store|record|upload|download
        |book|order|buy|reserve|cancel|schedule|send|mail|e-?mail|message|call|invite|tell|notify|post|publish|share|remind|delete|remove)\b
        | ^\s*(请|帮我|麻烦)?(你)?(把.{1,12}?)?
        (查|找|搜|研究|调查|收集|整理|汇总|比较|对比|分析|计算|统计|列|总结|写|起草|做|制作|创建|建|翻译|修改|更新|改|添加|加|保存|存|记录|上传|下载
        |订|预订|买|取消|安排|发|发送|寄|通知|告诉|邀请|发布|分享|提醒|删除|删)",
    )
});

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of the program")
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

    /// Returns whether a plan is suggested for this text.
    pub fn match_text(&self, text: &str) -> bool {
        let text: String = text.nfkc().flat_map(char::to_lowercase).collect();
        let text = QUOTED.replace_all(&text, " ");
        if text.trim().chars().count() > self.over || ITEM.find_iter(&text).count() >= ITEMS {
            return true;
        }
        let verbs: Vec<String> =
            self.verbs.iter().map(|verb| verb.nfkc().flat_map(char::to_lowercase).collect()).collect();
        let (mut goals, mut actions) = (HashSet::new(), 0);
        let is_thanks = |sentence: &str| THANKS.is_match(sentence) && !REQUEST.is_match(sentence);
        for sentence in SENTENCE.split(&text) {
            if QUESTION.is_match(sentence) || is_thanks(sentence) {
                continue;
            }
            if ORDER.is_match(sentence) && !NOTHING.is_match(sentence) {
                return true;
            }
            for clause in CLAUSE.split(sentence).filter(|clause| !NOTHING.is_match(clause)) {
                actions += usize::from(ACTION.is_match(clause));
                let words: HashSet<&str> = clause.split(|c: char| !c.is_alphanumeric()).collect();
                goals.extend(verbs.iter().filter(|verb| {
                    if verb.chars().any(is_wide) {
                        clause.contains(verb.as_str())
                    } else {
                        words.contains(verb.as_str())
                    }
                }));
            }
        }
        goals.len() >= 2 || actions >= ACTIONS
    }
}

impl Default for PlanTriggers {
    /// Returns the triggers of a server without settings: 300 characters, or two of [`PlanTriggers::VERBS`].
    fn default() -> Self {
        Self { over: 300, verbs: Self::VERBS.map(str::to_owned).to_vec() }
    }
}
