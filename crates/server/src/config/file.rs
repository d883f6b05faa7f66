//! `fermata.toml`: settings as texts by key, each with its line, and the tables.
//!
//! A setting becomes text here; what a text means is the setting's own affair, wherever the text stood.

use std::collections::BTreeMap;

use toml::de::DeTable;

use super::{
    ConfigError, SETTINGS,
    entry::{Entry, Fault, Variables},
    tables::{TABLES, Tables},
};

/// Where the file is looked for when nobody names one.
const DEFAULT_PATH: &str = "fermata.toml";

/// What a file says; nothing, where there is no file.
#[derive(Debug, Default)]
pub(super) struct File {
    /// Where it is, if it is.
    pub(super) path: Option<String>,
    texts: BTreeMap<String, (String, String)>,
    pub(super) tables: Tables,
}

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
        let place = |at: usize| format!("{path}:{}", line(at));
        let bad = |fault: Fault| ConfigError::Bad(format!("{}: {}", place(fault.at), fault.reason));
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            bad(Fault { at, reason: error.message().trim().replace('\n', ", ") })
        })?;
        let mut file = Self { path: Some(path.to_owned()), ..Self::default() };
        for entry in Entry::all(table.get_ref(), variables) {
            file.take(&entry, &place).map_err(bad)?;
        }
        Ok(file)
    }

    fn take(&mut self, entry: &Entry<'_>, place: &dyn Fn(usize) -> String) -> Result<(), Fault> {
        let keys: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
        if keys.contains(&entry.name) {
            self.texts.insert(entry.name.to_owned(), (entry.text()?, place(entry.at())));
            Ok(())
        } else if TABLES.contains(&entry.name) {
            self.tables.read(entry, place)
        } else {
            let keys: Vec<&str> = keys.into_iter().chain(TABLES).collect();
            Err(entry.unknown(&keys, "; fermata --help lists all keys"))
        }
    }

    /// A setting's text, and its place as `file:line`.
    pub(super) fn get(&self, key: &str) -> Option<(String, String)> {
        self.texts.get(key).cloned()
    }
}
