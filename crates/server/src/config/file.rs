//! `fermata.toml`: its settings as texts by key, its tables, and the line of each.
//!
//! A setting stays a text here, because a variable or an option may stand in its place. `${NAME}` in a string is replaced from the
//! environment. Nothing that is shown, neither by `Debug` nor by [`Written`] nor in an error, has values of the environment.

use std::collections::BTreeMap;

use fermata_mcp::ServerConfig;
use fermata_tools::{ErrorPolicy, Pattern, ToolSettings};
use serde::{Deserialize, de::DeserializeOwned};
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

use super::{
    ConfigError,
    assistants::{self, AssistantSettings},
    channels::{self, ChannelSettings, ChannelTable, NotifyRequester},
    context::ContextTable,
    errors::ErrorsTable,
    fault::{Fault, nearest},
    identity::UserSettings,
    mcp::{self, ServerTable},
    models::ModelSettings,
    node,
    placed::Placed,
    policy::{RuleTable, WrittenRule, join_paths},
    setting::SETTINGS,
    tools::ToolsTable,
    variables::Variables,
    written::{Written, mask, toml_key},
};
use crate::owner::read_owner;

/// The path of the file if nobody names one.
pub(super) const DEFAULT_PATH: &str = "fermata.toml";
/// The names of the tables.
const TABLES: [&str; 10] = [
    "policy",
    "tools",
    "mcp",
    "errors",
    "models",
    "assistants",
    "users",
    "context",
    "channels",
    "notify_requester",
];

/// The content of a file. It is empty if there is no file.
#[derive(Debug, Default)]
pub(super) struct File {
    /// The path of the file, if there is one.
    pub(super) path: Option<String>,
    /// The settings by key.
    pub(super) settings: BTreeMap<String, Placed>,
    pub(super) tables: Tables,
}

/// The tables of a file.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The rules about calls, in their order.
    pub policy: Vec<WrittenRule>,
    /// The settings of tools by name, in their order. If several entries match, the last one counts.
    pub tools: Vec<(Pattern, ToolSettings)>,
    /// The MCP servers, by name.
    pub mcp: BTreeMap<String, ServerConfig>,
    /// The strategies for failures, defaults included.
    pub error_policy: ErrorPolicy,
    /// The models besides the one of the main settings, by name.
    pub models: BTreeMap<String, ModelSettings>,
    /// The assistants by name, `default` among them.
    pub assistants: BTreeMap<String, AssistantSettings>,
    /// The users who are in groups, by name.
    pub users: BTreeMap<String, UserSettings>,
    /// The channels, by name.
    pub channels: BTreeMap<String, ChannelSettings>,
    /// The channels that bring a requester's own waiting calls to them.
    pub notify_requester: Option<NotifyRequester>,
    /// The tools whose outputs are never cleared to save room.
    pub never_clear: Vec<Pattern>,
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
                let text = node::text(value.get_ref(), self.variables).map_err(|reason| Fault {
                    at: value.span().start,
                    reason: format!("{name}: {reason}"),
                })?;
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
                    let (written, with_spans) = (self.written("[[policy]]".into(), &rule), rule.clone());
                    let rule: RuleTable = node::read("policy", rule, self.variables)?;
                    let rule = rule.try_into().map_err(|(key, reason)| Fault {
                        at: key_place(&with_spans, key).unwrap_or(at),
                        reason: format!("{key}: {reason}"),
                    })?;
                    tables.policy.push(WrittenRule { rule, written: written.clone() });
                    tables.written.push(written);
                }
            }
            ("tools", DeValue::Table(globs)) => {
                let read = |table: ToolsTable| table.try_into();
                let named: Vec<_> = self.read_named(name, globs, |_| Ok(()), read, &mut tables.written)?;
                let named = named.into_iter();
                tables.tools = named.map(|(glob, settings)| (Pattern::new(&glob), settings)).collect();
            }
            ("mcp", DeValue::Table(servers)) => {
                let read = |table: ServerTable| table.try_into();
                tables.mcp = self.read_named(name, servers, mcp::check_name, read, &mut tables.written)?;
            }
            ("models", DeValue::Table(models)) => {
                let read = |model: ModelSettings| model.check().map(|()| model);
                tables.models =
                    self.read_named(name, models, assistants::check_name, read, &mut tables.written)?;
            }
            ("assistants", DeValue::Table(named)) => {
                let read = |assistant: AssistantSettings| assistant.complete(self.path);
                tables.assistants =
                    self.read_named(name, named, assistants::check_name, read, &mut tables.written)?;
            }
            ("users", DeValue::Table(users)) => {
                let check_name = |name: &str| match read_owner(name) {
                    Ok(_) => Ok(()),
                    Err(fault) => Err(format!("the name of the user {name:?} {fault}")),
                };
                tables.users = self.read_named(name, users, check_name, Ok, &mut tables.written)?;
            }
            ("channels", DeValue::Table(named)) => {
                let read = |table: ChannelTable| table.try_into();
                tables.channels =
                    self.read_named(name, named, channels::check_name, read, &mut tables.written)?;
            }
            ("notify_requester", table @ DeValue::Table(_)) => {
                let table = Spanned::new(at..at, table);
                tables.written.push(self.written("[notify_requester]".into(), &table));
                tables.notify_requester = Some(node::read(name, table, self.variables)?);
            }
            ("context", context @ DeValue::Table(_)) => {
                let context = Spanned::new(at..at, context);
                tables.written.push(self.written("[context]".into(), &context));
                let context: ContextTable = node::read("context", context, self.variables)?;
                tables.never_clear = context.into();
            }
            ("errors", errors @ DeValue::Table(_)) => {
                let errors: ErrorsTable = node::read("errors", Spanned::new(at..at, errors), self.variables)?;
                let policy = errors.policy();
                tables.error_policy =
                    policy.map_err(|reason| Fault { at, reason: format!("errors.{reason}") })?;
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
    fn read_named<T: DeserializeOwned, V, C: FromIterator<(String, V)>>(
        &self,
        header: &str,
        named: DeTable<'_>,
        check_name: fn(&str) -> Result<(), String>,
        read: impl Fn(T) -> Result<V, (&'static str, String)>,
        written: &mut Vec<Written>,
    ) -> Result<C, Fault> {
        let tables = named.into_iter().map(|(name, table)| {
            let at = start(name.span().start, &table);
            let name = name.into_inner();
            check_name(&name).map_err(|reason| Fault { at, reason })?;
            written.push(self.written(format!("[{header}.{}]", toml_key(&name)), &table));
            let with_spans = table.clone();
            let value = read(node::read(&name, table, self.variables)?).map_err(|(key, reason)| {
                match key_place(&with_spans, key) {
                    Some(at) => Fault { at, reason: format!("{key}: {reason}") },
                    None => Fault { at, reason: format!("{name}: {reason}") },
                }
            })?;
            Ok((name.into_owned(), value))
        });
        tables.collect()
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

fn unknown_key(name: &str) -> String {
    let known: Vec<&str> = SETTINGS.iter().map(|setting| setting.key.as_str()).chain(TABLES).collect();
    match nearest(name, &known) {
        Some(meant) => format!("unknown key {name}; did you mean {meant}?"),
        None => format!("unknown key {name}; fermata --help lists all keys"),
    }
}
