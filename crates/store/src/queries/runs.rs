//! Runs and their logs. A run is open while it has no outcome; a run that is over takes no further state or chunks.

use fermata_engine::store::{Change, InstanceId, RunRecord};
use fermata_protocol::{ChatId, MessageId, RunId};
use jiff::Timestamp;
use serde_json::Value;

use super::calls;
use crate::{
    column::{count, deadline, json, read_json, time},
    connection::{Connection, Query, row},
    error::{Fault, conflict},
    text::{Text, text},
};

/// Stands before each JSON text of a sequence (RFC 7464). JSON itself can never hold this character, nor U+0000.
const SEPARATOR: char = '\u{1e}';

/// The current state of an open run, as [`Change::SaveRun`] has it.
#[derive(Clone, Copy)]
pub struct RunState<'a> {
    pub state: &'a Value,
    pub expires: Option<Timestamp>,
    pub waiting: bool,
    pub detached: bool,
    pub questions: usize,
    pub owner: Option<&'a InstanceId>,
    pub attempts: u32,
}

// === impl RunState ===

impl<'a> RunState<'a> {
    /// The state that these changes leave the run in; `None` if they do not change it.
    pub fn of(changes: &'a [Change], run: &RunId) -> Option<Self> {
        changes.iter().rev().find_map(|change| match change {
            Change::SaveRun { run: saved, state, expires, waiting, detached, questions, owner, attempts }
                if saved == run =>
            {
                Some(Self {
                    state,
                    expires: *expires,
                    waiting: *waiting,
                    detached: *detached,
                    questions: *questions,
                    owner: owner.as_ref(),
                    attempts: *attempts,
                })
            }
            _ => None,
        })
    }

    /// The state of a run before its first save.
    pub fn unsaved(owner: &'a InstanceId) -> Self {
        Self {
            state: &Value::Null,
            expires: None,
            waiting: false,
            detached: false,
            questions: 0,
            owner: Some(owner),
            attempts: 0,
        }
    }

    fn bind<'c>(self, query: Query<'c>) -> Result<Query<'c>, Fault>
    where
        'a: 'c,
    {
        Ok(query
            .bind(json(self.state)?)
            .bind(self.expires.map(deadline))
            .bind(self.waiting)
            .bind(self.detached)
            .bind(i64::try_from(self.questions).unwrap_or(i64::MAX))
            .bind(self.owner.map(|owner| text(owner.as_str())))
            .bind(i64::from(self.attempts)))
    }
}

row! {
    /// An open run as its rows have it.
    struct OpenRun {
        id: Text,
        message_id: Text,
        /// The size of that message, if the chat has it already.
        message_bytes: Option<i64>,
        state: String,
        waiting: bool,
        attempts: i64,
        /// The instance that owns it, if that is alive.
        owner: Option<Text>,
        settings: Option<String>,
    }
}

/// Adds a run, which has this state from the beginning on.
pub async fn open(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    message: &MessageId,
    run_state: RunState<'_>,
    at: Timestamp,
) -> Result<(), Fault> {
    let insert = connection
        .query(
            "insert into runs (chat_id, id, state, expires_at, waiting, detached, questions, instance, attempts,
                message_id, started_at, owner)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, (select owner from chats where id = $1))",
        )
        .bind(chat.as_str())
        .bind(text(run.as_str()));
    run_state.bind(insert)?.bind(text(message.as_str())).bind(time(at)).execute().await?;
    Ok(())
}

pub async fn save(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    run_state: RunState<'_>,
) -> Result<(), Fault> {
    let (chat, id) = (chat.as_str(), text(run.as_str()));
    if matches!(connection, Connection::Sqlite(_)) {
        // SQLite writes the indexes of a column again for each update that names it, and the instance seldom changes.
        let update = connection
            .query(
                "update runs set state = $3, expires_at = $4, waiting = $5, detached = $6, questions = $7, attempts = $9
                 where chat_id = $1 and id = $2 and outcome is null and instance is $8",
            )
            .bind(chat)
            .bind(id);
        if run_state.bind(update)?.count().await? == 1 {
            return Ok(());
        }
    }
    let update = connection
        .query(
            "update runs set state = $3, expires_at = $4, waiting = $5, detached = $6, questions = $7,
                instance = $8, attempts = $9
             where chat_id = $1 and id = $2 and outcome is null",
        )
        .bind(chat)
        .bind(id);
    run_state.bind(update)?.execute_or(not_open(run)).await
}

/// Puts the settings of an open run, which are kept with its log.
pub async fn put_settings(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    settings: &Value,
) -> Result<(), Fault> {
    connection
        .query(
            "insert into run_settings (chat_id, run_id, settings)
             select chat_id, id, $3 from runs where chat_id = $1 and id = $2 and outcome is null
             on conflict (chat_id, run_id) do update set settings = excluded.settings",
        )
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .bind(json(settings)?)
        .execute_or(not_open(run))
        .await
}

/// Saves the instance that owns the run from now on; `None` if none does.
pub async fn set_owner(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    owner: Option<&InstanceId>,
    attempts: u32,
) -> Result<(), Fault> {
    connection
        .query(
            "update runs set instance = $3, attempts = $4 where chat_id = $1 and id = $2 and outcome is null",
        )
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .bind(owner.map(|owner| text(owner.as_str())))
        .bind(i64::from(attempts))
        .execute_or(not_open(run))
        .await
}

pub async fn append(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    first: u64,
    chunks: &[String],
) -> Result<(), Fault> {
    if chunks.is_empty() {
        return Ok(());
    }
    let first = i64::try_from(first).map_err(|_| conflict("no log is that long"))?;
    let refused = || conflict(format!("run {run} is not open, or its log has places at {first} already"));
    let append = match connection {
        // SQLite would run an insert that reads its own table through a temporary table, so a query reads it first.
        Connection::Sqlite(_) => {
            let next: Option<(i64,)> = connection
                .query(
                    "select coalesce((
                        select next from run_chunks where chat_id = $1 and run_id = $2 order by first desc limit 1
                     ), 1)
                     from runs where chat_id = $1 and id = $2 and outcome is null",
                )
                .bind(chat.as_str())
                .bind(text(run.as_str()))
                .fetch_optional()
                .await?;
            if next.is_none_or(|(next,)| first < next) {
                return Err(refused());
            }
            "insert into run_chunks (chat_id, run_id, first, next, chunks) values ($1, $2, $3, $4, $5)"
        }
        Connection::Postgres(_) => {
            "insert into run_chunks (chat_id, run_id, first, next, chunks)
             select chat_id, id, $3, $4, $5 from runs
             where chat_id = $1 and id = $2 and outcome is null and $3 >= coalesce(
                (select next from run_chunks where chat_id = $1 and run_id = $2 order by first desc limit 1), 1)"
        }
    };
    connection
        .query(append)
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .bind(first)
        .bind(first.saturating_add(count(chunks.len())))
        .bind(sequence(chunks)?)
        .execute_or(refused())
        .await
}

/// The run keeps its row and its calls, and loses its state. Its log and settings go later, with those of others ([`forget_logs`]).
pub async fn close(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
    outcome: &str,
    at: Timestamp,
) -> Result<(), Fault> {
    connection
        .query(
            "update runs set outcome = $3, ended_at = $4, state = null, expires_at = null, instance = null,
                has_log = exists (
                    select 1 from run_chunks where run_chunks.chat_id = $1 and run_chunks.run_id = $2
                )
             where chat_id = $1 and id = $2 and outcome is null",
        )
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .bind(outcome)
        .bind(time(at))
        .execute_or(not_open(run))
        .await
}

/// The log of a run that is over, if it is still kept.
pub async fn finished_log(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
) -> Result<Option<Vec<(u64, String)>>, Fault> {
    let kept: Option<(i64,)> = connection
        .query("select ended_at from runs where chat_id = $1 and id = $2 and has_log")
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .fetch_optional()
        .await?;
    match kept {
        Some(_) => chunks(connection, chat, run).await.map(Some),
        None => Ok(None),
    }
}

/// Deletes what belongs to the runs of a list.
macro_rules! forget_rows {
    ($table:literal, $runs:literal) => {
        concat!(
            "delete from ",
            $table,
            " where (chat_id, run_id) in (select run.value ->> 0, run.value ->> 1 from ",
            $runs,
            ")"
        )
    };
}

/// Forgets the logs and settings of at most `limit` runs that ended before a time. Returns the number of those runs.
pub async fn forget_logs(
    connection: &mut Connection<'_>,
    before: Timestamp,
    limit: usize,
) -> Result<usize, Fault> {
    // Only the code that changes the runs deletes what belongs to them.
    let forgotten: Vec<(String, String)> = connection
        .query(
            "update runs set has_log = false
             where has_log and (chat_id, id) in (
                select chat_id, id from runs where has_log and ended_at < $1 order by ended_at, chat_id, id limit $2
             )
             returning chat_id, id",
        )
        .bind(time(before))
        .bind(count(limit))
        .fetch_all()
        .await?;
    let forget = connection.choose(
        [
            forget_rows!("run_chunks", "json_each($1) as run"),
            forget_rows!("run_settings", "json_each($1) as run"),
        ],
        [
            forget_rows!("run_chunks", "jsonb_array_elements($1::jsonb) as run (value)"),
            forget_rows!("run_settings", "jsonb_array_elements($1::jsonb) as run (value)"),
        ],
    );
    for forget in forget {
        connection.query(forget).bind(json(&forgotten)?).execute().await?;
    }
    Ok(forgotten.len())
}

/// The chat's open run with its log and calls, and the instance alive that owns it.
pub async fn find_open(
    connection: &mut Connection<'_>,
    chat: &ChatId,
) -> Result<Option<(RunRecord, Option<InstanceId>)>, Fault> {
    let found: Option<OpenRun> = connection
        .query(
            "select id, message_id, state, waiting, attempts,
                (select id from instances where instances.id = runs.instance) as owner,
                (select cast(octet_length(body) + bytes_elsewhere as bigint) from messages
                 where messages.chat_id = runs.chat_id and messages.id = runs.message_id) as message_bytes,
                (select settings from run_settings
                 where run_settings.chat_id = runs.chat_id and run_settings.run_id = runs.id) as settings
             from runs where chat_id = $1 and outcome is null",
        )
        .bind(chat.as_str())
        .fetch_optional()
        .await?;
    let Some(found) = found else { return Ok(None) };
    let id = RunId::new(found.id.0);
    let run = RunRecord {
        message: MessageId::new(found.message_id.0),
        message_bytes: found.message_bytes.map_or(0, |bytes| usize::try_from(bytes).unwrap_or_default()),
        settings: match found.settings {
            Some(settings) => read_json("a run's settings", &settings)?,
            None => Value::Null,
        },
        state: read_json("a run's state", &found.state)?,
        chunks: chunks(connection, chat, &id).await?,
        calls: calls::of_run(connection, chat, &id).await?,
        waiting: found.waiting,
        attempts: u32::try_from(found.attempts).unwrap_or(u32::MAX),
        id,
    };
    Ok(Some((run, found.owner.map(|Text(owner)| InstanceId::new(owner)))))
}

/// Chats with an open run that no instance alive owns and whose deadline is at or before `now`, the earliest first.
pub async fn due(
    connection: &mut Connection<'_>,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<ChatId>, Fault> {
    let due: Vec<(String,)> = connection
        .query(
            "select chat_id from runs
             where outcome is null and expires_at is not null and expires_at <= $1
                and not exists (select 1 from instances where instances.id = runs.instance)
             order by expires_at, chat_id
             limit $2",
        )
        .bind(time(now))
        .bind(count(limit))
        .fetch_all()
        .await?;
    Ok(due.into_iter().map(|(chat,)| ChatId::new(chat)).collect())
}

/// Chats with an open run that no instance alive owns and that does not wait, the oldest run first.
pub async fn orphans(connection: &mut Connection<'_>, limit: usize) -> Result<Vec<ChatId>, Fault> {
    let find = connection.choose(ORPHANS_IN_SQLITE, ORPHANS_IN_POSTGRES);
    let orphans: Vec<(String,)> = connection.query(find).bind(count(limit)).fetch_all().await?;
    Ok(orphans.into_iter().map(|(chat,)| ChatId::new(chat)).collect())
}

/// The query for [`orphans`]. It asks the index of runs at work for one instance after the other, so it does not look at the runs of
/// instances that are alive. SQLite needs the name of the index, or it would look at every run that waits.
macro_rules! orphans {
    ($runs:literal) => {
        concat!(
            "with recursive at_work (instance) as (
                select (select min(instance) from ", $runs, " where outcome is null and not waiting and instance is not null)
                union all
                select (select min(runs.instance) from ", $runs, "
                        where runs.outcome is null and not runs.waiting and runs.instance > at_work.instance)
                from at_work where at_work.instance is not null
             ),
             gone (instance) as (
                select instance from at_work
                where instance is not null and not exists (select 1 from instances where instances.id = at_work.instance)
             ),
             orphans as (
                select chat_id, started_at from ", $runs, " where outcome is null and not waiting and instance is null
                union all
                select runs.chat_id, runs.started_at from gone cross join ", $runs, "
                where runs.instance = gone.instance and runs.outcome is null and not runs.waiting
             )
             select chat_id from orphans order by started_at, chat_id limit $1"
        )
    };
}

const ORPHANS_IN_SQLITE: &str = orphans!("runs indexed by runs_at_work_by_instance");
const ORPHANS_IN_POSTGRES: &str = orphans!("runs");

async fn chunks(
    connection: &mut Connection<'_>,
    chat: &ChatId,
    run: &RunId,
) -> Result<Vec<(u64, String)>, Fault> {
    let sequences: Vec<(i64, String)> = connection
        .query("select first, chunks from run_chunks where chat_id = $1 and run_id = $2 order by first")
        .bind(chat.as_str())
        .bind(text(run.as_str()))
        .fetch_all()
        .await?;
    let chunks = sequences.iter().flat_map(|(first, sequence)| (first.unsigned_abs()..).zip(texts(sequence)));
    Ok(chunks.collect())
}

fn sequence(chunks: &[String]) -> Result<String, Fault> {
    let mut sequence = String::with_capacity(chunks.iter().map(|chunk| chunk.len() + 2).sum());
    for chunk in chunks {
        if memchr::memchr2(SEPARATOR as u8, 0, chunk.as_bytes()).is_some() {
            return Err(conflict("a chunk is no JSON text"));
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

fn not_open(run: &RunId) -> Fault {
    conflict(format!("run {run} is not open"))
}

#[cfg(test)]
mod tests {
    use fermata_engine::store::StoreError;

    use super::*;
    use crate::error::failed_in_sqlite;

    #[test]
    fn a_sequence_gives_back_its_texts_byte_by_byte() {
        let chunks = ["{}", "", "{\n \"a\": 1\n}\n"].map(String::from);
        assert_eq!(texts(&sequence(&chunks).unwrap()).collect::<Vec<_>>(), chunks);
    }

    #[tokio::test]
    async fn sqlite_looks_at_no_run_that_waits_when_it_looks_for_orphans() {
        let database = crate::sqlite::open::open("sqlite::memory:", true).await.unwrap();
        let plan = database.writer.transact(async |turn| {
            let explain = format!("explain query plan {ORPHANS_IN_SQLITE}");
            let mut statement = turn.prepare(&explain).map_err(failed_in_sqlite)?;
            let steps = statement.query_map([1], |row| row.get::<_, String>("detail"));
            steps.and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed_in_sqlite)
        });
        let plan = plan.await.unwrap();
        let runs: Vec<_> = plan.iter().filter(|step| step.contains(" runs ")).collect();
        assert_eq!(runs.len(), 4, "{plan:?}");
        assert!(
            runs.iter().all(|step| step.contains("INDEX runs_at_work_by_instance (instance")),
            "{plan:?}"
        );
    }

    #[test]
    fn a_chunk_that_would_break_the_sequence_is_refused() {
        assert!(matches!(sequence(&["\u{1e}".into()]), Err(Fault::Store(StoreError::Conflict(_)))));
    }
}
