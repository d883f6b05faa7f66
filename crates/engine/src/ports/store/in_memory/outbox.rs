//! The outbox in memory.

use async_trait::async_trait;
use jiff::Timestamp;

use super::InMemoryStore;
use crate::ports::store::{
    Attempt, ClaimedNotice, Notice, Outbox, SavedNotice, StoreError, page::whole_microseconds,
};

/// A notice that is open or was given up.
#[derive(Clone, Debug)]
pub struct StoredNotice(SavedNotice);

// === impl StoredNotice ===

impl StoredNotice {
    /// Returns the row of a new notice, which is due at the time of its commit.
    pub fn new(mut notice: Notice, at: Timestamp) -> Self {
        notice.at = whole_microseconds(notice.at);
        let next = Some(whole_microseconds(at));
        Self(SavedNotice { notice, attempts: 0, next, given_up_at: None, error: None })
    }

    /// Returns whether this notice has to be done before a later one.
    fn is_before(&self, later: &Notice) -> bool {
        let Notice { channel, approval, .. } = &self.0.notice;
        self.0.next.is_some()
            && approval.is_some()
            && (channel, approval) == (&later.channel, &later.approval)
    }
}

/// Returns the notices that do not wait for an earlier one, each with the time of its next attempt and its index.
fn ready(outbox: &[StoredNotice]) -> impl Iterator<Item = (Timestamp, usize, &Notice)> {
    outbox.iter().enumerate().filter_map(|(index, StoredNotice(saved))| {
        let waits = outbox[..index].iter().any(|earlier| earlier.is_before(&saved.notice));
        if waits { None } else { Some((saved.next?, index, &saved.notice)) }
    })
}

#[async_trait]
impl Outbox for InMemoryStore {
    async fn notice_added(&self) {
        self.notice_added.notified().await;
    }

    async fn due_channels(&self, now: Timestamp) -> Result<Vec<String>, StoreError> {
        let contents = self.lock();
        let due = ready(&contents.outbox).filter(|(next, ..)| *next <= now);
        let mut channels: Vec<String> = due.map(|(_, _, notice)| notice.channel.clone()).collect();
        channels.sort();
        channels.dedup();
        Ok(channels)
    }

    async fn claim_notices(
        &self,
        channel: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<ClaimedNotice>, StoreError> {
        let outbox = &mut self.lock().outbox;
        let due = ready(outbox).filter(|(next, _, notice)| *next <= now && notice.channel == channel);
        let mut due: Vec<_> = due.map(|(next, index, _)| (next, index)).collect();
        due.sort();
        let claimed = due.into_iter().take(limit).map(|(_, index)| {
            let StoredNotice(saved) = &mut outbox[index];
            saved.next = Some(until);
            saved.attempts += 1;
            ClaimedNotice { notice: saved.notice.clone(), attempt: saved.attempts }
        });
        Ok(claimed.collect())
    }

    async fn next_notice(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(ready(&self.lock().outbox).map(|(next, ..)| next).min())
    }

    async fn note_attempt(
        &self,
        claimed: &ClaimedNotice,
        at: Timestamp,
        attempt: Attempt,
    ) -> Result<(), StoreError> {
        let outbox = &mut self.lock().outbox;
        let found = outbox.iter().position(|StoredNotice(saved)| saved.notice.id == claimed.notice.id);
        let Some(index) = found else { return Ok(()) };
        let StoredNotice(saved) = &mut outbox[index];
        let is_claimed = saved.next.is_some() && saved.attempts == claimed.attempt;
        match attempt {
            Attempt::Sent => {
                outbox.remove(index);
            }
            Attempt::Failed { next, error } if is_claimed => {
                saved.next = Some(next);
                saved.error = Some(error);
            }
            Attempt::GivenUp { error } if is_claimed => {
                saved.next = None;
                saved.given_up_at = Some(whole_microseconds(at));
                saved.error = Some(error);
            }
            Attempt::Failed { .. } | Attempt::GivenUp { .. } => {}
        }
        Ok(())
    }

    async fn open_notices(&self) -> Result<usize, StoreError> {
        Ok(self.lock().outbox.iter().filter(|StoredNotice(saved)| saved.next.is_some()).count())
    }

    async fn notices(&self, limit: usize) -> Result<Vec<SavedNotice>, StoreError> {
        let contents = self.lock();
        Ok(contents.outbox.iter().rev().take(limit).map(|StoredNotice(saved)| saved.clone()).collect())
    }

    async fn retry_notice(&self, id: &str, now: Timestamp) -> Result<bool, StoreError> {
        let outbox = &mut self.lock().outbox;
        let mut given_up = outbox.iter_mut().filter(|StoredNotice(saved)| saved.given_up_at.is_some());
        let Some(StoredNotice(saved)) = given_up.find(|StoredNotice(saved)| saved.notice.id == id) else {
            return Ok(false);
        };
        saved.next = Some(now);
        saved.attempts = 0;
        saved.given_up_at = None;
        self.notice_added.notify_one();
        Ok(true)
    }

    async fn forget_notices(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let outbox = &mut self.lock().outbox;
        let mut forgotten = 0;
        outbox.retain(|StoredNotice(saved)| {
            let is_old = saved.given_up_at.is_some_and(|at| at < before) && forgotten < limit;
            forgotten += usize::from(is_old);
            !is_old
        });
        Ok(forgotten)
    }
}
