//! `[errors]`: the consequence of a failure, by its type.

use fermata_tools::{ErrorPolicy, ErrorStrategy, ErrorType};
use schemars::JsonSchema;
use serde::Deserialize;

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
}

impl From<ErrorsTable> for Vec<(ErrorType, ErrorStrategy)> {
    fn from(table: ErrorsTable) -> Self {
        let strategies = [
            (ErrorType::RateLimit, table.rate_limit),
            (ErrorType::Auth, table.auth),
            (ErrorType::Network, table.network),
            (ErrorType::Timeout, table.timeout),
            (ErrorType::EmptyResult, table.empty_result),
            (ErrorType::InvalidFormat, table.invalid_format),
            (ErrorType::Internal, table.internal),
        ];
        strategies.into_iter().filter_map(|(error_type, strategy)| Some((error_type, strategy?))).collect()
    }
}

impl From<ErrorsTable> for ErrorPolicy {
    fn from(table: ErrorsTable) -> Self {
        let set = Vec::from(table).into_iter();
        set.fold(Self::default(), |policy, (error_type, strategy)| policy.with(error_type, strategy))
    }
}
