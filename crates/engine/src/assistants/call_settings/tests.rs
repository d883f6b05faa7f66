//! A post sets the options on the list and no others, however their names are spelled.

use std::sync::Arc;

use futures::stream::BoxStream;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::{Model, ModelError, ModelEvent, ModelRequest};

struct Silent;

#[async_trait::async_trait]
impl Model for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    async fn stream(
        &self,
        _: ModelRequest,
    ) -> Result<BoxStream<'static, Result<ModelEvent, ModelError>>, ModelError> {
        Err(ModelError::Timeout)
    }
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

fn choice(settings: Value, limits: Value, pass: &[&str]) -> ModelChoice {
    ModelChoice {
        settings: map(settings),
        limits: map(limits),
        pass: pass.iter().map(|name| (*name).to_owned()).collect(),
        ..ModelChoice::of(Arc::new(Silent))
    }
}

fn settings(posted: Value, defaults: Value, limits: Value) -> Value {
    call_settings(&map(posted), &choice(defaults, limits, &[]), None).into()
}

fn posts(options: &Value) -> Value {
    json!({"providerOptions": {"openai": options}})
}

/// The options that the model API is sent, for those of a post.
fn options_sent(posted: &Value, choice: &ModelChoice) -> Value {
    let sent = call_settings(&map(posts(posted)), choice, None);
    sent.get("providerOptions").map_or(json!({}), |options| options["openai"].clone())
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
    assert_eq!(settings(json!({"maxOutputTokens": 9}), defaults, json!({})), json!({"maxOutputTokens": 9}));
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

/// Options of several APIs that choose another model, cost more, keep data, or run something at the provider.
const REFUSED: [&str; 34] = [
    "models",
    "model",
    "route",
    "plugins",
    "webSearchOptions",
    "provider",
    "reasoning",
    "thinking",
    "api_base",
    "apiKey",
    "fallbacks",
    "custom_llm_provider",
    "mock_response",
    "chat_template",
    "guided_regex",
    "grammar",
    "min_tokens",
    "max_new_tokens",
    "maxCompletionTokens",
    "extra_args",
    "options",
    "keep_alive",
    "store",
    "user",
    "metadata",
    "logitBias",
    "responseFormat",
    "temperature",
    "Messages",
    "__proto__",
    "service__tier",
    "service-tier",
    "",
    "Reasoning_Effort",
];

#[test]
fn an_option_that_does_not_pass_is_refused_with_those_that_do() {
    let strict = choice(json!({}), json!({}), &["logprobs"]);
    for name in REFUSED {
        let refusal = check_options(&map(posts(&json!({ name: "x" }))), &strict).expect_err(name);
        let expected = format!(
            "`callSettings.providerOptions.openai.{name}` is no option that a post may set; a post may set: parallelToolCalls, \
             promptCacheKey, reasoningEffort, serviceTier, verbosity, logprobs."
        );
        assert_eq!(refusal, expected);
        assert_eq!(options_sent(&json!({ name: "x" }), &strict), json!({}), "{name}");
    }
}

#[test]
fn what_passes_is_sent_by_the_names_of_the_api() {
    let choice = choice(json!({}), json!({}), &["logit_bias", "webSearchOptions", "serviceTier"]);
    let posted = json!({
        "textVerbosity": "low", "promptCacheKey": "k", "parallelToolCalls": false, "reasoning_effort": "low",
        "logitBias": {"50256": -100}, "web_search_options": {}, "serviceTier": "priority",
    });
    assert_eq!(check_options(&map(posts(&posted)), &choice), Ok(()));
    let sent = json!({
        "verbosity": "low", "prompt_cache_key": "k", "parallel_tool_calls": false, "reasoning_effort": "low",
        "logit_bias": {"50256": -100}, "web_search_options": {}, "service_tier": "priority",
    });
    assert_eq!(options_sent(&posted, &choice), sent);
}

#[test]
fn an_option_that_passes_has_a_plain_and_affordable_value() {
    let strict = choice(json!({}), json!({}), &[]);
    for (posted, is_accepted) in [
        (json!({"serviceTier": "flex"}), true),
        (json!({"service_tier": "priority"}), false),
        (json!({"serviceTier": ["priority"]}), false),
        (json!({"serviceTier": null}), false),
        (json!({"verbosity": {"a": 1}}), false),
        (json!({"reasoningEffort": ["high"]}), false),
        (json!({"promptCacheKey": "k".repeat(PASSED_BYTES)}), true),
        (json!({"promptCacheKey": "k".repeat(PASSED_BYTES + 1)}), false),
    ] {
        assert_eq!(check_options(&map(posts(&posted)), &strict).is_ok(), is_accepted, "{posted}");
        assert_eq!(options_sent(&posted, &strict) != json!({}), is_accepted, "{posted}");
    }
}

#[test]
fn options_of_other_providers_reach_nobody() {
    let posted = json!({"providerOptions": {"anthropic": {"thinking": {"budgetTokens": 9}}}});
    let of_operator = choice(json!({"providerOptions": {"mine": {"a": 1}}}), json!({}), &[]);
    assert_eq!(check_options(&map(posted.clone()), &of_operator), Ok(()));
    let sent = Value::from(call_settings(&map(posted), &of_operator, None));
    assert_eq!(sent, json!({"providerOptions": {"mine": {"a": 1}}}));
}

#[test]
fn the_operators_options_are_never_replaced() {
    let own = json!({"user": "tag", "store": false, "serviceTier": "flex", "reasoning": {"exclude": true, "max": {"a": 1}}});
    let choice = choice(posts(&own), json!({}), &["user", "store", "reasoning"]);
    let posted = json!({"user": "me", "store": true, "service_tier": "auto", "verbosity": "low",
        "reasoning": {"exclude": false, "max": {"a": 2, "b": 3}, "other": 4}});
    let sent = json!({"user": "tag", "store": false, "service_tier": "flex", "verbosity": "low",
        "reasoning": {"exclude": true, "max": {"a": 1, "b": 3}, "other": 4}});
    assert_eq!(options_sent(&posted, &choice), sent);
    assert_eq!(
        options_sent(&json!({"reasoning": 5}), &choice)["reasoning"],
        json!({"exclude": true, "max": {"a": 1}})
    );
}

/// Returns options that ask for tokens or for an effort, in the spellings of many APIs: each with much and with little of it.
fn spellings() -> Vec<(Value, Value)> {
    let [many, few] = [json!(100_000), json!(50)];
    let of_tokens = |tokens: &Value| {
        vec![
            json!({"reasoning": {"max_tokens": tokens}}),
            json!({"reasoning": {"maxTokens": tokens}}),
            json!({"reasoning": {"nested": [{"max_completion_tokens": tokens}]}}),
            json!({"thinking": {"budget_tokens": tokens}}),
            json!({"thinking": {"budgetTokens": tokens}}),
            json!({"thinkingBudget": tokens}),
            json!({"thinking_budget": tokens}),
            json!({"extraBody": {"google": {"thinking_config": {"thinking_budget": tokens}}}}),
            json!({"options": {"num_predict": tokens}}),
            json!({"max_new_tokens": tokens}),
            json!({"minTokens": tokens}),
            json!({"fallbacks": [{"max_output_tokens": tokens}]}),
        ]
    };
    let of_effort = |effort: &str| {
        vec![
            json!({"reasoningEffort": effort}),
            json!({"reasoning_effort": effort}),
            json!({"reasoning": {"effort": effort}}),
            json!({"thinkingLevel": effort}),
            json!({"output_config": {"effort": effort}}),
            json!({"extraBody": {"REASONING-EFFORT": effort}}),
        ]
    };
    let pairs = of_tokens(&many).into_iter().zip(of_tokens(&few));
    pairs.chain(of_effort("high").into_iter().zip(of_effort("low"))).collect()
}

const PASS: [&str; 11] = [
    "reasoning",
    "thinking",
    "thinkingBudget",
    "extraBody",
    "options",
    "maxNewTokens",
    "minTokens",
    "fallbacks",
    "thinkingLevel",
    "outputConfig",
    "reasoningEffort",
];

/// Returns the options as they are sent. Only names of the first level become those of the API.
fn by_api_name(options: &Value) -> Value {
    map(options.clone())
        .into_iter()
        .map(|(name, value)| (api_field(&name), value))
        .collect::<Map<_, _>>()
        .into()
}

#[test]
fn no_spelling_gets_around_a_limit() {
    let limited = choice(json!({}), json!({"maxOutputTokens": 50, "reasoningEffort": "low"}), &PASS);
    for (over, within) in spellings() {
        assert_eq!(options_sent(&over, &limited), by_api_name(&within), "{over}");
        assert_eq!(options_sent(&within, &limited), by_api_name(&within), "{within}");
    }
    for unlimited in [json!(-1), json!(null), json!("100000"), json!(1e300), json!(true)] {
        let sent = options_sent(&json!({"thinking": {"budget_tokens": unlimited}}), &limited);
        assert_eq!(sent, json!({"thinking": {"budget_tokens": 50}}), "{unlimited}");
    }
    let unlimited = choice(json!({}), json!({}), &PASS);
    for (over, _) in spellings() {
        assert_eq!(options_sent(&over, &unlimited), by_api_name(&over), "{over}");
    }
}

#[test]
fn tokens_for_reasoning_are_left_out_if_only_the_effort_is_limited() {
    let limited = choice(json!({}), json!({"reasoningEffort": "low"}), &PASS);
    for (posted, sent) in [
        (json!({"reasoning": {"max_tokens": 9, "effort": "high"}}), json!({"reasoning": {"effort": "low"}})),
        (
            json!({"thinking": {"type": "enabled", "budget_tokens": 9}}),
            json!({"thinking": {"type": "enabled"}}),
        ),
        (json!({"thinkingBudget": 9}), json!({})),
        (json!({"options": {"num_predict": 9}}), json!({"options": {"num_predict": 9}})),
    ] {
        assert_eq!(options_sent(&posted, &limited), sent);
    }
}

#[test]
fn limits_hold_for_the_operators_options_and_for_all_models() {
    let own = choice(posts(&json!({"thinking": {"budget_tokens": 900}})), json!({}), &[]);
    let settings = Value::from(call_settings(&Map::new(), &own, NonZeroU32::new(70)));
    assert_eq!(settings["providerOptions"]["openai"], json!({"thinking": {"budget_tokens": 70}}));
    assert_eq!(settings["maxOutputTokens"], 70);
}

proptest! {
    /// Of any options of a post, those that were not refused are sent, and nothing else.
    #[test]
    fn a_post_is_refused_or_sent_as_it_is(
        names in prop::collection::vec(prop_oneof!["[a-zA-Z_]{0,12}", prop::sample::select(PASSED.to_vec()).prop_map(str::to_owned)], 0..4),
        value in prop_oneof![Just(json!("auto")), Just(json!(true)), Just(json!({"a": 1})), Just(json!(null))],
    ) {
        let strict = choice(json!({}), json!({}), &[]);
        let posted: Value = names.iter().map(|name| (name.clone(), value.clone())).collect::<Map<_, _>>().into();
        let sent = options_sent(&posted, &strict);
        let passed: Vec<String> = PASSED.iter().map(|name| api_field(name)).collect();
        prop_assert!(map(sent.clone()).keys().all(|field| passed.contains(field)));
        if check_options(&map(posts(&posted)), &strict).is_ok() {
            prop_assert_eq!(sent, by_api_name(&posted));
        }
    }
}
