//! The approvals of calls, for the people who decide about them. Each row follows from a call ([`put`]), which is read with it.

use fermata_engine::{
    ApprovalState,
    store::{
        ApprovalList, ApprovalRecord, ApprovalRow, ListedFor, ListedState, SavedTerms, page::ApprovalCursor,
    },
};
use fermata_protocol::{ApprovalId, ChatId};
use fermata_tools::{Call, Owner};
use jiff::Timestamp;

use crate::{
    column::{self, count, read_json, read_name, read_time, time},
    connection::{Connection, row},
    error::Fault,
    text::{ParsedJson, Text, text},
};

row! {
    struct Row {
        id: Text,
        state: String,
        chat_id: String,
        title: Option<Text>,
        requested_at: i64,
        settled_at: Option<i64>,
        changed_at: i64,
        terms: Option<String>,
        has_voted: bool,
        call: ParsedJson,
    }
}

/// A query for approvals with their calls. `$1` is the person who reads.
macro_rules! approvals {
    ($rest:expr) => {
        concat!(
            "select approvals.id, approvals.state, approvals.chat_id,
                coalesce(
                    (select chats.title from chats where chats.id = approvals.chat_id),
                    (select messages.title from messages
                     where messages.chat_id = approvals.chat_id and role = 'user' order by position limit 1)
                ) as title,
                approvals.requested_at, approvals.settled_at, approvals.changed_at, approvals.terms,
                exists (select 1 from confirmations
                 where confirmations.approval_id = approvals.id and confirmations.decided_by = $1) as has_voted,
                calls.call
             from approvals
             join calls on calls.chat_id = approvals.chat_id and calls.id = approvals.call_id ",
            $rest
        )
    };
}

/// A list of some approvals in one order. `$2` has the hashes of the terms, `$3` the tool, `$4` and `$5` the place where it begins.
macro_rules! list {
    ($whose:expr, $state:expr, $time:expr, $beyond:expr, $order:expr) => {
        approvals!(concat!(
            "where ",
            $whose,
            " and ",
            $state,
            " and ($3 = '' or approvals.tool = $3)
                and (approvals.",
            $time,
            ", approvals.id) ",
            $beyond,
            " ($4, $5)
             order by approvals.",
            $time,
            $order,
            ", approvals.id",
            $order,
            " limit $6"
        ))
    };
}

/// The list of some approvals in each of the three orders.
macro_rules! lists {
    ($whose:expr) => {
        [
            list!($whose, "approvals.state = 'waiting'", "requested_at", ">", ""),
            list!($whose, "approvals.state <> 'waiting'", "settled_at", "<", " desc"),
            list!($whose, "approvals.state <> ''", "requested_at", "<", " desc"),
        ]
    };
}

const OF_REQUESTER: [&str; 3] = lists!("approvals.owner = $1 and $2 = ''");
// All hashes have one length, so none is found across the border of two.
const OF_TERMS: [&str; 3] = lists!("approvals.terms is not null and $2 like '%' || approvals.terms || '%'");
const OF_VOTER: [&str; 3] = lists!(
    "approvals.id in (select approval_id from confirmations where decided_by = $1 and approval_id is not null)
        and $2 = ''"
);

const OF_ANYONE: [&str; 3] = lists!("$1 is not null and $2 = ''");

/// Keeps what follows from a call about its approvals.
pub async fn put(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    call: &Call,
    at: Timestamp,
) -> Result<(), Fault> {
    for outdated in &call.asked_before {
        connection
            .query(
                "update approvals set state = 'cancelled', settled_at = $3, changed_at = $3
                 where id = $1 and chat_id = $2 and state = 'waiting'",
            )
            .bind(text(outdated.as_str()))
            .bind(chat.as_str())
            .bind(time(at))
            .execute()
            .await?;
    }
    let Some(row) = ApprovalRow::of(call) else { return Ok(()) };
    if let Some(terms) = &row.terms {
        put_terms(connection, terms).await?;
    }
    connection
        .query(
            "insert into approvals
                (id, chat_id, call_id, owner, tool, state, requested_at, settled_at, changed_at, terms)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             on conflict (id) do update set
                state = excluded.state, settled_at = excluded.settled_at, changed_at = excluded.changed_at,
                terms = excluded.terms
             where approvals.chat_id = excluded.chat_id
                and (approvals.state = 'waiting' or approvals.state <> excluded.state)",
        )
        .bind(text(row.id.as_str()))
        .bind(chat.as_str())
        .bind(text(row.call.as_str()))
        .bind(text(row.requester.as_str()))
        .bind(text(&row.tool))
        .bind(row.state.as_str())
        .bind(time(row.requested_at))
        .bind(row.settled_at.map(time))
        .bind(time(at))
        .bind(row.terms.as_ref().map(|terms| terms.hash.as_str()))
        .execute()
        .await
}

/// Notes the terms of an approval that waits.
pub async fn set_terms(
    connection: &mut Connection<'_>,
    id: &ApprovalId,
    terms: Option<&SavedTerms>,
    at: Timestamp,
) -> Result<(), Fault> {
    if let Some(terms) = terms {
        put_terms(connection, terms).await?;
    }
    connection
        .query("update approvals set terms = $2, changed_at = $3 where id = $1 and state = 'waiting'")
        .bind(text(id.as_str()))
        .bind(terms.map(|terms| terms.hash.as_str()))
        .bind(time(at))
        .execute()
        .await
}

async fn put_terms(connection: &mut Connection<'_>, terms: &SavedTerms) -> Result<(), Fault> {
    connection
        .query("insert into approval_terms (hash, terms) values ($1, $2) on conflict (hash) do nothing")
        .bind(terms.hash.as_str())
        .bind(column::json(&terms.terms)?)
        .execute()
        .await
}

pub async fn find(
    connection: &mut Connection<'_>,
    id: &ApprovalId,
    viewer: &Owner,
) -> Result<Option<ApprovalRecord>, Fault> {
    let row: Option<Row> = connection
        .query(approvals!("where approvals.id = $2"))
        .bind(text(viewer.as_str()))
        .bind(text(id.as_str()))
        .fetch_optional()
        .await?;
    row.map(read).transpose()
}

pub async fn list(
    connection: &mut Connection<'_>,
    list: ApprovalList<'_>,
) -> Result<Vec<ApprovalRecord>, Fault> {
    let ApprovalList { viewer, of, state, tool, after, limit } = list;
    let (queries, hashes) = match of {
        ListedFor::Requester => (OF_REQUESTER, String::new()),
        ListedFor::Terms(hashes) => (OF_TERMS, hashes.join(",")),
        ListedFor::Voter => (OF_VOTER, String::new()),
        ListedFor::Anyone => (OF_ANYONE, String::new()),
    };
    let [waiting, settled, all] = queries;
    let (query, first) = match state {
        ListedState::Waiting => (waiting, i64::MIN),
        ListedState::Settled => (settled, i64::MAX),
        ListedState::All => (all, i64::MAX),
    };
    let rows: Vec<Row> = connection
        .query(query)
        .bind(text(viewer.as_str()))
        .bind(hashes)
        .bind(text(tool.unwrap_or_default()))
        .bind(after.map_or(first, |(at, _)| time(at)))
        .bind(text(after.map_or("", |(_, id)| id.as_str())))
        .bind(count(limit))
        .fetch_all()
        .await?;
    rows.into_iter().map(read).collect()
}

pub async fn terms(connection: &mut Connection<'_>) -> Result<Vec<SavedTerms>, Fault> {
    let rows: Vec<(String, String)> =
        connection.query("select hash, terms from approval_terms order by hash").fetch_all().await?;
    let mut known = Vec::with_capacity(rows.len());
    for (hash, terms) in rows {
        known.push(SavedTerms { hash, terms: read_json("the terms of an approval", &terms)? });
    }
    Ok(known)
}

pub async fn changed(
    connection: &mut Connection<'_>,
    after: &ApprovalCursor,
    limit: usize,
) -> Result<Vec<ApprovalRecord>, Fault> {
    let rows: Vec<Row> = connection
        .query(approvals!(
            "where (approvals.changed_at, approvals.id) > ($2, $3)
             order by approvals.changed_at, approvals.id limit $4"
        ))
        .bind(text(""))
        .bind(time(after.at))
        .bind(text(after.id.as_str()))
        .bind(count(limit))
        .fetch_all()
        .await?;
    rows.into_iter().map(read).collect()
}

fn read(row: Row) -> Result<ApprovalRecord, Fault> {
    let ParsedJson(call) = row.call;
    let state: ApprovalState = read_name("the state of an approval", &row.state)?;
    Ok(ApprovalRecord {
        id: ApprovalId::new(row.id.0),
        state,
        chat: ChatId::new(row.chat_id),
        title: row.title.map(|Text(title)| title),
        requested_at: read_time(row.requested_at)?,
        settled_at: row.settled_at.map(read_time).transpose()?,
        changed_at: read_time(row.changed_at)?,
        terms: row.terms,
        has_voted: row.has_voted,
        call: read_json("a call", &call)?,
    })
}
