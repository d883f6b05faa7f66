//! What a step is asked with, and what its calls go by.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use fermata_protocol::{ChatId, ToolChoice};
use fermata_tools::{
    Checker, DefaultPolicy, ErrorPolicy, LockQueue, Owner, Policy, ResourceKey, Tool, Toolbox, ToolboxError,
};
use serde_json::{Map, Value};

use crate::{
    FileUrls, Model,
    model::{ModelContent, ModelMessage, ModelRequest, ModelTool},
};

/// What a loop goes by. Each field may be set before the loop and between its steps; the methods are for
/// building in one expression.
#[derive(Clone)]
pub struct Params {
    /// Who answers.
    pub model: Arc<dyn Model>,
    /// The conversation so far. Where it ends with calls, these run before the model is asked.
    pub messages: Vec<ModelMessage>,
    /// Instructions, before everything.
    pub system: Option<String>,
    /// Whether the model must call something. What is forced is forced for one step.
    pub tool_choice: Option<ToolChoice>,
    /// Settings by the AI SDK's names (`temperature`, `maxOutputTokens`, …).
    pub settings: Map<String, Value>,
    /// How often a model may be asked in all; `None`: until it calls nothing.
    pub max_iterations: Option<NonZeroU32>,
    /// How long a model may be silent. Default: 2 minutes.
    pub model_timeout: Duration,
    /// How long a model may take for one step, however much it says. Default: 15 minutes.
    pub model_call_timeout: Duration,
    /// How long a call may run whose tool says nothing else. Default: 1 minute.
    pub tool_timeout: Duration,
    /// How long a call may wait for its resource. Default: 5 minutes.
    pub lock_timeout: Duration,
    /// Bytes of one output that the model is told; what is over is cut out. Default: 64 KiB.
    pub model_output_bytes: usize,
    /// Which files by URL in a tool's output the model is handed; what the program itself puts into `messages` is its own. Default:
    /// those of public hosts by `https:`.
    pub file_urls: FileUrls,
    /// What may run. Default: as each tool says.
    pub policy: Arc<dyn Policy>,
    /// What follows a failed call.
    pub error_policy: ErrorPolicy,
    /// The locks of the tools' resources. Loops that share them do not use one resource side by side.
    pub locks: LockQueue<ResourceKey>,
    /// For whom the tools run. Default: [`Owner::anyone`].
    pub owner: Owner,
    /// The chat that the tools are told of. Default: `runner`.
    pub chat: ChatId,
    toolbox: Toolbox,
    checker: Arc<Checker>,
}

// === impl Params ===

impl Params {
    /// An empty conversation with a model that has no tools.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self {
            model,
            messages: Vec::new(),
            system: None,
            tool_choice: None,
            settings: Map::new(),
            max_iterations: None,
            model_timeout: Duration::from_secs(2 * 60),
            model_call_timeout: Duration::from_secs(15 * 60),
            tool_timeout: Duration::from_secs(60),
            lock_timeout: Duration::from_secs(5 * 60),
            model_output_bytes: 64 * 1024,
            file_urls: FileUrls::default(),
            policy: Arc::new(DefaultPolicy),
            error_policy: ErrorPolicy::default(),
            locks: LockQueue::new(),
            owner: Owner::anyone(),
            chat: ChatId::new("runner"),
            toolbox: Toolbox::default(),
            checker: Arc::new(Checker::new()),
        }
    }

    /// The same with these tools, in place of those it had.
    ///
    /// # Errors
    /// Where one cannot be offered: its name is taken or unfit, or its schema is none.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, ToolboxError> {
        self.set_tools(tools)?;
        Ok(self)
    }

    /// As [`Params::tools`], in place. After an error, the tools are those that there were.
    ///
    /// # Errors
    /// As [`Params::tools`].
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

    /// The tools.
    pub fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// What checks the inputs of calls.
    pub(super) fn checker(&self) -> &Checker {
        &self.checker
    }

    /// The same with instructions.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system = Some(text.into());
        self
    }

    /// The same with one thing more that the person says.
    #[must_use]
    pub fn user(mut self, text: impl Into<String>) -> Self {
        self.messages.push(ModelMessage::User(vec![ModelContent::Text(text.into())]));
        self
    }

    /// The same with messages more.
    #[must_use]
    pub fn messages(mut self, messages: impl IntoIterator<Item = ModelMessage>) -> Self {
        self.messages.extend(messages);
        self
    }

    /// The same with a choice.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = Some(choice);
        self
    }

    /// The same with a setting more.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// The same, asking at most so often.
    #[must_use]
    pub fn max_iterations(mut self, most: NonZeroU32) -> Self {
        self.max_iterations = Some(most);
        self
    }

    /// The same with a time limit for calls.
    #[must_use]
    pub fn tool_timeout(mut self, limit: Duration) -> Self {
        self.tool_timeout = limit;
        self
    }

    /// The same with a policy.
    #[must_use]
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = policy;
        self
    }

    /// The same with strategies.
    #[must_use]
    pub fn error_policy(mut self, error_policy: ErrorPolicy) -> Self {
        self.error_policy = error_policy;
        self
    }

    /// The same with locks that others may have, too.
    #[must_use]
    pub fn locks(mut self, locks: LockQueue<ResourceKey>) -> Self {
        self.locks = locks;
        self
    }

    /// The question that these put to the model.
    pub(super) fn request(&self) -> ModelRequest {
        let system = self.system.iter().filter(|text| !text.is_empty()).cloned().map(ModelMessage::System);
        let tools = self.toolbox.specs().map(|spec| ModelTool {
            name: spec.name.clone(),
            description: spec.description.clone(),
            input_schema: spec.input_schema.clone(),
        });
        ModelRequest {
            messages: system.chain(self.messages.iter().cloned()).collect(),
            tools: tools.collect(),
            tool_choice: self.tool_choice.clone(),
            settings: self.settings.clone(),
            error_policy: self.error_policy.clone(),
        }
    }
}
