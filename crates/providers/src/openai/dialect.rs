//! The differences between providers' requests, as data: by the host of the base URL, then by the family of the model, then by settings.
//!
//! A host that is not known here gets what most servers understand, and has no default model. Nothing else in the crate looks at the host
//! or at the name of the model.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
};

use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The variant of the API that a model is asked in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dialect {
    /// The model and the host. They get back only the metadata that they sent.
    pub origin: Origin,
    /// The expected field of reasoning until an answer has shown it. After a restart in the middle of a turn, no answer has.
    pub reasoning_field: ReasoningField,
    /// `true` if the first call of an answer needs a thought signature. Gemini 3 refuses a call without one, and takes a placeholder.
    pub signs_calls: bool,
    pub schemas: Schemas,
    pub tool_ids: ToolIds,
    /// `true` if the name of a tool has to begin with a letter or `_`.
    pub tool_names_begin_with_letter: bool,
    /// The number of characters that the description of a tool may have.
    pub max_description: Option<usize>,
    pub roles: Roles,
    /// `false` if the model takes text only.
    pub vision: bool,
    /// `false` if the model cannot be made to call a tool.
    pub forces_tools: bool,
    /// The number of tools that one request may have.
    pub max_tools: usize,
    /// The fields of a request that are not sent.
    pub omit: BTreeSet<String>,
    /// The names that fields of a request have here.
    pub rename: BTreeMap<String, String>,
}

/// The model and the host that make an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    pub host: String,
    pub model: String,
}

/// The settings of a model's dialect. Without a setting, the known facts about the provider count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DialectSettings {
    /// The form of the ids of calls.
    pub tool_ids: Option<ToolIds>,
    /// The order of roles.
    pub roles: Option<Roles>,
    /// `false` if the model takes text only.
    pub vision: Option<bool>,
    /// The number of tools that one request may have.
    pub max_tools: Option<NonZeroU32>,
    /// The fields of a request that are not sent.
    pub omit: Vec<String>,
    /// The names that fields of a request have here.
    pub rename: BTreeMap<String, String>,
}

/// The form of the ids of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolIds {
    /// Up to 40 characters.
    Any,
    /// Nine letters or digits.
    Nine,
}

/// The order of the messages of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Roles {
    /// As the messages were said.
    Any,
    /// The user begins and speaks last, unless results do; user and assistant take turns, and an answer of the assistant follows results.
    Alternate,
}

/// The form of the schemas of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schemas {
    /// JSON Schema, without what only some providers read.
    Json,
    /// The keywords that Gemini knows.
    Google,
}

/// The field where a provider gives reasoning, and takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReasoningField {
    /// `reasoning_content`.
    ReasoningContent,
    /// `reasoning`.
    Reasoning,
    /// The provider gives reasoning in a form that is not sent back.
    Nowhere,
}

/// The field where reasoning came last, shared by all requests of a model, because a provider takes reasoning back only there.
///
/// This is a mutex and not an atomic because it is touched once per request and once per answer, and never held across an await.
#[derive(Clone, Debug)]
pub(super) struct LastReasoningField(Arc<Mutex<ReasoningField>>);

/// The known facts about some hosts.
struct Host {
    /// The domains, each with those below it.
    domains: &'static [&'static str],
    reasoning_field: ReasoningField,
    signs_calls: bool,
    schemas: Schemas,
    tool_ids: ToolIds,
    tool_names_begin_with_letter: bool,
    max_description: Option<usize>,
    roles: Roles,
    rename: &'static [(&'static str, &'static str)],
}

/// Most servers: vLLM, Ollama, llama.cpp, DeepSeek, Moonshot, …
const COMMON: Host = Host {
    domains: &[],
    reasoning_field: ReasoningField::ReasoningContent,
    signs_calls: false,
    schemas: Schemas::Json,
    tool_ids: ToolIds::Any,
    tool_names_begin_with_letter: false,
    max_description: None,
    roles: Roles::Any,
    rename: &[],
};

const OPENAI: Host = Host {
    domains: &["api.openai.com"],
    reasoning_field: ReasoningField::Nowhere,
    // Its reasoning models refuse the older name, other servers the newer.
    rename: &[("max_tokens", "max_completion_tokens")],
    ..COMMON
};

const HOSTS: [Host; 5] = [
    OPENAI,
    Host { domains: &["openai.azure.com"], max_description: Some(1024), ..OPENAI },
    // Some of them refuse any other field for reasoning.
    Host {
        domains: &["groq.com", "cerebras.ai", "openrouter.ai"],
        reasoning_field: ReasoningField::Reasoning,
        ..COMMON
    },
    // It gives reasoning inside `content` and refuses fields it does not know.
    Host {
        domains: &["mistral.ai"],
        reasoning_field: ReasoningField::Nowhere,
        tool_ids: ToolIds::Nine,
        roles: Roles::Alternate,
        ..COMMON
    },
    Host {
        domains: &["googleapis.com"],
        reasoning_field: ReasoningField::Nowhere,
        signs_calls: true,
        schemas: Schemas::Google,
        tool_names_begin_with_letter: true,
        ..COMMON
    },
];

/// Parts of the names of models whose chat templates check ids and the order of roles wherever they are served.
const MISTRALS: [&str; 8] =
    ["mistral", "mixtral", "ministral", "magistral", "devstral", "codestral", "pixtral", "voxtral"];
/// Parts of the names of models whose chat templates check the order of roles.
const ALTERNATING: [&str; 1] = ["gemma"];
/// A part of the names of models that check the names of tools wherever they are served.
const GEMINI: &str = "gemini";
/// The number of tools that OpenAI takes, and nearly everybody who follows it.
const MAX_TOOLS: usize = 128;

/// The model that is asked for if the settings name none, by the host of the base URL. Each is a name that the provider keeps up, and
/// inexpensive.
const DEFAULT_MODELS: [(&str, &str); 7] = [
    ("api.openai.com", "gpt-5-mini"),
    ("api.anthropic.com", "claude-haiku-4-5"),
    ("generativelanguage.googleapis.com", "gemini-flash-latest"),
    ("api.mistral.ai", "mistral-small-latest"),
    ("api.deepseek.com", "deepseek-chat"),
    ("openrouter.ai", "openrouter/auto"),
    ("dashscope.aliyuncs.com", "qwen-plus"),
];

/// Returns the model to ask for at this base URL if the settings name none.
pub(super) fn default_model(base: &Url) -> Option<&'static str> {
    let host = base.host_str()?;
    DEFAULT_MODELS.iter().find(|(known, _)| *known == host).map(|(_, model)| *model)
}

// === impl Dialect ===

impl Dialect {
    /// Returns the dialect of a model at the host of the base URL.
    pub(super) fn of(base: &Url, model: &str, settings: &DialectSettings) -> Self {
        let name = base.host_str().unwrap_or_default();
        let origin = Origin { host: name.to_owned(), model: model.to_owned() };
        let host = HOSTS.iter().find(|host| {
            host.domains.iter().any(|domain| {
                name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            })
        });
        let host = host.unwrap_or(&COMMON);
        let model = model.to_ascii_lowercase();
        let is_mistral = MISTRALS.iter().any(|part| model.contains(part));
        let alternates = is_mistral || ALTERNATING.iter().any(|part| model.contains(part));
        let mut rename: BTreeMap<String, String> =
            host.rename.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
        rename.extend(settings.rename.clone());
        Self {
            origin,
            reasoning_field: host.reasoning_field,
            signs_calls: host.signs_calls,
            schemas: host.schemas,
            tool_names_begin_with_letter: host.tool_names_begin_with_letter || model.contains(GEMINI),
            max_description: host.max_description,
            tool_ids: settings.tool_ids.unwrap_or(if is_mistral { ToolIds::Nine } else { host.tool_ids }),
            roles: settings.roles.unwrap_or(if alternates { Roles::Alternate } else { host.roles }),
            vision: settings.vision.unwrap_or(true),
            forces_tools: true,
            max_tools: settings
                .max_tools
                .map_or(MAX_TOOLS, |limit| usize::try_from(limit.get()).unwrap_or(usize::MAX)),
            omit: settings.omit.iter().cloned().collect(),
            rename,
        }
    }

    /// Returns the name that a field of a request has here; `None` if it is not sent.
    pub(super) fn field<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let renamed = self.rename.get(name).map_or(name, String::as_str);
        let is_omitted = self.omit.contains(name) || self.omit.contains(renamed);
        if is_omitted { None } else { Some(renamed) }
    }
}

// === impl LastReasoningField ===

impl LastReasoningField {
    pub(super) fn new(field: ReasoningField) -> Self {
        Self(Arc::new(Mutex::new(field)))
    }

    pub(super) fn get(&self) -> ReasoningField {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, field: ReasoningField) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = field;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(base: &str, model: &str, settings: &DialectSettings) -> Dialect {
        Dialect::of(&Url::parse(base).unwrap(), model, settings)
    }

    #[test]
    fn a_host_is_known_by_its_whole_domain_only() {
        let field = |base| of(base, "m", &DialectSettings::default()).reasoning_field;
        assert_eq!(field("https://api.openai.com/v1"), ReasoningField::Nowhere);
        assert_eq!(field("https://mine.openai.azure.com/openai/v1"), ReasoningField::Nowhere);
        assert_eq!(field("https://api.groq.com/openai/v1"), ReasoningField::Reasoning);
        assert_eq!(field("https://notgroq.com/v1"), ReasoningField::ReasoningContent);
        assert_eq!(field("http://localhost:11434/v1"), ReasoningField::ReasoningContent);
        let google =
            of("https://generativelanguage.googleapis.com/v1beta/openai", "m", &DialectSettings::default());
        assert!(google.signs_calls);
    }

    #[test]
    fn ids_and_the_order_of_roles_are_those_of_the_host_or_of_the_models_family() {
        let form = |base, model| {
            let dialect = of(base, model, &DialectSettings::default());
            (dialect.tool_ids, dialect.roles)
        };
        let local = "http://localhost:8000/v1";
        assert_eq!(form("https://api.mistral.ai/v1", "any"), (ToolIds::Nine, Roles::Alternate));
        assert_eq!(form(local, "mistralai/Devstral-Small"), (ToolIds::Nine, Roles::Alternate));
        assert_eq!(form(local, "gemma3:4b"), (ToolIds::Any, Roles::Alternate));
        assert_eq!(form(local, "qwen3:8b"), (ToolIds::Any, Roles::Any));
        assert_eq!(form("https://api.openai.com/v1", "gpt-5-mini"), (ToolIds::Any, Roles::Any));
    }

    #[test]
    fn settings_override_what_is_known_of_the_provider() {
        let settings = DialectSettings {
            tool_ids: Some(ToolIds::Any),
            roles: Some(Roles::Any),
            vision: Some(false),
            max_tools: NonZeroU32::new(20),
            omit: vec!["stream_options".into(), "max_completion_tokens".into()],
            rename: BTreeMap::from([("seed".into(), "random_seed".into())]),
        };
        let mistral = of("https://api.mistral.ai/v1", "mistral-small-latest", &settings);
        assert_eq!((mistral.tool_ids, mistral.roles), (ToolIds::Any, Roles::Any));
        assert_eq!((mistral.vision, mistral.max_tools), (false, 20));
        assert_eq!((mistral.field("seed"), mistral.field("stream_options")), (Some("random_seed"), None));
        let openai = of("https://api.openai.com/v1", "m", &settings);
        assert_eq!(
            openai.field("max_tokens"),
            None,
            "it is also left out by the name that it has on the wire"
        );
        let named = DialectSettings {
            rename: BTreeMap::from([("max_tokens".into(), "max_tokens".into())]),
            ..DialectSettings::default()
        };
        assert_eq!(of("https://api.openai.com/v1", "m", &named).field("max_tokens"), Some("max_tokens"));
    }
}
