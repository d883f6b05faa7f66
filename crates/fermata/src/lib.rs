//! Fermata for Rust programs.
//!
//! - [`Runner`] is the loop of a model and its tools, without HTTP and without a database.
//! - [`App`] is the whole chat server. [`router`] mounts it in an Axum app.
//!
//! ```
//! use fermata::{App, config::Config, router};
//!
//! # async fn example() -> anyhow::Result<()> {
//! let config = Config::from_environment(&|name| std::env::var(name).ok())?;
//! let fermata = App::builder(&config).build().await?;
//! let app: axum::Router = axum::Router::new().nest("/assistant", router(fermata));
//! # Ok(())
//! # }
//! ```

#[cfg(all(doctest, feature = "server"))]
#[doc = include_str!("../README.md")]
struct ReadMe;

pub use fermata_engine::{Hold, Runner, RunnerError, model, runner};
pub use fermata_providers::{Demo, Provider, build as build_model, demo, openai};
#[cfg(feature = "server")]
pub use fermata_server::{App, AppBuilder, BuildError, config, router, site};
pub use fermata_tools as tools;
