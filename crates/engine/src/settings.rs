//! The settings and limits of an engine, which are fixed while it runs.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use fermata_protocol::Profile;
use serde::{Deserialize, Serialize};

use crate::model::file_urls::FileUrls;

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hold of a run whose calls all wait, unless its request sets another.
    pub hold: Hold,
    /// A call that waits for an answer is settled as expired after this time.
    pub expire: Duration,
    /// The profile of requests that do not name one.
    pub client: Profile,
    /// The time that runs at work get when the server shuts down; those that wait end at once.
    pub drain: Duration,
    /// The retention of idle chats; `None` keeps them for ever.
    pub keep: Option<Duration>,
    /// The retention of decisions about calls; `None` keeps them for ever.
    pub audit_keep: Option<Duration>,
    /// If `true`, this instance sends its heartbeats from a thread of its own if others share the store. Without the thread, the instance's
    /// lease may expire when the threads of the program's runtime are busy for long. `false` is for programs whose time is not the
    /// machine's, such as tests with paused time, because a thread of its own does not see their time.
    pub heartbeat_thread: bool,
    /// The files that a model gets by URL.
    pub file_urls: FileUrls,
    /// If `true`, clients are shown why a model failed, with the provider's URL and text. That is for a developer alone at their machine:
    /// such a text may tell others about the operator's account.
    pub shows_model_errors: bool,
    /// The share of a model's context above which a history is fitted.
    pub compact_at: f64,
    /// The number of messages at the end of a chat that are not summarized before the model's window fills up.
    pub keep_recent: usize,
    /// A summary is written once there are this many earlier messages without one.
    pub summary_every: usize,
    /// The time that a chat is quiet before a model looks for facts about the user in its new messages.
    pub memory_after: Duration,
    /// The limits of the engine.
    pub limits: Limits,
}

/// The time that a run whose calls all wait keeps its readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// [`Hold::AUTO`] for clients that know Fermata, and for curl. Stock pages are held for [`Hold::TRIAL`] until one of their owner's has shown
    /// how it answers, and then for [`Hold::AUTO`] or not at all.
    #[default]
    Auto,
    /// This time.
    For(Duration),
}

/// The time that a run that waits keeps its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunHold {
    /// This long.
    For(Duration),
    /// For [`Hold::TRIAL`]: a stock page reads, and nobody knows yet how it answers. An answer in that time shows it.
    Trial,
}

/// The limits of an engine.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Model calls in one run.
    pub steps: u32,
    /// The number of times that a run may be resumed to be worked on without making progress. The last of these resumptions ends it.
    pub attempts: u32,
    /// Messages in one post.
    pub messages: usize,
    /// Bytes of the messages of one chat, as JSON.
    pub chat_bytes: usize,
    /// Tools in one post.
    pub tools: usize,
    /// Bytes of the instructions in one post.
    pub system_bytes: usize,
    /// Tokens that one answer of the model may have, even if a post asks for more; `None`: as many as the post asks for.
    pub output_tokens: Option<NonZeroU32>,
    /// Bytes of the names, descriptions and schemas of all tools in one post.
    pub tool_bytes: usize,
    /// Patterns in the schemas of all tools in one post.
    pub patterns: usize,
    /// Calls that a model may make in one step.
    pub calls_per_step: usize,
    /// Bytes of the arguments of one call. Edited arguments have the same limit.
    pub argument_bytes: usize,
    /// JSON values in the arguments of one call, edited ones included. Each takes a hundred times the memory of its text
    /// while it is checked.
    pub argument_nodes: usize,
    /// Bytes that a model may say in one step: text, reasoning, arguments and files.
    pub step_output_bytes: usize,
    /// The time that checking the inputs of a step, or of an answer, against their schemas may take.
    pub check_timeout: Duration,
    /// Bytes of one output, as JSON.
    pub output_bytes: usize,
    /// JSON values in one output of a tool of the server.
    pub output_nodes: usize,
    /// Calls of one chat that may wait for an answer at a time.
    pub parked_calls: usize,
    /// Runs that one owner may have open; `None`: no limit.
    pub runs_per_owner: Option<NonZeroUsize>,
    /// Calls of server tools that may run at a time; `None`: no limit.
    pub running_calls: Option<NonZeroUsize>,
    /// Calls of server tools that may run for one owner at a time; `None`: no limit.
    pub running_calls_per_owner: Option<NonZeroUsize>,
    /// Chats that one owner may keep; `None`: no limit.
    pub chats_per_owner: Option<NonZeroUsize>,
    /// Bytes of the messages in all chats of one owner, as JSON; `None`: no limit.
    pub bytes_per_owner: Option<usize>,
    /// Bytes of text of one output that a model gets; the middle of a longer one is left out, and a note says how much that was.
    pub model_output_bytes: usize,
    /// The longest silence of a model.
    pub model_timeout: Duration,
    /// The time that a model may take for one step, even if it is never silent.
    pub model_call_timeout: Duration,
    /// The time limit of a call of a server's tool, unless the tool or the rules set another.
    pub tool_timeout: Duration,
    /// The longest wait of a call for its resource.
    pub lock_timeout: Duration,
    /// The longest wait of a tool's question for its answer while the tool's call keeps other calls from a resource.
    pub elicit_timeout: Duration,
}

// === impl Hold ===

impl Hold {
    /// The time that [`Hold::Auto`] holds the streams of clients that follow the same stream after an answer.
    pub const AUTO: Duration = Duration::from_secs(5 * 60);
    /// The time that [`Hold::Auto`] holds the streams of stock pages until one has shown how it answers.
    pub const TRIAL: Duration = Duration::from_secs(15);
}

// === impl RunHold ===

impl RunHold {
    pub const ZERO: Self = Self::For(Duration::ZERO);

    pub fn duration(self) -> Duration {
        match self {
            Self::For(hold) => hold,
            Self::Trial => Hold::TRIAL,
        }
    }
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            hold: Hold::Auto,
            expire: Duration::from_secs(24 * 3600),
            client: Profile::V6,
            drain: Duration::from_secs(60),
            keep: None,
            audit_keep: None,
            heartbeat_thread: true,
            file_urls: FileUrls::default(),
            shows_model_errors: false,
            compact_at: 0.8,
            keep_recent: 20,
            summary_every: 10,
            memory_after: Duration::from_secs(60),
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
            argument_nodes: 20_000,
            step_output_bytes: 4_000_000,
            check_timeout: Duration::from_secs(5),
            output_bytes: 1_000_000,
            output_nodes: 200_000,
            parked_calls: 128,
            runs_per_owner: None,
            running_calls: None,
            running_calls_per_owner: None,
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
