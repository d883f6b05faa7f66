//! Finds notes.

use async_trait::async_trait;
use fermata_store::Notes;
use fermata_tools::{CallContext, Decision, Resource, ToolError, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// Searches the owner's notes.
pub struct SearchNotes {
    /// Where they are.
    pub notes: Notes,
}

/// What for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Words that the title or the body contains.
    query: String,
}

/// A model reads every note that is found.
const MOST: usize = 10;

#[async_trait]
impl TypedTool for SearchNotes {
    const NAME: &'static str = "search_notes";
    const DESCRIPTION: &'static str = "Searches the user's notes and returns those that contain the query.";
    const POLICY: Decision = Decision::Allow;
    type Input = Input;

    fn resource(&self) -> Option<Resource> {
        Some(super::notes_of_owner())
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<Value, ToolError> {
        let found = self.notes.search(&context.owner, &input.query, MOST).await;
        let found = found.map_err(|error| super::notes_failed(&error))?;
        let notes: Vec<Value> =
            found.iter().map(|note| json!({"id": note.id, "title": note.title, "body": note.body})).collect();
        Ok(json!({"notes": notes}))
    }
}
