//! Tables of the file as reports show them.

use std::fmt;

use super::url::Url;

/// A table as it is written, without what nobody may see.
#[derive(Clone, Debug)]
pub struct Written {
    pub(super) header: String,
    /// The place, as `file:line`.
    pub place: String,
    /// The keys and the values, each as TOML.
    pub lines: Vec<(String, String)>,
}

/// Hides what may be a secret in a table: keys, the values of the environment and of headers, all arguments, and parts of URLs.
pub(super) fn mask(table: &mut toml::Table) {
    for (key, value) in table.iter_mut() {
        match (key.as_str(), value) {
            ("env" | "headers", toml::Value::Table(values)) => {
                values.iter_mut().for_each(|(_, value)| hide(value));
            }
            ("args", toml::Value::Array(args)) => args.iter_mut().for_each(hide),
            ("url" | "base_url", toml::Value::String(url)) => *url = Url::masked_with_path(url),
            (
                "env" | "headers" | "args" | "api_key" | "secret" | "signing_secret" | "token" | "smtp",
                value,
            ) => hide(value),
            _ => {}
        }
    }
}

fn hide(value: &mut toml::Value) {
    *value = "(secret)".into();
}

/// Returns a key as TOML, in quotes if it needs them.
pub(super) fn toml_key(name: &str) -> String {
    let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_bare && !name.is_empty() {
        name.to_owned()
    } else {
        // Unlike a value, a key cannot be written in several lines. A JSON string is also a TOML string.
        serde_json::Value::from(name).to_string()
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  # {}", self.header, self.place)?;
        self.lines.iter().try_for_each(|(key, value)| writeln!(f, "{key} = {value}"))
    }
}
