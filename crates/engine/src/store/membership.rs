//! The part of the store that knows which instances are alive and what time it is.
//!
//! Only the store's own clock decides which instances are alive, because the clocks of instances differ.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;

/// How long an instance counts as alive after the store last heard from it.
pub const LEASE: Duration = Duration::from_secs(10);

/// The instances that share a store.
#[async_trait]
pub trait Membership: Send + Sync {
    /// Counts this instance among those alive. If the store can have one instance only, all others are no longer alive, because their
    /// processes have ended.
    async fn join(&self, instance: &InstanceId) -> Result<Joined, StoreError>;

    /// Renews this instance's lease, and removes the instances that are dead: those that the store has not heard from for [`LEASE`], and
    /// those whose connection shows sooner that they have ended.
    async fn beat(&self, instance: &InstanceId) -> Result<Beat, StoreError>;

    /// Lets go of the runs of this instance that wait for somebody, so that any other instance may take them up.
    async fn release(&self, instance: &InstanceId) -> Result<(), StoreError>;

    /// Notes that the instance is no longer alive: others may take up all of its runs, and its locks are free.
    async fn leave(&self, instance: &InstanceId) -> Result<(), StoreError>;

    /// Keeps for the next start how far time has come. The kept time never goes back.
    async fn note_time(&self, mark: ClockMark) -> Result<(), StoreError>;

    /// Tells if several instances may be alive at a time.
    fn is_shared(&self) -> bool;
}

/// A process that drives chats, among those that share a store. Each start is another instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(String);

/// The facts that an instance learns when it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The time by the clock that all instances share; `None` if the store has no clock.
    pub now: Option<Timestamp>,
    /// How far time had come, as it was noted last.
    pub mark: Option<ClockMark>,
}

/// How far time has come for a deployment, whatever the clocks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockMark {
    /// The time that has certainly come.
    pub reached: Timestamp,
    /// The time to which the clock had leapt, if it was not believed yet.
    pub doubted: Option<Timestamp>,
}

/// The facts that an instance learns when it renews its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// True if the instance had been taken for dead meanwhile; others may have taken up its runs.
    pub was_dead: bool,
    /// All instances that are alive, itself included.
    pub alive: Vec<InstanceId>,
    /// The time by the clock that all instances share; `None` if the store has no clock.
    pub now: Option<Timestamp>,
}

// === impl InstanceId ===

impl InstanceId {
    /// An id that no other start has.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
