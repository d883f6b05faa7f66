//! What people decided. Rows are only ever added; the database itself refuses anything else.

use fermata_engine::store::StoreError;
use fermata_protocol::{ChatId, RunId, ToolCallId};
use fermata_tools::{Call, Confirmation, Owner};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{
    column::{json, name, read_json, read_name, read_time, time},
    error::{failed, misfit},
};

type Row = (String, String, String, String, i64, Option<String>, String);

pub async fn add(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    run: &RunId,
    call: &Call,
    by: &Owner,
    at: Timestamp,
) -> Result<(), StoreError> {
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
    .bind(run.as_str())
    .bind(confirmation.call.as_str())
    .bind(confirmation.tool)
    .bind(call.question.as_ref().map(|question| question.id.as_str()))
    .bind(json(&confirmation.input)?)
    .bind(name(&confirmation.answer)?)
    .bind(confirmation.reason)
    .bind(confirmation.by.as_str())
    .bind(time(confirmation.at))
    .execute(connection)
    .await
    .map_err(failed)?;
    Ok(())
}

/// All of the chat, in the order in which they were given.
pub async fn all(connection: &mut SqliteConnection, chat: &ChatId) -> Result<Vec<Confirmation>, StoreError> {
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

fn confirmation((tool, call, answer, by, at, reason, input): Row) -> Result<Confirmation, StoreError> {
    Ok(Confirmation {
        tool,
        call: ToolCallId::new(call),
        answer: read_name("an answer", &answer)?,
        by: Owner::new(by),
        at: read_time(at)?,
        reason,
        input: read_json("the input of a confirmation", &input)?,
    })
}
