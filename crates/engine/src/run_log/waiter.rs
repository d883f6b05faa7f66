//! Those that wait for a log to grow.
//!
//! They are woken for each delta of a model. So a waiter is made once for each reader of a log, and not for each wait as by
//! `tokio::sync::Notify`.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Context,
};

use futures::task::AtomicWaker;

use super::RunLog;

/// The waiters of a log.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    // The mutex is held for a few instructions, never while a task is woken or across an await.
    wakers: Mutex<Vec<Arc<AtomicWaker>>>,
}

/// A task that can wait for a log to grow or to end, until this is dropped.
pub(super) struct Waiter {
    pub log: Arc<RunLog>,
    waker: Arc<AtomicWaker>,
}

// === impl Waiters ===

impl Waiters {
    /// Wakes all that wait.
    pub fn wake(&self) {
        let waiters = self.lock().len();
        // From the last to the first: if one goes meanwhile, the last takes its place.
        for index in (0..waiters).rev() {
            let waker = self.lock().get(index).and_then(|waker| waker.take());
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<AtomicWaker>>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Waiter ===

impl Waiter {
    pub fn new(log: Arc<RunLog>) -> Self {
        let waker = Arc::<AtomicWaker>::default();
        log.waiters.lock().push(waker.clone());
        Self { log, waker }
    }

    /// Has the task woken when the log grows or ends from now on. The task must look at the log after this, so that it misses nothing.
    pub fn register(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut wakers = self.log.waiters.lock();
        if let Some(own) = wakers.iter().position(|waker| Arc::ptr_eq(waker, &self.waker)) {
            wakers.swap_remove(own);
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("run", &self.log.run).finish_non_exhaustive()
    }
}
