//! The port to models.
//!
//! A provider turns [`ModelRequest`] into its own words and its answer into [`ModelEvent`]s. Retries before the first event
//! are the provider's; after it, an error ends the step. [`ModelEvent::Alive`] does not count as one here.

use async_trait::async_trait;
use fermata_tools::{ErrorPolicy, ErrorType};
use futures::stream::BoxStream;
use serde_json::{Map, Value};

pub use crate::content::tool_content;

/// A model that can be asked for one step.
#[async_trait]
pub trait Model: Send + Sync {
    /// The model's name, as messages' metadata carry it.
    fn name(&self) -> &str;

    /// Asks for one step. Dropping the stream, or the future before it, ends the request upstream.
    ///
    /// # Errors
    /// Where nothing came, neither of the answer nor a sign of life. After [`ModelEvent::Alive`], an answer that cannot be
    /// had is an error in the stream.
    async fn stream(
        &self,
        request: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError>;
}

/// One question to a model: the conversation so far, always paired.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The conversation. Every call in it has exactly one result, right after the message that made it.
    pub messages: Vec<ModelMessage>,
    /// What the model may call.
    pub tools: Vec<ModelTool>,
    /// Whether it must.
    pub tool_choice: Option<fermata_protocol::ToolChoice>,
    /// Settings by the AI SDK's names (`temperature`, `maxOutputTokens`, …), as the client sent them.
    pub settings: Map<String, Value>,
    /// Which failures are worth asking again for: those with [`ErrorStrategy::Retry`](fermata_tools::ErrorStrategy::Retry).
    pub error_policy: ErrorPolicy,
}

/// A message to a model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelMessage {
    /// Instructions.
    System(String),
    /// What the person said and showed.
    User(Vec<ModelContent>),
    /// What the model said and called.
    Assistant {
        /// Its reasoning.
        reasoning: String,
        /// Its words.
        text: String,
        /// Its calls.
        calls: Vec<ModelCall>,
    },
    /// The result of one call.
    Tool {
        /// Which call.
        call_id: String,
        /// Its tool.
        tool: String,
        /// What came of it, as the model is told; never empty.
        content: Vec<ModelContent>,
    },
}

/// A piece of what a model is told: by the person, or by a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelContent {
    /// Words.
    Text(String),
    /// A file by URL or data URL.
    File {
        /// IANA media type.
        media_type: String,
        /// `https:` or `data:`.
        url: String,
        /// Its name.
        filename: Option<String>,
    },
}

/// A call as the model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// 1 to 40 characters, unique in the request.
    pub id: String,
    /// `[A-Za-z0-9_-]{1,64}`.
    pub tool: String,
    /// The input, an object.
    pub input: Value,
}

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTool {
    /// `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its input, `type: object`.
    pub input_schema: Value,
}

/// What a model says, bit by bit.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The provider says that it is still at work. No part of the answer: it only shows that waiting is not in vain.
    Alive,
    /// Words.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// A call begins. `key` tells the calls of the step apart and is the provider module's own.
    CallStart {
        /// Which call of the step.
        key: usize,
        /// The tool.
        tool: String,
    },
    /// More of a call's arguments, as raw JSON text cut anywhere.
    CallDelta {
        /// Which call of the step.
        key: usize,
        /// The text.
        arguments: String,
    },
    /// A file the model made.
    File {
        /// IANA media type.
        media_type: String,
        /// Data URL.
        url: String,
    },
    /// Where the model has something from.
    Source {
        /// The URL.
        url: String,
        /// Its title.
        title: Option<String>,
    },
    /// The step is over. A stream that ends without this was broken off.
    Finished {
        /// Why.
        reason: fermata_protocol::FinishReason,
        /// What it cost, where the provider said so.
        usage: Option<Usage>,
    },
}

/// Tokens of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Read.
    pub input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Both, as the provider counts.
    pub total_tokens: u64,
}

/// Why a model gave no answer, or not all of it. `Display` is for the operator's log; what a client reads is
/// [`ModelError::public`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The provider refused the key.
    #[error("the provider refused the credentials: {0}")]
    Auth(String),
    /// Too much was asked for, also after the retries.
    #[error("the provider limits the rate: {0}")]
    RateLimit(String),
    /// The provider did not take the request.
    #[error("the provider refused the request: {0}")]
    Refused(String),
    /// The provider failed, also after the retries.
    #[error("the provider failed: {0}")]
    Provider(String),
    /// No connection, or it broke.
    #[error("the connection to the provider failed: {0}")]
    Network(String),
    /// What came was no answer.
    #[error("the provider's answer could not be read: {0}")]
    Format(String),
    /// It took too long.
    #[error("the model did not answer in time")]
    Timeout,
}

impl ModelError {
    /// Its kind, as the settings name it. That a provider is down or overloaded is the way to it that fails.
    pub fn error_type(&self) -> ErrorType {
        match self {
            Self::Auth(_) => ErrorType::Auth,
            Self::RateLimit(_) => ErrorType::RateLimit,
            Self::Refused(_) | Self::Format(_) => ErrorType::InvalidFormat,
            Self::Provider(_) | Self::Network(_) => ErrorType::Network,
            Self::Timeout => ErrorType::Timeout,
        }
    }

    /// What a client may read: no provider text, key or path.
    pub fn public(&self) -> &'static str {
        match self {
            Self::Auth(_) => {
                "The model provider refused the server's credentials. Tell the operator of this server."
            }
            Self::RateLimit(_) => "The model provider is limiting requests. Try again in a moment.",
            Self::Refused(_) => "The model provider refused this conversation.",
            Self::Provider(_) => "The model provider had an error. Try again in a moment.",
            Self::Network(_) => "The connection to the model provider broke off. Try again.",
            Self::Format(_) => "The model provider's answer could not be read. Try again.",
            Self::Timeout => "The model took too long to answer. Try again.",
        }
    }
}
