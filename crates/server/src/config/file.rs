//! `fermata.toml` as texts by key, each with its line.
//!
//! `${NAME}` in a string is replaced from the environment, so that the file can be shared and the secrets need not be.
//! Values become text here; what a text means is the setting's own affair, wherever the text stood.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::{ConfigError, SETTINGS};

/// Where the file is looked for when nobody names one.
const DEFAULT_PATH: &str = "fermata.toml";

/// The settings of a file; none, where there is no file.
#[derive(Debug, Default)]
pub(super) struct File {
    path: String,
    texts: BTreeMap<String, (String, usize)>,
}

type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl File {
    /// Reads the named file, or the usual one where there is one.
    pub(super) fn open(named: Option<&str>, variables: Variables<'_>) -> Result<Self, ConfigError> {
        let path = named.unwrap_or(DEFAULT_PATH);
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text, variables),
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            Err(error) => Err(ConfigError::Bad(format!("{path}: cannot be read: {error}"))),
        }
    }

    /// Reads the text of a file.
    pub(super) fn parse(path: &str, text: &str, variables: Variables<'_>) -> Result<Self, ConfigError> {
        let line = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        let bad = |at: usize, reason: String| ConfigError::Bad(format!("{path}:{}: {reason}", line(at)));
        let table = DeTable::parse(text).map_err(|error| {
            bad(error.span().map_or(0, |span| span.start), error.message().trim().replace('\n', ", "))
        })?;
        let mut texts = BTreeMap::new();
        for (key, value) in table.get_ref().iter() {
            let at = key.span().start;
            let name = key.get_ref().as_ref();
            if !SETTINGS.iter().any(|setting| setting.key == name) {
                return Err(bad(at, format!("unknown key {name}{}", nearest(name))));
            }
            let text = text_of(value.get_ref(), variables)
                .map_err(|reason| bad(value.span().start, format!("{name}: {reason}")))?;
            texts.insert(name.to_owned(), (text, line(value.span().start)));
        }
        Ok(Self { path: path.to_owned(), texts })
    }

    /// A setting's text, and its place as `file:line`.
    pub(super) fn get(&self, key: &str) -> Option<(String, String)> {
        let (text, line) = self.texts.get(key)?;
        Some((text.clone(), format!("{}:{line}", self.path)))
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

/// The key that was probably meant, as the end of a sentence.
fn nearest(name: &str) -> String {
    let close = |key: &&str| key.starts_with(name) || name.starts_with(key) || same_letters(key, name);
    match SETTINGS.iter().map(|setting| setting.key).find(close) {
        Some(key) => format!("; did you mean {key}?"),
        None => "; fermata --help lists all keys".into(),
    }
}

fn same_letters(a: &str, b: &str) -> bool {
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    sorted(a) == sorted(b)
}
