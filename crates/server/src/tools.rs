//! The server's own tools: one file each, and a line here.

mod current_time;
mod search_notes;
mod write_note;

use std::sync::Arc;

use fermata_store::Notes;
use fermata_tools::{Resource, Tool, typed};

/// How much may be kept in notes.
#[derive(Clone, Copy, Debug)]
pub struct NoteLimits {
    /// Bytes of one note, its title and its body.
    pub bytes: usize,
    /// Notes of one owner.
    pub per_owner: usize,
}

/// All of them.
pub fn all(notes: Notes, limits: NoteLimits) -> Vec<Arc<dyn Tool>> {
    vec![
        typed(current_time::CurrentTime),
        typed(search_notes::SearchNotes { notes: notes.clone() }),
        typed(write_note::WriteNote { notes, limits }),
    ]
}

/// An owner's notes, which one call at a time reads or writes, so that what a step writes before it searches is found.
fn notes_of_owner() -> Resource {
    Resource::per_owner("notes")
}

/// What the model is told where the notes cannot be reached; the cause is for the log.
fn notes_failed(error: &fermata_engine::store::StoreError) -> fermata_tools::ToolError {
    tracing::error!(%error, "the notes cannot be used");
    fermata_tools::ToolError::internal("The notes cannot be reached at the moment.")
}
