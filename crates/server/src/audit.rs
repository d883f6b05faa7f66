//! The audit as evidence: checkpoints of its chains, their copies outside of the database, and the commands `fermata audit`.
//!
//! How chains are hashed and verified is the store's matter. Here are the files and the clock.

pub mod checkpoints;
pub mod export;
mod lines;
pub mod verify;
