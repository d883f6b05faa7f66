//! Failures of the provider or on the way to it, and the pause before the request may be sent again.
//!
//! A failure holds the provider's text unchanged; [`Failure::into_error`] is the only way to read the text, and it removes the secrets from
//! it and cuts it.

use std::time::{Duration, SystemTime};

use async_openai::error::OpenAIError;
use fermata_engine::model::ModelError;
use reqwest::{
    StatusCode,
    header::{HeaderMap, LOCATION},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::{surrogate_halves::without_halves, wording};

/// The longest pause that a provider may ask for. The request is not sent again after a longer one, because nobody would wait for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The limit on the characters of a provider's text in an error.
const TEXT_LIMIT: usize = 500;

/// The limit on the characters that are shown of a response that is neither an answer nor an error.
const FOREIGN_LIMIT: usize = 200;

/// The beginning of most keys.
const KEY_PREFIX: &str = "sk-";

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
    NoAnswer,
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

    /// Creates the failure of a response that says something, and is neither an answer nor an error as the API has them.
    pub(super) fn foreign(said: &str) -> Self {
        let said = said.trim();
        if said.is_empty() {
            return Self::network("the answer ended without a word and without a reason");
        }
        let beginning: String = said.chars().take(FOREIGN_LIMIT).collect();
        let text = format!("this is no answer: {beginning}");
        match serde_json::from_str::<Value>(said) {
            Ok(object @ Value::Object(_)) => match Self::from_object(&object) {
                // Nobody knows what it means, and it will mean the same again.
                unknown if unknown.cause == Cause::Provider && !wording::says_busy(said) => {
                    Self::format(text)
                }
                known => Self { text, ..known },
            },
            _ => Self::format(format!("{text} (the base URL may be wrong)")),
        }
    }

    /// Creates the failure of a provider that ended its answer by saying that it failed.
    pub(super) fn provider(text: impl Into<String>) -> Self {
        Self::new(Cause::Provider, Retry::Soon, text)
    }

    /// Describes a transport error without its URL, which may contain secrets of its own.
    pub(super) fn reqwest(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let cause = if error.is_connect() { Cause::Unreachable } else { Cause::Network };
        Self::new(cause, Retry::Soon, format!("{error}: {}", innermost(&error)))
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
        let retry = match (retry, wanted_pause(headers).or_else(|| wording::wanted_pause(body))) {
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
        let retry = match (retry, wording::wanted_pause(&text)) {
            (Retry::Soon, Some(pause)) => Retry::After(pause),
            (retry, _) => retry,
        };
        Self::new(cause, retry, message_of(error).unwrap_or(text))
    }

    /// Returns whether the connection broke or ended.
    pub(super) fn is_broken_connection(&self) -> bool {
        self.cause == Cause::Network
    }

    /// Returns the failure of a provider that has ended its answer before the first word, and will do so again.
    pub(super) fn without_answer(self) -> Self {
        Self { cause: Cause::NoAnswer, retry: Retry::Never, ..self }
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
            Cause::NoAnswer => ModelError::NoAnswer(text),
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

/// Returns the text of the innermost cause: the outer errors of an HTTP client say only that something failed.
pub(super) fn innermost(error: &reqwest::Error) -> String {
    let cause = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source()).last();
    cause.map(ToString::to_string).unwrap_or_default()
}

/// Classifies a failure by its status. The body decides if one status has two meanings.
fn classify_status(status: u16, body: &str) -> (Cause, Retry) {
    match status {
        // The account has no credit left: waiting does not help, and only the operator can act.
        402 => (Cause::Auth, Retry::Never),
        400..=429 if wording::says_no_credit(body) => (Cause::Auth, Retry::Never),
        401 | 403 => (Cause::Auth, Retry::Never),
        429 => (Cause::RateLimit, Retry::Soon),
        // The server was too slow, or did not want to try just then.
        408 | 425 => (Cause::Provider, Retry::Soon),
        // Most proxies also answer 413. An older llama.cpp answers 500.
        413 => (Cause::TooLong, Retry::Never),
        400 | 422 | 500 if wording::says_too_long(body) => (Cause::TooLong, Retry::Never),
        400 | 404 | 422 if wording::names_unknown_model(body) => (Cause::UnknownModel, Retry::Never),
        300..=499 => (Cause::Refused, Retry::Never),
        500..=599 => (Cause::Provider, Retry::Soon),
        _ => (Cause::Provider, Retry::Never),
    }
}

/// Classifies an error object that has no status.
fn classify_text(text: &str) -> (Cause, Retry) {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if wording::says_no_credit(text) || has(&["authentication", "invalid_api_key"]) {
        (Cause::Auth, Retry::Never)
    } else if has(&["rate_limit"]) {
        (Cause::RateLimit, Retry::Soon)
    } else if wording::says_too_long(text) {
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
mod tests;
