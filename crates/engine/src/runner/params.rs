//! The parameters of a loop: its conversation, its model, its tools and its limits.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use fermata_protocol::{ChatId, ToolChoice};
use fermata_tools::{
    Checker, DefaultPolicy, ErrorPolicy, LockQueue, Owner, Policy, ResourceKey, Tool, Toolbox, ToolboxError,
};
use serde_json::{Map, Value};

use crate::{
    model::{Model, ModelContent, ModelMessage, ModelRequest, ModelTool, file_urls::FileUrls},
    ports::resolver::{Resolver, SystemResolver},
    settings::Limits,
};

/// The parameters of a loop. Every field may be set before the loop and between its steps; the methods build the parameters in one
/// expression. The limits are those of [`Limits::default`], unless a field says otherwise.
#[derive(Clone)]
pub struct Params {
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// The conversation so far. If it ends with tool calls, they run before the model is asked.
    pub messages: Vec<ModelMessage>,
    /// Instructions that come before the conversation.
    pub system: Option<String>,
    /// The tools that the model may or must call. A call is forced for one step only.
    pub tool_choice: Option<ToolChoice>,
    /// Settings by the AI SDK's names (`temperature`, `maxOutputTokens`, …).
    pub settings: Map<String, Value>,
    /// The number of requests to the model. Default: no limit, unlike [`Limits::steps`], because a program sees every step and can stop the
    /// loop, while the run of a chat may go on unwatched.
    pub max_iterations: Option<NonZeroU32>,
    /// The longest silence of a model. Default: 2 minutes.
    pub model_timeout: Duration,
    /// The time that a model may take for one step, even if it is never silent. Default: 15 minutes.
    pub model_call_timeout: Duration,
    /// Calls that a model may make in one step; those over the limit do not run. Default: 128.
    pub calls_per_step: usize,
    /// Bytes that the arguments of one call may have; a call with more does not run. Default: 1 MB.
    pub argument_bytes: usize,
    /// JSON values that the arguments of one call may have; a call with more does not run. Default: 20,000.
    pub argument_nodes: usize,
    /// Bytes of the model's output in one step: text, reasoning, arguments and files. If there are more, the step fails. Default: 4 MB.
    pub step_output_bytes: usize,
    /// The time limit of calls whose tool has none of its own. Default: 1 minute.
    pub tool_timeout: Duration,
    /// The time that a call may wait for its resource. Default: 5 minutes.
    pub lock_timeout: Duration,
    /// Bytes that an output may have, as JSON; a call whose output has more fails. Default: no limit, unlike [`Limits::output_bytes`],
    /// because the output stays in the program, while that of a chat is saved and sent to every reader.
    pub output_bytes: Option<usize>,
    /// JSON values that an output may have. Default: no limit.
    pub output_nodes: Option<usize>,
    /// Bytes of text of one output that the model gets; the middle of a longer one is left out. Default: 400 kB.
    pub model_output_bytes: usize,
    /// The files that the model gets by URL if a tool's output names them. The files that the program itself puts into `messages` are not
    /// filtered. Default: `https:` URLs of public hosts.
    pub file_urls: FileUrls,
    /// Looks up the names in these URLs. Default: the resolver of the operating system.
    pub resolver: Arc<dyn Resolver>,
    /// Decides which calls run. Default: each tool's own default.
    pub policy: Arc<dyn Policy>,
    /// The consequence of a call's failure, by the type of the failure.
    pub error_policy: ErrorPolicy,
    /// The locks of the tools' resources. Loops that share them never use a resource at the same time.
    pub locks: LockQueue<ResourceKey>,
    /// The owner that the tools run for. Default: [`Owner::anyone`].
    pub owner: Owner,
    /// The chat in the context of the tools' calls. Default: `runner`.
    pub chat: ChatId,
    toolbox: Toolbox,
    /// Checks the inputs and outputs of calls.
    pub(super) checker: Arc<Checker>,
}

// === impl Params ===

impl Params {
    /// Begins an empty conversation with a model that has no tools.
    pub fn new(model: Arc<dyn Model>) -> Self {
        let limits = Limits::default();
        Self {
            model,
            messages: Vec::new(),
            system: None,
            tool_choice: None,
            settings: Map::new(),
            max_iterations: None,
            model_timeout: limits.model_timeout,
            model_call_timeout: limits.model_call_timeout,
            calls_per_step: limits.calls_per_step,
            argument_bytes: limits.argument_bytes,
            argument_nodes: limits.argument_nodes,
            step_output_bytes: limits.step_output_bytes,
            tool_timeout: limits.tool_timeout,
            lock_timeout: limits.lock_timeout,
            output_bytes: None,
            output_nodes: None,
            model_output_bytes: limits.model_output_bytes,
            file_urls: FileUrls::default(),
            resolver: Arc::new(SystemResolver::default()),
            policy: Arc::new(DefaultPolicy),
            error_policy: ErrorPolicy::default(),
            locks: LockQueue::new(),
            owner: Owner::anyone(),
            chat: ChatId::new("runner"),
            toolbox: Toolbox::default(),
            checker: Arc::new(Checker::new()),
        }
    }

    /// Sets the tools, which replace those that there were.
    ///
    /// # Errors
    /// Returns an error if one of the tools cannot be offered to a model: its name is taken or has characters that providers refuse, or its
    /// schema cannot be used.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, ToolboxError> {
        self.set_tools(tools)?;
        Ok(self)
    }

    /// Sets the tools of existing parameters. After an error, the tools are those that there were.
    ///
    /// # Errors
    /// Returns an error if one of the tools cannot be offered to a model, as [`Params::tools`] does.
    pub fn set_tools(&mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<(), ToolboxError> {
        let (toolbox, left_out) = Toolbox::new(tools, |_| {});
        match left_out.into_iter().next() {
            Some(error) => Err(error),
            None => {
                self.toolbox = toolbox;
                Ok(())
            }
        }
    }

    /// Returns the tools.
    pub fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// Sets the instructions.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system = Some(text.into());
        self
    }

    /// Adds a text of the user to the conversation.
    #[must_use]
    pub fn user(mut self, text: impl Into<String>) -> Self {
        self.messages.push(ModelMessage::User(vec![ModelContent::Text(text.into())]));
        self
    }

    /// Adds messages to the conversation.
    #[must_use]
    pub fn messages(mut self, messages: impl IntoIterator<Item = ModelMessage>) -> Self {
        self.messages.extend(messages);
        self
    }

    /// Sets the tools that the model may or must call.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = Some(choice);
        self
    }

    /// Adds a setting.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// Sets the number of requests to the model.
    #[must_use]
    pub fn max_iterations(mut self, limit: NonZeroU32) -> Self {
        self.max_iterations = Some(limit);
        self
    }

    /// Sets the time limit of calls whose tool has none of its own.
    #[must_use]
    pub fn tool_timeout(mut self, limit: Duration) -> Self {
        self.tool_timeout = limit;
        self
    }

    /// Sets the policy.
    #[must_use]
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the consequences of failures.
    #[must_use]
    pub fn error_policy(mut self, error_policy: ErrorPolicy) -> Self {
        self.error_policy = error_policy;
        self
    }

    /// Sets the locks, which other loops may share.
    #[must_use]
    pub fn locks(mut self, locks: LockQueue<ResourceKey>) -> Self {
        self.locks = locks;
        self
    }

    /// Builds the request for the next step.
    pub(super) fn request(&self) -> ModelRequest {
        let mut messages = Vec::new();
        if let Some(system) = &self.system
            && !system.is_empty()
        {
            messages.push(ModelMessage::System(system.clone()));
        }
        messages.extend(self.messages.iter().cloned());
        let tools = self.toolbox.specs().map(|spec| ModelTool {
            name: spec.name.clone(),
            description: spec.description.clone(),
            input_schema: spec.input_schema.clone(),
        });
        ModelRequest {
            messages,
            tools: tools.collect(),
            tool_choice: self.tool_choice.clone(),
            settings: self.settings.clone(),
            error_policy: self.error_policy.clone(),
            traceparent: None,
        }
    }
}
