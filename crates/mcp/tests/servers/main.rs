//! Real servers, as programs and over HTTP: what a hub makes of them is what Fermata's users get.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod everything;
mod http;
mod programs;
mod world;
