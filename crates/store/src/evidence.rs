//! The audit as evidence: how rows are hashed, what is signed, and how both are verified.
//!
//! This is the code for docs/guide/evidence.md, with which an auditor can compute each hash again. It reads no database and no file, so
//! that a database and an exported file are verified alike.

mod finding;
mod key;
mod row;
mod statements;
mod verifier;

pub use finding::{Fault, Finding, Witness};
pub use key::{AuditKey, KeyError, PublicKey};
pub use row::{AuditRow, HashedRow};
pub use statements::{Checkpoint, Cut};
pub use verifier::{Bounds, Report, Verifier};
