//! What of a request differs from provider to provider, told by the host of the base URL.
//!
//! A host that is not known here gets what most servers understand. Nothing else in the crate looks at the host.

use reqwest::Url;

/// Which of the providers' habits a request follows.
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

/// Where a provider gives reasoning, and takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReasoningField {
    /// `reasoning_content`.
    ReasoningContent,
    /// `reasoning`.
    Reasoning,
    /// In a form that is not sent back.
    Nowhere,
}

impl Dialect {
    /// The dialect of a host.
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

    /// The setting that limits the answer. OpenAI's reasoning models refuse the older name, other servers the newer.
    pub(super) fn output_limit(self) -> &'static str {
        match self {
            Self::OpenAi => "max_completion_tokens",
            Self::Common | Self::PlainReasoning | Self::Mistral | Self::Google => "max_tokens",
        }
    }

    /// Where reasoning is expected, until an answer has shown it: after a restart in the middle of a turn none has yet.
    pub(super) fn reasoning_field(self) -> ReasoningField {
        match self {
            Self::Common => ReasoningField::ReasoningContent,
            Self::PlainReasoning => ReasoningField::Reasoning,
            Self::OpenAi | Self::Mistral | Self::Google => ReasoningField::Nowhere,
        }
    }

    /// Whether a call that is sent back needs a thought signature: Gemini 3 refuses one without.
    pub(super) fn signs_calls(self) -> bool {
        match self {
            Self::Google => true,
            Self::Common | Self::OpenAi | Self::PlainReasoning | Self::Mistral => false,
        }
    }
}

impl ReasoningField {
    /// The field's name on an assistant message.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::ReasoningContent => Some("reasoning_content"),
            Self::Reasoning => Some("reasoning"),
            Self::Nowhere => None,
        }
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
