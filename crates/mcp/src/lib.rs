//! A client of MCP servers, which makes their tools available to models.
//!
//! A [`Hub`] keeps a connection to each configured server, lists the server's tools as [`fermata_tools::Tool`]s, and
//! reconnects when a connection is lost. This crate does not know models, messages, HTTP routes or SQL. It does not decide
//! who may use a tool either: policies treat its tools like all others.
//!
//! Invariants: a server that fails affects only its own open calls · an elicitation of a server is shown only to the person
//! whose call it belongs to, and to no one if that is not certain · no secret of the configuration is logged or sent to a
//! model · no process, task or connection of a hub outlives it.

mod calls;
mod client;
mod config;
mod failure;
mod http;
mod hub;
mod lenient;
mod lines;
mod link;
mod listing;
mod metadata;
mod names;
mod program;
mod repair;
mod server;
mod servers;
mod session;
mod sessions;
mod supervisor;
mod tool;
mod transport;

pub use config::{Processes, Protocol, ServerConfig, Transport};
pub use hub::{Hub, ServerState, ServerStatus};

/// The readers of what servers send, for the fuzz tests.
#[doc(hidden)]
pub mod readers {
    use rmcp::model::RequestId;
    use serde_json::Value;
    use tokio::io::AsyncRead;

    use crate::{lenient, lines::MessageLines};

    /// Reads the messages in a response to the request with this id.
    pub fn read_response(body: &[u8], id: i64) -> Vec<Value> {
        let messages = lenient::read_messages(body, Some(&RequestId::Number(id)));
        messages.iter().filter_map(|message| serde_json::to_value(message).ok()).collect()
    }

    /// Returns the output of a program with nothing in it but messages.
    pub fn message_lines(output: impl AsyncRead + Unpin) -> impl AsyncRead {
        MessageLines::new(output)
    }
}
