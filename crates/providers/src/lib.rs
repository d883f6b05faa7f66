//! Implementations of the engine's model port.
//!
//! Foreign JSON stays in here: only [`fermata_engine`]'s events and errors leave. This crate does not know what a chat, a run or a
//! client is, and is configured by its caller; of the environment, it reads only the variables that name proxies.

pub mod demo;
pub mod openai;

use std::sync::Arc;

use fermata_engine::{Embedder, Model};
use secrecy::{ExposeSecret, SecretString};

pub use demo::{Demo, SceneError};
pub use openai::{DialectSettings, OpenAi, OpenAiConfig, Roles, ToolIds};

/// The model that answers.
#[derive(Clone, Debug)]
pub enum Provider {
    /// The built-in demo, which needs no key and no network.
    Demo(Demo),
    /// An OpenAI-compatible API.
    OpenAi(OpenAiConfig),
}

/// The reason why a model cannot be built. `Display` is for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A key or base URL is set, but no model, and the API has no default model.
    #[error("a model API is configured, but no model; set FERMATA_MODEL to the name of one of its models")]
    NoModel,
    /// An embedding model is set, but no model API.
    #[error("an embedding model is set, but no model API: the demo model makes no vectors")]
    NoEmbeddings,
    /// The base URL cannot be used.
    #[error("the base URL of the model API must be an http or https URL without a user name: {0}")]
    BaseUrl(String),
    /// A header cannot carry the key. The key itself is never part of this error.
    #[error("the API key has characters that an HTTP header cannot carry")]
    ApiKey,
    /// The header of this name, or its value, has characters that a header cannot carry. The value is never part of this error.
    #[error("the header {0} has characters that an HTTP header cannot carry")]
    Header(String),
    /// The HTTP client cannot be built, which happens if the system has no CA certificates.
    #[error(
        "the HTTP client of the model API cannot be built: {0} (CA certificates come from the system, for example from its package \
         ca-certificates, or from the file that SSL_CERT_FILE names)"
    )]
    Client(String),
    /// The scenes of the demo model cannot be used.
    #[error(transparent)]
    Scenes(#[from] SceneError),
}

// === impl Provider ===

impl Provider {
    /// Chooses the API if a key or a base URL is given, otherwise the demo. An empty setting counts as none.
    ///
    /// # Errors
    /// Returns [`BuildError::NoModel`] if the API is chosen, no model is named, and the API has no default model.
    pub fn choose(
        base_url: Option<String>,
        api_key: Option<SecretString>,
        model: Option<String>,
    ) -> Result<Self, BuildError> {
        let base_url = base_url.filter(|url| !url.trim().is_empty());
        let api_key = api_key.filter(|key| !key.expose_secret().trim().is_empty());
        if base_url.is_none() && api_key.is_none() {
            return Ok(Self::Demo(Demo::new()));
        }
        let model = model
            .filter(|name| !name.trim().is_empty())
            .or_else(|| OpenAiConfig::default_model(base_url.as_deref()).map(str::to_owned))
            .ok_or(BuildError::NoModel)?;
        Ok(Self::OpenAi(OpenAiConfig { base_url, api_key, ..OpenAiConfig::new(model) }))
    }

    /// Returns the name of the model.
    pub fn model(&self) -> &str {
        match self {
            Self::Demo(_) => Demo::NAME,
            Self::OpenAi(config) => &config.model,
        }
    }
}

/// Builds the model.
///
/// # Errors
/// Returns an error if the configuration cannot work.
pub fn build(provider: Provider) -> Result<Arc<dyn Model>, BuildError> {
    Ok(match provider {
        Provider::Demo(demo) => Arc::new(demo),
        Provider::OpenAi(config) => Arc::new(OpenAi::build(config)?),
    })
}

/// Builds a model that makes vectors of texts.
///
/// # Errors
/// Returns an error if the configuration cannot work. The demo makes no vectors.
pub fn build_embedder(provider: Provider) -> Result<Arc<dyn Embedder>, BuildError> {
    match provider {
        Provider::Demo(_) => Err(BuildError::NoEmbeddings),
        Provider::OpenAi(config) => Ok(Arc::new(OpenAi::build(config)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(
        base_url: Option<&str>,
        key: Option<&str>,
        model: Option<&str>,
    ) -> Result<Provider, BuildError> {
        Provider::choose(base_url.map(Into::into), key.map(Into::into), model.map(Into::into))
    }

    #[test]
    fn the_demo_answers_if_neither_key_nor_base_url_is_set() {
        assert!(matches!(chosen(None, None, None), Ok(Provider::Demo(_))));
        assert!(matches!(chosen(Some(""), Some(" "), Some("m")), Ok(Provider::Demo(_))));
    }

    #[test]
    fn a_key_or_a_base_url_alone_chooses_the_api() {
        assert!(matches!(chosen(None, Some("k"), Some("m")), Ok(Provider::OpenAi(_))));
        assert!(matches!(
            chosen(Some("http://localhost:11434/v1"), None, Some("m")),
            Ok(Provider::OpenAi(_))
        ));
    }

    #[test]
    fn a_known_api_has_a_default_model() {
        let model = |base_url| match chosen(base_url, Some("k"), None) {
            Ok(Provider::OpenAi(config)) => config.model,
            other => panic!("{other:?}"),
        };
        assert_eq!(model(None), "gpt-5-mini");
        assert_eq!(model(Some("https://api.mistral.ai/v1")), "mistral-small-latest");
    }

    #[test]
    fn an_unknown_api_without_a_model_is_refused() {
        for base_url in ["http://localhost:11434/v1", "https://r.openai.azure.com/openai/v1"] {
            assert_eq!(chosen(Some(base_url), Some("k"), None).unwrap_err(), BuildError::NoModel);
        }
    }

    #[test]
    fn the_built_model_has_the_configured_name() {
        assert_eq!(build(chosen(None, None, None).unwrap()).unwrap().name(), "demo");
        let api = chosen(Some("http://localhost:1/v1"), None, Some("llama")).unwrap();
        assert_eq!(build(api).unwrap().name(), "llama");
    }
}
