//! One question, asked until an answer comes or asking is of no use.
//!
//! Invariants: the request is sent at most three times, and never again once a piece of an answer has been passed on; a sign
//! of life is no such piece. An error is the last that comes.

use std::sync::{Arc, Mutex};

use async_openai::Client;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use fermata_engine::model::{ModelError, ModelEvent};
use fermata_tools::{ErrorPolicy, ErrorStrategy};
use secrecy::SecretString;
use serde_json::Value;

use super::{Endpoint, answer::Answer, chunk::Chunk, dialect::ReasoningField, failure::Failure};

/// A question that is being asked. Dropping it closes the connection.
pub(super) struct Asking {
    client: Client<Endpoint>,
    body: Value,
    reasoning_field: Arc<Mutex<ReasoningField>>,
    secrets: Vec<SecretString>,
    pauses: ExponentialBackoff,
    error_policy: ErrorPolicy,
    /// The answer to the last attempt.
    answer: Option<Answer>,
    /// Whether a piece of the answer has been passed on.
    has_begun: bool,
    is_over: bool,
}

/// When the question is asked again.
pub(super) struct Retrying {
    /// After which pauses.
    pub(super) pauses: ExponentialBuilder,
    /// After which failures.
    pub(super) error_policy: ErrorPolicy,
}

// === impl Asking ===

impl Asking {
    pub(super) fn new(
        client: Client<Endpoint>,
        body: Value,
        reasoning_field: Arc<Mutex<ReasoningField>>,
        secrets: Vec<SecretString>,
        Retrying { pauses, error_policy }: Retrying,
    ) -> Self {
        let pauses = pauses.build();
        let (answer, has_begun, is_over) = (None, false, false);
        Self { client, body, reasoning_field, secrets, pauses, error_policy, answer, has_begun, is_over }
    }

    /// The next event; none after the last.
    pub(super) async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        while !self.is_over {
            match self.attempt().await {
                Ok(event) => {
                    self.has_begun |= event.as_ref().is_some_and(|event| *event != ModelEvent::Alive);
                    self.is_over = event.is_none();
                    return event.map(Ok);
                }
                Err(failure) => {
                    if let Some(error) = self.bear(failure).await {
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }

    /// The next event of the answer, for which the request is sent where there is none yet.
    async fn attempt(&mut self) -> Result<Option<ModelEvent>, Failure> {
        let answer = match &mut self.answer {
            Some(answer) => answer,
            none => {
                let chunks = self.client.chat().create_stream_byot::<_, Chunk>(&self.body).await?;
                none.insert(Answer::new(chunks, Arc::clone(&self.reasoning_field)))
            }
        };
        answer.next().await.transpose()
    }

    /// Waits for the time to ask again, or tells the error where there is none.
    async fn bear(&mut self, failure: Failure) -> Option<ModelError> {
        self.answer = None;
        let pause = if self.has_begun { None } else { failure.pause(self.pauses.next()) };
        let error = failure.into_error(&self.secrets);
        let worth_it = self.error_policy.of(error.error_type()) == ErrorStrategy::Retry;
        let Some(pause) = pause.filter(|_| worth_it) else {
            self.is_over = true;
            return Some(error);
        };
        tracing::warn!(%error, ?pause, "asking the model again");
        tokio::time::sleep(pause).await;
        None
    }
}
