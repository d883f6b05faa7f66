//! The output of `--check`: a file that has the settings in force, each with its place.

use std::fmt;

use super::{Config, WrittenRule, errors::ErrorsTable, sources::Sources};

/// The settings in force and their sources. `Display` shows no secret.
pub(super) struct Report<'a> {
    pub(super) config: &'a Config,
    pub(super) sources: &'a Sources<'a>,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in self.config.shown() {
            match value {
                Some(value) => writeln!(f, "{key} = {value}  # {}", self.sources.place(key))?,
                None => writeln!(f, "# {key} is not set")?,
            }
        }
        for table in &self.sources.file.tables.written {
            write!(f, "\n{table}")?;
        }
        for warning in self.config.policy.iter().flat_map(WrittenRule::warnings) {
            write!(f, "\n# warning: {warning}\n")?;
        }
        let errors =
            toml::to_string(&ErrorsTable::from(&self.config.error_policy)).map_err(|_| fmt::Error)?;
        write!(f, "\n[errors]\n{errors}")
    }
}
