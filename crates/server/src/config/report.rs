//! The output of `--check`: a file that has the settings in force, each with its place.

use std::fmt;

use fermata_tools::ErrorType;

use super::{
    Config,
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
        let about_inputs = config.tables.policy.iter().flat_map(WrittenRule::warnings);
        for warning in about_inputs.chain(config.warnings_about_deciders()) {
            write!(f, "\n# warning: {warning}\n")?;
        }
        writeln!(f, "\n[errors]")?;
        for error_type in ErrorType::ALL {
            // A denial and a cancellation are decisions of people, so they have no strategy.
            if !matches!(error_type, ErrorType::Denied | ErrorType::Cancelled) {
                let strategy = config.tables.error_policy.of(error_type);
                writeln!(f, "{error_type} = \"{}\"", strategy.as_str())?;
            }
        }
        for entry in config.tables.error_policy.matches() {
            let (text, tool) =
                (toml::Value::from(entry.text.as_str()), toml::Value::from(entry.tool.to_string()));
            writeln!(
                f,
                "\n[[errors.match]]\ntext = {{ regex = {text} }}\ntool = {tool}\ntype = \"{}\"",
                entry.error_type
            )?;
        }
        Ok(())
    }
}
