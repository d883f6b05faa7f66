//! Notes: what the notes tools write and find. They belong to an owner and to no chat.
//!
//! Searching is case-blind in every script: text and query are folded alike, here and not in the database, whose `lower`
//! knows ASCII only.

use fermata_engine::store::StoreError;
use fermata_tools::Owner;
use jiff::Timestamp;
use sqlx::SqlitePool;

use crate::{
    column::{count, json, read_time, time},
    error::failed,
};

/// The notes of all owners; each sees only their own.
#[derive(Clone, Debug)]
pub struct Notes {
    writer: SqlitePool,
    readers: SqlitePool,
}

/// A note.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// Unique among its owner's notes.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// What it says.
    pub body: String,
    /// When it was written.
    pub created_at: Timestamp,
}

// === impl Notes ===

impl Notes {
    pub(crate) fn new(writer: SqlitePool, readers: SqlitePool) -> Self {
        Self { writer, readers }
    }

    /// Writes a note. The id comes from above and must be new among the owner's notes.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] where the owner has a note with this id.
    pub async fn write(
        &self,
        id: &str,
        owner: &Owner,
        title: &str,
        body: &str,
        at: Timestamp,
    ) -> Result<Note, StoreError> {
        // A line end is in no word of a query, so none is found across the border of title and body.
        let folded = fold(title) + "\n" + &fold(body);
        sqlx::query(
            "insert into notes (owner, id, title, body, folded, created_at) values ($1, $2, $3, $4, $5, $6)",
        )
        .bind(owner.as_str())
        .bind(id)
        .bind(title)
        .bind(body)
        .bind(folded)
        .bind(time(at))
        .execute(&self.writer)
        .await
        .map_err(failed)?;
        Ok(Note { id: id.into(), title: title.into(), body: body.into(), created_at: read_time(time(at))? })
    }

    /// The owner's notes whose title or body has every word of the query somewhere, newest first, at most `limit`. A
    /// query without words finds all.
    ///
    /// # Errors
    /// Where the database fails.
    pub async fn search(&self, owner: &Owner, query: &str, limit: usize) -> Result<Vec<Note>, StoreError> {
        let folded = fold(query);
        let words: Vec<&str> = folded.split_whitespace().collect();
        let rows: Vec<(String, String, String, i64)> = sqlx::query_as(
            "select id, title, body, created_at from notes
             where owner = $1
                and not exists (select 1 from json_each($2) as word where instr(notes.folded, word.value) = 0)
             order by created_at desc, id desc
             limit $3",
        )
        .bind(owner.as_str())
        .bind(json(&words)?)
        .bind(count(limit))
        .fetch_all(&self.readers)
        .await
        .map_err(failed)?;
        rows.into_iter()
            .map(|(id, title, body, created_at)| {
                Ok(Note { id, title, body, created_at: read_time(created_at)? })
            })
            .collect()
    }
}

/// The text without case. Up and down again, because some letters differ in one direction only: ß and SS, ς and σ.
fn fold(text: &str) -> String {
    // SQLite's JSON ends a text at a zero.
    text.chars().filter(|c| *c != '\0').flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_differ_only_in_case_fold_alike() {
        for (one, other) in
            [("Straße", "STRASSE"), ("ΟΔΟΣ", "οδος"), ("Éclair", "éCLAIR"), ("ЖУК", "жук"), ("ﬁn", "FIN")]
        {
            assert_eq!(fold(one), fold(other));
        }
        assert_ne!(fold("a"), fold("ä"));
        assert_eq!(fold("a\0b"), "ab");
    }
}
