//! The decisions of people about calls. Rows are only ever added; the database itself refuses anything else.

use fermata_engine::store::StoreError;
use fermata_protocol::{ChatId, RunId, ToolCallId};
use fermata_tools::{ApprovalDecision, Call, Confirmation, Grant, GrantEnd, GrantTerms, Owner, input_hash};
use jiff::Timestamp;
use serde_json::json;

use crate::{
    column::{self, read_json, read_time, time},
    connection::Connection,
    error::Fault,
    queries::messages::elsewhere::LEAST_BYTES,
    text::{Text, text},
};

type Row = (Text, Text, bool, Text, i64, Option<Text>, Option<String>);

/// Adds the decision, or the vote, of a person about a call. `terms` are what it covers besides the call.
pub async fn add(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    call: &Call,
    decision: &ApprovalDecision,
    terms: Option<GrantTerms>,
) -> Result<(), Fault> {
    let confirmation = Confirmation::of(call, decision, terms);
    connection
        .query(
            "insert into confirmations
                (chat_id, position, run_id, call_id, tool, approval_id, input, approved, reason, decided_by,
                decided_at, terms)
             values ($1, (select coalesce(max(position) + 1, 0) from confirmations where chat_id = $1),
                $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        )
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .bind(text(confirmation.call.as_str()))
        .bind(text(&confirmation.tool))
        .bind(call.approval_request.as_ref().map(|question| text(question.id.as_str())))
        .bind(input_of(call)?)
        .bind(confirmation.approved)
        .bind(confirmation.reason.as_deref().map(text))
        .bind(text(confirmation.by.as_str()))
        .bind(time(confirmation.at))
        .bind(confirmation.terms.as_ref().map(column::json).transpose()?)
        .execute()
        .await?;
    Ok(())
}

/// The input that the decision is about, as JSON: the edited one if the person edited it. `calls` has a large one, and only its hash
/// is repeated here, as the audit has it.
fn input_of(call: &Call) -> Result<String, StoreError> {
    let input = call.effective_input();
    let text = column::json(input)?;
    if text.len() < LEAST_BYTES { Ok(text) } else { column::json(&json!({"sha256": input_hash(input)})) }
}

/// Notes that grants of a tool are revoked, after all that people have said until now.
pub async fn end_grant(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    tool: &str,
    scope: Option<&str>,
    by: &Owner,
    at: Timestamp,
) -> Result<(), Fault> {
    connection
        .query(
            "insert into grant_ends (chat_id, position, tool, confirmations, ended_by, ended_at, scope)
             values ($1, (select coalesce(max(position) + 1, 0) from grant_ends where chat_id = $1), $2,
                (select count(*) from confirmations where chat_id = $1), $3, $4, $5)",
        )
        .bind(chat.as_str())
        .bind(text(tool))
        .bind(text(by.as_str()))
        .bind(time(at))
        .bind(scope.map(text))
        .execute()
        .await?;
    Ok(())
}

/// All grants that were revoked in the chat, in order.
pub async fn grant_ends(connection: &mut Connection<'_>, chat: &ChatId) -> Result<Vec<GrantEnd>, Fault> {
    let rows: Vec<(Text, Text, i64, i64, Option<Text>)> = connection
        .query(
            "select tool, ended_by, ended_at, confirmations, scope from grant_ends
             where chat_id = $1 order by position",
        )
        .bind(chat.as_str())
        .fetch_all()
        .await?;
    let mut ends = Vec::with_capacity(rows.len());
    for (Text(tool), Text(by), at, after, scope) in rows {
        let after = usize::try_from(after).unwrap_or_default();
        let scope = scope.map(|Text(scope)| scope);
        ends.push(GrantEnd { tool, scope, by: Owner::new(by), at: read_time(at)?, after });
    }
    Ok(ends)
}

/// All decisions in the chat, the earliest first.
pub async fn all(connection: &mut Connection<'_>, chat: &ChatId) -> Result<Vec<Confirmation>, Fault> {
    let rows: Vec<Row> = connection
        .query(
            "select tool, call_id, approved, decided_by, decided_at, reason, terms
             from confirmations where chat_id = $1 order by position",
        )
        .bind(chat.as_str())
        .fetch_all()
        .await?;
    let mut confirmations = Vec::with_capacity(rows.len());
    for (Text(tool), Text(call), approved, Text(by), at, reason, terms) in rows {
        confirmations.push(Confirmation {
            tool,
            call: ToolCallId::new(call),
            approved,
            by: Owner::new(by),
            at: read_time(at)?,
            reason: reason.map(|Text(reason)| reason),
            terms: terms.map(|terms| read_json("the terms of a grant", &terms)).transpose()?,
        });
    }
    Ok(confirmations)
}

/// Adds a grant that holds in all chats of the owner, or replaces that of the same tool and scope.
pub async fn grant_to_owner(
    connection: &mut Connection<'_>,
    owner: &Owner,
    grant: &Grant,
) -> Result<(), Fault> {
    connection
        .query(
            "insert into owner_grants (owner, tool, scope, since, terms) values ($1, $2, $3, $4, $5)
             on conflict (owner, tool, scope) do update set since = excluded.since, terms = excluded.terms",
        )
        .bind(text(owner.as_str()))
        .bind(text(&grant.tool))
        .bind(text(&grant.terms.scope.id))
        .bind(time(grant.since))
        .bind(column::json(&grant.terms)?)
        .execute()
        .await?;
    Ok(())
}

/// Deletes grants that hold in all chats of the owner.
pub async fn end_grant_to_owner(
    connection: &mut Connection<'_>,
    owner: &Owner,
    tool: &str,
    scope: Option<&str>,
) -> Result<(), Fault> {
    let query = match scope {
        Some(_) => "delete from owner_grants where owner = $1 and tool = $2 and scope = $3",
        None => "delete from owner_grants where owner = $1 and tool = $2",
    };
    let query = connection.query(query).bind(text(owner.as_str())).bind(text(tool));
    match scope {
        Some(scope) => query.bind(text(scope)).execute().await?,
        None => query.execute().await?,
    };
    Ok(())
}

/// All grants that hold in all chats of the owner, the earliest first.
pub async fn of_owner(connection: &mut Connection<'_>, owner: &Owner) -> Result<Vec<Grant>, Fault> {
    let rows: Vec<(Text, i64, String)> = connection
        .query("select tool, since, terms from owner_grants where owner = $1 order by since, tool, scope")
        .bind(text(owner.as_str()))
        .fetch_all()
        .await?;
    let mut grants = Vec::with_capacity(rows.len());
    for (Text(tool), since, terms) in rows {
        let terms = read_json("the terms of a grant", &terms)?;
        grants.push(Grant { tool, since: read_time(since)?, terms });
    }
    Ok(grants)
}
