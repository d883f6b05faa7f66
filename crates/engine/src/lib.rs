//! What happens next in a chat.
//!
//! [`Engine`] is the whole of it from outside. Inside, a run decides without I/O, one driver per chat does what it
//! says, and a run's log is what every reader follows. Models and databases are met as the ports [`Model`] and [`Store`].

mod chats;
mod content;
mod deployment_clock;
mod driver;
mod engine;
pub mod file_urls;
mod instances;
pub mod mail;
pub mod model;
mod post;
mod prompt;
mod run;
mod run_log;
pub mod runner;
pub mod store;

pub use engine::{
    AnswerError, ChatPages, ChatView, Clock, Engine, EngineParts, Following, GrantedTool, Ids, Limits,
    Pending, ReadError, Rules, Settings, Submission, SubmitError,
};
pub use file_urls::FileUrls;
pub use mail::Mail;
pub use model::Model;
pub use run_log::Reader;
pub use runner::{Runner, RunnerError};
pub use store::Store;
