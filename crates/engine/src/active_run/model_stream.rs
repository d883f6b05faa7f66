//! An answer of the model that is being streamed to the run.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::Happening;
use crate::{
    model::{ModelError, ModelEvent},
    refused::Search,
    step::collector::stream_ended_early,
};

/// The number of events of a model that are handled together at most. Providers join deltas that come together, so there are few.
const READY_EVENTS: usize = 16;

/// The events of an answer, as a model streams them.
type Events = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// An answer of the model that is being streamed.
pub(super) struct ModelStream {
    /// The name of the model.
    pub model: Arc<str>,
    pub answer: Answer,
    pub asked_at: Instant,
    pub last_event_at: Instant,
    /// The time of the last save of the answer so far.
    pub saved_at: Instant,
    /// `true` once a piece of an answer has come.
    pub has_begun: bool,
    /// The number of times that the step was asked for before, in vain.
    pub retries: u32,
    /// The number of times that the step was asked for before with a request that was too long.
    pub overflows: u32,
    /// The search for the parts of the chat that the provider refuses, if it has refused the step before.
    pub search: Option<Box<Search>>,
    /// About how many tokens the request has, if the size of the model's window is known.
    pub estimated: Option<u64>,
    pub span: Span,
}

/// The answer to a request.
pub(super) enum Answer {
    /// The model has not begun to answer.
    Asked(BoxFuture<'static, Result<Events, ModelError>>),
    Streams(Events),
    Over,
}

// === impl ModelStream ===

impl ModelStream {
    /// Waits for the model's next output. Cancel safe.
    pub async fn next(&mut self) -> Happening {
        let answer = &mut self.answer;
        let spoken = poll_fn(|context| answer.poll_next(context));
        // Entering the span costs a tenth of the work for a delta, so the model is in it only until its answer has begun.
        let (received, failure) =
            if self.has_begun { spoken.await } else { spoken.instrument(self.span.clone()).await };
        self.last_event_at = Instant::now();
        self.has_begun |= received.iter().any(|event| *event != ModelEvent::Alive);
        Happening::Model { received, failure }
    }
}

// === impl Answer ===

impl Answer {
    /// Returns the events that are there, with the failure after them, if there is one.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<(Vec<ModelEvent>, Option<ModelError>)> {
        let mut received = Vec::new();
        let failure = loop {
            let events = match self {
                Self::Asked(asked) => match ready!(asked.poll_unpin(context)) {
                    Ok(events) => {
                        *self = Self::Streams(events);
                        continue;
                    }
                    Err(error) => break error,
                },
                Self::Streams(events) => events,
                Self::Over => break stream_ended_early(),
            };
            match events.poll_next_unpin(context) {
                Poll::Pending if received.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready((received, None)),
                Poll::Ready(Some(Ok(event))) => {
                    received.push(event);
                    if received.len() >= READY_EVENTS {
                        return Poll::Ready((received, None));
                    }
                }
                Poll::Ready(Some(Err(error))) => break error,
                Poll::Ready(None) => {
                    *self = Self::Over;
                    if !received.is_empty() {
                        return Poll::Ready((received, None));
                    }
                }
            }
        };
        *self = Self::Over;
        Poll::Ready((received, Some(failure)))
    }
}
