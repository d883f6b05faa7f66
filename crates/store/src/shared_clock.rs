//! The clock that all instances of a deployment share, for what they write to each other: a machine's own may be wrong.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

/// The time of a database, as its heartbeats tell it. Clones tell the same time.
#[derive(Clone, Debug, Default)]
pub struct SharedClock {
    /// The database's time at a moment of the monotonic clock; `None` until it was heard of. Held for a copy or a change.
    heard: Arc<Mutex<Option<(SystemTime, Instant)>>>,
}

// === impl SharedClock ===

impl SharedClock {
    /// Returns the time: the database's, or this machine's until that was heard of.
    pub fn now(&self) -> SystemTime {
        match *self.lock() {
            Some((time, at)) => time + at.elapsed(),
            None => SystemTime::now(),
        }
    }

    /// Notes the database's time, in microseconds since 1970.
    pub(crate) fn note(&self, microseconds: i64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(microseconds.unsigned_abs());
        *self.lock() = Some((time, Instant::now()));
    }

    fn lock(&self) -> MutexGuard<'_, Option<(SystemTime, Instant)>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
