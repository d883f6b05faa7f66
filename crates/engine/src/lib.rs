//! The engine runs chats: it calls models, runs tools, waits for answers and keeps the log that readers follow.
//!
//! [`Engine`] is its interface. Inside, a run makes every decision without I/O, the chat's actor performs the run's decisions, and
//! every reader follows the run's log. Models and databases are reached through the ports [`Model`] and [`Store`].

mod active_run;
mod api;
pub mod assistants;
mod chat;
mod cluster;
pub mod consent;
mod context;
mod deployment_clock;
mod engine;
pub mod memories;
pub mod model;
mod ports;
mod post;
mod prompt;
mod record;
mod refused;
mod router;
mod run;
mod run_log;
mod run_tools;
pub mod runner;
mod services;
mod settings;
mod step;
mod summarizer;

pub use api::{
    approval::{Approval, ApprovalFilter, ApprovalPage, ChatOfApproval, Deciding},
    errors::{
        AnswerError, CallError, DeleteMessageError, PlanError, ReadError, SubmitError, SummaryError,
        Unavailable, VoteError,
    },
    request::{Following, Submission},
    view::{ChatPages, ChatView, InputPreview, Pending, SummaryView},
};
pub use assistants::{Assistants, call_settings};
pub use context::summary;
pub use deployment_clock::Clock;
pub use engine::{Engine, EngineParts, preview, version::version};
pub use memories::MemoryService;
pub use model::{
    Model,
    embedder::Embedder,
    file_urls::{self, FileUrls},
    media_types, tokens,
};
pub use ports::{
    ids::Ids,
    peer_transport::{self, PeerTransport},
    resolver::{self, Resolver, SystemResolver},
    store::{self, ApprovalState, Settled, Store},
    traces::{self as trace, Traces},
};
pub use run_log::Reader;
pub use run_tools::{plan, questions};
pub use runner::{Runner, RunnerError};
pub use services::{DrainCounts, NoticeRoutes, RequesterNotice, Rules};
pub use settings::{Hold, Limits, Settings};
