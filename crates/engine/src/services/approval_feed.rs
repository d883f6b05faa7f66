//! The changes of approvals, for the people who decide about them.
//!
//! One reader for each instance reads the changes from the store, while anybody follows. A commit of this instance wakes it at once; those of
//! others are found within [`LOOK_EVERY`]. A commit may become visible after a later one, so each read begins [`OVERLAP`] before the last
//! change.

use std::{collections::HashMap, sync::Arc, time::Duration};

use fermata_protocol::ApprovalId;
use jiff::Timestamp;
use tokio::{
    sync::{Notify, broadcast},
    time::timeout,
};

use super::Services;
use crate::ports::store::{ApprovalRecord, page::ApprovalCursor};

/// The time between two reads of the store if no commit of this instance has changed anything.
const LOOK_EVERY: Duration = Duration::from_millis(700);
/// The length of time that is read again, because a commit may become visible late.
pub(crate) const OVERLAP: Duration = Duration::from_secs(3);
/// The number of changes that a follower may be behind. It has to list the approvals again after that.
const CAPACITY: usize = 1_024;
/// The number of changes that are read at once.
const PAGE: usize = 500;

/// The changes of approvals.
pub(crate) struct ApprovalFeed {
    changes: broadcast::Sender<Arc<ApprovalRecord>>,
    /// Wakes the reader: this instance has changed an approval, or somebody begins to follow.
    wakes: Notify,
}

// === impl ApprovalFeed ===

impl ApprovalFeed {
    /// Notes that a commit of this instance has changed an approval.
    pub fn note_change(&self) {
        if self.changes.receiver_count() > 0 {
            self.wakes.notify_one();
        }
    }

    /// Follows the changes from now on.
    pub fn follow(&self) -> broadcast::Receiver<Arc<ApprovalRecord>> {
        let receiver = self.changes.subscribe();
        self.wakes.notify_one();
        receiver
    }

    /// Reads the changes for those who follow, until the server ends.
    pub async fn read(services: Arc<Services>) {
        let Self { changes, wakes } = &services.approval_feed;
        loop {
            // Nobody follows yet.
            wakes.notified().await;
            let mut since = services.clock.now();
            let mut seen: HashMap<ApprovalId, Timestamp> = HashMap::new();
            while changes.receiver_count() > 0 {
                let after = since.saturating_sub(OVERLAP).unwrap_or(Timestamp::MIN);
                let mut place = ApprovalCursor::after(after);
                loop {
                    // A failure is logged where the store is watched. The next look finds what this one has missed.
                    let found = services.store.changed_approvals(&place, PAGE).await.unwrap_or_default();
                    let is_full = found.len() == PAGE;
                    for record in found {
                        place = ApprovalCursor { at: record.changed_at, id: record.id.clone() };
                        since = since.max(record.changed_at);
                        if seen.insert(record.id.clone(), record.changed_at) != Some(record.changed_at) {
                            // Nobody may follow any more.
                            let _ = changes.send(Arc::new(record));
                        }
                    }
                    if !is_full {
                        break;
                    }
                }
                seen.retain(|_, changed_at| *changed_at > after);
                // Either is a reason to look again.
                let _ = timeout(LOOK_EVERY, wakes.notified()).await;
            }
        }
    }
}

impl Default for ApprovalFeed {
    fn default() -> Self {
        Self { changes: broadcast::channel(CAPACITY).0, wakes: Notify::new() }
    }
}
