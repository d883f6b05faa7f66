//! What more than one test binary needs of a world: time that stands still, ids that are counted, a store that can be told to fail, and what
//! a strict provider expects.

#![allow(clippy::unwrap_used, reason = "a test ends where its world is not as it must be")]

mod paired;
pub mod shaky;
mod time;

pub use paired::assert_paired;
pub use shaky::Shaky;
pub use time::{Counting, Paused};
