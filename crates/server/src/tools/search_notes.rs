//! The tool `search_notes`.

use async_trait::async_trait;
use fermata_store::{Note, Notes};
use fermata_tools::{CallContext, Decision, ErrorType, Resource, ToolError, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The tool that searches the owner's notes.
pub struct SearchNotes {
    /// The notes of all owners.
    pub notes: Notes,
}

// The comments of the fields are part of the schema, whose fingerprint is in saved grants: if they change, people have to approve the tool again.
/// The input of [`SearchNotes`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Words that the title or the body contains.
    query: String,
}

/// The limit on the notes in an output.
const MOST: usize = 10;
/// The limit on the bodies in an output, in bytes. All notes have equal shares of it.
const MAX_TEXT: usize = 100_000;
/// The limit on a title in an output, in bytes.
const LONGEST_TITLE: usize = 1_000;
/// The limit on a query, in bytes. Each of its words is searched for in every note.
const LONGEST_QUERY: usize = 1_000;

#[async_trait]
impl TypedTool for SearchNotes {
    const NAME: &'static str = "search_notes";
    const TITLE: Option<&'static str> = Some("Search the notes");
    const DESCRIPTION: &'static str = "Searches the user's notes and returns those that contain the query.";
    const POLICY: Decision = Decision::Allow;
    const REPEATABLE: bool = true;
    const EMPTY_AT: Option<&'static str> = Some("notes");
    type Input = Input;

    fn resource(&self) -> Option<Resource> {
        Some(super::notes_of_owner())
    }

    fn describe(&self, input: &Input) -> Option<String> {
        Some(format!("Search the notes for “{}”", input.query))
    }

    fn reads_from(&self, _: &Self::Input) -> Option<String> {
        Some("notes".into())
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<Value, ToolError> {
        let bytes = input.query.len();
        if bytes > LONGEST_QUERY {
            let text =
                format!("The query has {bytes} bytes; the limit is {LONGEST_QUERY}. Search for fewer words.");
            return Err(ToolError::new(ErrorType::InvalidFormat, text));
        }
        let found = self.notes.search(&context.owner, &input.query, MOST).await;
        let found = found.map_err(|error| super::notes_failed(&context, &error))?;
        let share = MAX_TEXT / found.len().max(1);
        let notes: Vec<Value> = found.iter().map(|note| to_json(note, share)).collect();
        Ok(json!({"notes": notes}))
    }
}

/// Returns a note for the model. A long body is cut, and `cut` is true.
fn to_json(note: &Note, share: usize) -> Value {
    let title = &note.title[..note.title.floor_char_boundary(LONGEST_TITLE)];
    let body = &note.body[..note.body.floor_char_boundary(share)];
    let mut json = json!({"id": note.id, "title": title, "body": body});
    if body.len() < note.body.len() {
        json["cut"] =
            json!(format!("The body goes on; these are the first of its {} bytes.", note.body.len()));
    }
    json
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn note(title: &str, body: &str) -> Note {
        Note { id: "1".into(), title: title.into(), body: body.into(), created_at: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn a_note_that_fits_is_not_cut() {
        assert_eq!(to_json(&note("t", "körb"), 5), json!({"id": "1", "title": "t", "body": "körb"}));
    }

    #[test]
    fn a_long_note_is_cut() {
        let json = to_json(&note(&"ü".repeat(1_000), "körbe"), 2);
        assert_eq!(json["title"].as_str().map(str::len), Some(LONGEST_TITLE));
        assert_eq!(json["body"], "k", "no letter is cut through");
        assert_eq!(json["cut"], "The body goes on; these are the first of its 6 bytes.");
    }
}
