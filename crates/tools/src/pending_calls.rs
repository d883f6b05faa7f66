//! Calls that wait for an answer from a browser or a person.
//!
//! This module only hands answers over. It does not know what a call asks for or what follows from its answer. Each chat has its own
//! [`PendingCalls`], so an answer cannot reach another chat's call.
//!
//! Invariant: a pending call is resolved at most once. Dropping a [`PendingCall`] removes it.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use dashmap::DashMap;
use fermata_protocol::{AnswerKind, ToolCallId};
use tokio::sync::oneshot;

/// The calls of one chat that wait for an answer. Clones share the calls.
#[derive(Clone, Debug)]
pub struct PendingCalls {
    // The map has as few shards as possible, because it holds a handful of calls and there may be a hundred thousand maps.
    senders: Arc<DashMap<ToolCallId, oneshot::Sender<AnswerKind>>>,
}

/// A call that waits for an answer.
///
/// The future resolves to the answer, or to `None` if the call was released. Dropping it removes the call.
#[derive(Debug)]
pub struct PendingCall {
    call: ToolCallId,
    answer: oneshot::Receiver<AnswerKind>,
    senders: Arc<DashMap<ToolCallId, oneshot::Sender<AnswerKind>>>,
}

// === impl PendingCalls ===

impl PendingCalls {
    /// Creates an empty set of calls.
    pub fn new() -> Self {
        Self { senders: Arc::new(DashMap::with_capacity_and_shard_amount(0, 2)) }
    }

    /// Registers a call. It can be answered as soon as this returns.
    ///
    /// If the call is pending already, the earlier [`PendingCall`] keeps waiting and the new one resolves to `None` at once.
    pub fn park(&self, call: ToolCallId) -> PendingCall {
        let (sender, answer) = oneshot::channel();
        self.senders.entry(call.clone()).or_insert(sender);
        PendingCall { call, answer, senders: self.senders.clone() }
    }

    /// Hands an answer to a call.
    ///
    /// # Errors
    /// Returns the answer if the call is not pending.
    pub fn answer(&self, call: &ToolCallId, answer: AnswerKind) -> Result<(), AnswerKind> {
        match self.senders.remove(call) {
            Some((_, sender)) => sender.send(answer),
            None => Err(answer),
        }
    }

    /// Removes a call without an answer.
    pub fn release(&self, call: &ToolCallId) {
        self.senders.remove(call);
    }

    /// Returns the number of pending calls.
    pub fn len(&self) -> usize {
        self.senders.len()
    }

    /// Returns whether no call is pending.
    pub fn is_empty(&self) -> bool {
        self.senders.is_empty()
    }
}

impl Default for PendingCalls {
    fn default() -> Self {
        Self::new()
    }
}

// === impl PendingCall ===

impl Future for PendingCall {
    type Output = Option<AnswerKind>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(Result::ok)
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        // Another `PendingCall` may have registered the call. Closing the receiver marks the sender that belongs to this one.
        self.answer.close();
        self.senders.remove_if(&self.call, |_, sender| sender.is_closed());
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    fn id(id: &str) -> ToolCallId {
        ToolCallId::new(id)
    }

    fn output(value: i32) -> AnswerKind {
        AnswerKind::Output { output: json!(value) }
    }

    #[tokio::test]
    async fn an_answer_reaches_its_call_and_only_the_first_does() {
        let pending_calls = PendingCalls::new();
        let (a, b) = (pending_calls.park(id("a")), pending_calls.park(id("b")));
        assert_eq!(pending_calls.answer(&id("b"), output(2)), Ok(()));
        assert_eq!(pending_calls.answer(&id("b"), output(3)), Err(output(3)));
        assert_eq!(b.await, Some(output(2)));
        assert_eq!(a.now_or_never(), None);
        assert!(pending_calls.is_empty(), "dropping a removed it");
    }

    #[tokio::test]
    async fn an_answer_that_comes_before_the_first_poll_is_kept() {
        let pending_calls = PendingCalls::new();
        let parked = pending_calls.park(id("a"));
        pending_calls.answer(&id("a"), output(1)).unwrap();
        assert_eq!(pending_calls.len(), 0);
        assert_eq!(parked.await, Some(output(1)));
    }

    #[tokio::test]
    async fn an_answer_to_a_call_that_was_dropped_comes_back() {
        let pending_calls = PendingCalls::new();
        drop(pending_calls.park(id("a")));
        assert_eq!(pending_calls.answer(&id("a"), output(1)), Err(output(1)));
    }

    #[tokio::test]
    async fn an_answer_cannot_reach_a_call_of_another_chat() {
        let (one, other) = (PendingCalls::new(), PendingCalls::new());
        let parked = one.park(id("a"));
        assert_eq!(other.answer(&id("a"), output(1)), Err(output(1)));
        assert_eq!(parked.now_or_never(), None);
    }

    #[tokio::test]
    async fn parking_a_call_twice_does_not_disturb_the_first() {
        let pending_calls = PendingCalls::new();
        let first = pending_calls.park(id("a"));
        assert_eq!(pending_calls.park(id("a")).await, None);
        pending_calls.answer(&id("a"), output(1)).unwrap();
        assert_eq!(first.await, Some(output(1)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_many_answers_and_a_deadline_exactly_one_wins() {
        for round in 0..200 {
            let pending_calls = PendingCalls::new();
            let parked = pending_calls.park(id("a"));
            let givers: Vec<_> = (0..4)
                .map(|n| {
                    let pending_calls = pending_calls.clone();
                    tokio::spawn(async move { pending_calls.answer(&id("a"), output(n)).is_ok() })
                })
                .collect();
            let taken = if round % 2 == 0 { parked.await } else { parked.now_or_never().flatten() };
            let mut accepted = 0;
            for giver in givers {
                accepted += usize::from(giver.await.unwrap());
            }
            assert!(accepted <= 1, "{accepted} answers were accepted");
            assert!(taken.is_none() || accepted == 1, "an answer was taken that nobody gave");
            assert!(round % 2 == 1 || taken.is_some(), "the call waited and got nothing");
        }
    }
}
