//! What the file says that a variable cannot: its tables, typed.
//!
//! Invariant: nothing here shows a secret, neither `Debug` nor what [`Written`] repeats of the file.

use std::{collections::BTreeMap, fmt};

use fermata_mcp::ServerConfig;
use fermata_tools::{Decision, ErrorPolicy, Matcher, Pattern, Rule, ToolSettings};

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
    pub(super) errors: ErrorPolicy,
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

impl WrittenRule {
    /// What of the rule probably allows more than was meant, each with its place.
    pub fn warnings(&self) -> Vec<String> {
        if self.rule.decision != Decision::Allow {
            return Vec::new();
        }
        let risky = self.rule.input.iter().filter_map(|(path, matcher)| Some((path, risk(path, matcher)?)));
        risky.map(|(path, risk)| format!("{}: {path}: {risk}", self.written.place)).collect()
    }
}

/// Why a condition on a field is too weak to allow calls by it, if it is.
fn risk(path: &str, matcher: &Matcher) -> Option<String> {
    match matcher {
        Matcher::Glob(glob) => {
            let glob = glob.to_string();
            let is_open = glob.contains(['*', '?']);
            let (url, file) = (looks_like_url(path, &glob), looks_like_path(path, &glob));
            if is_open && url {
                return Some(format!(
                    "the glob {glob:?} also allows other hosts, such as https://docs.example.com.evil.com for https://docs.example.com*; use \
                     {{ host = \"docs.example.com\" }}"
                ));
            }
            (is_open && file).then(|| {
                format!(
                    "the glob {glob:?} also allows paths that lead out with \"..\"; use {{ under = \"/srv/safe\" }}"
                )
            })
        }
        Matcher::OneOf(matchers) | Matcher::All(matchers) => {
            matchers.iter().find_map(|matcher| risk(path, matcher))
        }
        Matcher::Not(_) => {
            Some("to allow all but some calls, one has to think of all; name what is allowed instead".into())
        }
        Matcher::Literal(_)
        | Matcher::Under(_)
        | Matcher::Host(_)
        | Matcher::Between { .. }
        | Matcher::Regex(_) => None,
    }
}

fn looks_like_url(path: &str, glob: &str) -> bool {
    glob.contains("://") || names(path, &["url", "uri", "href", "link", "host", "endpoint"])
}

fn looks_like_path(path: &str, glob: &str) -> bool {
    glob.contains(['/', '\\']) || names(path, &["path", "file", "filename", "dir", "directory", "folder"])
}

/// Whether one of the words that the last name of a path consists of, or its plural, is one of these.
fn names(path: &str, wanted: &[&str]) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path).to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| {
        wanted.iter().any(|wanted| {
            word.ends_with(wanted) || word.strip_suffix('s').is_some_and(|word| word.ends_with(wanted))
        })
    })
}

impl fmt::Debug for WrittenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rule itself has what the environment keeps.
        self.written.fmt(f)
    }
}
