//! `[models.<name>]`: a model that assistants may have besides the one of the main settings.

use std::{borrow::Cow, collections::BTreeMap, fs, num::NonZeroU32, sync::Arc};

use fermata_engine::{
    Embedder,
    call_settings::{api_field, is_reserved},
};
use fermata_protocol::CallSettings;
use fermata_providers::{BuildError, Demo, DialectSettings, Provider, Roles, SceneError, ToolIds};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};

use super::{Config, network::Headers, secret::Secret, url::Url, values::NonEmpty};

/// A model, as a table of the file. It inherits all other settings from the main ones.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Model")]
pub struct ModelSettings {
    /// The name of the model, as its API knows it. By default, model.
    pub model: Option<NonEmpty>,
    /// The base URL of its API. By default, openai_base_url.
    pub base_url: Option<Url>,
    /// The API key. By default, openai_api_key, but none if the model has a base_url of its own.
    pub api_key: Option<Secret>,
    /// The headers of each request to the API.
    #[serde(default)]
    pub headers: Headers,
    /// The number of tokens that it can take. By default, context_window.
    pub context: Option<NonZeroU32>,
    /// The settings of its calls, by the AI SDK's names, such as temperature. The settings of a post override them.
    #[serde(default)]
    pub settings: CallSettingsTable,
    /// The limits on settings, by the same names. A value over its limit is lowered to it.
    #[serde(default)]
    pub limits: CallSettingsTable,
    /// The names of more options in providerOptions.openai of a post that go into the request to the model API. Without this they are
    /// parallelToolCalls, promptCacheKey, reasoningEffort, serviceTier (auto, default or flex) and verbosity.
    #[serde(default)]
    pub pass: Vec<NonEmpty>,
    /// The form of the ids of calls: any, or nine letters and digits (nine). The default follows from the provider.
    pub tool_ids: Option<ToolIds>,
    /// The order of messages: any, or with user and assistant in turns (alternate). The default follows from the provider.
    pub roles: Option<Roles>,
    /// `true` if the model takes images and files. Without vision each of them is a line of text. By default, true.
    pub vision: Option<bool>,
    /// The number of tools that one request may have. More are left out, those of MCP servers first. By default, 128.
    pub max_tools: Option<NonZeroU32>,
    /// The fields of a request that are not sent, because the API refuses them, such as stream_options.
    #[serde(default)]
    pub omit: Vec<NonEmpty>,
    /// The names that fields of a request have at this API, such as max_completion_tokens for max_tokens.
    #[serde(default)]
    pub rename: BTreeMap<String, NonEmpty>,
}

/// The fields without which there is no request.
const NEEDED: [&str; 3] = ["model", "messages", "stream"];
/// The fields besides these that have the same name everywhere.
const FIXED: [&str; 3] = ["tools", "tool_choice", "stream_options"];

/// Settings of calls, as `callSettings` of a post has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallSettingsTable(pub Map<String, Value>);

/// The settings that have an order, so that there can be a limit on them.
const LIMITED: [&str; 7] = [
    "temperature",
    "topP",
    "topK",
    "maxOutputTokens",
    "presencePenalty",
    "frequencyPenalty",
    "reasoningEffort",
];

// === impl ModelSettings ===

impl Config {
    /// Builds the model that makes vectors of memories; `None` if the settings name none.
    ///
    /// # Errors
    /// Returns an error if the model cannot be built.
    pub fn embedder(&self) -> Result<Option<Arc<dyn Embedder>>, BuildError> {
        let Some(name) = &self.memory.embedding_model else { return Ok(None) };
        let named = ModelSettings { model: Some(NonEmpty(name.clone())), ..ModelSettings::default() };
        let settings = self.tables.models.get(name).unwrap_or(&named);
        fermata_providers::build_embedder(settings.provider(self)?).map(Some)
    }
}

impl ModelSettings {
    /// Returns the model, which inherits absent settings from the main ones. If it is the demo model, this reads its file of scenes.
    ///
    /// # Errors
    /// Returns an error if an API is named but no model, or if the file of scenes cannot be read or used.
    pub fn provider(&self, main: &Config) -> Result<Provider, BuildError> {
        let secret = |secret: &Secret| secret.0.clone();
        let base_url =
            self.base_url.as_ref().or(main.model.openai_base_url.as_ref()).map(|url| url.0.clone());
        let mut api_key = self.api_key.as_ref();
        if self.base_url.is_none() {
            api_key = api_key.or(main.model.openai_api_key.as_ref());
        }
        let model = self.model.as_ref().map(|name| &name.0).or(main.model.model.as_ref()).cloned();
        let mut provider = Provider::choose(base_url, api_key.map(secret), model)?;
        match (&mut provider, &main.model.demo_scenes) {
            (Provider::OpenAi(config), _) => {
                let headers = self.headers.0.iter();
                config.headers = headers.map(|(name, value)| (name.clone(), secret(value))).collect();
                config.dialect = self.dialect();
            }
            (Provider::Demo(demo), Some(path)) => {
                let text = fs::read_to_string(path)
                    .map_err(|error| SceneError(format!("{path}: cannot be read: {error}")))?;
                *demo = Demo::with_scenes(path, &text)?;
            }
            (Provider::Demo(_), None) => {}
        }
        Ok(provider)
    }

    fn dialect(&self) -> DialectSettings {
        let renamed = self.rename.iter().map(|(name, new)| (name.clone(), new.0.clone()));
        DialectSettings {
            tool_ids: self.tool_ids,
            roles: self.roles,
            vision: self.vision,
            max_tools: self.max_tools,
            omit: self.omit.iter().map(|name| name.0.clone()).collect(),
            rename: renamed.collect(),
        }
    }

    /// Checks what the types of the fields do not.
    ///
    /// # Errors
    /// Returns an error with the key that is wrong, and the reason.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if let Some(NonEmpty(name)) = self.omit.iter().find(|name| NEEDED.contains(&name.0.as_str())) {
            return Err(("omit", format!("{name} cannot be left out")));
        }
        let mut renamed = self.rename.iter().flat_map(|(name, NonEmpty(new))| [name, new]);
        if let Some(name) = renamed.find(|name| NEEDED.iter().chain(&FIXED).any(|fixed| fixed == name)) {
            return Err(("rename", format!("{name} has this name everywhere; leave it out")));
        }
        if let Some(name) = self.limits.0.keys().find(|name| !LIMITED.contains(&name.as_str())) {
            let reason = format!("{name} has no order; there may be limits on {}", LIMITED.join(", "));
            return Err(("limits", reason));
        }
        if let Some(NonEmpty(name)) = self.pass.iter().find(|name| is_reserved(&api_field(&name.0))) {
            return Err(("pass", format!("{name} is set by the server alone; leave it out")));
        }
        let options =
            self.settings.0.get("providerOptions").and_then(|options| options["openai"].as_object());
        let mut options = options.into_iter().flat_map(Map::keys);
        if let Some(name) = options.find(|name| is_reserved(&api_field(name))) {
            return Err(("settings", format!("the option {name} is set by the server alone; leave it out")));
        }
        Ok(())
    }
}

// === impl CallSettingsTable ===

impl<'de> Deserialize<'de> for CallSettingsTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let settings = CallSettings::deserialize(deserializer)?.into_map();
        match CallSettings::WITHOUT_EFFECT.into_iter().find(|name| settings.contains_key(*name)) {
            Some(name) => Err(D::Error::custom(format!("{name} has no effect here"))),
            None => Ok(Self(settings)),
        }
    }
}

impl JsonSchema for CallSettingsTable {
    fn schema_name() -> Cow<'static, str> {
        "CallSettings".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let properties: Map<String, Value> =
            CallSettings::names().map(|name| (name.to_owned(), Value::Bool(true))).collect();
        json_schema!({"type": "object", "properties": properties, "additionalProperties": false})
    }
}
