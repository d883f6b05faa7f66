//! How an engine behaves, and what is too much for it. Fixed while it runs.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use fermata_protocol::Profile;

use serde_json::{Map, Value};

use crate::FileUrls;

/// How an engine behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For how long a run whose calls all wait keeps its readers, unless its request said otherwise.
    pub hold: Duration,
    /// After which time a call that waits for somebody is settled as expired.
    pub expire: Duration,
    /// Which profile a request is served in that does not name one.
    pub client: Profile,
    /// How long runs that are at work may go on when the server is shut down; those that wait end at once.
    pub drain: Duration,
    /// For how long chats are kept that nothing happens in; `None`: for ever.
    pub keep: Option<Duration>,
    /// For how long decisions about calls are kept on record; `None`: for ever.
    pub audit_keep: Option<Duration>,
    /// Whether a thread of its own says that this instance is alive, if others share the store. Without it, whatever keeps the threads of
    /// the program's runtime busy for long makes the instance look dead. For programs whose time is not the machine's, such as tests
    /// with paused time, which a thread of its own does not see.
    pub heartbeat_thread: bool,
    /// Which files by URL a model is handed.
    pub file_urls: FileUrls,
    /// What is too much.
    pub limits: Limits,
}

/// What is too much.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Model calls in one run.
    pub steps: u32,
    /// How often a run may be taken up to be worked on without getting on. The last of these take-ups ends it.
    pub attempts: u32,
    /// Messages in one post.
    pub messages: usize,
    /// Bytes of one chat: its messages, as JSON.
    pub chat_bytes: usize,
    /// Tools in one post.
    pub tools: usize,
    /// Bytes of the instructions in one post.
    pub system_bytes: usize,
    /// Tokens that one answer of the model may have, whatever a post asks for; `None`: as many as the post says.
    pub output_tokens: Option<NonZeroU32>,
    /// Bytes of all tools in one post: names, descriptions and schemas.
    pub tool_bytes: usize,
    /// Patterns in the schemas of all tools in one post.
    pub patterns: usize,
    /// Calls that a model may make in one step.
    pub calls_per_step: usize,
    /// Bytes of the arguments of one call, also of those that a person has edited.
    pub argument_bytes: usize,
    /// Bytes that a model may say in one step: text, reasoning, arguments and files.
    pub step_output_bytes: usize,
    /// How long the inputs of a step, or of an answer, may take to be checked against their schemas.
    pub check_timeout: Duration,
    /// Bytes of one output, as JSON.
    pub output_bytes: usize,
    /// Calls of one chat that may wait for somebody at a time.
    pub parked_calls: usize,
    /// Runs that one owner may have open; `None`: no limit.
    pub runs_per_owner: Option<NonZeroUsize>,
    /// Chats that one owner may keep; `None`: no limit.
    pub chats_per_owner: Option<NonZeroUsize>,
    /// Bytes of the messages in all chats of one owner, as JSON; `None`: no limit.
    pub bytes_per_owner: Option<usize>,
    /// Bytes of one output that a model is told; what is over is cut out, and the model told how much.
    pub model_output_bytes: usize,
    /// How long a model may be silent.
    pub model_timeout: Duration,
    /// How long a model may take for one step, however much it says.
    pub model_call_timeout: Duration,
    /// How long a call of a server's tool may run, unless the tool or the rules say otherwise.
    pub tool_timeout: Duration,
    /// How long a call may wait for its resource.
    pub lock_timeout: Duration,
    /// How long a question of a tool may wait for its answer while the tool's call keeps others from a resource.
    pub elicit_timeout: Duration,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            hold: Duration::from_secs(5 * 60),
            expire: Duration::from_secs(24 * 3600),
            client: Profile::V6,
            drain: Duration::from_secs(10),
            keep: None,
            audit_keep: None,
            heartbeat_thread: true,
            file_urls: FileUrls::default(),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 20,
            attempts: 3,
            messages: 2000,
            chat_bytes: 64_000_000,
            tools: 128,
            system_bytes: 256_000,
            output_tokens: None,
            tool_bytes: 1_000_000,
            patterns: 200,
            calls_per_step: 128,
            argument_bytes: 1_000_000,
            step_output_bytes: 4_000_000,
            check_timeout: Duration::from_secs(5),
            output_bytes: 1_000_000,
            parked_calls: 128,
            runs_per_owner: None,
            chats_per_owner: None,
            bytes_per_owner: None,
            model_output_bytes: 400_000,
            model_timeout: Duration::from_secs(2 * 60),
            model_call_timeout: Duration::from_secs(15 * 60),
            tool_timeout: Duration::from_secs(60),
            lock_timeout: Duration::from_secs(5 * 60),
            elicit_timeout: Duration::from_secs(5 * 60),
        }
    }
}

// === impl Limits ===

impl Limits {
    /// A post's call settings, with no more tokens than an answer may have. A post that names no number gets the limit.
    pub(crate) fn capped(&self, call_settings: &Map<String, Value>) -> Map<String, Value> {
        let mut capped = call_settings.clone();
        let Some(limit) = self.output_tokens.map(|limit| u64::from(limit.get())) else { return capped };
        let asked =
            ["maxOutputTokens", "maxTokens"].into_iter().filter_map(|name| capped.remove(name)?.as_u64());
        let tokens = asked.min().map_or(limit, |asked| asked.min(limit));
        capped.insert("maxOutputTokens".to_owned(), tokens.into());
        capped
    }
}
