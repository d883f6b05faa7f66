//! Every setting, in a struct for each group of them.
//!
//! The doc of a field is its help text. `setting.rs` reads the rest from attributes:
//!
//! - `default` is the default, as a variable would have it, and `x-default-with-auth` the one unless auth is none.
//! - `x-variable` is the variable, unless that is `FERMATA_` and the key. `x-file-only` marks a setting that is neither a variable nor an
//!   option.
//! - `x-over` is the consequence of exceeding the value.
//! - A title of the field, or of its type, is the name of the value in `--help`.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
};

use fermata_engine::assistants::ClientSystem;
use fermata_protocol::{PlanMode, Profile};
use fermata_store::{Database, OpenError, OpenOptions};
use fermata_tools::{ApprovalMode, ChainMode, GateMode, MemoryWrites};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    assistants::Builtin,
    database::{AuditAnchor, DatabaseUrl, RedisUrl},
    identity::{AuthKind, UserHeader},
    network::{Address, HostName, Network, OperatorAddress, Origin},
    secret::{MIN_SIGNING_SECRET, MIN_TOKEN, Secret, SharedKey, SigningKey, Token},
    url::Url,
    values::{AllowedFiles, Duration, HoldTime, NonZeroDuration, PostRate, Share, Size, UpTo},
};

/// The settings of the server: its addresses, its log and its end.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ServerSettings {
    /// The address to listen on, such as 127.0.0.1:3000, 0.0.0.0 or localhost.
    #[schemars(extend("default" = "127.0.0.1"))]
    pub bind: Address,
    /// The port to listen on if bind has none. Platforms that run containers set this variable. If neither is set and the port is taken,
    /// the server listens on the next free one.
    #[schemars(title = "PORT", extend("default" = "3000", "x-variable" = "PORT"))]
    pub port: u16,
    /// Let several processes of this machine listen on the same port (SO_REUSEPORT), so that one can take the place of another
    /// while no connection is refused. They share a PostgreSQL database, and each needs an operator_bind of its own.
    #[schemars(extend("default" = "false"))]
    pub reuse_port: bool,
    /// Listen beyond this machine although auth is none: false, true, or demo (only with the demo model and without MCP servers). Everybody
    /// who reaches the port is then the same owner.
    #[schemars(with = "Value", title = "true|false|demo", extend("default" = "false", "anyOf" = [{"type": "boolean"}, {"const": "demo"}]))]
    pub insecure_bind: InsecureBind,
    /// The URL where people reach this server, such as `https://chat.example.com`. Links in messages of channels begin with it.
    pub public_url: Option<Url>,
    /// A second address for operators only, with /metrics, /drain, /healthz and /readyz. If it is set, /metrics is served only
    /// there, unless there is an operator_token. Without one, everybody who reaches the address may drain the server.
    pub operator_bind: Option<OperatorAddress>,
    /// The bearer token for /metrics and /drain, of at least 16 characters. If auth is not none, /metrics is served only with this token
    /// or at operator_bind.
    pub operator_token: Option<Secret<MIN_TOKEN>>,
    /// The format of the log: text (lines for people) or json (an object in each line, for programs).
    #[schemars(extend("default" = "text"))]
    pub log: LogFormat,
    /// The AI SDK version that is served if a request names none: 5, 6, 7, or a whole version such as 7.0.173.
    #[schemars(with = "Value", title = "VERSION", extend("default" = "6", "anyOf" = [{"enum": [5, 6, 7]}, {"type": "string"}]))]
    pub client: Profile,
    /// After SIGTERM everything is still served for this time, while /readyz fails and proxies notice it. Without PostgreSQL there is no
    /// other instance to send requests to, and this does not count.
    #[schemars(extend("default" = "5s"))]
    #[schemars(extend("x-over" = "streams that wait move to other instances, and nothing new begins"))]
    pub linger: Duration,
    /// After that, runs at work may go on for this time. Runs that only wait are saved and released at once.
    #[schemars(extend("default" = "60s"))]
    #[schemars(extend("x-over" = "a run that is still at work ends its streams with `error`, or `interrupted` if the client knows it, and goes on at another instance, or after the next start"))]
    pub drain: Duration,
}

/// The settings of traces.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct TelemetrySettings {
    /// The URL of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`. The trace of each run is sent
    /// there when the run ends, and the metrics from time to time. By default, nothing is sent.
    #[schemars(extend("x-variable" = "OTEL_EXPORTER_OTLP_ENDPOINT"))]
    pub otel_endpoint: Option<Url>,
    /// The headers for the collector, as name=value,name=value.
    #[schemars(extend("x-variable" = "OTEL_EXPORTER_OTLP_HEADERS"))]
    pub otel_headers: Option<Secret>,
    /// The name of this service in traces.
    #[schemars(extend("default" = "fermata", "x-variable" = "OTEL_SERVICE_NAME"))]
    pub otel_service: String,
    /// The interval between two reports of the metrics to the collector.
    #[schemars(extend("default" = "60s", "x-over" = "the metrics are sent"))]
    pub otel_interval: NonZeroDuration,
    /// Put the inputs and outputs of calls into traces.
    #[schemars(extend("default" = "false"))]
    pub otel_content: bool,
}

/// The settings of the main model, which the models by name inherit.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ModelDefaults {
    /// The base URL of the OpenAI-compatible API. With neither this nor a key, the built-in demo model answers.
    #[schemars(extend("x-variable" = "OPENAI_BASE_URL"))]
    pub openai_base_url: Option<Url>,
    /// The API key.
    #[schemars(extend("x-variable" = "OPENAI_API_KEY"))]
    pub openai_api_key: Option<Secret>,
    /// The name of the model.
    pub model: Option<String>,
    /// A TOML file of scenes that the demo model plays before its own.
    pub demo_scenes: Option<String>,
    /// The longest silence of the model. A model without any output yet is asked again, at most twice; then the
    /// step fails.
    #[schemars(extend("default" = "2m"))]
    #[schemars(extend("x-over" = "the model is asked again; then the run ends with `error`"))]
    pub model_timeout: Duration,
    /// The time limit of one step of the model in all.
    #[schemars(extend("default" = "15m", "x-over" = "the run ends with `error`"))]
    pub model_call_timeout: Duration,
    /// The maximum of tokens in one answer of the model, even if callSettings.maxOutputTokens asks for more. By default there is
    /// none.
    #[schemars(extend("x-over" = "the model is asked for no more, and its answer ends there"))]
    pub max_output_tokens: Option<NonZeroU32>,
    /// The number of tokens that the model can take. If it is known, the history is fitted into it before it is sent; otherwise
    /// only after the provider has refused a request for its length.
    #[schemars(extend("x-over" = "old outputs become one line each, and then the oldest turns are left out"))]
    pub context_window: Option<NonZeroU32>,
    /// The share of context_window above which the history is fitted, from 0.1 to 1.
    #[schemars(range(min = 0.1, max = 1), extend("default" = "0.8"))]
    pub compact_at: Share<1>,
    /// The number of messages at the end of a chat that no summary covers before the model's window fills up.
    #[schemars(extend("default" = "20", "x-over" = "a summary may stand for the earlier ones"))]
    pub keep_recent: NonZeroUsize,
    /// The number of earlier messages without a summary that leads to one after a run.
    #[schemars(extend("default" = "10", "x-over" = "a summary is written in the background"))]
    pub summary_every: NonZeroUsize,
    /// The model that writes summaries: one of the table models, or the name of a model of the same API. By default it is the
    /// model of the chat.
    pub summary_model: Option<String>,
    /// The URLs of files that a model may be given: data (only data URLs), https (those on port 443 of names that lead to public
    /// addresses), or hosts, such as cdn.example.com or *.example.com.
    #[schemars(extend("default" = "https"))]
    pub file_urls: AllowedFiles,
}

/// The settings of the assistant `default`, which the others inherit.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct AssistantDefaults {
    /// The instructions for the model, which come before the system text of a page. They are those of the assistant default;
    /// the table assistants has others.
    pub instructions: Option<String>,
    /// A file with the instructions, in place of instructions. Its path is relative to the file of settings.
    pub instructions_file: Option<String>,
    /// The use of the instructions that pages post, as system or as messages with that role: append (after the operator's
    /// own), ignore, or refuse (422).
    #[schemars(extend("default" = "append"))]
    pub client_system: ClientSystem,
    /// The groups of built-in tools: time (current_time), notes (search_notes, write_note), memory (remember, recall, forget,
    /// with all that an assistant then knows of its user), ask_user (ask_user) and web (fetch_url, and web_search with a
    /// search_url). By default time and notes, and memory if the demo model answers.
    pub builtin: Option<Vec<Builtin>>,
    /// The URL of a SearXNG, whose search.formats must contain json. The tool web_search, in the group web, searches with it.
    pub search_url: Option<Url>,
}

/// The settings of plans.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct PlanSettings {
    /// The use of plans, if neither an assistant nor a post says otherwise: off, auto (the model may make a plan, and one is suggested if
    /// the user's message asks for several things), always (the model first makes a plan) or ask (as auto, and a person is asked about
    /// each plan). Default: off, or ask with the demo model.
    pub plan: Option<PlanMode>,
    /// The length of a user's message, in characters.
    #[schemars(extend("default" = "300", "x-over" = "if plans are used, one is suggested"))]
    pub plan_over: NonZeroUsize,
    /// The words that name goals. If plans are used, one is suggested for a message with two of them.
    #[schemars(extend("default" = "compare,summarise,summarize,write,save,search,translate,analyse,analyze,draft,send,比较,总结,写成,保存,搜索,翻译,分析,发送"))]
    pub plan_verbs: Vec<String>,
}

/// The settings of memories.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct MemorySettings {
    /// The model that makes vectors of texts, at the model API's /embeddings, so that memories are found by their meaning. By
    /// default they are found by their words.
    pub embedding_model: Option<String>,
    /// The number of memories that are recalled for a message.
    #[schemars(extend("default" = "5", "x-over" = "only the most similar ones are recalled"))]
    pub memory_recall: NonZeroUsize,
    /// The least similarity of the vectors of a message and a memory, from 0 to 1. Memories with less are not recalled.
    #[schemars(range(min = 0, max = 1), extend("default" = "0.25", "x-file-only" = true))]
    pub memory_threshold: Share,
    /// The time that a chat is quiet before a model looks for facts about the user in its new messages.
    #[schemars(extend("default" = "60s", "x-over" = "facts are noted as memories in the background"))]
    pub memory_after: Duration,
    /// The number of memories that one owner may have.
    #[schemars(extend("default" = "1000"))]
    #[schemars(extend("x-over" = "those go that were never recalled, then those that were not recalled for longest; if all are pinned or have a slot, 422 `too_many_memories`"))]
    pub memory_max: NonZeroUsize,
    /// When a call of remember or forget needs approval: free (if the rules ask for it), ask_after_reading (also after something from
    /// outside was read in the turn, such as a page of the web, and for memories with a slot) or ask (always).
    #[schemars(extend("default" = "ask_after_reading"))]
    pub memory_writes: MemoryWrites,
    /// The size of one memory.
    #[schemars(extend("default" = "2KB", "x-file-only" = true))]
    #[schemars(extend("x-over" = "422 `invalid_request`; in a call of `remember`, the call has failed, and the model gets the reason"))]
    pub max_memory: Size,
}

/// The settings of the database, and of the instances that share it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct DatabaseSettings {
    /// A SQLite file, which is created if it does not exist, or a PostgreSQL database (15 or later) as
    /// `postgres://user:password@host/database`.
    #[schemars(extend("default" = "sqlite://fermata.db", "x-variable" = "DATABASE_URL"))]
    pub database_url: DatabaseUrl,
    /// The number of connections to PostgreSQL that this instance may open.
    #[schemars(extend("default" = "10"))]
    #[schemars(extend("x-over" = "what needs a connection waits for one, and is answered 503 `unavailable` when that takes too long"))]
    pub database_connections: NonZeroU32,
    /// Bring the database up to date at the start. If this is false, run fermata migrate before an update.
    #[schemars(extend("default" = "true"))]
    pub migrate: bool,
    /// Redis (7 or later) or Valkey, as `redis://:password@host:6379`. Instances that share a PostgreSQL database need it to
    /// reach each other.
    #[schemars(extend("x-variable" = "REDIS_URL"))]
    pub redis_url: Option<RedisUrl>,
    /// The key that encrypts messages between instances in Redis: at least 32 random bytes, in hexadecimal
    /// or base64, the same for all of them. By default they keep one in the database.
    pub cluster_key: Option<SharedKey>,
    /// Another key that decrypts such messages, while cluster_key is being replaced.
    pub other_cluster_key: Option<SharedKey>,
    /// The retention of idle chats. By default, chats are kept.
    #[schemars(extend("x-over" = "the chat is deleted: 404 `not_found`"))]
    pub keep: Option<NonZeroDuration>,
    /// The retention of rows of the table audit_events. By default they are kept, even if
    /// their chat is deleted.
    #[schemars(extend("x-over" = "the row is deleted"))]
    pub audit_keep: Option<NonZeroDuration>,
    /// The private key that signs checkpoints of the audit: Ed25519 in PEM, as openssl genpkey -algorithm ed25519 writes it, or the 32
    /// bytes of its seed in base64. By default, checkpoints are not signed.
    pub audit_key: Option<SigningKey>,
    /// A file that gets a copy of each checkpoint of the audit. It proves more if those who can write to the database cannot write to
    /// it.
    pub audit_anchor: Option<AuditAnchor>,
}

/// The settings of owners and their authentication.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct AccessSettings {
    /// The authentication of owners: none (everybody is the same owner), token (a bearer token), jwt (a JSON Web
    /// Token) or header (a header of a proxy).
    #[schemars(extend("default" = "none"))]
    pub auth: AuthKind,
    /// The owners and their bearer tokens, of at least 16 characters, or the hash of a token as sha256:<64 hexadecimal digits>. For
    /// auth = token.
    #[serde(default)]
    pub tokens: Vec<Token>,
    /// The URL where the issuer of JSON Web Tokens publishes its keys (JWKS). For auth = jwt; the owner is the token's
    /// sub.
    pub jwks_url: Option<Url>,
    /// The secret that signs JSON Web Tokens (HS256, HS384 or HS512), of at least 32 bytes, in place of jwks_url.
    pub jwt_secret: Option<Secret<MIN_SIGNING_SECRET>>,
    /// Another secret of tokens that are accepted, while jwt_secret is being replaced.
    pub other_jwt_secret: Option<Secret<MIN_SIGNING_SECRET>>,
    /// The issuer (iss) that JSON Web Tokens must have. By default, any.
    pub jwt_issuer: Option<String>,
    /// The accepted audiences (aud) of JSON Web Tokens. By default, any.
    #[serde(default)]
    pub jwt_audience: Vec<String>,
    /// The claim of a JSON Web Token with the groups of its user, a list or a text. A path such as realm_access.roles is a claim
    /// within claims. Default: groups.
    pub jwt_groups_claim: Option<String>,
    /// The header where a proxy names the owner, such as x-forwarded-user. Only trusted_proxies are believed. It implies
    /// auth = header.
    pub user_header: Option<UserHeader>,
    /// The header where the proxy names the groups of the owner, separated by commas. It is believed under the same conditions as user_header.
    pub groups_header: Option<UserHeader>,
    /// The proxies whose x-forwarded-for and user_header are believed, as addresses or networks such as 10.0.0.0/8. Limits
    /// and the log then use the address of the client that they name.
    #[serde(default)]
    pub trusted_proxies: Vec<Network>,
    /// The origins of pages on other hosts that may call the server, such as `https://app.example.com`.
    #[serde(default)]
    pub cors_origins: Vec<Origin>,
    /// The host names that the server answers to if auth is none, besides localhost, addresses and the hosts of cors_origins.
    #[serde(default)]
    pub hosts: Vec<HostName>,
}

/// The settings of calls and their approval.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ToolCallSettings {
    /// The time that a stream stays open while its calls wait, unless the request sets it. auto: five minutes, but 15 seconds for
    /// stock pages until one of their owner's has shown how it answers.
    #[schemars(extend("default" = "auto", "x-over" = "the stream ends cleanly, and the call waits on"))]
    pub hold: HoldTime,
    /// The time limit of a call that waits for somebody; then it expires.
    #[schemars(extend("default" = "24h"))]
    #[schemars(extend("x-over" = "the call is settled as expired, and its run ends; a later answer is 410 `gone`"))]
    pub expire: Duration,
    /// Asking people to approve calls: default (if the rules ask for it) or auto (never; denied calls stay denied).
    #[schemars(extend("default" = "default"))]
    pub approval: ApprovalMode,
    /// The moment when the calls of a step run: step (when all of them are decided) or progressive (each when it is
    /// decided).
    #[schemars(extend("default" = "step"))]
    pub gate: GateMode,
    /// The treatment of the calls of a turn besides the first one: free (like that one), ask (each needs approval) or one (of the
    /// calls of a step only the first one runs, and the model is asked to make the others again).
    #[schemars(extend("default" = "free"))]
    pub chain: ChainMode,
    /// The time limit of a call of a tool of the server or of an MCP server, without the time that it waits for a person.
    /// The tables under tools can set another time for a tool.
    #[schemars(extend("default" = "60s"))]
    #[schemars(extend("x-over" = "the call is cancelled and has failed, and the model gets the reason"))]
    pub tool_timeout: Duration,
    /// The longest wait of a call for a resource that other calls use.
    #[schemars(extend("default" = "5m"))]
    #[schemars(extend("x-over" = "the call has failed, and the model gets the reason"))]
    pub lock_timeout: Duration,
    /// The time limit of a question of a running tool (elicitation) if its call keeps a resource from other
    /// calls. Other questions wait as long as calls do (expire).
    #[schemars(extend("default" = "5m"))]
    #[schemars(extend("x-over" = "the question is cancelled, the tool goes on without an answer, and the person and the model get the reason"))]
    pub elicit_timeout: Duration,
    /// More words that approve all calls which wait for approval, if a message is one of them. By default, such words of six languages,
    /// from yes to はい. An empty list turns this off: no message decides about calls.
    pub confirm_words: Option<Vec<String>>,
    /// More words that deny them.
    #[serde(default)]
    pub deny_words: Vec<String>,
    /// The number of calls of server and MCP tools that may run at the same time in this instance. Owners take turns. A call that waits for
    /// a person does not count.
    #[schemars(extend("x-over" = "the call waits for its turn"))]
    pub max_running_calls: Option<NonZeroUsize>,
    /// The number of requests that models may be answering at the same time for this instance: those of runs, summaries and
    /// embeddings. Owners take turns.
    #[schemars(extend("x-over" = "the run or the summary waits for its turn; memories are found by their words; 503 `unavailable` for a summary that a page has waited for too long"))]
    pub max_model_requests: Option<NonZeroUsize>,
    /// The number of calls of one chat that may wait for somebody at the same time.
    #[schemars(extend("default" = "128", "x-file-only" = true))]
    #[schemars(extend("x-over" = "the call has failed, and the model gets the reason"))]
    pub max_parked_calls: NonZeroUsize,
}

/// The limits of each owner.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct OwnerLimits {
    /// The number of runs and summaries that one owner may start by posts in a time at this instance, such as 60/min, 5/s or 1000/day.
    /// Answers to calls do not count. Default: 60/min, or no limit if auth is none.
    #[schemars(extend("x-default-with-auth" = "60/min", "x-over" = "429 `too_many_posts` with `retry-after`"))]
    pub posts_per_owner: Option<PostRate>,
    /// The number of runs of one owner that may be open, those that wait included. Default: 64, or no limit if auth is none.
    #[schemars(extend("x-default-with-auth" = "64", "x-over" = "429 `too_many_runs` with `retry-after`"))]
    pub runs_per_owner: Option<NonZeroUsize>,
    /// The number of calls of server and MCP tools that may run for one owner at the same time in this instance.
    #[schemars(extend("x-over" = "the call waits for its turn"))]
    pub running_calls_per_owner: Option<NonZeroUsize>,
    /// The number of requests of one owner that models may be answering at the same time for this instance: those of runs,
    /// summaries and embeddings.
    #[schemars(extend("x-over" = "as for `max_model_requests`"))]
    pub model_requests_per_owner: Option<NonZeroUsize>,
    /// The number of streams that one owner may read from this instance. Default: 256, or no limit if auth is none.
    #[schemars(extend("x-default-with-auth" = "256", "x-over" = "429 `too_many_readers` with `retry-after`"))]
    pub readers_per_owner: Option<NonZeroUsize>,
    /// The number of chats that one owner may keep. Default: 10000, or no limit if auth is none.
    #[schemars(extend("x-default-with-auth" = "10000"))]
    #[schemars(extend("x-over" = "a post that would make a chat gets 429 `too_many_chats` with `retry-after`; deleting one makes room at once"))]
    pub chats_per_owner: Option<NonZeroUsize>,
    /// The size of all chats of one owner: their messages as JSON. Default: 2GB, or no limit if auth is none.
    #[schemars(extend("x-default-with-auth" = "2GB"))]
    #[schemars(extend("x-over" = "a post that would add to a chat gets 429 `too_many_bytes` with `retry-after`; deleting makes room at once"))]
    pub bytes_per_owner: Option<Size>,
    /// The number of notes that one owner may keep.
    #[schemars(extend("default" = "5000"))]
    #[schemars(extend("x-over" = "the call of `write_note` has failed, and the model gets the reason"))]
    pub notes_per_owner: NonZeroUsize,
    /// The size of one note: its title and its body.
    #[schemars(extend("default" = "64KB"))]
    #[schemars(extend("x-over" = "the call of `write_note` has failed, and the model gets the reason"))]
    pub max_note: Size,
}

/// The limits of each chat and its runs.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ChatLimits {
    /// The size of one chat: its messages as JSON.
    #[schemars(extend("default" = "64MB"))]
    #[schemars(extend("x-over" = "413 `too_large` for a post or an answer; a run ends with `error` after the step that went over it, which is kept"))]
    pub max_chat: Size,
    /// The number of steps, or calls of the model, in one run.
    #[schemars(extend("default" = "20"))]
    #[schemars(extend("x-over" = "in the last step the model can call nothing and says what is done and what is left; `finish` has `messageMetadata.stopped`, `step_limit`"))]
    pub max_steps: NonZeroU32,
    /// The number of processes in a row that may end within seconds of resuming a run, before it gets on.
    #[schemars(extend("default" = "3"))]
    #[schemars(extend("x-over" = "the run ends with `error` when it is resumed, and its open calls are settled"))]
    pub max_attempts: NonZeroU32,
    /// The number of calls that the model may make in one step.
    #[schemars(extend("default" = "128", "x-file-only" = true))]
    #[schemars(extend("x-over" = "the first excess call has failed, those after it are left out, and the model gets the reason"))]
    pub max_calls_per_step: NonZeroUsize,
    /// The size of the arguments of one call, as the model makes them or a person edits them.
    #[schemars(extend("default" = "1MB", "x-file-only" = true))]
    #[schemars(extend("x-over" = "the call has failed, and the model gets the reason; 413 `too_large` for an edited input"))]
    pub max_arguments: Size,
    /// The number of JSON values in the arguments of one call: objects, lists, strings, numbers, true, false and null. Each takes
    /// a hundred times the memory of its text while it is checked.
    #[schemars(extend("default" = "20000", "x-file-only" = true))]
    #[schemars(extend("x-over" = "the call has failed, and the model gets the reason; 413 `too_large` for an edited input"))]
    pub max_argument_nodes: NonZeroUsize,
    /// The size of the model's output in one step: text, reasoning, arguments and files.
    #[schemars(extend("default" = "4MB", "x-file-only" = true, "x-over" = "the run ends with `error`"))]
    pub max_step_output: Size,
    /// The size of one tool output, as JSON.
    #[schemars(extend("default" = "1MB"))]
    #[schemars(extend("x-over" = "413 `too_large` for a page's output; a tool of the server has failed, and the model gets the reason"))]
    pub max_output: Size,
    /// The size of that part of a tool output that the model is shown.
    #[schemars(extend("default" = "400KB"))]
    #[schemars(extend("x-over" = "the middle of the output is cut out of the model's copy; clients are shown all of it"))]
    pub max_model_output: Size,
}

/// The limits of each request.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct RequestLimits {
    /// The size of a request body. The part of a history that the server has in its record does not count.
    #[schemars(extend("default" = "10MB", "x-over" = "413 `too_large`"))]
    pub max_body: Size,
    /// The number of JSON values in a request body, or in an output of a tool of the server or of an MCP server: objects, lists,
    /// strings, numbers, true, false and null.
    #[schemars(extend("default" = "200000", "x-file-only" = true))]
    #[schemars(extend("x-over" = "413 `too_large`; a tool of the server has failed, and the model gets the reason"))]
    pub max_json_nodes: NonZeroUsize,
    /// The depth to which objects and lists may be nested in a request body, up to 120.
    #[schemars(range(min = 1, max = DEEPEST_JSON), extend("default" = "100", "x-file-only" = true))]
    #[schemars(extend("x-over" = "422 `invalid_request`"))]
    pub max_json_depth: UpTo<DEEPEST_JSON>,
    /// The memory for all request bodies together that are being received or acted on. Each JSON value counts as 1 kB.
    #[schemars(extend("default" = "256MB"))]
    #[schemars(extend("x-over" = "the body waits for five seconds; then 503 `unavailable` with `retry-after`"))]
    pub max_body_memory: Size,
    /// The number of messages that a new chat may begin with.
    #[schemars(extend("default" = "2000", "x-over" = "413 `too_large`"))]
    pub max_messages: NonZeroUsize,
    /// The size of system, the instructions in a request.
    #[schemars(extend("default" = "256KB", "x-file-only" = true, "x-over" = "413 `too_large`"))]
    pub max_system: Size,
    /// The number of browser tools in a request.
    #[schemars(extend("default" = "128", "x-file-only" = true, "x-over" = "413 `too_large`"))]
    pub max_tools: NonZeroUsize,
    /// The size of all browser tools in a request: their names, descriptions and schemas.
    #[schemars(extend("default" = "1MB", "x-file-only" = true, "x-over" = "422 `invalid_request`"))]
    pub max_tools_size: Size,
    /// The number of patterns in the schemas of all browser tools in a request. Each may have 2,000 bytes and 64,000 states,
    /// and all of them 256,000 states.
    #[schemars(extend("default" = "200", "x-file-only" = true, "x-over" = "422 `invalid_request`"))]
    pub max_patterns: NonZeroUsize,
    /// The time limit for checking the inputs of a step's calls, or of an answer, against their schemas.
    #[schemars(extend("default" = "5s", "x-file-only" = true))]
    #[schemars(extend("x-over" = "the call has failed, and the model gets the reason; 422 `invalid_request` for an answer"))]
    pub check_timeout: Duration,
}

/// The limits of connections.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ConnectionSettings {
    /// The number of connections that may be open. By default, as many as the process's limit of open files allows, and never more.
    /// When all are taken, a new one replaces the one that has been idle for the longest; if none is idle, the stream that has
    /// waited for the longest ends cleanly to make room. Answers and health checks always get through.
    #[schemars(extend("x-over" = "the stream that has waited for the longest ends cleanly, and its calls wait on; if none waits, 503 `unavailable` with `retry-after`"))]
    pub max_connections: Option<NonZeroUsize>,
    /// The number of connections from one address; for IPv6, from one network of 64 bits. This machine and trusted_proxies
    /// have no limit.
    #[schemars(extend("default" = "1024"))]
    #[schemars(extend("x-over" = "429 `too_many_connections` with `retry-after`, except for answers and health checks"))]
    pub max_connections_per_address: NonZeroUsize,
    /// The time limit for the head of a request to arrive, and for an idle connection.
    #[schemars(extend("default" = "10s", "x-file-only" = true, "x-over" = "the connection is closed"))]
    pub header_timeout: Duration,
    /// The time limit for the body of a request to arrive.
    #[schemars(extend("default" = "30s", "x-over" = "408 `slow_request`"))]
    pub body_timeout: Duration,
    /// The time limit for a client that does not read its stream.
    #[schemars(extend("default" = "30s", "x-file-only" = true))]
    #[schemars(extend("x-over" = "the connection is closed; the run goes on and can be followed again"))]
    pub reader_timeout: Duration,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// An object in each line, for programs.
    Json,
}

/// The permission of a server without authentication to listen beyond this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InsecureBind {
    /// No.
    False,
    /// Yes.
    True,
    /// Only if the demo model answers and there are no MCP servers, so that a stranger costs nothing and reaches nothing.
    Demo,
}

/// The maximum of `max_json_depth`: what the JSON parser takes, less what Fermata's own objects add around a posted value.
const DEEPEST_JSON: usize = 120;

// === impl DatabaseSettings ===

impl DatabaseSettings {
    /// Opens the database for a command that uses it beside servers. Migrations are left to the server.
    ///
    /// # Errors
    /// Returns an error if the database cannot be opened.
    pub async fn open_for_command(&self) -> Result<Database, OpenError> {
        let audit_key = self.audit_key.clone().map(|key| key.0);
        let options = OpenOptions { migrate: false, connections: 1, audit_key };
        fermata_store::open(self.database_url.as_str(), &options).await
    }
}

// === impl ServerSettings ===

impl ServerSettings {
    /// Returns the address to listen on.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind.ip, self.bind.port.unwrap_or(self.port))
    }
}
