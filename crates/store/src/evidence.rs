//! The audit as evidence: what a row says, and how it is hashed.
//!
//! This is the code for docs/guide/evidence.md, with which an auditor can compute each hash again. It reads no database and no file.

mod row;

pub use row::AuditRow;
