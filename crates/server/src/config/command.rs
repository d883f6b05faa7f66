//! The command line: what can be asked for, and `--help`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use fermata_protocol::ChatId;
use fermata_tools::{Owner, RunBy};
use serde_json::Value as Json;

use super::{
    Config, ConfigError, SETTINGS, Setting,
    file::{File, Variables},
    report::Report,
    schema::file_schema,
    sources::Sources,
    value::{Value, words},
};

/// What the command line asks for.
#[derive(Debug)]
pub enum Invocation {
    /// Serve.
    Serve(Box<Config>),
    /// Print this report of the settings in force, and exit.
    Check(Box<Config>, String),
    /// Print this report of the settings in force, start the MCP servers, print what each offers, and exit.
    CheckMcp(Box<Config>, String),
    /// Print this JSON Schema of the file, and exit.
    Schema(String),
    /// Print what the rules decide about a call, and exit.
    TestPolicy(Box<Config>, TestedCall),
    /// Bring the database up to date, and exit.
    Migrate(Box<Config>),
    /// Copy the database into this file, and exit.
    Backup(Box<Config>, PathBuf),
    /// Copy this file to where the database is, and exit.
    Restore(Box<Config>, PathBuf),
    /// Print all that is stored for this owner, and exit.
    ExportData(Box<Config>, Owner),
    /// Delete all that is stored for this owner, and exit.
    DeleteData(Box<Config>, Owner),
    /// Print what the model would be sent next in this chat, and exit.
    Prompt(Box<Config>, ChatId),
    /// Ask the server at the address of these settings whether it can serve, and exit.
    Health(Box<Config>),
    /// Tell the server at the operators' address of these settings to drain, wait for it if this is true, and exit.
    Drain(Box<Config>, bool),
}

/// A call to ask the rules about.
#[derive(Clone, Debug, PartialEq)]
pub struct TestedCall {
    /// The tool's name.
    pub tool: String,
    /// The input.
    pub input: Json,
    /// Who runs the tool; `None` if its name tells.
    pub from: Option<RunBy>,
    /// The owner of the chat.
    pub owner: Owner,
}

const POLICY: &str = "policy";
const TEST: &str = "test";
const MIGRATE: &str = "migrate";
const BACKUP: &str = "backup";
const RESTORE: &str = "restore";
const DATA: &str = "data";
const EXPORT: &str = "export";
const DELETE: &str = "delete";
const HEALTH: &str = "health";
const DRAIN: &str = "drain";
const SCHEMA: &str = "schema";
const PROMPT: &str = "prompt";

// === impl Invocation ===

impl Invocation {
    /// Reads the command line, the environment and the file.
    ///
    /// # Errors
    /// Returns an error that names the place of the first value that cannot be used.
    pub fn read(
        arguments: impl IntoIterator<Item = OsString>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let options = command().try_get_matches_from(arguments)?;
        if options.subcommand_name() == Some(SCHEMA) {
            return Ok(Self::Schema(format!("{:#}\n", file_schema())));
        }
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let sources = Sources { options: &options, variables: &set, file: open_file(&options, &set)? };
        let config = Config::read(&sources)?;
        if options.get_flag("check") {
            let report = Report { config: &config, sources: &sources }.to_string();
            let kind = if options.get_flag("mcp") { Self::CheckMcp } else { Self::Check };
            return Ok(kind(Box::new(config), report));
        }
        let config = Box::new(config);
        Ok(match options.subcommand() {
            Some((POLICY, policy)) => match policy.subcommand_matches(TEST).and_then(TestedCall::read) {
                Some(call) => Self::TestPolicy(config, call),
                None => Self::Serve(config),
            },
            Some((MIGRATE, _)) => Self::Migrate(config),
            Some((command @ (BACKUP | RESTORE), arguments)) => match arguments.get_one::<PathBuf>("file") {
                Some(file) if command == BACKUP => Self::Backup(config, file.clone()),
                Some(file) => Self::Restore(config, file.clone()),
                None => Self::Serve(config),
            },
            Some((DATA, data)) => match data.subcommand() {
                Some((command, arguments)) => {
                    let owner = arguments.get_one::<String>("owner");
                    let owner = owner.map_or_else(Owner::anyone, |owner| Owner::new(owner.as_str()));
                    if command == DELETE {
                        Self::DeleteData(config, owner)
                    } else {
                        Self::ExportData(config, owner)
                    }
                }
                None => Self::Serve(config),
            },
            Some((PROMPT, prompt)) => match prompt.get_one::<ChatId>("chat") {
                Some(chat) => Self::Prompt(config, chat.clone()),
                None => Self::Serve(config),
            },
            Some((HEALTH, _)) => Self::Health(config),
            Some((DRAIN, drain)) => Self::Drain(config, drain.get_flag("wait")),
            Some(_) | None => Self::Serve(config),
        })
    }
}

impl Config {
    /// Reads the environment and the file, for a program that has a command line of its own. The fields are public, and the program
    /// may change them.
    ///
    /// # Errors
    /// Returns an error that names the place of the first value that cannot be used.
    pub fn from_environment(environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let options = command().try_get_matches_from(["fermata"])?;
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        Self::read(&Sources { options: &options, variables: &set, file: open_file(&options, &set)? })
    }
}

/// Opens the file that `--config` or its variable names. clap hands a global option down to subcommands, so the innermost has it.
fn open_file(options: &ArgMatches, set: Variables<'_>) -> Result<File, ConfigError> {
    let innermost = std::iter::successors(Some(options), |outer| Some(outer.subcommand()?.1)).last();
    let named = innermost.and_then(|options| options.get_one::<String>("config")).cloned();
    File::open(named.or_else(|| set("FERMATA_CONFIG")).as_deref(), set)
}

pub(super) fn command() -> Command {
    let file = Arg::new("config").long("config").value_name("FILE").global(true);
    let check = Arg::new("check").long("check").action(ArgAction::SetTrue);
    let mcp = Arg::new("mcp").long("mcp").action(ArgAction::SetTrue).requires("check");
    Command::new("fermata")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .after_help(
            "Each setting is an option, an environment variable and a key of the file. An option outvotes the variable, and the \
             variable the file. In the file, a setting with commas may be a list. The file also has the rules about calls, settings \
             for tools by name, MCP servers, what follows failures, what stays in the history for the model, models and assistants: \
             [[policy]], [tools], [mcp], [errors], [context], [models] and [assistants], as fermata.example.toml shows them.",
        )
        .arg(file.help("The file with settings [env: FERMATA_CONFIG] [default: fermata.toml, if it exists]"))
        .arg(check.help("Print the settings in force, without secrets, and exit"))
        .arg(mcp.help("With --check: start each MCP server and list its tools, or print why it does not start"))
        .args(SETTINGS.iter().map(Setting::option))
        .subcommand(policy())
        .subcommand(Command::new(MIGRATE).about("Bring the database up to date, and exit"))
        .subcommand(
            Command::new(BACKUP)
                .about("Copy the database into a new file, also while a server uses it, and exit (SQLite)")
                .arg(file_argument("The file to make; nothing is overwritten")),
        )
        .subcommand(
            Command::new(RESTORE)
                .about("Put a backup in the place of the database, which must have been moved away, and exit (SQLite)")
                .arg(file_argument("The file that fermata backup has made")),
        )
        .subcommand(data())
        .subcommand(prompt())
        .subcommand(Command::new(HEALTH).about(
            "Ask the server at the address of these settings whether it can serve; the exit status is 0 if it can, and otherwise 1",
        ))
        .subcommand(
            Command::new(DRAIN)
                .about(
                    "Tell the server with these settings, at its operator_bind, to hand over what waits and to finish what is at work, and \
                     exit; the server goes on until a signal ends it",
                )
                .arg(
                    Arg::new("wait")
                        .long("wait")
                        .action(ArgAction::SetTrue)
                        .help("Wait until it is drained"),
                ),
        )
        .subcommand(
            Command::new(SCHEMA).about("Print the JSON Schema of the file, with which editors complete and check it"),
        )
}

fn file_argument(help: &'static str) -> Arg {
    Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help(help)
}

fn data() -> Command {
    let owner = || {
        Arg::new("owner")
            .value_name("OWNER")
            .required(true)
            .help("The user, as the credentials name them; anyone if the server knows no users")
    };
    Command::new(DATA)
        .about("Export or delete all that is stored for a user, also while servers use the database")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new(EXPORT)
                .about("Print the user's chats, memories, notes and decisions about calls as JSON, and exit")
                .arg(owner()),
        )
        .subcommand(
            Command::new(DELETE)
                .about(
                    "Delete the user's chats, memories and notes, which cannot be undone, and exit; decisions about calls are kept for \
                     audit_keep",
                )
                .arg(owner()),
        )
}

fn prompt() -> Command {
    let chat = Arg::new("chat")
        .value_name("CHAT")
        .required(true)
        .value_parser(|text: &str| ChatId::parse_listed(text).map_err(|error| error.to_string()))
        .help("The id of the chat");
    Command::new(PROMPT)
        .about("Print what the model would be sent next in a chat, with an estimate of its tokens, and send nothing")
        .arg(chat)
}

fn policy() -> Command {
    let test = Command::new(TEST)
        .about("Print whether a call would run, need approval or be denied, by which rule and why")
        .arg(Arg::new("tool").value_name("TOOL").required(true).help("The name of the tool"))
        .arg(
            Arg::new("input")
                .value_name("INPUT")
                .required(true)
                .allow_hyphen_values(true)
                .value_parser(|text: &str| {
                    serde_json::from_str::<Json>(text).map_err(|error| format!("it is not JSON: {error}"))
                })
                .help("The input as JSON, such as '{\"title\": \"Milk\"}'"),
        )
        .arg(
            Arg::new("from")
                .long("from")
                .value_name("WHO")
                .value_parser(words::<RunBy>())
                .help("Who runs the tool, if its name does not tell"),
        )
        .arg(
            Arg::new("owner")
                .long("owner")
                .value_name("OWNER")
                .help("The owner of the chat, for rules about owners [default: anyone]"),
        );
    Command::new(POLICY)
        .about("Ask the rules of the file about a call")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(test)
}

// === impl TestedCall ===

impl TestedCall {
    fn read(arguments: &ArgMatches) -> Option<Self> {
        let from = arguments.get_one::<String>("from").and_then(|from| RunBy::read(from).ok());
        let owner = arguments
            .get_one::<String>("owner")
            .map_or_else(Owner::anyone, |owner| Owner::new(owner.as_str()));
        let tool = arguments.get_one::<String>("tool")?.clone();
        Some(Self { tool, input: arguments.get_one::<Json>("input")?.clone(), from, owner })
    }
}

// === impl Setting ===

impl Setting {
    fn option(&self) -> Arg {
        let default = match self.default {
            Some(default) if !default.is_empty() => format!(" [default: {default}]"),
            Some(_) | None => String::new(),
        };
        let help = format!("{} [env: {}]{default}", self.about, self.variable);
        Arg::new(self.key)
            .long(self.key.replace('_', "-"))
            .value_name((self.value_name)())
            .help_heading(self.group)
            .help(help)
    }
}
