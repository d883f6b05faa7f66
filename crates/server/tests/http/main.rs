//! Fermata through its router, with a scripted model behind it; where the socket matters, through a socket.

mod answers;
mod app;
mod auth;
mod chat;
mod commands;
mod demo;
mod ending;
mod grants;
mod headers;
mod jwt;
mod limits;
mod malformed;
mod operators;
mod policies;
mod policy_dry_run;
mod proxied;
mod record;
mod scripted;
mod settings;
mod signals;
mod stream;

use app::{Answer, TestApp};
