//! The settings of a model call: an operator's defaults, what a post asks for, and the limits on both.

use std::num::NonZeroU32;

use serde_json::{Map, Value};

use crate::assistants::ModelChoice;

/// The efforts of reasoning models, from the least to the most.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Returns the settings of a call by the AI SDK's names: those of the post, then the defaults of the model. A value over its limit is
/// lowered to it. A limit on tokens also holds for a post that names no number; `output_tokens` is the one of all models.
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
    resolved(posted, &choice.settings, &limits)
}

fn resolved(
    posted: &Map<String, Value>,
    defaults: &Map<String, Value>,
    limits: &Map<String, Value>,
) -> Map<String, Value> {
    let mut settings = renamed(defaults.clone());
    settings.extend(renamed(posted.clone()));
    for (name, limit) in limits {
        // An option for the provider that means the same would get around the limit.
        if let Some(option) = take_provider_option(&mut settings, name) {
            settings.entry(name).or_insert(option);
        }
        match settings.get_mut(name) {
            Some(value) if exceeds(value, limit) => *value = limit.clone(),
            Some(_) => {}
            None if name == "maxOutputTokens" => _ = settings.insert(name.clone(), limit.clone()),
            None => {}
        }
    }
    settings
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

/// Removes the option for the provider that has the name of a setting, in camel case or in snake case.
fn take_provider_option(settings: &mut Map<String, Value>, name: &str) -> Option<Value> {
    let options = settings.get_mut("providerOptions")?.get_mut("openai")?.as_object_mut()?;
    let is_same = |option: &str| option.replace('_', "").eq_ignore_ascii_case(name);
    let names: Vec<String> = options.keys().filter(|option| is_same(option)).cloned().collect();
    names.iter().filter_map(|name| options.remove(name)).last()
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
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(posted: Value, defaults: Value, limits: Value) -> Value {
        let map = |value: Value| value.as_object().cloned().expect("an object");
        resolved(&map(posted), &map(defaults), &map(limits)).into()
    }

    #[test]
    fn what_a_post_asks_for_goes_before_the_defaults() {
        let defaults = json!({"temperature": 0.25, "reasoningEffort": "low"});
        assert_eq!(settings(json!({}), defaults.clone(), json!({})), defaults);
        assert_eq!(
            settings(json!({"temperature": 0.75}), defaults, json!({})),
            json!({"temperature": 0.75, "reasoningEffort": "low"})
        );
    }

    #[test]
    fn the_older_name_of_the_limit_on_tokens_means_the_same() {
        let limits = json!({"maxOutputTokens": 100});
        for (posted, tokens) in [
            (json!({"maxTokens": 99}), 99),
            (json!({"maxTokens": 101}), 100),
            (json!({"maxTokens": 7, "maxOutputTokens": 1000}), 7),
            (json!({"maxTokens": 1000, "maxOutputTokens": 7}), 7),
            (json!({}), 100),
        ] {
            assert_eq!(
                settings(posted.clone(), json!({}), limits.clone()),
                json!({"maxOutputTokens": tokens}),
                "{posted}"
            );
        }
        let defaults = json!({"maxOutputTokens": 5});
        assert_eq!(settings(json!({"maxTokens": 9}), defaults, json!({})), json!({"maxOutputTokens": 9}));
        let defaults = json!({"maxTokens": 5});
        assert_eq!(
            settings(json!({"maxOutputTokens": 9}), defaults, json!({})),
            json!({"maxOutputTokens": 9})
        );
    }

    #[test]
    fn a_value_over_its_limit_is_lowered_to_it() {
        let limits = json!({"temperature": 1, "reasoningEffort": "medium"});
        for (posted, expected) in [
            (json!({"temperature": 1.5}), json!({"temperature": 1})),
            (json!({"temperature": 0.5, "topP": 1}), json!({"temperature": 0.5, "topP": 1})),
            (json!({"reasoningEffort": "high"}), json!({"reasoningEffort": "medium"})),
            (json!({"reasoningEffort": "low"}), json!({"reasoningEffort": "low"})),
            (json!({"reasoningEffort": "boundless"}), json!({"reasoningEffort": "medium"})),
        ] {
            assert_eq!(settings(posted, json!({}), limits.clone()), expected);
        }
    }

    #[test]
    fn no_option_for_the_provider_gets_around_a_limit() {
        let limits = json!({"temperature": 1, "reasoningEffort": "low"});
        for option in ["reasoningEffort", "reasoning_effort", "reasoning_Effort"] {
            let posted = json!({"providerOptions": {"openai": {option: "high", "serviceTier": "flex"}}});
            assert_eq!(
                settings(posted, json!({}), limits.clone()),
                json!({"providerOptions": {"openai": {"serviceTier": "flex"}}, "reasoningEffort": "low"})
            );
        }
    }
}
