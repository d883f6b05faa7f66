//! A UI message and its parts, as clients show and post them.
//!
//! A part of a type that nobody knows yet is kept as it came ([`UiPart::Unknown`]), and so is every field of a known part
//! that this crate has no name for. How parts are read and written is in `wire`.
//!
//! The record knows two things that no client shows, and [`crate::Profile::message`] takes them out: why a call was denied
//! (`error_text`), and that an input was refused (then the call's `input` and `raw_input` are equal).

pub(crate) mod steps;
mod wire;

use std::mem;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ApprovalId, MessageId, ToolCallId};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions to the model.
    System,
    /// The person.
    User,
    /// The model, with everything its tools did.
    Assistant,
}

/// A message: the unit a run makes, a client shows, and the record holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UiMessage {
    /// Unique within its chat.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// Free-form; Fermata puts usage, model and duration here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub metadata: Option<Value>,
    /// What it consists of, in order.
    pub parts: Vec<UiPart>,
}

/// One part of a message. Serialised with the AI SDK's `type` tags.
#[derive(Clone, Debug, PartialEq)]
pub enum UiPart {
    /// Words. `state` is `streaming` or `done`.
    Text {
        /// The words so far.
        text: String,
        /// `Some(true)` while deltas may follow, `Some(false)` when ended, `None` where the client said nothing.
        streaming: Option<bool>,
        /// What the provider attached, free-form.
        provider_metadata: Option<Value>,
        /// Fields without a name of their own here (`citations`, …).
        extra: Map<String, Value>,
    },
    /// The model's reasoning.
    Reasoning {
        /// The reasoning so far.
        text: String,
        /// As in [`UiPart::Text`].
        streaming: Option<bool>,
        /// What the provider attached, free-form.
        provider_metadata: Option<Value>,
        /// Fields without a name of their own here (`id`, …).
        extra: Map<String, Value>,
    },
    /// A file by URL or data URL.
    File(FilePart),
    /// The border between two steps.
    StepStart,
    /// A tool call.
    Tool(Box<ToolPart>),
    /// `data-*`.
    Data(DataPart),
    /// Every other part, known by name (`source-url`, `source-document`, `custom`, `reasoning-file`, `steering-message`) or not: kept whole.
    Unknown(Map<String, Value>),
}

/// A file part.
#[derive(Clone, Debug, PartialEq)]
pub struct FilePart {
    /// IANA media type.
    pub media_type: String,
    /// `https:` or `data:`.
    pub url: String,
    /// Its name, where it has one.
    pub filename: Option<String>,
    /// Fields without a name of their own here.
    pub extra: Map<String, Value>,
}

/// A data part.
#[derive(Clone, Debug, PartialEq)]
pub struct DataPart {
    /// `data-<name>`.
    pub kind: String,
    /// A later chunk with the same id replaces the data.
    pub id: Option<String>,
    /// Free-form.
    pub data: Value,
    /// Fields without a name of their own here.
    pub extra: Map<String, Value>,
}

/// What a tool part is called on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolName {
    /// `tool-<name>`: the client knows the tool's types.
    Static(String),
    /// `dynamic-tool` with a `toolName`: it does not.
    Dynamic(String),
}

/// A tool call as a client shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolPart {
    /// Which call.
    pub tool_call_id: ToolCallId,
    /// Which tool, and whether the part is dynamic.
    pub name: ToolName,
    /// How far it is.
    pub state: ToolState,
    /// The question that was put about it, and its answer.
    pub approval: Option<Approval>,
    /// Fields without a name of their own here (`title`, `providerExecuted`, `toolMetadata`, `callProviderMetadata`, …).
    pub extra: Map<String, Value>,
}

/// How far a call is, in the client's words.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are the AI SDK's own and are documented there")]
pub enum ToolState {
    InputStreaming {
        input: Option<Value>,
        raw_input: Option<String>,
    },
    InputAvailable {
        input: Value,
    },
    ApprovalRequested {
        input: Option<Value>,
        raw_input: Option<String>,
    },
    ApprovalResponded {
        input: Option<Value>,
        raw_input: Option<String>,
    },
    OutputAvailable {
        input: Option<Value>,
        output: Value,
        preliminary: Option<bool>,
    },
    OutputError {
        input: Option<Value>,
        raw_input: Option<Value>,
        error_text: String,
    },
    /// `error_text` is the record's own: what version 5, which knows no denials, shows as the call's error.
    OutputDenied {
        input: Option<Value>,
        raw_input: Option<String>,
        error_text: Option<String>,
    },
}

/// A question about a call and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Which question.
    pub id: ApprovalId,
    /// The decision, once there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approved: Option<bool>,
    /// What the person said about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Fields without a name of their own here (`isAutomatic`, `signature`, `descriptor`, …).
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

// === impl UiPart ===

impl UiPart {
    /// The words of a text part.
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

    /// The part as a tool call, where it is one.
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
    /// Moves the call on: the next state is made from the input and what was streamed of it.
    pub(crate) fn advance(&mut self, next: impl FnOnce(Option<Value>, Option<Value>) -> ToolState) {
        let before =
            mem::replace(&mut self.state, ToolState::InputStreaming { input: None, raw_input: None });
        let (input, raw_input) = before.into_inputs();
        self.state = next(input, raw_input);
    }
}

// === impl ToolName ===

impl ToolName {
    /// The bare name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Static(name) | Self::Dynamic(name) => name,
        }
    }

    /// Whether the part is a `dynamic-tool`.
    pub fn is_dynamic(&self) -> bool {
        matches!(self, Self::Dynamic(_))
    }
}

// === impl ToolState ===

impl ToolState {
    /// The input, as far as it is known.
    pub fn input(&self) -> Option<&Value> {
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

    /// Whether the input came in deltas only and never became available.
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

    /// Takes the state apart into the input and what was streamed of it.
    pub(crate) fn into_inputs(self) -> (Option<Value>, Option<Value>) {
        match self {
            Self::InputAvailable { input } => (Some(input), None),
            Self::OutputAvailable { input, .. } => (input, None),
            Self::OutputError { input, raw_input, .. } => (input, raw_input),
            Self::InputStreaming { input, raw_input }
            | Self::ApprovalRequested { input, raw_input }
            | Self::ApprovalResponded { input, raw_input }
            | Self::OutputDenied { input, raw_input, .. } => (input, raw_input.map(Value::String)),
        }
    }

    /// Whether the call has its outcome.
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
