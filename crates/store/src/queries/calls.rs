//! Tool calls. They are kept as long as their chat, so that a repeated answer to a settled call can be answered, and for operators.

use std::sync::LazyLock;

use fermata_protocol::{AnswerTarget, ChatId, RunId, ToolCallId};
use fermata_tools::Call;

use row::Row;

use crate::{
    connection::Connection,
    error::{Fault, conflict},
    text::text,
};

pub mod row;
mod timing;

/// The columns of a call that stay as they are. The last two have an index, which SQLite would write again for an update that names them.
const FIXED: [&str; 3] = ["id", "tool", "created_at"];

/// Adds a call, or replaces the one of the same run. A call keeps its position.
static PUT: LazyLock<String> = LazyLock::new(|| {
    // The chat and the run are bound first.
    let parameters: Vec<String> = (3..Row::COLUMNS.len() + 3).map(|number| format!("${number}")).collect();
    let updates: Vec<String> = Row::COLUMNS
        .iter()
        .filter(|column| !FIXED.contains(column))
        .map(|column| format!("{column} = excluded.{column}"))
        .collect();
    format!(
        "insert into tool_calls (chat_id, run_id, position, {})
         values ($1, $2, (select coalesce(max(position) + 1, 0) from tool_calls where chat_id = $1 and run_id = $2), {})
         on conflict (chat_id, id) do update set {}
         where tool_calls.run_id = excluded.run_id",
        Row::COLUMNS.join(", "),
        parameters.join(", "),
        updates.join(", ")
    )
});

static FIND: LazyLock<String> = LazyLock::new(|| select("where chat_id = $1 and id = $2"));

static FIND_BY_APPROVAL: LazyLock<String> =
    LazyLock::new(|| select("where chat_id = $1 and approval_id = $2"));

static OF_RUN: LazyLock<String> =
    LazyLock::new(|| select("where chat_id = $1 and run_id = $2 order by position"));

/// A query for whole rows.
fn select(rest: &str) -> String {
    format!("select {} from tool_calls {rest}", Row::COLUMNS.join(", "))
}

pub async fn put(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    call: &Call,
) -> Result<(), Fault> {
    let put = connection.query(&PUT).bind(chat.as_str()).bind(text(run.as_str()));
    let elsewhere = conflict(format!("call {} belongs to another run", call.id));
    Row::of(call)?.bind(put).execute_or(elsewhere).await
}

/// Has an open run take over the calls of another one.
pub async fn take_over(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    from: &RunId,
    to: &RunId,
) -> Result<(), Fault> {
    connection
        .query("update tool_calls set run_id = $3 where chat_id = $1 and run_id = $2")
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
        .query("update tool_calls set more = $3 where chat_id = $1 and id = $2")
        .bind(chat.as_str())
        .bind(text(call.as_str()))
        .bind(Row::of(&retried)?.more())
        .execute_or(unknown())
        .await
}

pub async fn find(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    target: &AnswerTarget,
) -> Result<Option<Call>, Fault> {
    let (query, id) = match target {
        AnswerTarget::Call(id) => (&FIND, id.as_str()),
        AnswerTarget::Approval(id) => (&FIND_BY_APPROVAL, id.as_str()),
        AnswerTarget::Elicitation(_) => return Ok(None),
    };
    let row: Option<Row> =
        connection.query(query).bind(chat.as_str()).bind(text(id)).fetch_optional().await?;
    Ok(row.map(Row::call).transpose()?)
}

/// The calls of a run, in the order of their first put.
pub async fn of_run(connection: &mut Connection<'_>, chat: &ChatId, run: &RunId) -> Result<Vec<Call>, Fault> {
    let rows: Vec<Row> =
        connection.query(&OF_RUN).bind(chat.as_str()).bind(text(run.as_str())).fetch_all().await?;
    rows.into_iter().map(|row| Ok(row.call()?)).collect()
}
