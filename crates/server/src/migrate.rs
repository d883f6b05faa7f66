//! `fermata migrate`: brings the database up to date, for deployments whose servers do not. Nothing else is started.

use fermata_store::OpenError;

use crate::config::Config;

/// Brings the database of these settings up to date and says what was done. Needs a tokio runtime.
///
/// # Errors
/// In words for the operator.
pub async fn report(config: &Config) -> Result<String, OpenError> {
    Ok(format!("{}\n", fermata_store::migrate(config.database_url.as_str()).await?))
}
