//! Faults of the file, in words that name a key and never a value, which may be a secret.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

/// The reason why the file cannot be used.
#[derive(Debug)]
pub(super) struct Fault {
    /// The place, in bytes from the beginning of the file.
    pub(super) at: usize,
    pub(super) reason: String,
}

/// The reason why serde cannot read the value of a key.
#[derive(Debug)]
pub(super) enum Wrong {
    /// A table has a key that its type does not know.
    Key { name: String, known: &'static [&'static str] },
    /// The value cannot be used, for a reason that follows the key in a sentence.
    Value(String),
}

// === impl Wrong ===

impl Wrong {
    /// Returns the sentence about the key that has the value.
    pub(super) fn about(&self, key: &str) -> String {
        match self {
            Self::Key { name, known } => match nearest(name, known) {
                Some(meant) => format!("unknown key {name}; did you mean {meant}?"),
                None => format!("unknown key {name}; use {}", either(known)),
            },
            Self::Value(reason) => format!("{key}: {reason}"),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.about("it"))
    }
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self::Value(reason.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Str(_) => "a string",
            Unexpected::Bool(_) => "true or false",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
            Unexpected::Seq => "a list",
            Unexpected::Map => "a table",
            _ => "something else",
        };
        Self::Value(format!("must be {expected}, not {found}"))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Value(format!("must be {expected}"))
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        Self::Value(format!("{name:?} is not known; use {}", either(known)))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self::Key { name: name.to_owned(), known }
    }

    fn missing_field(name: &'static str) -> Self {
        Self::Value(format!("{name} is missing"))
    }
}

/// Writes `a, b or c`.
pub(super) fn either(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// Returns the name that was probably meant.
pub(super) fn nearest<'k>(name: &str, known: &'k [impl AsRef<str>]) -> Option<&'k str> {
    const CLOSE: f64 = 0.8;
    let rated = known.iter().map(|known| (known.as_ref(), strsim::jaro(known.as_ref(), name)));
    let (best, similarity) = rated.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    if similarity >= CLOSE { Some(best) } else { None }
}
