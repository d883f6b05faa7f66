//! Tools of other programs: Fermata as a client of MCP servers.
//!
//! A [`Hub`] keeps a connection to each configured server, lists its tools as [`fermata_tools::Tool`]s and starts
//! it again when it ends. This crate does not know models, messages, HTTP routes or SQL, nor who may use a tool:
//! policies see its tools like any other.
//!
//! Invariants: a server that fails takes nothing down but its own open calls · what a server asks is put to the
//! person whose call it belongs to, or to nobody · no secret of the configuration is logged or told to a model ·
//! nothing that a hub started outlives it.

mod calls;
mod client;
mod config;
mod failure;
mod http;
mod hub;
mod line_monitor;
mod link;
mod listing;
mod names;
mod program;
mod server;
mod sessions;
mod supervisor;
mod tool;

pub use config::{Processes, ServerConfig, Transport};
pub use hub::Hub;
