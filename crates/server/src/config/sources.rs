//! The sources of settings, and which of them counts: the option, then the variable, then the file, then the default.

use std::collections::BTreeMap;

use clap::ArgMatches;
use serde::de::value::MapDeserializer;
use serde_path_to_error::Segment;

use super::{
    Config, ConfigError,
    fault::nearest,
    file::File,
    node::Node,
    placed::Placed,
    setting::{SETTINGS, Setting},
    variables::{Variables, in_file},
};

/// The place of a value that nothing has set.
const DEFAULT: &str = "default";

/// The text of each setting that counts, by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins(BTreeMap<&'static str, Placed>);

/// Reads every setting from the strongest source that has it.
pub(super) fn collect(
    options: &ArgMatches,
    variables: Variables<'_>,
    file: File,
) -> Result<Config, ConfigError> {
    let mut origins = Origins::default();
    for setting @ Setting { key, variable, default, .. } in SETTINGS.iter() {
        let of_option = options.try_get_one::<String>(key).ok().flatten();
        let of_option = of_option
            .map(|text| Placed { text: text.clone(), place: format!("--{}", key.replace('_', "-")) });
        let of_variable = match (&of_option, variable) {
            (None, Some(name)) => variables.get(name).map_err(ConfigError::Bad)?,
            (Some(_), _) | (_, None) => None,
        };
        let of_variable =
            of_variable.map(|placed| if setting.is_list() { placed.in_one_line() } else { placed });
        let of_default = || default.clone().map(|text| Placed { text, place: DEFAULT.to_owned() });
        let found = of_option.or(of_variable).or_else(|| file.settings.get(key).cloned()).or_else(of_default);
        if let Some(found) = found {
            origins.0.insert(key, found);
        }
    }
    let mut config = origins.read()?;
    let tokens = file.tables.users.iter().filter_map(|(name, user)| Some(user.token.as_ref()?.of(name)));
    config.access.tokens.extend(tokens);
    Ok(Config { tables: file.tables, file: file.path, origins, ..config })
}

// === impl Origins ===

impl Origins {
    pub(super) fn read(&self) -> Result<Config, ConfigError> {
        let sections = SETTINGS.chunk_by(|one, other| one.section == other.section).map(|settings| {
            let keys = settings.iter().map(|setting| setting.key.as_str());
            let texts = keys.filter_map(|key| Some((key, Node::Text(self.0.get(key)?.text.as_str().into()))));
            (settings[0].section.as_str(), MapDeserializer::new(texts))
        });
        serde_path_to_error::deserialize(MapDeserializer::new(sections)).map_err(|error| {
            // A path is a section and a key, and the place in a list.
            let key = match error.path().iter().nth(1) {
                Some(Segment::Map { key }) => key.as_str(),
                _ => "",
            };
            ConfigError::Bad(format!("{}: {}", self.place(key), error.inner().about(key)))
        })
    }

    /// Adds the defaults that settings have unless auth is none.
    pub(super) fn add_defaults_with_auth(&mut self) {
        for Setting { key, default_with_auth, .. } in SETTINGS.iter() {
            if let Some(text) = default_with_auth.clone() {
                self.0.entry(key).or_insert(Placed { text, place: DEFAULT.to_owned() });
            }
        }
    }

    /// Returns whether something sets the setting.
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|placed| placed.place != DEFAULT)
    }

    /// Returns the place of the value in force, for people.
    pub(super) fn place(&self, key: &str) -> &str {
        self.0.get(key).map_or(DEFAULT, |placed| &placed.place)
    }

    /// Returns the text of the value in force, which may be a secret.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|placed| placed.text.as_str())
    }

    /// Returns the name of a setting that is at fault: the place that sets it, or its variable if nothing does.
    pub(super) fn culprit(&self, key: &str) -> String {
        let variable = SETTINGS.iter().find(|setting| setting.key == key).and_then(|it| it.variable.clone());
        match self.place(key) {
            DEFAULT => variable.unwrap_or_else(|| key.to_owned()),
            place => place.to_owned(),
        }
    }
}

/// Returns a warning for each of these environment variables that looks like a setting but is none.
pub fn warnings_of_variables(variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let known: Vec<&str> = SETTINGS
        .iter()
        .filter_map(|setting| setting.variable.as_deref())
        .chain(["FERMATA_CONFIG", "FERMATA_TOKEN"])
        .collect();
    let mut warnings = Vec::new();
    for (name, value) in variables {
        // Kubernetes describes a service named fermata to every container by such variables.
        let is_of_service = name.starts_with("FERMATA_SERVICE_")
            || name.starts_with("FERMATA_PORT_")
            || (name == "FERMATA_PORT" && value.contains("://"));
        let is_known =
            known.contains(&name.as_str()) || in_file(&name).is_some_and(|name| known.contains(&name));
        if name.starts_with("FERMATA_") && !is_known && !is_of_service {
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
