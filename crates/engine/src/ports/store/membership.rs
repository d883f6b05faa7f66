//! The part of the store that knows the instances that are alive, and the time.
//!
//! Only the store's own clock decides whether an instance is alive, because the clocks of instances differ.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;

/// An instance counts as alive for this time after its last heartbeat.
pub const LEASE: Duration = Duration::from_secs(10);

/// The instances that share a store.
#[async_trait]
pub trait Membership: Send + Sync {
    /// Counts this instance among those alive. If the store can have only one instance, all others are no longer alive, because their
    /// processes have ended.
    async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError>;

    /// Renews this instance's lease, and removes the instances that are dead: those without a heartbeat for [`LEASE`], and those whose
    /// connection shows sooner that they have ended. An instance that may have missed the heartbeats of others removes none.
    async fn heartbeat(&self, instance: &InstanceId) -> Result<Renewed, StoreError>;

    /// Releases the runs of this instance that wait, so that any other instance may resume them.
    async fn release(&self, instance: &InstanceId) -> Result<(), StoreError>;

    /// Gives up this instance's lease: others may resume all of its runs, and its locks are free.
    async fn leave(&self, instance: &InstanceId) -> Result<(), StoreError>;

    /// Saves how far time has come, for the next start. The saved time never goes back.
    async fn note_time(&self, mark: ClockMark) -> Result<(), StoreError>;

    /// Returns whether several instances may be alive at a time.
    fn is_shared(&self) -> bool;
}

/// The id of a process among those that share a store. Each start of the server is another instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(String);

/// The facts that an instance learns when it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The time by the clock that all instances share; `None` if the store has no clock.
    pub now: Option<Timestamp>,
    /// The mark that was saved last.
    pub mark: Option<ClockMark>,
}

/// The time that a deployment has reached, even if its clocks say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockMark {
    /// The time that has certainly come.
    pub reached: Timestamp,
    /// The target of the clock's leap, if the leap was still doubted.
    pub doubted: Option<Timestamp>,
}

/// The facts that an instance learns when it renews its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// `true` if the instance had been removed as dead; others may have resumed its runs.
    pub was_dead: bool,
    /// `true` if the database has been replaced since the last heartbeat, by a standby that was promoted or by a backup: it may lack what
    /// was committed last.
    pub has_failed_over: bool,
    /// All instances that are alive, itself included, the one that joined first in front.
    pub alive: Vec<InstanceId>,
    /// The time by the clock that all instances share; `None` if the store has no clock.
    pub now: Option<Timestamp>,
}

// === impl InstanceId ===

impl InstanceId {
    /// Creates the id from a text that no other start uses.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
