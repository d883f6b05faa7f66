//! The configuration of a server, and the secrets in it.

use std::{collections::BTreeMap, fmt, num::NonZeroUsize, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;

/// The configuration of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The way to connect to the server.
    pub transport: Transport,
    /// `true` if the annotations of the server's tools are trusted. Calls of a tool that is annotated as read-only are then
    /// allowed without approval. The MCP specification requires that annotations of untrusted servers are not trusted.
    pub trust_annotations: bool,
    /// The calls that one process serves. By default, one process serves the calls of all owners until the server sends an
    /// elicitation without naming its call; from then on, each chat has its own process.
    pub processes: Option<Processes>,
    /// The maximum number of processes that serve one chat or one owner. The process that lists the tools does not count.
    pub max_processes: NonZeroUsize,
    /// Such a process is ended after this time without a call.
    pub idle_timeout: Duration,
    /// The version of MCP that is spoken.
    pub protocol: Protocol,
}

/// The version of MCP that is spoken with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Protocol {
    /// The newest one that both sides know.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// The version without sessions.
    #[serde(rename = "2026-07-28")]
    V2026July,
    /// The newest version with a handshake.
    #[serde(rename = "2025-11-25")]
    V2025November,
    /// An older version.
    #[serde(rename = "2025-06-18")]
    V2025June,
    /// An older version.
    #[serde(rename = "2025-03-26")]
    V2025March,
    /// The first version.
    #[serde(rename = "2024-11-05")]
    V2024November,
}

/// The calls that one process of a server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Processes {
    /// The calls of all owners. After the first elicitation without an origin, only those of one chat at a time.
    Shared,
    /// The calls of one owner. After the first elicitation without an origin, only those of one chat at a time.
    PerOwner,
    /// The calls of one chat.
    PerChat,
}

/// The default of [`ServerConfig::max_processes`].
const DEFAULT_MAX_PROCESSES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(15);
/// The default of [`ServerConfig::idle_timeout`].
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The way to connect to an MCP server.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A program that is started and communicates over its standard input and output.
    Program {
        /// The program: a path, or a name that is looked up in `PATH`.
        command: String,
        /// The arguments of the program.
        args: Vec<String>,
        /// The environment of the program, in addition to the few variables that it inherits from Fermata. Values are secrets.
        env: BTreeMap<String, String>,
    },
    /// A server that speaks streamable HTTP.
    Http {
        /// The URL of the server's MCP endpoint. It may contain secrets.
        url: String,
        /// The headers that are sent with every request. Values are secrets.
        headers: BTreeMap<String, String>,
    },
}

/// The values that are removed from every text that leaves this crate, longest first.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

/// The minimum length of a secret, in bytes. Shorter values are not keys, and masking them would damage ordinary text.
const MIN_SECRET_LENGTH: usize = 8;

// === impl ServerConfig ===

impl ServerConfig {
    /// Creates a configuration with defaults for everything but the transport.
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            trust_annotations: false,
            processes: None,
            max_processes: DEFAULT_MAX_PROCESSES,
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
            protocol: Protocol::Auto,
        }
    }

    /// Returns the values of the configuration that must not be shown.
    pub(crate) fn secrets(&self) -> Secrets {
        let (values, others): (Vec<&String>, Vec<&str>) = match &self.transport {
            Transport::Program { env, args, .. } => {
                let hidden = env.iter().filter(|(name, value)| may_be_secret(name, value));
                let values = hidden.map(|(_, value)| value);
                let before = std::iter::once("").chain(args.iter().map(String::as_str));
                let args = before.zip(args);
                (values.collect(), args.flat_map(|(before, arg)| secrets_of_argument(before, arg)).collect())
            }
            Transport::Http { url, headers } => (headers.values().collect(), secrets_of_url(url).collect()),
        };
        let mut candidates = Vec::new();
        for value in values {
            candidates.push(value.as_str());
            // A key may be shown without the "Bearer" before it.
            candidates.extend(value.split_whitespace());
        }
        candidates.extend(others);
        candidates.retain(|candidate| candidate.len() >= MIN_SECRET_LENGTH);
        let mut secrets: Vec<String> = candidates.into_iter().map(str::to_owned).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Secrets(secrets)
    }
}

/// Parts of names of variables that hold secrets.
const SECRET_NAMES: [&str; 8] = ["key", "token", "secret", "pass", "auth", "cred", "cookie", "private"];

/// Returns whether the value of a variable may be a secret. Paths and plain words such as `production` are none, and tools may mention them,
/// unless the variable's name says otherwise.
fn may_be_secret(name: &str, value: &str) -> bool {
    let is_plain = is_path(value) || value.bytes().all(|byte| byte.is_ascii_lowercase());
    !is_plain || is_name_of_secret(name)
}

fn is_name_of_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn is_path(value: &str) -> bool {
    ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start))
}

/// Returns the parts of an argument that may be keys. The names of options, files and packages are not keys, and tools may
/// mention them. Neither are plain words, unless the option before them has a key.
fn secrets_of_argument<'a>(before: &'a str, arg: &'a str) -> Vec<&'a str> {
    let (option, value) = match arg.split_once('=') {
        Some((name, value)) if name.starts_with('-') => (name, value),
        Some(_) | None if arg.starts_with('-') => return Vec::new(),
        Some(_) | None => (before, arg),
    };
    let is_word = value.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_.".contains(&byte));
    let has_key = option.starts_with('-') && is_name_of_secret(option);
    let is_name = is_path(value) || value.starts_with('@') || (is_word && !has_key);
    if value.contains("://") {
        secrets_of_url(value).chain([value]).collect()
    } else if is_name {
        Vec::new()
    } else {
        value.split_whitespace().chain([value]).collect()
    }
}

/// Returns the parts of a URL that may be keys: the name and the password before the host, the segments of the path, and the
/// values after it.
fn secrets_of_url(url: &str) -> impl Iterator<Item = &str> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (authority, path_and_query) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.split(':').chain(path_and_query.split(['/', '?', '#', '&', '=']))
}

// === impl Transport ===

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Arguments may contain keys.
            Self::Program { command, args, env } => f
                .debug_struct("Program")
                .field("command", command)
                .field("args", &args.len())
                .field("env", &env.keys())
                .finish(),
            Self::Http { url, headers } => f
                .debug_struct("Http")
                .field("url", &scheme_and_host(url))
                .field("headers", &headers.keys())
                .finish(),
        }
    }
}

/// Returns the scheme and the host of a URL.
fn scheme_and_host(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}")
        }
        None => String::new(),
    }
}

// === impl Secrets ===

impl Secrets {
    /// Returns the text with each secret replaced by `***`.
    pub(crate) fn mask(&self, text: impl Into<String>) -> String {
        let mut text = text.into();
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "***");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn debug_shows_names_but_no_values() {
        let program = Transport::Program {
            command: "npx".into(),
            args: vec!["--key=hidden-argument".into()],
            env: map(&[("TOKEN", "hidden-value")]),
        };
        let http = Transport::Http {
            url: "https://me:hidden-password@search.example.com/hidden-path?key=hidden-query".into(),
            headers: map(&[("authorization", "Bearer hidden-header")]),
        };
        let shown = format!("{program:?} {http:?}");
        assert!(!shown.contains("hidden"), "{shown}");
        for seen in ["npx", "TOKEN", "https://search.example.com", "authorization"] {
            assert!(shown.contains(seen), "{shown} lacks {seen}");
        }
    }

    #[test]
    fn a_secret_is_masked_with_and_without_its_scheme() {
        let config = ServerConfig::new(Transport::Http {
            url: "https://search.example.com/mcp?key=stuvwxyz-2".into(),
            headers: map(&[("authorization", "Bearer abcdefgh-1"), ("x-level", "info")]),
        });
        let secrets = config.secrets();
        assert_eq!(secrets.mask("Bearer abcdefgh-1 and abcdefgh-1, info"), "*** and ***, info");
        assert_eq!(secrets.mask("?key=stuvwxyz-2"), "?key=***");
        assert_eq!(secrets.mask("nothing to hide"), "nothing to hide");
    }

    #[test]
    fn values_of_the_environment_are_masked_unless_they_are_paths_or_plain_words() {
        let env = map(&[
            ("NODE_ENV", "production"),
            ("MEMORY_FILE_PATH", "/srv/notes/memory.json"),
            ("SEARCH_ID", "abcdefgh-1"),
            ("DB_PASSWORD", "sesamestreet"),
            ("AUTH_FILE", "/run/keys/hidden"),
        ]);
        let config = ServerConfig::new(Transport::Program { command: "npx".into(), args: Vec::new(), env });
        let text = "production /srv/notes/memory.json abcdefgh-1 sesamestreet /run/keys/hidden";
        assert_eq!(config.secrets().mask(text), "production /srv/notes/memory.json *** *** ***");
    }

    #[test]
    fn keys_in_arguments_and_paths_are_masked() {
        let args = [
            "--yes",
            "@modelcontextprotocol/server-filesystem",
            "/srv/documents",
            "--api-key=sk-ARGLITERAL",
            "--token",
            "tok-separate",
            "postgres://me:pass-word@db.example.com/data",
        ];
        let config = ServerConfig::new(Transport::Program {
            command: "npx".into(),
            args: args.map(str::to_owned).into(),
            env: BTreeMap::new(),
        });
        let said = "sk-ARGLITERAL, tok-separate and pass-word do not open /srv/documents with --api-key";
        assert_eq!(config.secrets().mask(said), "***, *** and *** do not open /srv/documents with --api-key");
        let url = "https://search.example.com/PATHTOKEN/mcp".to_owned();
        let config = ServerConfig::new(Transport::Http { url, headers: BTreeMap::new() });
        assert_eq!(config.secrets().mask("no such path: /PATHTOKEN/mcp"), "no such path: /***/mcp");
    }
}
