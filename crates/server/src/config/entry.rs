//! Keys and values of the file with their places: what every table of it is read with.
//!
//! `${NAME}` in a string is replaced from the environment when the string is read, and not when it is shown, so that what is
//! shown has no secrets that the environment keeps.

use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

use super::{
    value::{Value, quoted},
    word::either,
};

/// The environment.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why the file cannot be used.
#[derive(Debug)]
pub(super) struct Fault {
    /// Where, in bytes from its beginning.
    pub(super) at: usize,
    pub(super) reason: String,
}

/// A key with its value, or an element of a list under the list's key.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    key_at: usize,
    value: &'a Spanned<DeValue<'a>>,
    variables: Variables<'a>,
}

// === impl Entry ===

impl<'a> Entry<'a> {
    /// What a table holds, in the order in which it is written.
    pub(super) fn all(table: &'a DeTable<'a>, variables: Variables<'a>) -> Vec<Self> {
        let entry = |(key, value): (&'a Spanned<DeString<'a>>, _)| Self {
            name: key.get_ref(),
            key_at: key.span().start,
            value,
            variables,
        };
        let mut entries: Vec<Self> = table.iter().map(entry).collect();
        // The parser sorts by name.
        entries.sort_by_key(|entry| entry.key_at);
        entries
    }

    /// Where its value begins; a table made of dotted keys begins nowhere but at its key.
    pub(super) fn at(&self) -> usize {
        let span = self.value.span();
        if span.is_empty() { self.key_at } else { span.start }
    }

    /// Whether it is a table that dots in a key have made, and no brackets or braces.
    pub(super) fn is_dotted(&self) -> bool {
        // Such a table spans its key; one of a header spans that, and one in braces begins behind its key.
        matches!(self.value(), DeValue::Table(_)) && self.value.span().start == self.key_at
    }

    pub(super) fn value(&self) -> &'a DeValue<'a> {
        self.value.get_ref()
    }

    /// Something is wrong with the value.
    pub(super) fn fault(&self, reason: impl std::fmt::Display) -> Fault {
        Fault { at: self.at(), reason: format!("{}: {reason}", self.name) }
    }

    /// Something is wrong with the key.
    pub(super) fn key_fault(&self, reason: impl Into<String>) -> Fault {
        Fault { at: self.key_at, reason: reason.into() }
    }

    /// A value as the text that it would be in a variable.
    pub(super) fn text(&self) -> Result<String, Fault> {
        text_of(self.value(), self.variables).map_err(|reason| self.fault(reason))
    }

    pub(super) fn string(&self) -> Result<String, Fault> {
        match self.value() {
            DeValue::String(text) => expand(text, self.variables).map_err(|reason| self.fault(reason)),
            other => Err(self.fault(format_args!("must be a string, not {}", kind(other)))),
        }
    }

    /// A string that says something.
    pub(super) fn words(&self) -> Result<String, Fault> {
        let words = self.string()?;
        if words.trim().is_empty() { Err(self.fault("must not be empty")) } else { Ok(words) }
    }

    pub(super) fn truth(&self) -> Result<bool, Fault> {
        match self.value() {
            DeValue::Boolean(truth) => Ok(*truth),
            other => Err(self.fault(format_args!("must be true or false, not {}", kind(other)))),
        }
    }

    /// A string that means a value.
    pub(super) fn read<T: Value>(&self) -> Result<T, Fault> {
        T::read(&self.string()?).map_err(|reason| self.fault(reason))
    }

    /// The elements of a list, each under the list's name.
    pub(super) fn elements(&self, form: &str) -> Result<Vec<Self>, Fault> {
        match self.value() {
            DeValue::Array(items) => Ok(items.iter().map(|value| Self { value, ..*self }).collect()),
            other => Err(self.fault(format_args!("{form}, not {}", kind(other)))),
        }
    }

    /// What is in a table.
    pub(super) fn entries(&self) -> Result<Vec<Self>, Fault> {
        match self.value() {
            DeValue::Table(table) => Ok(Self::all(table, self.variables)),
            other => Err(self.fault(format_args!("must be a table, not {}", kind(other)))),
        }
    }

    /// What is in a table that may have only these keys.
    pub(super) fn entries_among(&self, keys: &[&str]) -> Result<Vec<Self>, Fault> {
        let entries = self.entries()?;
        match entries.iter().find(|entry| !keys.contains(&entry.name)) {
            None => Ok(entries),
            Some(stranger) => Err(stranger.unknown(keys, &format!("; use {}", either(keys)))),
        }
    }

    /// The key is none of these.
    pub(super) fn unknown(&self, keys: &[&str], otherwise: &str) -> Fault {
        let meant = nearest(self.name, keys).map(|key| format!("; did you mean {key}?"));
        self.key_fault(format!("unknown key {}{}", self.name, meant.as_deref().unwrap_or(otherwise)))
    }

    /// The value as it is written, on one line unless a string has several.
    pub(super) fn shown(&self) -> String {
        shown(self.value())
    }

    /// The same for a table whose values nobody may see.
    pub(super) fn shown_without_values(&self) -> String {
        match self.value() {
            DeValue::Table(table) => {
                braces(table.keys().map(|key| (key.get_ref().as_ref(), shown_text("(secret)"))))
            }
            _ => shown_text("(secret)"),
        }
    }
}

/// The key that was probably meant.
pub(super) fn nearest<'k>(name: &str, keys: &[&'k str]) -> Option<&'k str> {
    const CLOSE: f64 = 0.8;
    let likeness = |key: &&str| strsim::jaro(key, name);
    let best = keys.iter().copied().max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(&best) >= CLOSE).then_some(best)
}

/// A key as it is written before `=` or in a header.
pub(super) fn shown_key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.bytes().all(bare) {
        name.to_owned()
    } else {
        // Unlike a value, a key may not be written in several lines; JSON's strings are TOML's, too.
        serde_json::Value::from(name).to_string()
    }
}

pub(super) fn shown_text(text: &str) -> String {
    quoted(text).unwrap_or_default()
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => shown_text(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| shown(item.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(table) => {
            braces(table.iter().map(|(key, value)| (key.get_ref().as_ref(), shown(value.get_ref()))))
        }
    }
}

fn braces<'a>(entries: impl Iterator<Item = (&'a str, String)>) -> String {
    let entries: Vec<String> = entries.map(|(key, value)| format!("{} = {value}", shown_key(key))).collect();
    if entries.is_empty() { "{}".into() } else { format!("{{ {} }}", entries.join(", ")) }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn text_of(value: &DeValue<'_>, variables: Variables<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => expand(text, variables),
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Float(number) => Ok(number.to_string()),
        DeValue::Boolean(truth) => Ok(truth.to_string()),
        DeValue::Datetime(time) => Ok(time.to_string()),
        DeValue::Array(items) => {
            let texts: Result<Vec<_>, _> =
                items.iter().map(|item| text_of(item.get_ref(), variables)).collect();
            Ok(texts?.join(","))
        }
        DeValue::Table(_) => Err("must be a value, not a table".into()),
    }
}

/// Replaces every `${NAME}`.
fn expand(text: &str, variables: Variables<'_>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, behind) = after.split_once('}').ok_or("a ${ has no }")?;
        expanded.push_str(before);
        expanded
            .push_str(&variables(name).ok_or_else(|| format!("the environment variable {name} is not set"))?);
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}
