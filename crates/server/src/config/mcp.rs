//! `[mcp.<name>]`: an MCP server, as a program or at a URL. This module does not know its use.

use std::{collections::BTreeMap, num::NonZeroUsize};

use fermata_mcp::{Processes, Protocol, ServerConfig, Transport};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    network::Headers,
    url::Url,
    values::{Duration, NonEmpty},
};

/// A server as a table of the file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "McpServer")]
pub(super) struct ServerTable {
    /// The program, which speaks MCP over its standard input and output. A server has either this or url.
    command: Option<NonEmpty>,
    /// The arguments of the program.
    args: Option<Vec<String>>,
    /// The environment of the program, besides a few variables such as PATH and HOME.
    env: Option<BTreeMap<String, String>>,
    /// The sharing of a process of the program: shared (everybody), per_owner or per_chat. By default everybody shares one until it
    /// asks a question without naming its call; from then on each chat has its own.
    processes: Option<Processes>,
    /// The maximum number of processes, besides the one that lists the tools.
    max_processes: Option<NonZeroUsize>,
    /// The time limit of a process that no call uses; then it ends.
    idle_timeout: Option<Duration>,
    /// The URL of a server that speaks streamable HTTP.
    url: Option<String>,
    /// The headers of every request to the URL.
    headers: Option<Headers>,
    /// Allow tools that only read, as the server says, without approval.
    #[serde(default)]
    trust_annotations: bool,
    /// The version of MCP that is spoken with the server. By default the newest one that both sides know.
    #[serde(default)]
    protocol: Protocol,
}

/// The maximum length of a name. Names of tools have at most 64 characters, and the server's own names need some of them.
const MAX_NAME: usize = 32;
/// The text between the names of the server and of the tool.
const SEPARATOR: &str = "__";

/// Checks the name of a server.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if !(1..=MAX_NAME).contains(&name.len()) || !is_plain {
        return Err(format!(
            "the name {name:?} must be 1 to {MAX_NAME} characters of A-Z, a-z, 0-9, '_' and '-', because the names of its tools \
             begin with it"
        ));
    }
    if name.contains(SEPARATOR) {
        return Err(format!(
            "the name {name:?} must not have {SEPARATOR} in it, which separates it from the names of its tools"
        ));
    }
    Ok(())
}

// === impl ServerTable ===

impl TryFrom<ServerTable> for ServerConfig {
    /// The key that is wrong, or "" for the table, and the reason.
    type Error = (&'static str, String);

    fn try_from(table: ServerTable) -> Result<Self, Self::Error> {
        let of_programs = [
            ("args", table.args.is_some()),
            ("env", table.env.is_some()),
            ("processes", table.processes.is_some()),
            ("max_processes", table.max_processes.is_some()),
            ("idle_timeout", table.idle_timeout.is_some()),
        ];
        let transport = match (table.command, table.url) {
            (Some(_), Some(_)) => return Err(("", "has both command and url; use one of them".into())),
            (None, None) => return Err(("", "needs command or url".into())),
            (Some(_), None) if table.headers.is_some() => return Err(("headers", "goes with url".into())),
            (Some(NonEmpty(command)), None) => Transport::Program {
                command,
                args: table.args.unwrap_or_default(),
                env: checked_environment(table.env.unwrap_or_default()).map_err(|reason| ("env", reason))?,
            },
            (None, Some(url)) => {
                if let Some((key, _)) = of_programs.into_iter().find(|(_, is_set)| *is_set) {
                    return Err((key, "goes with command".into()));
                }
                let Url(url) = Url::exact(&url).map_err(|reason| ("url", reason))?;
                Transport::Http { url, headers: table.headers.unwrap_or_default().exposed() }
            }
        };
        let defaults = Self::new(transport);
        Ok(Self {
            processes: table.processes,
            max_processes: table.max_processes.unwrap_or(defaults.max_processes),
            idle_timeout: table.idle_timeout.map_or(defaults.idle_timeout, |Duration(time)| time),
            trust_annotations: table.trust_annotations,
            protocol: table.protocol,
            ..defaults
        })
    }
}

fn checked_environment(variables: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let wrong = variables
        .iter()
        .find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'));
    match wrong {
        Some((name, _)) => Err(format!("{name:?} cannot be in an environment")),
        None => Ok(variables),
    }
}
