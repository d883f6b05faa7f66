//! `callSettings`: how a model is to answer, by the AI SDK's names.
//!
//! A setting that nobody reads would be a mistake in silence, so an unknown name is an error. Ranges are those that providers have: what
//! is outside would come back as an error of theirs, which says less.

use serde::{
    Deserialize, Serialize,
    de::{Deserializer, Error as _},
};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::read::{names, unexpected};

/// The most stop sequences, and the longest, in bytes.
const STOP_SEQUENCES: usize = 16;
const STOP_SEQUENCE_BYTES: usize = 256;
/// The longest name of an effort, in bytes.
const EFFORT_BYTES: usize = 32;
/// The limit on the options for providers, in bytes of JSON. They are saved with each run.
const PROVIDER_OPTIONS_BYTES: usize = 16 * 1024;

/// Model settings by the AI SDK's names. One that is unknown or outside its range is refused.
///
/// Numbers are kept as they were posted.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(example = json!({"temperature": 0.2}))]
pub struct CallSettings {
    #[serde(default, deserialize_with = "number::<0, 2, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 2)]
    temperature: Option<Value>,
    #[serde(default, deserialize_with = "number::<0, 1, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1)]
    top_p: Option<Value>,
    #[serde(default, deserialize_with = "count::<0, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 0)]
    top_k: Option<Value>,
    #[serde(default, deserialize_with = "count::<1, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    max_output_tokens: Option<Value>,
    /// The older name of `maxOutputTokens`.
    #[serde(default, deserialize_with = "count::<1, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    max_tokens: Option<Value>,
    #[serde(default, deserialize_with = "number::<-2, 2, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = -2, maximum = 2)]
    presence_penalty: Option<Value>,
    #[serde(default, deserialize_with = "number::<-2, 2, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = -2, maximum = 2)]
    frequency_penalty: Option<Value>,
    /// At most 16 texts of 1 to 256 bytes each, which end the answer.
    #[serde(default, deserialize_with = "stop_sequences", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, max_items = 16)]
    stop_sequences: Option<Value>,
    #[serde(default, deserialize_with = "integer", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    seed: Option<Value>,
    /// The effort of a reasoning model, in the provider's words, such as `low`, `medium` or `high`.
    #[serde(default, deserialize_with = "effort", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 32, example = "low")]
    reasoning_effort: Option<Value>,
    /// If it is `false`, the provider is asked for at most one tool call in a step.
    #[serde(default, deserialize_with = "boolean", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<bool>)]
    parallel_tool_calls: Option<Value>,
    /// Options by the name of a provider, of at most 16 KiB. Those of `openai` go into the request to the model API:
    /// `parallelToolCalls`, `promptCacheKey`, `reasoningEffort`, `serviceTier`, `verbosity`, and those that the operator names. Others are
    /// refused.
    #[serde(default, deserialize_with = "provider_options", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({"openai": {"serviceTier": "flex"}}))]
    provider_options: Option<Value>,
    /// This is for the client's side of the AI SDK and has no effect here.
    #[serde(default, deserialize_with = "count::<0, _>", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 0)]
    max_retries: Option<Value>,
    /// This is for the client's side of the AI SDK and has no effect here.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Map<String, Value>>,
}

impl CallSettings {
    /// The names of the settings that are read and have no effect, because they are for the client's side of the AI SDK.
    pub const WITHOUT_EFFECT: [&str; 2] = ["maxRetries", "headers"];

    /// Returns the names of the settings that have an effect on a model.
    pub fn names() -> impl Iterator<Item = &'static str> {
        names::<Self>().iter().copied().filter(|name| !Self::WITHOUT_EFFECT.contains(name))
    }

    /// Returns the settings that are there, by name.
    pub fn into_map(self) -> Map<String, Value> {
        match json!(self) {
            Value::Object(settings) => settings,
            _ => Map::new(),
        }
    }
}

/// Reads a value that passes a test.
fn fitting<'de, D: Deserializer<'de>>(
    json: D,
    should: &str,
    fits: impl Fn(&Value) -> bool,
) -> Result<Option<Value>, D::Error> {
    match Option::<Value>::deserialize(json)? {
        Some(value) if !fits(&value) => Err(D::Error::invalid_value(unexpected(&value), &should)),
        other => Ok(other),
    }
}

fn number<'de, const FROM: i32, const TO: i32, D: Deserializer<'de>>(
    json: D,
) -> Result<Option<Value>, D::Error> {
    let range = f64::from(FROM)..=f64::from(TO);
    fitting(json, &format!("a number from {FROM} to {TO}"), |value| {
        value.as_f64().is_some_and(|number| range.contains(&number))
    })
}

fn count<'de, const FROM: u64, D: Deserializer<'de>>(json: D) -> Result<Option<Value>, D::Error> {
    fitting(json, &format!("a whole number from {FROM} on"), |value| {
        value.as_u64().is_some_and(|count| count >= FROM)
    })
}

fn integer<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Value>, D::Error> {
    fitting(json, "a whole number", |value| value.is_i64() || value.is_u64())
}

fn effort<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Value>, D::Error> {
    let should = format!("a text of 1 to {EFFORT_BYTES} bytes, such as \"low\"");
    fitting(json, &should, |value| is_text(value, EFFORT_BYTES))
}

fn boolean<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Value>, D::Error> {
    fitting(json, "true or false", Value::is_boolean)
}

fn provider_options<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Value>, D::Error> {
    let should = format!(
        "an object with an object for each provider, of at most {PROVIDER_OPTIONS_BYTES} bytes together"
    );
    fitting(json, &should, |value| {
        value.as_object().is_some_and(|providers| providers.values().all(Value::is_object))
            && value.to_string().len() <= PROVIDER_OPTIONS_BYTES
    })
}

fn stop_sequences<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Value>, D::Error> {
    let should = format!("a list of at most {STOP_SEQUENCES} texts of 1 to {STOP_SEQUENCE_BYTES} bytes each");
    fitting(json, &should, |value| {
        value.as_array().is_some_and(|texts| {
            texts.len() <= STOP_SEQUENCES && texts.iter().all(|text| is_text(text, STOP_SEQUENCE_BYTES))
        })
    })
}

/// Returns whether a value is a text of 1 to `most` bytes.
fn is_text(value: &Value, most: usize) -> bool {
    value.as_str().is_some_and(|text| (1..=most).contains(&text.len()))
}
