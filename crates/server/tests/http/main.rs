//! Tests of Fermata through its router, or through a socket if that matters, with a scripted model.

mod answers;
mod app;
mod assistants;
mod audit;
mod auth;
mod chat;
mod codes;
mod commands;
mod connections;
mod consent;
mod database;
mod demo;
mod ending;
mod evidence;
mod grants;
mod headers;
mod jwt;
mod limits;
mod logging;
mod malformed;
mod memories;
mod metrics;
mod operators;
mod policies;
mod policy_dry_run;
mod proxied;
mod reading;
mod record;
mod reference;
mod scripted;
mod settings;
mod signals;
mod stream;

use app::{Answer, TestApp};
