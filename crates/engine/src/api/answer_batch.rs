//! Answers on their way from an endpoint to the run that waits for them.
//!
//! The endpoint finds the waiting calls in the chat's [`PendingCalls`], checks inputs and contents against the schemas that it finds there,
//! and hands the batch over. The active run awaits it and replies. A batch is accepted as a whole or not at all.

use std::{net::IpAddr, sync::Arc};

use fermata_protocol::{Answer, AnswerKind, ElicitAction};
use fermata_tools::{Checker, DecisionChannel, Owner, PendingCalls, Receipt};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::{
    api::{
        errors::AnswerError,
        request::{AnswerRequest, ChatRequest},
    },
    settings::Limits,
};

/// Answers for calls and questions of one chat.
pub(crate) struct AnswerBatch {
    pub owner: Owner,
    pub how: DecisionChannel,
    pub address: Option<IpAddr>,
    pub answers: Vec<Answer>,
    pub checked: Checked,
    /// Keeps the run in memory until the batch is handled, if it was resumed for this answer.
    #[expect(dead_code, reason = "it only has to be held")]
    pub pin: Option<RunPin>,
    /// Dropped without a reply if the batch was not handled; the endpoint looks again then.
    pub reply: oneshot::Sender<Result<Vec<Receipt>, AnswerError>>,
}

/// Keeps a run in memory for an endpoint that is about to hand answers over.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunPin(Arc<()>);

/// The result of checking inputs and contents against their schemas.
#[derive(Clone, Debug)]
pub(crate) enum Checked {
    Fits,
    /// One of them does not; the text says which and why.
    DoesNotFit(String),
    /// The schema of one of them is not known.
    Unknown,
}

/// Finds the calls and questions for which no answer could be handed over.
pub(crate) struct FindAnswered(pub AnswerRequest);

/// The reply to [`FindAnswered`].
pub(crate) enum Answered {
    /// All of the answers were given before.
    Repeated(Vec<Receipt>),
    /// Some of the calls and questions wait for an answer, which can be handed over.
    Pending(RunPin),
}

impl ChatRequest for FindAnswered {
    type Reply = Answered;
    type Error = AnswerError;

    fn owner(&self) -> &Owner {
        &self.0.owner
    }

    fn denied() -> Result<Answered, AnswerError> {
        Err(AnswerError::no_such_chat())
    }
}

// === impl RunPin ===

impl RunPin {
    /// Returns whether somebody else holds the pin.
    pub fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

// === impl AnswerBatch ===

impl AnswerBatch {
    /// Hands answers over, if one of their targets is pending, and returns the receiver of the reply.
    pub async fn hand_over(
        answer: &AnswerRequest,
        pending: &PendingCalls<Self>,
        checker: &Arc<Checker>,
        limits: &Limits,
        pin: Option<RunPin>,
    ) -> Option<oneshot::Receiver<Result<Vec<Receipt>, AnswerError>>> {
        if !answer.answers.iter().any(|answer| pending.contains(&answer.of)) {
            return None;
        }
        let checked = check(&answer.answers, pending, checker, limits).await;
        let (reply, receiver) = oneshot::channel();
        let batch = Self {
            owner: answer.owner.clone(),
            how: answer.how,
            address: answer.address,
            answers: answer.answers.clone(),
            checked,
            pin,
            reply,
        };
        let targets = answer.answers.iter().map(|answer| &answer.of);
        pending.hand_over(targets, batch).ok()?;
        Some(receiver)
    }
}

/// Checks the inputs and contents of answers. This may take a while, in which the chat goes on.
async fn check(
    answers: &[Answer],
    pending: &PendingCalls<AnswerBatch>,
    checker: &Arc<Checker>,
    limits: &Limits,
) -> Checked {
    let (mut checks, mut subjects) = (Vec::new(), Vec::new());
    for answer in answers {
        let (value, subject) = match &answer.kind {
            AnswerKind::Decision { approved: true, input: Some(input), .. } => {
                (input.clone(), "The edited input does not fit the schema")
            }
            AnswerKind::Elicited { action: ElicitAction::Accept, content } => {
                let content = content.clone().unwrap_or_else(|| Value::Object(Map::new()));
                (content.into(), "The content does not fit what was asked for")
            }
            AnswerKind::Decision { .. }
            | AnswerKind::Elicited { .. }
            | AnswerKind::Output { .. }
            | AnswerKind::Failure { .. } => continue,
        };
        let Some(schema) = pending.schema(&answer.of) else { return Checked::Unknown };
        checks.push(schema.check(value));
        subjects.push(subject);
    }
    if checks.is_empty() {
        return Checked::Fits;
    }
    let results = checker.check_all(checks, limits.check_timeout).await;
    for (subject, result) in subjects.iter().zip(results) {
        if let Err(error) = result {
            return Checked::DoesNotFit(format!("{subject}: {error}."));
        }
    }
    Checked::Fits
}
