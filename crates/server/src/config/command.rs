//! The command line: what can be asked for, and `--help`.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    Arg, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use clap_complete::Shell;
use fermata_protocol::ChatId;
use fermata_tools::{Owner, RunBy};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde::Deserialize;
use serde_json::Value as Json;

use super::{
    Config, ConfigError,
    file::{DEFAULT_PATH, File},
    node::Node,
    schema::file_schema,
    setting::{SETTINGS, Setting, words},
    sources::collect,
    variables::Variables,
};

/// A request of the command line.
#[derive(Debug)]
pub enum Invocation {
    /// Serve.
    Serve(Box<Config>),
    /// Print the settings in force, and exit. If this is true, start the MCP servers as well, and print the offer of each.
    Check(Box<Config>, bool),
    /// Print this text, and exit.
    Print(Vec<u8>),
    /// Write a file of settings here, and exit.
    Init(PathBuf),
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
    /// The owner of the chat, who requests the call [default: anyone].
    #[arg(long = "as", value_name = "USER", value_parser = owner, default_value_t = Owner::anyone(), hide_default_value = true)]
    pub requester: Owner,
    /// The groups of the requester, besides those of the settings.
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    pub groups: Vec<String>,
}

/// The server that is asked, and the user who asks.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub struct Asked {
    /// The address of the server. By default it is the one in the settings.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// The bearer token of the user, if the server wants one [env: FERMATA_TOKEN].
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
}

/// A decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Decision {
    /// The call runs.
    Yes,
    /// The call does not run.
    No,
}

/// A decision, and the call that it is about.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct Answer {
    /// The id of the chat.
    #[arg(value_parser = chat_id)]
    pub chat: ChatId,
    /// The decision: yes lets the call run.
    pub decision: Decision,
    /// The id of the call. It is needed if several calls of the chat wait for approval.
    #[arg(long, value_name = "ID")]
    pub call: Option<String>,
    /// The reason for a no. The model receives it.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Parser)]
#[command(
    name = "fermata",
    version,
    about = env!("CARGO_PKG_DESCRIPTION"),
    after_help = "Each setting is an option, an environment variable and a key of the file. An option overrides the variable, and the \
                  variable overrides the file. In the file, a setting with commas may be a list. The file also has a few limits, the rules about \
                  calls, settings for tools by name, MCP servers, the consequences of failures, what stays in the history for the model, models, \
                  assistants, users and channels: [[policy]], [tools], [mcp], [errors], [context], [models], [assistants], [users], \
                  [channels] and [notify_requester], as fermata.example.toml shows them."
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
    /// Write a small file of settings, fermata.toml unless --config names another.
    Init,
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page.
    Man,
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
    /// List the chats of a user at the running server.
    Chats(Asked),
    /// Print a chat of the running server, with the calls that wait.
    Show {
        /// The id of the chat.
        #[arg(value_parser = chat_id)]
        chat: ChatId,
        /// The server.
        #[command(flatten)]
        asked: Asked,
    },
    /// Decide about a call that waits for approval at the running server.
    Answer {
        /// The decision.
        #[command(flatten)]
        answer: Answer,
        /// The server.
        #[command(flatten)]
        asked: Asked,
    },
    /// Export or delete all that is stored for a user, even while servers use the database.
    #[command(subcommand)]
    Data(DataCommand),
    /// Verify or export the audit, even while servers use the database.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// List the notices that channels still have to send, and those that were given up.
    Outbox {
        /// What to do instead.
        #[command(subcommand)]
        command: Option<OutboxCommand>,
    },
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

/// A command about notices.
#[derive(Debug, Subcommand)]
pub enum OutboxCommand {
    /// Have a notice that was given up sent again.
    Retry {
        /// The id of the notice.
        id: String,
    },
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

/// A command about the audit.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Verify that no row of the audit was changed, removed or inserted, and exit with 1 if one was.
    Verify(AuditVerification),
    /// Print the audit as JSON lines, which fermata audit verify --file verifies without the database, and exit.
    Export(AuditExport),
}

/// The audit to verify, and what it is compared with.
#[derive(Args, Clone, Debug, Default)]
pub struct AuditVerification {
    /// A file that fermata audit export has written. By default, the database is verified.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The anchor file. By default it is the one in the settings (audit_anchor), if there is one.
    #[arg(long, value_name = "FILE")]
    pub anchor: Option<PathBuf>,
    /// A file with a public key that signs checkpoints, besides the key in the settings (audit_key). May be given several times.
    #[arg(long, value_name = "FILE")]
    pub public_key: Vec<PathBuf>,
}

/// The part of the audit to export.
#[derive(Args, Clone, Copy, Debug)]
pub struct AuditExport {
    /// The first day, such as 2026-01-01, or the first moment, such as 2026-01-01T12:00:00Z. A day begins in UTC.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<Timestamp>,
    /// The day or the moment before which the export ends.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub until: Option<Timestamp>,
}

// === impl OperatorCommand ===

impl OperatorCommand {
    /// Returns the server that is asked, if the command asks one as a user does.
    fn asked(&mut self) -> Option<&mut Asked> {
        match self {
            Self::Chats(asked) | Self::Show { asked, .. } | Self::Answer { asked, .. } => Some(asked),
            _ => None,
        }
    }
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
        let mut command = match command {
            Some(Subcommands::Schema) => return Ok(Self::Print(format!("{:#}\n", file_schema()).into())),
            Some(Subcommands::Init) => {
                let file = innermost(&matches).get_one::<String>("config").cloned();
                return Ok(Self::Init(file.unwrap_or_else(|| DEFAULT_PATH.to_owned()).into()));
            }
            Some(Subcommands::Completions { shell }) => {
                let mut text = Vec::new();
                clap_complete::generate(shell, &mut self::command(), "fermata", &mut text);
                return Ok(Self::Print(text));
            }
            Some(Subcommands::Man) => {
                let mut text = Vec::new();
                clap_mangen::Man::new(self::command()).render(&mut text).expect("memory takes every text");
                return Ok(Self::Print(text));
            }
            Some(Subcommands::Operator(command)) => Some(command),
            None => None,
        };
        let variables = Variables::new(environment);
        let file = open_file(innermost(&matches).get_one("config"), variables)?;
        let config = Box::new(collect(&matches, variables, file)?.checked()?);
        if let Some(asked) = command.as_mut().and_then(OperatorCommand::asked)
            && asked.token.is_none()
        {
            let token = variables.get("FERMATA_TOKEN").map_err(ConfigError::Bad)?;
            asked.token = token.map(|placed| placed.text);
        }
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
        let variables = Variables::new(environment);
        let file = open_file(None, variables)?;
        collect(&ArgMatches::default(), variables, file)?.checked()
    }
}

/// Opens the file with this path, or the one that the variable names.
fn open_file(named: Option<&String>, variables: Variables<'_>) -> Result<File, ConfigError> {
    let path = match named {
        Some(path) => Some(path.clone()),
        None => variables.get("FERMATA_CONFIG").map_err(ConfigError::Bad)?.map(|placed| placed.text),
    };
    File::open(path.as_deref(), variables)
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

fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let day: Option<Date> = text.parse().ok();
    let begin = day.and_then(|day| day.to_zoned(TimeZone::UTC).ok());
    begin.map(|begin| begin.timestamp()).ok_or_else(|| {
        "it is neither a day such as 2026-01-01 nor a moment such as 2026-01-01T12:00:00Z".into()
    })
}

fn owner(text: &str) -> Result<Owner, std::convert::Infallible> {
    Ok(Owner::new(text))
}

fn chat_id(text: &str) -> Result<ChatId, String> {
    ChatId::parse(text).map_err(|error| error.to_string())
}
