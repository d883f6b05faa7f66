//! Fermata over HTTP.
//!
//! This crate reads settings and requests, identifies owners, and turns the engine's results into responses. The events of a chat are
//! decided by the engine. The binary `fermata` serves [`site`]; a Rust program may mount [`router`] beside its own routes.

mod app;
mod assistants;
pub mod audit;
mod auth;
pub mod backup;
mod channels;
mod client;
pub mod config;
mod demo;
pub mod drain;
mod error;
mod extract;
pub mod first_start;
pub mod health;
mod hex;
mod ids;
mod markdown;
pub mod mcp_check;
mod metrics;
pub mod migrate;
pub mod outbox;
mod owner;
pub mod personal_data;
pub mod policy_dry_run;
pub mod posts;
pub mod prompt_preview;
mod quote;
pub mod readers;
pub mod reload;
mod request_id;
mod routes;
pub mod running;
pub mod serve;
pub mod sockets;
pub mod sse;
pub mod telemetry;
mod tools;

pub use app::{App, AppBuilder, BuildError};
pub use client::TrustedProxies;
pub use demo::Demo;
pub use error::ApiError;
pub use ids::{RandomIds, SystemClock};
pub use routes::{operators_site, router, site, when_full};
pub use tools::warnings_of_fallbacks;
