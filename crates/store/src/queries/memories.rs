//! Memories as rows, and the changes of them that can be undone.
//!
//! Invariant: of the changes of one owner's memories one is decided at a time, and it sees all that were decided before
//! ([`lock_owner`]). The lock comes after the row of a chat, where a commit has it already, and before the rows of memories. Nobody who has it
//! waits for a commit to another chat, because a source only keeps its chat from being deleted. A deletion of a chat, which has no such lock,
//! may collide with a change; then the database undoes one of them, and it is done again.

use fermata_engine::store::{
    StoreError,
    memories::{
        MAX_EVENTS, Memory, MemoryAuthor, MemoryChange, MemoryEvent, MemoryFilter, MemoryId, MemoryOutcome,
        MemorySource, NewMemory, OwnedMemories, Undone,
    },
};
use fermata_protocol::{ChatId, MessageId};
use fermata_tools::Owner;
use jiff::Timestamp;
use rusqlite::types::FromSql;
use tokio_postgres::types::FromSqlOwned;

use super::audit;
use crate::{
    column::{count, json, read_json, read_name, read_time, time},
    connection::{Connection, FromRow, row},
    error::Fault,
    text::{Text, TextRef, text},
};

row! {
    /// A memory with its owner.
    pub struct MemoryRow {
        owner: Text,
        id: Text,
        kind: String,
        text: Text,
        slot: Option<Text>,
        pinned: bool,
        chat_id: Option<String>,
        message_id: Option<Text>,
        origin: String,
        created_at: i64,
        recalled_at: Option<i64>,
        version: i64,
    }
}

/// The columns of a [`MemoryRow`], for queries that are put together.
pub const COLUMNS: &str =
    "owner, id, kind, text, slot, pinned, chat_id, message_id, origin, created_at, recalled_at, version";

/// A memory with a value that the query has computed for it.
pub struct MemoryAnd<T> {
    pub memory: MemoryRow,
    pub value: T,
}

/// The first key of the advisory locks on owners; the second is a hash of the owner.
const OWNER_LOCKS: i32 = 0x4665_6d6d;

/// The memories that are meant, newest first.
pub async fn find(
    connection: &mut Connection<'_>,
    owner: &Owner,
    filter: &MemoryFilter,
) -> Result<Vec<Memory>, Fault> {
    // Without a cursor the list begins at the end of time.
    let (created_at, id) = match &filter.after {
        Some(after) => (time(after.created_at), after.id.0.as_str()),
        None => (i64::MAX, ""),
    };
    let rows: Vec<MemoryRow> = connection
        .query(
            "select owner, id, kind, text, slot, pinned, chat_id, message_id, origin, created_at, recalled_at, version
             from memories
             where owner = $1 and (created_at, id) < ($2, $3)
                and kind = coalesce($4, kind) and (slot is not null or pinned) = coalesce($5, slot is not null or pinned)
                and ($6 is null or embedded_by is distinct from $6 or not exists (
                    select 1 from memory_vectors
                    where memory_vectors.owner = memories.owner and memory_id = memories.id and dims = $7
                ))
             order by created_at desc, id desc
             limit $8",
        )
        .bind(text(owner.as_str()))
        .bind(created_at)
        .bind(text(id))
        .bind(filter.kind.map(|kind| kind.as_str()))
        .bind(filter.is_always)
        .bind(filter.without_vector.as_ref().map(|kind| text(&kind.model)))
        .bind(filter.without_vector.as_ref().map(|kind| count(kind.dimensions)))
        .bind(count(filter.limit.unwrap_or(usize::MAX)))
        .fetch_all()
        .await?;
    rows.into_iter().map(|row| Ok(row.into_memory()?.1)).collect()
}

/// Makes changes, and returns the outcome of each. If it fails, the transaction has to be rolled back.
pub async fn change(
    transaction: &mut Connection<'_>,
    owner: &Owner,
    at: Timestamp,
    mut changes: Vec<MemoryChange>,
    most: usize,
    author: &MemoryAuthor,
) -> Result<Vec<MemoryOutcome>, Fault> {
    lock_owner(transaction, owner).await?;
    for change in &mut changes {
        if let MemoryChange::Save(NewMemory { source, .. }) | MemoryChange::Edit { source, .. } = change {
            keep_source(transaction, owner, source).await?;
        }
    }
    let mut owned = all(transaction, owner).await?;
    let mut events = Vec::new();
    let outcomes = owned.change(changes, at, most, &author.origin, &mut events);
    for event in &events {
        write(transaction, owner, event).await?;
        audit::add(transaction, &author.entry(owner, event), at).await?;
    }
    note(transaction, owner, at, &events).await?;
    Ok(outcomes)
}

/// Undoes the newest change of a memory. If it fails, the transaction has to be rolled back.
pub async fn undo(
    transaction: &mut Connection<'_>,
    owner: &Owner,
    id: &MemoryId,
    at: Timestamp,
    author: &MemoryAuthor,
) -> Result<Undone, Fault> {
    lock_owner(transaction, owner).await?;
    let newest: Option<(i64, Option<String>, Option<String>)> = transaction
        .query(
            "select position, before, after from memory_events
             where owner = $1 and memory_id = $2
             order by position desc limit 1",
        )
        .bind(text(owner.as_str()))
        .bind(text(&id.0))
        .fetch_optional()
        .await?;
    let mut owned = all(transaction, owner).await?;
    let Some((position, before, after)) = newest else {
        let is_known = owned.memories.iter().any(|memory| memory.id == *id);
        return Ok(if is_known { Undone::NothingLeft } else { Undone::Unknown });
    };
    transaction
        .query("delete from memory_events where owner = $1 and position = $2")
        .bind(text(owner.as_str()))
        .bind(position)
        .execute()
        .await?;
    let mut undone = MemoryEvent { before: read_event(before)?, after: read_event(after)? };
    if let Some(before) = &mut undone.before {
        keep_source(transaction, owner, &mut before.source).await?;
    }
    let mut events = Vec::new();
    let restored = owned.undo(undone, &mut events);
    // A memory that had the slot meanwhile makes room first.
    for event in events.iter().chain([&restored]) {
        write(transaction, owner, event).await?;
        audit::add(transaction, &author.entry(owner, event), at).await?;
    }
    note(transaction, owner, at, &events).await?;
    Ok(Undone::Undone(restored.after))
}

/// Deletes all memories of the owner and all changes that could be undone, and returns the number of memories.
pub async fn delete(
    transaction: &mut Connection<'_>,
    owner: &Owner,
    at: Timestamp,
    author: &MemoryAuthor,
) -> Result<usize, Fault> {
    lock_owner(transaction, owner).await?;
    let delete = "delete from memory_events where owner = $1";
    transaction.query(delete).bind(text(owner.as_str())).execute().await?;
    let delete = "delete from memories where owner = $1";
    let deleted = transaction.query(delete).bind(text(owner.as_str())).count().await?;
    audit::add(transaction, &author.entry_of_all(owner), at).await?;
    Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
}

/// Notes that memories were recalled.
pub async fn note_recalled(
    transaction: &mut Connection<'_>,
    owner: &Owner,
    ids: &[MemoryId],
    at: Timestamp,
) -> Result<(), Fault> {
    for id in ids {
        transaction
            .query("update memories set recalled_at = $3 where owner = $1 and id = $2")
            .bind(text(owner.as_str()))
            .bind(text(&id.0))
            .bind(time(at))
            .execute()
            .await?;
    }
    Ok(())
}

/// Forgets changes that were made before a time, the oldest first.
pub async fn forget_events(
    connection: &mut Connection<'_>,
    before: Timestamp,
    limit: usize,
) -> Result<usize, Fault> {
    let forgotten = connection
        .query(
            "delete from memory_events where (owner, position) in (
                select owner, position from memory_events where at < $1 order by at limit $2
             )",
        )
        .bind(time(before))
        .bind(count(limit))
        .count()
        .await?;
    Ok(usize::try_from(forgotten).unwrap_or(usize::MAX))
}

/// Waits until nobody else changes the owner's memories, and keeps others from it until the transaction ends. Later reads see what
/// the last one has left.
async fn lock_owner(transaction: &mut Connection<'_>, owner: &Owner) -> Result<(), Fault> {
    // In SQLite a transaction that may write is the only one.
    if let Connection::Postgres(_) = transaction {
        transaction
            .query("select pg_advisory_xact_lock($1, hashtext($2))")
            .bind(OWNER_LOCKS)
            .bind(text(owner.as_str()))
            .execute()
            .await?;
    }
    Ok(())
}

/// Removes a source whose chat is gone or belongs to somebody else. Another chat stays until the transaction ends.
async fn keep_source(
    transaction: &mut Connection<'_>,
    owner: &Owner,
    source: &mut Option<MemorySource>,
) -> Result<(), Fault> {
    let Some(MemorySource { chat, .. }) = source else { return Ok(()) };
    let find = transaction.choose(
        "select id from chats where id = $1 and owner = $2",
        "select id from chats where id = $1 and owner = $2 for key share",
    );
    let found: Option<(String,)> =
        transaction.query(find).bind(chat.as_str()).bind(text(owner.as_str())).fetch_optional().await?;
    if found.is_none() {
        *source = None;
    }
    Ok(())
}

async fn all(connection: &mut Connection<'_>, owner: &Owner) -> Result<OwnedMemories, Fault> {
    let memories = find(connection, owner, &MemoryFilter::default()).await?;
    Ok(OwnedMemories { memories })
}

fn read_event(memory: Option<String>) -> Result<Option<Memory>, StoreError> {
    memory.map(|memory| read_json("a change of a memory", &memory)).transpose()
}

/// Brings the row of a memory to what an event says.
async fn write(transaction: &mut Connection<'_>, owner: &Owner, event: &MemoryEvent) -> Result<(), Fault> {
    match (&event.before, &event.after) {
        (None, Some(after)) => insert(transaction, owner, after).await,
        (Some(before), Some(after)) => update(transaction, owner, before, after).await,
        (Some(Memory { id, .. }), None) => {
            transaction
                .query("delete from memories where owner = $1 and id = $2")
                .bind(text(owner.as_str()))
                .bind(text(&id.0))
                .execute()
                .await?;
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

async fn insert(transaction: &mut Connection<'_>, owner: &Owner, memory: &Memory) -> Result<(), Fault> {
    let (chat, message) = source_columns(memory);
    transaction
        .query(
            "insert into memories
                (owner, id, kind, text, slot, pinned, chat_id, message_id, origin, created_at, recalled_at, version)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        )
        .bind(text(owner.as_str()))
        .bind(text(&memory.id.0))
        .bind(memory.kind.as_str())
        .bind(text(&memory.text))
        .bind(memory.slot.as_deref().map(text))
        .bind(memory.pinned)
        .bind(chat)
        .bind(message)
        .bind(json(&memory.origin)?)
        .bind(time(memory.created_at))
        .bind(memory.recalled_at.map(time))
        .bind(number(memory.version)?)
        .execute()
        .await?;
    Ok(())
}

async fn update(
    transaction: &mut Connection<'_>,
    owner: &Owner,
    before: &Memory,
    after: &Memory,
) -> Result<(), Fault> {
    transaction
        .query(
            "update memories
             set kind = $3, text = $4, slot = $5, pinned = $6, created_at = $7, recalled_at = $8, version = $9, origin = $10
             where owner = $1 and id = $2",
        )
        .bind(text(owner.as_str()))
        .bind(text(&after.id.0))
        .bind(after.kind.as_str())
        .bind(text(&after.text))
        .bind(after.slot.as_deref().map(text))
        .bind(after.pinned)
        .bind(time(after.created_at))
        .bind(after.recalled_at.map(time))
        .bind(number(after.version)?)
        .bind(json(&after.origin)?)
        .execute()
        .await?;
    // A source that stays is not written, because its chat may be deleted at this moment.
    if before.source != after.source {
        let (chat, message) = source_columns(after);
        transaction
            .query("update memories set chat_id = $3, message_id = $4 where owner = $1 and id = $2")
            .bind(text(owner.as_str()))
            .bind(text(&after.id.0))
            .bind(chat)
            .bind(message)
            .execute()
            .await?;
    }
    if before.text != after.text {
        for drop_vector in [
            "update memories set embedded_by = null where owner = $1 and id = $2",
            "delete from memory_vectors where owner = $1 and memory_id = $2",
        ] {
            transaction
                .query(drop_vector)
                .bind(text(owner.as_str()))
                .bind(text(&after.id.0))
                .execute()
                .await?;
        }
    }
    Ok(())
}

/// Notes changes so that they can be undone, and forgets the oldest if there are too many.
async fn note(
    transaction: &mut Connection<'_>,
    owner: &Owner,
    at: Timestamp,
    events: &[MemoryEvent],
) -> Result<(), Fault> {
    let (last,): (i64,) = transaction
        .query("select coalesce(max(position), 0) from memory_events where owner = $1")
        .bind(text(owner.as_str()))
        .fetch_one()
        .await?;
    for (position, event) in (last + 1..).zip(events) {
        let Some(id) = event.id() else { continue };
        transaction
            .query(
                "insert into memory_events (owner, position, memory_id, at, before, after)
                 values ($1, $2, $3, $4, $5, $6)",
            )
            .bind(text(owner.as_str()))
            .bind(position)
            .bind(text(&id.0))
            .bind(time(at))
            .bind(event.before.as_ref().map(json).transpose()?)
            .bind(event.after.as_ref().map(json).transpose()?)
            .execute()
            .await?;
    }
    transaction
        .query(
            "delete from memory_events where owner = $1 and position <= (
                select position from memory_events where owner = $1 order by position desc limit 1 offset $2
             )",
        )
        .bind(text(owner.as_str()))
        .bind(count(MAX_EVENTS))
        .execute()
        .await?;
    Ok(())
}

fn source_columns(memory: &Memory) -> (Option<&str>, Option<TextRef<'_>>) {
    let Some(MemorySource { chat, message }) = &memory.source else { return (None, None) };
    (Some(chat.as_str()), message.as_ref().map(|message| text(message.as_str())))
}

/// The version as a column has it.
pub fn number(version: u64) -> Result<i64, StoreError> {
    i64::try_from(version).map_err(|_| StoreError::Conflict("no memory has that version".into()))
}

// === impl MemoryAnd ===

impl<T: FromSql + FromSqlOwned + Send> FromRow for MemoryAnd<T> {
    fn from_sqlite_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { memory: MemoryRow::from_sqlite_row(row)?, value: row.get("value")? })
    }

    fn from_postgres_row(row: &tokio_postgres::Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self { memory: MemoryRow::from_postgres_row(row)?, value: row.try_get("value")? })
    }
}

// === impl MemoryRow ===

impl MemoryRow {
    pub fn into_memory(self) -> Result<(Owner, Memory), Fault> {
        let message = self.message_id.map(|Text(id)| MessageId::new(id));
        let memory = Memory {
            id: MemoryId(self.id.0),
            kind: read_name("the kind of a memory", &self.kind)?,
            text: self.text.0,
            slot: self.slot.map(|Text(slot)| slot),
            pinned: self.pinned,
            origin: read_json("the origin of a memory", &self.origin)?,
            source: self.chat_id.map(|chat| MemorySource { chat: ChatId::new(chat), message }),
            created_at: read_time(self.created_at)?,
            recalled_at: self.recalled_at.map(read_time).transpose()?,
            version: u64::try_from(self.version)
                .map_err(|_| StoreError::Corrupt("a memory with a version below 0".into()))?,
        };
        Ok((Owner::new(self.owner.0), memory))
    }
}
