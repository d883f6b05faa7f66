//! Counts the chats, bytes and runs of one owner, and keeps what is known of the owner's client.

use fermata_engine::store::{AnswerRoute, InstanceId, OwnerUsage, WantedUsage};
use fermata_tools::Owner;
use jiff::Timestamp;

use crate::{column::count, connection::Connection, error::Fault, text::text};

/// Counts what is wanted of the owner's usage.
pub async fn usage(
    connection: &mut Connection<'_>,
    owner: &Owner,
    instance: &InstanceId,
    wanted: WantedUsage,
) -> Result<OwnerUsage, Fault> {
    let mut usage = OwnerUsage::default();
    if let Some(most) = wanted.chats {
        let (chats,): (i64,) = connection
            .query("select count(*) from (select 1 from chats where owner = $1 limit $2) as theirs")
            .bind(text(owner.as_str()))
            .bind(count(most))
            .fetch_one()
            .await?;
        usage.chats = number(chats);
    }
    if wanted.bytes {
        let (bytes,): (i64,) = connection
            .query("select cast(coalesce(sum(bytes), 0) as bigint) from chats where owner = $1")
            .bind(text(owner.as_str()))
            .fetch_one()
            .await?;
        usage.bytes = number(bytes);
    }
    if let Some(most) = wanted.runs_elsewhere {
        let (runs,): (i64,) = connection
            .query(
                // Three ranges of the index leave out the runs of this instance, because there may be many.
                "select count(*) from (
                    select 1 from runs where owner = $1 and outcome is null and instance is null
                    union all
                    select 1 from runs where owner = $1 and outcome is null and instance < $2
                    union all
                    select 1 from runs where owner = $1 and outcome is null and instance > $2
                    limit $3
                 ) as theirs",
            )
            .bind(text(owner.as_str()))
            .bind(text(instance.as_str()))
            .bind(count(most))
            .fetch_one()
            .await?;
        usage.runs_elsewhere = number(runs);
    }
    Ok(usage)
}

fn number(column: i64) -> usize {
    usize::try_from(column).unwrap_or_default()
}

/// Notes how a stock page of the owner has answered.
pub async fn note_answer_route(
    transaction: &mut Connection<'_>,
    owner: &Owner,
    route: AnswerRoute,
    at: Timestamp,
) -> Result<(), Fault> {
    let note = match route {
        AnswerRoute::Repost => {
            "insert into owners (owner, answered_by_post_at) values ($1, $2)
             on conflict (owner) do update set answered_by_post_at = excluded.answered_by_post_at"
        }
        AnswerRoute::ToolResult => {
            "insert into owners (owner, answered_by_result_at) values ($1, $2)
             on conflict (owner) do update set answered_by_result_at = excluded.answered_by_result_at"
        }
    };
    transaction.query(note).bind(text(owner.as_str())).bind(at.as_microsecond()).execute().await?;
    Ok(())
}

/// Returns how the owner's stock pages answer: as the last one did that has shown it.
pub async fn answer_route(
    connection: &mut Connection<'_>,
    owner: &Owner,
) -> Result<Option<AnswerRoute>, Fault> {
    let found: Option<(Option<i64>, Option<i64>)> = connection
        .query("select answered_by_post_at, answered_by_result_at from owners where owner = $1")
        .bind(text(owner.as_str()))
        .fetch_optional()
        .await?;
    let Some((post, result)) = found else { return Ok(None) };
    if post.is_none() && result.is_none() {
        return Ok(None);
    }
    Ok(Some(if result > post { AnswerRoute::ToolResult } else { AnswerRoute::Repost }))
}

/// Forgets what is known of the owner's client, and what the owner has allowed in all chats.
pub async fn forget_client(connection: &mut Connection<'_>, owner: &Owner) -> Result<(), Fault> {
    for forget in ["delete from owners where owner = $1", "delete from owner_grants where owner = $1"] {
        connection.query(forget).bind(text(owner.as_str())).execute().await?;
    }
    Ok(())
}
