//! Notes, which the notes tools write and find. They belong to an owner and to no chat.
//!
//! The search ignores case in every script: text and query are folded alike, here and not in the database, whose `lower` knows ASCII only.

use fermata_engine::store::{StoreError, page::whole_microseconds};
use fermata_tools::Owner;
use jiff::Timestamp;

use crate::{
    backend::Backend,
    postgres::Effect,
    queries::notes::{self, Note},
};

/// The notes of all owners; each sees only their own.
#[derive(Clone)]
pub struct Notes {
    pub(crate) backend: Backend,
}

/// A page of notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotePage {
    /// The notes, newest first.
    pub notes: Vec<Note>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// The reason why a note is not written.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum WriteNoteError {
    /// The owner has as many notes as the limit allows.
    #[error("the owner has {0} notes already")]
    TooMany(usize),
    /// The database fails, or the owner has a note with this id.
    #[error(transparent)]
    Store(#[from] StoreError),
}

// === impl Notes ===

impl Notes {
    /// Writes a note, unless its owner has `most` already. The id comes from above and must be new among the owner's notes.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the owner has a note with this id, [`WriteNoteError::TooMany`] if they have too many.
    pub async fn write(
        &self,
        id: &str,
        owner: &Owner,
        title: &str,
        body: &str,
        at: Timestamp,
        most: usize,
    ) -> Result<Note, WriteNoteError> {
        // No word of a query contains a line end, so none is found across the border of title and body.
        let folded = fold(title) + "\n" + &fold(body);
        let created_at = whole_microseconds(at);
        let note = Note { id: id.into(), title: title.into(), body: body.into(), created_at };
        let (row, folded) = (&note, folded.as_str());
        let added = self
            .backend
            .write(|mut db| async move { notes::add(&mut db.get(), owner, row, folded, most).await })
            .await?;
        if added { Ok(note) } else { Err(WriteNoteError::TooMany(most)) }
    }

    /// The owner's notes whose title or body has every word of the query somewhere, newest first, at most `limit`. A
    /// query without words finds all.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn search(&self, owner: &Owner, query: &str, limit: usize) -> Result<Vec<Note>, StoreError> {
        Ok(self.page(owner, query, limit, None).await?.notes)
    }

    /// A page of what [`Notes::search`] finds; `before` is the `next` of the page before.
    ///
    /// # Errors
    /// [`StoreError::BadCursor`] if `before` is none, and if the database fails.
    pub async fn page(
        &self,
        owner: &Owner,
        query: &str,
        limit: usize,
        before: Option<&str>,
    ) -> Result<NotePage, StoreError> {
        let before = before.map(read_cursor).transpose()?;
        let most = limit.saturating_add(1);
        let mut notes = self
            .backend
            .read((owner.clone(), fold(query), before), |mut db, about| async move {
                let (owner, query, before) = &*about;
                let words: Vec<&str> = query.split_whitespace().collect();
                notes::search(&mut db.get(), owner, &words, most, before.as_ref()).await
            })
            .await?;
        let has_more = notes.len() > limit;
        notes.truncate(limit);
        let next = match notes.last() {
            Some(last) if has_more => Some(format!("{}.{}", last.created_at.as_microsecond(), last.id)),
            Some(_) | None => None,
        };
        Ok(NotePage { notes, next })
    }

    /// Deletes a note; `false` if the owner has none with this id.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn delete(&self, owner: &Owner, id: &str) -> Result<bool, StoreError> {
        let deleted =
            self.backend.write(|mut db| async move { notes::delete(&mut db.get(), owner, id).await }).await?;
        self.backend.forget_deleted().await;
        Ok(deleted)
    }

    /// Deletes all notes of the owner. Returns the number of those.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn delete_all(&self, owner: &Owner) -> Result<usize, StoreError> {
        let deleted = self
            .backend
            .transact(Effect::Once, owner.clone(), |mut transaction, owner| async move {
                let deleted = notes::delete_all(&mut transaction.get(), &owner).await?;
                Ok((transaction, deleted))
            })
            .await?;
        self.backend.forget_deleted().await;
        Ok(deleted)
    }
}

fn read_cursor(cursor: &str) -> Result<(i64, String), StoreError> {
    let (created_at, id) = cursor.split_once('.').ok_or(StoreError::BadCursor)?;
    Ok((created_at.parse().map_err(|_| StoreError::BadCursor)?, id.to_owned()))
}

/// The text without case. It is converted to upper case and then to lower case, because some letters differ in one direction only: ß
/// and SS, ς and σ.
fn fold(text: &str) -> String {
    // SQLite's JSON functions end a text at U+0000.
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
