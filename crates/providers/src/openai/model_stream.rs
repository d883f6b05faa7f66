//! One call of the model: the request is sent until there is an answer, or until sending it again is of no use.
//!
//! Invariants: the request is sent at most three times, and never again once a piece of an answer has been passed on; a sign
//! of life is no such piece. If the provider ends its answer before the first piece twice in a row, sending the same request again is of no
//! use, because some providers do so if it is too long. Nothing comes after an error.

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use fermata_engine::model::{ModelError, ModelEvent};
use fermata_tools::{ErrorPolicy, ErrorStrategy};
use secrecy::SecretString;
use serde_json::value::RawValue;

use super::{
    answer::Answer,
    dialect::{LastReasoningField, Origin},
    provider_metadata::mark,
    tool_names::ToolNames,
    transport::Transport,
};

/// The events of one call of the model. Dropping it closes the connection.
pub(super) struct ModelStream {
    request: Request,
    pauses: ExponentialBackoff,
    state: State,
    /// `true` if the last answer ended before its first piece.
    had_no_answer: bool,
}

/// Everything that stays the same from one attempt to the next.
pub(super) struct Request {
    pub(super) transport: Transport,
    pub(super) body: Box<RawValue>,
    /// The header of that name.
    pub(super) traceparent: Option<String>,
    /// The URL of the API for errors, without its query.
    pub(super) url: String,
    pub(super) last_reasoning_field: LastReasoningField,
    /// Noted with the metadata that the provider wants back.
    pub(super) origin: Origin,
    pub(super) names: ToolNames,
    /// The texts that are removed from every error.
    pub(super) secrets: Vec<SecretString>,
    /// The request is sent again only after failures that have [`ErrorStrategy::Retry`] here.
    pub(super) error_policy: ErrorPolicy,
}

enum State {
    /// The request is to be sent, for the first time or again.
    Unsent,
    /// The answer is read. `has_begun` is true once a piece of it has been passed on.
    Reading { answer: Box<Answer>, has_begun: bool },
    /// The answer or an error has ended the stream.
    Closed,
}

// === impl ModelStream ===

impl ModelStream {
    pub(super) fn new(request: Request, pauses: ExponentialBuilder) -> Self {
        Self { request, pauses: pauses.build(), state: State::Unsent, had_no_answer: false }
    }

    /// Returns the body of the request.
    pub(super) fn body(&self) -> &str {
        self.request.body.get()
    }

    /// Returns the next event, and `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            let (failure, may_retry) = match &mut self.state {
                State::Unsent => {
                    let field = self.request.last_reasoning_field.clone();
                    // On the heap, because each delta would have to step over it otherwise.
                    let Request { transport, body, traceparent, .. } = &self.request;
                    match Box::pin(transport.ask(body, traceparent.as_deref(), field)).await {
                        Ok(answer) => {
                            self.state = State::Reading { answer: Box::new(answer), has_begun: false };
                            continue;
                        }
                        Err(failure) => (failure, true),
                    }
                }
                State::Reading { answer, has_begun } => match answer.next().await {
                    Some(Ok(mut event)) => {
                        match &mut event {
                            ModelEvent::ProviderMetadata { metadata, .. } => {
                                mark(metadata, &self.request.origin);
                            }
                            ModelEvent::CallStart { tool, .. } => {
                                if let Some(own) = self.request.names.own(tool) {
                                    *tool = own.to_owned();
                                }
                            }
                            _ => {}
                        }
                        *has_begun |= event != ModelEvent::Alive;
                        return Some(Ok(event));
                    }
                    Some(Err(failure)) => (failure, !*has_begun),
                    None => {
                        self.state = State::Closed;
                        return None;
                    }
                },
                State::Closed => return None,
            };
            let has_no_answer = matches!(self.state, State::Reading { has_begun: false, .. })
                && failure.is_broken_connection();
            let failure =
                if has_no_answer && self.had_no_answer { failure.without_answer() } else { failure };
            self.had_no_answer = has_no_answer;
            let pause = if may_retry { failure.pause(self.pauses.next()) } else { None };
            let error = failure.into_error(&self.request.url, &self.request.secrets);
            let is_worth_it = self.request.error_policy.of(error.error_type()) == ErrorStrategy::Retry;
            match pause {
                Some(pause) if is_worth_it => {
                    tracing::warn!(%error, ?pause, "the request to the model failed and will be sent again");
                    self.state = State::Unsent;
                    tokio::time::sleep(pause).await;
                }
                _ => {
                    self.state = State::Closed;
                    return Some(Err(error));
                }
            }
        }
    }
}
