//! The wire, the fold and the bodies, without any client; what clients make of it is in `real_clients.rs`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod folding;
mod requests;
mod wire;
