//! Calls, kept for as long as their chat, so that answers to settled ones can be answered.

use fermata_engine::store::StoreError;
use fermata_protocol::{AnswerTarget, ChatId, RunId};
use fermata_tools::Call;
use sqlx::SqliteConnection;

use crate::{
    column::{deadline, json, read_json},
    error::{failed, misfit},
};

pub async fn put(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    run: &RunId,
    call: &Call,
) -> Result<(), StoreError> {
    let put = sqlx::query(
        "insert into calls (chat_id, run_id, position, id, step, tool, state, approval_id, expires_at, body)
         values ($1, $2,
            (select coalesce(max(position) + 1, 0) from calls where chat_id = $1 and run_id = $2),
            $3, $4, $5, $6, $7, $8, $9)
         on conflict (chat_id, id) do update
         set step = excluded.step, tool = excluded.tool, state = excluded.state, approval_id = excluded.approval_id,
            expires_at = excluded.expires_at, body = excluded.body
         where calls.run_id = excluded.run_id",
    )
    .bind(chat.as_str())
    .bind(run.as_str())
    .bind(call.id.as_str())
    .bind(call.step)
    .bind(&call.tool)
    .bind(call.state().name().as_str())
    .bind(call.question.as_ref().map(|question| question.id.as_str()))
    .bind(call.expires.map(deadline))
    .bind(json(call)?)
    .execute(connection)
    .await
    .map_err(failed)?;
    if put.rows_affected() == 0 {
        return Err(misfit(format!("call {} belongs to another run", call.id)));
    }
    Ok(())
}

pub async fn find(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    target: &AnswerTarget,
) -> Result<Option<Call>, StoreError> {
    let (query, id) = match target {
        AnswerTarget::Call(id) => ("select body from calls where chat_id = $1 and id = $2", id.as_str()),
        AnswerTarget::Approval(id) => {
            ("select body from calls where chat_id = $1 and approval_id = $2", id.as_str())
        }
        AnswerTarget::Elicitation(_) => return Ok(None),
    };
    let body: Option<String> = sqlx::query_scalar(query)
        .bind(chat.as_str())
        .bind(id)
        .fetch_optional(connection)
        .await
        .map_err(failed)?;
    body.map(|body| read_json("a call", &body)).transpose()
}

/// The calls of a run, in the order they were first put.
pub async fn of_run(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    run: &RunId,
) -> Result<Vec<Call>, StoreError> {
    let bodies: Vec<String> =
        sqlx::query_scalar("select body from calls where chat_id = $1 and run_id = $2 order by position")
            .bind(chat.as_str())
            .bind(run.as_str())
            .fetch_all(connection)
            .await
            .map_err(failed)?;
    bodies.iter().map(|body| read_json("a call", body)).collect()
}
