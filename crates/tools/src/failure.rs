//! The types of failures of calls and models, and the policy with the consequence of each type.

use std::{
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Pattern;

/// The type of a failure. Saved calls, spans (`error.type`) and settings use its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The other side refused because of too many requests.
    RateLimit,
    /// The credentials are missing, wrong or insufficient.
    Auth,
    /// There was no connection, or it broke.
    Network,
    /// The time limit was exceeded.
    Timeout,
    /// The operation succeeded without any result.
    EmptyResult,
    /// The input or the output does not have the required form.
    InvalidFormat,
    /// A person or a rule denied the call.
    Denied,
    /// The call was stopped, was superseded or expired.
    Cancelled,
    /// Any other failure.
    Internal,
}

/// The reaction to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorStrategy {
    /// Retry at most [`MAX_RETRIES`] times, then behave like [`ErrorStrategy::GoOn`]. A call is retried only if its tool is repeatable.
    /// A model that still fails ends the run.
    Retry,
    /// Ask the model to continue without the tool.
    GoOn,
    /// Ask the model to consult the person.
    AskPerson,
    /// End the run with an explanation.
    FailRun,
}

/// The limit on a compiled regular expression, in bytes.
const LARGEST_REGEX: usize = 1 << 20;

/// The number of retries after a failure.
pub const MAX_RETRIES: u32 = 2;

/// The strategy for each type of failure, and the failures whose words name another type than their tool does.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorPolicy {
    strategies: [ErrorStrategy; ErrorType::ALL.len()],
    matches: Arc<[ErrorMatch]>,
}

/// Gives the failures of tools whose text matches a type.
#[derive(Clone, Debug)]
pub struct ErrorMatch {
    /// The tools.
    pub tool: Pattern,
    /// The text of the failure, regardless of case.
    pub text: Regex,
    /// The type of such a failure.
    pub error_type: ErrorType,
}

/// The failure of a call. `Display` shows the text for the model and the person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ToolError {
    /// The type of the failure.
    pub error_type: ErrorType,
    /// A description for the model and the person. It must not contain keys, paths or SQL.
    pub text: String,
    /// The time that the other side asked to wait before a retry.
    pub retry_after: Option<Duration>,
}

/// The words of each type. An earlier one counts, because the text of a refusal often has a status and the path that was asked for.
static WORDS: LazyLock<[(ErrorType, Regex); 5]> = LazyLock::new(|| {
    let words = |pattern: &str| Regex::new(&format!("(?ix){pattern}")).expect("a pattern of the program");
    [
        (
            ErrorType::RateLimit,
            words(
                r"\b429\b | rate[\s_-]*limit | too\s+many\s+requests | quota\s+(is\s+)?(exceeded|exhausted) | throttl(ed|ing)",
            ),
        ),
        (
            ErrorType::Auth,
            words(
                r"\b40[13]\b | unauthori[sz]ed | \bforbidden\b | permission\s+denied | access\s+denied | not\s+authenticated
                | (bad|invalid|missing|expired)\s+(api[\s_-]*key|token|credentials) | authentication\s+(failed|required)",
            ),
        ),
        (
            ErrorType::Timeout,
            words(
                r"time[ds]?[\s-]*out | \b(408|504)\b | deadline\s+exceeded | \bETIMEDOUT\b | took\s+too\s+long",
            ),
        ),
        (
            ErrorType::Network,
            words(
                r"\b(ECONNREFUSED|ECONNRESET|ECONNABORTED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EPIPE)\b
                | connection\s+(was\s+)?(refused|reset|closed|lost) | network\s+(error|is\s+unreachable) | fetch\s+failed
                | getaddrinfo | name\s+resolution | \b50[23]\b | service\s+unavailable | bad\s+gateway",
            ),
        ),
        (
            ErrorType::EmptyResult,
            words(
                r"\b404\b | \bnot\s+found\b | \bno\s+(results?|matches|match|such|entries|records)\b | nothing\s+(was\s+)?found",
            ),
        ),
    ]
});

// === impl ErrorType ===

impl ErrorType {
    /// All types.
    pub const ALL: [Self; 9] = [
        Self::RateLimit,
        Self::Auth,
        Self::Network,
        Self::Timeout,
        Self::EmptyResult,
        Self::InvalidFormat,
        Self::Denied,
        Self::Cancelled,
        Self::Internal,
    ];

    /// Returns the name that saved calls and settings use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::Auth => "auth",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::EmptyResult => "empty_result",
            Self::InvalidFormat => "invalid_format",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }
}

impl ErrorType {
    /// Returns the type that the words of a failure name, as programs without types of their own write them.
    pub fn of_words(text: &str) -> Option<Self> {
        let found = WORDS.iter().find(|(_, words)| words.is_match(text));
        found.map(|(error_type, _)| *error_type)
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl ErrorStrategy ===

impl ErrorStrategy {
    /// All strategies.
    pub const ALL: [Self; 4] = [Self::Retry, Self::GoOn, Self::AskPerson, Self::FailRun];

    /// Returns the name that settings use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::GoOn => "go_on",
            Self::AskPerson => "ask_person",
            Self::FailRun => "fail_run",
        }
    }

    /// Returns the hint that follows the description of a failure in the model's prompt, and says what to do next.
    ///
    /// There is no hint if the model can correct its input by itself, if the call was denied or cancelled, or if the run ends.
    pub fn hint(self, error_type: ErrorType) -> Option<&'static str> {
        match (error_type, self) {
            (ErrorType::Denied | ErrorType::Cancelled, _) | (_, Self::FailRun) => None,
            (ErrorType::RateLimit, Self::AskPerson) => Some(
                "Tell the user that the service takes no more requests for now, and ask whether to try again later or to go on without it.",
            ),
            (ErrorType::RateLimit, Self::Retry | Self::GoOn) => Some(
                "The service takes no more requests for now. Do not call it again at once: go on without it, and tell the user to try later.",
            ),
            (ErrorType::Auth, Self::AskPerson) => Some(
                "Tell the user which permission or setting is missing, and ask how to go on before you call it again.",
            ),
            (ErrorType::Auth, Self::Retry | Self::GoOn) => Some(
                "Do not call it again. Tell the user which permission or setting is missing, and go on without it.",
            ),
            (ErrorType::EmptyResult, Self::AskPerson) => Some(
                "Tell the user that nothing was found, propose other words, and ask before you call it again.",
            ),
            (ErrorType::EmptyResult, Self::Retry | Self::GoOn) => {
                Some("Say that nothing was found, and propose other words. Do not make up a result.")
            }
            (ErrorType::Timeout, Self::Retry | Self::GoOn) => {
                Some("It took too long. Ask it for less, or go on without it, and say what is missing.")
            }
            (ErrorType::Network, Self::Retry | Self::GoOn) => {
                Some("The service cannot be reached. Go on without it, and say what is missing.")
            }
            (ErrorType::InvalidFormat, Self::Retry | Self::GoOn) => None,
            (ErrorType::Internal, Self::Retry | Self::GoOn) => {
                Some("If you cannot fix the call, go on without it.")
            }
            (
                ErrorType::Network | ErrorType::Timeout | ErrorType::InvalidFormat | ErrorType::Internal,
                Self::AskPerson,
            ) => Some("Tell the user, and ask how to go on before you call it again."),
        }
    }
}

// === impl ErrorMatch ===

impl ErrorMatch {
    /// Reads the regular expression.
    ///
    /// # Errors
    /// Returns a message if the expression is invalid or too large.
    pub fn new(tool: Pattern, text: &str, error_type: ErrorType) -> Result<Self, String> {
        let text = RegexBuilder::new(text).case_insensitive(true).size_limit(LARGEST_REGEX).build();
        let text = text.map_err(|error| error.to_string().lines().last().unwrap_or_default().to_owned())?;
        Ok(Self { tool, text, error_type })
    }
}

impl PartialEq for ErrorMatch {
    fn eq(&self, other: &Self) -> bool {
        self.tool == other.tool
            && self.text.as_str() == other.text.as_str()
            && self.error_type == other.error_type
    }
}

// === impl ErrorPolicy ===

impl ErrorPolicy {
    /// Returns the strategy for a type of failure.
    pub fn of(&self, error_type: ErrorType) -> ErrorStrategy {
        self.strategies[error_type as usize]
    }

    /// Returns the failures whose words name another type.
    pub fn matches(&self) -> &[ErrorMatch] {
        &self.matches
    }

    /// Adds failures whose words name another type.
    #[must_use]
    pub fn with_matches(self, matches: Vec<ErrorMatch>) -> Self {
        Self { matches: matches.into(), ..self }
    }

    /// Returns a failure of a tool with the type that its words name, if they name one.
    pub fn typed(&self, tool: &str, error: ToolError) -> ToolError {
        let named = self.matches.iter().find(|it| it.tool.matches(tool) && it.text.is_match(&error.text));
        match named {
            Some(ErrorMatch { error_type, .. }) => ToolError { error_type: *error_type, ..error },
            None => error,
        }
    }

    /// Replaces the strategy for one type of failure.
    #[must_use]
    pub fn with(mut self, error_type: ErrorType, strategy: ErrorStrategy) -> Self {
        self.strategies[error_type as usize] = strategy;
        self
    }
}

impl Default for ErrorPolicy {
    /// Retries failures that may be temporary, consults the person about credentials, and leaves the rest to the model.
    fn default() -> Self {
        let strategies = ErrorType::ALL.map(|error_type| match error_type {
            ErrorType::RateLimit | ErrorType::Network | ErrorType::Timeout => ErrorStrategy::Retry,
            ErrorType::Auth => ErrorStrategy::AskPerson,
            ErrorType::EmptyResult
            | ErrorType::InvalidFormat
            | ErrorType::Denied
            | ErrorType::Cancelled
            | ErrorType::Internal => ErrorStrategy::GoOn,
        });
        Self { strategies, matches: Arc::default() }
    }
}

// === impl ToolError ===

impl ToolError {
    /// Creates a failure of this type.
    pub fn new(error_type: ErrorType, text: impl Into<String>) -> Self {
        Self { error_type, text: text.into(), retry_after: None }
    }

    /// Creates a failure of the type [`ErrorType::Internal`].
    pub fn internal(text: impl Into<String>) -> Self {
        Self::new(ErrorType::Internal, text)
    }

    /// Sets the time that the other side asked to wait before a retry.
    #[must_use]
    pub fn retry_after(self, time: Duration) -> Self {
        Self { retry_after: Some(time), ..self }
    }
}

/// Returns whether an output says that nothing was found, because the part at this dotted path is missing, null or empty.
///
/// Of an MCP result it is the structured part. A text, or a result without that part, says nothing about it.
pub fn is_empty_output(output: &Value, path: &str) -> bool {
    let is_mcp_result = output.get("content").is_some_and(Value::is_array);
    let structured = if is_mcp_result { output.get("structuredContent") } else { Some(output) };
    let Some(output) = structured.filter(|output| output.is_object()) else { return false };
    match path.split('.').try_fold(output, |value, key| value.get(key)) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.trim().is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Bool(_) | Value::Number(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_that_are_saved() {
        for error_type in ErrorType::ALL {
            assert_eq!(serde_json::to_value(error_type).unwrap(), error_type.as_str());
        }
    }

    #[test]
    fn one_strategy_is_set_and_the_others_stay() {
        let set = ErrorPolicy::default().with(ErrorType::Internal, ErrorStrategy::FailRun);
        assert_eq!(set.of(ErrorType::Internal), ErrorStrategy::FailRun);
        for error_type in ErrorType::ALL.into_iter().filter(|other| *other != ErrorType::Internal) {
            assert_eq!(set.of(error_type), ErrorPolicy::default().of(error_type));
        }
    }

    #[test]
    fn the_words_of_a_failure_name_its_type() {
        for (text, expected) in [
            ("Error: 429 Too Many Requests", Some(ErrorType::RateLimit)),
            ("GitHub API rate limit exceeded for user", Some(ErrorType::RateLimit)),
            ("You exceeded your quota: quota exceeded", Some(ErrorType::RateLimit)),
            ("HTTP 401", Some(ErrorType::Auth)),
            ("Request failed: 403 Forbidden (https://example.com/404)", Some(ErrorType::Auth)),
            ("Invalid API key provided", Some(ErrorType::Auth)),
            ("The request timed out after 30 s", Some(ErrorType::Timeout)),
            ("Navigation timeout of 30000 ms exceeded", Some(ErrorType::Timeout)),
            ("context deadline exceeded", Some(ErrorType::Timeout)),
            ("connect ECONNREFUSED 127.0.0.1:5432", Some(ErrorType::Network)),
            ("TypeError: fetch failed", Some(ErrorType::Network)),
            ("getaddrinfo ENOTFOUND db.internal", Some(ErrorType::Network)),
            ("503 Service Unavailable", Some(ErrorType::Network)),
            ("Page not found", Some(ErrorType::EmptyResult)),
            ("No results for “tea”", Some(ErrorType::EmptyResult)),
            ("no such file or directory", Some(ErrorType::EmptyResult)),
            ("the disk is full", None),
            ("Order 14290 has no address", None),
            ("invalid date", None),
            ("", None),
        ] {
            assert_eq!(ErrorType::of_words(text), expected, "{text}");
        }
    }
}
