//! The OpenAI-compatible model against a server on a real socket.

#![expect(clippy::unwrap_used, reason = "a test's server may panic as a test may")]

mod faults;
mod oddities;
mod server;
mod traffic;
