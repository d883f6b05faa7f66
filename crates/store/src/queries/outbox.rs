//! The notices that channels have to send.

use fermata_engine::store::{Attempt, ClaimedNotice, Notice, SavedNotice};
use fermata_protocol::ApprovalId;
use jiff::Timestamp;

use crate::{
    column::{count, json, name, read_json, read_name, read_time, time},
    connection::{Connection, row},
    error::Fault,
    text::{Text, text},
};

row! {
    struct Row {
        id: Text,
        channel: Text,
        event: String,
        at: i64,
        approval_id: Option<Text>,
        data: String,
        attempts: i64,
        next_at: Option<i64>,
        given_up_at: Option<i64>,
        error: Option<Text>,
    }
}

/// The columns of a [`Row`].
macro_rules! columns {
    () => {
        "id, channel, event, at, approval_id, data, attempts, next_at, given_up_at, error"
    };
}

/// The condition that no earlier notice about the approval is open in the channel of the notice `due`.
macro_rules! is_first {
    () => {
        "not exists (
            select 1 from outbox as earlier
            where earlier.approval_id = due.approval_id and earlier.channel = due.channel
                and earlier.number < due.number and earlier.next_at is not null
        )"
    };
}

/// Claims notices that are due. The databases differ in how they name and lock the rows.
macro_rules! claim {
    ($in:literal, $lock:literal, $end:literal) => {
        concat!(
            "update outbox set next_at = $3, attempts = attempts + 1 where number ",
            $in,
            " select number from outbox as due where channel = $1 and next_at <= $2 and ",
            is_first!(),
            " order by next_at, number limit $4 ",
            $lock,
            $end,
            " returning ",
            columns!()
        )
    };
}

// Instances that claim at once neither wait for one another nor claim the same notices. PostgreSQL evaluates an array once, and a list of
// `in` possibly several times, which would claim more than the limit.
const CLAIM_IN_SQLITE: &str = claim!("in (", "", ")");
const CLAIM_IN_POSTGRES: &str = claim!("= any(array(", "for update skip locked", "))");

/// Adds a notice, which is due at the time of its commit.
pub async fn add(connection: &mut Connection<'_>, notice: &Notice, at: Timestamp) -> Result<(), Fault> {
    connection
        .query(
            "insert into outbox (id, channel, event, at, approval_id, data, next_at) values ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(text(&notice.id))
        .bind(text(&notice.channel))
        .bind(name(&notice.event)?)
        .bind(time(notice.at))
        .bind(notice.approval.as_ref().map(|approval| text(approval.as_str())))
        .bind(json(&notice.data)?)
        .bind(time(at))
        .execute()
        .await?;
    Ok(())
}

/// The channels with a notice that is due and waits for no earlier one.
pub async fn due_channels(connection: &mut Connection<'_>, now: Timestamp) -> Result<Vec<String>, Fault> {
    let channels: Vec<(Text,)> = connection
        .query(concat!(
            "select distinct channel from outbox as due where next_at <= $1 and ",
            is_first!(),
            " order by channel"
        ))
        .bind(time(now))
        .fetch_all()
        .await?;
    Ok(channels.into_iter().map(|(Text(channel),)| channel).collect())
}

/// Claims notices of a channel, the earliest first.
pub async fn claim(
    connection: &mut Connection<'_>,
    channel: &str,
    now: Timestamp,
    until: Timestamp,
    limit: usize,
) -> Result<Vec<ClaimedNotice>, Fault> {
    let claim = connection.choose(CLAIM_IN_SQLITE, CLAIM_IN_POSTGRES);
    let rows: Vec<Row> = connection
        .query(claim)
        .bind(text(channel))
        .bind(time(now))
        .bind(time(until))
        .bind(count(limit))
        .fetch_all()
        .await?;
    let mut claimed = Vec::new();
    for row in rows {
        let SavedNotice { notice, attempts, .. } = saved(row)?;
        claimed.push(ClaimedNotice { notice, attempt: attempts });
    }
    claimed.sort_by_key(|claimed| claimed.notice.at);
    Ok(claimed)
}

/// The time of the first next attempt.
pub async fn next(connection: &mut Connection<'_>) -> Result<Option<Timestamp>, Fault> {
    let (next,): (Option<i64>,) = connection
        .query(concat!("select min(next_at) from outbox as due where next_at is not null and ", is_first!()))
        .fetch_one()
        .await?;
    Ok(next.map(read_time).transpose()?)
}

/// Notes the result of an attempt.
pub async fn note_attempt(
    connection: &mut Connection<'_>,
    claimed: &ClaimedNotice,
    at: Timestamp,
    attempt: &Attempt,
) -> Result<(), Fault> {
    let (next, given_up_at, error) = match attempt {
        Attempt::Sent => {
            let delete = connection.query("delete from outbox where id = $1");
            return delete.bind(text(&claimed.notice.id)).execute().await;
        }
        Attempt::Failed { next, error } => (Some(time(*next)), None, error),
        Attempt::GivenUp { error } => (None, Some(time(at)), error),
    };
    connection
        .query(
            "update outbox set next_at = $1, given_up_at = $2, error = $3
             where id = $4 and attempts = $5 and next_at is not null",
        )
        .bind(next)
        .bind(given_up_at)
        .bind(text(error))
        .bind(text(&claimed.notice.id))
        .bind(i64::from(claimed.attempt))
        .execute()
        .await
}

/// The number of notices that are open.
pub async fn open(connection: &mut Connection<'_>) -> Result<usize, Fault> {
    let (open,): (i64,) =
        connection.query("select count(*) from outbox where next_at is not null").fetch_one().await?;
    Ok(usize::try_from(open).unwrap_or_default())
}

/// The notices that are open or were given up, the newest first.
pub async fn list(connection: &mut Connection<'_>, limit: usize) -> Result<Vec<SavedNotice>, Fault> {
    let rows: Vec<Row> = connection
        .query(concat!("select ", columns!(), " from outbox order by number desc limit $1"))
        .bind(count(limit))
        .fetch_all()
        .await?;
    rows.into_iter().map(saved).collect()
}

/// Opens a notice that was given up; `false` if there is none.
pub async fn retry(connection: &mut Connection<'_>, id: &str, now: Timestamp) -> Result<bool, Fault> {
    let opened = connection
        .query(
            "update outbox set next_at = $1, given_up_at = null, attempts = 0
             where id = $2 and given_up_at is not null",
        )
        .bind(time(now))
        .bind(text(id))
        .count()
        .await?;
    Ok(opened == 1)
}

/// Deletes notices that were given up before a time.
pub async fn forget(
    connection: &mut Connection<'_>,
    before: Timestamp,
    limit: usize,
) -> Result<usize, Fault> {
    let forgotten = connection
        .query(
            "delete from outbox
             where number in (select number from outbox where given_up_at < $1 order by given_up_at limit $2)",
        )
        .bind(time(before))
        .bind(count(limit))
        .count()
        .await?;
    Ok(usize::try_from(forgotten).unwrap_or(usize::MAX))
}

fn saved(row: Row) -> Result<SavedNotice, Fault> {
    let notice = Notice {
        id: row.id.0,
        channel: row.channel.0,
        event: read_name("the event of a notice", &row.event)?,
        at: read_time(row.at)?,
        approval: row.approval_id.map(|Text(id)| ApprovalId::new(id)),
        data: read_json("the data of a notice", &row.data)?,
    };
    Ok(SavedNotice {
        notice,
        attempts: u32::try_from(row.attempts).unwrap_or(u32::MAX),
        next: row.next_at.map(read_time).transpose()?,
        given_up_at: row.given_up_at.map(read_time).transpose()?,
        error: row.error.map(|Text(error)| error),
    })
}
