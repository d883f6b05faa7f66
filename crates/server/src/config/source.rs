//! Where a setting's text comes from. Knows nothing of what the texts mean.

use clap::ArgMatches;

use super::{ConfigError, SETTINGS, Setting, file::File, value::Value};

/// Everything that can set something, the strongest first.
pub(super) struct Sources<'a> {
    pub(super) options: &'a ArgMatches,
    pub(super) variables: &'a dyn Fn(&str) -> Option<String>,
    pub(super) file: File,
}

impl Sources<'_> {
    /// The setting's value.
    pub(super) fn read<T: Value>(&self, setting: Option<&Setting>) -> Result<T, ConfigError> {
        let Some(setting) = setting else {
            return Err(ConfigError::Bad("a setting is not in the table".into()));
        };
        let Some((text, place)) = self.find(setting) else {
            let missing = || ConfigError::Bad(format!("{} must be set", setting.variable));
            return T::absent().ok_or_else(missing);
        };
        T::read(&text).map_err(|reason| ConfigError::Bad(format!("{place}: {}: {reason}", setting.key)))
    }

    /// Where the value in force stands, for a person.
    pub(super) fn place(&self, key: &str) -> String {
        let setting = SETTINGS.iter().find(|setting| setting.key == key);
        setting.and_then(|setting| self.find(setting)).map_or_else(|| "default".into(), |(_, place)| place)
    }

    fn find(&self, setting: &Setting) -> Option<(String, String)> {
        let option = || {
            let text = self.options.get_one::<String>(setting.key)?;
            Some((text.clone(), format!("--{}", setting.key.replace('_', "-"))))
        };
        let variable = || Some(((self.variables)(setting.variable)?, setting.variable.to_owned()));
        let file = || self.file.get(setting.key);
        let default = || Some((setting.default?.to_owned(), "default".to_owned()));
        option().or_else(variable).or_else(file).or_else(default)
    }
}
