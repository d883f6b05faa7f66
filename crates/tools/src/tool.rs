//! What a tool is.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::Digest;

use crate::{CallContext, Decision, ErrorType, MAX_RETRIES, Resource, RunBy, ToolError};

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
    /// Which MCP server has it, by its name in the settings.
    pub server: Option<String>,
    /// What happens to a call that no rule speaks of.
    pub policy: Decision,
    /// What its calls must not use side by side.
    pub resource: Option<Resource>,
    /// How long a call may run; `None`: as long as the server allows every tool.
    pub timeout: Option<Duration>,
    /// Whether a call may run again after a failure or a crash: it does no harm twice.
    pub repeatable: bool,
}

/// What the server's settings say about tools, over what these say about themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSettings {
    /// What their calls must not use side by side.
    pub resource: Option<Resource>,
    /// How long a call may run.
    pub timeout: Option<Duration>,
    /// Whether a call may run again after a failure or a crash.
    pub repeatable: Option<bool>,
}

/// A tool that the server runs.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What is known of it; asked once.
    fn spec(&self) -> ToolSpec;

    /// Runs one call. The input has passed the schema. The output may have any shape that `fermata_engine` can tell a model: text, JSON,
    /// MCP content, the AI SDK's tool result content.
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

    /// Whether a call may run again after a failure or a crash.
    const REPEATABLE: bool = false;

    /// What its calls must not use side by side.
    fn resource(&self) -> Option<Resource> {
        None
    }

    /// How long a call may run; `None`: as long as the server allows every tool.
    fn timeout(&self) -> Option<Duration> {
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
            server: None,
            policy: T::POLICY,
            resource: self.tool.resource(),
            timeout: self.tool.timeout(),
            repeatable: T::REPEATABLE,
        }
    }

    async fn call(&self, input: Value, context: CallContext) -> Result<Value, ToolError> {
        let input = serde_json::from_value(input).map_err(|error| {
            ToolError::new(ErrorType::InvalidFormat, format!("The input does not fit: {error}"))
        })?;
        self.tool.call(input, context).await
    }
}

// === impl ToolSpec ===

impl ToolSpec {
    /// What makes the tool this one and no other: who runs it, on which server, what it says of itself and what it takes; SHA-256, in
    /// hexadecimal. What an operator sets for it is not part of it, and neither is the order of keys in its schema.
    pub fn fingerprint(&self) -> String {
        let mut schema = self.input_schema.clone();
        schema.sort_all_objects();
        let whole = serde_json::json!([self.run_by.name(), self.server, self.description, schema]);
        sha256(whole.to_string().as_bytes())
    }

    /// How often a call may run again.
    pub fn retries(&self) -> u32 {
        if self.repeatable { MAX_RETRIES } else { 0 }
    }
}

/// The SHA-256 of some bytes, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(64);
    for byte in sha2::Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

// === impl ToolSettings ===

impl ToolSettings {
    /// The spec as these settings want it.
    pub fn apply(&self, spec: &mut ToolSpec) {
        let Self { resource, timeout, repeatable } = self;
        if resource.is_some() {
            spec.resource.clone_from(resource);
        }
        spec.timeout = timeout.or(spec.timeout);
        spec.repeatable = repeatable.unwrap_or(spec.repeatable);
    }
}
