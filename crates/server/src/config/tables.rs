//! What the file says that a variable cannot: its tables, typed.
//!
//! Invariant: nothing here shows a secret, neither `Debug` nor what [`Written`] repeats of the file.

use std::{collections::BTreeMap, fmt};

use fermata_mcp::ServerConfig;
use fermata_tools::{Pattern, Rule, Strategies, ToolSettings};

use super::{
    entry::{Entry, Fault, shown_key},
    errors, mcp, policy, tools,
};

/// The names of the tables.
pub(super) const TABLES: [&str; 4] = ["policy", "tools", "mcp", "errors"];

/// The tables of a file; what follows a failure has defaults, the others are empty where nothing is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    pub(super) policy: Vec<WrittenRule>,
    pub(super) tools: Vec<(Pattern, ToolSettings)>,
    pub(super) mcp: BTreeMap<String, ServerConfig>,
    pub(super) errors: Strategies,
    /// All of them but `errors`, as they are written.
    pub(super) written: Vec<Written>,
}

/// A rule of the policy and where it stands.
#[derive(Clone)]
pub struct WrittenRule {
    /// The rule.
    pub rule: Rule,
    /// How it is written.
    pub written: Written,
}

/// A table as it is written, without what nobody may see.
#[derive(Clone, Debug)]
pub struct Written {
    header: String,
    /// Where, as `file:line`.
    pub place: String,
    /// Its keys and values, each as TOML.
    pub lines: Vec<(String, String)>,
}

// === impl Tables ===

impl Tables {
    /// Takes one of the [`TABLES`].
    pub(super) fn read(&mut self, entry: &Entry<'_>, place: &dyn Fn(usize) -> String) -> Result<(), Fault> {
        match entry.name {
            "policy" => self.read_policy(entry, place),
            "tools" => self.read_tools(entry, place),
            "mcp" => self.read_mcp(entry, place),
            _ => errors::read(entry).map(|errors| self.errors = errors),
        }
    }

    fn read_policy(&mut self, entry: &Entry<'_>, place: &dyn Fn(usize) -> String) -> Result<(), Fault> {
        for rule in entry.elements("write each rule as [[policy]]")? {
            let written = Written::of("[[policy]]".into(), &rule, place)?;
            self.policy.push(WrittenRule { rule: policy::read(&rule)?, written: written.clone() });
            self.written.push(written);
        }
        Ok(())
    }

    fn read_tools(&mut self, entry: &Entry<'_>, place: &dyn Fn(usize) -> String) -> Result<(), Fault> {
        for settings in entry.entries()? {
            self.tools.push((Pattern::new(settings.name), tools::read(&settings)?));
            self.written.push(Written::of(
                format!("[tools.{}]", shown_key(settings.name)),
                &settings,
                place,
            )?);
        }
        Ok(())
    }

    fn read_mcp(&mut self, entry: &Entry<'_>, place: &dyn Fn(usize) -> String) -> Result<(), Fault> {
        for server in entry.entries()? {
            self.mcp.insert(server.name.to_owned(), mcp::read(&server)?);
            let mut written = Written::of(format!("[mcp.{}]", shown_key(server.name)), &server, place)?;
            written.lines = mcp::shown(&server)?;
            self.written.push(written);
        }
        Ok(())
    }
}

// === impl Written ===

impl Written {
    fn of(header: String, entry: &Entry<'_>, place: &dyn Fn(usize) -> String) -> Result<Self, Fault> {
        let lines = entry.entries()?.iter().map(|entry| (shown_key(entry.name), entry.shown())).collect();
        Ok(Self { header, place: place(entry.at()), lines })
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  # {}", self.header, self.place)?;
        self.lines.iter().try_for_each(|(key, value)| writeln!(f, "{key} = {value}"))
    }
}

// === impl WrittenRule ===

impl fmt::Debug for WrittenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rule itself has what the environment keeps.
        self.written.fmt(f)
    }
}
