//! The vectors of memories. A search compares them to find similar memories.
//!
//! Invariant: a memory has a vector if it says which model made it (`memories.embedded_by`), and the vector is that of its text. The
//! row of the memory is written first, so a change of the text waits for the vector, or makes it a vector of an older version.

use fermata_engine::store::memories::{Memory, MemoryVector, cosine};
use fermata_tools::Owner;

use super::memories::{MemoryAnd, MemoryRow, number};
use crate::{
    column::count,
    connection::Connection,
    error::Fault,
    text::text,
    vector::{Vector, vector},
};

/// Saves vectors of a model, each unless its memory is gone or has another version.
pub async fn put(
    transaction: &mut Connection<'_>,
    model: &str,
    vectors: &[MemoryVector],
) -> Result<(), Fault> {
    for MemoryVector { owner, id, version, vector: numbers } in vectors {
        let embedded = transaction
            .query("update memories set embedded_by = $4 where owner = $1 and id = $2 and version = $3")
            .bind(text(owner.as_str()))
            .bind(text(&id.0))
            .bind(number(*version)?)
            .bind(text(model))
            .count()
            .await?;
        if embedded == 0 {
            continue;
        }
        transaction
            .query(
                "insert into memory_vectors (owner, memory_id, dims, vector) values ($1, $2, $3, $4)
                 on conflict (owner, memory_id) do update set dims = excluded.dims, vector = excluded.vector",
            )
            .bind(text(owner.as_str()))
            .bind(text(&id.0))
            .bind(count(numbers.len()))
            .bind(vector(numbers))
            .execute()
            .await?;
    }
    Ok(())
}

/// Memories of all owners without a vector of the model.
pub async fn missing(
    connection: &mut Connection<'_>,
    model: &str,
    limit: usize,
) -> Result<Vec<(Owner, Memory)>, Fault> {
    // An index finds each of the three, but not what is only unequal.
    let rows: Vec<MemoryRow> = connection
        .query(
            "select owner, id, kind, text, slot, pinned, chat_id, message_id, origin, created_at, recalled_at, version
             from memories
             where embedded_by is null or embedded_by < $1 or embedded_by > $1
             limit $2",
        )
        .bind(text(model))
        .bind(count(limit))
        .fetch_all()
        .await?;
    rows.into_iter().map(MemoryRow::into_memory).collect()
}

/// The owner's memories with vectors of the model, the most similar ones first. Each vector of the owner is read and compared.
pub async fn nearest(
    connection: &mut Connection<'_>,
    owner: &Owner,
    model: &str,
    to: &[f32],
    limit: usize,
) -> Result<Vec<(Memory, f32)>, Fault> {
    // PostgreSQL would plan a join as a comparison of each row with each other as long as it has no statistics. The model is not a condition
    // on the memories, because SQLite would then look at those of all owners.
    let rows: Vec<MemoryAnd<Option<Vector>>> = connection
        .query(
            "select owner, id, kind, text, slot, pinned, chat_id, message_id, origin, created_at, recalled_at, version, (
                select vector from memory_vectors
                where memory_vectors.owner = memories.owner and memory_id = memories.id
                    and memories.embedded_by = $2 and dims = $3
             ) as value
             from memories
             where owner = $1",
        )
        .bind(text(owner.as_str()))
        .bind(text(model))
        .bind(count(to.len()))
        .fetch_all()
        .await?;
    let mut nearest = Vec::new();
    for MemoryAnd { memory, value } in rows {
        if let Some(Vector(vector)) = value {
            nearest.push((memory.into_memory()?.1, cosine(to, &vector)));
        }
    }
    nearest.sort_by(|(a, to_a), (b, to_b)| to_b.total_cmp(to_a).then_with(|| a.id.cmp(&b.id)));
    nearest.truncate(limit);
    Ok(nearest)
}
