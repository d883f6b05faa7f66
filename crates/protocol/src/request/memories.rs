//! The bodies of `POST /api/memories` and `PATCH /api/memories/{id}`.

use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use super::{BodyError, Posted, json::read_value, read::read};
use crate::MemoryKind;

/// A memory to be saved.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryRequest {
    /// The words of the memory: a sentence about the user.
    #[schema(example = "Prefers Celsius.")]
    pub text: String,
    /// The kind of the memory; `fact` if it is left out.
    #[serde(default)]
    pub kind: Option<MemoryKind>,
    /// The name of the one thing that the memory says. The memory replaces the one that has the slot, and is in every prompt.
    #[serde(default)]
    #[schema(example = "timezone")]
    pub slot: Option<String>,
    /// `true` if the memory is never deleted to make room.
    #[serde(default)]
    pub pinned: Option<bool>,
}

/// New parts of a memory. Absent fields stay as they were.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryEditRequest {
    /// The new words.
    #[serde(default)]
    pub text: Option<String>,
    /// The new kind.
    #[serde(default)]
    pub kind: Option<MemoryKind>,
    /// The new slot; `null` takes the slot away.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub slot: Option<Option<String>>,
    /// The new state of the pin.
    #[serde(default)]
    pub pinned: Option<bool>,
}

impl Posted for MemoryRequest {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        Ok(read(read_value(json)?, "The body")?)
    }
}

impl Posted for MemoryEditRequest {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        Ok(read(read_value(json)?, "The body")?)
    }
}

/// Reads a field that is there, even if it is null.
fn present<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(json).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(json: &str) -> MemoryEditRequest {
        MemoryEditRequest::from_json(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_slot_that_is_null_is_told_apart_from_one_that_is_left_out() {
        assert_eq!(edit("{}").slot, None);
        assert_eq!(edit(r#"{"slot": null}"#).slot, Some(None));
        assert_eq!(edit(r#"{"slot": "name"}"#).slot, Some(Some("name".into())));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |json: &str| MemoryRequest::from_json(json.as_bytes()).unwrap_err().to_string();
        assert!(error(r#"{"text": 7}"#).contains("`text`"), "{}", error(r#"{"text": 7}"#));
        let unknown = error(r#"{"text": "a", "kind": "wish"}"#);
        assert!(unknown.contains("`kind`") && unknown.contains("preference"), "{unknown}");
        assert!(error("{}").contains("text"), "{}", error("{}"));
        assert!(error(r#"{"text": "a", "slots": "b"}"#).contains("slots"));
    }
}
