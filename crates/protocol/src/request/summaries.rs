//! The bodies of `PUT /api/chat/{id}/summary` and `POST /api/chat/{id}/compact`.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{BodyError, Posted, RequestError, json::read_value, read::read};
use crate::Summary;

/// The limit on the instructions for a summary, in bytes.
const INSTRUCTIONS_BYTES: usize = 4_000;

/// A correction of a summary.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SummaryRequest {
    /// The new text.
    pub summary: Summary,
}

/// The user's instructions for a requested summary.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompactRequest {
    /// A wish in words of at most 4,000 bytes, such as what the summary must not leave out.
    #[serde(default)]
    #[schema(example = "Keep the names of all roses.")]
    pub instructions: Option<String>,
}

impl Posted for SummaryRequest {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        Ok(read(read_value(json)?, "The body")?)
    }
}

impl Posted for CompactRequest {
    /// Reads the body, which may be left out.
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        let body = if json.is_empty() { Value::Object(Map::new()) } else { read_value(json)? };
        let request: Self = read(body, "The body")?;
        if let Some(bytes) =
            request.instructions.as_ref().map(String::len).filter(|bytes| *bytes > INSTRUCTIONS_BYTES)
        {
            let words = format!("`instructions` has {bytes} bytes; the limit is {INSTRUCTIONS_BYTES}.");
            return Err(RequestError(words).into());
        }
        Ok(request)
    }
}
