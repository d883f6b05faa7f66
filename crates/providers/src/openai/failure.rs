//! Failures of the provider or on the way to it, and the pause after which the request may be sent again.
//!
//! A failure holds the provider's text unchanged; [`Failure::into_error`] is the only way to read the text, and it removes the secrets from
//! it and cuts it.

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use async_openai::error::OpenAIError;
use fermata_engine::model::ModelError;
use regex::Regex;
use reqwest::{
    StatusCode,
    header::{HeaderMap, LOCATION},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::surrogate_halves::without_halves;

/// The longest pause that a provider may ask for. The request is not sent again after a longer one, because nobody would wait for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The limit on the characters of a provider's text in an error.
const TEXT_LIMIT: usize = 500;

/// The beginning of most keys.
const KEY_PREFIX: &str = "sk-";

/// The words in which providers say that they have no model of the requested name.
static UNKNOWN_MODEL: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?is)model.{0,120}?(not found|not exist)|(invalid|unknown|no such|not a valid) model|model_not_found|DeploymentNotFound";
    Regex::new(pattern).expect("a pattern that is tested")
});

/// The words in which providers say that a request is longer than the model can take.
static TOO_LONG: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?isx)
        context_length_exceeded | exceed_context_size
        | maximum\ (context|prompt)\ length
        | exceeds?\ (the\ )?(available\ )?context\ (size|length|window)
        | input\ length\ exceeds | input\ is\ too\ long | prompt\ is\ too\ long
        | input\ token\ count .{0,40} exceeds\ the\ maximum
        | range\ of\ input\ length\ should\ be
        | `inputs`\ tokens\ \+\ `max_new_tokens`
        | reduce\ the\ length\ of\ (the|either)\ ";
    Regex::new(pattern).expect("a pattern that is tested")
});

/// A failed attempt.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    cause: Cause,
    text: String,
    retry: Retry,
}

/// The variant of [`ModelError`] that the failure becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Auth,
    RateLimit,
    UnknownModel,
    TooLong,
    Refused,
    Provider,
    Unreachable,
    Network,
    Format,
}

/// The provider's statement about sending the request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    Never,
    Soon,
    After(Duration),
}

// === impl Failure ===

impl Failure {
    fn new(cause: Cause, retry: Retry, text: impl Into<String>) -> Self {
        Self { cause, text: without_halves(text.into()), retry }
    }

    /// Creates the failure of a connection that could not be made, or that broke.
    pub(super) fn network(text: impl Into<String>) -> Self {
        Self::new(Cause::Network, Retry::Soon, text)
    }

    /// Creates the failure of a response that is not an answer.
    pub(super) fn format(text: impl Into<String>) -> Self {
        Self::new(Cause::Format, Retry::Never, text)
    }

    /// Creates the failure of a provider that ended its answer by saying that it failed.
    pub(super) fn provider(text: impl Into<String>) -> Self {
        Self::new(Cause::Provider, Retry::Soon, text)
    }

    /// Describes a transport error without its URL, which may contain secrets of its own.
    pub(super) fn reqwest(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let cause = if error.is_connect() { Cause::Unreachable } else { Cause::Network };
        // The outer errors say only that something failed, and the innermost says what.
        let innermost =
            std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source()).last();
        let innermost = innermost.map(ToString::to_string).unwrap_or_default();
        Self::new(cause, Retry::Soon, format!("{error}: {innermost}"))
    }

    /// Creates the failure of a response whose status is not a success.
    pub(super) fn from_status(status: StatusCode, headers: &HeaderMap, body: &str) -> Self {
        let text = if status.is_redirection() {
            let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
            let location = location.unwrap_or("nowhere");
            format!("the API redirects to {location}; the base URL may be wrong")
        } else if status == StatusCode::NOT_FOUND && serde_json::from_str::<Value>(body).is_err() {
            // An API says in JSON that it lacks a model, and a server that is no such API, or has it at another path, shows a page.
            format!("{}; the base URL may be wrong, which often ends in /v1", body_text(body))
        } else {
            body_text(body)
        };
        let (cause, retry) = classify_status(status.as_u16(), body);
        let retry = match (retry, wanted_pause(headers)) {
            (Retry::Soon, Some(pause)) => Retry::After(pause),
            (retry, _) => retry,
        };
        Self::new(cause, retry, format!("{status}: {text}"))
    }

    /// Creates the failure that an error object inside the stream reports.
    pub(super) fn from_object(error: &Value) -> Self {
        let text = error.to_string();
        let code = ["code", "status", "status_code"].iter().find_map(|field| status_in(error.get(field)?));
        let (cause, retry) = match code {
            Some(code) => classify_status(code, &text),
            None => classify_text(&text),
        };
        Self::new(cause, retry, message_of(error).unwrap_or(text))
    }

    /// Returns the pause before the next attempt, or `None` if there is no next attempt. `proposed` is `None` once the attempts are used up.
    pub(super) fn pause(&self, proposed: Option<Duration>) -> Option<Duration> {
        match self.retry {
            Retry::Never => None,
            Retry::Soon => proposed,
            Retry::After(wanted) if wanted > LONGEST_PAUSE => None,
            Retry::After(wanted) => proposed.map(|pause| pause.max(wanted)),
        }
    }

    /// Returns the error for the engine, with the API's URL and without the secrets.
    pub(super) fn into_error(self, url: &str, secrets: &[SecretString]) -> ModelError {
        let text = without_secrets(&format!("{url}: {}", self.text), secrets);
        let text = match text.char_indices().nth(TEXT_LIMIT) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        };
        match self.cause {
            Cause::Auth => ModelError::Auth(text),
            Cause::RateLimit => ModelError::RateLimit(text),
            Cause::UnknownModel => ModelError::UnknownModel(text),
            Cause::TooLong => ModelError::TooLong(text),
            Cause::Refused => ModelError::Refused(text),
            Cause::Provider => ModelError::Provider(text),
            Cause::Unreachable => ModelError::Unreachable(text),
            Cause::Network => ModelError::Network(text),
            Cause::Format => ModelError::Format(text),
        }
    }
}

impl From<OpenAIError> for Failure {
    fn from(error: OpenAIError) -> Self {
        match error {
            OpenAIError::Reqwest(error) => Self::reqwest(error),
            // `async-openai` reads no response, so only a request that it cannot build is left.
            error => Self::new(Cause::Refused, Retry::Never, error.to_string()),
        }
    }
}

/// Classifies a failure by its status. The body decides if one status has two meanings.
fn classify_status(status: u16, body: &str) -> (Cause, Retry) {
    match status {
        // The account has no credit left: waiting does not help, and only the operator can act.
        402 => (Cause::Auth, Retry::Never),
        429 if body.contains("insufficient_quota") => (Cause::Auth, Retry::Never),
        401 | 403 => (Cause::Auth, Retry::Never),
        429 => (Cause::RateLimit, Retry::Soon),
        // Most proxies answer 413, too. An older llama.cpp answers 500.
        413 => (Cause::TooLong, Retry::Never),
        400 | 422 | 500 if TOO_LONG.is_match(body) => (Cause::TooLong, Retry::Never),
        400 | 404 | 422 if UNKNOWN_MODEL.is_match(body) => (Cause::UnknownModel, Retry::Never),
        300..=499 => (Cause::Refused, Retry::Never),
        500..=599 => (Cause::Provider, Retry::Soon),
        _ => (Cause::Provider, Retry::Never),
    }
}

/// Classifies an error object that has no status.
fn classify_text(text: &str) -> (Cause, Retry) {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["insufficient_quota", "authentication", "invalid_api_key"]) {
        (Cause::Auth, Retry::Never)
    } else if has(&["rate_limit"]) {
        (Cause::RateLimit, Retry::Soon)
    } else if TOO_LONG.is_match(text) {
        (Cause::TooLong, Retry::Never)
    } else if has(&["invalid_request", "content_policy"]) {
        (Cause::Refused, Retry::Never)
    } else {
        (Cause::Provider, Retry::Soon)
    }
}

fn status_in(value: &Value) -> Option<u16> {
    let status = match value {
        Value::Number(number) => u16::try_from(number.as_u64()?).ok()?,
        Value::String(text) => text.parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    if (400..600).contains(&status) { Some(status) } else { None }
}

/// Returns the message in an error body, or the body itself if it has none.
fn body_text(body: &str) -> String {
    serde_json::from_str::<Value>(body)
        .ok()
        .and_then(|value| message_of(value.get(0).unwrap_or(&value)))
        .unwrap_or_else(|| body.trim().to_owned())
}

/// Returns the message of an error object, which is in `error.message`, `error`, `message` or `detail`, depending on the provider.
fn message_of(value: &Value) -> Option<String> {
    if let Value::String(text) = value {
        return Some(text.clone());
    }
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        return message_of(error);
    }
    let message = value.get("message").or_else(|| value.get("detail"))?;
    Some(message.as_str().map_or_else(|| message.to_string(), str::to_owned))
}

/// Returns the pause that the provider asks for.
fn wanted_pause(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number =
        |name: &str| text(name)?.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    if let Some(milliseconds) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    }
    let date = httpdate::parse_http_date(text("retry-after")?).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// Removes the secrets, and everything else that looks like a key: providers quote keys that they refuse, and a proxy in between may
/// have used one of its own.
fn without_secrets(text: &str, secrets: &[SecretString]) -> String {
    let text =
        secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.expose_secret(), "[key]"));
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(start) = rest.find(KEY_PREFIX) {
        let (before, found) = rest.split_at(start);
        let end =
            found.find(|c: char| !(c.is_ascii_alphanumeric() || "-_*.".contains(c))).unwrap_or(found.len());
        let is_word = before.ends_with(|c: char| c.is_alphanumeric());
        clean.push_str(before);
        clean.push_str(if is_word { &found[..end] } else { "[key]" });
        rest = &found[end..];
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
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
        for status in [301, 307, 400, 401, 402, 403, 404, 408, 413, 422] {
            assert_eq!(
                answered(status, Some(("retry-after", "1")), "").pause(Some(PROPOSED)),
                None,
                "{status}"
            );
        }
        for status in [429, 500, 502, 503, 504, 529] {
            assert_eq!(answered(status, None, "").pause(Some(PROPOSED)), Some(PROPOSED), "{status}");
        }
    }

    #[test]
    fn a_used_up_quota_is_for_the_operator_and_not_tried_again() {
        let failure =
            answered(429, None, r#"{"error":{"message":"You exceeded…","code":"insufficient_quota"}}"#);
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
            (
                404,
                r#"{"error":{"message":"model \"m\" not found, try pulling it first","type":"api_error"}}"#,
            ),
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
            error
                .to_string()
                .ends_with("404 page not found; the base URL may be wrong, which often ends in /v1"),
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
}
