//! Runs and their logs. A run is open while it has no outcome; what is over takes no further state or chunks.

use fermata_engine::store::{RunRecord, StoreError};
use fermata_protocol::{ChatId, MessageId, RunId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::SqliteConnection;

use crate::{
    calls,
    column::{count, deadline, json, read_json, time},
    error::{failed, misfit},
};

/// Stands before each JSON text of a sequence (RFC 7464). JSON itself can never hold this character.
const SEPARATOR: char = '\u{1e}';

pub async fn open(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    run: &RunId,
    message: &MessageId,
    at: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into runs (chat_id, id, message_id, state, started_at) values ($1, $2, $3, 'null', $4)",
    )
    .bind(chat.as_str())
    .bind(run.as_str())
    .bind(message.as_str())
    .bind(time(at))
    .execute(connection)
    .await
    .map_err(failed)?;
    Ok(())
}

pub async fn save(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    run: &RunId,
    state: &Value,
    expires: Option<Timestamp>,
) -> Result<(), StoreError> {
    let saved = sqlx::query(
        "update runs set state = $3, expires_at = $4 where chat_id = $1 and id = $2 and outcome is null",
    )
    .bind(chat.as_str())
    .bind(run.as_str())
    .bind(json(state)?)
    .bind(expires.map(deadline))
    .execute(connection)
    .await
    .map_err(failed)?;
    if saved.rows_affected() == 0 { Err(not_open(run)) } else { Ok(()) }
}

pub async fn append(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    run: &RunId,
    first: u64,
    chunks: &[String],
) -> Result<(), StoreError> {
    if chunks.is_empty() {
        return Ok(());
    }
    let first = i64::try_from(first).map_err(|_| misfit("no log is that long"))?;
    let appended = sqlx::query(
        "insert into run_chunks (chat_id, run_id, first, next, chunks)
         select chat_id, id, $3, $4, $5 from runs
         where chat_id = $1 and id = $2 and outcome is null and $3 >= coalesce(
            (select next from run_chunks where chat_id = $1 and run_id = $2 order by first desc limit 1), 1)",
    )
    .bind(chat.as_str())
    .bind(run.as_str())
    .bind(first)
    .bind(first.saturating_add(count(chunks.len())))
    .bind(sequence(chunks)?)
    .execute(connection)
    .await
    .map_err(failed)?;
    if appended.rows_affected() == 0 {
        return Err(misfit(format!("run {run} is not open, or its log has places at {first} already")));
    }
    Ok(())
}

/// The run keeps its row and its calls; its log and state go.
pub async fn close(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    run: &RunId,
    outcome: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    let closed = sqlx::query(
        "update runs set outcome = $3, ended_at = $4, state = null, expires_at = null
         where chat_id = $1 and id = $2 and outcome is null",
    )
    .bind(chat.as_str())
    .bind(run.as_str())
    .bind(outcome)
    .bind(time(at))
    .execute(&mut *connection)
    .await
    .map_err(failed)?;
    if closed.rows_affected() == 0 {
        return Err(not_open(run));
    }
    sqlx::query("delete from run_chunks where chat_id = $1 and run_id = $2")
        .bind(chat.as_str())
        .bind(run.as_str())
        .execute(connection)
        .await
        .map_err(failed)?;
    Ok(())
}

/// The chat's open run, with its log and calls.
pub async fn find_open(
    connection: &mut SqliteConnection,
    chat: &ChatId,
) -> Result<Option<RunRecord>, StoreError> {
    let found: Option<(String, String, String)> =
        sqlx::query_as("select id, message_id, state from runs where chat_id = $1 and outcome is null")
            .bind(chat.as_str())
            .fetch_optional(&mut *connection)
            .await
            .map_err(failed)?;
    let Some((id, message, state)) = found else { return Ok(None) };
    let id = RunId::new(id);
    Ok(Some(RunRecord {
        message: MessageId::new(message),
        state: read_json("a run's state", &state)?,
        chunks: chunks(connection, chat, &id).await?,
        calls: calls::of_run(connection, chat, &id).await?,
        id,
    }))
}

/// Chats whose open run has a deadline at or before `now`, the earliest first.
pub async fn due(
    connection: &mut SqliteConnection,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<ChatId>, StoreError> {
    let due: Vec<String> = sqlx::query_scalar(
        "select chat_id from runs
         where outcome is null and expires_at is not null and expires_at <= $1
         order by expires_at, chat_id
         limit $2",
    )
    .bind(time(now))
    .bind(count(limit))
    .fetch_all(connection)
    .await
    .map_err(failed)?;
    Ok(due.into_iter().map(ChatId::new).collect())
}

async fn chunks(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    run: &RunId,
) -> Result<Vec<(u64, String)>, StoreError> {
    let sequences: Vec<(i64, String)> = sqlx::query_as(
        "select first, chunks from run_chunks where chat_id = $1 and run_id = $2 order by first",
    )
    .bind(chat.as_str())
    .bind(run.as_str())
    .fetch_all(connection)
    .await
    .map_err(failed)?;
    let placed =
        |(first, sequence): &(i64, String)| (first.unsigned_abs()..).zip(texts(sequence).collect::<Vec<_>>());
    Ok(sequences.iter().flat_map(placed).collect())
}

fn sequence(chunks: &[String]) -> Result<String, StoreError> {
    let mut sequence = String::with_capacity(chunks.iter().map(|chunk| chunk.len() + 2).sum());
    for chunk in chunks {
        if chunk.contains(SEPARATOR) {
            return Err(misfit("a chunk is no JSON text"));
        }
        sequence.push(SEPARATOR);
        sequence.push_str(chunk);
        sequence.push('\n');
    }
    Ok(sequence)
}

fn texts(sequence: &str) -> impl Iterator<Item = String> {
    sequence.split(SEPARATOR).skip(1).map(|text| text.strip_suffix('\n').unwrap_or(text).to_owned())
}

fn not_open(run: &RunId) -> StoreError {
    misfit(format!("run {run} is not open"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_gives_back_its_texts_byte_by_byte() {
        let chunks = ["{}", "", "{\n \"a\": 1\n}\n"].map(String::from);
        assert_eq!(texts(&sequence(&chunks).unwrap()).collect::<Vec<_>>(), chunks);
    }

    #[test]
    fn a_chunk_that_would_break_the_sequence_is_refused() {
        assert!(matches!(sequence(&["\u{1e}".into()]), Err(StoreError::Conflict(_))));
    }
}
