//! The settings of an operator, the place of each value, and the checks that the values go together.
//!
//! A setting is declared once, in the table below. Limits that hardly anybody changes are in the file only. An option overrides the variable, the variable the file, and the file the
//! default. An empty variable counts as unset, because compose files cannot leave a variable out. Rules, settings of tools by name,
//! MCP servers, failures, the model's history, models, assistants and users are tables of the file.

mod assistants;
mod checks;
mod command;
mod context;
mod database;
mod errors;
mod fault;
mod file;
mod identity;
mod mcp;
mod models;
mod network;
mod node;
mod options;
mod policy;
mod report;
mod schema;
mod secret;
mod sources;
mod text;
mod tools;
mod url;
mod value;
mod words;
mod written;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    sync::Arc,
};

use fermata_engine::{FileUrls, Hold, Rules, assistants::ClientSystem, consent::ConsentWords};
use fermata_mcp::ServerConfig;
use fermata_peers::ClusterKey;
use fermata_protocol::{PlanMode, Profile};
use fermata_providers::{BuildError, Provider};
use fermata_tools::{
    ApprovalMode, ChainMode, ErrorPolicy, GateMode, MemoryWrites, Pattern, RulePolicy, ToolSettings,
    input_hash,
};
use ipnet::IpNet;
use schemars::Schema;

pub use self::{
    assistants::{AssistantSettings, Builtin},
    command::{Invocation, TestedCall},
    database::{DatabaseUrl, RedisUrl},
    identity::{AuthKind, UserHeader, UserSettings},
    models::ModelSettings,
    network::{Address, HostName, Origin},
    policy::WrittenRule,
    schema::file_schema,
    secret::{Secret, Token},
    sources::warnings_of_variables,
    url::Url,
    value::{Duration, List, NonZeroDuration, PostRate, Share, Similarity, Size, UpTo},
    words::LogFormat,
    written::Written,
};
use self::{
    file::Tables,
    secret::{MIN_SIGNING_SECRET, MIN_TOKEN},
    sources::Sources,
    value::Value,
};

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// The key in the file. The option is the same with dashes.
    pub key: &'static str,
    /// The heading of its group in `--help`.
    pub group: &'static str,
    /// The environment variable; `None` if only the file has the setting, which then is no option either.
    pub variable: Option<&'static str>,
    /// The default, as a variable would have it.
    pub default: Option<&'static str>,
    /// The purpose of the setting, for people.
    pub about: &'static str,
    /// The consequence of exceeding the value. Every size, number and time has this, and `docs/guide/limits.md` shows it.
    pub over: Option<&'static str>,
    /// `true` if the value is a size, a number or a time.
    pub is_measure: bool,
    /// Returns the name of the value in `--help`.
    pub value_name: fn() -> String,
    /// Returns the JSON Schema of the value in the file.
    pub schema: fn() -> Schema,
}

/// The reason why the server does not start. `Display` is one line for a terminal.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// `--help`, `--version`, or options that clap refuses.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// A value, or two together, that cannot be used. The message names the place.
    #[error("{0}")]
    Bad(String),
}

macro_rules! settings {
    ($($group:literal {
        $($(#[doc = $about:literal])+ $key:ident: $type:ty $(= $default:literal)?, $variable:tt $(, over $over:literal)?;)+
    })+) => {
        /// All settings, as they are in force.
        #[derive(Clone, Debug)]
        pub struct Config {
            $($($(#[doc = $about])+ pub $key: $type,)+)+
            /// The rules about calls, in their order.
            pub policy: Vec<WrittenRule>,
            /// The settings of tools by name. If several entries match, the last one counts.
            pub tools: Vec<(Pattern, ToolSettings)>,
            /// The MCP servers, by name.
            pub mcp: BTreeMap<String, ServerConfig>,
            /// The strategies for failures.
            pub error_policy: ErrorPolicy,
            /// The models besides the one of the main settings, by name.
            pub models: BTreeMap<String, ModelSettings>,
            /// The assistants by name, `default` among them.
            pub assistants: BTreeMap<String, AssistantSettings>,
            /// The users who are in groups, by name.
            pub users: BTreeMap<String, UserSettings>,
            /// The tools whose outputs are never cleared to save room.
            pub never_clear: Vec<Pattern>,
            /// The path of the file that was read, if there was one.
            pub file: Option<String>,
        }

        /// Every setting, in the order of `--help` and `--check`.
        pub const SETTINGS: &[Setting] = &[$($(Setting {
            key: stringify!($key),
            group: $group,
            variable: settings!(@variable $variable),
            default: settings!(@optional $($default)?),
            about: concat!($($about),+).trim_ascii(),
            over: settings!(@optional $($over)?),
            is_measure: <$type as Value>::IS_MEASURE,
            value_name: <$type as Value>::name,
            schema: <$type as Value>::schema,
        },)+)+];

        impl Config {
            /// Reads every setting from the strongest source that has it.
            fn collect(sources: &Sources<'_>) -> Result<Self, ConfigError> {
                $($(let $key = sources.read::<$type>(stringify!($key))?;)+)+
                let Tables {
                    policy, tools, mcp, errors: error_policy, models, assistants, users, never_clear, written: _
                } =
                    sources.file.tables.clone();
                let file = sources.file.path.clone();
                Ok(Self { $($($key,)+)+ policy, tools, mcp, error_policy, models, assistants, users, never_clear, file })
            }

            /// Returns every setting's key and its value for a report.
            fn shown(&self) -> Vec<(&'static str, Option<toml::Value>)> {
                vec![$($((stringify!($key), self.$key.show()),)+)+]
            }

            /// Returns the keys of the settings that another configuration has otherwise. Tables are not settings.
            pub fn differing(&self, other: &Self) -> Vec<&'static str> {
                let mut keys = Vec::new();
                $($(if self.$key != other.$key {
                    keys.push(stringify!($key));
                })+)+
                keys
            }
        }
    };
    (@optional $text:literal) => { Some($text) };
    (@optional) => { None };
    (@variable file) => { None };
    (@variable $name:literal) => { Some($name) };
}

settings! {
    "Server" {
        /// The address to listen on, such as 127.0.0.1:3000, 0.0.0.0 or localhost.
        bind: Address = "127.0.0.1", "FERMATA_BIND";
        /// The port to listen on if bind has none. Platforms that run containers set this variable.
        port: u16 = "3000", "PORT";
        /// Let several processes of this machine listen on the same port (SO_REUSEPORT), so that one can take the place of another
        /// while no connection is refused. They share a PostgreSQL database, and each needs an operator_bind of its own.
        reuse_port: bool = "false", "FERMATA_REUSE_PORT";
        /// Listen beyond this machine although auth is none. Everybody who reaches the port is then the same owner.
        insecure_bind: bool = "false", "FERMATA_INSECURE_BIND";
        /// A second address for operators only, with /metrics, /drain, /healthz and /readyz. If it is set, /metrics is served only
        /// there, unless there is an operator_token. Without one, everybody who reaches the address may drain the server.
        operator_bind: Option<SocketAddr>, "FERMATA_OPERATOR_BIND";
        /// The bearer token for /metrics and /drain, of at least 16 characters. If auth is not none, /metrics is served only with this token
        /// or at operator_bind.
        operator_token: Option<Secret<MIN_TOKEN>>, "FERMATA_OPERATOR_TOKEN";
        /// The format of the log: text (lines for people) or json (an object in each line, for programs).
        log: LogFormat = "text", "FERMATA_LOG";
        /// The AI SDK version that is served if a request names none: 5, 6, 7, or a whole version such as 7.0.173.
        client: Profile = "6", "FERMATA_CLIENT";
        /// After SIGTERM everything is still served for this time, while /readyz fails and proxies notice it. Without PostgreSQL there is no
        /// other instance to send requests to, and this does not count.
        linger: Duration = "5s", "FERMATA_LINGER",
            over "streams that wait move to other instances, and nothing new begins";
        /// After that, runs at work may go on for this time. Runs that only wait are saved and released at once.
        drain: Duration = "60s", "FERMATA_DRAIN",
            over "a run that is still at work ends its streams with `error`, or `interrupted` if the client knows it, and goes on at another instance, or after the next start";
    }
    "Model" {
        /// The base URL of the OpenAI-compatible API. With neither this nor a key, the built-in demo model answers.
        openai_base_url: Option<Url>, "OPENAI_BASE_URL";
        /// The API key.
        openai_api_key: Option<Secret>, "OPENAI_API_KEY";
        /// The name of the model.
        model: Option<String>, "FERMATA_MODEL";
        /// A TOML file of scenes that the demo model plays before its own.
        demo_scenes: Option<String>, "FERMATA_DEMO_SCENES";
        /// The longest silence of the model. A model without any output yet is asked again, at most twice; then the
        /// step fails.
        model_timeout: Duration = "2m", "FERMATA_MODEL_TIMEOUT",
            over "the model is asked again; then the run ends with `error`";
        /// The time limit of one step of the model in all.
        model_call_timeout: Duration = "15m", "FERMATA_MODEL_CALL_TIMEOUT",
            over "the run ends with `error`";
        /// The maximum of tokens in one answer of the model, even if callSettings.maxOutputTokens asks for more. By default there is
        /// none.
        max_output_tokens: Option<NonZeroU32>, "FERMATA_MAX_OUTPUT_TOKENS",
            over "the model is asked for no more, and its answer ends there";
        /// The number of tokens that the model can take. If it is known, the history is fitted into it before it is sent; otherwise
        /// only after the provider has refused a request for its length.
        context_window: Option<NonZeroU32>, "FERMATA_CONTEXT_WINDOW",
            over "old outputs become one line each, and then the oldest turns are left out";
        /// The share of context_window above which the history is fitted, from 0.1 to 1.
        compact_at: Share = "0.8", "FERMATA_COMPACT_AT";
        /// The number of messages at the end of a chat that no summary covers before the model's window fills up.
        keep_recent: NonZeroUsize = "20", "FERMATA_KEEP_RECENT",
            over "a summary may stand for the earlier ones";
        /// The number of earlier messages without a summary that leads to one after a run.
        summary_every: NonZeroUsize = "10", "FERMATA_SUMMARY_EVERY",
            over "a summary is written in the background";
        /// The model that writes summaries: one of the table models, or the name of a model of the same API. By default it is the
        /// model of the chat.
        summary_model: Option<String>, "FERMATA_SUMMARY_MODEL";
        /// The URLs of files that a model may be given: data (only data URLs), https (those on port 443 of names that lead to public
        /// addresses), or hosts, such as cdn.example.com or *.example.com.
        file_urls: FileUrls = "https", "FERMATA_FILE_URLS";
    }
    "Assistants" {
        /// The instructions for the model, which come before the system text of a page. They are those of the assistant default;
        /// the table assistants has others.
        instructions: Option<String>, "FERMATA_INSTRUCTIONS";
        /// A file with the instructions, in place of instructions. Its path is relative to the file of settings.
        instructions_file: Option<String>, "FERMATA_INSTRUCTIONS_FILE";
        /// The use of the instructions that pages post, as system or as messages with that role: append (after the operator's
        /// own), ignore, or refuse (422).
        client_system: ClientSystem = "append", "FERMATA_CLIENT_SYSTEM";
        /// The groups of built-in tools: time (current_time), notes (search_notes, write_note), memory (remember, recall, forget,
        /// with all that an assistant then knows of its user), ask_user (ask_user) and web (fetch_url, and web_search with a
        /// search_url). By default time and notes, and memory if the demo model answers.
        builtin: Option<List<Builtin>>, "FERMATA_BUILTIN";
        /// The URL of a SearXNG, whose search.formats must contain json. The tool web_search, in the group web, searches with it.
        search_url: Option<Url>, "FERMATA_SEARCH_URL";
    }
    "Plans" {
        /// The use of plans, if neither an assistant nor a post says otherwise: off, auto (the model first makes a plan if the
        /// user's message asks for several things) or ask (a person is asked about the plan).
        /// Default: off, or ask with the demo model.
        plan: Option<PlanMode>, "FERMATA_PLAN";
        /// The length of a user's message, in characters.
        plan_over: NonZeroUsize = "300", "FERMATA_PLAN_OVER",
            over "if plans are used, the model first makes one";
        /// The words that name goals. If plans are used, the model first makes one for a message with two of them.
        plan_verbs: List<String> = "compare,summarise,summarize,write,save,search,translate,analyse,analyze,draft,send,比较,总结,写成,保存,搜索,翻译,分析,发送", "FERMATA_PLAN_VERBS";
    }
    "Memory" {
        /// The model that makes vectors of texts, at the model API's /embeddings, so that memories are found by their meaning. By
        /// default they are found by their words.
        embedding_model: Option<String>, "FERMATA_EMBEDDING_MODEL";
        /// The number of memories that are recalled for a message.
        memory_recall: NonZeroUsize = "5", "FERMATA_MEMORY_RECALL",
            over "only the most similar ones are recalled";
        /// The least similarity of the vectors of a message and a memory, from 0 to 1. Memories with less are not recalled.
        memory_threshold: Similarity = "0.25", file;
        /// The number of memories that one owner may have.
        memory_max: NonZeroUsize = "1000", "FERMATA_MEMORY_MAX",
            over "those go that were never recalled, then those that were not recalled for longest; if all are pinned or have a slot, 422 `too_many_memories`";
        /// When a call of remember or forget needs approval: free (if the rules ask for it), ask_after_reading (also after something from
        /// outside was read in the turn, such as a page of the web, and for memories with a slot) or ask (always).
        memory_writes: MemoryWrites = "ask_after_reading", "FERMATA_MEMORY_WRITES";
        /// The size of one memory.
        max_memory: Size = "2KB", file,
            over "422 `invalid_request`; in a call of `remember`, the call has failed, and the model gets the reason";
    }
    "Database and instances" {
        /// A SQLite file, which is created if it does not exist, or a PostgreSQL database (15 or later) as
        /// `postgres://user:password@host/database`.
        database_url: DatabaseUrl = "sqlite://fermata.db", "DATABASE_URL";
        /// The number of connections to PostgreSQL that this instance may open.
        database_connections: NonZeroU32 = "10", "FERMATA_DATABASE_CONNECTIONS",
            over "what needs a connection waits for one, and is answered 503 `unavailable` when that takes too long";
        /// Bring the database up to date at the start. If this is false, run fermata migrate before an update.
        migrate: bool = "true", "FERMATA_MIGRATE";
        /// Redis (7 or later) or Valkey, as `redis://:password@host:6379`. Instances that share a PostgreSQL database need it to
        /// reach each other.
        redis_url: Option<RedisUrl>, "REDIS_URL";
        /// The key that encrypts messages between instances in Redis: at least 32 random bytes, in hexadecimal
        /// or base64, the same for all of them. By default they keep one in the database.
        cluster_key: Option<ClusterKey>, "FERMATA_CLUSTER_KEY";
        /// The retention of idle chats. By default, chats are kept.
        keep: Option<NonZeroDuration>, "FERMATA_KEEP",
            over "the chat is deleted: 404 `not_found`";
        /// The retention of rows of the table audit_events. By default they are kept, even if
        /// their chat is deleted.
        audit_keep: Option<NonZeroDuration>, "FERMATA_AUDIT_KEEP",
            over "the row is deleted";
    }
    "Access" {
        /// The authentication of owners: none (everybody is the same owner), token (a bearer token), jwt (a JSON Web
        /// Token) or header (a header of a proxy).
        auth: AuthKind = "none", "FERMATA_AUTH";
        /// The owners and their bearer tokens, of at least 16 characters. For auth = token.
        tokens: List<Token> = "", "FERMATA_TOKENS";
        /// The URL where the issuer of JSON Web Tokens publishes its keys (JWKS). For auth = jwt; the owner is the token's
        /// sub.
        jwks_url: Option<Url>, "FERMATA_JWKS_URL";
        /// The secret that signs JSON Web Tokens (HS256, HS384 or HS512), of at least 32 bytes, in place of jwks_url.
        jwt_secret: Option<Secret<MIN_SIGNING_SECRET>>, "FERMATA_JWT_SECRET";
        /// The issuer (iss) that JSON Web Tokens must have. By default, any.
        jwt_issuer: Option<String>, "FERMATA_JWT_ISSUER";
        /// The accepted audiences (aud) of JSON Web Tokens. By default, any.
        jwt_audience: List<String> = "", "FERMATA_JWT_AUDIENCE";
        /// The claim of a JSON Web Token with the groups of its user, a list or a text. A path such as realm_access.roles is a claim
        /// within claims. Default: groups.
        jwt_groups_claim: Option<String>, "FERMATA_JWT_GROUPS_CLAIM";
        /// The header where a proxy names the owner, such as x-forwarded-user. Only trusted_proxies are believed. It implies
        /// auth = header.
        user_header: Option<UserHeader>, "FERMATA_USER_HEADER";
        /// The proxies whose x-forwarded-for and user_header are believed, as addresses or networks such as 10.0.0.0/8. Limits
        /// and the log then use the address of the client that they name.
        trusted_proxies: List<IpNet> = "", "FERMATA_TRUSTED_PROXIES";
        /// The origins of pages on other hosts that may call the server, such as `https://app.example.com`.
        cors_origins: List<Origin> = "", "FERMATA_CORS_ORIGINS";
        /// The host names that the server answers to if auth is none, besides localhost, addresses and the hosts of cors_origins.
        hosts: List<HostName> = "", "FERMATA_HOSTS";
    }
    "Calls and approval" {
        /// The time that a stream stays open while its calls wait, unless the request sets it. auto: five minutes, but 15 seconds for
        /// stock pages until one of their owner's has shown how it answers.
        hold: Hold = "auto", "FERMATA_HOLD",
            over "the stream ends cleanly, and the call waits on";
        /// The time limit of a call that waits for somebody; then it expires.
        expire: Duration = "24h", "FERMATA_EXPIRE",
            over "the call is settled as expired, and its run ends; a later answer is 410 `gone`";
        /// Asking people to approve calls: default (if the rules ask for it) or auto (never; denied calls stay denied).
        approval: ApprovalMode = "default", "FERMATA_APPROVAL";
        /// The moment when the calls of a step run: step (when all of them are decided) or progressive (each when it is
        /// decided).
        gate: GateMode = "step", "FERMATA_GATE";
        /// The treatment of the calls of a turn besides the first one: free (like that one), ask (each needs approval) or one (of the
        /// calls of a step only the first one runs, and the model is asked to make the others again).
        chain: ChainMode = "free", "FERMATA_CHAIN";
        /// The time limit of a call of a tool of the server or of an MCP server, without the time that it waits for a person.
        /// The tables under tools can set another time for a tool.
        tool_timeout: Duration = "60s", "FERMATA_TOOL_TIMEOUT",
            over "the call is cancelled and has failed, and the model gets the reason";
        /// The longest wait of a call for a resource that other calls use.
        lock_timeout: Duration = "5m", "FERMATA_LOCK_TIMEOUT",
            over "the call has failed, and the model gets the reason";
        /// The time limit of a question of a running tool (elicitation) if its call keeps a resource from other
        /// calls. Other questions wait as long as calls do (expire).
        elicit_timeout: Duration = "5m", "FERMATA_ELICIT_TIMEOUT",
            over "the question is cancelled, the tool goes on without an answer, and the person and the model get the reason";
        /// More words that approve all calls which wait for approval, if a message is one of them. By default, such words of six languages,
        /// from yes to はい. An empty list turns this off: no message decides about calls.
        confirm_words: Option<List<String>>, "FERMATA_CONFIRM_WORDS";
        /// More words that deny them.
        deny_words: List<String> = "", "FERMATA_DENY_WORDS";
        /// The number of calls of server and MCP tools that may run at the same time in this instance. Owners take turns. A call that waits for
        /// a person does not count.
        max_running_calls: Option<NonZeroUsize>, "FERMATA_MAX_RUNNING_CALLS",
            over "the call waits for its turn";
        /// The number of requests that models may be answering at the same time for this instance: those of runs, summaries and
        /// embeddings. Owners take turns.
        max_model_requests: Option<NonZeroUsize>, "FERMATA_MAX_MODEL_REQUESTS",
            over "the run or the summary waits for its turn; memories are found by their words; 503 `unavailable` for a summary that a page has waited for too long";
        /// The number of calls of one chat that may wait for somebody at the same time.
        max_parked_calls: NonZeroUsize = "128", file,
            over "the call has failed, and the model gets the reason";
    }
    "Limits of an owner" {
        /// The number of runs and summaries that one owner may start by posts in a time at this instance, such as 60/min, 5/s or 1000/day. Answers to calls do not count. Default: 60/min, or no limit if auth is none.
        posts_per_owner: Option<PostRate>, "FERMATA_POSTS_PER_OWNER",
            over "429 `too_many_posts` with `retry-after`";
        /// The number of runs of one owner that may be open, those that wait included. Default: 64, or no limit if auth is none.
        runs_per_owner: Option<NonZeroUsize>, "FERMATA_RUNS_PER_OWNER",
            over "429 `too_many_runs` with `retry-after`";
        /// The number of calls of server and MCP tools that may run for one owner at the same time in this instance.
        running_calls_per_owner: Option<NonZeroUsize>, "FERMATA_RUNNING_CALLS_PER_OWNER",
            over "the call waits for its turn";
        /// The number of requests of one owner that models may be answering at the same time for this instance: those of runs,
        /// summaries and embeddings.
        model_requests_per_owner: Option<NonZeroUsize>, "FERMATA_MODEL_REQUESTS_PER_OWNER",
            over "as for `max_model_requests`";
        /// The number of streams that one owner may read from this instance. Default: 256, or no limit if auth is none.
        readers_per_owner: Option<NonZeroUsize>, "FERMATA_READERS_PER_OWNER",
            over "429 `too_many_readers` with `retry-after`";
        /// The number of chats that one owner may keep. Default: 10000, or no limit if auth is none.
        chats_per_owner: Option<NonZeroUsize>, "FERMATA_CHATS_PER_OWNER",
            over "a post that would make a chat gets 429 `too_many_chats` with `retry-after`; deleting one makes room at once";
        /// The size of all chats of one owner: their messages as JSON. Default: 2GB, or no limit if auth is none.
        bytes_per_owner: Option<Size>, "FERMATA_BYTES_PER_OWNER",
            over "a post that would add to a chat gets 429 `too_many_bytes` with `retry-after`; deleting makes room at once";
        /// The number of notes that one owner may keep.
        notes_per_owner: NonZeroUsize = "5000", "FERMATA_NOTES_PER_OWNER",
            over "the call of `write_note` has failed, and the model gets the reason";
        /// The size of one note: its title and its body.
        max_note: Size = "64KB", "FERMATA_MAX_NOTE",
            over "the call of `write_note` has failed, and the model gets the reason";
    }
    "Limits of a chat and its runs" {
        /// The size of one chat: its messages as JSON.
        max_chat: Size = "64MB", "FERMATA_MAX_CHAT",
            over "413 `too_large` for a post or an answer; a run ends with `error` after the step that went over it, which is kept";
        /// The number of steps, or calls of the model, in one run.
        max_steps: NonZeroU32 = "20", "FERMATA_MAX_STEPS",
            over "in the last step the model can call nothing and says what is done and what is left; `finish` has `messageMetadata.stopped`, `step_limit`";
        /// The number of processes in a row that may end within seconds of resuming a run, before it gets on.
        max_attempts: NonZeroU32 = "3", "FERMATA_MAX_ATTEMPTS",
            over "the run ends with `error` when it is resumed, and its open calls are settled";
        /// The number of calls that the model may make in one step.
        max_calls_per_step: NonZeroUsize = "128", file,
            over "the first excess call has failed, those after it are left out, and the model gets the reason";
        /// The size of the arguments of one call, as the model makes them or a person edits them.
        max_arguments: Size = "1MB", file,
            over "the call has failed, and the model gets the reason; 413 `too_large` for an edited input";
        /// The number of JSON values in the arguments of one call: objects, lists, strings, numbers, true, false and null. Each takes
        /// a hundred times the memory of its text while it is checked.
        max_argument_nodes: NonZeroUsize = "20000", file,
            over "the call has failed, and the model gets the reason; 413 `too_large` for an edited input";
        /// The size of the model's output in one step: text, reasoning, arguments and files.
        max_step_output: Size = "4MB", file,
            over "the run ends with `error`";
        /// The size of one tool output, as JSON.
        max_output: Size = "1MB", "FERMATA_MAX_OUTPUT",
            over "413 `too_large` for a page's output; a tool of the server has failed, and the model gets the reason";
        /// The size of that part of a tool output that the model is shown.
        max_model_output: Size = "400KB", "FERMATA_MAX_MODEL_OUTPUT",
            over "the middle of the output is cut out of the model's copy; clients are shown all of it";
    }
    "Limits of a request" {
        /// The size of a request body.
        max_body: Size = "10MB", "FERMATA_MAX_BODY",
            over "413 `too_large`";
        /// The number of JSON values in a request body, or in an output of a tool of the server or of an MCP server: objects, lists,
        /// strings, numbers, true, false and null.
        max_json_nodes: NonZeroUsize = "200000", file,
            over "413 `too_large`; a tool of the server has failed, and the model gets the reason";
        /// The depth to which objects and lists may be nested in a request body, up to 120.
        max_json_depth: UpTo<DEEPEST_JSON> = "100", file,
            over "422 `invalid_request`";
        /// The memory for all request bodies together that are being received or acted on. Each JSON value counts as 1 kB.
        max_body_memory: Size = "256MB", "FERMATA_MAX_BODY_MEMORY",
            over "the body waits for five seconds; then 503 `unavailable` with `retry-after`";
        /// The number of messages in a request.
        max_messages: NonZeroUsize = "2000", "FERMATA_MAX_MESSAGES",
            over "413 `too_large`";
        /// The size of system, the instructions in a request.
        max_system: Size = "256KB", file,
            over "413 `too_large`";
        /// The number of browser tools in a request.
        max_tools: NonZeroUsize = "128", file,
            over "413 `too_large`";
        /// The size of all browser tools in a request: their names, descriptions and schemas.
        max_tools_size: Size = "1MB", file,
            over "422 `invalid_request`";
        /// The number of patterns in the schemas of all browser tools in a request. Each may have 2,000 bytes and 64,000 states,
        /// and all of them 256,000 states.
        max_patterns: NonZeroUsize = "200", file,
            over "422 `invalid_request`";
        /// The time limit for checking the inputs of a step's calls, or of an answer, against their schemas.
        check_timeout: Duration = "5s", file,
            over "the call has failed, and the model gets the reason; 422 `invalid_request` for an answer";
    }
    "Limits of connections" {
        /// The number of connections that may be open. By default, as many as the process's limit of open files allows, and never more.
        /// When all are taken, a new one replaces the one that has been idle for the longest; if none is idle, the stream that has
        /// waited for the longest ends cleanly to make room. Answers and health checks always get through.
        max_connections: Option<NonZeroUsize>, "FERMATA_MAX_CONNECTIONS",
            over "the stream that has waited for the longest ends cleanly, and its calls wait on; if none waits, 503 `unavailable` with `retry-after`";
        /// The number of connections from one address; for IPv6, from one network of 64 bits. This machine and trusted_proxies
        /// have no limit.
        max_connections_per_address: NonZeroUsize = "1024", "FERMATA_MAX_CONNECTIONS_PER_ADDRESS",
            over "429 `too_many_connections` with `retry-after`, except for answers and health checks";
        /// The time limit for the head of a request to arrive, and for an idle connection.
        header_timeout: Duration = "10s", file,
            over "the connection is closed";
        /// The time limit for the body of a request to arrive.
        body_timeout: Duration = "30s", "FERMATA_BODY_TIMEOUT",
            over "408 `slow_request`";
        /// The time limit for a client that does not read its stream.
        reader_timeout: Duration = "30s", file,
            over "the connection is closed; the run goes on and can be followed again";
    }
}

/// The maximum of `max_json_depth`: what the JSON parser takes, less what Fermata's own objects add around a posted value.
const DEEPEST_JSON: usize = 120;

// === impl Config ===

impl Config {
    /// Returns the model of the main settings. If it is the demo model, this reads its file of scenes.
    ///
    /// # Errors
    /// Returns an error if an API is named but no model, or if the file of scenes cannot be read or used.
    pub fn provider(&self) -> Result<Provider, BuildError> {
        ModelSettings::default().provider(self)
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

    /// Returns a hash of all that decides about calls, a SHA-256 in hexadecimal. Equal rules have equal hashes in one version of the server.
    pub fn rules_hash(&self) -> String {
        let rules: Vec<_> = self.policy.iter().map(|written| &written.rule).collect();
        let modes = (self.approval, self.gate, self.chain, self.memory_writes);
        input_hash(
            &serde_json::json!(format!("{:?}", (rules, modes, &self.tools, &self.error_policy))).into(),
        )
    }

    /// Returns what decides about calls.
    pub fn rules(&self) -> Rules {
        let rules = self.policy.iter().map(|written| written.rule.clone()).collect();
        Rules {
            policy: Arc::new(RulePolicy { approval: self.approval, rules }),
            gate: self.gate,
            chain: self.chain,
            memory_writes: self.memory_writes,
            error_policy: self.error_policy.clone(),
            tools: self.tools.clone(),
            consent: match self.confirm_words.as_deref() {
                Some([]) => ConsentWords::off(),
                confirm => ConsentWords::default().with(confirm.unwrap_or_default(), &self.deny_words),
            },
            never_clear: self.never_clear.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
