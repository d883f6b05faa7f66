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
        let (values, url) = match &self.transport {
            Transport::Program { env, .. } => (env, ""),
            Transport::Http { url, headers } => (headers, url.as_str()),
        };
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let parameters = query.split(['&', '=']);
        // A key is seen without its "Bearer", too.
        let words =
            values.values().flat_map(|value| [value.as_str()].into_iter().chain(value.split_whitespace()));
        let words = words.chain(parameters);
        let mut secrets: Vec<String> =
            words.filter(|word| word.len() >= SHORTEST_SECRET).map(str::to_owned).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Secrets(secrets)
    }
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

/// The address without a query and without a name and password in front of the host.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
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
            url: "https://me:hidden-password@search.example.com/mcp?key=hidden-query".into(),
            headers: map(&[("authorization", "Bearer hidden-header")]),
        };
        let shown = format!("{program:?} {http:?}");
        assert!(!shown.contains("hidden"), "{shown}");
        for seen in ["npx", "TOKEN", "https://search.example.com/mcp", "authorization"] {
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
}
