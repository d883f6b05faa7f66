//! The paths that each delta, call and commit of the server takes, with fixed inputs: `benches/hot_paths.rs` times them, and the program of
//! this crate counts their instructions.
//!
//! Each path runs on one thread, and on that of the store if it has one. Nothing goes over a network.

mod decoding;
mod encoding;
mod saving;
mod turns;

use std::fmt;

use anyhow::Result;

/// A path with a fixed input.
pub struct HotPath {
    /// The name of the path.
    pub name: &'static str,
    /// The name of what is counted.
    pub item: &'static str,
    /// The number of items in a round.
    pub items: usize,
    prepare: fn(usize) -> Result<Round>,
}

/// Goes down a path once, with all items of the round. It can be called again.
pub type Round = Box<dyn FnMut()>;

/// All paths.
pub const ALL: [&HotPath; 9] = [
    &HotPath { name: "decode", item: "delta", items: 1_000, prepare: decoding::answer },
    &HotPath { name: "parse", item: "delta", items: 1_000, prepare: decoding::changing_answer },
    &HotPath { name: "fold", item: "delta", items: 1_000, prepare: encoding::fold },
    &HotPath { name: "encode", item: "delta", items: 1_000, prepare: encoding::encode },
    &HotPath { name: "log", item: "delta", items: 1_000, prepare: turns::long_answer },
    &HotPath { name: "turn", item: "turn", items: 50, prepare: turns::short_answers },
    &HotPath { name: "step", item: "call", items: 20, prepare: turns::step_of_calls },
    &HotPath { name: "commit", item: "commit", items: 100, prepare: saving::commits },
    &HotPath { name: "answer", item: "commit", items: 100, prepare: saving::answers },
];

// === impl HotPath ===

impl HotPath {
    /// Prepares the input of a round.
    ///
    /// # Errors
    /// If the system gives no runtime, no files or no certificates.
    pub fn prepare(&self) -> Result<Round> {
        (self.prepare)(self.items)
    }
}

impl fmt::Display for HotPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} x {})", self.name, self.items, self.item)
    }
}
