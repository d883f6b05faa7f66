//! Every chunk of the UI Message Stream, as AI SDK 7 writes it; [`crate::Profile`] says what older clients may see.
//!
//! Absent fields are left out, because clients refuse `null` wherever a value is not free-form. What a chunk has to know
//! for older profiles and must not say on the wire is in its record only ([`UiChunk::to_record`]).

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, json};

use crate::{ApprovalId, MessageId, ToolCallId};

/// One event of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are the AI SDK's own and are documented there")]
pub enum UiChunk {
    Start {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        message_id: Option<MessageId>,
        #[serde(skip_serializing_if = "is_absent", default)]
        message_metadata: Option<Value>,
    },
    StartStep,
    FinishStep,
    /// Takes back the current step's parts (version 7 only).
    ResetStep,
    Finish {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        finish_reason: Option<FinishReason>,
        #[serde(skip_serializing_if = "is_absent", default)]
        message_metadata: Option<Value>,
    },
    Abort {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
    },
    Error {
        error_text: String,
    },
    MessageMetadata {
        message_metadata: Value,
    },
    TextStart {
        id: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    TextDelta {
        id: String,
        delta: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    TextEnd {
        id: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        citations: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    ReasoningStart {
        id: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    ReasoningDelta {
        id: String,
        delta: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    ReasoningEnd {
        id: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    ReasoningFile {
        url: String,
        media_type: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    Custom {
        kind: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    SourceUrl {
        source_id: String,
        url: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        title: Option<String>,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    SourceDocument {
        source_id: String,
        media_type: String,
        title: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        filename: Option<String>,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    File {
        url: String,
        media_type: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    /// A user's words taken up in the middle of an assistant message (version 7 only).
    SteeringMessage {
        id: String,
        parts: Vec<Value>,
    },
    ToolInputStart {
        tool_call_id: ToolCallId,
        tool_name: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        input_encoding: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        tool_metadata: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dynamic: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        title: Option<String>,
    },
    ToolInputDelta {
        tool_call_id: ToolCallId,
        input_text_delta: String,
    },
    ToolInputAvailable {
        tool_call_id: ToolCallId,
        tool_name: String,
        input: Value,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        tool_metadata: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dynamic: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        title: Option<String>,
    },
    ToolInputError {
        tool_call_id: ToolCallId,
        tool_name: String,
        input: Value,
        error_text: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        tool_metadata: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dynamic: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        title: Option<String>,
    },
    ToolApprovalRequest {
        approval_id: ApprovalId,
        tool_call_id: ToolCallId,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        approval_descriptor: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        input_schema_input: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        is_automatic: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        signature: Option<String>,
        /// Not on the wire: version 5 is told it in `data-tool-approval`.
        #[serde(skip_serializing, default)]
        tool_name: String,
    },
    ToolApprovalResponse {
        approval_id: ApprovalId,
        approved: bool,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
    },
    ToolOutputAvailable {
        tool_call_id: ToolCallId,
        output: Value,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        preliminary: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        tool_metadata: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dynamic: Option<bool>,
    },
    ToolOutputError {
        tool_call_id: ToolCallId,
        error_text: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        provider_metadata: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        tool_metadata: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dynamic: Option<bool>,
    },
    ToolOutputDenied {
        tool_call_id: ToolCallId,
        /// Not on the wire: what version 5 reads as the call's error; see [`crate::denial_text`].
        #[serde(skip_serializing, default)]
        error_text: String,
        /// Not on the wire: version 5 finds the part of a dynamic tool only with it.
        #[serde(skip_serializing, default)]
        dynamic: Option<bool>,
    },
    /// Any `data-*` chunk.
    #[serde(untagged)]
    Data(DataChunk),
}

/// A chunk of an application's own: its type starts with `data-`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataChunk {
    /// `data-<name>`.
    #[serde(rename = "type", deserialize_with = "data_kind")]
    pub kind: String,
    /// A later chunk of the same type and id replaces the data of the earlier.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<String>,
    /// The payload, free-form.
    pub data: Value,
    /// Shown to the client's `onData` only, never part of the message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transient: Option<bool>,
}

/// Why a message ended. Outside this list clients throw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// The model had said all.
    Stop,
    /// The model ran into its token limit.
    Length,
    /// The provider's filter cut the answer.
    ContentFilter,
    /// The model called tools, which nobody has answered yet.
    ToolCalls,
    /// The model failed.
    Error,
    /// The run was broken off (version 7 only).
    Interrupted,
    /// Anything else.
    Other,
}

/// Whether a free-form field has nothing to say: clients refuse `null` here.
fn is_absent(value: &Option<Value>) -> bool {
    matches!(value, None | Some(Value::Null))
}

fn data_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let kind = String::deserialize(deserializer)?;
    if kind.starts_with("data-") {
        Ok(kind)
    } else {
        Err(D::Error::custom(format!("unknown chunk type {kind}")))
    }
}

// === impl UiChunk ===

impl UiChunk {
    /// The chunk as JSON for the log's storage: the wire form and what only other profiles are told.
    pub fn to_record(&self) -> String {
        let mut record = json!(self);
        if let Self::ToolApprovalRequest { tool_name, .. } = self {
            record["toolName"] = json!(tool_name);
        }
        if let Self::ToolOutputDenied { error_text, dynamic, .. } = self {
            record["errorText"] = json!(error_text);
            if dynamic.is_some() {
                record["dynamic"] = json!(dynamic);
            }
        }
        record.to_string()
    }

    /// Puts the next chunk's words at the end of this one's, where both are words of one part. Whether that was so.
    pub fn take_in(&mut self, next: &Self) -> bool {
        if let (Some((kind, id, words)), Some((next_kind, next_id, next))) = (self.words_mut(), next.words())
            && (kind, id) == (next_kind, next_id)
        {
            words.push_str(next);
            return true;
        }
        false
    }

    /// What tells a part's kind, its id and its words, in a chunk that is nothing but words.
    fn words(&self) -> Option<(bool, &str, &str)> {
        if let Self::TextDelta { id, delta, provider_metadata: None } = self {
            Some((true, id, delta))
        } else if let Self::ReasoningDelta { id, delta, provider_metadata: None } = self {
            Some((false, id, delta))
        } else {
            None
        }
    }

    fn words_mut(&mut self) -> Option<(bool, &str, &mut String)> {
        if let Self::TextDelta { id, delta, provider_metadata: None } = self {
            Some((true, id, delta))
        } else if let Self::ReasoningDelta { id, delta, provider_metadata: None } = self {
            Some((false, id, delta))
        } else {
            None
        }
    }

    /// Reads what [`UiChunk::to_record`] wrote; the wire form is a record too.
    ///
    /// # Errors
    /// Where it is no chunk.
    pub fn from_record(record: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(record)
    }
}
