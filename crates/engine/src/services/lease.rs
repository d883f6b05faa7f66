//! This process's lease: its right to own chats, among the instances that share a store.
//!
//! The lease is renewed with each heartbeat. An instance whose lease has run out may have lost its chats to others without knowing it,
//! so each loss raises the lease epoch, and a chat actor that read its chat in an earlier epoch looks whether it still owns the chat.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::OnceCell, time::Instant};

use super::Heartbeat;
use crate::{
    deployment_clock::DeploymentClock,
    ports::store::{InstanceId, LEASE, Renewed, Store, StoreError},
};

/// The interval between two heartbeats; several of them fit into a lease.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);

/// The lease of this instance.
pub(crate) struct Lease {
    /// The id of this process among those that share the store.
    pub instance: InstanceId,
    /// The runtime that renews the lease.
    pub heartbeat: Heartbeat,
    store: Arc<dyn Store>,
    clock: Arc<DeploymentClock>,
    acquired: OnceCell<()>,
    epoch: AtomicU64,
    /// The time when the last successful renewal was sent. Held for a copy or a change.
    renewed_at: Mutex<Moment>,
}

/// A moment by two clocks, because the monotonic one stands still while a machine is suspended.
#[derive(Clone, Copy)]
struct Moment {
    monotonic: Instant,
    since_boot: Duration,
}

// === impl Lease ===

impl Lease {
    pub fn new(
        instance: InstanceId,
        heartbeat: Heartbeat,
        store: Arc<dyn Store>,
        clock: Arc<DeploymentClock>,
    ) -> Self {
        Self {
            instance,
            heartbeat,
            store,
            clock,
            acquired: OnceCell::new(),
            epoch: AtomicU64::new(0),
            renewed_at: Mutex::new(Moment::now()),
        }
    }

    /// Acquires the lease, once, and starts the clock. Chats may be owned, and the time is known, only after this has succeeded.
    pub async fn acquire(&self) -> Result<(), StoreError> {
        let acquired = self.acquired.get_or_try_init(|| async {
            let (store, instance, sent_at) = (self.store.clone(), self.instance.clone(), Instant::now());
            let joined = self.heartbeat.run(async move { store.join(&instance).await }).await?;
            self.clock.start(&joined, sent_at);
            tracing::info!(instance = %self.instance, "this instance has joined those that use the database");
            Ok(())
        });
        acquired.await.copied()
    }

    /// Renews the lease, and counts how that came out. This has to be called on the runtime of the heartbeats, see [`Heartbeat`].
    pub async fn renew(&self) -> Result<Renewed, StoreError> {
        let renewed = self.try_renew().await;
        let outcome = match &renewed {
            Ok((_, false)) => "renewed",
            Ok((_, true)) => "lost",
            Err(_) => "failed",
        };
        metrics::counter!("fermata_lease_renewals_total", "outcome" => outcome).increment(1);
        renewed.map(|(renewed, _)| renewed)
    }

    /// As [`Lease::renew`]. Returns also whether the lease was lost meanwhile.
    async fn try_renew(&self) -> Result<(Renewed, bool), StoreError> {
        let begun_at = Moment::now();
        self.acquire().await?;
        let sent_at = Instant::now();
        let renewed = self.store.heartbeat(&self.instance).await?;
        self.clock.observe(renewed.now, sent_at);
        // A renewal that failed may have been the one that would have reported the loss.
        if renewed.has_failed_over {
            tracing::warn!(
                instance = %self.instance,
                "the database was replaced, by a standby or a backup; every chat in memory is compared with it, because what was saved last \
                 may be lost"
            );
        }
        let is_lost = renewed.was_dead || renewed.has_failed_over || self.is_in_doubt();
        if is_lost {
            // The epoch is raised before the doubt is removed, so that at any time one of them tells of the loss.
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
        *self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner) = begun_at;
        Ok((renewed, is_lost))
    }

    /// Gives the lease up: others may acquire all chats of this instance.
    pub async fn give_up(&self) -> Result<(), StoreError> {
        let (store, instance) = (self.store.clone(), self.instance.clone());
        self.heartbeat.run(async move { store.leave(&instance).await }).await
    }

    /// Returns the lease epoch: the number of times that the lease was lost, as far as this instance knows.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns whether so much time has passed since the last renewal that others may have taken the lease for expired.
    pub fn is_in_doubt(&self) -> bool {
        self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= LEASE
    }
}

// === impl Moment ===

impl Moment {
    fn now() -> Self {
        Self { monotonic: Instant::now(), since_boot: since_boot() }
    }

    fn elapsed(self) -> Duration {
        self.monotonic.elapsed().max(since_boot().saturating_sub(self.since_boot))
    }
}

/// Returns the time since the machine was started, including the time that it was suspended.
#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// Other systems have no such clock.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    Duration::ZERO
}
