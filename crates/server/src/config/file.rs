//! `fermata.toml`: its settings as texts by key, its tables, and the line of each.
//!
//! A setting stays a text here, because a variable or an option may stand in its place. `${NAME}` in a string is replaced from the
//! environment. Nothing that is shown, neither by `Debug` nor by [`Written`] nor in an error, has values of the environment.

use std::{collections::BTreeMap, fmt};

use fermata_mcp::ServerConfig;
use fermata_tools::{ErrorPolicy, Pattern, ToolSettings};
use serde::{Deserialize, de::DeserializeOwned};
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

use super::{
    ConfigError, SETTINGS,
    assistants::{self, AssistantSettings, AssistantTable},
    context::ContextTable,
    errors::ErrorsTable,
    fault::{Fault, nearest, reworded},
    identity::{UserSettings, UserTable},
    mcp::{self, ServerTable},
    models::{ModelSettings, ModelTable},
    policy::{RuleTable, WrittenRule, join_paths},
    text::Text,
    tools::ToolsTable,
    written::{Written, mask, toml_key},
};
use crate::owner::read_owner;

/// The path of the file if nobody names one.
const DEFAULT_PATH: &str = "fermata.toml";
/// The names of the tables.
const TABLES: [&str; 8] = ["policy", "tools", "mcp", "errors", "models", "assistants", "users", "context"];

/// The environment.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The content of a file. It is empty if there is no file.
#[derive(Debug, Default)]
pub(super) struct File {
    /// The path of the file, if there is one.
    pub(super) path: Option<String>,
    /// The settings by key.
    pub(super) settings: BTreeMap<String, Placed>,
    pub(super) tables: Tables,
}

/// The text of a setting, and its place as `file:line`.
#[derive(Clone)]
pub(super) struct Placed {
    pub(super) text: String,
    pub(super) place: String,
}

/// The tables of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    /// The rules, in their order.
    pub(super) policy: Vec<WrittenRule>,
    /// The settings of tools, in their order.
    pub(super) tools: Vec<(Pattern, ToolSettings)>,
    /// The MCP servers, by name.
    pub(super) mcp: BTreeMap<String, ServerConfig>,
    /// The strategies for failures, defaults included.
    pub(super) errors: ErrorPolicy,
    /// The models, by name.
    pub(super) models: BTreeMap<String, ModelSettings>,
    /// The assistants, by name.
    pub(super) assistants: BTreeMap<String, AssistantSettings>,
    /// The users, by name.
    pub(super) users: BTreeMap<String, UserSettings>,
    /// The tools whose outputs are never cleared.
    pub(super) never_clear: Vec<Pattern>,
    /// All tables but `errors`, as they are written.
    pub(super) written: Vec<Written>,
}

/// The text of a file with the context that reading it needs.
struct Source<'a> {
    path: &'a str,
    text: &'a str,
    variables: Variables<'a>,
}

// === impl File ===

impl File {
    /// Reads the named file, or the default one if it exists.
    pub(super) fn open(named: Option<&str>, variables: Variables<'_>) -> Result<Self, ConfigError> {
        let path = named.unwrap_or(DEFAULT_PATH);
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text, variables),
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            Err(error) => Err(ConfigError::Bad(format!("{path}: cannot be read: {error}"))),
        }
    }

    /// Reads the text of a file.
    pub(super) fn parse(path: &str, text: &str, variables: Variables<'_>) -> Result<Self, ConfigError> {
        let source = Source { path, text, variables };
        source
            .read()
            .map_err(|fault| ConfigError::Bad(format!("{}: {}", source.place(fault.at), fault.reason)))
    }
}

// === impl Source ===

impl Source<'_> {
    fn read(&self) -> Result<File, Fault> {
        let table = DeTable::parse(self.text).map_err(|error| Fault {
            at: error.span().map_or(0, |span| span.start),
            reason: error.message().trim().replace('\n', ", "),
        })?;
        let mut file = File { path: Some(self.path.to_owned()), ..File::default() };
        for (key, value) in table.into_inner() {
            let name = key.get_ref().as_ref();
            if SETTINGS.iter().any(|setting| setting.key == name) {
                let place = self.place(start(key.span().start, &value));
                let Text(text) = self.deserialize(name, value)?;
                file.settings.insert(name.to_owned(), Placed { text, place });
            } else if TABLES.contains(&name) {
                self.read_table(name, value, &mut file.tables)?;
            } else {
                return Err(Fault { at: key.span().start, reason: unknown_key(name) });
            }
        }
        Ok(file)
    }

    fn read_table(&self, name: &str, value: Spanned<DeValue<'_>>, tables: &mut Tables) -> Result<(), Fault> {
        let at = value.span().start;
        match (name, value.into_inner()) {
            ("policy", DeValue::Array(rules)) => {
                for mut rule in rules {
                    if let DeValue::Table(table) = rule.get_mut() {
                        join_paths(table)?;
                    }
                    let written = self.written("[[policy]]".into(), &rule);
                    let rule: RuleTable = self.deserialize("policy", rule)?;
                    tables.policy.push(WrittenRule { rule: rule.into(), written: written.clone() });
                    tables.written.push(written);
                }
            }
            ("tools", DeValue::Table(globs)) => {
                for (glob, settings) in globs {
                    let glob = glob.into_inner();
                    let header = format!("[tools.{}]", toml_key(&glob));
                    tables.written.push(self.written(header, &settings));
                    let at = settings.span().start;
                    let settings: ToolsTable = self.deserialize(&glob, settings)?;
                    let settings = settings.try_into().map_err(|reason| Fault { at, reason })?;
                    tables.tools.push((Pattern::new(&glob), settings));
                }
            }
            ("mcp", DeValue::Table(servers)) => {
                let read = |table: ServerTable| table.try_into();
                tables.mcp = self.read_named(name, servers, mcp::check_name, read, &mut tables.written)?;
            }
            ("models", DeValue::Table(models)) => {
                let read = |table: ModelTable| table.try_into();
                tables.models =
                    self.read_named(name, models, assistants::check_name, read, &mut tables.written)?;
            }
            ("assistants", DeValue::Table(named)) => {
                let read = |table: AssistantTable| table.read(self.path);
                tables.assistants =
                    self.read_named(name, named, assistants::check_name, read, &mut tables.written)?;
            }
            ("users", DeValue::Table(users)) => {
                let check_name = |name: &str| match read_owner(name) {
                    Ok(_) => Ok(()),
                    Err(fault) => Err(format!("the name of the user {name:?} {fault}")),
                };
                let read = |table: UserTable| Ok(table.into());
                tables.users = self.read_named(name, users, check_name, read, &mut tables.written)?;
            }
            ("context", context @ DeValue::Table(_)) => {
                let context = Spanned::new(at..at, context);
                tables.written.push(self.written("[context]".into(), &context));
                let context: ContextTable = self.deserialize("context", context)?;
                tables.never_clear = context.into();
            }
            ("errors", errors @ DeValue::Table(_)) => {
                let errors: ErrorsTable = self.deserialize("errors", Spanned::new(at..at, errors))?;
                tables.errors = errors.into();
            }
            ("policy", _) => {
                return Err(Fault { at, reason: "policy: write each rule as [[policy]]".into() });
            }
            (name, _) => return Err(Fault { at, reason: format!("{name}: must be a table") }),
        }
        Ok(())
    }

    /// Reads the tables that a table has by name, and adds them to those for reports. A fault of one of them comes from `read`
    /// with its key, or "" if it is the table itself.
    fn read_named<T: DeserializeOwned, V>(
        &self,
        header: &str,
        named: DeTable<'_>,
        check_name: fn(&str) -> Result<(), String>,
        read: impl Fn(T) -> Result<V, (&'static str, String)>,
        written: &mut Vec<Written>,
    ) -> Result<BTreeMap<String, V>, Fault> {
        let mut values = BTreeMap::new();
        for (name, table) in named {
            let at = start(name.span().start, &table);
            let name = name.into_inner();
            check_name(&name).map_err(|reason| Fault { at, reason })?;
            written.push(self.written(format!("[{header}.{}]", toml_key(&name)), &table));
            let with_spans = table.clone();
            let value = read(self.deserialize(&name, table)?).map_err(|(key, reason)| {
                match key_place(&with_spans, key) {
                    Some(at) => Fault { at, reason: format!("{key}: {reason}") },
                    None => Fault { at, reason: format!("{name}: {reason}") },
                }
            })?;
            values.insert(name.into_owned(), value);
        }
        Ok(values)
    }

    /// Reads the value of a key, with the variables that its strings name.
    fn deserialize<T: DeserializeOwned>(
        &self,
        key: &str,
        mut value: Spanned<DeValue<'_>>,
    ) -> Result<T, Fault> {
        let at = value.span().start;
        self.expand(key, &mut value)?;
        let with_spans = value.clone();
        T::deserialize(ValueDeserializer::from(value)).map_err(|error| {
            let at = error.span().map_or(at, |span| span.start);
            Fault { at, reason: reworded(error.message(), innermost_key(key, &with_spans, at)) }
        })
    }

    /// Replaces every `${NAME}` in the strings of a value.
    fn expand(&self, key: &str, value: &mut Spanned<DeValue<'_>>) -> Result<(), Fault> {
        let at = value.span().start;
        match value.get_mut() {
            DeValue::String(text) => {
                let mut expanded = String::new();
                let mut rest: &str = text;
                while let Some((before, after)) = rest.split_once("${") {
                    let (name, behind) = after
                        .split_once('}')
                        .ok_or_else(|| Fault { at, reason: format!("{key}: a ${{ has no }}") })?;
                    let variable = (self.variables)(name).ok_or_else(|| Fault {
                        at,
                        reason: format!("{key}: the environment variable {name} is not set"),
                    })?;
                    expanded.push_str(before);
                    expanded.push_str(&variable);
                    rest = behind;
                }
                expanded.push_str(rest);
                *text = expanded.into();
                Ok(())
            }
            DeValue::Array(elements) => elements.iter_mut().try_for_each(|element| self.expand(key, element)),
            DeValue::Table(table) => {
                table.iter_mut().try_for_each(|(key, value)| self.expand(key.get_ref(), value))
            }
            DeValue::Datetime(_) => {
                Err(Fault { at, reason: format!("{key}: a date or time must be a string, in quotes") })
            }
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => Ok(()),
        }
    }

    /// Returns a table for reports, without what may be a secret. Its strings keep the names of their variables.
    fn written(&self, header: String, value: &Spanned<DeValue<'_>>) -> Written {
        let mut table = toml::Table::deserialize(ValueDeserializer::from(value.clone())).unwrap_or_default();
        mask(&mut table);
        let lines = table.iter().map(|(key, value)| (toml_key(key), value.to_string())).collect();
        Written { header, place: self.place(value.span().start), lines }
    }

    fn place(&self, at: usize) -> String {
        let line = self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        format!("{}:{line}", self.path)
    }
}

/// Returns where a key of a table is, if the table has it.
fn key_place(table: &Spanned<DeValue<'_>>, key: &str) -> Option<usize> {
    let DeValue::Table(table) = table.get_ref() else { return None };
    table.keys().find(|known| known.get_ref() == key).map(|key| key.span().start)
}

/// Returns where a value begins. A table that dots in keys have made begins at its key.
fn start(key: usize, value: &Spanned<DeValue<'_>>) -> usize {
    let span = value.span();
    if span.is_empty() { key } else { span.start }
}

/// Returns the key of the smallest value that the place is in.
fn innermost_key<'v>(key: &'v str, value: &'v Spanned<DeValue<'_>>, at: usize) -> &'v str {
    let entries: Vec<(&str, &Spanned<DeValue<'_>>)> = match value.get_ref() {
        DeValue::Table(table) => table.iter().map(|(key, value)| (key.get_ref().as_ref(), value)).collect(),
        DeValue::Array(elements) => elements.iter().map(|element| (key, element)).collect(),
        _ => Vec::new(),
    };
    let inner = entries.into_iter().find(|(_, value)| value.span().contains(&at));
    inner.map_or(key, |(key, value)| innermost_key(key, value, at))
}

fn unknown_key(name: &str) -> String {
    let known: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).chain(TABLES).collect();
    match nearest(name, &known) {
        Some(meant) => format!("unknown key {name}; did you mean {meant}?"),
        None => format!("unknown key {name}; fermata --help lists all keys"),
    }
}

impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}
