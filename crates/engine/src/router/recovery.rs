//! Resuming runs that have no owner, and deleting old data.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fermata_protocol::ChatId;
use tokio::time::{Instant, sleep};

use super::Router;
use crate::{
    chat::{ActorMessage, End},
    memories::UNDO,
    ports::store::{ClockMark, StoreError},
    services::Services,
};

/// The interval between searches for runs without an owner.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The number of chats with a call whose time is over that are woken at a time.
const MAX_DUE: usize = 100;
/// The number of chats that are resumed at a time because their run was at work: each may ask the model at once.
const MAX_ORPHANS: usize = 50;
/// Up to this number of other instances, more chats are looked for, so that instances need not wake the same ones.
const MAX_SHARES: usize = 7;
/// A chat that cannot be resumed is left alone for this time.
const BACK_OFF: Duration = Duration::from_secs(60);
/// The interval between saves of the time that has been reached. A shorter one would wake the disk of an idle server for nothing.
const NOTE_TIME_INTERVAL: Duration = Duration::from_secs(600);
/// The interval between deletions of old rows.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);
/// The number of rows that are deleted at a time, so that no request waits for long.
const FORGET_BATCH: usize = 100;
/// The log of a run that is over is kept for this time, because its readers may still look for it.
const KEEP_LOGS: Duration = Duration::from_secs(120);

/// The chats whose actor has failed in this process.
#[derive(Default)]
pub(super) struct Recovery {
    /// Chats to be woken with the next sweep: as long as this instance is alive, no other one resumes them. Held for an insert or a take.
    requeued: Mutex<BTreeSet<ChatId>>,
    /// Chats that hold something that cannot be read or changed, and when they may be tried again without a request. Held for a copy or
    /// an insert.
    backed_off: Mutex<BTreeMap<ChatId, Instant>>,
}

/// Notes how a chat actor ended, even if it panicked.
pub(super) struct OnEnd {
    pub router: Arc<Router>,
    pub chat: ChatId,
    pub end: End,
}

// === impl OnEnd ===

impl Drop for OnEnd {
    fn drop(&mut self) {
        let recovery = &self.router.recovery;
        match self.end {
            End::Passivated | End::Cut(_) => {}
            End::Retry => {
                recovery.requeued().insert(self.chat.clone());
            }
            End::BackOff => {
                recovery.backed_off().insert(self.chat.clone(), Instant::now() + BACK_OFF);
            }
        }
    }
}

// === impl Recovery ===

impl Recovery {
    fn requeued(&self) -> MutexGuard<'_, BTreeSet<ChatId>> {
        self.requeued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backed_off(&self) -> MutexGuard<'_, BTreeMap<ChatId, Instant>> {
        self.backed_off.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Router ===

impl Router {
    /// Resumes runs that have no owner, if they were at work or the time of a call is over, has summaries written that are due, and forgets
    /// old data. Goes on until it is dropped.
    pub async fn sweep(self: Arc<Self>) {
        let mut forgot_at = Instant::now();
        let mut noted = None;
        loop {
            if let Err(error) = self.resume_orphans().await {
                tracing::warn!(%error, "runs without an owner could not be looked for");
            }
            if !self.leaves_sweep_to_others() {
                if let Err(error) = self.find_due_summaries().await {
                    tracing::warn!(%error, "summaries that are due could not be looked for");
                }
                note_time(&self.services, &mut noted).await;
                if forgot_at.elapsed() >= FORGET_INTERVAL {
                    forgot_at = Instant::now();
                    if let Err(error) = forget(&self.services).await {
                        tracing::warn!(%error, "old chats, logs, decisions and changes of memories could not be deleted");
                    }
                }
            }
            sleep(SWEEP_INTERVAL).await;
        }
    }

    /// Returns whether this instance leaves the sweep to other instances, because its clock is wrong or it ends soon. Without others it does
    /// not, because it uses the database's clock all the same.
    fn leaves_sweep_to_others(&self) -> bool {
        let is_unfit =
            self.services.clock.machine_error().is_some() || self.services.shutdown.leaving.is_reached();
        is_unfit && self.cluster.others() > 0
    }

    async fn resume_orphans(self: &Arc<Self>) -> Result<(), StoreError> {
        self.services.lease.acquire().await?;
        let backed_off: BTreeSet<ChatId> = {
            let mut backed_off = self.recovery.backed_off();
            backed_off.retain(|_, until| Instant::now() < *until);
            backed_off.keys().cloned().collect()
        };
        // Chats that are left alone come first, as they grow old, and must not hide the others.
        let mut chats = Vec::new();
        if !self.leaves_sweep_to_others() {
            let (store, reached) = (&self.services.store, self.services.clock.reached());
            // All instances find the same chats, and each wakes others of them first.
            let share = |mut found: Vec<ChatId>, most: usize| {
                if found.len() > most {
                    let first = self.services.ids.next_number() as usize % found.len();
                    found.rotate_left(first);
                }
                found.truncate(most);
                found
            };
            let instances = self.cluster.others().min(MAX_SHARES) + 1;
            let (due, orphans) = (MAX_DUE + backed_off.len(), MAX_ORPHANS + backed_off.len());
            let is_woken = |chat: &ChatId| !self.mailboxes.contains(chat) && !backed_off.contains(chat);
            chats.extend(share(store.due(reached, due * instances).await?, due).into_iter().filter(is_woken));
            let found = chats.len();
            chats.extend(
                share(store.orphans(orphans * instances).await?, orphans).into_iter().filter(is_woken),
            );
            if chats.len() > found {
                let (instance, runs) = (&self.services.lease.instance, chats.len() - found);
                metrics::counter!("fermata_runs_taken_over_total").increment(runs as u64);
                tracing::info!(%instance, runs, "runs that were at work at an instance that has ended are resumed here");
            }
        }
        // These are woken even if they have an actor, because it may also be about to fail.
        chats.extend(std::mem::take(&mut *self.recovery.requeued()));
        for chat in chats {
            // The messages that fill a mailbox need not touch the run, so the chat is woken again with the next sweep.
            if !self.send(&chat, ActorMessage::Wake) {
                self.recovery.requeued().insert(chat);
            }
        }
        Ok(())
    }

    /// Compares what this instance owns with the store after each loss of the lease, until it is dropped: chat actors look whether they
    /// still own their chats, and locks that no call holds are released.
    pub async fn follow_lease(self: Arc<Self>) {
        let mut epoch = self.services.lease.epoch();
        loop {
            self.cluster.follow_heartbeat().await;
            let now = self.services.lease.epoch();
            if now == epoch {
                continue;
            }
            let instance = &self.services.lease.instance;
            tracing::warn!(%instance, "the lease of this instance was lost, or may have been; other instances may own its chats");
            for chat in self.mailboxes.chats() {
                // If the mailbox is full, this is dropped: the epoch was raised before, and an actor compares it before each message that
                // waits there.
                self.send(&chat, ActorMessage::Verify);
            }
            match self.services.locks.release_forgotten().await {
                Ok(()) => epoch = now,
                // All of it is tried again after the next heartbeat.
                Err(error) => {
                    tracing::warn!(%instance, %error, "the locks of this instance could not be looked for")
                }
            }
        }
    }
}

/// Saves how far time has come, unless that was done a short while ago and has not changed.
async fn note_time(services: &Services, noted: &mut Option<(Instant, ClockMark)>) {
    let Some(mark) = services.clock.mark() else { return };
    if let Some((at, before)) = *noted
        && at.elapsed() < NOTE_TIME_INTERVAL
        && before.doubted == mark.doubted
    {
        return;
    }
    *noted = Some((Instant::now(), mark));
    if let Err(error) = services.store.note_time(mark).await {
        tracing::warn!(%error, "the time that was reached could not be saved for the next start");
    }
}

async fn forget(services: &Services) -> Result<(), StoreError> {
    let (store, settings, now) = (&services.store, &services.settings, services.clock.reached());
    if let Ok(before) = now.saturating_sub(KEEP_LOGS) {
        while store.forget_logs(before, FORGET_BATCH).await? == FORGET_BATCH {
            tokio::task::yield_now().await;
        }
    }
    if let Ok(before) = now.saturating_sub(UNDO) {
        while store.forget_memory_events(before, FORGET_BATCH).await? == FORGET_BATCH {
            tokio::task::yield_now().await;
        }
    }
    if let Some(Ok(before)) = settings.audit_keep.map(|keep| now.saturating_sub(keep)) {
        while store.forget_audit(before, FORGET_BATCH).await? == FORGET_BATCH {
            tokio::task::yield_now().await;
        }
    }
    if let Some(Ok(before)) = settings.keep.map(|keep| now.saturating_sub(keep)) {
        while store.forget(before, FORGET_BATCH).await? == FORGET_BATCH {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}
