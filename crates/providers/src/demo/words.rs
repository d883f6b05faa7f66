//! What the demo says, once for each of its languages: all its sentences, and the made-up things that it puts into calls.
//!
//! Knows no request and decides nothing. Invariant: a language that lacks a sentence does not compile.

mod chinese;
mod english;

use serde_json::{Value, json};

use super::{language::Language, wish::ChartKind};

/// Something that can be tried.
#[derive(Debug)]
pub(super) struct Offer {
    /// The words to type, exactly.
    pub say: &'static str,
    /// What one sees then.
    pub shows: &'static str,
    /// The tool without which it is not offered.
    pub needs: Option<&'static str>,
}

/// What is announced before it is called.
#[derive(Clone, Copy, Debug)]
pub(super) enum Before {
    Time,
    WriteNote,
    FindNotes,
    Location,
    Chart,
    Question,
    PickFile,
    CreateRecord,
    Everything,
}

/// A file that somebody picked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Picked {
    pub name: String,
    /// With its unit.
    pub size: Option<String>,
    pub kind: Option<String>,
}

/// Everything that is said.
pub(super) trait Words: Sync {
    /// Says hello; `is_unknown` where something was said that the demo does not understand.
    fn hello(&self, is_unknown: bool) -> String;
    /// What can be tried, in the order in which it is offered.
    fn offers(&self) -> &'static [Offer];
    /// The words with which a tool is called by its name, and what one sees then.
    fn using_by_name(&self, tool: &str) -> (String, &'static str);
    /// How to get a real model.
    fn real_model(&self) -> &'static str;

    fn before(&self, what: Before) -> &'static str;
    fn using(&self, tool: &str) -> String;
    fn no_tool(&self, tool: &str, is_of_page: bool) -> String;
    fn no_tools(&self) -> &'static str;
    fn no_such_tool(&self, known: &str) -> String;
    /// How a page, or curl, posts a tool for the location.
    fn no_location_tool(&self, tool: &str) -> String;
    fn nothing_at_once(&self) -> &'static str;
    fn call_none(&self) -> &'static str;
    fn as_you_wish(&self) -> &'static str;
    /// The reasoning about something, and what is said after it.
    fn thought(&self, about: &str) -> (String, String);
    /// Some six hundred words of Markdown.
    fn story(&self) -> &'static str;

    /// What is noted where nothing was given to note.
    fn some_note(&self) -> &'static str;
    /// What is noted, and what is sought, where everything is to be shown.
    fn note_and_query(&self) -> (&'static str, &'static str);
    fn some_subject(&self) -> &'static str;
    fn chart(&self, kind: ChartKind) -> Value;
    fn question(&self) -> Value;
    fn file(&self) -> Value;
    /// A record of this title, or of one of the demo's own where it is empty.
    fn record(&self, title: &str) -> Value;

    fn denied(&self, tool: &str, why: &str) -> String;
    fn failed(&self, tool: &str, why: &str) -> String;
    fn gave(&self, tool: &str, result: &str) -> String;
    fn clock(&self, result: &str) -> String;
    fn notes(&self, result: &str) -> String;
    fn noted(&self, title: &str) -> String;
    fn noted_as_edited(&self, title: &str, body: &str) -> String;
    fn place(&self, latitude: f64, longitude: f64, accuracy: Option<f64>) -> String;
    fn drawn(&self, title: &str) -> String;
    /// What a person filled in: `answers` are lines of Markdown, and the name and the drink are among them.
    fn answered(&self, answers: &str, name: Option<&str>, drink: Option<&str>) -> String;
    fn not_answered(&self) -> &'static str;
    fn picked(&self, files: &[Picked]) -> String;
    fn picked_none(&self) -> &'static str;
    fn recorded(&self, title: &str, collection: &str) -> String;
}

/// The words of a language.
pub(super) fn words(language: Language) -> &'static dyn Words {
    match language {
        Language::English => &english::English,
        Language::Chinese => &chinese::Chinese,
    }
}

/// The note the demo proposes, before anybody edits it.
pub(super) fn note(text: &str, words: &dyn Words) -> Value {
    let text = if text.is_empty() { words.some_note() } else { text };
    let title: String = text.split_whitespace().take(5).collect::<Vec<_>>().join(" ");
    json!({"title": title, "body": text})
}

/// How many cups of each of three teas were sold from January to June. Made up, and the same in every language.
const SOLD: [[i64; 6]; 3] =
    [[120, 135, 150, 170, 210, 240], [180, 175, 160, 140, 120, 105], [60, 72, 95, 130, 150, 165]];

/// A chart of what was sold: as a cake of the whole half-year, otherwise by month.
fn sales(kind: ChartKind, title: &str, cups: &str, months: [&str; 6], teas: [&str; 3]) -> Value {
    if kind == ChartKind::Pie {
        let totals = SOLD.map(|months| months.iter().sum::<i64>());
        return json!({
            "title": title,
            "kind": kind.name(),
            "labels": teas,
            "series": [{"name": cups, "values": totals}],
        });
    }
    let series: Vec<_> =
        teas.iter().zip(SOLD).map(|(tea, values)| json!({"name": tea, "values": values})).collect();
    json!({"title": title, "kind": kind.name(), "labels": months, "series": series})
}

/// A form with a name, a drink to choose and a number of cups.
fn form(question: &str, titles: [&str; 3], drinks: [&str; 3]) -> Value {
    let [name, drink, cups] = titles;
    json!({
        "question": question,
        "fields": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": name, "minLength": 1, "maxLength": 80},
                "drink": {"type": "string", "title": drink, "enum": drinks},
                "cups": {"type": "integer", "title": cups, "minimum": 0, "maximum": 20, "default": 2},
            },
            "required": ["name", "drink"],
        },
    })
}
