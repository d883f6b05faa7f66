//! The engine runs chats: it calls models, runs tools, waits for answers and keeps the log that readers follow.
//!
//! [`Engine`] is its interface. Inside, a run makes every decision without I/O, the chat's actor performs what the run has decided, and
//! every reader follows the run's log. Models and databases are reached through the ports [`Model`] and [`Store`].

mod active_run;
mod answer_batch;
pub mod assistants;
mod call_executor;
pub mod call_settings;
mod chat;
mod cluster;
pub mod consent;
mod content;
mod context;
mod deployment_clock;
mod embedder;
mod engine;
mod errors;
pub mod file_urls;
mod ids;
mod mailbox;
pub mod memories;
pub mod model;
mod model_metrics;
pub mod peer_transport;
pub mod plan;
mod position;
mod post;
pub mod preview;
mod prompt;
pub mod questions;
mod record;
mod request;
pub mod resolver;
mod router;
mod run;
mod run_log;
pub mod runner;
mod services;
mod settings;
mod step_collector;
pub mod store;
mod summarizer;
pub mod summary;
pub mod tokens;
mod version;
mod view;
mod zero_series;

pub use assistants::Assistants;
pub use deployment_clock::Clock;
pub use embedder::Embedder;
pub use engine::{Engine, EngineParts};
pub use errors::{AnswerError, CallError, ReadError, SubmitError, SummaryError, Unavailable};
pub use file_urls::FileUrls;
pub use ids::Ids;
pub use memories::MemoryService;
pub use model::Model;
pub use peer_transport::PeerTransport;
pub use request::{Following, Submission};
pub use resolver::{Resolver, SystemResolver};
pub use run_log::Reader;
pub use runner::{Runner, RunnerError};
pub use services::{DrainCounts, Rules};
pub use settings::{Hold, Limits, Settings};
pub use store::Store;
pub use version::version;
pub use view::{ChatPages, ChatView, Pending, SummaryView};
