//! `fermata backup` and `fermata restore`: copies of the database. They start nothing else.

use std::path::Path;

use fermata_store::BackupError;

use crate::config::DatabaseSettings;

/// Copies the database of these settings into a file and returns a report.
///
/// # Errors
/// Returns an error if there is no file to copy, if the target exists, or if the copy fails.
pub fn back_up(settings: &DatabaseSettings, to: &Path) -> Result<String, BackupError> {
    let bytes = fermata_store::back_up(settings.database_url.as_str(), to)?;
    Ok(format!("backed up into {} ({bytes} bytes)\n", to.display()))
}

/// Puts a backup in the place of the database of these settings and returns a report.
///
/// # Errors
/// Returns an error if the file is no backup, if there is a database, or if the copy fails.
pub fn restore(settings: &DatabaseSettings, from: &Path) -> Result<String, BackupError> {
    let bytes = fermata_store::restore(settings.database_url.as_str(), from)?;
    Ok(format!("restored from {} ({bytes} bytes); start the server\n", from.display()))
}
