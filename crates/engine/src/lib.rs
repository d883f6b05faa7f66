//! What happens next in a chat.
//!
//! [`Engine`] is the whole of it from outside. Inside, a run decides without I/O, one driver per chat does what it
//! says, and a run's log is what every reader follows. Models and databases are met as the ports [`Model`] and [`Store`].

mod call_executor;
mod chats;
mod content;
mod deployment_clock;
mod driver;
mod engine;
mod errors;
pub mod file_urls;
mod ids;
mod instances;
pub mod mail;
pub mod model;
mod open_runs;
mod post;
mod prompt;
mod request;
mod rules;
mod run;
mod run_log;
pub mod runner;
mod settings;
mod step_collector;
pub mod store;
mod view;

pub use deployment_clock::Clock;
pub use engine::{Engine, EngineParts};
pub use errors::{AnswerError, ReadError, SubmitError, Unavailable};
pub use file_urls::FileUrls;
pub use ids::Ids;
pub use mail::Mail;
pub use model::Model;
pub use request::{Following, Submission};
pub use rules::Rules;
pub use run_log::Reader;
pub use runner::{Runner, RunnerError};
pub use settings::{Limits, Settings};
pub use store::Store;
pub use view::{ChatPages, ChatView, GrantedTool, Pending};
