//! Logs when the store goes away, and when it is back: one line each.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::time::Instant;

use crate::ports::store::{InstanceId, StoreError};

/// An outage of the store, as far as the operations that are repeated have seen it.
pub(crate) struct Outage {
    instance: InstanceId,
    /// `true` while `since` is there. It is looked at for each operation.
    is_away: AtomicBool,
    /// Held for a few instructions.
    since: Mutex<Option<Instant>>,
}

impl Outage {
    pub fn new(instance: InstanceId) -> Self {
        Self { instance, is_away: AtomicBool::new(false), since: Mutex::default() }
    }

    /// Notes that an operation has failed because the store is away.
    pub fn note_failure(&self, error: &StoreError) {
        if self.is_away.swap(true, Ordering::Relaxed) {
            return;
        }
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        tracing::warn!(instance = %self.instance, %error, "the database is away; what is under way waits for it");
    }

    /// Notes that an operation has succeeded.
    pub fn note_success(&self) {
        if !self.is_away.load(Ordering::Relaxed) {
            return;
        }
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(since) = since {
            self.is_away.store(false, Ordering::Relaxed);
            tracing::info!(instance = %self.instance, after = ?since.elapsed(), "the database is back");
        }
    }
}
