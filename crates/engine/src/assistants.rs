//! Assistants: what an operator tells the model, with the models and the tools that go with it.
//!
//! This module does not know which assistant a chat talks to, nor how a model is reached.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::Arc,
};

use fermata_protocol::PlanMode;
use fermata_tools::Pattern;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Model, context::Window, plan::PlanTriggers};

/// The name of the assistant of chats that have chosen none.
pub const DEFAULT_ASSISTANT: &str = "default";

/// The assistants that people can talk to.
#[derive(Clone)]
pub struct Assistants {
    /// The assistant `default`, which also answers in chats whose assistant does not exist any more.
    pub default: Assistant,
    /// The other assistants, by name.
    pub others: BTreeMap<String, Assistant>,
    /// The model that writes the summaries of chats; `None` for the model of each chat.
    pub summary_model: Option<ModelChoice>,
    /// Decides for which messages a plan is made first.
    pub plan_triggers: PlanTriggers,
}

/// An assistant.
#[derive(Clone)]
pub struct Assistant {
    /// The title that people see; by default, its name.
    pub title: Option<String>,
    /// The instructions for the model, which come before everything else.
    pub instructions: Option<String>,
    /// The use of the instructions that pages post.
    pub client_system: ClientSystem,
    /// The model that answers if the chat has chosen none.
    pub model: ModelChoice,
    /// The other models that a post may choose.
    pub other_models: Vec<ModelChoice>,
    /// The tools that it may call, besides those of the browser.
    pub tools: ToolSelection,
    /// `true` if it knows what is remembered of the user, and may change it.
    pub remembers: bool,
    /// `true` if it may ask the user with `ask_user`.
    pub asks_user: bool,
    /// The use of plans, unless a post says otherwise.
    pub plan: PlanMode,
    /// Messages that a page may suggest for a beginning.
    pub suggestions: Vec<String>,
}

/// A model as one of the models of an assistant.
#[derive(Clone)]
pub struct ModelChoice {
    /// The name by which a post chooses it.
    pub name: String,
    /// The model.
    pub model: Arc<dyn Model>,
    /// The settings of its calls, by the AI SDK's names. What a post asks for goes before them.
    pub settings: Map<String, Value>,
    /// The number of tokens that the model can take, as far as it is known.
    pub context: Option<NonZeroU32>,
    /// The limits on settings, by the same names. A value over its limit is lowered to it.
    pub limits: Map<String, Value>,
    /// The options for the provider that a post may set, besides [`PASSED`](crate::call_settings::PASSED).
    pub pass: Vec<String>,
}

/// The use of the instructions that a page posts, as `system` or as messages with that role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientSystem {
    /// They follow the assistant's own.
    #[default]
    Append,
    /// The model never gets them.
    Ignore,
    /// A post that has any is refused.
    Refuse,
}

/// The server's and the MCP servers' tools that an assistant may call.
#[derive(Clone, Debug, Default)]
pub struct ToolSelection {
    /// Patterns, one of which a tool's name has to match; `None` for all tools.
    pub names: Option<Vec<Pattern>>,
    /// The names of tools that it does not have in any case.
    pub without: BTreeSet<String>,
}

// === impl Assistants ===

impl Assistants {
    /// Returns the assistant `default` alone: this model, without instructions and with all tools.
    pub fn answered_by(model: Arc<dyn Model>) -> Self {
        let default = Assistant::answered_by(ModelChoice::of(model));
        Self { default, others: BTreeMap::new(), summary_model: None, plan_triggers: PlanTriggers::default() }
    }

    /// Returns the assistant of this name.
    pub fn find(&self, name: &str) -> Option<&Assistant> {
        if name == DEFAULT_ASSISTANT { Some(&self.default) } else { self.others.get(name) }
    }

    /// Returns all assistants by name, with `default` first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Assistant)> {
        let others = self.others.iter().map(|(name, assistant)| (name.as_str(), assistant));
        std::iter::once((DEFAULT_ASSISTANT, &self.default)).chain(others)
    }
}

// === impl Assistant ===

impl Assistant {
    /// Returns an assistant with this model, without instructions and with all tools.
    pub fn answered_by(model: ModelChoice) -> Self {
        Self {
            title: None,
            instructions: None,
            client_system: ClientSystem::default(),
            model,
            other_models: Vec::new(),
            tools: ToolSelection::default(),
            remembers: false,
            asks_user: false,
            plan: PlanMode::Off,
            suggestions: Vec::new(),
        }
    }

    /// Returns the models that it may answer with, with its default first.
    pub fn models(&self) -> impl Iterator<Item = &ModelChoice> {
        std::iter::once(&self.model).chain(&self.other_models)
    }

    /// Returns the model that a chat has chosen; the default one if it has chosen none, or one that this assistant does not have.
    pub(crate) fn model(&self, chosen: Option<&str>) -> &ModelChoice {
        self.models().find(|model| chosen == Some(&model.name)).unwrap_or(&self.model)
    }
}

// === impl ModelChoice ===

impl ModelChoice {
    /// Returns the model under its own name, without settings and limits.
    pub fn of(model: Arc<dyn Model>) -> Self {
        Self {
            name: model.name().to_owned(),
            model,
            context: None,
            settings: Map::new(),
            limits: Map::new(),
            pass: Vec::new(),
        }
    }

    /// Returns the size of what the model can take, as far as it is known. `compact_at` is the share of it above which a history is fitted.
    pub(crate) fn window(&self, compact_at: f64) -> Option<Window> {
        Some(Window::new(self.context?, compact_at))
    }
}

// === impl ToolSelection ===

impl ToolSelection {
    /// Returns whether the assistant may call the tool of this name.
    pub(crate) fn has(&self, tool: &str) -> bool {
        let is_named = match &self.names {
            Some(patterns) => patterns.iter().any(|pattern| pattern.matches(tool)),
            None => true,
        };
        is_named && !self.without.contains(tool)
    }
}
