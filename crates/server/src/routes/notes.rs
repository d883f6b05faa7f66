//! The notes of an owner, which the tools for notes write and find.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};
use fermata_engine::ReadError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::schema::refusals;
use crate::{
    App,
    auth::Identity,
    error::{ApiError, Code},
    extract::ApiQuery,
    personal_data::Note,
};

/// A page of notes.
#[derive(Serialize, ToSchema)]
pub struct NoteList {
    /// The notes, newest first.
    notes: Vec<Note>,
    /// The value of `before` for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The parameters of a page of notes.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct NotePageQuery {
    /// Words: only the notes that have all of them are listed.
    query: Option<String>,
    /// The number of notes on the page, 1 to 100.
    #[serde(default = "NotePageQuery::default_limit")]
    #[param(default = 20, minimum = 1, maximum = 100)]
    limit: usize,
    /// The `next` of the previous page.
    before: Option<String>,
}

/// Lists the owner's notes, newest first.
#[utoipa::path(get, path = "/api/notes", operation_id = "listNotes", tag = "notes", params(NotePageQuery),
    responses((status = 200, description = "A page of notes", body = NoteList), refusals::Any)
)]
pub async fn list(
    State(app): State<App>,
    Identity(owner): Identity,
    ApiQuery(page): ApiQuery<NotePageQuery>,
) -> Result<Json<NoteList>, ApiError> {
    let NotePageQuery { query, limit, before } = page;
    if !(1..=100).contains(&limit) {
        return Err(ApiError::new(Code::InvalidRequest, "limit must be 1 to 100."));
    }
    let notes = &app.database().notes;
    let page = notes.page(&owner, query.as_deref().unwrap_or_default(), limit, before.as_deref()).await;
    let page = page.map_err(ReadError::from)?;
    Ok(Json(NoteList { notes: page.notes.into_iter().map(Into::into).collect(), next: page.next }))
}

/// Deletes a note. This cannot be undone.
#[utoipa::path(delete, path = "/api/notes/{id}", operation_id = "deleteNote", tag = "notes",
    params(("id" = String, Path, description = "The note's id")),
    responses((status = 204, description = "The note is deleted"), refusals::Note)
)]
pub async fn delete(
    State(app): State<App>,
    Identity(owner): Identity,
    path: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    // A path that is not UTF-8 has no id that exists.
    let is_deleted = match path {
        Ok(Path(id)) => app.database().notes.delete(&owner, &id).await.map_err(ReadError::from)?,
        Err(_) => false,
    };
    if is_deleted {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiError::new(Code::NotFound, "You have no note with this id."))
    }
}

// === impl NotePageQuery ===

impl NotePageQuery {
    fn default_limit() -> usize {
        20
    }
}
