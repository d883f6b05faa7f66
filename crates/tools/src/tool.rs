//! What a tool is.

use std::{marker::PhantomData, sync::Arc};

use async_trait::async_trait;
use fermata_protocol::{ChatId, ToolCallId};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{Decision, Owner, RunBy};

/// What is known of a tool without running it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// Its name, as the model calls it: `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What the model is told about it.
    pub description: String,
    /// JSON Schema of its input, an object schema.
    pub input_schema: Value,
    /// Who runs its calls.
    pub run_by: RunBy,
    /// What happens to a call that no rule speaks of.
    pub policy: Decision,
    /// What its calls must not use side by side.
    pub resource: Option<Resource>,
}

/// A thing that one call at a time may use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// Whether each owner has one of their own.
    #[serde(skip)]
    pub per_owner: bool,
}

/// What a running call may know of its surroundings.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// Whose chat it is.
    pub owner: Owner,
    /// Which chat.
    pub chat: ChatId,
    /// Which call.
    pub call: ToolCallId,
    /// Ends when the run is stopped or the call's time is over.
    pub cancelled: CancellationToken,
}

/// A call that failed, in words for the model and the person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub String);

/// A tool that the server runs.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What is known of it; asked once.
    fn spec(&self) -> ToolSpec;

    /// Runs one call. The input has passed the schema.
    ///
    /// # Errors
    /// What went wrong, told to the model as it is: no keys, paths or SQL.
    async fn call(&self, input: Value, context: CallContext) -> Result<Value, ToolError>;
}

/// A tool whose input is a Rust type, from which the JSON Schema comes.
#[async_trait]
pub trait TypedTool: Send + Sync + 'static {
    /// Its name, as the model calls it.
    const NAME: &'static str;
    /// What the model is told about it.
    const DESCRIPTION: &'static str;
    /// What happens to a call that no rule speaks of.
    const POLICY: Decision;
    /// Its input.
    type Input: DeserializeOwned + JsonSchema + Send;

    /// What its calls must not use side by side.
    fn resource(&self) -> Option<Resource> {
        None
    }

    /// Runs one call.
    ///
    /// # Errors
    /// As [`Tool::call`].
    async fn call(&self, input: Self::Input, context: CallContext) -> Result<Value, ToolError>;
}

/// Makes a [`Tool`] of a [`TypedTool`].
pub fn typed<T: TypedTool>(tool: T) -> Arc<dyn Tool> {
    Arc::new(Typed { tool, input: PhantomData::<fn() -> T::Input> })
}

struct Typed<T: TypedTool> {
    tool: T,
    input: PhantomData<fn() -> T::Input>,
}

#[async_trait]
impl<T: TypedTool> Tool for Typed<T> {
    fn spec(&self) -> ToolSpec {
        let mut schema = schemars::schema_for!(T::Input).to_value();
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("$schema");
            schema.remove("title");
            // What the tool is for is said once, in its own description.
            schema.remove("description");
        }
        ToolSpec {
            name: T::NAME.into(),
            description: T::DESCRIPTION.into(),
            input_schema: schema,
            run_by: RunBy::Server,
            policy: T::POLICY,
            resource: self.tool.resource(),
        }
    }

    async fn call(&self, input: Value, context: CallContext) -> Result<Value, ToolError> {
        let input = serde_json::from_value(input)
            .map_err(|error| ToolError(format!("The input does not fit: {error}")))?;
        self.tool.call(input, context).await
    }
}
