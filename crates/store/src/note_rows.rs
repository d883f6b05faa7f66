//! Notes as rows.

use fermata_tools::Owner;

use super::{Connection, SEARCH_NOTES};
use crate::{
    Note,
    column::{count, json, read_time, time},
    error::{Fault, failed},
    text::{Text, text},
};

/// Adds the note, unless its owner has `most` already; whether it did. `folded` is what is searched.
pub async fn add(
    connection: &mut Connection,
    owner: &Owner,
    note: &Note,
    folded: &str,
    most: usize,
) -> Result<bool, Fault> {
    let added = sqlx::query(
        "insert into notes (owner, id, title, body, folded, created_at)
         select $1, $2, $3, $4, $5, $6
         where (select count(*) from (select 1 from notes where owner = $1 limit $7) as those) < $7",
    )
    .bind(text(owner.as_str()))
    .bind(text(&note.id))
    .bind(text(&note.title))
    .bind(text(&note.body))
    .bind(folded)
    .bind(time(note.created_at))
    .bind(count(most))
    .execute(connection)
    .await
    .map_err(failed)?;
    Ok(added.rows_affected() == 1)
}

/// The owner's notes that have every one of the words, newest first.
pub async fn search(
    connection: &mut Connection,
    owner: &Owner,
    words: &[&str],
    limit: usize,
) -> Result<Vec<Note>, Fault> {
    let rows: Vec<(Text, Text, Text, i64)> = sqlx::query_as(SEARCH_NOTES)
        .bind(text(owner.as_str()))
        .bind(json(&words)?)
        .bind(count(limit))
        .fetch_all(connection)
        .await
        .map_err(failed)?;
    rows.into_iter()
        .map(|(Text(id), Text(title), Text(body), created_at)| {
            Ok(Note { id, title, body, created_at: read_time(created_at)? })
        })
        .collect()
}
