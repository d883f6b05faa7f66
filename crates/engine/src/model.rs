//! The port to models.
//!
//! A provider translates a [`ModelRequest`] into the request of its API, and the API's answer into [`ModelEvent`]s. The provider retries
//! until the first event; after it, an error ends the step. [`ModelEvent::Alive`] does not count as an event here.

pub(crate) mod content;
pub(crate) mod embedder;
pub mod file_urls;
pub mod media_types;
pub(crate) mod metrics;
pub(crate) mod provider_metadata;
pub mod tokens;

use std::ops::AddAssign;

use async_trait::async_trait;
use fermata_protocol::JsonText;
use fermata_tools::{ErrorPolicy, ErrorType, InputSchema};
use futures::stream::BoxStream;
use serde_json::{Map, Value};

/// A model that answers one step at a time.
#[async_trait]
pub trait Model: Send + Sync {
    /// Returns the model's name, which stands in the metadata of messages.
    fn name(&self) -> &str;

    /// Requests one step. Dropping the future or the stream ends the request to the provider. The tracing span of the request is the current
    /// one until the first event that is not [`ModelEvent::Alive`].
    ///
    /// # Errors
    /// Returns an error if the model failed before any event, [`ModelEvent::Alive`] included. A later failure is an error in the stream.
    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError>;
}

/// A request for one step: the conversation so far. Every call in it is paired with its result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The conversation. Every call in it has exactly one result, right after the message that made it.
    pub messages: Vec<ModelMessage>,
    /// The tools that the model may call. A provider that takes fewer leaves out the last ones.
    pub tools: Vec<ModelTool>,
    /// The requirement to call a tool, or not to call any.
    pub tool_choice: Option<fermata_protocol::ToolChoice>,
    /// Settings by the AI SDK's names (`temperature`, `maxOutputTokens`, …), as the client sent them.
    pub settings: Map<String, Value>,
    /// A request is worth repeating after failures with [`ErrorStrategy::Retry`](fermata_tools::ErrorStrategy::Retry).
    pub error_policy: ErrorPolicy,
    /// The header `traceparent` of the request, if the run is traced.
    pub traceparent: Option<String>,
}

/// A message to a model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelMessage {
    /// Instructions.
    System(String),
    /// The text and files of the user.
    User(Vec<ModelContent>),
    /// An answer of the model.
    Assistant {
        /// The reasoning of the answer.
        reasoning: String,
        /// The text of the answer.
        text: String,
        /// The tool calls of the answer.
        calls: Vec<ModelCall>,
        /// The metadata that the provider wants back with the answer.
        provider_metadata: Option<JsonText>,
    },
    /// The result of one call.
    Tool {
        /// The id of the call.
        call_id: String,
        /// The name of the tool.
        tool: String,
        /// The result as the model gets it; never empty.
        content: Vec<ModelContent>,
    },
}

/// A piece of content from the user or from a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelContent {
    /// A text.
    Text(String),
    /// A file by URL or data URL.
    File {
        /// The IANA media type.
        media_type: String,
        /// The URL: `https:`, `data:`, or `http:` if the settings allow its host.
        url: String,
        /// The name of the file.
        filename: Option<String>,
    },
}

/// A tool call in a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The id: 1 to 40 characters, unique in the request.
    pub id: String,
    /// The name of the tool: `[A-Za-z0-9_-]{1,64}`.
    pub tool: String,
    /// The input, which is an object.
    pub input: JsonText,
    /// The metadata that the provider wants back with the call.
    pub provider_metadata: Option<JsonText>,
}

/// A tool that is offered to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTool {
    /// The name: `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// The description of the tool.
    pub description: String,
    /// The JSON Schema of the input, with `type: object`.
    pub input_schema: InputSchema,
}

/// One event of a model's answer stream.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The provider reports that it is still at work. This is no part of the answer.
    Alive,
    /// More of the answer's text.
    Text(String),
    /// More of the answer's reasoning.
    Reasoning(String),
    /// A call begins. The provider's module chooses its `key`, which distinguishes the calls of the step.
    CallStart {
        /// The key of the call.
        key: usize,
        /// The name of the tool.
        tool: String,
    },
    /// More of a call's arguments, as raw JSON text cut anywhere.
    CallDelta {
        /// The key of the call.
        key: usize,
        /// The piece of JSON text.
        arguments: String,
    },
    /// The model made a file.
    File {
        /// The IANA media type.
        media_type: String,
        /// The file as a data URL.
        url: String,
    },
    /// The model names a source of its answer.
    Source {
        /// The URL of the source.
        url: String,
        /// The title of the source.
        title: Option<String>,
    },
    /// A part of the answer's text is based on a page, which [`ModelEvent::Source`] has named.
    ///
    /// It is rare and large, and events are moved several times.
    Citation(Box<Citation>),
    /// The provider wants this back with the answer, or with a call, whenever the conversation goes on. Only the provider's module reads it.
    ProviderMetadata {
        /// The key of the call; `None` if the metadata is that of the answer.
        key: Option<usize>,
        /// The metadata, in a form that the provider's module chooses.
        metadata: JsonText,
    },
    /// The step is complete. A stream that ends without this event was broken off.
    Finished {
        /// The reason why the answer ended.
        reason: fermata_protocol::FinishReason,
        /// The tokens of the step, if the provider counted them.
        usage: Option<Usage>,
    },
}

/// The source of a part of an answer's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Citation {
    /// The URL of the page.
    pub url: String,
    /// The title of the page.
    pub title: Option<String>,
    /// The part's beginning, in characters from that of the answer's text.
    pub start: Option<u64>,
    /// The part's end, in the same way; the character at the end is no part of it.
    pub end: Option<u64>,
    /// The passage of the page.
    pub passage: Option<String>,
}

/// Tokens of one step, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The tokens that the model read.
    pub input_tokens: u64,
    /// The tokens that the model wrote.
    pub output_tokens: u64,
    /// Both together, as the provider counts them.
    pub total_tokens: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, step: Self) {
        self.input_tokens += step.input_tokens;
        self.output_tokens += step.output_tokens;
        self.total_tokens += step.total_tokens;
    }
}

/// The reason why a model gave no answer, or not all of it. `Display` is for the operator's log; clients read [`ModelError::public`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The provider refused the key.
    #[error("the provider refused the credentials: {0}")]
    Auth(String),
    /// The provider still limited the rate after the retries.
    #[error("the provider limits the rate: {0}")]
    RateLimit(String),
    /// The provider has no model of the name that the settings give.
    #[error("the provider does not have the model: {0}")]
    UnknownModel(String),
    /// The request is longer than the model can take. The same request would be refused again.
    #[error("the request is too long for the model: {0}")]
    TooLong(String),
    /// The provider refused the request.
    #[error("the provider refused the request: {0}")]
    Refused(String),
    /// The provider still failed after the retries.
    #[error("the provider failed: {0}")]
    Provider(String),
    /// No connection to the provider could be made.
    #[error("the provider cannot be reached: {0}")]
    Unreachable(String),
    /// The connection to the provider broke.
    #[error("the connection to the provider failed: {0}")]
    Network(String),
    /// The provider has ended its answer before the first word, twice in a row. Some do that if the request is too long.
    #[error("the provider ended its answer before the first word: {0}")]
    NoAnswer(String),
    /// The answer could not be read.
    #[error("the provider's answer could not be read: {0}")]
    Format(String),
    /// The model took too long.
    #[error("the model did not answer in time")]
    Timeout,
}

impl ModelError {
    /// Returns the type of the error, as the settings name it. A provider that is down or overloaded counts as a failure of the network.
    pub fn error_type(&self) -> ErrorType {
        match self {
            Self::Auth(_) => ErrorType::Auth,
            Self::RateLimit(_) => ErrorType::RateLimit,
            Self::UnknownModel(_) | Self::TooLong(_) | Self::Refused(_) | Self::Format(_) => {
                ErrorType::InvalidFormat
            }
            Self::Provider(_) | Self::Unreachable(_) | Self::Network(_) | Self::NoAnswer(_) => {
                ErrorType::Network
            }
            Self::Timeout => ErrorType::Timeout,
        }
    }

    /// Returns the text for somebody who may see the provider's error: the text for the client, and the cause.
    pub fn for_developer(&self) -> String {
        match self {
            Self::Auth(cause)
            | Self::RateLimit(cause)
            | Self::UnknownModel(cause)
            | Self::TooLong(cause)
            | Self::Refused(cause)
            | Self::Provider(cause)
            | Self::Unreachable(cause)
            | Self::Network(cause)
            | Self::NoAnswer(cause)
            | Self::Format(cause) => format!("{} The cause: {cause}", self.public()),
            Self::Timeout => self.public().to_owned(),
        }
    }

    /// Returns the text for the client, which has no text of the provider, no key and no path in it.
    pub fn public(&self) -> &'static str {
        match self {
            Self::Auth(_) => {
                "The model provider refused the server's credentials. Tell the operator of this server."
            }
            Self::RateLimit(_) => "The model provider is limiting requests. Try again in a moment.",
            Self::UnknownModel(_) => {
                "The model provider does not have the model that this server asks for. Tell the operator of this server."
            }
            Self::TooLong(_) => {
                "The conversation is longer than the model can read. Try again with a shorter message, or in a new chat."
            }
            Self::Refused(_) => "The model provider refused this conversation.",
            Self::Provider(_) => "The model provider had an error. Try again in a moment.",
            Self::Unreachable(_) => {
                "The model provider cannot be reached. Try again in a moment, or tell the operator of this server."
            }
            Self::Network(_) => "The connection to the model provider broke off. Try again.",
            Self::NoAnswer(_) => {
                "The model provider gave no answer, twice. If the message is long, try a shorter one; otherwise try again."
            }
            Self::Format(_) => "The model provider's answer could not be read. Try again.",
            Self::Timeout => "The model took too long to answer. Try again.",
        }
    }
}
