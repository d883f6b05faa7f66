//! The output of `--check`: a file that has the settings in force, each with its place.

use std::fmt;

use super::{
    Config,
    errors::ErrorsTable,
    policy::WrittenRule,
    setting::{SETTINGS, Setting},
};

/// The settings in force and their places. `Display` shows no secret.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a>(pub(super) &'a Config);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(config) = self;
        let values = config.shown();
        for Setting { key, .. } in SETTINGS.iter() {
            match values.get(key) {
                Some(value) => writeln!(f, "{key} = {value}  # {}", config.origins.place(key))?,
                None => writeln!(f, "# {key} is not set")?,
            }
        }
        for table in &config.tables.written {
            write!(f, "\n{table}")?;
        }
        for warning in config.tables.policy.iter().flat_map(WrittenRule::warnings) {
            write!(f, "\n# warning: {warning}\n")?;
        }
        let errors =
            toml::to_string(&ErrorsTable::from(&config.tables.error_policy)).map_err(|_| fmt::Error)?;
        write!(f, "\n[errors]\n{errors}")
    }
}
