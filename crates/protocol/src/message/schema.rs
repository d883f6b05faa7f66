//! The description of messages and their parts for `/openapi.json`.
//!
//! [`UiPart`] reads and writes its JSON by hand (module `wire`), so the description is here.

use std::borrow::Cow;

use serde_json::Value;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{Approval, UiPart};

/// One part of a message. Its `type` names its kind.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is read by the description only")]
enum UiMessagePart {
    Known(KnownPart),
    StaticTool(StaticToolPart),
    DynamicTool(DynamicToolPart),
    Data(DataPart),
}

/// A part with a fixed `type`.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[expect(dead_code, reason = "it is read by the description only")]
enum KnownPart {
    /// Text of the message.
    #[schema(rename_all = "camelCase")]
    Text { text: String, state: Option<TextState>, provider_metadata: Option<ProviderMetadata> },
    /// The model's reasoning.
    #[schema(rename_all = "camelCase")]
    Reasoning { text: String, state: Option<TextState>, provider_metadata: Option<ProviderMetadata> },
    /// A file, given by a URL or a data URL.
    #[schema(rename_all = "camelCase")]
    File {
        media_type: String,
        url: String,
        filename: Option<String>,
        provider_metadata: Option<ProviderMetadata>,
    },
    /// A file that belongs to the model's reasoning.
    #[schema(rename_all = "camelCase")]
    ReasoningFile { media_type: String, url: String, provider_metadata: Option<ProviderMetadata> },
    /// The start of a step.
    StepStart,
    /// A page that the model refers to.
    #[schema(rename_all = "camelCase")]
    SourceUrl {
        source_id: String,
        url: String,
        title: Option<String>,
        provider_metadata: Option<ProviderMetadata>,
    },
    /// A document that the model refers to.
    #[schema(rename_all = "camelCase")]
    SourceDocument {
        source_id: String,
        media_type: String,
        title: String,
        filename: Option<String>,
        provider_metadata: Option<ProviderMetadata>,
    },
    /// A user message that came while the model was at work.
    #[schema(rename_all = "camelCase")]
    SteeringMessage { id: String, parts: Vec<SteeringPart> },
    /// Something that only one provider has. `kind` is `<provider>.<kind>`.
    #[schema(rename_all = "camelCase")]
    Custom {
        #[schema(pattern = "^[^.]+\\..+$")]
        kind: String,
        provider_metadata: Option<ProviderMetadata>,
    },
}

/// A part of a user message that came while the model was at work.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[expect(dead_code, reason = "it is read by the description only")]
pub(crate) enum SteeringPart {
    #[schema(rename_all = "camelCase")]
    Text { text: String },
    #[schema(rename_all = "camelCase")]
    File { media_type: String, url: String, filename: Option<String> },
}

/// The state of a text, which says if it is still being written.
#[derive(ToSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "it is read by the description only")]
enum TextState {
    Streaming,
    Done,
}

/// Free-form objects by the name of the provider.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is read by the description only")]
#[schema(value_type = HashMap<String, HashMap<String, Value>>)]
pub(crate) struct ProviderMetadata(Value);

/// A call of a tool whose types the client knows.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is read by the description only")]
struct StaticToolPart {
    /// `tool-<name>`.
    #[schema(pattern = "^tool-")]
    r#type: String,
    tool_call_id: String,
    title: Option<String>,
    provider_executed: Option<bool>,
    #[serde(flatten)]
    state: ToolPartState,
}

/// A call of a tool whose types the client does not know.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is read by the description only")]
struct DynamicToolPart {
    r#type: DynamicTool,
    tool_name: String,
    tool_call_id: String,
    title: Option<String>,
    provider_executed: Option<bool>,
    #[serde(flatten)]
    state: ToolPartState,
}

#[derive(ToSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "it is read by the description only")]
enum DynamicTool {
    DynamicTool,
}

/// The state of a call, with the data of the call in that state.
#[derive(ToSchema)]
#[serde(tag = "state", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[expect(dead_code, reason = "it is read by the description only")]
enum ToolPartState {
    /// The input is being written.
    #[schema(rename_all = "camelCase")]
    InputStreaming { input: Option<Value> },
    /// The input is complete.
    #[schema(rename_all = "camelCase")]
    InputAvailable { input: Value },
    /// A person is asked whether the call may run.
    #[schema(rename_all = "camelCase")]
    ApprovalRequested { input: Value, approval: RequestedApproval },
    /// The person has decided, and the call has not run.
    #[schema(rename_all = "camelCase")]
    ApprovalResponded { input: Value, approval: Approval },
    /// The call has an output.
    #[schema(rename_all = "camelCase")]
    OutputAvailable {
        input: Value,
        output: Value,
        /// True if another output follows.
        preliminary: Option<bool>,
        approval: Option<Approval>,
    },
    /// The call has failed.
    #[schema(rename_all = "camelCase")]
    OutputError { input: Value, raw_input: Option<Value>, error_text: String, approval: Option<Approval> },
    /// The call was denied.
    #[schema(rename_all = "camelCase")]
    OutputDenied { input: Value, approval: Approval },
}

/// A question whether a call may run.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is read by the description only")]
struct RequestedApproval {
    id: String,
    is_automatic: Option<bool>,
}

/// Data that the application defines.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is read by the description only")]
struct DataPart {
    /// `data-<name>`.
    #[schema(pattern = "^data-")]
    r#type: String,
    /// A later chunk with the same `type` and `id` replaces the data.
    id: Option<String>,
    data: Value,
}

impl PartialSchema for UiPart {
    fn schema() -> RefOr<Schema> {
        UiMessagePart::schema()
    }
}

impl ToSchema for UiPart {
    fn name() -> Cow<'static, str> {
        "UIMessagePart".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        UiMessagePart::schemas(schemas);
    }
}
