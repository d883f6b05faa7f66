//! Tool calls. They are kept as long as their chat, so that a repeated answer to a settled call can be answered, and for operators.
//!
//! A row has the whole call as JSON, and columns for what queries look for. The view `tool_calls` has more columns for operators.

use fermata_engine::store::StoreError;
use fermata_protocol::{AnswerTarget, ChatId, RunId, ToolCallId};
use fermata_tools::{Call, DecisionSource};

use timing::Timing;

use crate::{
    column::{deadline, json, name, read_json},
    connection::Connection,
    error::{Fault, conflict},
    text::{ParsedJson, text},
};

mod timing;

/// Adds a call, or replaces the one of the same run. A call keeps its position. Its id, its tool and the time when it was made stay as
/// they are: the last two have an index, which SQLite would write again for an update that names them.
const PUT: &str = "insert into calls (
        chat_id, run_id, id, tool, created_at, call, state, run_by, approval_id, error_type, started_at, ended_at, expires_at,
        waited_for_approval, waited_for_turn, ran_for, position
    )
    values (
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
        (select coalesce(max(position) + 1, 0) from calls where chat_id = $1 and run_id = $2)
    )
    on conflict (chat_id, id) do update set
        call = excluded.call, state = excluded.state, run_by = excluded.run_by, approval_id = excluded.approval_id,
        error_type = excluded.error_type, started_at = excluded.started_at, ended_at = excluded.ended_at,
        expires_at = excluded.expires_at, waited_for_approval = excluded.waited_for_approval,
        waited_for_turn = excluded.waited_for_turn, ran_for = excluded.ran_for
    where calls.run_id = excluded.run_id";

pub async fn put(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    call: &Call,
) -> Result<(), Fault> {
    let timing = Timing::of(call.history());
    let elsewhere = conflict(format!("call {} belongs to another run", call.id));
    connection
        .query(PUT)
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .bind(text(call.id.as_str()))
        .bind(text(&call.tool))
        .bind(timing.created_at)
        .bind(ParsedJson(json(call)?))
        .bind(call.state().name().as_str())
        .bind(call.run_by.as_ref().map(name).transpose()?)
        .bind(call.approval_request.as_ref().map(|request| text(request.id.as_str())))
        .bind(call.error_type().map(|kind| kind.as_str()))
        .bind(timing.started_at)
        .bind(timing.ended_at)
        .bind(call.state().expires().map(deadline))
        .bind(timing.waited_for_approval)
        .bind(timing.waited_for_turn)
        .bind(timing.ran_for)
        .execute_or(elsewhere)
        .await
}

/// Has an open run take over the calls of another one.
pub async fn take_over(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    from: &RunId,
    to: &RunId,
) -> Result<(), Fault> {
    connection
        .query("update calls set run_id = $3 where chat_id = $1 and run_id = $2")
        .bind(chat.as_str())
        .bind(text(from.as_str()))
        .bind(text(to.as_str()))
        .execute()
        .await?;
    Ok(())
}

/// Notes the call that retries a failed one for a person. The failed one may belong to any run.
pub async fn note_retry(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    call: &ToolCallId,
    retried_as: &ToolCallId,
) -> Result<(), Fault> {
    let unknown = || conflict(format!("there is no call {call}"));
    let Some(mut retried) = find(connection, chat, &AnswerTarget::Call(call.clone())).await? else {
        return Err(unknown());
    };
    retried.retried_as = Some(retried_as.clone());
    connection
        .query("update calls set call = $3 where chat_id = $1 and id = $2")
        .bind(chat.as_str())
        .bind(text(call.as_str()))
        .bind(ParsedJson(json(&retried)?))
        .execute_or(unknown())
        .await
}

pub async fn find(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    target: &AnswerTarget,
) -> Result<Option<Call>, Fault> {
    let (query, id) = match target {
        AnswerTarget::Call(id) => ("select call from calls where chat_id = $1 and id = $2", id.as_str()),
        AnswerTarget::Approval(id) => {
            ("select call from calls where chat_id = $1 and approval_id = $2", id.as_str())
        }
        AnswerTarget::Elicitation(_) => return Ok(None),
    };
    let found: Option<(ParsedJson,)> =
        connection.query(query).bind(chat.as_str()).bind(text(id)).fetch_optional().await?;
    Ok(found.map(|(ParsedJson(call),)| read_json("a call", &call)).transpose()?)
}

/// The calls of a run, in the order of their first put.
pub async fn of_run(connection: &mut Connection<'_>, chat: &ChatId, run: &RunId) -> Result<Vec<Call>, Fault> {
    let rows: Vec<(ParsedJson,)> = connection
        .query("select call from calls where chat_id = $1 and run_id = $2 order by position")
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .fetch_all()
        .await?;
    rows.iter().map(|(ParsedJson(call),)| Ok(read_json("a call", call)?)).collect()
}

/// The source of a policy decision, as text that an operator can search for. The view `tool_calls` has the same.
pub fn source_name(source: DecisionSource) -> Result<String, StoreError> {
    if let DecisionSource::Rule(number) = source { Ok(format!("rule {number}")) } else { name(&source) }
}
