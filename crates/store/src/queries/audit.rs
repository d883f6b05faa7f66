//! The audit of decisions about calls. Rows are only ever added, and removed by [`forget`]; the database itself refuses anything else.

use fermata_protocol::{ChatId, RunId};
use fermata_tools::{AuditEvent, Owner};
use jiff::Timestamp;

use super::calls::row::ruled_by;
use crate::{
    column::{count, name, time},
    connection::Connection,
    error::Fault,
    text::text,
};

pub async fn add(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    owner: &Owner,
    run: Option<&RunId>,
    event: &AuditEvent,
    at: Timestamp,
) -> Result<(), Fault> {
    connection
        .query(
            "insert into audit_events
                (at, owner, decided_by, address, chat_id, run_id, call_id, tool, event, rule, reason, input_hash)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        )
        .bind(time(at))
        .bind(text(owner.as_str()))
        .bind(event.decided_by.as_ref().map(|by| text(by.as_str())))
        .bind(event.address.map(|address| address.to_string()))
        .bind(chat.as_str())
        .bind(run.map(|run| text(run.as_str())))
        .bind(event.call.as_ref().map(|call| text(call.as_str())))
        .bind(text(&event.tool))
        .bind(name(&event.action)?)
        .bind(event.rule.map(ruled_by).transpose()?)
        .bind(event.reason.as_deref().map(text))
        .bind(event.input_hash.as_deref())
        .execute()
        .await?;
    Ok(())
}

/// Forgets the decisions that were noted before a time, the oldest first. The triggers allow it for rows that are older than the time in
/// `audit_retention`, which is set within this transaction only.
pub async fn forget(
    connection: &mut Connection<'_>,
    before: Timestamp,
    limit: usize,
) -> Result<usize, Fault> {
    let say = "update audit_retention set before = $1";
    connection.query(say).bind(Some(time(before))).execute().await?;
    let forgotten = connection
        .query(
            "delete from audit_events
             where id in (select id from audit_events where at < $1 order by at, id limit $2)",
        )
        .bind(time(before))
        .bind(count(limit))
        .execute()
        .await?;
    connection.query(say).bind(None::<i64>).execute().await?;
    Ok(usize::try_from(forgotten).unwrap_or(usize::MAX))
}
