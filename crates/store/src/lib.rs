//! Everything that survives the process, in SQL.
//!
//! [`open`] gives the engine's port [`Store`](fermata_engine::Store) on the database that a URL names. Beside it there are [`Notes`], the
//! notes of the notes tools, and [`ChannelRecords`], which channels keep. This crate does not know what a run's state means, nor what any
//! chunk says.
//!
//! One file per noun holds that noun's queries, for both databases (`queries`); they run on a `Connection`, which is one to either
//! database. Ids and times come from above.

mod backend;
mod chain;
mod channel_records;
mod column;
mod connection;
mod database;
mod error;
mod evidence;
mod migrations;
mod notes;
mod opening;
mod postgres;
mod queries;
mod schema;
mod shared_clock;
mod sqlite;
mod store;
mod text;
mod vector;

pub use channel_records::ChannelRecords;
pub use database::{Checkpointed, Database, migrate, open};
pub use evidence::{
    AuditKey, AuditRow, Bounds, Checkpoint, Cut, Fault, Finding, HashedRow, KeyError, PublicKey, Report,
    Verifier, Witness,
};
pub use notes::{NotePage, Notes, WriteNoteError};
pub use opening::{OpenError, OpenOptions};
pub use postgres::pool::Connections;
pub use queries::{
    audit::Decision,
    channel_records::{MailLink, PushDevice, SentMessage},
    evidence::AuditPage,
    notes::Note,
};
pub use schema::Migrated;
pub use shared_clock::SharedClock;
pub use sqlite::{
    backup::{BackupError, back_up, restore},
    lock::{DatabaseLock, LockError, lock},
    open::file_of,
};
pub use store::SqlStore;
