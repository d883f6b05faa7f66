//! The failures of real providers: their kinds, their pauses, and texts without secrets.

use serde_json::json;

use super::*;

const URL: &str = "http://api";
const PROPOSED: Duration = Duration::from_millis(500);

fn answered(status: u16, header: Option<(&'static str, &str)>, body: &str) -> Failure {
    let mut headers = HeaderMap::new();
    if let Some((name, value)) = header {
        headers.insert(name, value.parse().unwrap());
    }
    Failure::from_status(StatusCode::from_u16(status).unwrap(), &headers, body)
}

#[test]
fn retry_after_is_waited_for_in_each_of_its_forms() {
    let pause = |name, value: &str| answered(429, Some((name, value)), "").pause(Some(PROPOSED));
    assert_eq!(pause("retry-after", "7"), Some(Duration::from_secs(7)));
    assert_eq!(pause("retry-after", "1.5"), Some(Duration::from_millis(1500)));
    assert_eq!(pause("retry-after-ms", "2500"), Some(Duration::from_millis(2500)));
    assert_eq!(pause("retry-after", "0"), Some(PROPOSED));
    assert_eq!(pause("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), Some(PROPOSED));
    assert_eq!(pause("retry-after", "soon"), Some(PROPOSED));
}

#[test]
fn a_pause_longer_than_a_minute_is_not_waited_for() {
    assert_eq!(answered(429, Some(("retry-after", "61")), "").pause(Some(PROPOSED)), None);
    assert_eq!(answered(503, Some(("retry-after", "1e300")), "").pause(Some(PROPOSED)), None);
}

#[test]
fn no_retry_is_added_to_those_that_are_left() {
    assert_eq!(answered(429, Some(("retry-after", "1")), "").pause(None), None);
    assert_eq!(answered(503, None, "").pause(None), None);
}

#[test]
fn only_rate_limits_and_server_failures_are_tried_again() {
    for status in [301, 307, 400, 401, 402, 403, 404, 413, 422] {
        assert_eq!(answered(status, Some(("retry-after", "1")), "").pause(Some(PROPOSED)), None, "{status}");
    }
    for status in [408, 425, 429, 500, 502, 503, 504, 529] {
        assert_eq!(answered(status, None, "").pause(Some(PROPOSED)), Some(PROPOSED), "{status}");
    }
}

#[test]
fn a_used_up_quota_is_for_the_operator_and_not_tried_again() {
    let failure = answered(429, None, r#"{"error":{"message":"You exceeded…","code":"insufficient_quota"}}"#);
    assert_eq!(failure.pause(Some(PROPOSED)), None);
    assert!(matches!(failure.into_error(URL, &[]), ModelError::Auth(_)));
}

/// The bodies are those of OpenAI, Ollama, vLLM, OpenRouter, Mistral, DeepSeek, Gemini, Azure and Qwen.
#[test]
fn an_unknown_model_is_recognised_in_the_words_of_each_provider() {
    for (status, body) in [
        (
            404,
            r#"{"error":{"message":"The model `m` does not exist or you do not have access to it.","code":"model_not_found"}}"#,
        ),
        (404, r#"{"error":{"message":"model \"m\" not found, try pulling it first","type":"api_error"}}"#),
        (
            404,
            r#"{"object":"error","message":"The model `m` does not exist.","type":"NotFoundError","code":404}"#,
        ),
        (400, r#"{"error":{"message":"m is not a valid model ID","code":400}}"#),
        (400, r#"{"object":"error","message":"Invalid model: m","type":"invalid_model","code":"1500"}"#),
        (400, r#"{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}"#),
        (
            404,
            r#"[{"error":{"code":404,"message":"models/m is not found for API version v1main","status":"NOT_FOUND"}}]"#,
        ),
        (
            404,
            r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
        ),
        (
            404,
            r#"{"error":{"message":"The model `m` does not exist or you do not have access to it.","type":"invalid_request_error"}}"#,
        ),
    ] {
        let error = answered(status, None, body).into_error(URL, &[]);
        assert!(matches!(error, ModelError::UnknownModel(_)), "{body}: {error}");
    }
    for (status, body) in [
        (404, "<html>404 page not found</html>"),
        (400, r#"{"error":{"message":"The maximum length of a stop sequence is 100","code":null}}"#),
        (400, r#"{"error":{"message":"Invalid value for temperature","code":null}}"#),
    ] {
        let error = answered(status, None, body).into_error(URL, &[]);
        assert!(matches!(error, ModelError::Refused(_)), "{body}: {error}");
    }
}

/// The bodies are those of OpenAI (two), vLLM (two), llama.cpp (two), Ollama, OpenRouter, Gemini, Mistral, DashScope, Anthropic, xAI,
/// Cerebras and a proxy.
#[test]
fn a_request_that_is_too_long_is_recognised_in_the_words_of_each_provider() {
    for (status, body) in [
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9120 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 4096 tokens. However, your request has 5301 input tokens. Please reduce the length of the input messages. None","type":"BadRequestError","param":null,"code":400}}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5301 tokens (4789 in the messages, 512 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}"#,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"request (9120 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9120,"n_ctx":4096}}"#,
        ),
        (
            500,
            r#"{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"invalid_request_error"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"the input length exceeds the context length","type":"invalid_request_error","param":null,"code":null}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 150417 tokens (150417 of text input). Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.","code":400,"metadata":{"provider_name":null}}}"#,
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
        ),
        (
            400,
            r#"{"object":"error","message":"Prompt contains 40112 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_invalid_args","param":null,"code":"3051"}"#,
        ),
        (
            400,
            r#"{"error":{"code":"invalid_parameter_error","message":"Range of input length should be [1, 30720]","type":"invalid_request_error"}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
        ),
        (
            400,
            r#"{"code":"invalid-argument","error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}"#,
        ),
        (
            400,
            r#"{"message":"Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}"#,
        ),
        (413, "<html><h1>413 Request Entity Too Large</h1></html>"),
    ] {
        let failure = answered(status, None, body);
        assert_eq!(failure.pause(Some(PROPOSED)), None, "{body}");
        let error = failure.into_error(URL, &[]);
        assert!(matches!(error, ModelError::TooLong(_)), "{body}: {error}");
    }
    let in_stream =
        json!({"code": 400, "message": "This endpoint's maximum context length is 131072 tokens."});
    assert!(matches!(Failure::from_object(&in_stream).into_error(URL, &[]), ModelError::TooLong(_)));
    let without_status = json!({"message": "the input length exceeds the context length", "type": "x"});
    assert!(matches!(Failure::from_object(&without_status).into_error(URL, &[]), ModelError::TooLong(_)));
}

#[test]
fn a_page_that_is_not_found_hints_at_the_base_url() {
    let error = answered(404, None, "404 page not found").into_error(URL, &[]);
    assert!(
        error.to_string().ends_with("404 page not found; the base URL may be wrong, which often ends in /v1"),
        "{error}"
    );
}

#[test]
fn the_message_is_found_in_every_shape_of_error_body() {
    for body in [
        r#"{"error":{"message":"no","code":429}}"#,
        r#"[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]"#,
        r#"{"error":"no"}"#,
        r#"{"object":"error","message":"no"}"#,
        r#"{"detail":"no"}"#,
        "no\n",
    ] {
        assert_eq!(body_text(body), "no", "{body}");
    }
}

#[test]
fn an_error_object_is_classified_by_its_code_or_its_text() {
    let error = |value: Value| Failure::from_object(&value).into_error(URL, &[]);
    assert!(
        matches!(error(json!({"code": 429, "message": "slow"})), ModelError::RateLimit(text) if text == "http://api: slow")
    );
    assert!(matches!(error(json!({"code": "502", "message": "x"})), ModelError::Provider(_)));
    assert!(matches!(error(json!({"code": "server_error", "message": "x"})), ModelError::Provider(_)));
    assert!(matches!(error(json!({"type": "invalid_request_error"})), ModelError::Refused(_)));
    assert!(
        matches!(error(json!("overloaded")), ModelError::Provider(text) if text == "http://api: overloaded")
    );
}

#[test]
fn what_looks_like_a_key_is_taken_out_too() {
    let text = "Incorrect API key: sk-abc***DEF, ask-me; sk-";
    assert_eq!(without_secrets(text, &[]), "Incorrect API key: [key], ask-me; [key]");
}

#[test]
fn the_key_is_taken_out_before_the_text_is_cut() {
    let key: SecretString = "sk-secret".into();
    let body = format!("{}sk-secret", "ä".repeat(TEXT_LIMIT - 4 - "http://api: 400 Bad Request: ".len()));
    let error = answered(400, None, &body).into_error(URL, &[key]);
    assert!(!format!("{error} {error:?}").contains("sk-s"));
    let ModelError::Refused(text) = error else { panic!("{error:?}") };
    assert_eq!(text.chars().count(), TEXT_LIMIT + 1);
}
