//! Time and ids that a test can foresee.

use std::{
    sync::atomic::{AtomicI64, AtomicUsize, Ordering},
    time::Duration,
};

use fermata_engine::{Clock, Ids};
use jiff::{SignedDuration, Timestamp};

/// Tokio's clock, which stands still while time is paused, and can be set wrong.
pub struct Paused(tokio::time::Instant, Duration, AtomicI64);

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        let wrong_by = SignedDuration::from_secs(self.2.load(Ordering::SeqCst));
        Timestamp::UNIX_EPOCH + self.1 + self.0.elapsed() + wrong_by
    }
}

impl Paused {
    pub fn after(since: u64) -> Self {
        Self(tokio::time::Instant::now(), Duration::from_secs(since), AtomicI64::new(0))
    }

    /// Sets it forwards or back by so many seconds.
    pub fn set(&self, seconds: i64) {
        self.2.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Default for Paused {
    fn default() -> Self {
        Self::after(0)
    }
}

/// Ids that tell how many there have been.
#[derive(Default)]
pub struct Counting(AtomicUsize);

impl Ids for Counting {
    fn next(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}
