//! Notes as rows.

use fermata_tools::Owner;
use jiff::Timestamp;

use crate::{
    column::{count, json, read_time, time},
    connection::Connection,
    error::Fault,
    text::{Text, text},
};

/// A note.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// The id, which is unique among the owner's notes.
    pub id: String,
    /// The title.
    pub title: String,
    /// The text.
    pub body: String,
    /// The time when the note was written.
    pub created_at: Timestamp,
}

const SEARCH_IN_SQLITE: &str = "select id, title, body, created_at from notes
     where owner = $1
        and not exists (select 1 from json_each($2) as word where instr(notes.folded, word.value) = 0)
        and (created_at, id) < ($4, $5)
     order by created_at desc, id desc
     limit $3";

const SEARCH_IN_POSTGRES: &str = "select id, title, body, created_at from notes
     where owner = $1
        and not exists (
            select 1 from jsonb_array_elements_text($2::jsonb) as words (word) where strpos(notes.folded, words.word) = 0
        )
        and (created_at, id) < ($4, $5)
     order by created_at desc, id desc
     limit $3";

/// Adds the note and returns true, unless its owner has `most` already. `folded` is the text that is searched.
pub async fn add(
    connection: &mut Connection<'_>,
    owner: &Owner,
    note: &Note,
    folded: &str,
    most: usize,
) -> Result<bool, Fault> {
    let added = connection
        .query(
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
        .count()
        .await?;
    Ok(added == 1)
}

/// The owner's notes that have every one of the words, newest first. `before` is the last note of the page before.
pub async fn search(
    connection: &mut Connection<'_>,
    owner: &Owner,
    words: &[&str],
    limit: usize,
    before: Option<&(i64, String)>,
) -> Result<Vec<Note>, Fault> {
    let search = connection.choose(SEARCH_IN_SQLITE, SEARCH_IN_POSTGRES);
    // The first page begins at the end of time.
    let (created_at, id) = before.map_or((i64::MAX, ""), |(created_at, id)| (*created_at, id.as_str()));
    let rows: Vec<(Text, Text, Text, i64)> = connection
        .query(search)
        .bind(text(owner.as_str()))
        .bind(json(&words)?)
        .bind(count(limit))
        .bind(created_at)
        .bind(text(id))
        .fetch_all()
        .await?;
    rows.into_iter()
        .map(|(Text(id), Text(title), Text(body), created_at)| {
            Ok(Note { id, title, body, created_at: read_time(created_at)? })
        })
        .collect()
}

/// Deletes a note; `false` if the owner has none with this id.
pub async fn delete(connection: &mut Connection<'_>, owner: &Owner, id: &str) -> Result<bool, Fault> {
    let deleted = connection
        .query("delete from notes where owner = $1 and id = $2")
        .bind(text(owner.as_str()))
        .bind(text(id))
        .count()
        .await?;
    Ok(deleted == 1)
}

/// Deletes all notes of the owner. Returns the number of those.
pub async fn delete_all(connection: &mut Connection<'_>, owner: &Owner) -> Result<usize, Fault> {
    let deleted =
        connection.query("delete from notes where owner = $1").bind(text(owner.as_str())).count().await?;
    Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
}
