//! A clock and ids that are the same in each run of a test.

use std::{
    sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use fermata_engine::{Clock, Ids};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A machine clock that follows Tokio's time, which may be paused, and that a test can set wrong.
pub struct TestClock {
    created_at: Instant,
    offset: Duration,
    wrong_by_seconds: AtomicI64,
}

impl TestClock {
    /// Returns a clock that begins this number of seconds after the epoch.
    pub fn starting_at(seconds: u64) -> Self {
        Self {
            created_at: Instant::now(),
            offset: Duration::from_secs(seconds),
            wrong_by_seconds: AtomicI64::new(0),
        }
    }

    /// Sets the clock forward or back by this number of seconds.
    pub fn shift(&self, seconds: i64) {
        self.wrong_by_seconds.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let wrong_by = SignedDuration::from_secs(self.wrong_by_seconds.load(Ordering::SeqCst));
        Timestamp::UNIX_EPOCH + self.offset + self.created_at.elapsed() + wrong_by
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::starting_at(0)
    }
}

/// Ids that are numbered from 1.
#[derive(Default)]
pub struct CountingIds(AtomicUsize);

impl Ids for CountingIds {
    fn next(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn next_idempotency_key(&self) -> String {
        // Of all instances of a test.
        static KEYS: AtomicU64 = AtomicU64::new(0);
        format!("key_{}", KEYS.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn next_number(&self) -> u64 {
        // Of all instances of a test.
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        NUMBERS.fetch_add(1, Ordering::SeqCst) + 1
    }
}
