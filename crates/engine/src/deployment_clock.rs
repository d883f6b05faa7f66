//! The deployment's clock: the one place in the engine that knows what time it is.
//!
//! The time comes from a source: from the database, if it has a clock that all instances share, or else from this machine. The source is
//! asked with each heartbeat. In between, time goes on by the monotonic clock.
//!
//! There are two answers. [`DeploymentClock::now`] is what is stored and shown. [`DeploymentClock::reached`] is a time that has certainly
//! come: whatever is destroyed because it is old, or settled because nobody came, goes by it. They are the same unless the source leaps
//! ahead, which a clock that was set wrong does as well as one that was set right, and a machine that was off or asleep. Then `now` follows
//! at once, so that what is stored is never older than it looks, and `reached` goes on as before until the source has gone on for an hour.
//!
//! Invariants: `reached` is never later than `now`. Neither follows a source that was set back, so nothing that waits for a time
//! waits for longer than it was to. Until the source was heard for the first time, nothing is over.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::store::{ClockMark, Joined};

/// By how much the source may differ from what the monotonic clock says without being doubted.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(1);
/// For how long a server may have been off without its clock being doubted when it starts.
const OFF: SignedDuration = SignedDuration::from_hours(24);
/// For how long a source that has leapt ahead has to go on before it is believed.
const DOUBT: SignedDuration = SignedDuration::from_hours(1);

/// The clock of this machine, which may be wrong.
pub trait Clock: Send + Sync {
    /// Returns the time by this machine's clock.
    fn now(&self) -> Timestamp;
}

/// The clock that all instances of a deployment go by.
pub(crate) struct DeploymentClock {
    own: Arc<dyn Clock>,
    // Held for a copy or a change.
    known: Mutex<Known>,
}

/// The state of the clock when the source was last heard.
#[derive(Clone, Copy)]
struct Known {
    /// The moment at which `now` and `reached` were right.
    at: Instant,
    now: Timestamp,
    reached: Timestamp,
    source: Source,
    /// The difference that the operator was last warned of: this machine's clock minus the database's.
    told: Option<SignedDuration>,
}

/// The source's time, compared with `reached`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Unheard,
    Agrees,
    /// It has leapt ahead, to this time.
    Ahead(Timestamp),
    Behind,
}

// === impl DeploymentClock ===

impl DeploymentClock {
    /// A clock that has not heard of its source yet.
    pub fn new(own: Arc<dyn Clock>) -> Self {
        let known = Known {
            at: Instant::now(),
            now: own.now(),
            reached: Timestamp::UNIX_EPOCH,
            source: Source::Unheard,
            told: None,
        };
        Self { own, known: Mutex::new(known) }
    }

    /// Returns the time that is stored and shown.
    pub fn now(&self) -> Timestamp {
        self.lock().later().now
    }

    /// Returns a time that has certainly come; what is old or expired is judged by it.
    pub fn reached(&self) -> Timestamp {
        self.lock().later().reached
    }

    /// What is kept of it for the next start, once there is something.
    pub fn mark(&self) -> Option<ClockMark> {
        let known = self.lock().later();
        let doubted = match known.source {
            Source::Unheard => return None,
            Source::Ahead(leapt_to) => Some(leapt_to),
            Source::Agrees | Source::Behind => None,
        };
        Some(ClockMark { reached: known.reached, doubted })
    }

    /// Notes what the store has told first, which was asked at this time.
    pub fn start(&self, joined: &Joined, asked: Instant) {
        let source = joined.now.unwrap_or_else(|| self.own.now());
        let reached = joined.mark.map_or(source, |mark| believed(&mark, source));
        let mut known = self.lock();
        *known = Known { at: Instant::now(), now: source, reached, source: Source::Unheard, told: None };
        self.compare(&mut known, joined.now, asked, OFF);
    }

    /// Notes what a heartbeat has told that was sent at this time: the database's time, if it has a clock.
    pub fn observe(&self, told: Option<Timestamp>, asked: Instant) {
        let mut known = self.lock();
        *known = known.later();
        self.compare(&mut known, told, asked, TOLERANCE);
    }

    fn compare(
        &self,
        known: &mut Known,
        told: Option<Timestamp>,
        asked: Instant,
        ahead_at_most: SignedDuration,
    ) {
        let own = self.own.now();
        if let Some(database) = told {
            known.compare_with_own(own, database);
        }
        let earliest = told.unwrap_or(own);
        // The database has said its time at some moment since it was asked.
        let latest = if told.is_some() { later(earliest, asked.elapsed()) } else { earliest };
        let name = if told.is_some() { "the database" } else { "this machine" };
        known.follow(name, earliest, latest, ahead_at_most);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Known ===

impl Known {
    /// The same now.
    fn later(self) -> Self {
        let passed = self.at.elapsed();
        Self {
            at: self.at + passed,
            now: later(self.now, passed),
            reached: later(self.reached, passed),
            ..self
        }
    }

    /// Follows the source, whose time is between these two.
    fn follow(&mut self, name: &str, earliest: Timestamp, latest: Timestamp, ahead_at_most: SignedDuration) {
        let ahead = earliest.duration_since(self.reached);
        let before = self.source;
        if -ahead > TOLERANCE {
            self.source = Source::Behind;
            self.now = self.reached;
        } else if ahead <= ahead_at_most {
            self.source = Source::Agrees;
            self.reached = self.reached.clamp(earliest, latest);
            self.now = self.reached;
        } else {
            let has_gone_on = earliest.duration_since(self.now).abs() <= TOLERANCE;
            let leapt_to = match before {
                Source::Ahead(leapt_to) if has_gone_on => leapt_to,
                Source::Unheard | Source::Agrees | Source::Ahead(_) | Source::Behind => earliest,
            };
            if earliest.duration_since(leapt_to) >= DOUBT {
                self.source = Source::Agrees;
                self.reached = earliest;
            } else {
                self.source = Source::Ahead(leapt_to);
            }
            self.now = earliest;
        }
        let is_as_expected = before == Source::Unheard && self.source == Source::Agrees;
        if self.source != before && !is_as_expected {
            self.tell(name, earliest, ahead);
        }
    }

    /// Tells the operator how the source stands since now.
    fn tell(&self, name: &str, source: Timestamp, ahead: SignedDuration) {
        let (clock, apart, reached) = (source, rough(ahead), self.reached);
        match self.source {
            Source::Unheard | Source::Agrees => {
                tracing::info!(%clock, "the clock of {name} is believed again")
            }
            Source::Ahead(_) => tracing::warn!(
                %clock,
                expected = %reached,
                "the clock of {name} is {apart} ahead of what was expected. If the server or the machine was off or asleep for so long, nothing \
                 need be done; otherwise set the clock right within an hour. Until then nothing is forgotten and nothing expires because of it"
            ),
            Source::Behind => tracing::warn!(
                %clock,
                expected = %reached,
                "the clock of {name} is {apart} behind the time that this database has seen. Set it right; until it has caught up, time goes \
                 on from what was seen. If that was wrong, end all instances and delete the row in the table clock_marks"
            ),
        }
    }

    /// Tells the operator if this machine's clock is not the database's.
    fn compare_with_own(&mut self, own: Timestamp, database: Timestamp) {
        let ahead = own.duration_since(database);
        let (apart, way) = (rough(ahead), if ahead.is_negative() { "behind" } else { "ahead of" });
        if ahead.abs() > TOLERANCE {
            if self.told.is_none_or(|told| (ahead - told).abs() > TOLERANCE) {
                self.told = Some(ahead);
                tracing::warn!(
                    here = %own,
                    %database,
                    "this machine's clock is {apart} {way} the database's, which is the one that counts for chats and calls. Set the wrong one \
                     right: tokens and what instances write to each other are still checked by this machine's"
                );
            }
        } else if self.told.take().is_some() {
            tracing::info!(here = %own, %database, "this machine's clock agrees with the database's again");
        }
    }
}

/// What an earlier start has reached, where the clock says this now: a time that was doubted then is believed once the clock has gone on.
fn believed(mark: &ClockMark, source: Timestamp) -> Timestamp {
    match mark.doubted {
        Some(doubted) if source.duration_since(doubted) >= DOUBT => mark.reached.max(doubted),
        Some(_) | None => mark.reached,
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

fn rough(apart: SignedDuration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(apart.as_secs().unsigned_abs()))
}

#[cfg(test)]
#[path = "deployment_clock_tests.rs"]
mod tests;
