//! Everything that survives the process, in SQL, and messages between instances, in Redis, which need not survive anything.
//!
//! [`open`] gives the engine's port [`Store`](fermata_engine::Store) on the database that a URL names, and [`Notes`], the notes of the
//! notes tools, beside it. This crate does not know what a run's state means, nor what any chunk says.
//!
//! One file per noun holds that noun's queries, for both databases (`queries`); they run on a `Connection`, which is one to either
//! database. Ids and times come from above. [`RedisTransport`] implements the engine's port
//! [`PeerTransport`](fermata_engine::PeerTransport) on Redis, and knows no SQL.

mod backend;
mod column;
mod connection;
mod database;
mod error;
mod guessing;
mod migrations;
mod notes;
mod opening;
mod postgres;
mod queries;
mod redis;
mod schema;
mod shared_clock;
mod sqlite;
mod store;
mod text;
mod vector;

pub use self::redis::{
    BadClusterKey, BadRedisUrl, ClusterKey, ConnectError, MailboxLimits, RedisTransport, seal,
};
pub use database::{Database, NoClusterKey, migrate, open};
pub use guessing::is_guessable;
pub use notes::{NotePage, Notes, WriteNoteError};
pub use opening::{OpenError, OpenOptions};
pub use queries::{audit::Decision, notes::Note};
pub use schema::Migrated;
pub use shared_clock::SharedClock;
pub use sqlite::backup::{BackupError, back_up, restore};
pub use store::SqlStore;
