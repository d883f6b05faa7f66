//! What people decided. Rows are only ever added; the database itself refuses anything else.

use std::collections::BTreeSet;

use fermata_engine::store::StoreError;
use fermata_protocol::{ChatId, RunId};
use fermata_tools::{Call, Owner};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{
    column::{json, time},
    error::{failed, misfit},
};

pub async fn add(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    run: &RunId,
    call: &Call,
    by: &Owner,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Some(decided) = &call.decided else {
        return Err(misfit(format!("nothing was decided about call {}", call.id)));
    };
    sqlx::query(
        "insert into confirmations
            (chat_id, position, run_id, call_id, tool, approval_id, input, approved, always, reason, decided_by, decided_at)
         values ($1, (select coalesce(max(position) + 1, 0) from confirmations where chat_id = $1),
            $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    )
    .bind(chat.as_str())
    .bind(run.as_str())
    .bind(call.id.as_str())
    .bind(&call.tool)
    .bind(call.question.as_ref().map(|question| question.id.as_str()))
    .bind(json(call.effective_input())?)
    .bind(decided.approved)
    .bind(decided.always)
    .bind(&decided.reason)
    .bind(by.as_str())
    .bind(time(at))
    .execute(connection)
    .await
    .map_err(failed)?;
    Ok(())
}

/// The tools of this chat whose last decision for always was a yes.
pub async fn always(
    connection: &mut SqliteConnection,
    chat: &ChatId,
) -> Result<BTreeSet<String>, StoreError> {
    let decisions: Vec<(String, bool)> = sqlx::query_as(
        "select tool, approved from confirmations where chat_id = $1 and always = 1 order by position",
    )
    .bind(chat.as_str())
    .fetch_all(connection)
    .await
    .map_err(failed)?;
    let mut tools = BTreeSet::new();
    for (tool, approved) in decisions {
        if approved {
            tools.insert(tool)
        } else {
            tools.remove(&tool)
        };
    }
    Ok(tools)
}
