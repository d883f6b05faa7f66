//! Writes a note.

use async_trait::async_trait;
use fermata_store::{Notes, WriteNoteError};
use fermata_tools::{CallContext, Decision, ErrorType, Resource, ToolError, TypedTool};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::NoteLimits;

/// Writes one of the owner's notes.
pub struct WriteNote {
    /// Where they are.
    pub notes: Notes,
    /// How large one may be, and how many there may be.
    pub limits: NoteLimits,
}

/// What.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What the note is called.
    title: String,
    /// What it says.
    body: String,
}

#[async_trait]
impl TypedTool for WriteNote {
    const NAME: &'static str = "write_note";
    const DESCRIPTION: &'static str = "Writes a note for the user. The user is asked before it is written.";
    const POLICY: Decision = Decision::Ask;
    type Input = Input;

    fn resource(&self) -> Option<Resource> {
        Some(super::notes_of_owner())
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<Value, ToolError> {
        let Input { title, body } = input;
        let NoteLimits { bytes: limit, per_owner } = self.limits;
        let bytes = title.len() + body.len();
        if bytes > limit {
            let words = format!(
                "The note has {bytes} bytes, its title and its body together; the limit is {limit} (max_note). Write a shorter \
                 one, or several."
            );
            return Err(ToolError::new(ErrorType::InvalidFormat, words));
        }
        // The call's id: a call that is run twice must not leave two notes.
        let id = context.call.as_str();
        let written = self.notes.write(id, &context.owner, &title, &body, Timestamp::now(), per_owner).await;
        match written {
            Ok(note) => Ok(json!({"saved": true, "id": note.id, "title": note.title})),
            Err(WriteNoteError::TooMany(most)) => Err(ToolError::internal(format!(
                "The user has {most} notes, which is as many as may be (notes_per_owner), so this one was not written. No tool \
                 deletes notes."
            ))),
            Err(WriteNoteError::Store(error)) => Err(super::notes_failed(&error)),
        }
    }
}
