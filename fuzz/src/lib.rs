//! One function for each kind of input that somebody else writes. Each takes any bytes, must not panic, and checks what has to hold
//! whatever the bytes are.
//!
//! The programs in `fuzz_targets/` call them under cargo-fuzz; `tests/seeds.rs` calls them with the files of `seeds/` and with random
//! changes to these, wherever the tests run.

mod json;
mod mcp;
mod policies;
mod sealed_messages;
mod streams;

pub use json::{messages, partial_json, request_bodies, schemas};
pub use mcp::{mcp_output, mcp_responses};
pub use policies::policies;
pub use sealed_messages::sealed_messages;
pub use streams::provider_streams;

/// A target's name, and the function that it is.
pub type Target = (&'static str, fn(&[u8]));

/// All of them. The names are those of the programs and of the folders with seeds.
pub const TARGETS: &[Target] = &[
    ("request_bodies", request_bodies),
    ("messages", messages),
    ("schemas", schemas),
    ("partial_json", partial_json),
    ("provider_streams", provider_streams),
    ("mcp_output", mcp_output),
    ("mcp_responses", mcp_responses),
    ("policies", policies),
    ("sealed_messages", sealed_messages),
];
