//! The body of `POST /api/approvals/{id}`.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{BodyError, Posted, RequestError, answers::edited_input, json::read_value, read::read};
use crate::JsonText;

/// A vote about an approval, as it is posted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VoteRequest {
    /// `true` to approve the call. One denial settles it.
    approved: bool,
    /// A comment. The model reads that of a denial.
    #[serde(default)]
    reason: Option<String>,
    /// The input that the call is to run with in place of its own.
    #[serde(default)]
    input: Option<Value>,
    /// The input as JSON text, in place of `input`.
    #[serde(default)]
    input_text: Option<String>,
    /// The `inputHash` that was shown. The vote counts only for that input.
    #[serde(default)]
    input_hash: Option<String>,
}

/// A vote about an approval.
#[derive(Clone, Debug, PartialEq)]
pub struct PostedVote {
    /// `true` to approve the call.
    pub approved: bool,
    /// A comment.
    pub reason: Option<String>,
    /// The input that the call is to run with in place of its own.
    pub input: Option<JsonText>,
    /// The hash of the input that was shown.
    pub input_hash: Option<String>,
}

impl Posted for PostedVote {
    fn from_json(json: &[u8]) -> Result<Self, BodyError> {
        let VoteRequest { approved, reason, input, input_text, input_hash } =
            read(read_value(json)?, "The body")?;
        let input =
            edited_input(input, input_text).map_err(|error| RequestError(format!("The vote{error}")))?;
        if input.is_some() && !approved {
            let text = "`input` is for `approved: true`: a call that is denied runs with no input";
            return Err(RequestError(text.into()).into());
        }
        Ok(Self { approved, reason, input, input_hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let error = |json: &str| PostedVote::from_json(json.as_bytes()).unwrap_err().to_string();
        assert!(error("{}").contains("approved"), "{}", error("{}"));
        assert!(error(r#"{"approved": "yes"}"#).contains("`approved`"));
        assert!(error(r#"{"approved": true, "always": true}"#).contains("always"));
        assert!(error(r#"{"approved": false, "input": {}}"#).contains("`input`"));
    }
}
