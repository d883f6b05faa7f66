//! Locks per resource, granted in the order they were asked for.
//!
//! [`LockQueue::enqueue`] does not wait, so the caller determines the order. A call holds at most one lock and takes it right before it
//! runs, never while it waits for a person, so calls cannot deadlock.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot;

/// Locks by key, each with a queue of waiters. Clones share the locks; a key that is not locked takes no memory.
#[derive(Debug)]
pub struct LockQueue<K: Eq + Hash + Clone> {
    queues: Arc<Queues<K>>,
}

/// The waiters of each locked key, the next one first. The mutex is held for a few instructions, never across an await.
type Queues<K> = Mutex<HashMap<K, VecDeque<oneshot::Sender<Guard<K>>>>>;

/// A request for a lock. Dropping it gives the request up.
#[derive(Debug)]
pub struct Waiter<K: Eq + Hash + Clone> {
    state: WaiterState<K>,
}

#[derive(Debug)]
enum WaiterState<K: Eq + Hash + Clone> {
    Granted(Guard<K>),
    Queued(oneshot::Receiver<Guard<K>>),
}

/// A lock that is held until the guard is dropped. Then the next waiter gets it.
#[derive(Debug)]
pub struct Guard<K: Eq + Hash + Clone> {
    key: K,
    /// `None` if dropping the guard must not release the lock.
    queues: Option<Arc<Queues<K>>>,
}

// === impl LockQueue ===

impl<K: Eq + Hash + Clone> LockQueue<K> {
    /// Creates a queue without locked keys.
    pub fn new() -> Self {
        Self { queues: Arc::default() }
    }

    /// Requests the lock of a key, after all waiters that are queued for it.
    pub fn enqueue(&self, key: K) -> Waiter<K> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let state = match queues.get_mut(&key) {
            Some(queue) => {
                let (sender, granted) = oneshot::channel();
                queue.push_back(sender);
                WaiterState::Queued(granted)
            }
            None => {
                queues.insert(key.clone(), VecDeque::new());
                WaiterState::Granted(Guard { key, queues: Some(self.queues.clone()) })
            }
        };
        Waiter { state }
    }
}

impl<K: Eq + Hash + Clone> Clone for LockQueue<K> {
    fn clone(&self) -> Self {
        Self { queues: self.queues.clone() }
    }
}

impl<K: Eq + Hash + Clone> Default for LockQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Waiter ===

impl<K: Eq + Hash + Clone> Waiter<K> {
    /// Returns the lock if it was free when it was requested.
    ///
    /// # Errors
    /// Returns the waiter, still in the queue, if it was not.
    pub fn try_acquire(self) -> Result<Guard<K>, Self> {
        match self.state {
            WaiterState::Granted(guard) => Ok(guard),
            WaiterState::Queued(_) => Err(self),
        }
    }

    /// Waits for the lock. Returns `None` only if the queue is gone.
    pub async fn acquire(self) -> Option<Guard<K>> {
        match self.state {
            WaiterState::Granted(guard) => Some(guard),
            WaiterState::Queued(granted) => granted.await.ok(),
        }
    }
}

// === impl Guard ===

impl<K: Eq + Hash + Clone> Guard<K> {
    /// Returns the key that the guard locks.
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K: Eq + Hash + Clone> Drop for Guard<K> {
    fn drop(&mut self) {
        let Some(queues) = self.queues.take() else { return };
        while let Some(waiter) = next_waiter(&queues, &self.key) {
            match waiter.send(Self { key: self.key.clone(), queues: Some(queues.clone()) }) {
                Ok(()) => return,
                // The waiter was dropped. The guard that comes back must not release the lock, because this loop passes it on.
                Err(mut unsent) => unsent.queues = None,
            }
        }
    }
}

/// Takes the next waiter of a key out of its queue, or unlocks the key if there is no waiter.
fn next_waiter<K: Eq + Hash + Clone>(queues: &Queues<K>, key: &K) -> Option<oneshot::Sender<Guard<K>>> {
    let mut queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
    let next = queues.get_mut(key)?.pop_front();
    if next.is_none() {
        queues.remove(key);
    }
    next
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_queue_keeps_its_order_and_other_keys_do_not_wait() {
        let locks = LockQueue::new();
        let first = locks.enqueue("a").acquire().now_or_never().flatten().unwrap();
        let (second, third) = (locks.enqueue("a"), locks.enqueue("a"));
        assert!(locks.enqueue("b").acquire().now_or_never().flatten().is_some());
        let mut third = Box::pin(third.acquire());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "the second is before the third");
        drop(second.acquire().now_or_never().flatten().unwrap());
        assert!(third.now_or_never().flatten().is_some());
        assert!(locks.queues.lock().unwrap().is_empty(), "a key that is not locked takes no memory");
    }

    #[tokio::test]
    async fn a_waiter_that_was_dropped_does_not_block_the_queue() {
        let locks = LockQueue::new();
        let first = locks.enqueue("a").acquire().await.unwrap();
        let (second, third) = (locks.enqueue("a"), locks.enqueue("a"));
        drop(second);
        drop(first);
        assert!(third.acquire().now_or_never().flatten().is_some());
        assert!(locks.queues.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_lock_granted_to_a_waiter_that_is_dropped_is_passed_on() {
        let locks = LockQueue::new();
        let first = locks.enqueue("a").acquire().await.unwrap();
        let (second, third) = (locks.enqueue("a"), locks.enqueue("a"));
        drop(first);
        drop(second);
        assert!(third.acquire().now_or_never().flatten().is_some());
    }
}
