//! What people decided. Rows are only ever added; the database itself refuses anything else.

use fermata_protocol::{ChatId, RunId, ToolCallId};
use fermata_tools::{Call, Confirmation, Owner};
use jiff::Timestamp;

use super::Connection;
use crate::{
    column::{json, name, read_json, read_name, read_time, time},
    error::{Fault, failed, misfit},
    text::{Text, text},
};

type Row = (Text, Text, String, Text, i64, Option<Text>, String);

pub async fn add(
    connection: &mut Connection,
    chat: &ChatId,
    run: &RunId,
    call: &Call,
    by: &Owner,
    at: Timestamp,
) -> Result<(), Fault> {
    let Some(confirmation) = Confirmation::of(call, by.clone(), at) else {
        return Err(misfit(format!("nothing was decided about call {}", call.id)));
    };
    sqlx::query(
        "insert into confirmations
            (chat_id, position, run_id, call_id, tool, approval_id, input, answer, reason, decided_by, decided_at)
         values ($1, (select coalesce(max(position) + 1, 0) from confirmations where chat_id = $1),
            $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(chat.as_str())
    .bind(text(run.as_str()))
    .bind(text(confirmation.call.as_str()))
    .bind(text(&confirmation.tool))
    .bind(call.question.as_ref().map(|question| text(question.id.as_str())))
    .bind(json(&confirmation.input)?)
    .bind(name(&confirmation.answer)?)
    .bind(confirmation.reason.as_deref().map(text))
    .bind(text(confirmation.by.as_str()))
    .bind(time(confirmation.at))
    .execute(connection)
    .await
    .map_err(failed)?;
    Ok(())
}

/// All of the chat, in the order in which they were given.
pub async fn all(connection: &mut Connection, chat: &ChatId) -> Result<Vec<Confirmation>, Fault> {
    let rows: Vec<Row> = sqlx::query_as(
        "select tool, call_id, answer, decided_by, decided_at, reason, input
         from confirmations where chat_id = $1 order by position",
    )
    .bind(chat.as_str())
    .fetch_all(connection)
    .await
    .map_err(failed)?;
    rows.into_iter().map(confirmation).collect()
}

fn confirmation((tool, call, answer, by, at, reason, input): Row) -> Result<Confirmation, Fault> {
    Ok(Confirmation {
        tool: tool.into(),
        call: ToolCallId::new(call.0),
        answer: read_name("an answer", &answer)?,
        by: Owner::new(by.0),
        at: read_time(at)?,
        reason: reason.map(String::from),
        input: read_json("the input of a confirmation", &input)?,
    })
}
