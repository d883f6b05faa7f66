//! `fermata migrate`: migrates the database, for deployments whose servers do not migrate it. It starts nothing else.

use fermata_store::OpenError;

use crate::config::DatabaseSettings;

/// Migrates the database of these settings and returns a report. Must be called within a tokio runtime.
///
/// # Errors
/// Returns an error if the database cannot be opened or migrated.
pub async fn report(settings: &DatabaseSettings) -> Result<String, OpenError> {
    Ok(format!("{}\n", fermata_store::migrate(settings.database_url.as_str()).await?))
}
