//! Checkpoints of the audit: one a minute for each chain that has grown, one at the end, and a copy of each in the anchor file.
//!
//! Invariant: nothing waits for a checkpoint. If one cannot be written, the next one covers its rows.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fermata_store::{Checkpoint, Checkpointed, Database};
use jiff::{SignedDuration, Timestamp};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

use super::lines::{self, Line};
use crate::config::{AuditAnchor, DatabaseSettings};

/// The interval between two checkpoints.
const INTERVAL: Duration = Duration::from_secs(60);
/// The chains of others are looked at once in so many intervals.
const OTHERS: u32 = 10;
/// A chain without a new row for this long has no process that is about to write a checkpoint.
const QUIET: SignedDuration = SignedDuration::from_mins(5);
/// The time that the last checkpoint may take.
const LAST: Duration = Duration::from_secs(5);

/// The task that writes checkpoints.
#[derive(Default)]
pub struct Checkpoints {
    // Held to put or to take it.
    task: Mutex<Option<JoinHandle<()>>>,
    closed: CancellationToken,
}

/// Writes checkpoints.
pub struct CheckpointWriter {
    database: Database,
    anchor: Option<PathBuf>,
    /// Those that the anchor file does not have yet.
    waiting: Vec<Checkpoint>,
}

// === impl Checkpoints ===

impl Checkpoints {
    /// Writes the first checkpoints, and starts to write the others. Must be called within a tokio runtime.
    pub async fn start(&self, database: Database, settings: &DatabaseSettings) {
        let mut writer = CheckpointWriter::new(database, settings);
        // A process that was killed has left rows without a checkpoint.
        writer.write(Checkpointed::OthersBefore(Timestamp::MAX)).await;
        let task = tokio::spawn(writer.run(self.closed.clone()));
        *self.lock() = Some(task);
    }

    /// Writes the last checkpoint, and ends.
    pub async fn close(&self) {
        self.closed.cancel();
        let task = self.lock().take();
        if let Some(task) = task {
            let _ = tokio::time::timeout(LAST, task).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Checkpoints {
    /// The task has a database of its own, and would keep it open.
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

// === impl CheckpointWriter ===

impl CheckpointWriter {
    /// Returns a writer for this database.
    pub fn new(database: Database, settings: &DatabaseSettings) -> Self {
        let anchor = settings.audit_anchor.as_ref().map(|AuditAnchor::File(path)| path.clone());
        Self { database, anchor, waiting: Vec::new() }
    }

    async fn run(mut self, closed: CancellationToken) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.tick().await;
        for round in 1_u32.. {
            if closed.run_until_cancelled(interval.tick()).await.is_none() {
                break;
            }
            self.write(match Timestamp::now().checked_sub(QUIET) {
                Ok(before) if round % OTHERS == 0 => Checkpointed::OthersBefore(before),
                Ok(_) | Err(_) => Checkpointed::Own,
            })
            .await;
        }
        self.write(Checkpointed::Own).await;
    }

    /// Writes checkpoints of these chains to the database, and to the anchor file.
    pub async fn write(&mut self, chains: Checkpointed) {
        match self.database.checkpoint(Timestamp::now(), chains).await {
            Ok(written) if self.anchor.is_some() => self.waiting.extend(written),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "a checkpoint of the audit could not be written; the next one counts its rows as well")
            }
        }
        let Some(path) = self.anchor.clone() else { return };
        if self.waiting.is_empty() {
            return;
        }
        let shown = path.clone();
        let copies: Vec<Line> = self.waiting.iter().cloned().map(Line::Checkpoint).collect();
        match spawn_blocking(move || lines::append(&path, &copies)).await {
            Ok(Ok(())) => self.waiting.clear(),
            Ok(Err(error)) => {
                tracing::warn!(file = %shown.display(), %error, "checkpoints could not be added to audit_anchor; they are added with the next ones")
            }
            Err(error) => tracing::warn!(%error, "checkpoints could not be added to audit_anchor"),
        }
    }
}
