//! Environment variables, and files that have their values.

use super::{placed::Placed, setting::SETTINGS};

/// The environment. A file may have the value of a variable `NAME`: then `NAME_FILE` is its path.
#[derive(Clone, Copy)]
pub(super) struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

/// The end of the name of a variable that names a file.
const OF_FILE: &str = "_FILE";

/// Returns the variable whose value is in the file that the variable `name` names.
pub(super) fn in_file(name: &str) -> Option<&str> {
    // Some settings are themselves paths of files.
    let is_setting = || SETTINGS.iter().any(|setting| setting.variable.as_deref() == Some(name));
    name.strip_suffix(OF_FILE).filter(|_| !is_setting())
}

// === impl Variables ===

impl<'a> Variables<'a> {
    pub fn new(environment: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(environment)
    }

    /// Returns the value of a variable, if it is set. An empty one counts as unset.
    ///
    /// # Errors
    /// Returns an error if its file cannot be read, or if there is a value and a file.
    pub fn get(self, name: &str) -> Result<Option<Placed>, String> {
        let set = |name: &str| self.0(name).filter(|value| !value.is_empty());
        let value = set(name).map(|text| Placed { text, place: name.to_owned() });
        let name_of_file = format!("{name}{OF_FILE}");
        if in_file(&name_of_file).is_none() {
            return Ok(value);
        }
        match (value, set(&name_of_file)) {
            (value, None) => Ok(value),
            (Some(_), Some(_)) => {
                Err(format!("{name} and {name_of_file} are both set; leave out one of them"))
            }
            (None, Some(path)) => match std::fs::read_to_string(&path) {
                Ok(text) => Ok(Some(Placed { text: text.trim_end().to_owned(), place: name_of_file })),
                Err(error) => Err(format!("{name_of_file}: {path} cannot be read: {error}")),
            },
        }
    }
}
