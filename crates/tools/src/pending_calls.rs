//! Calls and questions that wait for an answer from a browser or a person.
//!
//! This module is nothing but the rendezvous: it hands an answer to the waiting call. It does not know what a call asks for or what
//! follows from its answer. Each chat has its own [`PendingCalls`], so an answer cannot reach another chat's call.
//!
//! Invariant: a parked call is resolved at most once. Dropping a [`PendingCall`] removes it.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use dashmap::DashMap;
use fermata_protocol::AnswerTarget;
use tokio::sync::oneshot;

/// The calls and questions of one chat that wait for an answer. Clones share them.
#[derive(Debug)]
pub struct PendingCalls<A> {
    // The map has as few shards as possible, because it holds a handful of calls and there may be a hundred thousand maps.
    by_target: Arc<DashMap<AnswerTarget, oneshot::Sender<A>>>,
}

/// Something that waits for an answer.
///
/// The future resolves to the answer, or to `None` if the call was released. Dropping it removes the call.
#[derive(Debug)]
pub struct PendingCall<A> {
    target: AnswerTarget,
    answer: oneshot::Receiver<A>,
    by_target: Arc<DashMap<AnswerTarget, oneshot::Sender<A>>>,
}

// === impl PendingCalls ===

impl<A> PendingCalls<A> {
    /// Creates an empty set of calls.
    pub fn new() -> Self {
        Self { by_target: Arc::new(DashMap::with_capacity_and_shard_amount(0, 2)) }
    }

    /// Registers a call or question. It can be answered as soon as this returns.
    ///
    /// If it is pending already, the earlier [`PendingCall`] keeps waiting and the new one resolves to `None` at once.
    pub fn park(&self, target: AnswerTarget) -> PendingCall<A> {
        let (sender, answer) = oneshot::channel();
        self.by_target.entry(target.clone()).or_insert(sender);
        PendingCall { target, answer, by_target: self.by_target.clone() }
    }

    /// Hands an answer to what waits for it, which is not pending any more.
    ///
    /// # Errors
    /// Returns the answer if nothing waits for it.
    pub fn resolve(&self, target: &AnswerTarget, answer: A) -> Result<(), A> {
        match self.by_target.remove(target) {
            Some((_, sender)) => sender.send(answer),
            None => Err(answer),
        }
    }

    /// Releases what no longer waits, without an answer.
    pub fn retain(&self, mut waits: impl FnMut(&AnswerTarget) -> bool) {
        self.by_target.retain(|target, _| waits(target));
    }

    /// Returns whether an answer to this target would be handed over.
    pub fn contains(&self, target: &AnswerTarget) -> bool {
        self.by_target.contains_key(target)
    }
}

impl<A> Clone for PendingCalls<A> {
    fn clone(&self) -> Self {
        Self { by_target: self.by_target.clone() }
    }
}

impl<A> Default for PendingCalls<A> {
    fn default() -> Self {
        Self::new()
    }
}

// === impl PendingCall ===

impl<A> Future for PendingCall<A> {
    type Output = Option<A>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(Result::ok)
    }
}

impl<A> Drop for PendingCall<A> {
    fn drop(&mut self) {
        // Another `PendingCall` may have registered the target. Closing the receiver marks the sender that belongs to this one.
        self.answer.close();
        self.by_target.remove_if(&self.target, |_, sender| sender.is_closed());
    }
}

#[cfg(test)]
mod tests {
    use fermata_protocol::ToolCallId;
    use futures::FutureExt;

    use super::*;

    fn call(id: &str) -> AnswerTarget {
        AnswerTarget::Call(ToolCallId::new(id))
    }

    #[tokio::test]
    async fn an_answer_reaches_its_call_and_only_the_first_does() {
        let pending_calls = PendingCalls::new();
        let (a, b) = (pending_calls.park(call("a")), pending_calls.park(call("b")));
        assert_eq!(pending_calls.resolve(&call("b"), 2), Ok(()));
        assert_eq!(pending_calls.resolve(&call("b"), 3), Err(3));
        assert_eq!(b.await, Some(2));
        assert_eq!(a.now_or_never(), None);
        assert!(pending_calls.by_target.is_empty(), "dropping a removed it");
    }

    #[tokio::test]
    async fn an_answer_that_comes_before_the_first_poll_is_kept() {
        let pending_calls = PendingCalls::new();
        let parked = pending_calls.park(call("a"));
        pending_calls.resolve(&call("a"), 1).unwrap();
        assert!(!pending_calls.contains(&call("a")));
        assert_eq!(parked.await, Some(1));
    }

    #[tokio::test]
    async fn an_answer_to_a_call_that_was_dropped_or_released_comes_back() {
        let pending_calls = PendingCalls::new();
        drop(pending_calls.park(call("a")));
        assert_eq!(pending_calls.resolve(&call("a"), 1), Err(1));
        let (a, b) = (pending_calls.park(call("a")), pending_calls.park(call("b")));
        pending_calls.retain(|target| *target == call("b"));
        assert_eq!(pending_calls.resolve(&call("a"), 1), Err(1));
        assert_eq!(a.await, None);
        pending_calls.resolve(&call("b"), 2).unwrap();
        assert_eq!(b.await, Some(2));
    }

    #[tokio::test]
    async fn an_answer_cannot_reach_a_call_of_another_chat() {
        let (one, other) = (PendingCalls::new(), PendingCalls::new());
        let parked: PendingCall<i32> = one.park(call("a"));
        assert_eq!(other.resolve(&call("a"), 1), Err(1));
        assert_eq!(parked.now_or_never(), None);
    }

    #[tokio::test]
    async fn parking_a_call_twice_does_not_disturb_the_first() {
        let pending_calls = PendingCalls::new();
        let first = pending_calls.park(call("a"));
        assert_eq!(pending_calls.park(call("a")).await, None);
        pending_calls.resolve(&call("a"), 1).unwrap();
        assert_eq!(first.await, Some(1));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_many_answers_and_a_deadline_exactly_one_wins() {
        for round in 0..200 {
            let pending_calls = PendingCalls::new();
            let parked = pending_calls.park(call("a"));
            let senders: Vec<_> = (0..4)
                .map(|n| {
                    let pending_calls = pending_calls.clone();
                    tokio::spawn(async move { pending_calls.resolve(&call("a"), n).is_ok() })
                })
                .collect();
            let received = if round % 2 == 0 { parked.await } else { parked.now_or_never().flatten() };
            let mut accepted = 0;
            for sender in senders {
                accepted += usize::from(sender.await.unwrap());
            }
            assert!(accepted <= 1, "{accepted} answers were accepted");
            assert!(received.is_none() || accepted == 1, "an answer was received that nobody sent");
            assert!(round % 2 == 1 || received.is_some(), "the call waited and got nothing");
        }
    }
}
