//! What can go wrong with a call or a model, by kind, and what follows from each kind.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// The kind of a failure, as the record, the spans (`error.type`) and the settings name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// Too much was asked for.
    RateLimit,
    /// Credentials are missing, wrong or not enough.
    Auth,
    /// No connection, or it broke.
    Network,
    /// It took longer than it may.
    Timeout,
    /// It worked, but nothing came out.
    EmptyResult,
    /// What was given or what came back does not have the form that it must have.
    InvalidFormat,
    /// A person or a rule said no.
    Denied,
    /// It was given up: stopped, superseded, expired.
    Cancelled,
    /// Anything else.
    Internal,
}

/// What follows a failure of some type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorStrategy {
    /// Try again, at most [`MAX_RETRIES`] times, and then as [`ErrorStrategy::GoOn`]. A tool is tried again only where it declares itself
    /// repeatable; a model that still fails ends the run.
    Retry,
    /// Tell the model to go on without the tool.
    GoOn,
    /// Tell the model to ask the person.
    AskPerson,
    /// End the run with an explanation.
    FailRun,
}

/// How often something is tried again after it failed.
pub const MAX_RETRIES: u32 = 2;

/// What follows each type of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPolicy([ErrorStrategy; ErrorType::ALL.len()]);

/// A call that failed. `Display` is the text for the model and the person: no keys, paths or SQL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ToolError {
    /// Its kind.
    pub error_type: ErrorType,
    /// What went wrong, in words for the model and the person.
    pub text: String,
    /// How long the other side asked to be left alone.
    pub retry_after: Option<Duration>,
}

// === impl ErrorType ===

impl ErrorType {
    /// All of them.
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

    /// The name, as it is saved and set.
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

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl ErrorStrategy ===

impl ErrorStrategy {
    /// What the model is told to do about a call that failed so, besides what went wrong. What it can mend itself needs no advice, nor
    /// does what nobody wants it to go on from.
    pub fn hint(self, error_type: ErrorType) -> Option<&'static str> {
        match (error_type, self) {
            (ErrorType::Denied, _) | (_, Self::FailRun) => None,
            (_, Self::AskPerson) => Some("Tell the user, and ask how to go on before you call it again."),
            (ErrorType::InvalidFormat, Self::Retry | Self::GoOn) => None,
            (_, Self::Retry | Self::GoOn) => Some("If you cannot mend the call, go on without it."),
        }
    }
}

// === impl Strategies ===

impl ErrorPolicy {
    /// What follows a failure of this type.
    pub fn of(&self, error_type: ErrorType) -> ErrorStrategy {
        self.0[error_type as usize]
    }

    /// The same, but for one type.
    #[must_use]
    pub fn with(mut self, error_type: ErrorType, strategy: ErrorStrategy) -> Self {
        self.0[error_type as usize] = strategy;
        self
    }
}

impl Default for ErrorPolicy {
    /// What may pass by itself is tried again, what only a person can mend is put to the person, the rest is left to the model.
    fn default() -> Self {
        Self(ErrorType::ALL.map(|error_type| match error_type {
            ErrorType::RateLimit | ErrorType::Network | ErrorType::Timeout => ErrorStrategy::Retry,
            ErrorType::Auth => ErrorStrategy::AskPerson,
            ErrorType::EmptyResult
            | ErrorType::InvalidFormat
            | ErrorType::Denied
            | ErrorType::Cancelled
            | ErrorType::Internal => ErrorStrategy::GoOn,
        }))
    }
}

// === impl ToolError ===

impl ToolError {
    /// A failure of this type.
    pub fn new(error_type: ErrorType, text: impl Into<String>) -> Self {
        Self { error_type, text: text.into(), retry_after: None }
    }

    /// A failure that is of no other type.
    pub fn internal(text: impl Into<String>) -> Self {
        Self::new(ErrorType::Internal, text)
    }

    /// The same, with the time for which the other side asked to be left alone.
    #[must_use]
    pub fn retry_after(self, time: Duration) -> Self {
        Self { retry_after: Some(time), ..self }
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
}
