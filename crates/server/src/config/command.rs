//! The command line: what can be asked for, and `--help`.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    Arg, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use fermata_protocol::ChatId;
use fermata_tools::{Owner, RunBy};
use serde::Deserialize;
use serde_json::Value as Json;

use super::{
    Config, ConfigError,
    file::File,
    node::{Node, Variables},
    schema::file_schema,
    setting::{SETTINGS, Setting, words},
    sources::collect,
};

/// A request of the command line.
#[derive(Debug)]
pub enum Invocation {
    /// Serve.
    Serve(Box<Config>),
    /// Print the settings in force, and exit. If this is true, start the MCP servers as well, and print the offer of each.
    Check(Box<Config>, bool),
    /// Print this JSON Schema of the file, and exit.
    Schema(String),
    /// Run this command, and exit.
    Command(Box<Config>, OperatorCommand),
}

/// A call to ask the rules about.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct TestedCall {
    /// The name of the tool.
    pub tool: String,
    /// The input as JSON, such as '{"title": "Milk"}'.
    #[arg(allow_hyphen_values = true, value_parser = json)]
    pub input: Json,
    /// The party that runs the tool, if its name does not tell.
    #[arg(long, value_name = "WHO", value_parser = PossibleValuesParser::new(words::<RunBy>()).try_map(|word| RunBy::deserialize(Node::Text(word.into()))))]
    pub from: Option<RunBy>,
    /// The owner of the chat, for rules about owners [default: anyone].
    #[arg(long, value_parser = owner, default_value_t = Owner::anyone(), hide_default_value = true)]
    pub owner: Owner,
}

#[derive(Parser)]
#[command(
    name = "fermata",
    version,
    about = env!("CARGO_PKG_DESCRIPTION"),
    after_help = "Each setting is an option, an environment variable and a key of the file. An option overrides the variable, and the \
                  variable overrides the file. In the file, a setting with commas may be a list. The file also has a few limits, the rules about \
                  calls, settings for tools by name, MCP servers, the consequences of failures, what stays in the history for the model, models \
                  and assistants: [[policy]], [tools], [mcp], [errors], [context], [models] and [assistants], as fermata.example.toml \
                  shows them."
)]
struct CommandLine {
    /// The file with settings [env: FERMATA_CONFIG] [default: fermata.toml, if it exists].
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<String>,
    /// Print the settings in force, without secrets, and exit.
    #[arg(long)]
    check: bool,
    /// With --check: start each MCP server and list its tools, or print why it does not start.
    #[arg(long, requires = "check")]
    mcp: bool,
    #[command(subcommand)]
    command: Option<Subcommands>,
}

#[derive(Subcommand)]
enum Subcommands {
    #[command(flatten)]
    Operator(OperatorCommand),
    /// Print the JSON Schema of the file, so that editors can complete and check it.
    Schema,
}

/// A command that needs the settings.
#[derive(Debug, Subcommand)]
pub enum OperatorCommand {
    /// Ask the rules of the file about a call.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Bring the database up to date, and exit.
    Migrate,
    /// Copy the database into a new file, even while a server uses it, and exit (SQLite).
    Backup {
        /// The file to make; nothing is overwritten.
        file: PathBuf,
    },
    /// Put a backup in the place of the database, which must have been moved away, and exit (SQLite).
    Restore {
        /// The file that fermata backup has made.
        file: PathBuf,
    },
    /// Export or delete all that is stored for a user, even while servers use the database.
    #[command(subcommand)]
    Data(DataCommand),
    /// Print the next request to the model in a chat, with an estimate of its tokens, and send nothing.
    Prompt {
        /// The id of the chat.
        #[arg(value_parser = chat_id)]
        chat: ChatId,
    },
    /// Ask the server at the address of these settings if it can serve; the exit status is 0 if it can, and otherwise 1.
    Health,
    /// Tell the server with these settings, at its operator_bind, to hand over what waits and to finish what is at work, and exit.
    /// The server runs until a signal ends it.
    Drain {
        /// Wait until it is drained.
        #[arg(long)]
        wait: bool,
    },
}

/// A command about the rules.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Print if a call would run, need approval or be denied, with the rule and the reason.
    Test(TestedCall),
}

/// A command about the data of a user.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Print the user's chats, memories, notes and decisions about calls as JSON, and exit.
    Export {
        /// The user, as the credentials name them; anyone if the server knows no users.
        #[arg(value_parser = owner)]
        owner: Owner,
    },
    /// Delete the user's chats, memories and notes, which cannot be undone, and exit; decisions about calls are kept for audit_keep.
    Delete {
        /// The user, as the credentials name them; anyone if the server knows no users.
        #[arg(value_parser = owner)]
        owner: Owner,
    },
}

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
        let matches = command().try_get_matches_from(arguments)?;
        let CommandLine { config: _, check, mcp, command } = CommandLine::from_arg_matches(&matches)?;
        let command = match command {
            Some(Subcommands::Schema) => return Ok(Self::Schema(format!("{:#}\n", file_schema()))),
            Some(Subcommands::Operator(command)) => Some(command),
            None => None,
        };
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let file = open_file(innermost(&matches).get_one("config"), &set)?;
        let config = Box::new(collect(&matches, &set, file)?.checked()?);
        Ok(match command {
            _ if check => Self::Check(config, mcp),
            Some(command) => Self::Command(config, command),
            None => Self::Serve(config),
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
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let file = open_file(None, &set)?;
        collect(&ArgMatches::default(), &set, file)?.checked()
    }
}

/// Opens the file with this path, or the one that the variable names.
fn open_file(named: Option<&String>, set: Variables<'_>) -> Result<File, ConfigError> {
    File::open(named.cloned().or_else(|| set("FERMATA_CONFIG")).as_deref(), set)
}

/// Returns the options of the innermost subcommand. clap hands a global option down to subcommands, so these have it.
fn innermost(options: &ArgMatches) -> &ArgMatches {
    options.subcommand().map_or(options, |(_, inner)| innermost(inner))
}

pub(super) fn command() -> Command {
    CommandLine::command().args(SETTINGS.iter().filter_map(option))
}

/// Returns a setting as an option; `None` if only the file has it.
fn option(setting: &'static Setting) -> Option<Arg> {
    let variable = setting.variable.as_ref()?;
    let default = setting.default.as_ref().map(|default| format!(" [default: {default}]"));
    let help = format!("{} [env: {variable}]{}", setting.about, default.unwrap_or_default());
    let option = Arg::new(&setting.key).long(setting.key.replace('_', "-")).value_name(&setting.value_name);
    Some(option.help_heading(&setting.group).help(help))
}

fn json(text: &str) -> Result<Json, String> {
    serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))
}

fn owner(text: &str) -> Result<Owner, std::convert::Infallible> {
    Ok(Owner::new(text))
}

fn chat_id(text: &str) -> Result<ChatId, String> {
    ChatId::parse(text).map_err(|error| error.to_string())
}
