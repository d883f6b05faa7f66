//! Parts of several test binaries: a clock and ids that are deterministic, a store that fails on demand, and the rules of a strict
//! model provider.

#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod faulty_memories;
pub mod faulty_store;
mod paired;
mod time;

pub use faulty_store::FaultyStore;
pub use paired::assert_paired;
pub use time::{CountingIds, TestClock};
