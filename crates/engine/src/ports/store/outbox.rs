//! The outbox: what has to be sent to people and services outside the chats.
//!
//! A notice is saved in the commit of its cause, so it is sent if and only if the cause has happened. Any instance sends it, at least once;
//! its id stays the same, so that a receiver can drop what it has got before.

use async_trait::async_trait;
use fermata_protocol::ApprovalId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StoreError;

/// Something that a channel has to send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// The id, which is the same in every attempt.
    pub id: String,
    /// The name of the channel.
    pub channel: String,
    /// The kind of event, such as `approval.requested`.
    pub event: NoticeEvent,
    /// The time of the event.
    pub at: Timestamp,
    /// The approval that it is about.
    pub approval: Option<ApprovalId>,
    /// The event as receivers read it.
    pub data: Value,
}

/// The kinds of events that channels send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum NoticeEvent {
    #[serde(rename = "approval.requested")]
    ApprovalRequested,
    #[serde(rename = "approval.reminder")]
    ApprovalReminder,
    #[serde(rename = "approval.escalated")]
    ApprovalEscalated,
    #[serde(rename = "approval.settled")]
    ApprovalSettled,
    #[serde(rename = "run.finished")]
    RunFinished,
    #[serde(rename = "run.failed")]
    RunFailed,
}

// === impl NoticeEvent ===

impl NoticeEvent {
    /// Returns the name that receivers and settings use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApprovalRequested => "approval.requested",
            Self::ApprovalReminder => "approval.reminder",
            Self::ApprovalEscalated => "approval.escalated",
            Self::ApprovalSettled => "approval.settled",
            Self::RunFinished => "run.finished",
            Self::RunFailed => "run.failed",
        }
    }
}

/// A notice that this instance may send now.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedNotice {
    /// The notice.
    pub notice: Notice,
    /// The number of this attempt, which begins at 1.
    pub attempt: u32,
}

/// The result of an attempt to send a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It was sent, and is deleted.
    Sent,
    /// It failed, and is tried again at this time.
    Failed {
        /// The time of the next attempt.
        next: Timestamp,
        /// The failure.
        error: String,
    },
    /// It failed too often, or can never be sent.
    GivenUp {
        /// The failure.
        error: String,
    },
}

/// A notice as operators see it.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedNotice {
    /// The notice.
    pub notice: Notice,
    /// The number of attempts.
    pub attempts: u32,
    /// The time of the next attempt; `None` if it was given up.
    pub next: Option<Timestamp>,
    /// The time when it was given up.
    pub given_up_at: Option<Timestamp>,
    /// The last failure.
    pub error: Option<String>,
}

/// The store of notices. A commit adds them ([`Change::Notify`](super::Change::Notify)).
///
/// Notices of one channel about one approval are sent in the order of their commits: a notice is not due while an earlier one is open.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Waits until this process has committed a notice since the last time that this returned.
    async fn notice_added(&self);

    /// Returns the names of the channels that have notices whose next attempt is due.
    async fn due_channels(&self, now: Timestamp) -> Result<Vec<String>, StoreError>;

    /// Claims notices of a channel that are due, the earliest first, at most `limit`. Nobody else gets them before `until`.
    async fn claim_notices(
        &self,
        channel: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<ClaimedNotice>, StoreError>;

    /// Returns the time of the next attempt of any notice; `None` if none is open.
    async fn next_notice(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Notes the result of an attempt. A failure counts only if nobody has claimed the notice again since.
    async fn note_attempt(
        &self,
        claimed: &ClaimedNotice,
        at: Timestamp,
        attempt: Attempt,
    ) -> Result<(), StoreError>;

    /// Returns the number of notices that are open.
    async fn open_notices(&self) -> Result<usize, StoreError>;

    /// Lists the notices that are open or were given up, the newest first.
    async fn notices(&self, limit: usize) -> Result<Vec<SavedNotice>, StoreError>;

    /// Has a notice that was given up sent again. Returns `false` if there is no such notice.
    async fn retry_notice(&self, id: &str, now: Timestamp) -> Result<bool, StoreError>;

    /// Deletes notices that were given up before a time, at most `limit`. Returns the number of notices deleted.
    async fn forget_notices(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
}
