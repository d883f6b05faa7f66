//! Writes a note.

use async_trait::async_trait;
use fermata_store::Notes;
use fermata_tools::{CallContext, Decision, Resource, ToolError, TypedTool};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Writes one of the owner's notes.
pub struct WriteNote {
    /// Where they are.
    pub notes: Notes,
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
        // The call's id: a call that is run twice must not leave two notes.
        let id = context.call.as_str();
        let written = self.notes.write(id, &context.owner, &input.title, &input.body, Timestamp::now()).await;
        let note = written.map_err(|error| super::notes_failed(&error))?;
        Ok(json!({"saved": true, "id": note.id, "title": note.title}))
    }
}
