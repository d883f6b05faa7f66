//! Fermata over HTTP.
//!
//! What a chat is and what happens in it is the engine's; this crate reads settings and requests, says who is asking, and
//! turns outcomes into responses. The binary `fermata` serves [`site`]; a Rust program may mount
//! [`router`] beside its own routes.

pub mod app;
pub mod auth;
pub mod client;
pub mod config;
pub mod demo;
pub mod error;
pub mod extract;
pub mod health;
pub mod ids;
pub mod metrics;
pub mod migrate;
pub mod policy_test;
pub mod readers;
pub mod reload;
pub mod routes;
pub mod serve;
pub mod sse;
pub mod tools;

pub use app::App;
pub use demo::Demo;
pub use routes::{operators_site, router, site};
