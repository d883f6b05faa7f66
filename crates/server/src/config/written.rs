//! Tables of the file as reports show them.

use std::fmt;

/// A table as it is written, without what nobody may see.
#[derive(Clone, Debug)]
pub struct Written {
    pub(super) header: String,
    /// The place, as `file:line`.
    pub place: String,
    /// The keys and the values, each as TOML.
    pub lines: Vec<(String, String)>,
}

/// Returns a key as TOML, in quotes if it needs them.
pub(super) fn toml_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.bytes().all(is_bare) {
        name.to_owned()
    } else {
        // Unlike a value, a key cannot be written in several lines. A JSON string is a TOML string, too.
        serde_json::Value::from(name).to_string()
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  # {}", self.header, self.place)?;
        self.lines.iter().try_for_each(|(key, value)| writeln!(f, "{key} = {value}"))
    }
}
