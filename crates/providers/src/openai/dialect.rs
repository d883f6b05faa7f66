//! The differences between providers' requests, recognised by the host of the base URL.
//!
//! A host that is not known here gets what most servers understand, and has no default model. Nothing else in the crate looks at the host.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::Url;

/// The variant of the API that a provider implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Most servers: vLLM, Ollama, llama.cpp, DeepSeek, Moonshot, …
    Common,
    /// OpenAI itself and its models on Azure.
    OpenAi,
    /// Providers whose field for reasoning is `reasoning`, some of which refuse any other.
    PlainReasoning,
    /// Mistral, which gives reasoning inside `content` and refuses fields it does not know.
    Mistral,
    /// Gemini.
    Google,
}

/// The field in which a provider gives reasoning, and takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReasoningField {
    /// `reasoning_content`.
    ReasoningContent,
    /// `reasoning`.
    Reasoning,
    /// The provider gives reasoning in a form that is not sent back.
    Nowhere,
}

/// The field in which reasoning came last, shared by all requests of a model, because a provider takes reasoning back only there.
///
/// This is a mutex and not an atomic because it is touched once per request and once per answer, and never held across an await.
#[derive(Clone, Debug)]
pub(super) struct LastReasoningField(Arc<Mutex<ReasoningField>>);

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
    /// Returns the dialect of the host of the base URL.
    pub(super) fn of(base: &Url) -> Self {
        let host = base.host_str().unwrap_or_default();
        let is = |domain: &str| {
            host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        };
        if is("api.openai.com") || is("openai.azure.com") {
            Self::OpenAi
        } else if is("groq.com") || is("cerebras.ai") || is("openrouter.ai") {
            Self::PlainReasoning
        } else if is("mistral.ai") {
            Self::Mistral
        } else if is("googleapis.com") {
            Self::Google
        } else {
            Self::Common
        }
    }

    /// Returns the name of the setting that limits the answer. OpenAI's reasoning models refuse the older name, other servers the newer.
    pub(super) fn output_limit(self) -> &'static str {
        match self {
            Self::OpenAi => "max_completion_tokens",
            Self::Common | Self::PlainReasoning | Self::Mistral | Self::Google => "max_tokens",
        }
    }

    /// Returns the field in which reasoning is expected until an answer has shown it. After a restart in the middle of a turn, no answer has.
    pub(super) fn reasoning_field(self) -> ReasoningField {
        match self {
            Self::Common => ReasoningField::ReasoningContent,
            Self::PlainReasoning => ReasoningField::Reasoning,
            Self::OpenAi | Self::Mistral | Self::Google => ReasoningField::Nowhere,
        }
    }

    /// Returns whether a call that is sent back needs a thought signature. Gemini 3 refuses a call without one.
    pub(super) fn signs_calls(self) -> bool {
        match self {
            Self::Google => true,
            Self::Common | Self::OpenAi | Self::PlainReasoning | Self::Mistral => false,
        }
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

    #[test]
    fn a_host_is_known_by_its_whole_domain_only() {
        let of = |url: &str| Dialect::of(&Url::parse(url).unwrap());
        assert_eq!(of("https://api.openai.com/v1"), Dialect::OpenAi);
        assert_eq!(of("https://mine.openai.azure.com/openai/v1"), Dialect::OpenAi);
        assert_eq!(of("https://api.groq.com/openai/v1"), Dialect::PlainReasoning);
        assert_eq!(of("https://api.mistral.ai/v1"), Dialect::Mistral);
        assert_eq!(of("https://generativelanguage.googleapis.com/v1beta/openai"), Dialect::Google);
        assert_eq!(of("https://notgroq.com/v1"), Dialect::Common);
        assert_eq!(of("http://localhost:11434/v1"), Dialect::Common);
    }
}
