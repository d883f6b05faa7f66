//! `[errors]`: the consequence of a failure, by its type, and `[[errors.match]]`: the failures whose words name a type.

use fermata_tools::{ErrorMatch, ErrorPolicy, ErrorStrategy, ErrorType, Pattern};
use schemars::JsonSchema;
use serde::Deserialize;

use super::values::NonEmpty;

/// The strategies for the types that can be set. A denial and a cancellation are decisions of people, so nothing follows them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Errors")]
pub(super) struct ErrorsTable {
    /// The other side refused because of too many requests. Default: retry.
    rate_limit: Option<ErrorStrategy>,
    /// The credentials are missing, wrong or insufficient. Default: ask_person.
    auth: Option<ErrorStrategy>,
    /// There was no connection, or it broke. Default: retry.
    network: Option<ErrorStrategy>,
    /// The time limit was exceeded. Default: retry.
    timeout: Option<ErrorStrategy>,
    /// The operation succeeded without any result. Default: go_on.
    empty_result: Option<ErrorStrategy>,
    /// The input or the output does not have the required form. Default: go_on.
    invalid_format: Option<ErrorStrategy>,
    /// Anything else. Default: go_on.
    internal: Option<ErrorStrategy>,
    /// The failures whose words name another type than their tool does. The first entry that matches counts.
    #[serde(default, rename = "match")]
    matches: Vec<MatchTable>,
}

/// Failures whose words name a type.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ErrorMatch")]
pub(super) struct MatchTable {
    /// The text of the failure.
    text: MatchedText,
    /// The tools, as a glob. Default: all.
    tool: Option<NonEmpty>,
    /// The type of such a failure.
    #[serde(rename = "type")]
    error_type: SettableType,
}

/// A text that matches a regular expression, regardless of case.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MatchedText {
    /// The regular expression.
    regex: NonEmpty,
}

/// The types of failures that settings name.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SettableType {
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
    /// Anything else.
    Internal,
}

impl ErrorsTable {
    /// Returns the strategies that the table sets.
    pub(super) fn strategies(&self) -> Vec<(ErrorType, ErrorStrategy)> {
        let strategies = [
            (ErrorType::RateLimit, self.rate_limit),
            (ErrorType::Auth, self.auth),
            (ErrorType::Network, self.network),
            (ErrorType::Timeout, self.timeout),
            (ErrorType::EmptyResult, self.empty_result),
            (ErrorType::InvalidFormat, self.invalid_format),
            (ErrorType::Internal, self.internal),
        ];
        strategies.into_iter().filter_map(|(error_type, strategy)| Some((error_type, strategy?))).collect()
    }

    pub(super) fn has_matches(&self) -> bool {
        !self.matches.is_empty()
    }

    /// Returns the policy.
    ///
    /// # Errors
    /// Returns the reason if a regular expression cannot be used.
    pub(super) fn policy(self) -> Result<ErrorPolicy, String> {
        let set = self.strategies().into_iter();
        let policy = set
            .fold(ErrorPolicy::default(), |policy, (error_type, strategy)| policy.with(error_type, strategy));
        let mut matches = Vec::new();
        for MatchTable { text: MatchedText { regex: NonEmpty(regex) }, tool, error_type } in self.matches {
            let tool = Pattern::new(tool.as_ref().map_or("*", |NonEmpty(glob)| glob));
            let entry = ErrorMatch::new(tool, &regex, error_type.into());
            matches.push(entry.map_err(|reason| {
                format!("match: the regular expression {regex:?} cannot be used: {reason}")
            })?);
        }
        Ok(policy.with_matches(matches))
    }
}

impl From<SettableType> for ErrorType {
    fn from(name: SettableType) -> Self {
        match name {
            SettableType::RateLimit => Self::RateLimit,
            SettableType::Auth => Self::Auth,
            SettableType::Network => Self::Network,
            SettableType::Timeout => Self::Timeout,
            SettableType::EmptyResult => Self::EmptyResult,
            SettableType::InvalidFormat => Self::InvalidFormat,
            SettableType::Internal => Self::Internal,
        }
    }
}
