//! How a server is reached, and which of that must never be seen.

use std::{collections::BTreeMap, fmt, num::NonZeroUsize, time::Duration};

/// An MCP server, as the settings have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// How it is reached.
    pub transport: Transport,
    /// Whether what its tools say about themselves is believed: one that only reads is then allowed without asking. The
    /// MCP specification forbids that for servers that are not trusted.
    pub trust_annotations: bool,
    /// Whose calls one process serves. If it is not set, everybody's, until the server asks the person something without
    /// saying for which call, and one chat's from then on.
    pub processes: Option<Processes>,
    /// The most processes that serve one chat or one owner; the one that lists the tools is not counted.
    pub max_processes: NonZeroUsize,
    /// How long such a process lives that no call uses.
    pub idle_timeout: Duration,
}

/// Whose calls one process of a server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Everybody's. Once it has asked the person something, those of one chat at a time.
    Shared,
    /// One owner's. Once it has asked the person something, those of one chat at a time.
    PerOwner,
    /// One chat's.
    PerChat,
}

/// The default of [`ServerConfig::max_processes`].
const MAX_PROCESSES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(15);
/// The default of [`ServerConfig::idle_timeout`].
const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// How an MCP server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A program that is started and spoken to over its standard input and output.
    Program {
        /// What to start: a path, or a name that is looked up in `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment, besides the little that it gets of Fermata's. Values are secrets.
        env: BTreeMap<String, String>,
    },
    /// A server that speaks streamable HTTP.
    Http {
        /// Its endpoint.
        url: String,
        /// Sent with every request. Values are secrets.
        headers: BTreeMap<String, String>,
    },
}

/// What is taken out of every text that leaves this crate.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

/// A shorter value is no key, and taking it out everywhere would spoil texts.
const SHORTEST_SECRET: usize = 8;

// === impl ServerConfig ===

impl ServerConfig {
    /// A server of which nothing else is set.
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            trust_annotations: false,
            processes: None,
            max_processes: MAX_PROCESSES,
            idle_timeout: IDLE_TIMEOUT,
        }
    }

    /// The values that must not be seen.
    pub(crate) fn secrets(&self) -> Secrets {
        let (values, args, url): (_, &[String], _) = match &self.transport {
            Transport::Program { env, args, .. } => (env, args, ""),
            Transport::Http { url, headers } => (headers, &[], url.as_str()),
        };
        // A key is seen without its "Bearer", too.
        let words =
            values.values().flat_map(|value| [value.as_str()].into_iter().chain(value.split_whitespace()));
        let words = words.chain(args.iter().flat_map(|arg| secrets_of_argument(arg)));
        let words = words.chain(secrets_of_url(url));
        let mut secrets: Vec<String> =
            words.filter(|word| word.len() >= SHORTEST_SECRET).map(str::to_owned).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Secrets(secrets)
    }
}

/// What of an argument may be a key. The names of options, files and packages are none, and tools speak of them.
fn secrets_of_argument(arg: &str) -> Vec<&str> {
    let value = match arg.split_once('=') {
        Some((name, value)) if name.starts_with('-') => value,
        Some(_) | None if arg.starts_with('-') => return Vec::new(),
        Some(_) | None => arg,
    };
    let is_name = ["/", "./", "../", "~/", "@"].iter().any(|start| value.starts_with(start));
    if value.contains("://") {
        secrets_of_url(value).chain([value]).collect()
    } else if is_name {
        Vec::new()
    } else {
        value.split_whitespace().chain([value]).collect()
    }
}

/// What of a URL may be a key: the name and the password before the host, parts of the path, and what is behind it.
fn secrets_of_url(url: &str) -> impl Iterator<Item = &str> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (authority, behind) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.split(':').chain(behind.split(['/', '?', '#', '&', '=']))
}

// === impl Transport ===

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Keys are given as arguments, too.
            Self::Program { command, args, env } => f
                .debug_struct("Program")
                .field("command", command)
                .field("args", &args.len())
                .field("env", &env.keys())
                .finish(),
            Self::Http { url, headers } => f
                .debug_struct("Http")
                .field("url", &without_secrets(url))
                .field("headers", &headers.keys())
                .finish(),
        }
    }
}

/// The scheme and the host of an address.
fn without_secrets(url: &str) -> String {
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
    /// The text without them.
    pub(crate) fn mask(&self, text: impl Into<String>) -> String {
        self.0.iter().fold(text.into(), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), "***") } else { text }
        })
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
