//! The audit. Rows are only ever added, and removed by [`forget`]; the database itself refuses anything else.

use std::collections::BTreeMap;

use fermata_engine::store::AuditEntry;
use fermata_protocol::ChatId;
use fermata_tools::{AuditAction, Owner};
use jiff::Timestamp;

use super::{calls::source_name, evidence};
use crate::{
    chain::Head,
    column::{count, json, name, read_json, read_time, time},
    connection::{Connection, row},
    error::Fault,
    evidence::{AuditKey, AuditRow, Cut},
    text::{Text, text},
};

/// A row of the audit. The words are those of the columns of `audit_events`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The number of the row. Later ones have larger numbers.
    #[serde(skip)]
    pub number: i64,
    /// The time of the event.
    pub at: Timestamp,
    /// The kind of event, such as `approved`.
    pub event: String,
    /// The chat, which may be deleted; empty if the event is about no chat.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub chat_id: String,
    /// The run of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The call; `None` if the decision is about a tool in general.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The tool's name; empty if the event is about no tool.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The person who did it; `None` if nobody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The groups of that person at that moment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The channel of the person's decision: `button`, `words`, `message`, `api`, `slack`, `email` or `decider`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The network address that the person decided from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The approval that the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The reason that the person or the rule gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The SHA-256 of the input, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_hash: Option<String>,
    /// The hash of the input that the person was shown, if the client sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown_hash: Option<String>,
    /// The effect of an attempt to decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The id of the memory that the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

row! {
    struct Row {
        id: i64,
        at: i64,
        event: String,
        chat_id: String,
        run_id: Option<Text>,
        call_id: Option<Text>,
        tool: Text,
        principal: Option<Text>,
        groups: Option<Text>,
        channel: Option<String>,
        address: Option<String>,
        approval_id: Option<Text>,
        rule: Option<String>,
        reason: Option<Text>,
        input_hash: Option<String>,
        shown_hash: Option<String>,
        outcome: Option<String>,
        subject: Option<Text>,
    }
}

/// Adds a row to the chain of this transaction.
pub async fn add(connection: &mut Connection<'_>, entry: &AuditEntry, at: Timestamp) -> Result<(), Fault> {
    let Head { count: position, hash: prev } = head(connection).await?;
    let AuditEntry { owner, chat, run, event } = entry;
    let row = AuditRow {
        address: event.address.map(|address| address.to_string()),
        approval_id: event.approval.as_ref().map(|approval| approval.as_str().to_owned()),
        at: time(at),
        call_id: event.call.as_ref().map(|call| call.as_str().to_owned()),
        chain: connection.chain()?.name.to_string(),
        channel: event.channel.as_ref().map(name).transpose()?,
        chat_id: chat.as_ref().map_or("", ChatId::as_str).to_owned(),
        event: name(&event.action)?,
        groups: if event.groups.is_empty() { None } else { Some(json(&event.groups)?) },
        input_hash: event.input_hash.clone(),
        outcome: event.outcome.as_ref().map(name).transpose()?,
        owner: owner.as_ref().map_or("", Owner::as_str).to_owned(),
        position,
        prev,
        principal: event.principal.as_ref().map(|principal| principal.as_str().to_owned()),
        reason: event.reason.clone(),
        rule: event.rule.map(source_name).transpose()?,
        run_id: run.as_ref().map(|run| run.as_str().to_owned()),
        shown_hash: event.shown_hash.clone(),
        subject: event.subject.clone(),
        tool: event.tool.clone(),
    };
    let hash = row.hash();
    connection
        .query(
            "insert into audit_events
                (at, owner, principal, groups, channel, address, approval_id, chat_id, run_id, call_id, tool, event, rule,
                 reason, input_hash, shown_hash, outcome, subject, chain, position, prev, hash)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)",
        )
        .bind(row.at)
        .bind(Text(row.owner))
        .bind(row.principal.map(Text))
        .bind(row.groups.map(Text))
        .bind(row.channel)
        .bind(row.address)
        .bind(row.approval_id.map(Text))
        .bind(row.chat_id)
        .bind(row.run_id.map(Text))
        .bind(row.call_id.map(Text))
        .bind(Text(row.tool))
        .bind(row.event)
        .bind(row.rule)
        .bind(row.reason.map(Text))
        .bind(row.input_hash)
        .bind(row.shown_hash)
        .bind(row.outcome)
        .bind(row.subject.map(Text))
        .bind(row.chain)
        .bind(row.position)
        .bind(row.prev)
        .bind(hash.as_str())
        .execute()
        .await?;
    connection.chain()?.head = Some(Head { count: position + 1, hash: Some(hash) });
    Ok(())
}

/// Returns the head of the chain of this transaction.
pub async fn head(connection: &mut Connection<'_>) -> Result<Head, Fault> {
    let chain = connection.chain()?;
    if let Some(head) = &chain.head {
        return Ok(head.clone());
    }
    let name = chain.name.to_string();
    let last = evidence::last(connection, &name).await?.map(|(head, _)| head);
    // The retention may have removed all rows, or the last ones, if the clock went back between them.
    let cut: Option<(i64, String)> = connection
        .query("select last, hash from audit_cuts where chain = $1 order by last desc limit 1")
        .bind(name)
        .fetch_optional()
        .await?;
    let cut = cut.map(|(last, hash)| Head { count: last + 1, hash: Some(hash) });
    let head = last.into_iter().chain(cut).max_by_key(|head| head.count).unwrap_or_default();
    connection.chain()?.head = Some(head.clone());
    Ok(head)
}

/// Deletes the rows and checkpoints that were added before a time, the oldest first, and notes the rows in cuts. Returns the larger number
/// of both. The triggers allow it for what is older than the time in `audit_retention`, which is set within this transaction only.
pub async fn forget(
    transaction: &mut Connection<'_>,
    before: Timestamp,
    limit: usize,
    key: Option<&AuditKey>,
) -> Result<usize, Fault> {
    let say = "update audit_retention set before = $1";
    transaction.query(say).bind(Some(time(before))).execute().await?;
    let rows: Vec<(String, i64, Option<String>, String)> = transaction
        .query(
            "delete from audit_events
             where id in (select id from audit_events where at < $1 order by at, id limit $2)
             returning chain, position, prev, hash",
        )
        .bind(time(before))
        .bind(count(limit))
        .fetch_all()
        .await?;
    let mut forgotten = rows.len();
    let mut removed: BTreeMap<String, Vec<Cut>> = BTreeMap::new();
    for (chain, position, prev, hash) in rows {
        let cut = Cut {
            before: time(before),
            chain: chain.clone(),
            first: position,
            last: position,
            prev,
            hash,
            key: None,
            signature: None,
        };
        removed.entry(chain).or_default().push(cut);
    }
    for (chain, cuts) in removed {
        evidence::add_cuts(transaction, &chain, cuts, key).await?;
    }
    // As long as old rows are left, a verification needs the checkpoints that cover them.
    if forgotten < limit {
        let checkpoints = transaction
            .query(
                "delete from audit_checkpoints
                 where id in (select id from audit_checkpoints where at < $1 order by at, id limit $2)",
            )
            .bind(time(before))
            .bind(count(limit))
            .count()
            .await?;
        forgotten = forgotten.max(usize::try_from(checkpoints).unwrap_or(usize::MAX));
    }
    transaction.query(say).bind(None::<i64>).execute().await?;
    Ok(forgotten)
}

/// Rows about the owner's data, the oldest first. The attempts of others are for the operator, because they name these people.
pub async fn of_owner(
    connection: &mut Connection<'_>,
    owner: &Owner,
    after: i64,
    limit: usize,
) -> Result<Vec<Decision>, Fault> {
    let rows: Vec<Row> = connection
        .query(
            "select id, at, event, chat_id, run_id, call_id, tool, principal, groups, channel, address, approval_id, rule, reason,
                input_hash, shown_hash, outcome, subject
             from audit_events where owner = $1 and id > $2 and event <> $4 order by id limit $3",
        )
        .bind(text(owner.as_str()))
        .bind(after)
        .bind(count(limit))
        .bind(name(&AuditAction::RefusedToOther)?)
        .fetch_all()
        .await?;
    rows.into_iter()
        .map(|row| {
            let words = |text: Option<Text>| text.map(|Text(words)| words);
            Ok(Decision {
                number: row.id,
                at: read_time(row.at)?,
                event: row.event,
                chat_id: row.chat_id,
                run_id: words(row.run_id),
                tool_call_id: words(row.call_id),
                tool: row.tool.0,
                principal: words(row.principal),
                groups: words(row.groups)
                    .map_or(Ok(Vec::new()), |groups| read_json("the groups of a principal", &groups))?,
                channel: row.channel,
                address: row.address,
                approval_id: words(row.approval_id),
                rule: row.rule,
                reason: words(row.reason),
                input_hash: row.input_hash,
                shown_hash: row.shown_hash,
                outcome: row.outcome,
                subject: words(row.subject),
            })
        })
        .collect()
}
