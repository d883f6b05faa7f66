//! Implementations of the engine's model port.
//!
//! Foreign JSON stays in here: what leaves are [`fermata_engine`]'s events and errors. This crate does not know what a
//! chat, a run or a client is, and is configured by whoever builds it; of the environment, only proxies are looked at.

pub mod demo;
pub mod openai;

use std::sync::Arc;

use fermata_engine::Model;
use secrecy::{ExposeSecret, SecretString};

pub use demo::Demo;
pub use openai::{OpenAi, OpenAiConfig};

/// Which model answers.
#[derive(Clone, Debug)]
pub enum Provider {
    /// The built-in demo, which needs no key and no network.
    Demo,
    /// An OpenAI-compatible API.
    OpenAi(OpenAiConfig),
}

/// Why a model cannot be built, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A key or base URL is set, but no model.
    #[error("a model API is configured, but no model: set FERMATA_MODEL to a model's name")]
    NoModel,
    /// The base URL is none.
    #[error("the base URL of the model API must be an http or https URL without a user name: {0}")]
    BaseUrl(String),
    /// The key cannot stand in a header. The key itself is never part of this.
    #[error("the API key has characters that an HTTP header cannot carry")]
    ApiKey,
    /// The HTTP client could not be made.
    #[error("the HTTP client could not be made: {0}")]
    Client(String),
}

// === impl Provider ===

impl Provider {
    /// Chooses: the API where a key or a base URL is given, otherwise the demo. An empty setting counts as none.
    ///
    /// # Errors
    /// [`BuildError::NoModel`] where the API is chosen and no model named.
    pub fn choose(
        base_url: Option<String>,
        api_key: Option<SecretString>,
        model: Option<String>,
    ) -> Result<Self, BuildError> {
        let base_url = base_url.filter(|url| !url.trim().is_empty());
        let api_key = api_key.filter(|key| !key.expose_secret().trim().is_empty());
        if base_url.is_none() && api_key.is_none() {
            return Ok(Self::Demo);
        }
        let model = model.filter(|name| !name.trim().is_empty()).ok_or(BuildError::NoModel)?;
        Ok(Self::OpenAi(OpenAiConfig { base_url, api_key, ..OpenAiConfig::new(model) }))
    }
}

/// Builds the model.
///
/// # Errors
/// Where the configuration cannot work.
pub fn build(provider: Provider) -> Result<Arc<dyn Model>, BuildError> {
    Ok(match provider {
        Provider::Demo => Arc::new(Demo::new()),
        Provider::OpenAi(config) => Arc::new(OpenAi::build(config)?),
    })
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
    fn the_demo_answers_where_neither_key_nor_base_url_is_set() {
        assert!(matches!(chosen(None, None, None), Ok(Provider::Demo)));
        assert!(matches!(chosen(Some(""), Some(" "), Some("m")), Ok(Provider::Demo)));
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
    fn an_api_without_a_model_is_refused() {
        assert_eq!(chosen(None, Some("k"), None).unwrap_err(), BuildError::NoModel);
    }

    #[test]
    fn the_built_model_has_the_configured_name() {
        assert_eq!(build(Provider::Demo).unwrap().name(), "demo");
        let api = chosen(Some("http://localhost:1/v1"), None, Some("llama")).unwrap();
        assert_eq!(build(api).unwrap().name(), "llama");
    }
}
