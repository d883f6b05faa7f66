//! The settings of a model call: an operator's defaults, the wishes of a post, and the limits on both.
//!
//! This module knows the names of API fields, not how a request is written. Invariants: a post sets no field of the request to the model
//! API that neither [`PASSED`] nor the operator names; an option of the operator is never replaced; no spelling gets around a limit.

use std::num::NonZeroU32;

use serde_json::{Map, Value};

use crate::assistants::ModelChoice;

/// The options for the provider that a post may always set. They choose no other model, raise no price, keep nothing at the provider and
/// run nothing there.
pub const PASSED: [&str; 5] =
    ["parallelToolCalls", "promptCacheKey", "reasoningEffort", "serviceTier", "verbosity"];
/// The values of `serviceTier` that cost no more than the default.
const TIERS: [&str; 3] = ["auto", "default", "flex"];
/// The longest text that a post may set as one of [`PASSED`], in bytes.
const PASSED_BYTES: usize = 256;

/// The API fields that no option sets, because they decide about the model, the form of the request, and the number of tokens.
/// `n_predict` is llama.cpp's limit.
const RESERVED: [&str; 14] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "stream",
    "stream_options",
    "n",
    "best_of",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n_predict",
];

/// The efforts of reasoning models, from the least to the most.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// The quantity that a field of the options limits or asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    /// A number of tokens.
    Tokens,
    /// A number of tokens for reasoning, which is another measure of the effort.
    ReasoningTokens,
    /// The setting of this name.
    Setting(&'static str),
}

/// Returns the API field for an option, which the AI SDK writes in camel case.
pub fn api_field(option: &str) -> String {
    if option == "textVerbosity" {
        return "verbosity".to_owned();
    }
    let mut field = String::with_capacity(option.len());
    for c in option.chars() {
        if c.is_ascii_uppercase() && !field.is_empty() {
            field.push('_');
        }
        field.push(c.to_ascii_lowercase());
    }
    field
}

/// Returns whether an API field is set by the server alone.
pub fn is_reserved(field: &str) -> bool {
    RESERVED.contains(&field)
}

/// Checks the options for the provider that a post asks for.
///
/// # Errors
/// Returns a sentence that names the option and those that a post may set.
pub(crate) fn check_options(posted: &Map<String, Value>, choice: &ModelChoice) -> Result<(), String> {
    for (option, value) in options(posted).into_iter().flatten() {
        if passes(option, value, choice) {
            continue;
        }
        let field = api_field(option);
        let known = PASSED.into_iter().chain(choice.pass.iter().map(String::as_str));
        let should = if known.clone().all(|known| api_field(known) != field) {
            let known: Vec<&str> = known.collect();
            format!("is no option that a post may set; a post may set: {}", known.join(", "))
        } else if field == "service_tier" {
            format!("has a value that a post may not set; it may be {}", TIERS.join(", "))
        } else {
            format!("must be true, false, a number, or a text of at most {PASSED_BYTES} bytes")
        };
        return Err(format!("`callSettings.providerOptions.openai.{option:.64}` {should}."));
    }
    Ok(())
}

/// Returns the settings of a call by the AI SDK's names: those of the post, then the defaults of the model. Options for the provider are
/// the other way round: a post adds to those of the model. A value over its limit is lowered to it. A limit on tokens also holds for a
/// post that names no number; `output_tokens` is the one of all models.
pub(crate) fn call_settings(
    posted: &Map<String, Value>,
    choice: &ModelChoice,
    output_tokens: Option<NonZeroU32>,
) -> Map<String, Value> {
    let mut limits = choice.limits.clone();
    if let Some(tokens) = output_tokens {
        let limit = limits.entry("maxOutputTokens").or_insert_with(|| tokens.get().into());
        if exceeds(limit, &tokens.get().into()) {
            *limit = tokens.get().into();
        }
    }
    let mut settings = renamed(choice.settings.clone());
    settings.extend(renamed(posted.clone()));
    for (name, limit) in &limits {
        match settings.get_mut(name) {
            Some(value) if exceeds(value, limit) => *value = limit.clone(),
            Some(_) => {}
            None if name == "maxOutputTokens" => _ = settings.insert(name.clone(), limit.clone()),
            None => {}
        }
    }
    let mut provider_options = choice.settings.get("providerOptions").cloned().unwrap_or_default();
    let mut merged = Map::new();
    for (option, value) in options(posted).into_iter().flatten() {
        if passes(option, value, choice) {
            merged.insert(api_field(option), value.clone());
        }
    }
    let of_operator = options(&choice.settings).into_iter().flatten();
    merge(&mut merged, of_operator.map(|(option, value)| (api_field(option), value.clone())).collect());
    limit_options(&mut merged, &limits, false);
    settings.remove("providerOptions");
    if !merged.is_empty() {
        provider_options["openai"] = merged.into();
    }
    if !provider_options.is_null() {
        settings.insert("providerOptions".to_owned(), provider_options);
    }
    settings
}

/// Returns the options for the provider in settings.
fn options(settings: &Map<String, Value>) -> Option<&Map<String, Value>> {
    settings.get("providerOptions")?.get("openai")?.as_object()
}

/// Returns whether a post may set an option to this value.
fn passes(option: &str, value: &Value, choice: &ModelChoice) -> bool {
    let field = api_field(option);
    if is_reserved(&field) {
        return false;
    }
    if choice.pass.iter().any(|name| api_field(name) == field) {
        return true;
    }
    let is_plain = match value {
        Value::String(text) => text.len() <= PASSED_BYTES,
        Value::Bool(_) | Value::Number(_) => true,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    };
    let is_affordable = field != "service_tier" || value.as_str().is_some_and(|tier| TIERS.contains(&tier));
    is_plain && is_affordable && PASSED.iter().any(|name| api_field(name) == field)
}

/// Puts the operator's options over those of a post, key by key.
fn merge(posted: &mut Map<String, Value>, of_operator: Map<String, Value>) {
    for (key, value) in of_operator {
        match (posted.get_mut(&key), value) {
            (Some(Value::Object(posted)), Value::Object(of_operator)) => merge(posted, of_operator),
            (_, value) => _ = posted.insert(key, value),
        }
    }
}

/// Lowers the values of options, at any depth, that are over a limit. A number of tokens for reasoning is left out if the effort is limited
/// and tokens are not, because nothing compares the two.
fn limit_options(options: &mut Map<String, Value>, limits: &Map<String, Value>, is_about_reasoning: bool) {
    options.retain(|name, value| {
        let quantity = match value {
            Value::Object(inner) => {
                limit_options(inner, limits, is_about_reasoning || has_reasoning_name(name));
                return true;
            }
            Value::Array(items) => {
                for item in items.iter_mut().filter_map(Value::as_object_mut) {
                    limit_options(item, limits, is_about_reasoning || has_reasoning_name(name));
                }
                return true;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => quantity(name),
        };
        let is_budget = quantity == Some(Quantity::ReasoningTokens)
            || quantity == Some(Quantity::Tokens) && is_about_reasoning;
        let name = match quantity {
            Some(Quantity::Tokens | Quantity::ReasoningTokens) => "maxOutputTokens",
            Some(Quantity::Setting(name)) => name,
            None => return true,
        };
        let Some(limit) = limits.get(name) else {
            return !(is_budget && limits.contains_key("reasoningEffort"));
        };
        // A number of tokens below zero stands for any number.
        if exceeds(value, limit)
            || value.as_f64().is_some_and(|number| name == "maxOutputTokens" && number < 0.0)
        {
            *value = limit.clone();
        }
        true
    });
}

/// Returns whether the contents of an option of this name are about reasoning.
fn has_reasoning_name(option: &str) -> bool {
    let name = plain(option);
    name.contains("reasoning") || name.contains("thinking")
}

/// Returns the quantity of an option, with any spelling of its name.
fn quantity(option: &str) -> Option<Quantity> {
    Some(match plain(option).as_str() {
        "maxtokens"
        | "maxcompletiontokens"
        | "maxoutputtokens"
        | "maxnewtokens"
        | "maxlength"
        | "mintokens"
        | "minnewtokens"
        | "npredict"
        | "numpredict" => Quantity::Tokens,
        "budget"
        | "budgettokens"
        | "thinkingbudget"
        | "thinkingbudgettokens"
        | "thinkingtokens"
        | "maxthinkingtokens"
        | "reasoningbudget"
        | "reasoningbudgettokens"
        | "reasoningtokens"
        | "maxreasoningtokens" => Quantity::ReasoningTokens,
        "effort" | "reasoningeffort" | "thinkingeffort" | "thinkinglevel" | "reasoninglevel" => {
            Quantity::Setting("reasoningEffort")
        }
        "temperature" => Quantity::Setting("temperature"),
        "topp" => Quantity::Setting("topP"),
        "topk" => Quantity::Setting("topK"),
        "presencepenalty" => Quantity::Setting("presencePenalty"),
        "frequencypenalty" => Quantity::Setting("frequencyPenalty"),
        _ => return None,
    })
}

/// Returns the letters and digits of a name, in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns the settings with the limit on tokens under its name of today. If both names are there, the smaller number is meant to hold.
fn renamed(mut settings: Map<String, Value>) -> Map<String, Value> {
    if let Some(tokens) = settings.remove("maxTokens") {
        let limit = settings.entry("maxOutputTokens").or_insert_with(|| tokens.clone());
        if exceeds(limit, &tokens) {
            *limit = tokens;
        }
    }
    settings
}

/// Returns whether a value is over its limit. An effort that is not known may be more than any other.
fn exceeds(value: &Value, limit: &Value) -> bool {
    if let (Some(value), Some(limit)) = (value.as_f64(), limit.as_f64()) {
        return value > limit;
    }
    let rank = |effort: &Value| EFFORTS.iter().position(|known| effort.as_str() == Some(known));
    match (rank(value), rank(limit)) {
        (Some(value), Some(limit)) => value > limit,
        (_, _) => value != limit,
    }
}

#[cfg(test)]
mod tests;
