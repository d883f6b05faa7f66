//! Has a model write a summary of the first messages of a chat.
//!
//! The result is handed back, and nothing of the chat is changed here. What it costs is bounded: the messages that a question has, the
//! number of questions, and the time.

use std::{sync::Arc, time::Duration};

use fermata_protocol::{ChatId, Role, UiMessage, UiPart};
use futures::StreamExt;
use serde_json::Map;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::{
    assistants::ModelChoice,
    call_settings::call_settings,
    context::Window,
    model::{ModelError, ModelEvent, ModelRequest, Usage},
    model_metrics::record_model_call,
    services::Services,
    store::StoreError,
    summary::{Covered, SummaryPlan, SummaryQuestion, WrittenSummary, ask_again, question, read_answer},
    tokens,
};

/// The time that all questions for one summary may take.
const TIMEOUT: Duration = Duration::from_secs(90);
/// The number of tokens of a question at most, and if the size of the model's window is not known.
const MOST_TOKENS: u64 = 64_000;
const USUAL_TOKENS: u64 = 16_000;
/// The number of times that a question is shortened because the provider has refused it for its length.
const MAX_OVERFLOWS: u32 = 3;
/// The length of an answer at most, in bytes.
const ANSWER_BYTES: usize = 64_000;

/// The reason for which no summary was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("no turn ends before the messages that are to be kept")]
    NothingToCover,
    #[error("{0}")]
    Model(#[from] ModelError),
    #[error("the model gave no summary, also when it was asked again")]
    NoSummary,
    #[error("the model took longer than {} s", TIMEOUT.as_secs())]
    Timeout,
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// Writes a summary.
pub(crate) async fn write(
    services: Arc<Services>,
    chat: ChatId,
    plan: SummaryPlan,
) -> Result<WrittenSummary, WriteError> {
    let reason = plan.reason;
    let written = match timeout(TIMEOUT, ask(&services, &chat, plan)).await {
        Ok(written) => written,
        Err(_) => Err(WriteError::Timeout),
    };
    let outcome = match &written {
        Ok(_) => "done",
        Err(WriteError::NothingToCover) => return written,
        Err(error) => {
            tracing::warn!(%chat, reason = reason.as_str(), %error, "no summary was written; the chat stays as it was");
            "failed"
        }
    };
    metrics::counter!("fermata_compactions_total", "reason" => reason.as_str(), "outcome" => outcome)
        .increment(1);
    written
}

async fn ask(services: &Services, chat: &ChatId, plan: SummaryPlan) -> Result<WrittenSummary, WriteError> {
    let SummaryPlan { reason, previous, most, rest, assistant, model, wishes } = plan;
    let policies = services.policies.current();
    let choice = match &policies.assistants.summary_model {
        Some(choice) => choice,
        None => policies.assistant(assistant.as_deref()).model(model.as_deref()),
    };
    let begin = previous.as_ref().map_or(0, |covered| covered.messages);
    // With the message after them, which tells whether a turn ends there.
    let last = if rest.is_some() { usize::MAX } else { most.saturating_add(1) };
    let read = services.store.messages_at(chat, begin..last).await?;
    let most = end_for(&read, most.saturating_sub(begin), rest);
    let is_end =
        |count: usize| count <= most && read.get(count).is_some_and(|message| message.role == Role::User);
    let mut most_tokens = match choice.context {
        Some(context) => Window::new(context, 0.5).compact_at.min(MOST_TOKENS),
        None => USUAL_TOKENS,
    };
    let mut overflows = 0;
    let (summary, messages) = loop {
        let Some(SummaryQuestion { mut request, messages }) =
            question(previous.as_ref(), &read, is_end, wishes.as_deref(), most_tokens)
        else {
            return Err(WriteError::NothingToCover);
        };
        request.settings = call_settings(&Map::new(), choice, services.settings.limits.output_tokens);
        request.error_policy = policies.rules.error_policy.clone();
        match answer(choice, request, previous.as_ref()).await {
            Ok(summary) => break (summary, messages),
            Err(WriteError::Model(ModelError::TooLong(_))) if overflows < MAX_OVERFLOWS => {
                overflows += 1;
                most_tokens /= 2;
            }
            Err(error) => return Err(error),
        }
    };
    let mut instructions = previous.map(|covered| covered.instructions).unwrap_or_default();
    for message in read[..messages].iter().filter(|message| message.role == Role::System) {
        instructions.extend(message.parts.iter().filter_map(UiPart::as_text).map(str::to_owned));
    }
    Ok(WrittenSummary {
        covered: Covered {
            messages: begin + messages,
            up_to: read[messages - 1].id.clone(),
            summary,
            instructions,
        },
        reason,
        model: choice.model.name().to_owned(),
        has_more: (messages + 1..=most).any(is_end),
    })
}

/// Returns how many of these messages are to be covered at most, so that the rest has no more tokens than it may have.
fn end_for(messages: &[UiMessage], most: usize, rest: Option<u64>) -> usize {
    let Some(rest) = rest else { return most };
    let mut tokens = 0;
    for (index, message) in messages.iter().enumerate().rev() {
        tokens += tokens::of_text(&serde_json::to_string(message).unwrap_or_default());
        if tokens > rest {
            return most.min(index + 1);
        }
    }
    0
}

/// Returns the model's summary. If it answers something else, it is asked once more.
async fn answer(
    choice: &ModelChoice,
    request: ModelRequest,
    previous: Option<&Covered>,
) -> Result<fermata_protocol::Summary, WriteError> {
    let span = || {
        tracing::info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.request.model = choice.model.name(),
            fermata.purpose = "summary",
        )
    };
    let first = text_of(choice, request.clone()).instrument(span()).await?;
    if let Some(summary) = read_answer(&first, previous) {
        return Ok(summary);
    }
    let second = text_of(choice, ask_again(request, first)).instrument(span()).await?;
    read_answer(&second, previous).ok_or(WriteError::NoSummary)
}

/// Returns the text of the model's answer.
async fn text_of(choice: &ModelChoice, request: ModelRequest) -> Result<String, ModelError> {
    let asked_at = Instant::now();
    let mut events = choice.model.stream(request).await?;
    let mut text = String::new();
    while let Some(event) = events.next().await {
        match event? {
            ModelEvent::Text(delta) => text.push_str(&delta),
            ModelEvent::Finished { usage, .. } => {
                let usage = usage.unwrap_or_default();
                record_model_call(choice.model.name(), asked_at.elapsed(), Usage::default(), usage);
                break;
            }
            ModelEvent::Alive
            | ModelEvent::Reasoning(_)
            | ModelEvent::CallStart { .. }
            | ModelEvent::CallDelta { .. }
            | ModelEvent::File { .. }
            | ModelEvent::Source { .. } => {}
        }
        if text.len() > ANSWER_BYTES {
            break;
        }
    }
    Ok(text)
}
