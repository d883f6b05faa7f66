//! The locks of calls, and how they hold for all instances.
//!
//! Within an instance calls stand in line; whoever comes first there asks the store for the lock. Between instances there is no line: who
//! asks while the lock is free gets it. An instance that dies frees its locks.

use std::{sync::Arc, time::Duration};

use fermata_tools::{Guard, ResourceKey};
use tokio::{
    sync::{Mutex, mpsc},
    time::sleep,
};

use crate::engine::Inner;

/// How long to wait before asking again for a lock that another instance has, or giving back one when the store could not be reached.
const PAUSE: Duration = Duration::from_millis(100);

/// The lock of a call, given back when it is dropped.
pub(crate) struct Lock {
    /// Taken out only by `drop`.
    near: Option<Guard<ResourceKey>>,
    /// Where it holds for other instances, too: who tells the store.
    free: Option<mpsc::UnboundedSender<Guard<ResourceKey>>>,
}

/// Locks on their way back to the store. The next in line here comes when they are there, so that of each lock there is one owner.
///
/// The channel is not bounded by itself, because a `Drop` cannot wait. What is in it are guards, and of each lock there is one guard at a
/// time: so it holds no more than there are locks that calls of this instance have begun to use.
pub(crate) struct LocksToFree {
    free: mpsc::UnboundedSender<Guard<ResourceKey>>,
    freed: Mutex<mpsc::UnboundedReceiver<Guard<ResourceKey>>>,
}

// === impl Lock ===

impl Lock {
    /// One that this instance alone knows of.
    pub fn near(near: Guard<ResourceKey>) -> Self {
        Self { near: Some(near), free: None }
    }

    /// Waits until no other instance has the lock; `None` only where the server ends in the meantime.
    pub async fn everywhere(inner: &Arc<Inner>, near: Guard<ResourceKey>) -> Option<Self> {
        let mut lock = Self { near: Some(near), free: Some(inner.instances.locks.free.clone()) };
        loop {
            // A task of its own: where nobody waits any more, the lock must not be given back before the store has given it.
            let (store, me) = (inner.clone(), inner.instances.me.clone());
            let asked = inner.tasks.spawn(async move {
                let is_taken = match &lock.near {
                    Some(near) => store.store.try_lock(near.key(), &me).await,
                    None => Ok(false),
                };
                (lock, is_taken)
            });
            let is_taken;
            (lock, is_taken) = asked.await.ok()?;
            match is_taken {
                Ok(true) => return Some(lock),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "a lock that all instances share cannot be asked for"),
            }
            sleep(PAUSE).await;
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let (Some(near), Some(free)) = (self.near.take(), &self.free) {
            // Where nobody frees locks any more, the instance is ending, and its locks end with it.
            let _ = free.send(near);
        }
    }
}

// === impl LocksToFree ===

impl LocksToFree {
    pub fn new() -> Self {
        let (free, freed) = mpsc::unbounded_channel();
        Self { free, freed: Mutex::new(freed) }
    }
}

/// Gives locks back, until it is dropped.
pub(crate) async fn free_locks(inner: Arc<Inner>) {
    let mut freed = inner.instances.locks.freed.lock().await;
    while let Some(near) = freed.recv().await {
        while let Err(error) = inner.store.unlock(near.key(), &inner.instances.me).await {
            tracing::warn!(%error, "a lock that all instances share cannot be given back");
            sleep(PAUSE).await;
        }
    }
}
