//! `fermata outbox`: the notices that are still to be sent, and those that were given up. It reads the database and sends nothing itself.

use std::fmt::Write as _;

use fermata_engine::store::{SavedNotice, StoreError};
use fermata_store::OpenError;
use jiff::Timestamp;

use crate::config::DatabaseSettings;

/// The number of notices that are listed.
const LISTED: usize = 100;

/// The reason why the outbox was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database has failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No notice with this id was given up.
    #[error("no notice with the id {0} was given up; fermata outbox lists those that were")]
    Unknown(String),
}

/// Returns a line for each notice, the newest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(settings: &DatabaseSettings) -> Result<String, OutboxError> {
    let database = settings.open_for_command().await?;
    let notices = database.store.notices(LISTED).await;
    database.close().await;
    let notices = notices?;
    let mut text: String = notices.iter().map(line).collect();
    if text.is_empty() {
        text += "the outbox is empty\n";
    }
    Ok(text)
}

/// Queues a notice that was given up, so that a server sends it, and returns a line about it.
///
/// # Errors
/// Returns an error if there is no such notice, or if the database fails.
pub async fn retry(settings: &DatabaseSettings, id: &str) -> Result<String, OutboxError> {
    let database = settings.open_for_command().await?;
    let is_open = database.store.retry_notice(id, Timestamp::now()).await;
    database.close().await;
    if is_open? { Ok(format!("{id} is queued again\n")) } else { Err(OutboxError::Unknown(id.to_owned())) }
}

fn line(saved: &SavedNotice) -> String {
    let SavedNotice { notice, attempts, next, given_up_at, error } = saved;
    let mut line = format!("{}  {}  {}  ", notice.id, notice.channel, notice.event.as_str());
    let _ = match (next, given_up_at) {
        (Some(next), _) => write!(line, "next attempt {next}"),
        (None, Some(at)) => write!(line, "given up {at}"),
        (None, None) => Ok(()),
    };
    let _ = write!(line, ", {attempts} attempts");
    if let Some(error) = error {
        // What an endpoint says is not a command for the terminal.
        let plain: String = error.chars().filter(|character| !character.is_control()).collect();
        let _ = write!(line, ": {plain}");
    }
    line + "\n"
}
