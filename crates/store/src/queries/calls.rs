//! Tool calls, kept for as long as their chat, so that answers to settled ones can be answered and operators can ask.

use fermata_protocol::{AnswerTarget, ChatId, RunId};
use fermata_tools::Call;

use row::Row;

use crate::{
    connection::Connection,
    error::{Fault, misfit},
    text::text,
};

pub mod row;
mod timing;

/// A query for whole rows of calls.
macro_rules! select_calls {
    ($rest:literal) => {
        concat!(
            "select id, step, tool, run_by, state, states, created_at, started_at, ended_at, expires_at,
                waited_for_approval, waited_for_turn, ran_for, decision, ruled_by, ruling_reason, approval_id,
                approval_required, approved, for_always, decided_by, decided_reason, input, edited_input, outcome,
                error_type, answered, more
             from tool_calls ",
            $rest
        )
    };
}

pub async fn put(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    call: &Call,
) -> Result<(), Fault> {
    let row = Row::of(call)?;
    let put = connection
        .query(
            "insert into tool_calls (chat_id, run_id, position, id, step, tool, run_by, state, states, created_at,
                started_at, ended_at, expires_at, waited_for_approval, waited_for_turn, ran_for, decision, ruled_by,
                ruling_reason, approval_id, approval_required, approved, for_always, decided_by, decided_reason, input,
                edited_input, outcome, error_type, answered, more)
             values ($1, $2,
                (select coalesce(max(position) + 1, 0) from tool_calls where chat_id = $1 and run_id = $2),
                $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
                $25, $26, $27, $28, $29, $30)
             on conflict (chat_id, id) do update
             set step = excluded.step, tool = excluded.tool, run_by = excluded.run_by, state = excluded.state,
                states = excluded.states, created_at = excluded.created_at, started_at = excluded.started_at,
                ended_at = excluded.ended_at, expires_at = excluded.expires_at,
                waited_for_approval = excluded.waited_for_approval, waited_for_turn = excluded.waited_for_turn,
                ran_for = excluded.ran_for, decision = excluded.decision, ruled_by = excluded.ruled_by,
                ruling_reason = excluded.ruling_reason, approval_id = excluded.approval_id,
                approval_required = excluded.approval_required, approved = excluded.approved,
                for_always = excluded.for_always, decided_by = excluded.decided_by,
                decided_reason = excluded.decided_reason, input = excluded.input, edited_input = excluded.edited_input,
                outcome = excluded.outcome, error_type = excluded.error_type, answered = excluded.answered,
                more = excluded.more
             where tool_calls.run_id = excluded.run_id",
        )
    .bind(chat.as_str())
    .bind(text(run.as_str()));
    if row.bind(put).execute().await? == 0 {
        return Err(misfit(format!("call {} belongs to another run", call.id)));
    }
    Ok(())
}

pub async fn find(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    target: &AnswerTarget,
) -> Result<Option<Call>, Fault> {
    let (query, id) = match target {
        AnswerTarget::Call(id) => (select_calls!("where chat_id = $1 and id = $2"), id.as_str()),
        AnswerTarget::Approval(id) => (select_calls!("where chat_id = $1 and approval_id = $2"), id.as_str()),
        AnswerTarget::Elicitation(_) => return Ok(None),
    };
    let row: Option<Row> =
        connection.query(query).bind(chat.as_str()).bind(text(id)).fetch_optional().await?;
    Ok(row.map(Row::call).transpose()?)
}

/// The calls of a run, in the order they were first put.
pub async fn of_run(connection: &mut Connection<'_>, chat: &ChatId, run: &RunId) -> Result<Vec<Call>, Fault> {
    let rows: Vec<Row> = connection
        .query(select_calls!("where chat_id = $1 and run_id = $2 order by position"))
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .fetch_all()
        .await?;
    rows.into_iter().map(|row| Ok(row.call()?)).collect()
}
