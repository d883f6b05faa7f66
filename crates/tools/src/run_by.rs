//! The kind of party that runs a call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of party that runs a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunBy {
    /// This server's process.
    Server,
    /// An MCP server.
    Mcp,
    /// The page that posted the tool.
    Browser,
}

// === impl RunBy ===

impl RunBy {
    /// Returns the name that rules, the wire and the database use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Mcp => "mcp",
            Self::Browser => "browser",
        }
    }
}
