//! The locks of resources, with a record of who waits for and who holds them, which must agree with the queue.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use fermata_tools::{Guard, LockQueue, ResourceKey};
use futures::{
    FutureExt,
    future::{BoxFuture, Fuse as FusedFuture},
};

/// The locks of a process.
#[derive(Default)]
pub(super) struct RecordedLocks {
    queue: LockQueue<ResourceKey>,
    record: RefCell<Record>,
}

#[derive(Default)]
struct Record {
    next: u64,
    waiting: BTreeMap<u64, ResourceKey>,
    held: HashMap<ResourceKey, u64>,
}

/// A waiter for a lock.
pub(super) struct RecordedWaiter {
    number: u64,
    key: ResourceKey,
    grant: FusedFuture<BoxFuture<'static, Option<Guard<ResourceKey>>>>,
    locks: Rc<RecordedLocks>,
}

/// The guard of a lock.
pub(super) struct RecordedGuard {
    key: ResourceKey,
    locks: Rc<RecordedLocks>,
    _guard: Guard<ResourceKey>,
}

impl RecordedLocks {
    pub fn enqueue(self: &Rc<Self>, key: ResourceKey) -> RecordedWaiter {
        let mut record = self.record.borrow_mut();
        record.next += 1;
        let number = record.next;
        record.waiting.insert(number, key.clone());
        let grant = self.queue.enqueue(key.clone()).acquire().boxed().fuse();
        RecordedWaiter { number, key, grant, locks: self.clone() }
    }
}

impl RecordedWaiter {
    /// Returns the lock if it is granted.
    pub fn try_acquire(&mut self) -> Option<RecordedGuard> {
        let guard = (&mut self.grant).now_or_never()?.expect("the locks are there");
        let mut record = self.locks.record.borrow_mut();
        record.waiting.remove(&self.number);
        let first = record.waiting.iter().find(|(_, key)| **key == self.key);
        assert!(first.is_none_or(|(number, _)| *number > self.number), "{:?} is out of order", self.key);
        let before = record.held.insert(self.key.clone(), self.number);
        assert!(before.is_none(), "{:?} is used twice at once", self.key);
        Some(RecordedGuard { key: self.key.clone(), locks: self.locks.clone(), _guard: guard })
    }
}

impl Drop for RecordedWaiter {
    fn drop(&mut self) {
        self.locks.record.borrow_mut().waiting.remove(&self.number);
    }
}

impl Drop for RecordedGuard {
    fn drop(&mut self) {
        self.locks.record.borrow_mut().held.remove(&self.key);
    }
}
