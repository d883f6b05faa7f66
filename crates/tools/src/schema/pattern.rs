//! What a regular expression of a schema may be, judged without building it.
//!
//! Patterns come from pages. They are matched by an engine that is linear in its input, which has neither look-around nor
//! back-references; and a pattern of ten characters may stand for megabytes of states, so its size is reckoned from its syntax first.

use regex_syntax::ast::{
    Ast, ClassSet, ClassSetItem, ErrorKind, Flag, FlagsItemKind, Repetition, RepetitionKind, RepetitionRange,
    parse::Parser,
};

/// Bytes of one pattern.
pub(crate) const LONGEST: usize = 2_000;
/// States of one pattern.
pub(crate) const LARGEST: u64 = 64_000;
/// States that stand for a class of Unicode, such as all letters.
const UNICODE_CLASS: u64 = 800;
/// The same where case does not count, because each character of it is looked up.
const UNICODE_CLASS_ANY_CASE: u64 = 16_000;
/// Bytes that a class such as `\s` has in the dialect of the engine.
const CLASS_WRITTEN_OUT: u64 = 170;

/// What a pattern costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatternCost {
    /// What it is matched with, and so how long that may take for each byte.
    pub states: u64,
    /// What building it takes, in the same unit.
    pub building: u64,
}

/// Why a pattern cannot be used, in words for who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatternFault {
    /// It is one of another dialect, whose patterns may take for ever.
    Dialect(String),
    /// It is none, or too much.
    Unusable(String),
}

/// What a pattern costs.
pub(crate) fn weigh(pattern: &str) -> Result<PatternCost, PatternFault> {
    let unusable =
        |words: String| Err(PatternFault::Unusable(format!("the pattern {} {words}", quoted(pattern))));
    if pattern.len() > LONGEST {
        return unusable(format!("has {} bytes; the limit is {LONGEST}", pattern.len()));
    }
    let too_large =
        || format!("stands for more than {LARGEST} states; use fewer or smaller repetitions and classes");
    // The translation goes through the pattern anew for each class that it writes out.
    let classes = pattern.as_bytes().windows(2).filter(|pair| is_written_out(pair)).count() as u64;
    let building = classes * (pattern.len() as u64 + classes * CLASS_WRITTEN_OUT) / 16;
    if building > LARGEST {
        return unusable(too_large());
    }
    let translated = jsonschema_regex::to_rust_regex(pattern);
    let Some(translated) = translated.ok().filter(|_| jsonschema_regex::is_valid_ecma_regex(pattern)) else {
        return unusable("is not a regular expression of ECMA-262".into());
    };
    let syntax = match Parser::new().parse(&translated) {
        Ok(syntax) => syntax,
        Err(error) => {
            let other = match error.kind() {
                ErrorKind::UnsupportedLookAround => "look-around",
                ErrorKind::UnsupportedBackreference => "a back-reference",
                kind => return unusable(format!("is not a regular expression: {kind}")),
            };
            return Err(PatternFault::Dialect(format!(
                "the pattern {} uses {other}, which this server does not have because matching it may take for ever",
                quoted(pattern)
            )));
        }
    };
    let states = states(&syntax, ignores_case(&syntax));
    if states > LARGEST {
        return unusable(too_large());
    }
    Ok(PatternCost { states, building: building + states })
}

fn is_written_out(pair: &[u8]) -> bool {
    pair[0] == b'\\' && matches!(pair[1], b's' | b'S' | b'd' | b'D' | b'w' | b'W')
}

/// The head of a pattern, for a message.
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
            // What a class leaves out of all of Unicode has a state for each gap.
            let negated = if class.negated { 16 } else { 0 };
            negated + class_states(&class.kind, unicode_class, any_case)
        }
        Ast::Repetition(repetition) => {
            times(repetition).saturating_mul(states(&repetition.ast, any_case).saturating_add(1))
        }
        Ast::Group(group) => states(&group.ast, any_case).saturating_add(2),
        Ast::Alternation(alternation) => sum(&alternation.asts, any_case),
        Ast::Concat(concat) => sum(&concat.asts, any_case),
    }
}

fn sum(parts: &[Ast], any_case: bool) -> u64 {
    parts.iter().fold(1, |sum, part| sum.saturating_add(1).saturating_add(states(part, any_case)))
}

fn times(repetition: &Repetition) -> u64 {
    match &repetition.op.kind {
        RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 2,
        RepetitionKind::Range(RepetitionRange::Exactly(count)) => u64::from(*count).max(1),
        RepetitionKind::Range(RepetitionRange::AtLeast(least)) => u64::from(*least) + 1,
        RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => u64::from(*most).max(1),
    }
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

/// Whether some part of it is matched whatever the case.
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
