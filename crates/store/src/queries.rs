//! The queries of both databases, one file per noun.
//!
//! Each query is written once, in the SQL that SQLite and PostgreSQL share: `$1` parameters, `on conflict`, row values, 64-bit integers.
//! The few statements that cannot be shared stand side by side in the function that needs them, or in the module of their database.

pub mod approvals;
pub mod audit;
pub mod calls;
pub mod changes;
pub mod channel_records;
pub mod chats;
pub mod clock_marks;
pub mod cluster_keys;
pub mod confirmations;
pub mod deleted_chats;
pub mod evidence;
pub mod instances;
pub mod locks;
pub mod memories;
pub mod memory_vectors;
pub mod messages;
pub mod notes;
pub mod outbox;
pub mod owners;
pub mod plans;
pub mod runs;
pub mod summaries;
