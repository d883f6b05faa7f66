//! The chats that their owners have deleted: a hash of each, so that a page does not bring one back.

use fermata_protocol::ChatId;
use fermata_tools::{Owner, sha256};
use jiff::{SignedDuration, Timestamp};

use crate::{column::time, connection::Connection, error::Fault};

/// The time that a deleted chat is known.
const KNOWN: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Notes that a chat was deleted, and forgets those of long ago.
pub async fn add(
    connection: &mut Connection<'_>,
    owner: &Owner,
    chat: &ChatId,
    at: Timestamp,
) -> Result<(), Fault> {
    connection
        .query("delete from deleted_chats where deleted_at < $1")
        .bind(time(at.saturating_sub(KNOWN).unwrap_or(at)))
        .execute()
        .await?;
    connection
        .query(
            "insert into deleted_chats (hash, deleted_at) values ($1, $2)
             on conflict (hash) do update set deleted_at = excluded.deleted_at",
        )
        .bind(hash(owner, chat))
        .bind(time(at))
        .execute()
        .await
}

/// Returns whether the owner has deleted a chat with this id.
pub async fn has(connection: &mut Connection<'_>, owner: &Owner, chat: &ChatId) -> Result<bool, Fault> {
    let found: Option<(String,)> = connection
        .query("select hash from deleted_chats where hash = $1")
        .bind(hash(owner, chat))
        .fetch_optional()
        .await?;
    Ok(found.is_some())
}

fn hash(owner: &Owner, chat: &ChatId) -> String {
    let text = format!("{}\0{}", owner.as_str(), chat.as_str());
    sha256(text.as_bytes())
}
