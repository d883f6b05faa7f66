//! Each part of a request as it is on the wire.

use fermata_engine::model::ModelTool;
use reqwest::Url;

use super::*;
use crate::openai::dialect::DialectSettings;

fn dialect(base: &str) -> Dialect {
    Dialect::of(&Url::parse(base).unwrap(), "m", &DialectSettings::default())
}

/// An unknown host.
fn common() -> Dialect {
    dialect("http://localhost:1/v1")
}

/// The body as it is read again.
fn body(model: &str, dialect: &Dialect, field: ReasoningField, request: ModelRequest) -> Value {
    let body = super::body(model, dialect, field, &request).unwrap();
    serde_json::from_str(body.get()).unwrap()
}

fn request(messages: Vec<ModelMessage>) -> ModelRequest {
    ModelRequest { messages, ..ModelRequest::default() }
}

fn user(text: &str) -> ModelMessage {
    ModelMessage::User(vec![ModelContent::Text(text.into())])
}

fn with_settings(settings: Value, dialect: &Dialect) -> Value {
    let settings = settings.as_object().unwrap().clone();
    let request = ModelRequest { settings, ..request(vec![user("hi")]) };
    let mut body = body("m", dialect, dialect.reasoning_field, request);
    for fixed in ["model", "messages", "stream", "stream_options"] {
        body.as_object_mut().unwrap().remove(fixed);
    }
    body
}

#[test]
fn a_tool_choice_is_sent_only_with_tools() {
    let tool = ModelTool {
        name: "f".into(),
        description: "Does f.".into(),
        input_schema: json!({"type": "object"}).into(),
    };
    let choice = |choice: ToolChoice, tools: Vec<ModelTool>| {
        let request = ModelRequest { tools, tool_choice: Some(choice), ..request(vec![user("hi")]) };
        body("m", &common(), ReasoningField::Nowhere, request)
    };
    let with = |given| choice(given, vec![tool.clone()])["tool_choice"].clone();
    assert_eq!(with(ToolChoice::Auto), "auto");
    assert_eq!(with(ToolChoice::None), "none");
    assert_eq!(with(ToolChoice::Required), "required");
    let named = json!({"type": "function", "function": {"name": "f"}});
    assert_eq!(with(ToolChoice::Tool("f".into())), named);
    let without = choice(ToolChoice::Required, vec![]);
    assert!(without.get("tools").is_none() && without.get("tool_choice").is_none());
}

#[test]
fn settings_get_their_names_on_the_wire() {
    let settings = json!({
        "temperature": 0.2, "topP": 0.9, "topK": 4, "maxOutputTokens": 50, "presencePenalty": 0.1,
        "frequencyPenalty": -0.1, "stopSequences": ["\n"], "seed": 7, "headers": {"x": "y"},
    });
    let expected = json!({
        "temperature": 0.2, "top_p": 0.9, "max_tokens": 50, "presence_penalty": 0.1,
        "frequency_penalty": -0.1, "stop": ["\n"], "seed": 7,
    });
    assert_eq!(with_settings(settings, &common()), expected);
}

#[test]
fn the_output_limit_has_openais_newer_name_for_openai_only() {
    let limited = |base| with_settings(json!({"maxTokens": 5}), &dialect(base));
    assert_eq!(limited("https://api.openai.com/v1"), json!({"max_completion_tokens": 5}));
    assert_eq!(limited("http://localhost:1/v1"), json!({"max_tokens": 5}));
}

#[test]
fn options_for_the_provider_go_into_the_request_and_replace_nothing_that_is_reserved() {
    let options = json!({
        "model": "other", "messages": [], "Tools": [], "toolChoice": "none", "stream": false, "n": 5,
        "maxTokens": 1_000_000, "max_completion_tokens": 1_000_000, "nPredict": 1_000_000, "stream_options": {},
        "serviceTier": "flex", "reasoning_effort": "high", "textVerbosity": "low", "parallelToolCalls": false,
    });
    let settings =
        json!({"reasoningEffort": "low", "providerOptions": {"openai": options, "other": {"a": 1}}});
    let expected = json!({"service_tier": "flex", "reasoning_effort": "high", "verbosity": "low"});
    assert_eq!(with_settings(settings, &common()), expected);
}

#[test]
fn calls_one_at_a_time_are_asked_for_only_if_there_are_tools() {
    let settings = json!({"parallelToolCalls": false}).as_object().unwrap().clone();
    assert_eq!(with_settings(settings.clone().into(), &common()), json!({}));
    let tool = ModelTool {
        name: "a".into(),
        description: String::new(),
        input_schema: json!({"type": "object"}).into(),
    };
    let request = ModelRequest { settings, tools: vec![tool], ..request(vec![user("hi")]) };
    assert_eq!(body("m", &common(), ReasoningField::Nowhere, request)["parallel_tool_calls"], json!(false));
}

#[test]
fn settings_of_a_wrong_type_are_left_out() {
    let settings = json!({
        "temperature": "hot", "topP": null, "maxOutputTokens": 0, "maxTokens": 1.5, "stopSequences": [],
        "seed": 1.5, "presencePenalty": [],
    });
    assert_eq!(with_settings(settings, &common()), json!({}));
}

#[test]
fn fields_are_left_out_or_renamed_as_the_settings_say() {
    let settings = json!({"maxTokens": 5, "seed": 7, "temperature": 1, "providerOptions": {"openai": {"topLogprobs": 2}}});
    let settings = settings.as_object().unwrap().clone();
    let request = ModelRequest { settings, ..request(vec![user("hi")]) };
    let dialect = Dialect {
        omit: ["stream_options", "temperature"].map(str::to_owned).into(),
        rename: [
            ("max_tokens", "max_completion_tokens"),
            ("seed", "random_seed"),
            ("top_logprobs", "logprobs"),
        ]
        .map(|(from, to)| (from.to_owned(), to.to_owned()))
        .into(),
        ..common()
    };
    let body = body("m", &dialect, ReasoningField::Nowhere, request);
    let expected = json!({
        "model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": true,
        "max_completion_tokens": 5, "random_seed": 7, "logprobs": 2,
    });
    assert_eq!(body, expected);
}

#[test]
fn a_tool_choice_or_all_tools_may_be_left_out() {
    let tool = ModelTool {
        name: "f".into(),
        description: String::new(),
        input_schema: json!({"type": "object", "properties": {}}).into(),
    };
    let request = || ModelRequest {
        tools: vec![tool.clone()],
        tool_choice: Some(ToolChoice::Required),
        ..request(vec![user("hi")])
    };
    let without = |field: &str| {
        let dialect = Dialect { omit: [field.to_owned()].into(), ..common() };
        let body = body("m", &dialect, ReasoningField::Nowhere, request());
        (body.get("tools").is_some(), body.get("tool_choice").is_some())
    };
    assert_eq!(without("tool_choice"), (true, false));
    assert_eq!(without("tools"), (false, false));
    assert_eq!(without("seed"), (true, true));
}
