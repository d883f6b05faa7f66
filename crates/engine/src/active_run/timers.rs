//! The deadlines of a run that this process has in memory, by the monotonic clock.
//!
//! Invariant: once a deadline is known, setting any other clock makes it come neither sooner nor later.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The deadlines of a run.
#[derive(Default)]
pub(super) struct Timers {
    /// The end of the hold, at which the run's readers are detached.
    pub hold: Timer,
    /// The end of the first question that keeps other calls from a resource.
    pub question: Timer,
    /// The end of the time for which calls wait for tools that are missing.
    pub tools: Timer,
}

/// A deadline, if there is one, as a time and as a moment of the monotonic clock.
#[derive(Default)]
pub(super) struct Timer(Option<(Timestamp, Instant)>);

// === impl Timer ===

impl Timer {
    /// Sets the deadline. If it is set to this time already, its moment does not change.
    pub fn set(&mut self, time: Option<Timestamp>, now: Timestamp) {
        if self.0.map(|(current, _)| current) != time {
            self.0 = time.map(|time| (time, instant_of(time, now)));
        }
    }

    /// Returns the moment of the deadline.
    pub fn ends(&self) -> Option<Instant> {
        self.0.map(|(_, ends)| ends)
    }

    /// Returns whether the deadline has passed.
    pub fn is_over(&self) -> bool {
        self.ends().is_some_and(|ends| ends <= Instant::now())
    }
}

/// Returns the moment of the monotonic clock at which `time` comes if it is `now` at present, or a moment in a year if that is earlier,
/// because the monotonic clock may not reach further.
pub(super) fn instant_of(time: Timestamp, now: Timestamp) -> Instant {
    let left = Duration::try_from(time.duration_since(now)).unwrap_or(Duration::ZERO);
    Instant::now() + left.min(Duration::from_secs(366 * 24 * 3600))
}
