//! The audit as evidence: checkpoints of its chains, their copies outside of the database, and the commands `fermata audit`.
//!
//! How chains are hashed and verified is the store's matter. Here are the files and the clock.

pub mod checkpoints;
pub mod export;
mod lines;
pub mod verify;

use fermata_store::OpenOptions;

use crate::config::DatabaseSettings;

/// Returns the options for a command that uses the database beside servers.
pub(crate) fn options_of_command(settings: &DatabaseSettings) -> OpenOptions {
    OpenOptions { migrate: false, connections: 1, audit_key: settings.audit_key.clone().map(|key| key.0) }
}
