//! What the demo says of what came of its calls. Reads results as pages and the server give them, and repeats what it does not know.

use fermata_engine::model::ModelCall;
use serde_json::{Map, Value};

use super::{
    wish::Wish,
    words::{Picked, Words, note},
};

/// How much of a tool's result is repeated.
const RESULT_LIMIT: usize = 600;

/// A sentence about what came of a call.
pub(super) fn tell(call: &ModelCall, result: &str, said: &str, words: &dyn Words) -> String {
    let tool = call.tool.as_str();
    let shown = shorten(result);
    match trouble(result) {
        Some(Trouble::Denied) => return words.denied(tool, &shown),
        Some(Trouble::Failed) => return words.failed(tool, &shown),
        None => {}
    }
    let field = |name: &str| call.input.get(name).and_then(Value::as_str).unwrap_or_default();
    let value = serde_json::from_str(result).unwrap_or_else(|_| Value::String(result.to_owned()));
    match tool {
        "current_time" => words.clock(&shown),
        "search_notes" => words.notes(&shown),
        "write_note" => tell_of_note(call, said, words),
        "get_location" => place(&value, words).unwrap_or_else(|| words.gave(tool, &shown)),
        "show_chart" => words.drawn(field("title")),
        "ask_user" => tell_of_answers(&call.input, &value, words),
        "pick_file" => tell_of_files(&value, words),
        "create_record" => words.recorded(field("title"), field("collection")),
        _ => words.gave(tool, &shown),
    }
}

fn tell_of_note(call: &ModelCall, said: &str, words: &dyn Words) -> String {
    let proposed = match Wish::read(said) {
        Wish::WriteNote(text) => Some(note(&text, words)),
        Wish::Everything => Some(note(words.note_and_query().0, words)),
        Wish::Talk
        | Wish::Time
        | Wish::FindNotes(_)
        | Wish::Location
        | Wish::Chart(_)
        | Wish::Question
        | Wish::PickFile
        | Wish::CreateRecord(_)
        | Wish::Think(_)
        | Wish::Story
        | Wish::Use(_) => None,
    };
    let field = |name: &str| call.input.get(name).and_then(Value::as_str).unwrap_or_default();
    let (title, body) = (field("title"), field("body"));
    if proposed.is_some_and(|proposed| proposed != call.input) {
        words.noted_as_edited(title, body)
    } else {
        words.noted(title)
    }
}

/// A place as browsers tell it, also where its coordinates are an object of their own.
fn place(result: &Value, words: &dyn Words) -> Option<String> {
    let coordinates = result.get("coords").unwrap_or(result);
    let number = |name: &str| coordinates.get(name).and_then(Value::as_f64);
    Some(words.place(number("latitude")?, number("longitude")?, number("accuracy")))
}

/// What was filled in, by the titles that the form had.
fn tell_of_answers(input: &Value, result: &Value, words: &dyn Words) -> String {
    let answers =
        ["answers", "values", "content", "data"].iter().find_map(|key| result.get(key)?.as_object());
    let answers = answers.or_else(|| result.as_object().filter(|object| !is_declined(object)));
    let one = ["answer", "option", "choice", "value"].iter().find_map(|key| result.get(key));
    match (one.or(Some(result)).filter(|one| !one.is_object() && !one.is_null()), answers) {
        (Some(one), _) => words.answered(&format!("- {}", plain(one)), None, None),
        (None, None) => words.not_answered().to_owned(),
        (None, Some(answers)) if answers.is_empty() => words.not_answered().to_owned(),
        (None, Some(answers)) => {
            let title = |key: &String| {
                input.pointer("/fields/properties").and_then(|all| all.get(key)?.get("title")?.as_str())
            };
            let lines: Vec<_> = answers
                .iter()
                .map(|(key, value)| format!("- {}: **{}**", title(key).unwrap_or(key), plain(value)))
                .collect();
            let text = |key: &str| answers.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            words.answered(&lines.join("\n"), text("name"), text("drink"))
        }
    }
}

/// Whether the person closed what was asked.
fn is_declined(result: &Map<String, Value>) -> bool {
    let is_true = |key: &&str| result.get(*key) == Some(&Value::Bool(true));
    ["cancelled", "canceled", "declined", "dismissed"].iter().any(is_true)
}

fn plain(value: &Value) -> String {
    shorten(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn tell_of_files(result: &Value, words: &dyn Words) -> String {
    let list = result.get("files").unwrap_or(result);
    let files: Vec<Picked> = match list {
        Value::Array(files) => files.iter().filter_map(picked).collect(),
        one => picked(one).into_iter().collect(),
    };
    if files.is_empty() { words.picked_none().to_owned() } else { words.picked(&files) }
}

fn picked(file: &Value) -> Option<Picked> {
    if let Value::String(name) = file {
        return Some(Picked { name: shorten(name), ..Picked::default() });
    }
    let text = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| file.get(key)?.as_str());
        found.filter(|text| !text.is_empty()).map(shorten)
    };
    let size = file.get("size").or_else(|| file.get("bytes")).and_then(Value::as_u64);
    Some(Picked {
        name: text(&["name", "filename"])?,
        size: size.map(bytes),
        kind: text(&["type", "mediaType", "mimeType"]),
    })
}

/// A number of bytes as people say it.
fn bytes(count: u64) -> String {
    let (unit, name) = match count {
        0..1_000 => return format!("{count} B"),
        1_000..1_000_000 => (100, "kB"),
        _ => (100_000, "MB"),
    };
    let tenths = count / unit;
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

/// Why a call came to nothing.
enum Trouble {
    Denied,
    Failed,
}

/// Reads a result: words are looked through, JSON only where it says that it is an error.
fn trouble(result: &str) -> Option<Trouble> {
    let (words, is_error) = match serde_json::from_str::<Value>(result) {
        Ok(Value::Object(object)) => {
            (object.get("error").or_else(|| object.get("denied"))?.to_string(), true)
        }
        Ok(Value::String(text)) => (text, false),
        Ok(_) => return None,
        Err(_) => (result.to_owned(), false),
    };
    let words = words.to_lowercase();
    let has = |options: &[&str]| options.iter().any(|option| words.contains(option));
    if has(&["denied", "declined", "rejected", "not approved", "not allow"]) {
        Some(Trouble::Denied)
    } else if is_error || has(&["error", "failed", "expired", "cancelled", "timed out"]) {
        Some(Trouble::Failed)
    } else {
        None
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(RESULT_LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
