//! The deployment's clock: the one place in the engine that knows the time.
//!
//! The time comes from a source: the clock of the database if all instances share one, and the clock of this machine otherwise. The
//! source is read with each heartbeat. Between two heartbeats, time goes on by the monotonic clock.
//!
//! The clock gives two times. [`DeploymentClock::now`] is the time that is stored and shown. [`DeploymentClock::reached`] is a time that
//! has certainly come; everything irreversible, such as deleting what is old or settling calls that were never answered, is decided by it.
//! The two are equal unless the source leaps ahead. It leaps if it is set wrong, but also if it is set right, or if the machine was off or
//! asleep. After a leap, `now` follows the source at once, so that what is stored is never older than it looks, and `reached` goes on as
//! before until the source has gone on for an hour.
//!
//! Invariants: `reached` is never later than `now`. Neither follows a source that was set back, so no wait becomes longer than it was
//! meant to be. Before the source is first read, nothing is over.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::ports::store::{ClockMark, InstanceId, Joined};

/// The largest difference between the source and the monotonic clock that raises no doubt about the source.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(1);
/// The largest difference between this machine's clock and the database's that leaves the machine's trusted.
const MACHINE_TOLERANCE: SignedDuration = SignedDuration::from_secs(30);
/// The longest time that a server may have been off without its clock being doubted when it starts.
const BELIEVED_DOWNTIME: SignedDuration = SignedDuration::from_hours(24);
/// The time that a source that has leapt ahead has to go on before it is believed.
const DOUBT_PERIOD: SignedDuration = SignedDuration::from_hours(1);

/// The clock of this machine, which may be wrong.
pub trait Clock: Send + Sync {
    /// Returns the time by this machine's clock.
    fn now(&self) -> Timestamp;
}

/// The clock that all instances of a deployment go by.
pub(crate) struct DeploymentClock {
    machine_clock: Arc<dyn Clock>,
    /// This instance, for the log.
    instance: InstanceId,
    // Held for a copy or a change.
    state: Mutex<ClockState>,
}

/// The state of the clock at one moment.
#[derive(Clone, Copy)]
struct ClockState {
    /// The moment when `now` and `reached` were right.
    as_of: Instant,
    now: Timestamp,
    reached: Timestamp,
    source: SourceState,
    /// The difference that the operator was last warned of: this machine's clock minus the database's.
    warned_difference: Option<SignedDuration>,
}

/// The state of the source, compared with `reached`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceState {
    Unread,
    Agrees,
    /// The source has leapt ahead, to this time.
    Ahead(Timestamp),
    Behind,
}

// === impl DeploymentClock ===

impl DeploymentClock {
    /// Creates a clock whose source has not been read yet.
    pub fn new(machine_clock: Arc<dyn Clock>, instance: InstanceId) -> Self {
        let state = ClockState {
            as_of: Instant::now(),
            now: machine_clock.now(),
            reached: Timestamp::UNIX_EPOCH,
            source: SourceState::Unread,
            warned_difference: None,
        };
        Self { machine_clock, instance, state: Mutex::new(state) }
    }

    /// Returns the time that is stored and shown.
    pub fn now(&self) -> Timestamp {
        let ClockState { now, as_of, .. } = *self.lock();
        later(now, as_of.elapsed())
    }

    /// Returns a time that has certainly come; it decides about age and expiry.
    pub fn reached(&self) -> Timestamp {
        let ClockState { reached, as_of, .. } = *self.lock();
        later(reached, as_of.elapsed())
    }

    /// Returns a sentence about this machine's clock, if it is wrong by the database's.
    pub fn machine_error(&self) -> Option<String> {
        let ahead = self.lock().warned_difference?;
        Some(format!("This machine's clock is {} {} the database's.", rounded(ahead), direction(ahead)))
    }

    /// Returns the mark that is saved for the next start; `None` before the source was first read.
    pub fn mark(&self) -> Option<ClockMark> {
        let state = self.lock().advanced();
        let doubted = match state.source {
            SourceState::Unread => return None,
            SourceState::Ahead(leapt_to) => Some(leapt_to),
            SourceState::Agrees | SourceState::Behind => None,
        };
        Some(ClockMark { reached: state.reached, doubted })
    }

    /// Starts the clock with the store's answer to a join that was sent at `asked_at`.
    pub fn start(&self, joined: &Joined, asked_at: Instant) {
        let source = joined.now.unwrap_or_else(|| self.machine_clock.now());
        let reached = match joined.mark {
            // A leap that an earlier process doubted counts if the source has gone on for long enough since.
            Some(ClockMark { reached, doubted: Some(doubted) })
                if source.duration_since(doubted) >= DOUBT_PERIOD =>
            {
                reached.max(doubted)
            }
            Some(mark) => mark.reached,
            None => source,
        };
        let mut state = self.lock();
        *state = ClockState {
            as_of: Instant::now(),
            now: source,
            reached,
            source: SourceState::Unread,
            warned_difference: None,
        };
        self.read_source(&mut state, joined.now, asked_at, BELIEVED_DOWNTIME);
    }

    /// Reads the source with a heartbeat that was sent at `asked_at`. `database` is the database's time in the reply, if it has a clock.
    pub fn observe(&self, database: Option<Timestamp>, asked_at: Instant) {
        let mut state = self.lock();
        *state = state.advanced();
        self.read_source(&mut state, database, asked_at, TOLERANCE);
    }

    fn read_source(
        &self,
        state: &mut ClockState,
        database: Option<Timestamp>,
        asked_at: Instant,
        ahead_at_most: SignedDuration,
    ) {
        let machine = self.machine_clock.now();
        let (name, earliest, latest) = match database {
            Some(database) => {
                self.compare_machine(state, machine, database);
                // The database may have read its clock at any moment since it was asked.
                ("the database", database, later(database, asked_at.elapsed()))
            }
            None => ("this machine", machine, machine),
        };
        let before = state.source;
        let ahead = earliest.duration_since(state.reached);
        state.follow(earliest, latest, ahead_at_most);
        let is_as_expected = before == SourceState::Unread && state.source == SourceState::Agrees;
        if state.source != before && !is_as_expected {
            self.log_source_state(state, name, earliest, ahead);
        }
    }

    /// Logs the new state of the source for the operator.
    fn log_source_state(&self, state: &ClockState, name: &str, clock: Timestamp, ahead: SignedDuration) {
        let (instance, difference, reached) = (&self.instance, rounded(ahead), state.reached);
        match state.source {
            SourceState::Unread | SourceState::Agrees => {
                tracing::info!(%instance, %clock, "the clock of {name} is believed again")
            }
            SourceState::Ahead(_) => tracing::warn!(
                %instance,
                %clock,
                expected = %reached,
                "the clock of {name} is {difference} ahead of what was expected. If the server or the machine was off or asleep for so long, \
                 nothing need be done; otherwise set the clock right within an hour. Until then nothing is forgotten and nothing expires \
                 because of it"
            ),
            SourceState::Behind => tracing::warn!(
                %instance,
                %clock,
                expected = %reached,
                "the clock of {name} is {difference} behind the time that this database has seen. Set it right; until it has caught up, time \
                 goes on from what was seen. If that was wrong, end all instances and delete the row in the table clock_marks"
            ),
        }
    }

    /// Warns the operator if this machine's clock differs from the database's, once for each new difference.
    fn compare_machine(&self, state: &mut ClockState, machine: Timestamp, database: Timestamp) {
        let instance = &self.instance;
        let ahead = machine.duration_since(database);
        if ahead.abs() <= MACHINE_TOLERANCE {
            if state.warned_difference.take().is_some() {
                tracing::info!(%instance, here = %machine, %database, "this machine's clock agrees with the database's again");
            }
            return;
        }
        if state.warned_difference.is_some_and(|warned| (ahead - warned).abs() <= MACHINE_TOLERANCE) {
            return;
        }
        state.warned_difference = Some(ahead);
        let (difference, direction) = (rounded(ahead), direction(ahead));
        tracing::warn!(
            %instance,
            here = %machine,
            %database,
            "this machine's clock is {difference} {direction} the database's, which is the one that counts for chats and calls. Set the wrong \
             one right: tokens are still checked by this machine's. Until then this instance leaves what is \
             due, old or without an owner to the others, if there are any"
        );
    }

    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl ClockState ===

impl ClockState {
    /// Returns the state moved on to the present by the monotonic clock.
    fn advanced(self) -> Self {
        let passed = self.as_of.elapsed();
        Self {
            as_of: self.as_of + passed,
            now: later(self.now, passed),
            reached: later(self.reached, passed),
            ..self
        }
    }

    /// Follows the source, whose time is between `earliest` and `latest`. A source that is ahead by more than `ahead_at_most` is doubted.
    fn follow(&mut self, earliest: Timestamp, latest: Timestamp, ahead_at_most: SignedDuration) {
        let ahead = earliest.duration_since(self.reached);
        if -ahead > TOLERANCE {
            self.source = SourceState::Behind;
            self.now = self.reached;
        } else if ahead <= ahead_at_most {
            self.source = SourceState::Agrees;
            self.reached = self.reached.clamp(earliest, latest);
            self.now = self.reached;
        } else {
            let has_gone_on = earliest.duration_since(self.now).abs() <= TOLERANCE;
            let leapt_to = match self.source {
                SourceState::Ahead(leapt_to) if has_gone_on => leapt_to,
                SourceState::Unread | SourceState::Agrees | SourceState::Ahead(_) | SourceState::Behind => {
                    earliest
                }
            };
            if earliest.duration_since(leapt_to) >= DOUBT_PERIOD {
                self.source = SourceState::Agrees;
                self.reached = earliest;
            } else {
                self.source = SourceState::Ahead(leapt_to);
            }
            self.now = earliest;
        }
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

fn direction(ahead: SignedDuration) -> &'static str {
    if ahead.is_negative() { "behind" } else { "ahead of" }
}

/// Returns the length of a difference in whole seconds, to be shown.
fn rounded(difference: SignedDuration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(difference.as_secs().unsigned_abs()))
}

#[cfg(test)]
mod tests;
