//! What ends soon in a run that this process has in memory, by the monotonic clock.
//!
//! Invariant: from when a time is first known, what is done to any other clock makes it come neither sooner nor later.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The times of a run.
#[derive(Default)]
pub(super) struct Timers {
    /// When its readers are sent away.
    pub hold: Timer,
    /// When its first question ends that keeps others from a resource.
    pub question: Timer,
    /// When its calls have waited long enough for tools that are not there.
    pub tools: Timer,
}

/// A time, if there is one, and when it comes.
#[derive(Default)]
pub(super) struct Timer(Option<(Timestamp, Instant)>);

// === impl Timer ===

impl Timer {
    /// Counts to this time from now on, unless it does already.
    pub fn set(&mut self, time: Option<Timestamp>, now: Timestamp) {
        if self.0.map(|(known, _)| known) != time {
            self.0 = time.map(|time| (time, in_time(time, now)));
        }
    }

    /// When it comes.
    pub fn ends(&self) -> Option<Instant> {
        self.0.map(|(_, ends)| ends)
    }

    /// Whether it has come.
    pub fn is_over(&self) -> bool {
        self.ends().is_some_and(|ends| ends <= Instant::now())
    }
}

/// When this time comes, if it is this late now. Beyond a year it is looked at again then.
pub(super) fn in_time(time: Timestamp, now: Timestamp) -> Instant {
    let left = Duration::try_from(time.duration_since(now)).unwrap_or(Duration::ZERO);
    Instant::now() + left.min(Duration::from_secs(366 * 24 * 3600))
}
