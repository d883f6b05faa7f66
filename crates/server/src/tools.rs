//! The server's own tools. Each has a file, and a line in [`all`].

mod current_time;
mod search_notes;
mod write_note;

use std::sync::Arc;

use fermata_store::Notes;
use fermata_tools::{CallContext, Resource, Tool, ToolError, typed};

use crate::config::Builtin;

/// The limits on notes.
#[derive(Clone, Copy, Debug)]
pub struct NoteLimits {
    /// The limit on the title and the body of a note together, in bytes.
    pub bytes: usize,
    /// The limit on the notes of an owner.
    pub per_owner: usize,
}

/// Returns the names of the tools of a group.
pub fn names_of(group: Builtin) -> &'static [&'static str] {
    match group {
        Builtin::Time => &["current_time"],
        Builtin::Notes => &["search_notes", "write_note"],
    }
}

/// Returns all tools.
pub fn all(notes: Notes, limits: NoteLimits) -> Vec<Arc<dyn Tool>> {
    vec![
        typed(current_time::CurrentTime),
        typed(search_notes::SearchNotes { notes: notes.clone() }),
        typed(write_note::WriteNote { notes, limits }),
    ]
}

/// Returns the resource of the tools for notes. Only one call at a time uses an owner's notes, so that a search finds the notes that earlier
/// calls of its step wrote.
fn notes_of_owner() -> Resource {
    Resource::per_owner("notes")
}

/// Logs a failure of the database, and returns the error for the model, which does not contain the cause.
fn notes_failed(context: &CallContext, error: &fermata_engine::store::StoreError) -> ToolError {
    tracing::error!(
        chat = %context.chat,
        call = %context.call,
        %error,
        "a tool could not use the notes in the database"
    );
    ToolError::internal("The notes cannot be reached at the moment.")
}
