//! Assistants: an operator's instructions, with the models and the tools that belong to them.
//!
//! This module does not know which assistant a chat talks to, nor how a model is reached.

pub mod call_settings;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::Arc,
};

use fermata_protocol::PlanMode;
use fermata_tools::{Pattern, Principal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{context::Window, model::Model, run_tools::plan::PlanTriggers};

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
    /// Decides which messages need a plan first.
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
    /// `true` if it knows the memories of the user, and may change them.
    pub remembers: bool,
    /// `true` if it may ask the user with `ask_user`.
    pub asks_user: bool,
    /// The use of plans, unless a post says otherwise.
    pub plan: PlanMode,
    /// Messages that a page may suggest for a beginning.
    pub suggestions: Vec<String>,
    /// The people who may talk to it; `None` for everybody. For others it does not exist.
    pub audience: Option<Audience>,
}

/// The people who may talk to an assistant: those with a matching name or group.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    /// The patterns of names.
    pub owners: Vec<Pattern>,
    /// The patterns of groups.
    pub groups: Vec<Pattern>,
}

/// The reason why a person cannot talk to an assistant. The text lists those that there are for this person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchAssistant {
    /// Every assistant is for everybody, so the name is a mistake.
    #[error("{0}")]
    Unknown(String),
    /// Some assistants are for some people only. The error does not reveal whether this is one.
    #[error("{0}")]
    UnknownOrHidden(String),
}

/// A model as one of the models of an assistant.
#[derive(Clone)]
pub struct ModelChoice {
    /// The name that a post chooses it with.
    pub name: String,
    /// The model.
    pub model: Arc<dyn Model>,
    /// The settings of its calls, by the AI SDK's names. The settings of a post override them.
    pub settings: Map<String, Value>,
    /// The number of tokens that the model can take, as far as it is known.
    pub context: Option<NonZeroU32>,
    /// The limits on settings, by the same names. A value over its limit is lowered to it.
    pub limits: Map<String, Value>,
    /// The options for the provider that a post may set, besides [`PASSED`](crate::assistants::call_settings::PASSED).
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
    /// Patterns. A tool's name has to match one of them. `None` for all tools.
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

    /// Returns the assistant of this name if this person may talk to it.
    ///
    /// # Errors
    /// Returns an error if there is none for this person.
    pub fn choose(&self, name: &str, principal: &Principal) -> Result<&Assistant, NoSuchAssistant> {
        if let Some(assistant) = self.find(name).filter(|assistant| assistant.is_for(principal)) {
            return Ok(assistant);
        }
        let known: Vec<&str> = self.iter_for(principal).map(|(name, _)| name).collect();
        let known = if known.is_empty() { "none for you".to_owned() } else { known.join(", ") };
        let words = format!("There is no assistant `{name:.64}` (fermata.assistant). There are: {known}.");
        let is_any_restricted = self.iter().any(|(_, assistant)| assistant.audience.is_some());
        Err(if is_any_restricted {
            NoSuchAssistant::UnknownOrHidden(words)
        } else {
            NoSuchAssistant::Unknown(words)
        })
    }

    /// Returns the assistants that this person may talk to, by name, with `default` first.
    pub fn iter_for(&self, principal: &Principal) -> impl Iterator<Item = (&str, &Assistant)> {
        self.iter().filter(|(_, assistant)| assistant.is_for(principal))
    }

    /// Returns the name of the assistant that answers in a chat that has chosen this one: `default` if there is none of this name any
    /// more.
    pub(crate) fn answering<'a>(&self, chosen: Option<&'a str>) -> &'a str {
        chosen.filter(|name| self.find(name).is_some()).unwrap_or(DEFAULT_ASSISTANT)
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
            audience: None,
        }
    }

    /// Returns whether a person may talk to the assistant.
    fn is_for(&self, principal: &Principal) -> bool {
        self.audience.as_ref().is_none_or(|audience| audience.has(principal))
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

// === impl Audience ===

impl Audience {
    fn has(&self, Principal { user, groups, .. }: &Principal) -> bool {
        self.owners.iter().any(|pattern| pattern.matches(user.as_str()))
            || self.groups.iter().any(|pattern| groups.iter().any(|group| pattern.matches(group)))
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

    /// Returns the size of the model's window, as far as it is known. `compact_at` is the share of it above which a history is fitted.
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
