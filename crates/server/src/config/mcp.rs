//! `[mcp.<name>]`: an MCP server, as a program or at a URL. What is done with it is not known here.

use std::{collections::BTreeMap, num::NonZeroUsize};

use axum::http::{HeaderName, HeaderValue};
use fermata_mcp::{ServerConfig, Transport};
use toml::de::DeValue;

use super::{
    entry::{Entry, Fault, shown_key, shown_text},
    url::Url,
    value::{Duration, Value},
};

/// Names of tools have at most 64 characters, and the server's own names need some of them.
const LONGEST_NAME: usize = 32;
/// What stands between the names of server and tool.
const BETWEEN: &str = "__";

/// The keys of a server.
const KEYS: [&str; 9] = [
    "command",
    "args",
    "env",
    "processes",
    "max_processes",
    "idle_timeout",
    "url",
    "headers",
    "trust_annotations",
];

/// Reads a server.
pub(super) fn read(server: &Entry<'_>) -> Result<ServerConfig, Fault> {
    check_name(server)?;
    let (mut command, mut args, mut env) = (None, Vec::new(), BTreeMap::new());
    let (mut url, mut headers) = (None, BTreeMap::new());
    let entries = server.entries_among(&KEYS)?;
    for entry in &entries {
        match entry.name {
            "command" => command = Some(entry.words()?),
            "args" => args = strings(entry)?,
            "env" => env = variables(entry)?,
            "url" => url = Some(Url::exact(&entry.string()?).map_err(|reason| entry.fault(reason))?.0),
            "headers" => headers = headers_of(entry)?,
            _ => {}
        }
    }
    let stray = |keys: &[&str], with: &str| {
        let stray = entries.iter().find(|entry| keys.contains(&entry.name));
        stray.map(|entry| entry.key_fault(format!("{} goes with {with}", entry.name)))
    };
    let of_programs = ["args", "env", "processes", "max_processes", "idle_timeout"];
    let transport = match (command, url) {
        (Some(command), None) => match stray(&["headers"], "url") {
            None => Transport::Program { command, args, env },
            Some(fault) => return Err(fault),
        },
        (None, Some(url)) => match stray(&of_programs, "command") {
            None => Transport::Http { url, headers },
            Some(fault) => return Err(fault),
        },
        (Some(_), Some(_)) => return Err(server.fault("has both command and url; use one of them")),
        (None, None) => return Err(server.fault("needs command or url")),
    };
    let mut config = ServerConfig::new(transport);
    for entry in &entries {
        match entry.name {
            "processes" => config.processes = Some(entry.read()?),
            "max_processes" => config.max_processes = number(entry)?,
            "idle_timeout" => config.idle_timeout = entry.read::<Duration>()?.0,
            "trust_annotations" => config.trust_annotations = entry.truth()?,
            _ => {}
        }
    }
    Ok(config)
}

fn number(entry: &Entry<'_>) -> Result<NonZeroUsize, Fault> {
    NonZeroUsize::read(&entry.text()?).map_err(|reason| entry.fault(reason))
}

/// What may be shown of it, as TOML: of the environment and the headers only the names, of arguments only how many there are, of
/// a URL what [`Url::masked_with_path`] leaves.
pub(super) fn shown(server: &Entry<'_>) -> Result<Vec<(String, String)>, Fault> {
    let line = |entry: &Entry<'_>| {
        let value = match (entry.name, entry.value()) {
            ("env" | "headers", _) => entry.shown_without_values(),
            ("args", DeValue::Array(args)) => {
                format!("[{}]", vec![shown_text("(secret)"); args.len()].join(", "))
            }
            ("url", DeValue::String(url)) => shown_text(&Url::masked_with_path(url)),
            _ => entry.shown(),
        };
        (shown_key(entry.name), value)
    };
    Ok(server.entries()?.iter().map(line).collect())
}

fn check_name(server: &Entry<'_>) -> Result<(), Fault> {
    let fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let name = server.name;
    if !(1..=LONGEST_NAME).contains(&name.len()) || !name.bytes().all(fit) {
        return Err(server.key_fault(format!(
            "the name {name:?} must be 1 to {LONGEST_NAME} characters of A-Z, a-z, 0-9, '_' and '-', because the names of its \
             tools begin with it"
        )));
    }
    if name.contains(BETWEEN) {
        return Err(server.key_fault(format!(
            "the name {name:?} must not have {BETWEEN} in it, which ends the server's part in the names of its tools"
        )));
    }
    Ok(())
}

fn strings(entry: &Entry<'_>) -> Result<Vec<String>, Fault> {
    entry.elements("must be a list of strings")?.iter().map(Entry::string).collect()
}

fn variables(table: &Entry<'_>) -> Result<BTreeMap<String, String>, Fault> {
    let variable = |entry: Entry<'_>| {
        let value = entry.string()?;
        if entry.name.is_empty() || entry.name.contains(['=', '\0']) || value.contains('\0') {
            return Err(entry.key_fault(format!("{:?} cannot stand in an environment", entry.name)));
        }
        Ok((entry.name.to_owned(), value))
    };
    table.entries()?.into_iter().map(variable).collect()
}

fn headers_of(table: &Entry<'_>) -> Result<BTreeMap<String, String>, Fault> {
    let mut headers = BTreeMap::new();
    for entry in table.entries()? {
        let value = entry.string()?;
        let name = HeaderName::try_from(entry.name)
            .map_err(|_| entry.key_fault(format!("{:?} is not the name of a header", entry.name)))?;
        if HeaderValue::try_from(&value).is_err() {
            return Err(entry.fault("has characters that a header cannot carry"));
        }
        if headers.insert(name.as_str().to_owned(), value).is_some() {
            return Err(entry.key_fault(format!("the header {name} is there twice")));
        }
    }
    Ok(headers)
}
