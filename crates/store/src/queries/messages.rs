//! The messages of a chat, in order. Positions have no gaps: messages are added and dropped at the end, and those after one that is deleted
//! move up.

pub mod elsewhere;

use std::ops::Range;

use fermata_engine::store::{Files, MessageOutline, page::title};
use fermata_protocol::{ChatId, MessageId, Role, UiMessage};

use crate::{
    column::{count, name},
    connection::Connection,
    error::Fault,
    text::{Text, text},
};

pub async fn put(connection: &mut Connection<'_>, chat: &ChatId, message: &UiMessage) -> Result<(), Fault> {
    let stored = elsewhere::store(connection, chat, message).await?;
    connection
        .query(
            "insert into messages (chat_id, position, id, role, title, body, elsewhere, bytes_elsewhere)
             values ($1, (select coalesce(max(position) + 1, 0) from messages where chat_id = $1),
                $2, $3, $4, $5, $6, $7)
             on conflict (chat_id, id) do update
             set role = excluded.role, title = excluded.title, body = excluded.body,
                elsewhere = excluded.elsewhere, bytes_elsewhere = excluded.bytes_elsewhere",
        )
        .bind(chat.as_str())
        .bind(text(message.id.as_str()))
        .bind(name(&message.role)?)
        .bind(title(message).as_deref().map(text))
        .bind(stored.body)
        .bind(stored.elsewhere)
        .bind(count(stored.bytes_elsewhere))
        .execute()
        .await?;
    Ok(())
}

pub async fn truncate(connection: &mut Connection<'_>, chat: &ChatId, keep: usize) -> Result<(), Fault> {
    connection
        .query("delete from messages where chat_id = $1 and position >= $2")
        .bind(chat.as_str())
        .bind(count(keep))
        .execute()
        .await?;
    elsewhere::drop_files(connection, chat).await
}

/// Deletes the message at a position.
pub async fn delete(connection: &mut Connection<'_>, chat: &ChatId, position: usize) -> Result<(), Fault> {
    // No two messages have the same position, not even while they move, so they take places that no message has.
    for change in [
        "delete from messages where chat_id = $1 and position = $2",
        "update messages set position = -position where chat_id = $1 and position > $2",
        "update messages set position = -position - 1 where chat_id = $1 and position < 0 and $2 >= 0",
    ] {
        connection.query(change).bind(chat.as_str()).bind(count(position)).execute().await?;
    }
    elsewhere::drop_files(connection, chat).await
}

pub async fn outline(connection: &mut Connection<'_>, chat: &ChatId) -> Result<Vec<MessageOutline>, Fault> {
    // Neither database reads a body for its length alone.
    let rows: Vec<(Text, i64)> = connection
        .query(
            "select id, cast(octet_length(body) + bytes_elsewhere as bigint) from messages
             where chat_id = $1 order by position",
        )
        .bind(chat.as_str())
        .fetch_all()
        .await?;
    let outline = rows.into_iter().map(|(Text(id), bytes)| MessageOutline {
        id: MessageId::new(id),
        bytes: usize::try_from(bytes).unwrap_or_default(),
    });
    Ok(outline.collect())
}

/// The messages at these positions; `None` if they have changed between two queries.
pub async fn at(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    positions: &Range<usize>,
    files: Files,
) -> Result<Option<Vec<UiMessage>>, Fault> {
    let rows: Vec<(String, Option<String>)> = connection
        .query(
            "select body, elsewhere from messages
             where chat_id = $1 and position >= $2 and position < $3
             order by position",
        )
        .bind(chat.as_str())
        .bind(count(positions.start))
        .bind(count(positions.end))
        .fetch_all()
        .await?;
    elsewhere::read(connection, chat, rows, files).await
}

/// The message of this id, with its position, if there is one; the outer `None` if it has changed between two queries.
pub async fn find(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    id: &MessageId,
) -> Result<Option<Option<(usize, UiMessage)>>, Fault> {
    let found: Option<(i64, String, Option<String>)> = connection
        .query("select position, body, elsewhere from messages where chat_id = $1 and id = $2")
        .bind(chat.as_str())
        .bind(text(id.as_str()))
        .fetch_optional()
        .await?;
    let Some((position, body, elsewhere)) = found else { return Ok(Some(None)) };
    let read = elsewhere::read(connection, chat, vec![(body, elsewhere)], Files::Inline).await?;
    Ok(read.map(|messages| messages.into_iter().next().map(|message| (index(position), message))))
}

/// The position and the id of the last message before a position, or of the last one with this role.
pub async fn last(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    before: usize,
    role: Option<Role>,
) -> Result<Option<(usize, MessageId)>, Fault> {
    let role = role.map(|role| name(&role)).transpose()?;
    let found: Option<(i64, Text)> = connection
        .query(
            "select position, id from messages
             where chat_id = $1 and position < $2 and role = coalesce($3, role)
             order by position desc limit 1",
        )
        .bind(chat.as_str())
        .bind(count(before))
        .bind(role)
        .fetch_optional()
        .await?;
    Ok(found.map(|(position, Text(id))| (index(position), MessageId::new(id))))
}

fn index(position: i64) -> usize {
    usize::try_from(position).unwrap_or_default()
}
