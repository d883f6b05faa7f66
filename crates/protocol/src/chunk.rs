//! The chunks of the UI Message Stream, as AI SDK 7 writes them. [`crate::Profile`] adapts them to older clients.
//!
//! Absent fields are left out of the JSON, because clients refuse `null` unless the value is free-form. Some fields exist
//! only to build the chunk that an older profile gets instead. They are stored with the chunk ([`UiChunk::to_record`]) and
//! never sent.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    ApprovalId, JsonText, MessageId, ToolCallId,
    message::schema::{ProviderMetadata, SteeringPart},
};

/// One event of the stream.
///
/// A new variant does not compile until the fold (`assemble.rs`), the table of the profiles (`profile/chunk.rs`) and the list
/// of chunks in `tests/real_clients` name it. The compiler does not lead to the rest: if the chunk makes or changes a part,
/// [`crate::replay`] has to write the chunk again, and `profile/message.rs` has to remove from the part what older clients were
/// not sent. `tests/protocol/wire.rs` shows what each profile is sent, and `tests/protocol/folding.rs` generates chunks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[schema(as = UIMessageChunk)]
#[expect(missing_docs, reason = "the fields are the AI SDK's own and are documented there")]
pub enum UiChunk {
    #[schema(rename_all = "camelCase")]
    Start {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        #[schema(value_type = Option<String>)]
        message_id: Option<MessageId>,
        #[serde(skip_serializing_if = "is_absent", default)]
        message_metadata: Option<Value>,
    },
    StartStep,
    FinishStep,
    /// Removes the parts of the current step (version 7 only).
    ResetStep,
    #[schema(rename_all = "camelCase")]
    Finish {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        finish_reason: Option<FinishReason>,
        #[serde(skip_serializing_if = "is_absent", default)]
        message_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    Abort {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
    },
    #[schema(rename_all = "camelCase")]
    Error {
        error_text: String,
    },
    #[schema(rename_all = "camelCase")]
    MessageMetadata {
        message_metadata: Value,
    },
    #[schema(rename_all = "camelCase")]
    TextStart {
        id: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    TextDelta {
        id: String,
        delta: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    TextEnd {
        id: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        citations: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    ReasoningStart {
        id: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    ReasoningDelta {
        id: String,
        delta: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    ReasoningEnd {
        id: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    ReasoningFile {
        url: String,
        media_type: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    Custom {
        kind: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    SourceUrl {
        source_id: String,
        url: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        title: Option<String>,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    SourceDocument {
        source_id: String,
        media_type: String,
        title: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        filename: Option<String>,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    File {
        url: String,
        media_type: String,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    /// A user message that is inserted into a running assistant message (version 7 only).
    #[schema(rename_all = "camelCase")]
    SteeringMessage {
        id: String,
        #[schema(value_type = Vec<SteeringPart>)]
        parts: Vec<Value>,
    },
    #[schema(rename_all = "camelCase")]
    ToolInputStart {
        #[schema(value_type = String)]
        tool_call_id: ToolCallId,
        tool_name: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        input_encoding: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        tool_metadata: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dynamic: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        title: Option<String>,
    },
    #[schema(rename_all = "camelCase")]
    ToolInputDelta {
        #[schema(value_type = String)]
        tool_call_id: ToolCallId,
        input_text_delta: String,
    },
    #[schema(rename_all = "camelCase")]
    ToolInputAvailable {
        #[schema(value_type = String)]
        tool_call_id: ToolCallId,
        tool_name: String,
        #[schema(value_type = Value)]
        input: JsonText,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        tool_metadata: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dynamic: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        title: Option<String>,
    },
    #[schema(rename_all = "camelCase")]
    ToolInputError {
        #[schema(value_type = String)]
        tool_call_id: ToolCallId,
        tool_name: String,
        #[schema(value_type = Value)]
        input: JsonText,
        error_text: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        tool_metadata: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dynamic: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        title: Option<String>,
    },
    #[schema(rename_all = "camelCase")]
    ToolApprovalRequest {
        #[schema(value_type = String)]
        approval_id: ApprovalId,
        #[schema(value_type = String)]
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
        /// The tool's name. It is not on the wire; version 5 gets it in `data-tool-approval`.
        #[serde(skip_serializing, default)]
        tool_name: String,
    },
    #[schema(rename_all = "camelCase")]
    ToolApprovalResponse {
        #[schema(value_type = String)]
        approval_id: ApprovalId,
        approved: bool,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
    },
    #[schema(rename_all = "camelCase")]
    ToolOutputAvailable {
        #[schema(value_type = String)]
        tool_call_id: ToolCallId,
        output: Value,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        preliminary: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        tool_metadata: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dynamic: Option<bool>,
    },
    #[schema(rename_all = "camelCase")]
    ToolOutputError {
        #[schema(value_type = String)]
        tool_call_id: ToolCallId,
        error_text: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        provider_executed: Option<bool>,
        #[serde(skip_serializing_if = "is_absent", default)]
        #[schema(value_type = Option<ProviderMetadata>)]
        provider_metadata: Option<Value>,
        #[serde(skip_serializing_if = "is_absent", default)]
        tool_metadata: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        dynamic: Option<bool>,
    },
    #[schema(rename_all = "camelCase")]
    ToolOutputDenied {
        #[schema(value_type = String)]
        tool_call_id: ToolCallId,
        /// The text that version 5 shows as the call's error; see [`crate::denial_text`]. It is not on the wire.
        #[serde(skip_serializing, default)]
        error_text: String,
        /// `Some(true)` if the tool is dynamic. It is not on the wire; version 5 needs it to find the part of a dynamic tool.
        #[serde(skip_serializing, default)]
        dynamic: Option<bool>,
    },
    /// A `data-*` chunk.
    #[serde(untagged)]
    Data(DataChunk),
}

/// A chunk that the application defines. Its type starts with `data-`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DataChunk {
    /// The chunk's type, `data-<name>`.
    #[serde(rename = "type", deserialize_with = "deserialize_data_kind")]
    #[schema(pattern = "^data-")]
    pub kind: String,
    /// The id of the data part. A later chunk with the same type and id replaces the part's data.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<String>,
    /// The payload, which may be any JSON value.
    pub data: Value,
    /// `Some(true)` if the client only passes the chunk to `onData` and does not add it to the message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transient: Option<bool>,
}

/// The reason why a message ended. Clients throw an error if they get any other value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// The model completed its answer.
    Stop,
    /// The model reached its token limit.
    Length,
    /// The provider's content filter cut the answer off.
    ContentFilter,
    /// The model called tools whose results are still missing.
    ToolCalls,
    /// The model failed.
    Error,
    /// The run was interrupted (version 7 only).
    Interrupted,
    /// Any other reason.
    Other,
}

/// A chunk as it is stored, with the fields that are not on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(flatten)]
    chunk: &'a UiChunk,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic: Option<bool>,
}

/// Returns whether a free-form field is left out of the JSON. `null` counts as absent, because clients refuse it here.
fn is_absent(value: &Option<Value>) -> bool {
    matches!(value, None | Some(Value::Null))
}

fn deserialize_data_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let kind = String::deserialize(deserializer)?;
    if kind.starts_with("data-") {
        Ok(kind)
    } else {
        Err(D::Error::custom(format!("unknown chunk type {kind}")))
    }
}

// === impl UiChunk ===

impl UiChunk {
    /// Returns the chunk as JSON for storage: the wire form, and the fields that are not on the wire.
    pub fn to_record(&self) -> String {
        let mut record = Record { chunk: self, tool_name: None, error_text: None, dynamic: None };
        if let Self::ToolApprovalRequest { tool_name, .. } = self {
            record.tool_name = Some(tool_name);
        }
        if let Self::ToolOutputDenied { error_text, dynamic, .. } = self {
            record.error_text = Some(error_text);
            record.dynamic = *dynamic;
        }
        let written = serde_json::to_string(&record);
        debug_assert!(written.is_ok(), "a chunk can always be written as JSON");
        written.unwrap_or_default()
    }

    /// Returns whether the chunk is about a call.
    pub fn is_about_call(&self) -> bool {
        match self {
            Self::ToolInputStart { .. }
            | Self::ToolInputDelta { .. }
            | Self::ToolInputAvailable { .. }
            | Self::ToolInputError { .. }
            | Self::ToolApprovalRequest { .. }
            | Self::ToolApprovalResponse { .. }
            | Self::ToolOutputAvailable { .. }
            | Self::ToolOutputError { .. }
            | Self::ToolOutputDenied { .. } => true,
            Self::Start { .. }
            | Self::StartStep
            | Self::FinishStep
            | Self::ResetStep
            | Self::Finish { .. }
            | Self::Abort { .. }
            | Self::Error { .. }
            | Self::MessageMetadata { .. }
            | Self::TextStart { .. }
            | Self::TextDelta { .. }
            | Self::TextEnd { .. }
            | Self::ReasoningStart { .. }
            | Self::ReasoningDelta { .. }
            | Self::ReasoningEnd { .. }
            | Self::ReasoningFile { .. }
            | Self::Custom { .. }
            | Self::SourceUrl { .. }
            | Self::SourceDocument { .. }
            | Self::File { .. }
            | Self::SteeringMessage { .. }
            | Self::Data(_) => false,
        }
    }

    /// Returns the text of a delta of a text or reasoning part; `None` for any other chunk.
    pub fn delta(&self) -> Option<&str> {
        match self {
            Self::TextDelta { delta, .. } | Self::ReasoningDelta { delta, .. } => Some(delta),
            _ => None,
        }
    }

    /// Returns the same delta with another text. Any other chunk is returned as it is.
    #[must_use]
    pub fn with_delta(&self, text: &str) -> Self {
        let mut chunk = self.clone();
        match &mut chunk {
            Self::TextDelta { delta, .. } | Self::ReasoningDelta { delta, .. } => text.clone_into(delta),
            _ => {}
        }
        chunk
    }

    /// Appends the text of `next` to this chunk and returns `true` if both are deltas of one text or reasoning part and
    /// neither has provider metadata. Otherwise changes nothing and returns `false`.
    pub fn append_delta(&mut self, next: &Self) -> bool {
        match (self, next) {
            (
                Self::TextDelta { id, delta, provider_metadata: None },
                Self::TextDelta { id: next_id, delta: next_delta, provider_metadata: None },
            )
            | (
                Self::ReasoningDelta { id, delta, provider_metadata: None },
                Self::ReasoningDelta { id: next_id, delta: next_delta, provider_metadata: None },
            ) if id == next_id => {
                delta.push_str(next_delta);
                true
            }
            _ => false,
        }
    }

    /// Reads a chunk that [`UiChunk::to_record`] wrote, or a chunk in its wire form.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON or not a chunk.
    pub fn from_record(record: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(record)
    }
}
