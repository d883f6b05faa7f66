//! What survives the process, in SQL.
//!
//! [`SqliteStore`] implements the engine's port [`Store`](fermata_engine::Store) on SQLite, and [`Notes`] keeps the notes
//! of the notes tools beside it. This crate does not know what a run's state means, nor what any chunk says.
//!
//! One file per noun holds that noun's queries. They use `$1`, `on conflict` and row values, which PostgreSQL shares; ids
//! and times come from above.

mod calls;
mod chats;
mod column;
mod confirmations;
mod error;
mod messages;
mod notes;
mod open;
mod runs;
mod sqlite;

pub use notes::{Note, Notes};
pub use open::OpenError;
pub use sqlite::SqliteStore;
