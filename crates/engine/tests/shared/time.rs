//! Time and ids that a test can foresee.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use fermata_engine::{Clock, Ids};
use jiff::Timestamp;

/// Tokio's clock, which stands still while time is paused.
pub struct Paused(tokio::time::Instant, Duration);

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.1 + self.0.elapsed()
    }
}

impl Paused {
    pub fn after(since: u64) -> Self {
        Self(tokio::time::Instant::now(), Duration::from_secs(since))
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
