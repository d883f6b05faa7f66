//! The chains of the audit: where the next row of this process goes.
//!
//! Each row has its place in a chain and the hash of the row before it. A chain belongs to one start of a process, so instances do not
//! wait for one another. SQLite has one connection that writes, and one chain. Transactions of PostgreSQL run at the same time, so each
//! takes a chain that no other one has, and gives it back with its end.
//!
//! Invariants: one transaction at a time extends a chain; the head of a chain that can be taken is committed; a chain whose
//! transaction has an unknown outcome is not extended any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The end of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The number of rows in the chain, which is the position of the next one.
    pub count: i64,
    /// The hash of the last row; `None` if there is none.
    pub hash: Option<String>,
}

/// A chain that a transaction extends.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The name of the chain, which no other chain in the database has.
    pub name: Arc<str>,
    /// The head, with the rows of the transaction; `None` if only the database knows it.
    pub head: Option<Head>,
}

/// The chains of a process that uses PostgreSQL. Clones share them.
#[derive(Clone, Debug)]
pub struct Chains(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: String,
    /// By their numbers. Held for a look or a change.
    chains: Mutex<Vec<Member>>,
}

#[derive(Debug)]
struct Member {
    /// The head that is known to be committed.
    head: Head,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Leased,
    /// A transaction may have extended the chain or not.
    Abandoned,
}

/// A chain while a transaction has it. Dropping it is the end of a transaction that was not committed.
#[derive(Debug)]
pub struct Lease {
    chains: Chains,
    number: usize,
    is_in_doubt: bool,
    /// The chain, with the rows of the transaction.
    pub chain: Chain,
}

/// Returns a name for this start of the process, which no other one has.
pub fn draw_start() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

fn name(start: &str, number: usize) -> Arc<str> {
    format!("{start}.{number}").into()
}

// === impl Chain ===

impl Chain {
    /// Returns the only chain of a start. The database knows if it has rows.
    pub fn only(start: &str) -> Self {
        Self { name: name(start, 0), head: None }
    }
}

// === impl Chains ===

impl Chains {
    /// Returns the chains of a new start. None has a row yet.
    pub fn new(start: String) -> Self {
        Self(Arc::new(Shared { start, chains: Mutex::default() }))
    }

    /// Takes the free chain with the lowest number, or a new one. Few chains make long ones.
    pub fn lease(&self) -> Lease {
        let mut chains = self.lock();
        let number = chains.iter().position(|chain| chain.state == State::Free).unwrap_or_else(|| {
            chains.push(Member { head: Head::default(), state: State::Free });
            chains.len() - 1
        });
        chains[number].state = State::Leased;
        let chain = Chain { name: name(&self.0.start, number), head: Some(chains[number].head.clone()) };
        Lease { chains: self.clone(), number, is_in_doubt: false, chain }
    }

    /// Returns the chains with the heads that are known to be committed.
    pub fn heads(&self) -> Vec<(Arc<str>, Head)> {
        let heads = self.lock().iter().map(|chain| chain.head.clone()).enumerate().collect::<Vec<_>>();
        heads.into_iter().map(|(number, head)| (name(&self.0.start, number), head)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Member>> {
        self.0.chains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Lease ===

impl Lease {
    /// Notes that the database may commit from now on.
    pub fn doubt(&mut self) {
        self.is_in_doubt = true;
    }

    /// Gives the chain back after the transaction was undone.
    pub fn undone(mut self) {
        self.is_in_doubt = false;
    }

    /// Gives the chain back with the rows of the transaction.
    pub fn committed(mut self) {
        self.is_in_doubt = false;
        if let Some(head) = self.chain.head.take() {
            self.chains.lock()[self.number].head = head;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let state = if self.is_in_doubt { State::Abandoned } else { State::Free };
        self.chains.lock()[self.number].state = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extend(lease: &mut Lease, hash: &str) {
        let head = lease.chain.head.as_mut().unwrap();
        *head = Head { count: head.count + 1, hash: Some(hash.into()) };
    }

    #[test]
    fn a_chain_goes_on_from_its_committed_head_and_is_left_after_an_unknown_outcome() {
        let chains = Chains::new("s".into());
        let (mut first, second) = (chains.lease(), chains.lease());
        assert_eq!((&*first.chain.name, &*second.chain.name), ("s.0", "s.1"));
        extend(&mut first, "a");
        first.doubt();
        first.committed();

        let mut undone = chains.lease();
        assert_eq!(undone.chain.head, Some(Head { count: 1, hash: Some("a".into()) }));
        extend(&mut undone, "b");
        drop(undone);
        let mut refused = chains.lease();
        assert_eq!(refused.chain.head, Some(Head { count: 1, hash: Some("a".into()) }));
        extend(&mut refused, "b");
        refused.doubt();
        refused.undone();

        let mut unknown = chains.lease();
        assert_eq!((&*unknown.chain.name, unknown.chain.head.as_ref().unwrap().count), ("s.0", 1));
        extend(&mut unknown, "c");
        unknown.doubt();
        drop(unknown);
        assert_eq!(&*chains.lease().chain.name, "s.2");
        drop(second);
        assert_eq!(&*chains.lease().chain.name, "s.1");
    }
}
