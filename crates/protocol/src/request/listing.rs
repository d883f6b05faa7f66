//! The body of `PATCH /api/chat/{id}`.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::{BodyError, Posted, RequestError, json::read_value, read::read};

/// A change of the entry of a chat in lists. Fields that are left out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatPatch {
    /// The title, of at most 200 characters; null for the beginning of the first user message.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub title: Option<Option<String>>,
    /// `true` to keep the chat out of all lists but those of archived chats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// `true` to have lists begin with the chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
}

/// The number of characters of the longest title.
const LONGEST_TITLE: usize = 200;

/// Reads a field that is there, even if it is null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl Posted for ChatPatch {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        let mut patch: Self = read(read_value(json)?, "The body")?;
        if patch == Self::default() {
            return Err(RequestError(
                "The body changes nothing; it takes title, archived and pinned.".into(),
            )
            .into());
        }
        if let Some(Some(title)) = &mut patch.title {
            *title = title
                .split(|c: char| c.is_whitespace() || c.is_control())
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join(" ");
            let length = title.chars().count();
            if !(1..=LONGEST_TITLE).contains(&length) {
                let text = format!("`title` must have 1 to {LONGEST_TITLE} characters, and has {length}.");
                return Err(RequestError(text).into());
            }
        }
        Ok(patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_stays_and_null_takes_the_title_back() {
        let read = |json: &str| ChatPatch::from_json(json.as_bytes()).unwrap();
        assert_eq!(
            read(r#"{"title": null, "pinned": false}"#),
            ChatPatch { title: Some(None), pinned: Some(false), ..ChatPatch::default() }
        );
        let title = read(r#"{"title": " Häuser\nund\u0000  Gärten "}"#).title;
        assert_eq!(title, Some(Some("Häuser und Gärten".into())));
    }

    #[test]
    fn another_instance_reads_it_as_it_was_sent() {
        for title in [None, Some(None), Some(Some("Places".to_owned()))] {
            let patch = ChatPatch { title, archived: None, pinned: Some(false) };
            let sent = serde_json::to_string(&patch).unwrap();
            assert_eq!(serde_json::from_str::<ChatPatch>(&sent).unwrap(), patch, "{sent}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |json: &str| ChatPatch::from_json(json.as_bytes()).unwrap_err().to_string();
        assert!(error("{}").contains("changes nothing"), "{}", error("{}"));
        assert!(error(r#"{"title": 7}"#).contains("`title`"));
        assert!(error(r#"{"archived": "yes"}"#).contains("`archived`"));
        assert!(error(r#"{"titel": "x"}"#).contains("titel"));
        assert!(error(r#"{"title": " "}"#).contains("has 0"));
        assert!(error(&format!(r#"{{"title": "{}"}}"#, "ü".repeat(201))).contains("has 201"));
    }
}
