//! The decisions of people about calls. Rows are only ever added; the database itself refuses anything else.

use fermata_engine::store::StoreError;
use fermata_protocol::{ChatId, RunId, ToolCallId};
use fermata_tools::{Call, Confirmation, GrantEnd, Owner, input_hash};
use jiff::Timestamp;
use serde_json::json;

use crate::{
    column::{self, name, read_name, read_time, time},
    connection::Connection,
    error::{Fault, conflict},
    queries::messages::elsewhere::LEAST_BYTES,
    text::{Text, text},
};

type Row = (Text, Text, String, Text, i64, Option<Text>, Option<String>);

/// Adds the decision of a person about a call. `fingerprint` is that of the tool, if it was allowed for always.
pub async fn add(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    call: &Call,
    by: &Owner,
    fingerprint: Option<String>,
    at: Timestamp,
) -> Result<(), Fault> {
    let Some(confirmation) = Confirmation::of(call, by.clone(), at, fingerprint) else {
        return Err(conflict(format!("nothing was decided about call {}", call.id)));
    };
    connection
        .query(
            "insert into confirmations
                (chat_id, position, run_id, call_id, tool, approval_id, input, answer, reason, decided_by,
                decided_at, fingerprint)
             values ($1, (select coalesce(max(position) + 1, 0) from confirmations where chat_id = $1),
                $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        )
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .bind(text(confirmation.call.as_str()))
        .bind(text(&confirmation.tool))
        .bind(call.approval_request.as_ref().map(|question| text(question.id.as_str())))
        .bind(input_of(call)?)
        .bind(name(&confirmation.answer)?)
        .bind(confirmation.reason.as_deref().map(text))
        .bind(text(confirmation.by.as_str()))
        .bind(time(confirmation.at))
        .bind(confirmation.fingerprint)
        .execute()
        .await?;
    Ok(())
}

/// The input that the decision is about, as JSON: the edited one if the person edited it. `tool_calls` has a large one, and only its hash
/// is repeated here, as the audit has it.
fn input_of(call: &Call) -> Result<String, StoreError> {
    let input = call.effective_input();
    let text = column::json(input)?;
    if text.len() < LEAST_BYTES { Ok(text) } else { column::json(&json!({"sha256": input_hash(input)})) }
}

/// Notes that a tool is no longer allowed for always, after all that people have said until now.
pub async fn end_grant(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    tool: &str,
    by: &Owner,
    at: Timestamp,
) -> Result<(), Fault> {
    connection
        .query(
            "insert into grant_ends (chat_id, position, tool, confirmations, ended_by, ended_at)
             values ($1, (select coalesce(max(position) + 1, 0) from grant_ends where chat_id = $1), $2,
                (select count(*) from confirmations where chat_id = $1), $3, $4)",
        )
        .bind(chat.as_str())
        .bind(text(tool))
        .bind(text(by.as_str()))
        .bind(time(at))
        .execute()
        .await?;
    Ok(())
}

/// All permissions that were taken back in the chat, in order.
pub async fn grant_ends(connection: &mut Connection<'_>, chat: &ChatId) -> Result<Vec<GrantEnd>, Fault> {
    let rows: Vec<(Text, Text, i64, i64)> = connection
        .query(
            "select tool, ended_by, ended_at, confirmations from grant_ends
             where chat_id = $1 order by position",
        )
        .bind(chat.as_str())
        .fetch_all()
        .await?;
    let mut ends = Vec::with_capacity(rows.len());
    for (Text(tool), Text(by), at, after) in rows {
        let after = usize::try_from(after).unwrap_or_default();
        ends.push(GrantEnd { tool, by: Owner::new(by), at: read_time(at)?, after });
    }
    Ok(ends)
}

/// All decisions in the chat, in the order in which they were made.
pub async fn all(connection: &mut Connection<'_>, chat: &ChatId) -> Result<Vec<Confirmation>, Fault> {
    let rows: Vec<Row> = connection
        .query(
            "select tool, call_id, answer, decided_by, decided_at, reason, fingerprint
             from confirmations where chat_id = $1 order by position",
        )
        .bind(chat.as_str())
        .fetch_all()
        .await?;
    let mut confirmations = Vec::with_capacity(rows.len());
    for (Text(tool), Text(call), answer, Text(by), at, reason, fingerprint) in rows {
        confirmations.push(Confirmation {
            tool,
            call: ToolCallId::new(call),
            answer: read_name("an answer", &answer)?,
            by: Owner::new(by),
            at: read_time(at)?,
            reason: reason.map(|Text(reason)| reason),
            fingerprint,
        });
    }
    Ok(confirmations)
}
