//! Has a model write a summary of the first messages of a chat, or note facts about the user in its last ones.
//!
//! The result is handed back, and nothing of the chat is changed here. Its cost is bounded: the messages that a question has, the number
//! of questions, and the time. This module does not know how many requests models may be answering; its callers wait for their turn.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use fermata_protocol::{ChatId, PlanState, Role, Summary, UiMessage, UiPart};
use futures::StreamExt;
use serde_json::Map;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, Span};

use crate::{
    assistants::{ModelChoice, call_settings::call_settings},
    context::{
        Window,
        summary::{
            ChatJob, Covered, MemoryPlan, SummaryPlan, SummaryQuestion, Written, WrittenSummary, ask_again,
            memory_question, question, read_answer,
        },
    },
    memories::extraction::{Extraction, words_of_user},
    model::{ModelError, ModelEvent, ModelRequest, Usage, metrics::record_model_call, tokens},
    ports::store::{
        Files, StoreError,
        memories::{Memory, MemoryChange},
    },
    services::{PolicySnapshot, Services},
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

/// The reason why no summary was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("no turn ends before the messages that are to be kept")]
    NothingToCover,
    #[error("{0}")]
    Model(#[from] ModelError),
    #[error("the model gave no summary, even when it was asked again")]
    NoSummary,
    #[error("the model took longer than {} s", TIMEOUT.as_secs())]
    Timeout,
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// Writes a summary. The caller holds a slot for requests to models; this function makes one request at a time.
pub(crate) async fn write(
    services: Arc<Services>,
    chat: ChatId,
    plan: SummaryPlan,
) -> Result<WrittenSummary, WriteError> {
    let reason = plan.reason;
    let model = choice(&services.policies.current(), plan.assistant.as_deref(), plan.model.as_deref())
        .model
        .name()
        .to_owned();
    let written = match timeout(TIMEOUT, ask(&services, &chat, plan)).await {
        Ok(written) => written,
        Err(_) => Err(WriteError::Timeout),
    };
    let outcome = match &written {
        Ok(_) => "done",
        Err(WriteError::NothingToCover) => return written,
        Err(error) => {
            let (error, reason) = (error.to_string(), reason.as_str());
            let key = format!("no summary {model} {reason}");
            services.repeated.log(&services.shutdown, key, move |times| {
                tracing::warn!(%chat, model, reason, error, times, "no summary was written; the chat stays as it was");
            });
            "failed"
        }
    };
    metrics::counter!("fermata_compactions_total", "reason" => reason.as_str(), "outcome" => outcome)
        .increment(1);
    written
}

/// Does the work for a chat, as [`write`] and [`note`] do it.
pub(crate) async fn work(services: Arc<Services>, chat: ChatId, job: ChatJob) -> Result<Written, WriteError> {
    match job {
        ChatJob::Summary(plan) => write(services, chat, plan).await.map(Written::Summary),
        ChatJob::Memories { memory, to, assistant, model } => {
            let policies = services.policies.current();
            let choice = choice(&policies, assistant.as_deref(), model.as_deref());
            let noted = timeout(TIMEOUT, note(&services, &policies, choice, &chat, &memory, to)).await;
            let memories = noted.unwrap_or(Err(WriteError::Timeout))?;
            Ok(Written::Memories { memories, to })
        }
    }
}

/// Asks a model for facts about the user in the messages of a chat, from where it was asked last up to `to`.
async fn note(
    services: &Services,
    policies: &PolicySnapshot,
    choice: &ModelChoice,
    chat: &ChatId,
    memory: &MemoryPlan,
    to: usize,
) -> Result<Vec<MemoryChange>, WriteError> {
    let read = services.store.messages_at(chat, memory.from..to, Files::ByName).await?;
    let messages: Vec<&UiMessage> =
        read.iter().filter(|message| !memory.unremembered.contains(&message.id)).collect();
    let said = words_of_user(&messages);
    if said.trim().is_empty() {
        return Ok(Vec::new());
    }
    let known = services.memories.known(&memory.owner, &said).await?;
    let mut request = memory_question(&messages, &known, most_tokens(choice));
    request.settings = call_settings(&Map::new(), choice, most_output(services, choice));
    request.error_policy = policies.rules.error_policy.clone();
    let text = text_of(choice, request).instrument(span(choice, "memory")).await?;
    Ok(extraction(services, policies, chat, memory, &known, &messages).changes(&text))
}

/// Returns the number of tokens of a question at most.
fn most_tokens(choice: &ModelChoice) -> u64 {
    match choice.context {
        Some(context) => Window::new(context, 0.5).compact_at.min(MOST_TOKENS),
        None => USUAL_TOKENS,
    }
}

/// Returns the number of tokens of an answer at most.
fn most_output(services: &Services, choice: &ModelChoice) -> Option<NonZeroU32> {
    let most = services.settings.limits.output_tokens;
    let Some(context) = choice.context else { return most };
    // The question has at most half of the window, and the second one repeats some of the answer.
    let quarter = NonZeroU32::new(context.get() / 4).unwrap_or(NonZeroU32::MIN);
    Some(most.map_or(quarter, |most| most.min(quarter)))
}

fn extraction<'a>(
    services: &'a Services,
    policies: &'a PolicySnapshot,
    chat: &'a ChatId,
    memory: &'a MemoryPlan,
    known: &'a [Memory],
    messages: &'a [&'a UiMessage],
) -> Extraction<'a> {
    Extraction {
        service: &services.memories,
        toolbox: &policies.toolbox,
        policy: policies.rules.policy.as_ref(),
        memory_writes: policies.rules.memory_writes,
        owner: &memory.owner,
        known,
        chat,
        messages,
    }
}

/// Returns the model that is asked.
fn choice<'a>(policies: &'a PolicySnapshot, assistant: Option<&str>, model: Option<&str>) -> &'a ModelChoice {
    match &policies.assistants.summary_model {
        Some(choice) => choice,
        None => policies.assistant(assistant).model(model),
    }
}

async fn ask(services: &Services, chat: &ChatId, plan: SummaryPlan) -> Result<WrittenSummary, WriteError> {
    let policies = services.policies.current();
    let choice = choice(&policies, plan.assistant.as_deref(), plan.model.as_deref());
    let SummaryPlan { reason, previous, most, rest, assistant: _, model: _, wishes, memory } = plan;
    let begin = previous.as_ref().map_or(0, |covered| covered.messages);
    // With the message after them, which tells whether a turn ends there.
    let last = if rest.is_some() { usize::MAX } else { most.saturating_add(1) };
    let read = services.store.messages_at(chat, begin..last, Files::ByName).await?;
    let most = end_for(&read, most.saturating_sub(begin), rest);
    let is_end =
        |count: usize| count <= most && read.get(count).is_some_and(|message| message.role == Role::User);
    let mut most_tokens = most_tokens(choice);
    // Nothing of what is not to be remembered may get into a memory, so its words and those of a summary of it stay out of the question.
    let is_unremembered =
        |message: &UiMessage| memory.as_ref().is_some_and(|memory| memory.unremembered.contains(&message.id));
    let has_unremembered = previous.as_ref().is_some_and(|covered| covered.has_unremembered)
        || read.iter().take(most).any(is_unremembered);
    // Facts in earlier messages were looked for while the chat was quiet.
    let unnoted = memory.as_ref().map_or(0, |memory| memory.from.saturating_sub(begin));
    let mut known = None;
    if let Some(memory) = &memory {
        let messages: Vec<&UiMessage> =
            read.iter().take(most).skip(unnoted).filter(|message| !is_unremembered(message)).collect();
        if !messages.is_empty() {
            known = Some(services.memories.known(&memory.owner, &words_of_user(&messages)).await?);
        }
    }
    let known_here = if has_unremembered { None } else { known.as_deref() };
    let most_output = most_output(services, choice);
    let prepared = |mut request: ModelRequest| {
        request.settings = call_settings(&Map::new(), choice, most_output);
        request.error_policy = policies.rules.error_policy.clone();
        request
    };
    let mut overflows = 0;
    let (summary, mut text, messages) = loop {
        let Some(SummaryQuestion { request, messages }) =
            question(previous.as_deref(), &read, is_end, wishes.as_deref(), known_here, most_tokens)
        else {
            return Err(WriteError::NothingToCover);
        };
        match answer(choice, prepared(request), previous.as_deref()).await {
            Ok((summary, text)) => break (summary, text, messages),
            Err(WriteError::Model(ModelError::TooLong(_) | ModelError::NoAnswer(_)))
                if overflows < MAX_OVERFLOWS =>
            {
                overflows += 1;
                most_tokens /= 2;
            }
            Err(error) => return Err(error),
        }
    };
    let mut memories = Vec::new();
    if let (Some(memory), Some(known)) = (&memory, &known) {
        let remembered: Vec<&UiMessage> =
            read[..messages].iter().skip(unnoted).filter(|message| !is_unremembered(message)).collect();
        if has_unremembered {
            text = String::new();
            if !remembered.is_empty() {
                let request = prepared(memory_question(&remembered, known, most_tokens));
                // Without an answer nothing is remembered, and the summary stays as it is.
                text = text_of(choice, request).instrument(span(choice, "memory")).await.unwrap_or_default();
            }
        }
        memories = extraction(services, &policies, chat, memory, known, &remembered).changes(&text);
    }
    let has_unremembered = previous.as_ref().is_some_and(|covered| covered.has_unremembered)
        || read[..messages].iter().any(is_unremembered);
    // A model may leave some of it out of its summary.
    let plan =
        services.store.last_plan(chat, usize::MAX).await?.filter(|plan| plan.state == PlanState::Accepted);
    let mut instructions = previous.map(|covered| covered.instructions).unwrap_or_default();
    for message in read[..messages].iter().filter(|message| message.role == Role::System) {
        instructions.extend(message.parts.iter().filter_map(UiPart::as_text).map(str::to_owned));
    }
    Ok(WrittenSummary {
        covered: Box::new(Covered {
            messages: begin + messages,
            up_to: read[messages - 1].id.clone(),
            summary,
            instructions,
            plan,
            has_unremembered,
        }),
        reason,
        model: choice.model.name().to_owned(),
        has_more: (messages + 1..=most).any(is_end),
        memories,
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

/// Returns the model's summary, and its whole answer. If it answers something else, it is asked once more.
async fn answer(
    choice: &ModelChoice,
    request: ModelRequest,
    previous: Option<&Covered>,
) -> Result<(Summary, String), WriteError> {
    let first = text_of(choice, request.clone()).instrument(span(choice, "summary")).await?;
    if let Some(summary) = read_answer(&first, previous) {
        return Ok((summary, first));
    }
    let second = text_of(choice, ask_again(request, first)).instrument(span(choice, "summary")).await?;
    let summary = read_answer(&second, previous).ok_or(WriteError::NoSummary)?;
    Ok((summary, second))
}

fn span(choice: &ModelChoice, purpose: &'static str) -> Span {
    tracing::info_span!(
        "chat",
        gen_ai.operation.name = "chat",
        gen_ai.request.model = choice.model.name(),
        fermata.purpose = purpose,
    )
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
            | ModelEvent::Source { .. }
            | ModelEvent::Citation(_)
            | ModelEvent::ProviderMetadata { .. } => {}
        }
        if text.len() > ANSWER_BYTES {
            break;
        }
    }
    Ok(text)
}
