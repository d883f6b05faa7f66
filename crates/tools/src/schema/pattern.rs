//! The cost of the regular expressions of schemas, determined without compiling them.
//!
//! Patterns come from pages. The engine that matches them takes linear time and supports neither look-around nor back-references. A
//! pattern of ten characters may compile to megabytes of states, so its size is estimated from its syntax first.

use regex_syntax::ast::{
    Ast, ClassSet, ClassSetItem, ErrorKind, Flag, FlagsItemKind, RepetitionKind, RepetitionRange,
    parse::Parser,
};

/// The limit on the length of a pattern, in bytes.
pub(crate) const LONGEST: usize = 2_000;
/// The limit on the states of a pattern.
pub(crate) const LARGEST: u64 = 64_000;
/// The estimated states of a Unicode class, such as all letters.
const UNICODE_CLASS: u64 = 800;
/// The cost of a Unicode class if case is ignored. It is higher because each character of the class is looked up.
const UNICODE_CLASS_ANY_CASE: u64 = 16_000;
/// The length of a class such as `\s` after its translation for the engine, in bytes.
const TRANSLATED_CLASS: u64 = 170;

/// The cost of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatternCost {
    /// The number of states, which determines the time that matching takes for each byte.
    pub states: u64,
    /// The cost of compiling the pattern, in states.
    pub building: u64,
}

/// Determines the cost of a pattern.
///
/// # Errors
/// Returns the reason if the pattern cannot be used.
pub(crate) fn cost(pattern: &str) -> Result<PatternCost, String> {
    let unusable = |reason: String| Err(format!("the pattern {} {reason}", quoted(pattern)));
    if pattern.len() > LONGEST {
        return unusable(format!("has {} bytes; the limit is {LONGEST}", pattern.len()));
    }
    let too_large =
        || format!("stands for more than {LARGEST} states; use fewer or smaller repetitions and classes");
    // The translation reads the whole pattern again for each class such as `\s`, which it expands.
    let pairs = pattern.as_bytes().windows(2);
    let classes =
        pairs.filter(|pair| matches!(pair, [b'\\', b's' | b'S' | b'd' | b'D' | b'w' | b'W'])).count() as u64;
    let building = classes * (pattern.len() as u64 + classes * TRANSLATED_CLASS) / 16;
    if building > LARGEST {
        return unusable(too_large());
    }
    let Ok(translated) = jsonschema_regex::to_rust_regex(pattern) else {
        return unusable("is not a regular expression of ECMA-262".into());
    };
    if !jsonschema_regex::is_valid_ecma_regex(pattern) {
        return unusable("is not a regular expression of ECMA-262".into());
    }
    let syntax = match Parser::new().parse(&translated) {
        Ok(syntax) => syntax,
        Err(error) => {
            return unusable(match error.kind() {
                ErrorKind::UnsupportedLookAround => "uses look-around".into(),
                ErrorKind::UnsupportedBackreference => "uses a back-reference".into(),
                kind => format!("is not a regular expression: {kind}"),
            });
        }
    };
    let states = states(&syntax, ignores_case(&syntax));
    if states > LARGEST {
        return unusable(too_large());
    }
    Ok(PatternCost { states, building: building + states })
}

/// Quotes the first characters of a pattern for a message.
fn quoted(pattern: &str) -> String {
    let head: String = pattern.chars().take(80).collect();
    if head.len() == pattern.len() { format!("{head:?}") } else { format!("{head:?}…") }
}

fn states(syntax: &Ast, any_case: bool) -> u64 {
    let unicode_class = if any_case { UNICODE_CLASS_ANY_CASE } else { UNICODE_CLASS };
    match syntax {
        Ast::Empty(_) | Ast::Flags(_) | Ast::Assertion(_) => 1,
        Ast::Literal(_) => 4,
        Ast::Dot(_) => 16,
        Ast::ClassPerl(_) | Ast::ClassUnicode(_) => unicode_class,
        Ast::ClassBracketed(class) => {
            // A negated class needs a state for each gap between its characters.
            let negated = if class.negated { 16 } else { 0 };
            negated + class_states(&class.kind, unicode_class, any_case)
        }
        Ast::Repetition(repetition) => {
            let times = match &repetition.op.kind {
                RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 2,
                RepetitionKind::Range(RepetitionRange::Exactly(count)) => u64::from(*count).max(1),
                RepetitionKind::Range(RepetitionRange::AtLeast(least)) => u64::from(*least) + 1,
                RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => u64::from(*most).max(1),
            };
            times.saturating_mul(states(&repetition.ast, any_case).saturating_add(1))
        }
        Ast::Group(group) => states(&group.ast, any_case).saturating_add(2),
        Ast::Alternation(alternation) => sum(&alternation.asts, any_case),
        Ast::Concat(concat) => sum(&concat.asts, any_case),
    }
}

fn sum(parts: &[Ast], any_case: bool) -> u64 {
    parts.iter().fold(1, |sum, part| sum.saturating_add(1).saturating_add(states(part, any_case)))
}

fn class_states(set: &ClassSet, unicode_class: u64, any_case: bool) -> u64 {
    match set {
        ClassSet::Item(item) => item_states(item, unicode_class, any_case),
        ClassSet::BinaryOp(operation) => unicode_class
            .saturating_add(class_states(&operation.lhs, unicode_class, any_case))
            .saturating_add(class_states(&operation.rhs, unicode_class, any_case)),
    }
}

fn item_states(item: &ClassSetItem, unicode_class: u64, any_case: bool) -> u64 {
    match item {
        ClassSetItem::Empty(_) => 1,
        ClassSetItem::Literal(_) => 4,
        ClassSetItem::Range(range) => {
            let characters =
                u64::from(u32::from(range.end.c)).saturating_sub(u64::from(u32::from(range.start.c)));
            8 + if any_case { characters / 64 } else { 0 }
        }
        ClassSetItem::Ascii(_) => 8,
        ClassSetItem::Unicode(_) | ClassSetItem::Perl(_) => unicode_class,
        ClassSetItem::Bracketed(class) => 16 + class_states(&class.kind, unicode_class, any_case),
        ClassSetItem::Union(union) => union
            .items
            .iter()
            .fold(1, |sum, item| sum.saturating_add(item_states(item, unicode_class, any_case))),
    }
}

/// Returns whether some part of a pattern is matched without regard to case.
fn ignores_case(syntax: &Ast) -> bool {
    let has = |items: &[regex_syntax::ast::FlagsItem]| {
        items.iter().any(|item| item.kind == FlagsItemKind::Flag(Flag::CaseInsensitive))
    };
    match syntax {
        Ast::Flags(set) => has(&set.flags.items),
        Ast::Group(group) => group.flags().is_some_and(|flags| has(&flags.items)) || ignores_case(&group.ast),
        Ast::Repetition(repetition) => ignores_case(&repetition.ast),
        Ast::Alternation(alternation) => alternation.asts.iter().any(ignores_case),
        Ast::Concat(concat) => concat.asts.iter().any(ignores_case),
        Ast::Empty(_)
        | Ast::Literal(_)
        | Ast::Dot(_)
        | Ast::Assertion(_)
        | Ast::ClassUnicode(_)
        | Ast::ClassPerl(_)
        | Ast::ClassBracketed(_) => false,
    }
}
