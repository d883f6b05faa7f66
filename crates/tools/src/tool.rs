//! Tools: their description, and the traits that implement them.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use async_trait::async_trait;
use fermata_protocol::JsonText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    CallContext, Confirm, Decision, ErrorStrategy, ErrorType, InputSchema, MAX_RETRIES, OutputSchema,
    Resource, RunBy, Scope, ToolError, hash::sha256,
};

/// The description of a tool.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// The name that the model calls: `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// The title that people see; `None` if the name has to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the input, an object schema.
    pub input_schema: InputSchema,
    /// The party that runs the tool's calls.
    pub run_by: RunBy,
    /// The name in the settings of the MCP server that offers the tool.
    pub server: Option<String>,
    /// The decision about a call that no rule matches.
    pub policy: Decision,
    /// The resource that only one call at a time may use.
    pub resource: Option<Resource>,
    /// The time limit of a call; `None` for the server's limit.
    pub timeout: Option<Duration>,
    /// True if a call may run again after a failure or a crash, because running it twice does no harm.
    pub repeatable: bool,
    /// The tool's `annotations` in the list of its MCP server.
    #[serde(skip)]
    pub annotations: Option<Value>,
}

/// Settings that override a tool's own properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolSettings {
    /// The resource that only one call at a time may use.
    pub resource: Option<Resource>,
    /// The time limit of a call.
    pub timeout: Option<Duration>,
    /// True if a call may run again after a failure or a crash.
    pub repeatable: Option<bool>,
    /// The reactions to failures of the tool, which go before those for all tools.
    pub errors: Vec<(ErrorType, ErrorStrategy)>,
    /// The dotted path of the part of an output that is empty if nothing was found.
    pub empty: Option<String>,
    /// The tool that is called in place of this one once a call of it has failed for good.
    pub fallback: Option<Fallback>,
}

/// The tool that is called in place of one whose call has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The name of the tool.
    pub tool: String,
    /// The input of the call; `None` for that of the call that has failed.
    pub input: Option<Value>,
}

/// A tool that the server runs.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the tool's description. It is called once.
    fn spec(&self) -> ToolSpec;

    /// Returns the schema of `structuredContent` in an output; `None` if the tool has none. A call whose output has a `structuredContent`
    /// that does not fit has failed, with the type [`ErrorType::InvalidFormat`].
    fn output_schema(&self) -> Option<&OutputSchema> {
        None
    }

    /// Returns the dotted path of the part of an output that is empty if nothing was found, such as `notes`; `None` if the tool cannot say
    /// so. Such an output has the type [`ErrorType::EmptyResult`]: it is a success, and the model gets the advice for that type with it.
    fn empty_at(&self) -> Option<&str> {
        None
    }

    /// Returns the name of the tool that is called with the same input once a call of this one has failed for good, unless the settings name
    /// another; `None` if there is none.
    fn fallback(&self) -> Option<&str> {
        None
    }

    /// Returns a call with this input in words, such as `Write the note “milk”`; `None` if the tool's title has to do. The input fits the
    /// schema. Must return at once.
    fn describe(&self, _input: &Value) -> Option<String> {
        None
    }

    /// Returns whether a person has to be asked about a call with this input, before the rules are asked. The input fits the schema.
    ///
    /// It is called whenever the rules are: when the model has made the call, when a person has edited the input, and before the call runs.
    /// Must return at once, and must not change anything.
    fn confirm(&self, _input: &Value) -> Confirm {
        Confirm::default()
    }

    /// Returns where the output of a call with this input comes from, if others than the user and this server have a say in it, such as the
    /// URL of a page; `None` if nobody has. A model that has read such an output may follow its text. The input fits the schema.
    ///
    /// The default implementation names the tool: a tool that reads nothing from outside has to override it.
    fn reads_from(&self, _input: &Value) -> Option<String> {
        Some(self.spec().name)
    }

    /// Returns what "always" can mean for a call with this input, the narrowest scope first. The input fits the schema.
    ///
    /// A person who allows a scope for always allows every later call of this tool for whose input this function returns the same scope,
    /// as told by its id. So each scope covers the call that it is proposed for. With `None` the scope is the tool, or the MCP server
    /// that offers it. Without any scope the call cannot be allowed for always. Must return at once, and must not change anything.
    fn scopes(&self, _input: &Value) -> Option<Vec<Scope>> {
        None
    }

    /// Runs one call. The input fits the schema.
    ///
    /// The output may have any form that `fermata_engine` can turn into a prompt: text, JSON, MCP content, or the AI SDK's tool result
    /// content. [`Output`](crate::Output) makes one that tells the person and the model different things.
    ///
    /// # Errors
    /// Returns an error if the call fails. The model reads its text, which must not contain keys, paths or SQL.
    async fn call(&self, input: JsonText, context: CallContext) -> Result<Value, ToolError>;
}

/// A tool whose input is a Rust type. The JSON Schema is generated from it.
#[async_trait]
pub trait TypedTool: Send + Sync + 'static {
    /// The name that the model calls.
    const NAME: &'static str;
    /// The description for the model.
    const DESCRIPTION: &'static str;
    /// The decision about a call that no rule matches.
    const POLICY: Decision;
    /// The type of the input.
    type Input: DeserializeOwned + JsonSchema + Send;

    /// The title that people see.
    const TITLE: Option<&'static str> = None;
    /// True if a call may run again after a failure or a crash.
    const REPEATABLE: bool = false;
    /// The dotted path of the part of an output that is empty if nothing was found.
    const EMPTY_AT: Option<&'static str> = None;
    /// The name of the tool that is called in place of this one once a call has failed for good: see [`Tool::fallback`].
    const FALLBACK: Option<&'static str> = None;

    /// Returns the resource that only one call at a time may use.
    fn resource(&self) -> Option<Resource> {
        None
    }

    /// Returns the time limit of a call; `None` for the server's limit.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns a call with this input in words: see [`Tool::describe`].
    fn describe(&self, _input: &Self::Input) -> Option<String> {
        None
    }

    /// Returns whether a person has to be asked about a call with this input: see [`Tool::confirm`].
    fn confirm(&self, _input: &Self::Input) -> Confirm {
        Confirm::default()
    }

    /// Returns where the output comes from, if others have a say in it: see [`Tool::reads_from`].
    fn reads_from(&self, _input: &Self::Input) -> Option<String> {
        Some(Self::NAME.into())
    }

    /// Returns what "always" can mean for a call with this input: see [`Tool::scopes`].
    fn scopes(&self, _input: &Self::Input) -> Option<Vec<Scope>> {
        None
    }

    /// Runs one call.
    ///
    /// # Errors
    /// Returns an error if the call fails. The model reads its text, which must not contain keys, paths or SQL.
    async fn call(&self, input: Self::Input, context: CallContext) -> Result<Value, ToolError>;
}

/// Turns a [`TypedTool`] into a [`Tool`].
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
            // The tool has its own description; that of the Rust type would repeat it.
            schema.remove("description");
        }
        ToolSpec {
            name: T::NAME.into(),
            title: T::TITLE.map(Into::into),
            description: T::DESCRIPTION.into(),
            input_schema: schema.into(),
            run_by: RunBy::Server,
            server: None,
            policy: T::POLICY,
            resource: self.tool.resource(),
            timeout: self.tool.timeout(),
            repeatable: T::REPEATABLE,
            annotations: None,
        }
    }

    fn empty_at(&self) -> Option<&str> {
        T::EMPTY_AT
    }

    fn fallback(&self) -> Option<&str> {
        T::FALLBACK
    }

    fn describe(&self, input: &Value) -> Option<String> {
        self.tool.describe(&T::Input::deserialize(input).ok()?)
    }

    fn confirm(&self, input: &Value) -> Confirm {
        // A call with an input that does not fit fails when it runs.
        T::Input::deserialize(input).map(|input| self.tool.confirm(&input)).unwrap_or_default()
    }

    fn reads_from(&self, input: &Value) -> Option<String> {
        match T::Input::deserialize(input) {
            Ok(input) => self.tool.reads_from(&input),
            Err(_) => Some(T::NAME.into()),
        }
    }

    fn scopes(&self, input: &Value) -> Option<Vec<Scope>> {
        T::Input::deserialize(input).map_or(Some(Vec::new()), |input| self.tool.scopes(&input))
    }

    async fn call(&self, input: JsonText, context: CallContext) -> Result<Value, ToolError> {
        let input = input.read().map_err(|error| {
            ToolError::new(ErrorType::InvalidFormat, format!("The input does not fit: {error}"))
        })?;
        self.tool.call(input, context).await
    }
}

// === impl ToolSpec ===

impl ToolSpec {
    /// Returns a hash of the tool's identity, a SHA-256 in hexadecimal.
    ///
    /// It covers the tool's name, the party that runs it, its server, its title, its description, its schema and its annotations. It covers
    /// neither the operator's settings nor the order of keys.
    pub fn fingerprint(&self) -> String {
        let Self { name, title, description, run_by, server, annotations, .. } = self;
        let schema = Value::clone(&self.input_schema);
        let mut whole =
            serde_json::json!([name, run_by.name(), server, title, description, schema, annotations]);
        whole.sort_all_objects();
        sha256(whole.to_string().as_bytes())
    }

    /// Returns the number of retries after a failure.
    pub fn retries(&self) -> u32 {
        if self.repeatable { MAX_RETRIES } else { 0 }
    }
}

// === impl ToolSettings ===

impl ToolSettings {
    /// Applies the settings to a tool's description.
    pub fn apply(&self, spec: &mut ToolSpec) {
        let Self { resource, timeout, repeatable, errors: _, empty: _, fallback: _ } = self;
        if resource.is_some() {
            spec.resource.clone_from(resource);
        }
        spec.timeout = timeout.or(spec.timeout);
        spec.repeatable = repeatable.unwrap_or(spec.repeatable);
    }
}
