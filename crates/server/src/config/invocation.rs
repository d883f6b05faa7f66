//! The command line: what it can ask for, and what it says about itself.

use std::{ffi::OsString, fmt};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fermata_tools::{Owner, RunBy};
use serde_json::Value as Json;

use super::{
    Config, ConfigError, SETTINGS, Setting, WrittenRule, entry::Variables, errors, file::File,
    source::Sources, word::Word,
};

/// What the command line asks for.
#[derive(Debug)]
pub enum Invocation {
    /// Serve.
    Serve(Box<Config>),
    /// Print what is in force and leave.
    Check(String),
    /// Say what the policy does with a call and leave.
    TestPolicy(Box<Config>, TestedCall),
    /// Bring the database up to date and leave.
    Migrate(Box<Config>),
    /// Ask the server that these settings start whether it can serve, and leave.
    Health(Box<Config>),
}

/// A call that nobody made.
#[derive(Clone, Debug, PartialEq)]
pub struct TestedCall {
    /// The tool's name.
    pub tool: String,
    /// Its input.
    pub input: Json,
    /// Who is to be taken for the one that runs it; where nobody says, its name tells.
    pub from: Option<RunBy>,
    /// Whose chat it is to be in.
    pub owner: Owner,
}

const MIGRATE: &str = "migrate";
const HEALTH: &str = "health";

// === impl Invocation ===

impl Invocation {
    /// Reads the command line, the environment and the file.
    ///
    /// # Errors
    /// The first value that cannot be used, with its place.
    pub fn read(
        arguments: impl IntoIterator<Item = OsString>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let options = command().try_get_matches_from(arguments)?;
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let sources = Sources { options: &options, variables: &set, file: open_file(&options, &set)? };
        let config = Config::read(&sources)?;
        if options.get_flag("check") {
            return Ok(Self::Check(Report { config: &config, sources: &sources }.to_string()));
        }
        let config = Box::new(config);
        Ok(match (options.subcommand_name(), TestedCall::read(&options)) {
            (Some(MIGRATE), _) => Self::Migrate(config),
            (Some(HEALTH), _) => Self::Health(config),
            (_, Some(call)) => Self::TestPolicy(config, call),
            (_, None) => Self::Serve(config),
        })
    }
}

impl Config {
    /// Reads the environment and the file, for a program whose command line is its own. What is set is public, to be changed.
    ///
    /// # Errors
    /// The first value that cannot be used, with its place.
    pub fn from_environment(environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let options = command().try_get_matches_from(["fermata"])?;
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        Self::read(&Sources { options: &options, variables: &set, file: open_file(&options, &set)? })
    }
}

/// clap hands an option down to a subcommand, and not up from it, so the innermost is asked.
fn open_file(options: &ArgMatches, set: Variables<'_>) -> Result<File, ConfigError> {
    let innermost = std::iter::successors(Some(options), |outer| Some(outer.subcommand()?.1)).last();
    let named = innermost.and_then(|options| options.get_one::<String>("config")).cloned();
    File::open(named.or_else(|| set("FERMATA_CONFIG")).as_deref(), set)
}

pub(super) fn command() -> Command {
    let file = Arg::new("config").long("config").value_name("FILE").global(true);
    let check = Arg::new("check").long("check").action(ArgAction::SetTrue);
    Command::new("fermata")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .after_help(
            "Every option is also a variable, and a key of the file; the option outvotes the variable, the variable the file. \
             The file also has the rules about calls, settings for tools by name, and MCP servers: [[policy]], [tools], [mcp] \
             and [errors], as fermata.example.toml shows them.",
        )
        .arg(file.help("File with settings [env: FERMATA_CONFIG] [default: fermata.toml, where there is one]"))
        .arg(check.help("Print the settings in force, without secrets, and exit"))
        .args(SETTINGS.iter().map(Setting::option))
        .subcommand(policy())
        .subcommand(Command::new(MIGRATE).about("Bring the database up to date, without starting anything"))
        .subcommand(Command::new(HEALTH).about(
            "Ask the server at the address of these settings whether it can serve; the status is 0 where it can, and else 1",
        ))
}

fn policy() -> Command {
    let from: Vec<&str> = RunBy::ALL.iter().map(|from| from.word()).collect();
    let test = Command::new("test")
        .about("Say whether a call would run, be asked about or be denied, by which rule and why")
        .arg(Arg::new("tool").value_name("TOOL").required(true).help("Name of the tool"))
        .arg(
            Arg::new("input")
                .value_name("INPUT")
                .required(true)
                .allow_hyphen_values(true)
                .value_parser(|text: &str| {
                    serde_json::from_str::<Json>(text).map_err(|error| format!("no JSON: {error}"))
                })
                .help("Its input as JSON, such as '{\"title\": \"Milk\"}'"),
        )
        .arg(
            Arg::new("from")
                .long("from")
                .value_name("WHO")
                .value_parser(from)
                .help("Who runs the tool, where its name does not tell"),
        )
        .arg(
            Arg::new("owner")
                .long("owner")
                .value_name("OWNER")
                .help("Whose chat the call is in, for rules about owners [default: anyone]"),
        );
    Command::new("policy")
        .about("Ask the rules of the file, without starting anything")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(test)
}

// === impl TestedCall ===

impl TestedCall {
    fn read(options: &ArgMatches) -> Option<Self> {
        let arguments = options.subcommand_matches("policy")?.subcommand_matches("test")?;
        let from = arguments.get_one::<String>("from").and_then(|from| RunBy::of(from).ok());
        let tool = arguments.get_one::<String>("tool")?.clone();
        let owner = arguments
            .get_one::<String>("owner")
            .map_or_else(Owner::anyone, |owner| Owner::new(owner.as_str()));
        Some(Self { tool, input: arguments.get_one::<Json>("input")?.clone(), from, owner })
    }
}

// === impl Setting ===

impl Setting {
    fn option(&self) -> Arg {
        let about: Vec<&str> = self.about.iter().map(|line| line.trim()).collect();
        let default = match self.default {
            Some(default) if !default.is_empty() => format!(" [default: {default}]"),
            Some(_) | None => String::new(),
        };
        Arg::new(self.key).long(self.key.replace('_', "-")).value_name("VALUE").help(format!(
            "{} [env: {}]{default}",
            about.join(" "),
            self.variable
        ))
    }
}

// === impl Report ===

/// What `--check` prints: a file that could be used, each value with where it came from.
pub(super) struct Report<'a> {
    pub(super) config: &'a Config,
    pub(super) sources: &'a Sources<'a>,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (setting, value) in SETTINGS.iter().zip(self.config.shown()) {
            match value {
                Some(value) => {
                    writeln!(f, "{} = {value}  # {}", setting.key, self.sources.place(setting.key))?
                }
                None => writeln!(f, "# {} is not set", setting.key)?,
            }
        }
        self.sources.file.tables.written.iter().try_for_each(|table| write!(f, "\n{table}"))?;
        for warning in self.config.policy.iter().flat_map(WrittenRule::warnings) {
            write!(f, "\n# warning: {warning}\n")?;
        }
        write!(f, "\n{}", errors::InForce(&self.config.error_policy))
    }
}
