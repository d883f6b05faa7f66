//! The sources of settings, and which of them counts: the option, then the variable, then the file, then the default.

use super::{
    ConfigError, SETTINGS, Setting,
    fault::nearest,
    file::{File, Placed},
    node::Variables,
    options::Options,
    value::Value,
};

/// The place of a value that nothing has set.
const DEFAULT: &str = "default";

/// Everything that can set something.
pub(super) struct Sources<'a> {
    pub(super) options: &'a Options,
    pub(super) variables: Variables<'a>,
    pub(super) file: File,
}

impl Sources<'_> {
    /// Reads the value of a setting.
    pub(super) fn read<T: Value>(&self, key: &str) -> Result<T, ConfigError> {
        match self.find(key) {
            Some(Placed { text, place }) => {
                T::read(&text).map_err(|reason| ConfigError::Bad(format!("{place}: {key}: {reason}")))
            }
            None => T::unset().ok_or_else(|| ConfigError::Bad(format!("{key} must be set"))),
        }
    }

    /// Returns the place of the value in force, for people.
    pub(super) fn place(&self, key: &str) -> String {
        self.find(key).map_or_else(|| DEFAULT.into(), |placed| placed.place)
    }

    /// Returns the name of a setting that is at fault: the place that sets it, or its variable if nothing does.
    pub(super) fn culprit(&self, key: &str) -> String {
        let variable =
            SETTINGS.iter().find(|setting| setting.key == key).and_then(|setting| setting.variable);
        match self.find(key) {
            Some(Placed { place, .. }) if place != DEFAULT => place,
            Some(_) | None => variable.unwrap_or(key).to_owned(),
        }
    }

    fn find(&self, key: &str) -> Option<Placed> {
        let Setting { variable, default, .. } = SETTINGS.iter().find(|setting| setting.key == key)?;
        if let Some(text) = self.options.get(key) {
            Some(Placed { text: text.clone(), place: format!("--{}", key.replace('_', "-")) })
        } else if let Some(name) = variable
            && let Some(text) = (self.variables)(name)
        {
            Some(Placed { text, place: (*name).to_owned() })
        } else if let Some(placed) = self.file.settings.get(key) {
            Some(placed.clone())
        } else {
            default.map(|text| Placed { text: text.to_owned(), place: DEFAULT.into() })
        }
    }
}

/// Returns a warning for each of these environment variables that looks like a setting but is none.
pub fn warnings_of_variables(variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let known: Vec<&str> =
        SETTINGS.iter().filter_map(|setting| setting.variable).chain(["FERMATA_CONFIG"]).collect();
    let mut warnings = Vec::new();
    for (name, value) in variables {
        // Kubernetes describes a service named fermata to every container by such variables.
        let is_of_service = name.starts_with("FERMATA_SERVICE_")
            || name.starts_with("FERMATA_PORT_")
            || (name == "FERMATA_PORT" && value.contains("://"));
        if name.starts_with("FERMATA_") && !known.contains(&name.as_str()) && !is_of_service {
            let key = name["FERMATA_".len()..].to_ascii_lowercase();
            if SETTINGS.iter().any(|setting| setting.key == key && setting.variable.is_none()) {
                warnings.push(format!("{name} is set, but {key} is a key of the file only"));
                continue;
            }
            let meant = match name.as_str() {
                "FERMATA_PORT" => Some("PORT"),
                name => nearest(name, &known),
            };
            let hint = meant.map_or_else(String::new, |known| format!("; did you mean {known}?"));
            warnings.push(format!("{name} is set, but there is no such setting{hint}"));
        }
    }
    warnings.sort();
    warnings
}
