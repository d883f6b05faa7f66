//! Locks per resource, first come, first served.
//!
//! A place in line is taken at once and without waiting ([`LockQueue::enqueue`]), so the order is the caller's. A call holds at
//! most one lock and takes it when it is about to run, never while it waits for a person: no circle can form.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot;

/// All locks, by key. Cheap to clone; a key that nobody holds costs nothing.
#[derive(Debug)]
pub struct LockQueue<K: Eq + Hash + Clone> {
    lines: Arc<Lines<K>>,
}

/// Who stands behind the holder of each key. Held for a few instructions, never across an await.
type Lines<K> = Mutex<HashMap<K, VecDeque<oneshot::Sender<Guard<K>>>>>;

/// A place in line.
#[derive(Debug)]
pub struct Waiter<K: Eq + Hash + Clone> {
    turn: Turn<K>,
}

#[derive(Debug)]
enum Turn<K: Eq + Hash + Clone> {
    Now(Guard<K>),
    Later(oneshot::Receiver<Guard<K>>),
}

/// The lock, held until it is dropped.
#[derive(Debug)]
pub struct Guard<K: Eq + Hash + Clone> {
    key: K,
    /// `None` where the lock is somebody else's to release.
    lines: Option<Arc<Lines<K>>>,
}

// === impl Locks ===

impl<K: Eq + Hash + Clone> LockQueue<K> {
    /// No locks held.
    pub fn new() -> Self {
        Self { lines: Arc::default() }
    }

    /// Stands in line for the key.
    pub fn enqueue(&self, key: K) -> Waiter<K> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        match lines.get_mut(&key) {
            Some(line) => {
                let (sender, turn) = oneshot::channel();
                line.push_back(sender);
                Waiter { turn: Turn::Later(turn) }
            }
            None => {
                lines.insert(key.clone(), VecDeque::new());
                Waiter { turn: Turn::Now(Guard { key, lines: Some(self.lines.clone()) }) }
            }
        }
    }
}

impl<K: Eq + Hash + Clone> Clone for LockQueue<K> {
    fn clone(&self) -> Self {
        Self { lines: self.lines.clone() }
    }
}

impl<K: Eq + Hash + Clone> Default for LockQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Ticket ===

impl<K: Eq + Hash + Clone> Waiter<K> {
    /// The lock, where it is free.
    ///
    /// # Errors
    /// The place in line, kept.
    pub fn try_acquire(self) -> Result<Guard<K>, Self> {
        match self.turn {
            Turn::Now(guard) => Ok(guard),
            Turn::Later(turn) => Err(Self { turn: Turn::Later(turn) }),
        }
    }

    /// Waits for the lock. `None` only where the locks themselves are gone.
    pub async fn acquire(self) -> Option<Guard<K>> {
        match self.turn {
            Turn::Now(guard) => Some(guard),
            Turn::Later(turn) => turn.await.ok(),
        }
    }
}

// === impl Guard ===

impl<K: Eq + Hash + Clone> Guard<K> {
    /// What it locks.
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K: Eq + Hash + Clone> Drop for Guard<K> {
    fn drop(&mut self) {
        let Some(lines) = self.lines.take() else { return };
        while let Some(next) = next_in_line(&lines, &self.key) {
            match next.send(Self { key: self.key.clone(), lines: Some(lines.clone()) }) {
                Ok(()) => return,
                // The one in line has left; the lock stays ours to pass on.
                Err(mut unwanted) => unwanted.lines = None,
            }
        }
    }
}

/// Who is next; where nobody is, the line is closed.
fn next_in_line<K: Eq + Hash + Clone>(lines: &Lines<K>, key: &K) -> Option<oneshot::Sender<Guard<K>>> {
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    let next = lines.get_mut(key)?.pop_front();
    if next.is_none() {
        lines.remove(key);
    }
    next
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_line_keeps_its_order_and_other_keys_do_not_wait() {
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
        assert!(locks.lines.lock().unwrap().is_empty(), "a key that nobody holds costs nothing");
    }

    #[tokio::test]
    async fn who_leaves_the_line_does_not_block_it() {
        let locks = LockQueue::new();
        let first = locks.enqueue("a").acquire().await.unwrap();
        let (second, third) = (locks.enqueue("a"), locks.enqueue("a"));
        drop(second);
        drop(first);
        assert!(third.acquire().now_or_never().flatten().is_some());
        assert!(locks.lines.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_lock_handed_to_somebody_who_leaves_is_passed_on() {
        let locks = LockQueue::new();
        let first = locks.enqueue("a").acquire().await.unwrap();
        let (second, third) = (locks.enqueue("a"), locks.enqueue("a"));
        drop(first);
        drop(second);
        assert!(third.acquire().now_or_never().flatten().is_some());
    }
}
