//! The parking lot: a place for each call that somebody outside has to do something about.
//!
//! A place is one end of a oneshot channel, and nothing else is kept here: what is asked, of whom, and what comes of the answer is for
//! others to know. Lots are not shared between chats, so no answer can stray into another one.
//!
//! Invariant: a place is left once, with an answer or without; whoever drops a [`PendingCall`] leaves it.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use dashmap::DashMap;
use fermata_protocol::{AnswerKind, ToolCallId};
use tokio::sync::oneshot;

/// The places of one chat.
#[derive(Clone, Debug)]
pub struct PendingCalls {
    // Sharded as little as the map allows: a lot holds a handful of calls, and there may be a hundred thousand lots.
    places: Arc<DashMap<ToolCallId, oneshot::Sender<AnswerKind>>>,
}

/// A place in the lot. Resolves to the answer; dropping it gives the place up.
#[derive(Debug)]
pub struct PendingCall {
    call: ToolCallId,
    answer: oneshot::Receiver<AnswerKind>,
    places: Arc<DashMap<ToolCallId, oneshot::Sender<AnswerKind>>>,
}

// === impl ParkingLot ===

impl PendingCalls {
    /// An empty lot.
    pub fn new() -> Self {
        Self { places: Arc::new(DashMap::with_capacity_and_shard_amount(0, 2)) }
    }

    /// Takes a place for the call. From here on it can be answered.
    ///
    /// A call that is parked already keeps its place: the new one resolves at once to nothing.
    pub fn park(&self, call: ToolCallId) -> PendingCall {
        let (sender, answer) = oneshot::channel();
        self.places.entry(call.clone()).or_insert(sender);
        PendingCall { call, answer, places: self.places.clone() }
    }

    /// Hands the answer to the call; gives it back where the call is not here, or has been given up.
    ///
    /// # Errors
    /// The answer, untaken.
    pub fn answer(&self, call: &ToolCallId, answer: AnswerKind) -> Result<(), AnswerKind> {
        match self.places.remove(call) {
            Some((_, place)) => place.send(answer),
            None => Err(answer),
        }
    }

    /// Takes a call's place away without an answer.
    pub fn release(&self, call: &ToolCallId) {
        self.places.remove(call);
    }

    /// How many calls wait here.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

impl Default for PendingCalls {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Parked ===

impl Future for PendingCall {
    type Output = Option<AnswerKind>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(Result::ok)
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        // Only the place whose sender is ours: closed by dropping the receiver.
        self.answer.close();
        self.places.remove_if(&self.call, |_, place| place.is_closed());
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
        assert!(pending_calls.is_empty(), "a was given up by dropping it");
    }

    #[tokio::test]
    async fn an_answer_before_anybody_looks_is_kept() {
        let pending_calls = PendingCalls::new();
        let parked = pending_calls.park(id("a"));
        pending_calls.answer(&id("a"), output(1)).unwrap();
        assert_eq!(pending_calls.len(), 0);
        assert_eq!(parked.await, Some(output(1)));
    }

    #[tokio::test]
    async fn an_answer_to_a_call_that_was_given_up_comes_back() {
        let pending_calls = PendingCalls::new();
        drop(pending_calls.park(id("a")));
        assert_eq!(pending_calls.answer(&id("a"), output(1)), Err(output(1)));
    }

    #[tokio::test]
    async fn an_answer_cannot_reach_another_lot() {
        let (one, other) = (PendingCalls::new(), PendingCalls::new());
        let parked = one.park(id("a"));
        assert_eq!(other.answer(&id("a"), output(1)), Err(output(1)));
        assert_eq!(parked.now_or_never(), None);
    }

    #[tokio::test]
    async fn parking_twice_does_not_steal_the_place() {
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
