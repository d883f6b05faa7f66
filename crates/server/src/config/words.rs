//! The settings and the keys of tables that are one of a few words.

use fermata_engine::assistants::ClientSystem;
use fermata_protocol::PlanMode;
use fermata_tools::{ApprovalMode, ChainMode, GateMode, MemoryWrites, RunBy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{assistants::Builtin, identity::AuthKind, value::Word};

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// An object in each line, for programs.
    Json,
}

impl Word for LogFormat {}
impl Word for AuthKind {}
impl Word for ApprovalMode {}
impl Word for GateMode {}
impl Word for ChainMode {}
impl Word for MemoryWrites {}
impl Word for RunBy {}
impl Word for ClientSystem {}
impl Word for Builtin {}
impl Word for PlanMode {}
