//! The summaries of chats, and the chats that need one.

use fermata_engine::store::{StoreError, SummaryRecord};
use fermata_protocol::{ChatId, MessageId};
use fermata_tools::Owner;
use jiff::Timestamp;

use crate::{
    column::{count, deadline, json, read_json, read_time, time},
    connection::{Connection, row},
    error::Fault,
    text::{Text, text},
};

row! {
    struct Summary {
        messages: i64,
        up_to: Text,
        content: String,
        reason: String,
        model: Text,
        created_at: i64,
    }
}

/// Adds the summary, or replaces the one that covers as many messages.
pub async fn put(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    summary: &SummaryRecord,
) -> Result<(), Fault> {
    connection
        .query(
            "insert into summaries (chat_id, messages, up_to, content, reason, model, created_at)
             values ($1, $2, $3, $4, $5, $6, $7)
             on conflict (chat_id, messages) do update
             set up_to = excluded.up_to, content = excluded.content, reason = excluded.reason,
                model = excluded.model, created_at = excluded.created_at",
        )
        .bind(chat.as_str())
        .bind(count(summary.messages))
        .bind(text(summary.up_to.as_str()))
        .bind(json(&summary.content)?)
        .bind(summary.reason.as_str())
        .bind(text(&summary.model))
        .bind(time(summary.created_at))
        .execute()
        .await?;
    Ok(())
}

/// Deletes the summaries that cover more messages than `keep`.
pub async fn truncate(connection: &mut Connection<'_>, chat: &ChatId, keep: usize) -> Result<(), Fault> {
    connection
        .query("delete from summaries where chat_id = $1 and messages > $2")
        .bind(chat.as_str())
        .bind(count(keep))
        .execute()
        .await?;
    Ok(())
}

/// The summary that covers the most messages, but not more than `most`.
pub async fn find(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    most: usize,
) -> Result<Option<SummaryRecord>, Fault> {
    let found: Option<Summary> = connection
        .query(
            "select messages, up_to, content, reason, model, created_at from summaries
             where chat_id = $1 and messages <= $2
             order by messages desc limit 1",
        )
        .bind(chat.as_str())
        .bind(count(most))
        .fetch_optional()
        .await?;
    let Some(Summary { messages, up_to: Text(up_to), content, reason, model: Text(model), created_at }) =
        found
    else {
        return Ok(None);
    };
    Ok(Some(SummaryRecord {
        messages: usize::try_from(messages)
            .map_err(|_| StoreError::Corrupt("a summary of less than no messages".into()))?,
        up_to: MessageId::new(up_to),
        content: read_json("a summary", &content)?,
        reason,
        model,
        created_at: read_time(created_at)?,
    }))
}

/// Notes when a summary may be begun; `None` if none is to be written.
pub async fn schedule(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    due: Option<Timestamp>,
) -> Result<(), Fault> {
    match due {
        Some(due) => {
            connection
                .query(
                    "insert into due_summaries (chat_id, due_at) values ($1, $2)
                     on conflict (chat_id) do update set due_at = excluded.due_at",
                )
                .bind(chat.as_str())
                .bind(deadline(due))
                .execute()
                .await?;
        }
        None => {
            connection
                .query("delete from due_summaries where chat_id = $1")
                .bind(chat.as_str())
                .execute()
                .await?;
        }
    }
    Ok(())
}

/// The chats that are due for a summary, with their owners, the earliest first.
pub async fn due(
    connection: &mut Connection<'_>,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<(ChatId, Owner)>, Fault> {
    let due: Vec<(String, Text)> = connection
        .query(
            "select due_summaries.chat_id, chats.owner from due_summaries
             join chats on chats.id = due_summaries.chat_id
             where due_summaries.due_at <= $1
             order by due_summaries.due_at, due_summaries.chat_id
             limit $2",
        )
        .bind(time(now))
        .bind(count(limit))
        .fetch_all()
        .await?;
    Ok(due.into_iter().map(|(chat, Text(owner))| (ChatId::new(chat), Owner::new(owner))).collect())
}
