//! The plans of runs, and their steps.

use fermata_engine::store::StoreError;
use fermata_protocol::{ChatId, Plan, PlanState, PlanStep, RunId, ToolCallId};
use jiff::Timestamp;

use crate::{
    column::{count, json, read_json, read_name, time},
    connection::{Connection, row},
    error::Fault,
    text::{Text, text},
};

row! {
    struct SavedPlan {
        run_id: Text,
        goal: Text,
        state: String,
    }
}

row! {
    struct SavedStep {
        id: Text,
        title: Text,
        tool: Option<Text>,
        depends_on: String,
        state: String,
        note: Option<Text>,
        call_id: Option<Text>,
    }
}

/// Adds the plan of a run, or replaces the one that it has.
pub async fn put(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    plan: &Plan,
    at: Timestamp,
) -> Result<(), Fault> {
    connection
        .query(
            "insert into plans (chat_id, run_id, goal, state, created_at, changed_at) values ($1, $2, $3, $4, $5, $5)
             on conflict (chat_id, run_id) do update
             set goal = excluded.goal, state = excluded.state, changed_at = excluded.changed_at",
        )
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .bind(text(&plan.goal))
        .bind(plan.state.as_str())
        .bind(time(at))
        .execute()
        .await?;
    connection
        .query("delete from plan_steps where chat_id = $1 and run_id = $2 and position >= $3")
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .bind(count(plan.steps.len()))
        .execute()
        .await?;
    for (position, step) in plan.steps.iter().enumerate() {
        connection
            .query(
                "insert into plan_steps (chat_id, run_id, position, id, title, tool, depends_on, state, note, call_id)
                 values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
                 on conflict (chat_id, run_id, position) do update
                 set id = excluded.id, title = excluded.title, tool = excluded.tool,
                     depends_on = excluded.depends_on, state = excluded.state, note = excluded.note,
                     call_id = excluded.call_id",
            )
            .bind(chat.as_str())
            .bind(text(run.as_str()))
            .bind(count(position))
            .bind(text(&step.id))
            .bind(text(&step.title))
            .bind(step.tool.as_deref().map(text))
            .bind(json(&step.depends_on)?)
            .bind(step.state.as_str())
            .bind(step.note.as_deref().map(text))
            .bind(step.tool_call_id.as_ref().map(|call| text(call.as_str())))
            .execute()
            .await?;
    }
    Ok(())
}

/// Has no plan of the chat be open any more.
pub async fn drop_open(connection: &mut Connection<'_>, chat: &ChatId, at: Timestamp) -> Result<(), Fault> {
    connection
        .query("update plans set state = $2, changed_at = $3 where chat_id = $1 and state = $4")
        .bind(chat.as_str())
        .bind(PlanState::Denied.as_str())
        .bind(time(at))
        .bind(PlanState::Accepted.as_str())
        .execute()
        .await
}

/// The plan of the last run that is over, had one, and whose message is among the first `most` ones.
pub async fn last(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    most: usize,
) -> Result<Option<Plan>, Fault> {
    let found: Option<SavedPlan> = connection
        .query(
            "select plans.run_id, plans.goal, plans.state from plans
             join runs on runs.chat_id = plans.chat_id and runs.id = plans.run_id
             join messages on messages.chat_id = runs.chat_id and messages.id = runs.message_id and messages.position < $2
             where plans.chat_id = $1 and runs.ended_at is not null
             order by plans.created_at desc, runs.started_at desc limit 1",
        )
        .bind(chat.as_str())
        .bind(count(most))
        .fetch_optional()
        .await?;
    let Some(SavedPlan { run_id: Text(run), goal: Text(goal), state }) = found else { return Ok(None) };
    let saved: Vec<SavedStep> = connection
        .query(
            "select id, title, tool, depends_on, state, note, call_id from plan_steps
             where chat_id = $1 and run_id = $2 order by position",
        )
        .bind(chat.as_str())
        .bind(text(&run))
        .fetch_all()
        .await?;
    let steps: Result<Vec<PlanStep>, StoreError> = saved
        .into_iter()
        .map(|SavedStep { id: Text(id), title: Text(title), tool, depends_on, state, note, call_id }| {
            Ok(PlanStep {
                id,
                title,
                tool: tool.map(|Text(tool)| tool),
                depends_on: read_json("the steps that a step depends on", &depends_on)?,
                state: read_name("the state of a step", &state)?,
                note: note.map(|Text(note)| note),
                tool_call_id: call_id.map(|Text(call)| ToolCallId::new(call)),
            })
        })
        .collect();
    Ok(Some(Plan { goal, state: read_name("the state of a plan", &state)?, steps: steps? }))
}
