//! Faults of the file, in words that name a key and never a value, which may be a secret.

use super::value::either;

/// The reason why the file cannot be used.
#[derive(Debug)]
pub(super) struct Fault {
    /// The place, in bytes from the beginning of the file.
    pub(super) at: usize,
    pub(super) reason: String,
}

/// Returns a message of serde about the value of a key in plain words. The value, which may be a secret, is left out.
pub(super) fn reworded(message: &str, key: &str) -> String {
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    if let Some((name, known)) = cut(message, "unknown field `", "`, expected ") {
        let known = quoted(known);
        match nearest(name, &known) {
            Some(meant) => format!("unknown key {name}; did you mean {meant}?"),
            None => format!("unknown key {name}; use {}", either(&known)),
        }
    } else if let Some((name, known)) = cut(message, "unknown variant `", "`, expected ") {
        format!("{key}: {name:?} is not known; use {}", either(&quoted(known)))
    } else if let Some((name, _)) = cut(message, "missing field `", "`") {
        format!("{key}: {name} is missing")
    } else if let Some(found) = message.strip_prefix("invalid type: ")
        && let Some((found, expected)) = found.rsplit_once(", expected ")
    {
        format!("{key}: must be {}, not {}", plain_expected(expected), plain_found(found))
    } else if message.starts_with("invalid ")
        && let Some((_, expected)) = message.rsplit_once(", expected ")
    {
        format!("{key}: must be {}", plain_expected(expected))
    } else if message == "wanted string or table" {
        // It is about an enum, and no enum of the file has data.
        format!("{key}: must be a string")
    } else {
        format!("{key}: {message}")
    }
}

/// Returns the text between two others, and the text behind the second.
fn cut<'t>(text: &'t str, before: &str, between: &str) -> Option<(&'t str, &'t str)> {
    text.strip_prefix(before)?.split_once(between)
}

/// Returns serde's name for the kind of value that a key must have in plain words.
fn plain_expected(expected: &str) -> &str {
    match expected {
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        other => other,
    }
}

/// Returns serde's name for the kind of value that was found in plain words, without the value that may follow the name.
fn plain_found(found: &str) -> &'static str {
    let kinds = [
        ("string", "a string"),
        ("integer", "a number"),
        ("floating point", "a number"),
        ("boolean", "true or false"),
        ("sequence", "a list"),
        ("map", "a table"),
    ];
    let kind = kinds.into_iter().find(|(name, _)| found.starts_with(name));
    kind.map_or("something else", |(_, words)| words)
}

/// Returns the name that was probably meant.
pub(super) fn nearest<'k>(name: &str, known: &'k [impl AsRef<str>]) -> Option<&'k str> {
    const CLOSE: f64 = 0.8;
    let rated = known.iter().map(|known| (known.as_ref(), strsim::jaro(known.as_ref(), name)));
    let (best, similarity) = rated.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    if similarity >= CLOSE { Some(best) } else { None }
}
