//! `[errors]`: what follows a failure, by its type.

use std::fmt;

use fermata_tools::{ErrorPolicy, ErrorType};

use super::{
    entry::{Entry, Fault},
    word::Word,
};

/// The types that can be set. What somebody said no to or gave up is no failure: nothing is to be mended.
const SETTABLE: [ErrorType; 7] = [
    ErrorType::RateLimit,
    ErrorType::Auth,
    ErrorType::Network,
    ErrorType::Timeout,
    ErrorType::EmptyResult,
    ErrorType::InvalidFormat,
    ErrorType::Internal,
];

/// The table as it is in force, defaults and all.
pub(super) struct InForce<'a>(pub(super) &'a ErrorPolicy);

/// Reads the table; what it leaves out keeps its default.
pub(super) fn read(table: &Entry<'_>) -> Result<ErrorPolicy, Fault> {
    let mut error_policy = ErrorPolicy::default();
    for entry in table.entries_among(&SETTABLE.map(ErrorType::as_str))? {
        if let Some(error_type) = SETTABLE.into_iter().find(|known| known.as_str() == entry.name) {
            error_policy = error_policy.with(error_type, entry.read()?);
        }
    }
    Ok(error_policy)
}

impl fmt::Display for InForce<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[errors]")?;
        SETTABLE.iter().try_for_each(|known| writeln!(f, "{known} = \"{}\"", self.0.of(*known).word()))
    }
}
