//! A limited number of slots for work of one kind, shared fairly by owners.
//!
//! A call that gets no slot waits. Slots that become free go round the owners that wait, one each, so that an owner with a
//! hundred waiting calls takes no more turns than one with a single call. Within an owner the first to ask is the first to get one.
//!
//! Invariant: while somebody waits, either all slots are taken or every owner that waits has as many as an owner may have.

use std::{
    collections::{HashMap, VecDeque},
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::Owner;

/// The slots of one kind of work. Clones share them.
#[derive(Clone, Debug)]
pub struct Capacity {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The number of slots; `None`: no limit.
    total: Option<NonZeroUsize>,
    /// The number of slots that one owner may have at a time; `None`: no limit.
    per_owner: Option<NonZeroUsize>,
    /// Held for a few instructions, never across an await.
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    taken: usize,
    /// The owners that have a slot or wait for one.
    owners: HashMap<Owner, OwnerSlots>,
    /// The owners that wait, the next one first. Each is here once.
    turns: VecDeque<Owner>,
}

#[derive(Debug, Default)]
struct OwnerSlots {
    taken: usize,
    waiting: VecDeque<oneshot::Sender<Slot>>,
}

/// A slot, which is free again when this is dropped.
#[derive(Debug)]
pub struct Slot {
    shared: Arc<Shared>,
    owner: Owner,
}

/// A guard that lets others use a slot until it is dropped.
#[derive(Debug)]
pub struct LentSlot(Arc<Slot>);

/// A request for a slot.
#[derive(Debug)]
pub enum SlotRequest {
    /// There was a free one.
    Granted(Slot),
    /// The receiver gets one in its turn. Dropping it gives the request up.
    Queued(oneshot::Receiver<Slot>),
}

// === impl Capacity ===

impl Capacity {
    /// Returns slots that are all free.
    pub fn new(total: Option<NonZeroUsize>, per_owner: Option<NonZeroUsize>) -> Self {
        Self { shared: Arc::new(Shared { total, per_owner, slots: Mutex::default() }) }
    }

    /// Returns slots without a limit.
    pub fn unlimited() -> Self {
        Self::new(None, None)
    }

    /// Returns whether there is a limit at all.
    pub fn is_limited(&self) -> bool {
        self.shared.total.is_some() || self.shared.per_owner.is_some()
    }

    /// Requests a slot for an owner.
    pub fn request(&self, owner: &Owner) -> SlotRequest {
        let mut slots = self.shared.slots();
        let of_owner = slots.owners.entry(owner.clone()).or_default();
        let (sender, mut granted) = oneshot::channel();
        let is_first = of_owner.waiting.is_empty();
        of_owner.waiting.push_back(sender);
        if is_first {
            slots.turns.push_back(owner.clone());
        }
        self.shared.grant(slots);
        match granted.try_recv() {
            Ok(slot) => SlotRequest::Granted(slot),
            Err(_) => SlotRequest::Queued(granted),
        }
    }

    /// Waits for a slot for an owner. Dropping the future gives the request up.
    pub async fn acquire(&self, owner: &Owner) -> Slot {
        loop {
            match self.request(owner) {
                SlotRequest::Granted(slot) => return slot,
                SlotRequest::Queued(turn) => {
                    if let Ok(slot) = turn.await {
                        return slot;
                    }
                }
            }
        }
    }
}

// === impl Shared ===

impl Shared {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, slots: &mut Slots, owner: &Owner) {
        slots.taken += 1;
        slots.owners.entry(owner.clone()).or_default().taken += 1;
    }

    fn free(self: &Arc<Self>, owner: &Owner) {
        let mut slots = self.slots();
        slots.taken -= 1;
        if let Some(of_owner) = slots.owners.get_mut(owner) {
            of_owner.taken -= 1;
            if of_owner.taken == 0 && of_owner.waiting.is_empty() {
                slots.owners.remove(owner);
            }
        }
        self.grant(slots);
    }

    /// Hands out the free slots, one for each owner in turn.
    fn grant(self: &Arc<Self>, mut slots: MutexGuard<'_, Slots>) {
        // The slots of those who have gone must not be dropped while the mutex is held.
        let mut unclaimed = Vec::new();
        // The owners in a row that could not be given one.
        let mut passed = 0;
        while passed < slots.turns.len() && self.total.is_none_or(|total| slots.taken < total.get()) {
            let Some(owner) = slots.turns.pop_front() else { break };
            let Some(of_owner) = slots.owners.get_mut(&owner) else { continue };
            while of_owner.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                of_owner.waiting.pop_front();
            }
            if self.per_owner.is_some_and(|most| of_owner.taken >= most.get()) {
                if !of_owner.waiting.is_empty() {
                    slots.turns.push_back(owner);
                    passed += 1;
                }
                continue;
            }
            let next = of_owner.waiting.pop_front();
            if !of_owner.waiting.is_empty() {
                slots.turns.push_back(owner.clone());
            } else if next.is_none() && of_owner.taken == 0 {
                slots.owners.remove(&owner);
            }
            let Some(next) = next else { continue };
            self.take(&mut slots, &owner);
            passed = 0;
            let slot = Slot { shared: self.clone(), owner };
            unclaimed.extend(next.send(slot).err());
        }
        drop(slots);
        drop(unclaimed);
    }
}

// === impl Slot ===

impl Slot {
    /// Lets others use the slot, because its work waits for a person. Once the guard is dropped, the work goes on at once, even if all slots
    /// are taken by then.
    pub fn lend(self: &Arc<Self>) -> LentSlot {
        self.shared.free(&self.owner);
        LentSlot(self.clone())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shared.free(&self.owner);
    }
}

// === impl LentSlot ===

impl Drop for LentSlot {
    fn drop(&mut self) {
        let Slot { shared, owner } = &*self.0;
        shared.take(&mut shared.slots(), owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(total: usize, per_owner: usize) -> Capacity {
        Capacity::new(NonZeroUsize::new(total), NonZeroUsize::new(per_owner))
    }

    fn granted(request: SlotRequest) -> Slot {
        match request {
            SlotRequest::Granted(slot) => slot,
            SlotRequest::Queued(_) => panic!("no slot is free"),
        }
    }

    fn queued(request: SlotRequest) -> oneshot::Receiver<Slot> {
        match request {
            SlotRequest::Granted(_) => panic!("a slot is free"),
            SlotRequest::Queued(waiting) => waiting,
        }
    }

    #[test]
    fn slots_go_round_the_owners_that_wait() {
        let slots = capacity(1, 0);
        let (ada, bob) = (Owner::new("ada"), Owner::new("bob"));
        let mut taken = granted(slots.request(&ada));
        let mut waiting: Vec<_> = [&ada, &ada, &ada, &bob]
            .into_iter()
            .map(|owner| (owner.as_str(), queued(slots.request(owner))))
            .collect();
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(taken);
            let next = waiting.iter_mut().position(|(_, waiting)| !waiting.is_empty());
            let (owner, mut next) = waiting.remove(next.expect("somebody gets the slot"));
            order.push(owner);
            taken = next.try_recv().expect("it was sent");
        }
        assert_eq!(order, ["ada", "bob", "ada", "ada"]);
        drop(taken);
        assert!(slots.shared.slots().owners.is_empty(), "nothing is kept");
    }

    #[test]
    fn an_owner_has_no_more_than_its_share() {
        let slots = capacity(3, 2);
        let (ada, bob) = (Owner::new("ada"), Owner::new("bob"));
        let first = granted(slots.request(&ada));
        let _second = granted(slots.request(&ada));
        let mut third = queued(slots.request(&ada));
        let _of_bob = granted(slots.request(&bob));
        let mut more_of_bob = queued(slots.request(&bob));
        drop(first);
        assert!(third.try_recv().is_ok() != more_of_bob.try_recv().is_ok(), "one of them gets the one slot");
    }

    #[test]
    fn who_has_gone_is_passed_over() {
        let slots = capacity(1, 0);
        let ada = Owner::new("ada");
        let taken = granted(slots.request(&ada));
        drop(queued(slots.request(&ada)));
        let mut waits = queued(slots.request(&ada));
        drop(taken);
        drop(waits.try_recv().expect("its turn"));
        assert!(slots.shared.slots().owners.is_empty() && slots.shared.slots().taken == 0);
    }

    #[test]
    fn a_slot_is_lent_while_its_work_waits_for_a_person() {
        let slots = capacity(1, 1);
        let (ada, bob) = (Owner::new("ada"), Owner::new("bob"));
        let taken = Arc::new(granted(slots.request(&ada)));
        let mut waits = queued(slots.request(&bob));
        let lent = taken.lend();
        let of_bob = waits.try_recv().expect("it is free meanwhile");
        drop(lent);
        let mut third = queued(slots.request(&Owner::new("eve")));
        drop(taken);
        assert!(third.try_recv().is_err(), "the other one is still taken");
        drop(of_bob);
        assert!(third.try_recv().is_ok());
    }

    #[test]
    fn without_limits_nobody_waits() {
        let slots = capacity(0, 0);
        assert!(!slots.is_limited());
        let taken: Vec<Slot> = (0..100).map(|_| granted(slots.request(&Owner::anyone()))).collect();
        assert_eq!(taken.len(), 100);
    }
}
