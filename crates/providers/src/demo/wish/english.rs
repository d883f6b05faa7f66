//! Wishes in English.

use super::{ChartKind, Wish, bare, head};

/// Reads the words.
pub(super) fn read(text: &str) -> Wish {
    let lower = text.to_lowercase();
    let words = split(&lower);
    let has = |options: &[&str]| words.iter().any(|word| options.contains(word));
    if is_record(head(&lower)) {
        // What the record is called is not read.
        Wish::CreateRecord(after_word(text, &[":", "record"]).unwrap_or_default())
    } else if has(&["everything"]) {
        Wish::Everything
    } else if let Some(name) = after(text, "use ") {
        Wish::Use(name)
    } else if has(&["think"]) {
        Wish::Think(after_word(text, &["about"]).unwrap_or_default())
    } else if has(&["find", "search", "look"]) && has(&["note", "notes"]) {
        Wish::FindNotes(after_word(text, &["about", "for", "with", "notes"]).unwrap_or_default())
    } else if has(&["note", "remember"]) {
        Wish::WriteNote(after_word(text, &[":", "note", "remember"]).unwrap_or_default())
    } else if has(&["chart", "charts", "graph", "plot", "diagram"]) {
        Wish::Chart(chart(&words))
    } else if lower.contains("ask me") {
        Wish::Question
    } else if has(&["pick", "choose", "select", "upload"]) && has(&["file", "files"]) {
        Wish::PickFile
    } else if has(&["story"]) {
        Wish::Story
    } else if lower.contains("where am i") || has(&["location"]) {
        Wish::Location
    } else if has(&["time", "clock", "date"]) {
        Wish::Time
    } else {
        Wish::Talk
    }
}

fn split(lower: &str) -> Vec<&str> {
    lower.split(|letter: char| !letter.is_alphanumeric()).collect()
}

fn is_record(lower: &str) -> bool {
    let words = split(lower);
    let has = |options: &[&str]| words.iter().any(|word| options.contains(word));
    has(&["create", "add", "make", "new"]) && has(&["record"])
}

fn chart(words: &[&str]) -> ChartKind {
    if words.contains(&"pie") {
        ChartKind::Pie
    } else if words.contains(&"line") {
        ChartKind::Line
    } else {
        ChartKind::Bar
    }
}

/// The rest after a beginning, whatever its case, without quotes and full stop.
fn after(text: &str, beginning: &str) -> Option<String> {
    let head = text.get(..beginning.len())?;
    head.eq_ignore_ascii_case(beginning)
        .then(|| bare(&text[beginning.len()..]))
        .filter(|rest| !rest.is_empty())
}

/// What follows the first of the words that is there and is followed by something.
fn after_word(text: &str, words: &[&str]) -> Option<String> {
    // Lower case may change a letter's length, so that offsets would not fit; ASCII lower case does not.
    let lower = text.to_ascii_lowercase();
    words
        .iter()
        .filter_map(|word| lower.find(word).map(|start| bare(&text[start + word.len()..])))
        .find(|rest| !rest.is_empty())
}
