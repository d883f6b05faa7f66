//! The tool `write_note`.

use async_trait::async_trait;
use fermata_store::{Notes, WriteNoteError};
use fermata_tools::{CallContext, CallDetails, Confirm, Decision, ErrorType, Resource, ToolError, TypedTool};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::NoteLimits;

/// The tool that writes a note for the owner.
pub struct WriteNote {
    /// The notes of all owners.
    pub notes: Notes,
    /// The limits on notes.
    pub limits: NoteLimits,
}

// The comments of the fields are part of the schema, whose fingerprint is in saved grants: if they change, people have to approve the tool again.
/// The input of [`WriteNote`].
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
    const TITLE: Option<&'static str> = Some("Write a note");
    const DESCRIPTION: &'static str = "Writes a note for the user. The user is asked before it is written.";
    const POLICY: Decision = Decision::Ask;
    type Input = Input;

    fn resource(&self) -> Option<Resource> {
        Some(super::notes_of_owner())
    }

    fn describe(&self, input: &Input) -> Option<String> {
        Some(format!("Write the note “{}”", input.title))
    }

    fn confirm(&self, input: &Input) -> Confirm {
        let (text, after) = (input.title.clone(), input.body.clone());
        Confirm::ByPolicy(Some(CallDetails::Edit { text, before: String::new(), after }))
    }

    fn reads_from(&self, _: &Self::Input) -> Option<String> {
        None
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<Value, ToolError> {
        let Input { title, body } = input;
        let NoteLimits { bytes: limit, per_owner } = self.limits;
        let bytes = title.len() + body.len();
        if bytes > limit {
            let text = format!(
                "The title and the body of the note have {bytes} bytes together; the limit is {limit} (max_note). Write a shorter \
                 note, or several."
            );
            return Err(ToolError::new(ErrorType::InvalidFormat, text));
        }
        // The note has the call's id, so that a call that runs twice does not write two notes.
        let id = context.call.as_str();
        let written = self.notes.write(id, &context.owner, &title, &body, Timestamp::now(), per_owner).await;
        match written {
            Ok(note) => Ok(json!({"saved": true, "id": note.id, "title": note.title})),
            Err(WriteNoteError::TooMany(most)) => Err(ToolError::internal(format!(
                "The user has reached the limit of {most} notes (notes_per_owner), so this one was not written. No tool deletes \
                 notes."
            ))),
            Err(WriteNoteError::Store(error)) => {
                let mut failure = super::notes_failed(&context, &error);
                // Only the reply of the database may be lost.
                failure.text =
                    "The database has not confirmed the note. It may be saved: search for it before you write it again.".into();
                Err(failure)
            }
        }
    }
}
