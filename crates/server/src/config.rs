//! What an operator can set, where each value came from, and whether the values go together.
//!
//! A setting is declared once, in the table below; its option, its variable, its key in the file, `--help` and `--check`
//! come from there. Precedence: option, variable, file, default. An empty variable counts as unset, because compose files
//! cannot leave one out. What a variable cannot say stands in tables of the file. This file does not know what the settings do.

mod database;
mod entry;
mod errors;
mod file;
mod identity;
mod invocation;
mod mcp;
mod policy;
mod source;
mod tables;
mod tools;
mod url;
mod value;
mod word;

use std::{collections::BTreeMap, net::SocketAddr, num::NonZeroUsize, sync::Arc};

use fermata_engine::{FileUrls, Hold, Rules};
use fermata_mcp::ServerConfig;
use fermata_protocol::Profile;
use fermata_providers::{BuildError, Demo, Provider, SceneError};
use fermata_tools::{ApprovalMode, ChainMode, ErrorPolicy, GateMode, Pattern, RulePolicy, ToolSettings};
use secrecy::ExposeSecret;

pub use self::word::LogFormat;
pub(crate) use self::word::Word;
pub use self::{
    database::{DatabaseUrl, RedisUrl},
    identity::{AuthKind, UserHeader},
    invocation::{Invocation, TestedCall},
    tables::{Written, WrittenRule},
    url::Url,
    value::{Address, Duration, HostName, Origin, Secret, Size, Token},
};
use self::{
    entry::nearest,
    source::Sources,
    value::{List, SHORTEST_TOKEN, Value},
};

/// One thing that can be set.
#[derive(Debug)]
pub struct Setting {
    /// The key in the file; the option is the same with dashes.
    pub key: &'static str,
    /// The environment variable.
    pub variable: &'static str,
    /// What is in force where nobody says anything.
    pub default: Option<&'static str>,
    /// What it does, a line each.
    pub about: &'static [&'static str],
    /// What comes of going over it. Every setting that is a size, a number or a time has this, and `docs/limits.md` shows it.
    pub over: Option<&'static str>,
    /// Whether it is a size, a number or a time.
    pub is_measure: bool,
}

/// Why the server does not start. `Display` is one line, fit for a terminal.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// `--help`, `--version`, or options that clap refuses.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// A value, or two together, that cannot be used; says where it stands.
    #[error("{0}")]
    Bad(String),
}

macro_rules! settings {
    ($($(#[doc = $about:literal])+ $key:ident: $type:ty $(= $default:literal)?, $variable:literal $(, over $over:literal)?;)+) => {
        /// All settings, as they are in force.
        #[derive(Clone, Debug)]
        pub struct Config {
            $($(#[doc = $about])+ pub $key: $type,)+
            /// The rules about calls, in their order.
            pub policy: Vec<WrittenRule>,
            /// What is set for tools by name; of several that match the later wins.
            pub tools: Vec<(Pattern, ToolSettings)>,
            /// The MCP servers, by name.
            pub mcp: BTreeMap<String, ServerConfig>,
            /// What follows a failure.
            pub error_policy: ErrorPolicy,
            /// The file that was read, if there was one.
            pub file: Option<String>,
        }

        /// Every setting, in the order in which `--help` and `--check` show them.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            key: stringify!($key),
            variable: $variable,
            default: settings!(@optional $($default)?),
            about: &[$($about),+],
            over: settings!(@optional $($over)?),
            is_measure: <$type as Value>::IS_MEASURE,
        },)+];

        impl Config {
            fn read(sources: &Sources<'_>) -> Result<Self, ConfigError> {
                let mut settings = SETTINGS.iter();
                $(let $key = sources.read::<$type>(settings.next())?;)+
                let tables::Tables { policy, tools, mcp, errors: error_policy, written: _ } = sources.file.tables.clone();
                let file = sources.file.path.clone();
                Self { $($key,)+ policy, tools, mcp, error_policy, file }.resolved().checked(sources)
            }

            fn shown(&self) -> Vec<Option<String>> {
                vec![$(self.$key.show(),)+]
            }

            /// The keys of the settings that are not the same in another configuration; the tables are not among them.
            pub fn differing(&self, other: &Self) -> Vec<&'static str> {
                let differing = [$((self.$key != other.$key).then_some(stringify!($key)),)+];
                differing.into_iter().flatten().collect()
            }
        }
    };
    (@optional $text:literal) => { Some($text) };
    (@optional) => { None };
}

settings! {
    /// Address to listen on, such as 127.0.0.1:3000, 0.0.0.0 or localhost.
    bind: Address = "127.0.0.1", "FERMATA_BIND";
    /// Port to listen on if bind names none. Platforms that run containers set the variable.
    port: u16 = "3000", "PORT";
    /// Format of the log: text (lines for people) or json (an object in each line, for programs).
    log: LogFormat = "text", "FERMATA_LOG";
    /// Whether to listen beyond this machine although auth is none: everybody who reaches the port is the one owner.
    insecure_bind: bool = "false", "FERMATA_INSECURE_BIND";
    /// Base URL of the OpenAI-compatible model API; with neither this nor a key the built-in demo model answers.
    openai_base_url: Option<Url>, "OPENAI_BASE_URL";
    /// Key for the model API.
    openai_api_key: Option<Secret>, "OPENAI_API_KEY";
    /// Name of the model that answers.
    model: Option<String>, "FERMATA_MODEL";
    /// TOML file of scenes that the demo model plays before its own.
    demo_scenes: Option<String>, "FERMATA_DEMO_SCENES";
    /// SQLite file, created where there is none, or a PostgreSQL database (15 or later) as `postgres://user:password@host/database`.
    database_url: DatabaseUrl = "sqlite://fermata.db", "DATABASE_URL";
    /// Connections to a PostgreSQL database that this instance opens at most.
    database_connections: std::num::NonZeroU32 = "10", "FERMATA_DATABASE_CONNECTIONS",
        over "what needs a connection waits for one, and is answered 503 `unavailable` when that takes too long";
    /// Whether the start brings the database up to date. If not, `fermata migrate` must have done it.
    migrate: bool = "true", "FERMATA_MIGRATE";
    /// Redis (7 or later) or Valkey, through which instances that share a PostgreSQL database reach each other, as
    /// `redis://:password@host:6379`.
    redis_url: Option<RedisUrl>, "REDIS_URL";
    /// The key with which instances seal what they write to each other through Redis: at least 32 random bytes, in hexadecimal or
    /// base64, the same for all of them. Unless it is set, they keep one in the database.
    cluster_key: Option<fermata_store::ClusterKey>, "FERMATA_CLUSTER_KEY";
    /// For how long parked calls keep a stream open, unless the request says otherwise: a time, or auto, which is five minutes until the
    /// server has learned that the owner's page answers by posting the chat again, and no time for such a page.
    hold: Hold = "auto", "FERMATA_HOLD",
        over "the stream ends cleanly, and the call waits on";
    /// How long a call waits for somebody before it is settled as expired.
    expire: Duration = "24h", "FERMATA_EXPIRE",
        over "the call is settled as expired, and its run ends; a later answer is 410 `gone`";
    /// How long chats are kept in which nothing happens. Unless it is set, for ever.
    keep: Option<Duration>, "FERMATA_KEEP",
        over "the chat is forgotten: 404 `not_found`";
    /// How long decisions about calls are kept in the table audit_events, also those of chats that are forgotten. Unless it is set, for ever.
    audit_keep: Option<Duration>, "FERMATA_AUDIT_KEEP",
        over "the record of the decision is deleted";
    /// How long runs that are at work may go on when the server is told to end; those that wait are saved and let go at once.
    drain: Duration = "10s", "FERMATA_DRAIN",
        over "a run that is still at work ends its streams with `error`, or `interrupted` if the client knows it, and goes on at another instance, or after the next start";
    /// AI SDK version served where a request names none: 5, 6, 7, or a whole version such as 7.0.173.
    client: Profile = "6", "FERMATA_CLIENT";
    /// Who may use the server: none (everybody who reaches it), or whoever proves who they are by a token, by a JSON Web Token (jwt), or
    /// to a proxy in front (header).
    auth: AuthKind = "none", "FERMATA_AUTH";
    /// Owners and their bearer tokens of at least 16 characters, as owner:token,owner:token. For auth = token.
    tokens: List<Token> = "", "FERMATA_TOKENS";
    /// Where the issuer of JSON Web Tokens publishes its keys (JWKS). For auth = jwt; the owner is the token's sub.
    jwks_url: Option<Url>, "FERMATA_JWKS_URL";
    /// The secret with which JSON Web Tokens are signed (HS256, HS384, HS512), of at least 32 bytes, instead of jwks_url.
    jwt_secret: Option<Secret>, "FERMATA_JWT_SECRET";
    /// The issuer (iss) that JSON Web Tokens must have. Unless it is set, any.
    jwt_issuer: Option<String>, "FERMATA_JWT_ISSUER";
    /// Audiences, separated by commas, one of which JSON Web Tokens must have (aud). Unless it is set, any.
    jwt_audience: List<String> = "", "FERMATA_JWT_AUDIENCE";
    /// Header in which a proxy in front says who asks, such as x-forwarded-user. It is believed of trusted_proxies alone, and makes auth
    /// header.
    user_header: Option<UserHeader>, "FERMATA_USER_HEADER";
    /// Proxies whose x-forwarded-for and user_header are believed, as addresses or networks such as 10.0.0.0/8, separated by commas. The client that
    /// they name, and not they, is whom the log names and who is slowed down.
    trusted_proxies: List<ipnet::IpNet> = "", "FERMATA_TRUSTED_PROXIES";
    /// Origins of browser pages elsewhere that may call, as `https://app.example.com`, separated by commas.
    cors_origins: List<Origin> = "", "FERMATA_CORS_ORIGINS";
    /// Names under which the server answers although auth is none, besides localhost, addresses and the names of cors_origins,
    /// as chat.example.com, separated by commas.
    hosts: List<HostName> = "", "FERMATA_HOSTS";
    /// Address for operators alone, with /metrics, /healthz and /readyz. Where it is set, /metrics is at this address only,
    /// unless there is an operator_token.
    operator_bind: Option<SocketAddr>, "FERMATA_OPERATOR_BIND";
    /// Bearer token for /metrics at either address, of at least 16 characters. Where auth is not none, /metrics is shown only with
    /// it or at operator_bind.
    operator_token: Option<Secret>, "FERMATA_OPERATOR_TOKEN";
    /// Runs that one owner may have open, those included that wait for somebody. Default 64; no limit where auth is none.
    runs_per_owner: Option<NonZeroUsize>, "FERMATA_RUNS_PER_OWNER",
        over "429 `too_many_runs` with `retry-after`";
    /// Streams that one owner may read at a time from this instance. Default 256; no limit where auth is none.
    readers_per_owner: Option<NonZeroUsize>, "FERMATA_READERS_PER_OWNER",
        over "429 `too_many_readers` with `retry-after`";
    /// Chats that one owner may keep. Default 10000; no limit where auth is none.
    chats_per_owner: Option<NonZeroUsize>, "FERMATA_CHATS_PER_OWNER",
        over "a post that would make a chat gets 429 `too_many_chats` with `retry-after`; deleting one makes room at once";
    /// Size of all chats of one owner: their messages as JSON. Default 2GB; no limit where auth is none.
    bytes_per_owner: Option<Size>, "FERMATA_BYTES_PER_OWNER",
        over "a post that would add to a chat gets 429 `too_many_bytes` with `retry-after`; deleting makes room at once";
    /// Notes that one owner may keep.
    notes_per_owner: NonZeroUsize = "5000", "FERMATA_NOTES_PER_OWNER",
        over "the call of `write_note` has failed, and the model is told why";
    /// Size of one note: its title and its body.
    max_note: Size = "64KB", "FERMATA_MAX_NOTE",
        over "the call of `write_note` has failed, and the model is told why";
    /// Model calls in one run.
    max_steps: std::num::NonZeroU32 = "20", "FERMATA_MAX_STEPS",
        over "the run ends with `finish`, and its open calls are settled";
    /// How often a run may be taken up after the end of the process that worked on it, without getting on in between.
    max_attempts: std::num::NonZeroU32 = "3", "FERMATA_MAX_ATTEMPTS",
        over "the last of these take-ups ends the run with `error`, and its open calls are settled";
    /// Which files by URL a model is handed: data (none but data URLs), https (those that do not lead to private addresses or
    /// names), or hosts, separated by commas, such as cdn.example.com or *.example.com.
    file_urls: FileUrls = "https", "FERMATA_FILE_URLS";
    /// Size of a request body.
    max_body: Size = "10MB", "FERMATA_MAX_BODY",
        over "413 `too_large`";
    /// JSON values in a request body: objects, lists, texts, numbers, truth values and nulls.
    max_json_nodes: NonZeroUsize = "200000", "FERMATA_MAX_JSON_NODES",
        over "413 `too_large`";
    /// Objects and lists within one another in a request body, at most 120.
    max_json_depth: NonZeroUsize = "100", "FERMATA_MAX_JSON_DEPTH",
        over "422 `invalid_request`";
    /// Memory for all request bodies together that are being received or acted on, counting 1 kB for each JSON value.
    max_body_memory: Size = "256MB", "FERMATA_MAX_BODY_MEMORY",
        over "the body waits for five seconds; then 503 `unavailable` with `retry-after`";
    /// Messages in one request.
    max_messages: NonZeroUsize = "2000", "FERMATA_MAX_MESSAGES",
        over "413 `too_large`";
    /// Size of one chat: its messages as JSON.
    max_chat: Size = "64MB", "FERMATA_MAX_CHAT",
        over "413 `too_large` for a post or an answer; a run ends with `error` after the step that went over it, which is kept";
    /// Browser tools in one request.
    max_tools: NonZeroUsize = "128", "FERMATA_MAX_TOOLS",
        over "413 `too_large`";
    /// Size of system, the instructions in one request.
    max_system: Size = "256KB", "FERMATA_MAX_SYSTEM",
        over "413 `too_large`";
    /// Tokens that one answer of the model may have, whatever callSettings.maxOutputTokens asks for. Unless it is set, what is asked for.
    max_output_tokens: Option<std::num::NonZeroU32>, "FERMATA_MAX_OUTPUT_TOKENS",
        over "the model is asked for no more, and its answer ends there";
    /// Size of all browser tools in one request: their names, descriptions and schemas.
    max_tools_size: Size = "1MB", "FERMATA_MAX_TOOLS_SIZE",
        over "422 `invalid_request`";
    /// Patterns in the schemas of all browser tools in one request. Each has at most 2,000 bytes and 64,000 states, all of them 256,000.
    max_patterns: NonZeroUsize = "200", "FERMATA_MAX_PATTERNS",
        over "422 `invalid_request`";
    /// Calls that the model may make in one step.
    max_calls_per_step: NonZeroUsize = "128", "FERMATA_MAX_CALLS_PER_STEP",
        over "the first call that is too much has failed, those after it are left out, and the model is told why";
    /// Size of the arguments of one call, as the model makes them or a person edits them.
    max_arguments: Size = "1MB", "FERMATA_MAX_ARGUMENTS",
        over "the call has failed, and the model is told why; 413 `too_large` for an edited input";
    /// Size of what the model may say in one step: text, reasoning, arguments and files.
    max_step_output: Size = "4MB", "FERMATA_MAX_STEP_OUTPUT",
        over "the run ends with `error`";
    /// How long the inputs of a step's calls, or of an answer, may take to be checked against their schemas.
    check_timeout: Duration = "5s", "FERMATA_CHECK_TIMEOUT",
        over "the call has failed, and the model is told why; 422 `invalid_request` for an answer";
    /// Size of one tool output, as JSON.
    max_output: Size = "1MB", "FERMATA_MAX_OUTPUT",
        over "413 `too_large` for a page's output; a tool of the server has failed, and the model is told why";
    /// How much of one tool output the model is told; what is over is cut out.
    max_model_output: Size = "400KB", "FERMATA_MAX_MODEL_OUTPUT",
        over "the middle of the output is cut out of what the model is told; clients are shown all of it";
    /// Connections at a time, as far as the process's limit of open files allows. When all are taken, the one that has been without a
    /// request for the longest is closed for a new one; if there is none, the new one is refused. Health checks are answered all the same.
    max_connections: NonZeroUsize = "4096", "FERMATA_MAX_CONNECTIONS",
        over "503 `unavailable` with `retry-after`, or, beyond the few that get it, a closed connection";
    /// Connections from one address at a time; of IPv6, from one network of 64 bits. This machine itself and trusted_proxies have no limit.
    max_connections_per_address: NonZeroUsize = "1024", "FERMATA_MAX_CONNECTIONS_PER_ADDRESS",
        over "429 `too_many_connections` with `retry-after`, or, beyond the few that get it, a closed connection";
    /// How long the head of a request may take, and how long a connection may stay open without a request.
    header_timeout: Duration = "10s", "FERMATA_HEADER_TIMEOUT",
        over "the connection is closed";
    /// How long the body of a request may take.
    body_timeout: Duration = "30s", "FERMATA_BODY_TIMEOUT",
        over "408 `slow_request`";
    /// How long a client may take nothing of what is sent to it before it is disconnected.
    reader_timeout: Duration = "30s", "FERMATA_READER_TIMEOUT",
        over "the connection is closed; the run goes on and can be followed again";
    /// Calls of one chat that may wait for somebody at a time.
    max_parked_calls: NonZeroUsize = "128", "FERMATA_MAX_PARKED_CALLS",
        over "the call has failed, and the model is told why";
    /// How long the model may be silent. One that has said nothing yet is asked again, at most twice; then its step fails.
    model_timeout: Duration = "2m", "FERMATA_MODEL_TIMEOUT",
        over "the model is asked again; then the run ends with `error`";
    /// How long the model may take for one step, however much it says.
    model_call_timeout: Duration = "15m", "FERMATA_MODEL_CALL_TIMEOUT",
        over "the run ends with `error`";
    /// How long a call of a tool of the server or of an MCP server may run, not counting time in which it waits for a person;
    /// the tables under tools say otherwise for tools by name.
    tool_timeout: Duration = "60s", "FERMATA_TOOL_TIMEOUT",
        over "the call is cancelled and has failed, and the model is told why";
    /// How long a call may wait for its resource while other calls use it.
    lock_timeout: Duration = "5m", "FERMATA_LOCK_TIMEOUT",
        over "the call has failed, and the model is told why";
    /// How long a question of a running tool (elicitation) waits for its answer if its call uses a resource, which it keeps from
    /// other calls meanwhile. Other questions wait as long as calls do (expire).
    elicit_timeout: Duration = "5m", "FERMATA_ELICIT_TIMEOUT",
        over "the question is cancelled, the tool goes on without an answer, and the person and the model are told why";
    /// Whether people are asked about calls: default (where the policy says so) or auto (never; what is denied stays denied).
    approval: ApprovalMode = "default", "FERMATA_APPROVAL";
    /// When calls run: step (once all calls of the step are decided) or progressive (each once it is decided itself).
    gate: GateMode = "step", "FERMATA_GATE";
    /// What becomes of calls after the first tool result of a turn: free (nothing special) or ask (every one is asked).
    chain: ChainMode = "free", "FERMATA_CHAIN";
}

/// What the parser takes, less what Fermata's own objects add around what was posted.
const DEEPEST_JSON: usize = 120;
/// Runs that one owner may have open where tokens tell owners apart and nobody set another number.
const RUNS_PER_OWNER: Option<NonZeroUsize> = NonZeroUsize::new(64);
/// The same for streams that one owner may read.
const READERS_PER_OWNER: Option<NonZeroUsize> = NonZeroUsize::new(256);
/// The same for chats that one owner may keep.
const CHATS_PER_OWNER: Option<NonZeroUsize> = NonZeroUsize::new(10_000);
/// The same for what is in them.
const BYTES_PER_OWNER: Size = Size(2_000_000_000);

// === impl Config ===

impl Config {
    /// Returns the model that answers. If it is the demo model, this reads its file of scenes.
    ///
    /// # Errors
    /// Returns an error if an API is named but no model, or if the file of scenes cannot be read or used.
    pub fn provider(&self) -> Result<Provider, BuildError> {
        let url = self.openai_base_url.as_ref().map(|url| url.0.clone());
        let key = self.openai_api_key.as_ref().map(|key| key.0.clone());
        let provider = Provider::choose(url, key, self.model.clone())?;
        match (&provider, &self.demo_scenes) {
            (Provider::Demo(_), Some(path)) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| SceneError(format!("{path}: cannot be read: {error}")))?;
                Ok(Provider::Demo(Demo::with_scenes(path, &text)?))
            }
            _ => Ok(provider),
        }
    }

    /// Returns the address to listen on.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind.ip, self.bind.port.unwrap_or(self.port))
    }

    /// Returns whether only people at this machine can use the server, and no proxy or page of another host stands in between.
    pub fn is_for_this_machine_alone(&self) -> bool {
        self.auth == AuthKind::None
            && self.bind.ip.is_loopback()
            && self.hosts.is_empty()
            && self.cors_origins.is_empty()
            && self.trusted_proxies.is_empty()
    }

    /// What decides about calls.
    pub fn rules(&self) -> Rules {
        let rules = self.policy.iter().map(|written| written.rule.clone()).collect();
        Rules {
            policy: Arc::new(RulePolicy { approval: self.approval, rules }),
            gate: self.gate,
            chain: self.chain,
            error_policy: self.error_policy.clone(),
            tools: self.tools.clone(),
        }
    }

    /// With the defaults that depend on other settings.
    fn resolved(self) -> Self {
        // Whoever names the header wants people to be told apart by it.
        let auth = match self.auth {
            AuthKind::None if self.user_header.is_some() => AuthKind::Header,
            auth => auth,
        };
        match auth {
            AuthKind::None => Self { auth, ..self },
            AuthKind::Token | AuthKind::Jwt | AuthKind::Header => Self {
                auth,
                runs_per_owner: self.runs_per_owner.or(RUNS_PER_OWNER),
                readers_per_owner: self.readers_per_owner.or(READERS_PER_OWNER),
                chats_per_owner: self.chats_per_owner.or(CHATS_PER_OWNER),
                bytes_per_owner: self.bytes_per_owner.or(Some(BYTES_PER_OWNER)),
                ..self
            },
        }
    }

    /// The settings, where they go together.
    fn checked(self, sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let fault =
            |key: &str, words: &str| Err(ConfigError::Bad(format!("{}: {words}", sources.place(key))));
        if let Err(error) = self.provider() {
            let key = if matches!(error, BuildError::Scenes(_)) { "demo_scenes" } else { "model" };
            return fault(key, &error.to_string());
        }
        if self.redis_url.is_some() && !self.database_url.is_postgres() {
            return fault(
                "redis_url",
                "Redis is for instances that share a PostgreSQL database, and the database is a SQLite file; set DATABASE_URL \
                 to postgres://user:password@host/database, or leave out REDIS_URL",
            );
        }
        if self.max_json_depth.get() > DEEPEST_JSON {
            return fault("max_json_depth", &format!("the deepest that can be read is {DEEPEST_JSON}"));
        }
        if self.keep.is_some_and(|keep| keep.0.is_zero()) {
            return fault("keep", "0s would forget every chat at once; leave it out to keep chats for ever");
        }
        if self.audit_keep.is_some_and(|keep| keep.0.is_zero()) {
            return fault(
                "audit_keep",
                "0s would keep no decision at all; leave it out to keep them for ever",
            );
        }
        if self.operator_token.as_ref().is_some_and(|token| token.0.expose_secret().len() < SHORTEST_TOKEN) {
            return fault(
                "operator_token",
                &format!("it is shorter than {SHORTEST_TOKEN} characters and could be guessed"),
            );
        }
        if let Some(owners) = shared_token(&self.tokens) {
            return fault(
                "tokens",
                &format!("{owners} have the same token; give each owner one of their own"),
            );
        }
        if let Err((key, words)) = identity::check(&self) {
            return fault(key, &words);
        }
        Ok(self)
    }
}

/// Returns a warning for each of these variables that looks like a setting and is none.
pub fn warnings_of_variables(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let known: Vec<&str> =
        SETTINGS.iter().map(|setting| setting.variable).chain(["FERMATA_CONFIG"]).collect();
    let mut warnings = Vec::new();
    for name in names {
        if name.starts_with("FERMATA_") && !known.contains(&name.as_str()) {
            let meant = nearest(&name, &known).map(|known| format!("; did you mean {known}?"));
            warnings
                .push(format!("{name} is set, but there is no such setting{}", meant.unwrap_or_default()));
        }
    }
    warnings.sort();
    warnings
}

/// Two owners whom nobody could tell apart.
fn shared_token(tokens: &[Token]) -> Option<String> {
    let same = |one: &Token, other: &Token| one.secret.expose_secret() == other.secret.expose_secret();
    tokens.iter().enumerate().find_map(|(place, token)| {
        let other = tokens[..place].iter().find(|other| other.owner != token.owner && same(other, token))?;
        Some(format!("{} and {}", other.owner, token.owner))
    })
}

#[cfg(test)]
mod tests;
