//! Tests with real servers, which run as programs and over HTTP.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod everything;
mod forms;
mod http;
mod programs;
mod world;
