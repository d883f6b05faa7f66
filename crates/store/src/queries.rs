//! The queries of both databases, a file per noun.
//!
//! These files are compiled once for each database, inside of its module, which says what a connection is; that way the compiler checks
//! every query's values against both. They use what both databases share: `$1`, `on conflict`, row values, 64-bit integers. What
//! differs stands in the module of the database and not here.

use super::{Connection, Db, MIGRATIONS, SEARCH_NOTES, TABLE_EXISTS};

pub mod audit;
pub mod calls;
pub mod changes;
pub mod chats;
pub mod clock_marks;
pub mod cluster_keys;
pub mod confirmations;
pub mod instances;
pub mod locks;
pub mod messages;
pub mod note_rows;
pub mod owners;
pub mod runs;
pub mod schema;
