//! Sends the notices of the outbox.
//!
//! Any instance may send a notice. It claims the notice for [`CLAIM`], and no other instance sends it in this time. If the process ends in the
//! middle of an attempt, the notice is sent again once the claim has ended, with the same id.
//!
//! Invariants: a slow channel has at most [`SLOTS_PER_CHANNEL`] of the slots, so it does not hold up the others; an attempt ends before its
//! claim does.

use std::{
    collections::BTreeMap,
    future::pending,
    sync::Arc,
    time::{Duration, SystemTime},
};

use fermata_engine::{
    Clock, Store,
    store::{Attempt, ClaimedNotice, StoreError},
};
use jiff::Timestamp;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{ApprovalDesk, Channels, SendError};

/// The length of a claim.
const CLAIM: Duration = Duration::from_secs(30);
/// The time that an attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(25);
/// The pauses after failed attempts. After one more failure the notice is given up.
const PAUSES: [Duration; 7] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(60 * 60),
    Duration::from_secs(6 * 60 * 60),
    Duration::from_secs(24 * 60 * 60),
];
/// The number of attempts that find no such channel in the settings, if other instances may have newer settings.
const UNKNOWN_ATTEMPTS: u32 = 3;
/// The number of notices that are being sent at the same time.
const SLOTS: usize = 32;
/// The number of notices of one channel that are being sent at the same time.
const SLOTS_PER_CHANNEL: usize = 4;
/// The pauses between two looks at the outbox: the shortest one, if something is due and cannot be claimed, and the longest one, because another
/// instance may end before it has sent what it has committed.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a notice is kept after it was given up.
const KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const FORGET_INTERVAL: Duration = Duration::from_secs(60 * 60);
const FORGET_BATCH: usize = 1000;
/// The time that attempts under way have when the server ends.
const ENDING: Duration = Duration::from_secs(10);

pub const SENT: &str = "fermata_outbox_sent_total";
pub const FAILED: &str = "fermata_outbox_failed_total";
pub const GIVEN_UP: &str = "fermata_outbox_given_up_total";
pub const OPEN: &str = "fermata_outbox_open";

/// Sends notices until the server ends.
pub struct Sender {
    parts: Arc<Parts>,
    slots: Arc<Semaphore>,
    slots_of_channels: BTreeMap<String, Arc<Semaphore>>,
    attempts: JoinSet<()>,
    /// `true` if the outbox could not be read, which is logged once.
    has_failed: bool,
}

struct Parts {
    channels: Channels,
    store: Arc<dyn Store>,
    desk: Arc<dyn ApprovalDesk>,
    clock: Arc<dyn Clock>,
}

/// Registers the series of a channel.
pub fn begin_at_zero(channel: &str) {
    for name in [SENT, FAILED, GIVEN_UP] {
        metrics::counter!(name, "channel" => channel.to_owned()).increment(0);
    }
}

// === impl Sender ===

impl Sender {
    /// Creates the sender of these channels.
    pub fn new(
        channels: Channels,
        store: Arc<dyn Store>,
        desk: Arc<dyn ApprovalDesk>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            parts: Arc::new(Parts { channels, store, desk, clock }),
            slots: Arc::new(Semaphore::new(SLOTS)),
            slots_of_channels: BTreeMap::new(),
            attempts: JoinSet::new(),
            has_failed: false,
        }
    }

    /// Sends what is due until `shutdown`. Attempts under way may then end.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut forgot_at: Option<Instant> = None;
        while !shutdown.is_cancelled() {
            if forgot_at.is_none_or(|at| at.elapsed() >= FORGET_INTERVAL) {
                forgot_at = Some(Instant::now());
                self.attempts.spawn(self.parts.clone().forget());
            }
            let pause = self.look().await;
            let parts = self.parts.clone();
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = parts.store.notice_added() => {}
                () = ended(&mut self.attempts) => {}
                () = sleep(pause) => {}
            }
        }
        let ending = async { while self.attempts.join_next().await.is_some() {} };
        if timeout(ENDING, ending).await.is_err() {
            tracing::warn!("notices were still being sent at the end; they are sent again later");
        }
    }

    /// Begins to send what is due. Returns the time of the next look.
    async fn look(&mut self) -> Duration {
        match self.begin_due().await {
            Ok(pause) => {
                self.has_failed = false;
                pause
            }
            Err(error) => {
                if !self.has_failed {
                    tracing::warn!(%error, "the outbox cannot be read, so no notices are sent");
                }
                self.has_failed = true;
                SHORTEST_PAUSE
            }
        }
    }

    async fn begin_due(&mut self) -> Result<Duration, StoreError> {
        let now = self.parts.clock.now();
        let store = self.parts.store.clone();
        for channel in store.due_channels(now).await? {
            let new = || Arc::new(Semaphore::new(SLOTS_PER_CHANNEL));
            let slots = self.slots_of_channels.entry(channel.clone()).or_insert_with(new).clone();
            let free = slots.available_permits().min(self.slots.available_permits());
            if free == 0 {
                continue;
            }
            for claimed in store.claim_notices(&channel, now, after(now, CLAIM), free).await? {
                // Nobody else takes slots, so there are as many as before.
                let taken = [slots.clone().try_acquire_owned(), self.slots.clone().try_acquire_owned()];
                self.attempts.spawn(self.parts.clone().attempt(claimed, taken.map(Result::ok)));
            }
        }
        metrics::gauge!(OPEN).set(store.open_notices().await? as f64);
        Ok(match store.next_notice().await? {
            Some(next) => between(now, next).clamp(SHORTEST_PAUSE, LONGEST_PAUSE),
            None => LONGEST_PAUSE,
        })
    }
}

/// Waits until an attempt has ended.
async fn ended(attempts: &mut JoinSet<()>) {
    match attempts.join_next().await {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::error!(%error, "an attempt to send a notice has failed"),
        None => pending().await,
    }
}

// === impl Parts ===

impl Parts {
    /// Sends a notice, and notes the result. The slots are free when this ends, even if it panics.
    async fn attempt(self: Arc<Self>, claimed: ClaimedNotice, _slots: [Option<OwnedSemaphorePermit>; 2]) {
        let channel = claimed.notice.channel.clone();
        let result = self.result_of(&claimed).await;
        let (notice, event) = (&claimed.notice.id, claimed.notice.event.as_str());
        let counter = match &result {
            Attempt::Sent => {
                tracing::debug!(channel, notice, event, "sent a notice");
                SENT
            }
            Attempt::Failed { next, error } => {
                tracing::info!(channel, notice, event, %next, "a notice was not sent and is sent again: {error}");
                FAILED
            }
            Attempt::GivenUp { error } => {
                tracing::error!(
                    channel,
                    notice,
                    event,
                    "gave up on a notice: {error}; fermata outbox retry {notice} sends it again"
                );
                GIVEN_UP
            }
        };
        metrics::counter!(counter, "channel" => channel.clone()).increment(1);
        if let Err(error) = self.store.note_attempt(&claimed, self.clock.now(), result).await {
            tracing::warn!(channel, notice, %error, "the result of a notice was not saved, so it is sent again");
        }
    }

    async fn result_of(&self, claimed: &ClaimedNotice) -> Attempt {
        let ClaimedNotice { notice, attempt } = claimed;
        let pause = PAUSES.get(*attempt as usize - 1);
        let Some(channel) = self.channels.get(&notice.channel) else {
            let error = format!("the settings have no channel {}", notice.channel);
            return match pause {
                Some(pause) if *attempt <= UNKNOWN_ATTEMPTS && self.store.is_shared() => {
                    Attempt::Failed { next: after(self.clock.now(), *pause), error }
                }
                Some(_) | None => Attempt::GivenUp { error },
            };
        };
        if *attempt as usize > PAUSES.len() + 1 {
            return Attempt::GivenUp { error: "the last attempt did not finish".into() };
        }
        let sent = timeout(ATTEMPT_TIMEOUT, channel.send(notice, &*self.desk)).await;
        match sent.unwrap_or_else(|_| Err(SendError::Failed("the attempt timed out".into()))) {
            Ok(()) => Attempt::Sent,
            Err(SendError::Refused(error)) => Attempt::GivenUp { error },
            Err(SendError::Failed(error)) => match pause {
                Some(pause) => Attempt::Failed { next: after(self.clock.now(), *pause), error },
                None => Attempt::GivenUp { error },
            },
        }
    }

    async fn forget(self: Arc<Self>) {
        let Ok(before) = self.clock.now().checked_sub(KEEP) else { return };
        if let Err(error) = self.store.forget_notices(before, FORGET_BATCH).await {
            tracing::debug!(%error, "old notices were not deleted");
        }
    }
}

fn after(now: Timestamp, pause: Duration) -> Timestamp {
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}

fn between(now: Timestamp, then: Timestamp) -> Duration {
    SystemTime::from(then).duration_since(now.into()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
