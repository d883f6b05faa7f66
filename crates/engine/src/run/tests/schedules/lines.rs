//! The lines for resources, with a record of who stands and who holds: it must agree with what the locks do.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use fermata_tools::{Guard, LockQueue, ResourceKey};
use futures::{
    FutureExt,
    future::{BoxFuture, Fuse},
};

/// The locks of a process.
#[derive(Default)]
pub(super) struct Lines {
    locks: LockQueue<ResourceKey>,
    record: RefCell<Record>,
}

#[derive(Default)]
struct Record {
    next: u64,
    waiting: BTreeMap<u64, ResourceKey>,
    held: HashMap<ResourceKey, u64>,
}

/// A place in line.
pub(super) struct Place {
    number: u64,
    key: ResourceKey,
    turn: Fuse<BoxFuture<'static, Option<Guard<ResourceKey>>>>,
    lines: Rc<Lines>,
}

/// A lock.
pub(super) struct Held {
    key: ResourceKey,
    lines: Rc<Lines>,
    _guard: Guard<ResourceKey>,
}

impl Lines {
    pub fn queue(self: &Rc<Self>, key: ResourceKey) -> Place {
        let mut record = self.record.borrow_mut();
        record.next += 1;
        let number = record.next;
        record.waiting.insert(number, key.clone());
        let turn = self.locks.enqueue(key.clone()).acquire().boxed().fuse();
        Place { number, key, turn, lines: self.clone() }
    }
}

impl Place {
    /// The lock, where it is its turn.
    pub fn turn(&mut self) -> Option<Held> {
        let guard = (&mut self.turn).now_or_never()?.expect("the locks are there");
        let mut record = self.lines.record.borrow_mut();
        record.waiting.remove(&self.number);
        let first = record.waiting.iter().find(|(_, key)| **key == self.key);
        assert!(first.is_none_or(|(number, _)| *number > self.number), "{:?} is out of order", self.key);
        let before = record.held.insert(self.key.clone(), self.number);
        assert!(before.is_none(), "{:?} is used twice at once", self.key);
        Some(Held { key: self.key.clone(), lines: self.lines.clone(), _guard: guard })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lines.record.borrow_mut().waiting.remove(&self.number);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.lines.record.borrow_mut().held.remove(&self.key);
    }
}
