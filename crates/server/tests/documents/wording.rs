//! Odd constructions, with the wording to use instead.

use std::fmt::Write as _;

use regex::Regex;

use crate::{documents, prose};

/// A file may have one odd construction in so many words.
const WORDS_PER_HIT: usize = 2000;

/// Its text is that of `--help`, which is written in `config/settings.rs`.
const FROM_HELP: &str = "docs/guide/limits.md";

/// Regular expressions, each with the better wording.
const RULES: [(&str, &str); 12] = [
    (r"\b(?i:whoever|whatever|whichever)\b", "name the thing: `anyone with read access`, `every value`"),
    (
        r"(?m)(?:^|[.!?:;] )(?:What|Who|Where) [^.?!\n]{3,60}? (?:is|are|was|has|have|can|must|may|counts|waits|comes|goes)\b",
        "begin with a noun: `Omitted keys are inherited`",
    ),
    (
        r"\b(?:of|by|with|from|to|in|for|at|on|after|behind|about)\s+(?:which|whom)\b",
        "write a second sentence, or `where`, `when`, `how long`",
    ),
    (r"(?i)\bwhat becomes of\b", "`the result of`, `how … is handled`"),
    (r"\b(?:is|are|was|were|be)\s+told\b", "`receives`, `learns`"),
    (r",\s+also\b", "`even if`, or `also` before the verb"),
    (r",\s+too\b", "`also` before the verb, or `as well`"),
    (r"\bfor\s+as\s+long\s+as\b", "`while`, `as long as`"),
    (r"\bone\s+too\s+many\b", "`excess calls`"),
    (r"\bgoes?\s+(?:before|by)\b", "`overrides`, `follows`"),
    (r"\bsays?\s+so\b", "`the log says …`, `returns an error`"),
    (
        r"\banew\b|\bmend(?:s|ed|ing)?\b|\bhas\s+one\s+written\b|\bdear\b",
        "`again`, `fix`, `writes`, `expensive`",
    ),
];

#[test]
fn the_english_is_plain() {
    let rules = RULES.map(|(pattern, better)| (Regex::new(pattern).expect("a pattern"), better));
    let mut complaints = String::new();
    for document in documents() {
        if document.path.ends_with(FROM_HELP) {
            continue;
        }
        let text = prose(&document.text);
        let words = text
            .split(|c: char| !c.is_ascii_alphabetic() && c != '\'')
            .filter(|word| !word.is_empty())
            .count();
        let mut hits = Vec::new();
        for (pattern, better) in &rules {
            for found in pattern.find_iter(&text) {
                let sentence = &text[found.start()..];
                // `What is a run?` is a question.
                let is_question =
                    sentence.find(['.', '?', '\n']).is_some_and(|end| sentence[end..].starts_with('?'));
                if !is_question {
                    let line = text[..found.start()].matches('\n').count() + 1;
                    hits.push((line, found.as_str().trim().replace('\n', " "), better));
                }
            }
        }
        if hits.len() * WORDS_PER_HIT > words {
            for (line, words, better) in hits {
                writeln!(complaints, "{}:{line}: “{words}”; better: {better}", document.path.display())
                    .expect("a string takes text");
            }
        }
    }
    assert!(complaints.is_empty(), "odd English (house rules are in CONTRIBUTING.md):\n{complaints}");
}
