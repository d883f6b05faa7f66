//! The locks of the resources that calls use, and how they hold for all instances.
//!
//! Within an instance, calls queue up; the first of the queue asks the store for the lock. Between instances there is no queue: the first
//! to ask while the lock is free gets it. When an instance dies, its locks are free.

use std::{sync::Arc, time::Duration};

use fermata_tools::{Guard, LockQueue, ResourceKey};
use futures::{FutureExt, future::BoxFuture};
use tokio::{
    sync::{Mutex, mpsc},
    time::sleep,
};
use tokio_util::task::TaskTracker;

use crate::ports::store::{InstanceId, Store, StoreError};

/// The pause before asking again for a lock that another instance holds, or before trying again to release one.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The locks of resources.
pub(crate) struct ResourceLocks {
    queue: LockQueue<ResourceKey>,
    /// The locks of the store; `None` if there are no other instances.
    cluster: Option<Arc<ClusterLocks>>,
}

/// Locks that hold for all instances.
struct ClusterLocks {
    store: Arc<dyn Store>,
    instance: InstanceId,
    tasks: TaskTracker,
    /// Locks on their way back to the store. The next of the local queue is served when they are there, so each lock has one holder.
    ///
    /// The channel is not bounded, because `Drop` cannot wait. It holds guards, and there is one guard per lock at a time, so it holds no
    /// more than the locks that calls of this instance use.
    releases: mpsc::UnboundedSender<Guard<ResourceKey>>,
    released: Mutex<mpsc::UnboundedReceiver<Guard<ResourceKey>>>,
}

/// A request for a lock, which has its position in the queue.
pub(crate) enum LockRequest {
    Granted(ResourceLock),
    /// Resolves to `None` only if the server ends meanwhile.
    Queued(BoxFuture<'static, Option<ResourceLock>>),
}

/// The lock of a call, released when it is dropped.
pub(crate) struct ResourceLock {
    /// Taken out only by `drop`.
    guard: Option<Guard<ResourceKey>>,
    /// Releases the lock in the store, if it holds for other instances.
    cluster: Option<Arc<ClusterLocks>>,
}

// === impl ResourceLocks ===

impl ResourceLocks {
    /// Returns locks that hold for this instance alone.
    pub fn local() -> Self {
        Self { queue: LockQueue::new(), cluster: None }
    }

    /// Returns locks that hold for all instances that share the store. They are released by [`ResourceLocks::release_dropped`].
    pub fn of_cluster(store: Arc<dyn Store>, instance: InstanceId, tasks: TaskTracker) -> Self {
        let (releases, released) = mpsc::unbounded_channel();
        let cluster = ClusterLocks { store, instance, tasks, releases, released: Mutex::new(released) };
        Self { queue: LockQueue::new(), cluster: Some(Arc::new(cluster)) }
    }

    /// Takes a position in the queue for a resource.
    pub fn enqueue(&self, key: ResourceKey) -> LockRequest {
        let waiter = self.queue.enqueue(key);
        let Some(cluster) = self.cluster.clone() else {
            return match waiter.try_acquire() {
                Ok(guard) => LockRequest::Granted(ResourceLock { guard: Some(guard), cluster: None }),
                Err(waiter) => LockRequest::Queued(
                    async move {
                        let guard = waiter.acquire().await?;
                        Some(ResourceLock { guard: Some(guard), cluster: None })
                    }
                    .boxed(),
                ),
            };
        };
        LockRequest::Queued(async move { cluster.acquire(waiter.acquire().await?).await }.boxed())
    }

    /// Releases the locks that this instance holds according to the store, although no call of it does: the store has lost that they were
    /// released.
    pub async fn release_forgotten(&self) -> Result<(), StoreError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        for key in cluster.store.locks_of(&cluster.instance).await? {
            // The holder of the guard has the lock, or is about to ask for it or to release it.
            if let Ok(guard) = self.queue.enqueue(key).try_acquire() {
                drop(ResourceLock { guard: Some(guard), cluster: Some(cluster.clone()) });
            }
        }
        Ok(())
    }

    /// Releases locks in the store after their calls have dropped them, until it is dropped itself.
    pub async fn release_dropped(&self) {
        let Some(cluster) = &self.cluster else { return };
        let mut released = cluster.released.lock().await;
        while let Some(guard) = released.recv().await {
            while let Err(error) = cluster.store.unlock(guard.key(), &cluster.instance).await {
                tracing::warn!(instance = %cluster.instance, %error, "a lock could not be released in the store; trying again");
                sleep(RETRY_AFTER).await;
            }
        }
    }
}

// === impl ClusterLocks ===

impl ClusterLocks {
    /// Waits until no other instance holds the lock. Returns `None` only if the server ends meanwhile.
    async fn acquire(self: Arc<Self>, guard: Guard<ResourceKey>) -> Option<ResourceLock> {
        let mut lock = ResourceLock { guard: Some(guard), cluster: Some(self.clone()) };
        loop {
            // A task of its own: if the call stops waiting, the lock must not be released before the store has granted it.
            let cluster = self.clone();
            let attempt = self.tasks.spawn(async move {
                let granted = match &lock.guard {
                    Some(guard) => cluster.store.try_lock(guard.key(), &cluster.instance).await,
                    None => Ok(false),
                };
                (lock, granted)
            });
            let granted;
            (lock, granted) = attempt.await.ok()?;
            match granted {
                Ok(true) => return Some(lock),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(instance = %self.instance, %error, "a lock could not be acquired in the store; trying again");
                }
            }
            sleep(RETRY_AFTER).await;
        }
    }
}

// === impl ResourceLock ===

impl Drop for ResourceLock {
    fn drop(&mut self) {
        if let (Some(guard), Some(cluster)) = (self.guard.take(), &self.cluster) {
            // If locks are no longer released, this instance is ending, and its locks end with it.
            let _ = cluster.releases.send(guard);
        }
    }
}
