//! A UI message and its parts, as clients show and post them.
//!
//! A part of an unknown type is kept unchanged ([`UiPart::Unknown`]), and so is every field of a known part that this crate
//! has no name for. The module `wire` reads and writes parts.
//!
//! A stored message has two facts that no client shows, and [`crate::Profile::message`] removes them: the text of a denial
//! (`error_text`), and that a call's input was refused (then its `input` and `raw_input` are equal).

pub(crate) mod schema;
pub(crate) mod steps;
mod wire;

use std::mem;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{ApprovalId, JsonText, MessageId, ToolCallId};

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    User,
    /// The model, together with its tools.
    Assistant,
    /// Instructions to the model.
    System,
}

/// A message of a chat. A run produces one, a client shows it, and the store keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = UIMessage)]
pub struct UiMessage {
    /// The message's id, unique within its chat.
    #[schema(value_type = String)]
    pub id: MessageId,
    /// The message's author.
    pub role: Role,
    /// Free-form metadata. Fermata puts usage, model and duration here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub metadata: Option<Value>,
    /// The arrival time of a user's message, or the start time of the run that writes this one; `None` if it is not known.
    #[serde(rename = "createdAt", skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub created_at: Option<Timestamp>,
    /// The message's parts, in order.
    pub parts: Vec<UiPart>,
}

/// One part of a message. In JSON it has the AI SDK's `type` tags.
#[derive(Clone, Debug, PartialEq)]
pub enum UiPart {
    /// Text of the message.
    Text {
        /// The text so far.
        text: String,
        /// `Some(true)` while deltas may follow (`state` is `streaming`), `Some(false)` when the text has ended (`done`), and
        /// `None` if the part has no such state.
        streaming: Option<bool>,
        /// Free-form metadata from the provider.
        provider_metadata: Option<Value>,
        /// All other fields, such as `citations`.
        extra: Map<String, Value>,
    },
    /// The model's reasoning.
    Reasoning {
        /// The reasoning so far.
        text: String,
        /// The state of the stream, as in [`UiPart::Text`].
        streaming: Option<bool>,
        /// Free-form metadata from the provider.
        provider_metadata: Option<Value>,
        /// All other fields, such as `id`.
        extra: Map<String, Value>,
    },
    /// A file, given by a URL or a data URL.
    File(FilePart),
    /// The start of a step.
    StepStart,
    /// A tool call.
    Tool(Box<ToolPart>),
    /// A `data-*` part.
    Data(DataPart),
    /// Every other part (`source-url`, `source-document`, `custom`, `reasoning-file`, `steering-message`, and unknown types),
    /// with all its fields.
    Unknown(Map<String, Value>),
}

/// A file part.
#[derive(Clone, Debug, PartialEq)]
pub struct FilePart {
    /// The file's IANA media type.
    pub media_type: String,
    /// The file's URL (`https:` or `data:`).
    pub url: String,
    /// The file's name.
    pub filename: Option<String>,
    /// All other fields.
    pub extra: Map<String, Value>,
}

/// A data part.
#[derive(Clone, Debug, PartialEq)]
pub struct DataPart {
    /// The part's type, `data-<name>`.
    pub kind: String,
    /// The part's id. A later chunk with the same type and id replaces the data.
    pub id: Option<String>,
    /// The data, which may be any JSON value.
    pub data: Value,
    /// All other fields.
    pub extra: Map<String, Value>,
}

/// The name of a tool, and the form of its part on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolName {
    /// The part's type is `tool-<name>`: the client knows the types of the tool.
    Static(String),
    /// The part's type is `dynamic-tool` and it has a `toolName`: the client does not know the types of the tool.
    Dynamic(String),
}

/// A tool call as a client shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolPart {
    /// The id of the call.
    pub tool_call_id: ToolCallId,
    /// The tool's name, static or dynamic.
    pub name: ToolName,
    /// The call's state.
    pub state: ToolState,
    /// The approval request for the call, and the decision about it.
    pub approval: Option<Approval>,
    /// All other fields, such as `title`, `providerExecuted`, `toolMetadata` and `callProviderMetadata`.
    pub extra: Map<String, Value>,
}

/// The state of a call, as the AI SDK defines it.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are the AI SDK's own and are documented there")]
pub enum ToolState {
    InputStreaming {
        input: Option<JsonText>,
        raw_input: Option<String>,
    },
    InputAvailable {
        input: JsonText,
    },
    ApprovalRequested {
        input: Option<JsonText>,
        raw_input: Option<String>,
    },
    ApprovalResponded {
        input: Option<JsonText>,
        raw_input: Option<String>,
    },
    OutputAvailable {
        input: Option<JsonText>,
        output: Value,
        preliminary: Option<bool>,
    },
    OutputError {
        input: Option<JsonText>,
        raw_input: Option<JsonText>,
        error_text: String,
    },
    /// The call was denied. `error_text` is only in the stored message: version 5, which knows no denials, shows it as the
    /// call's error.
    OutputDenied {
        input: Option<JsonText>,
        raw_input: Option<String>,
        error_text: Option<String>,
    },
}

/// An approval request for a call, and the decision about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    /// The id of the request.
    #[schema(value_type = String)]
    pub id: ApprovalId,
    /// The decision. `None` until there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approved: Option<bool>,
    /// The reason that the person gave for the decision.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// All other fields, such as `isAutomatic`, `signature` and `descriptor`.
    #[serde(flatten)]
    #[schema(ignore)]
    pub extra: Map<String, Value>,
}

// === impl UiPart ===

impl UiPart {
    /// Creates a text that is complete.
    pub(crate) fn text(text: &str) -> Self {
        Self::Text { text: text.to_owned(), streaming: None, provider_metadata: None, extra: Map::new() }
    }

    /// Returns the text of a text part, and `None` for other parts.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Reasoning { .. }
            | Self::File(_)
            | Self::StepStart
            | Self::Tool(_)
            | Self::Data(_)
            | Self::Unknown(_) => None,
        }
    }

    /// Returns the tool call of a tool part, and `None` for other parts.
    pub fn as_tool(&self) -> Option<&ToolPart> {
        match self {
            Self::Tool(part) => Some(part),
            Self::Text { .. }
            | Self::Reasoning { .. }
            | Self::File(_)
            | Self::StepStart
            | Self::Data(_)
            | Self::Unknown(_) => None,
        }
    }
}

// === impl ToolPart ===

impl ToolPart {
    /// Replaces the call's state. `next` gets the input and the raw input of the current state.
    pub(crate) fn advance(&mut self, next: impl FnOnce(Option<JsonText>, Option<JsonText>) -> ToolState) {
        let previous =
            mem::replace(&mut self.state, ToolState::InputStreaming { input: None, raw_input: None });
        let (input, raw_input) = match previous {
            ToolState::InputAvailable { input } => (Some(input), None),
            ToolState::OutputAvailable { input, .. } => (input, None),
            ToolState::OutputError { input, raw_input, .. } => (input, raw_input),
            ToolState::InputStreaming { input, raw_input }
            | ToolState::ApprovalRequested { input, raw_input }
            | ToolState::ApprovalResponded { input, raw_input }
            | ToolState::OutputDenied { input, raw_input, .. } => (input, raw_input.map(JsonText::string)),
        };
        self.state = next(input, raw_input);
    }
}

// === impl ToolName ===

impl ToolName {
    /// Returns the tool's name without the prefix of the part's type.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Static(name) | Self::Dynamic(name) => name,
        }
    }

    /// Returns whether the part is a `dynamic-tool`.
    pub fn is_dynamic(&self) -> bool {
        matches!(self, Self::Dynamic(_))
    }
}

// === impl ToolState ===

impl ToolState {
    /// Returns the input as far as it has arrived.
    pub fn input(&self) -> Option<&JsonText> {
        match self {
            Self::InputAvailable { input } => Some(input),
            Self::InputStreaming { input, .. }
            | Self::ApprovalRequested { input, .. }
            | Self::ApprovalResponded { input, .. }
            | Self::OutputAvailable { input, .. }
            | Self::OutputError { input, .. }
            | Self::OutputDenied { input, .. } => input.as_ref(),
        }
    }

    /// Returns whether the input arrived in deltas only and never became available.
    pub(crate) fn has_streamed_input(&self) -> bool {
        match self {
            Self::InputStreaming { .. } => true,
            Self::ApprovalRequested { input, raw_input }
            | Self::ApprovalResponded { input, raw_input }
            | Self::OutputDenied { input, raw_input, .. } => input.is_none() || raw_input.is_some(),
            Self::OutputError { input, raw_input, .. } => input.is_none() || raw_input.is_some(),
            Self::OutputAvailable { input, .. } => input.is_none(),
            Self::InputAvailable { .. } => false,
        }
    }

    /// Returns whether the call has its final outcome. A preliminary output is not final.
    pub fn is_settled(&self) -> bool {
        match self {
            Self::OutputAvailable { preliminary, .. } => *preliminary != Some(true),
            Self::OutputError { .. } | Self::OutputDenied { .. } => true,
            Self::InputStreaming { .. }
            | Self::InputAvailable { .. }
            | Self::ApprovalRequested { .. }
            | Self::ApprovalResponded { .. } => false,
        }
    }
}
