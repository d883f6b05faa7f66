//! Finds notes.

use async_trait::async_trait;
use fermata_store::{Note, Notes};
use fermata_tools::{CallContext, Decision, ErrorType, Resource, ToolError, TypedTool};
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
/// Bytes of the bodies in an answer, of which each note has the same share.
const MOST_TEXT: usize = 100_000;
/// Bytes of a title in an answer.
const LONGEST_TITLE: usize = 1_000;
/// Bytes of a query, each of whose words is looked for in every note.
const LONGEST_QUERY: usize = 1_000;

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
        let bytes = input.query.len();
        if bytes > LONGEST_QUERY {
            let words =
                format!("The query has {bytes} bytes; the limit is {LONGEST_QUERY}. Search for fewer words.");
            return Err(ToolError::new(ErrorType::InvalidFormat, words));
        }
        let found = self.notes.search(&context.owner, &input.query, MOST).await;
        let found = found.map_err(|error| super::notes_failed(&error))?;
        let share = MOST_TEXT / found.len().max(1);
        let notes: Vec<Value> = found.iter().map(|note| shown(note, share)).collect();
        Ok(json!({"notes": notes}))
    }
}

/// A note as a model reads it. Of a long body there is only the beginning, and the model is told so.
fn shown(note: &Note, share: usize) -> Value {
    let title = &note.title[..note.title.floor_char_boundary(LONGEST_TITLE)];
    let body = &note.body[..note.body.floor_char_boundary(share)];
    let mut shown = json!({"id": note.id, "title": title, "body": body});
    if body.len() < note.body.len() {
        shown["cut"] =
            json!(format!("The body goes on; these are the first of its {} bytes.", note.body.len()));
    }
    shown
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn note(title: &str, body: &str) -> Note {
        Note { id: "1".into(), title: title.into(), body: body.into(), created_at: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn a_note_that_fits_is_shown_whole() {
        assert_eq!(shown(&note("t", "körb"), 5), json!({"id": "1", "title": "t", "body": "körb"}));
    }

    #[test]
    fn of_a_long_note_the_beginning_is_shown() {
        let shown = shown(&note(&"ü".repeat(1_000), "körbe"), 2);
        assert_eq!(shown["title"].as_str().map(str::len), Some(LONGEST_TITLE));
        assert_eq!(shown["body"], "k", "no letter is cut through");
        assert_eq!(shown["cut"], "The body goes on; these are the first of its 6 bytes.");
    }
}
