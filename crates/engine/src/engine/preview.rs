//! The request that the model would be sent next in a chat, made without asking anybody and without changing anything.

use std::sync::Arc;

use fermata_protocol::ChatId;
use fermata_tools::Tool;
use jiff::Timestamp;
use serde_json::Map;

use crate::{
    active_run::read_run,
    assistants::Assistants,
    context::{Goal, History, ModelContext},
    memories::{MemoryNote, Recollection, always_known},
    model::ModelRequest,
    ports::store::{Store, StoreError},
    prompt::{PromptContext, prompt},
    run::RunSettings,
    services::{PolicySnapshot, Rules},
    settings::Settings,
};

/// The parts that the request is made with, besides the chat.
pub struct PreviewParts {
    /// The assistants.
    pub assistants: Assistants,
    /// The rules.
    pub rules: Rules,
    /// The tools of the server.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The settings.
    pub settings: Settings,
}

/// The request that a model would be sent next.
#[derive(Debug)]
pub struct Preview {
    /// The name of the assistant.
    pub assistant: String,
    /// The name of the model.
    pub model: String,
    /// `true` if it is the next request of an open run. Otherwise it has nothing of the next post: the message, the
    /// page's instructions and the page's tools.
    pub is_of_open_run: bool,
    /// The request.
    pub request: ModelRequest,
}

/// Returns the request of the next step in a chat; `None` if there is no such chat.
///
/// # Errors
/// Returns an error if the chat cannot be read.
pub async fn preview(
    store: &dyn Store,
    parts: PreviewParts,
    chat: &ChatId,
) -> Result<Option<Preview>, StoreError> {
    let Some(record) = store.chat(chat).await? else { return Ok(None) };
    let PreviewParts { assistants, rules, tools, settings } = parts;
    let (policies, _) = PolicySnapshot::new(rules, Arc::new(assistants), tools, Vec::new());
    let mut messages = store.messages(chat).await?;
    let run = record.open_run.map(read_run).transpose()?;
    let of_run = match &run {
        Some(run) => run.settings.clone(),
        None => RunSettings {
            started: Timestamp::UNIX_EPOCH,
            requester: Arc::new(record.head.owner.clone().into()),
            model: String::new(),
            assistant: record.head.assistant.clone(),
            chosen_model: record.head.model,
            remembers: policies.assistant(record.head.assistant.as_deref()).remembers,
            tools: Vec::new(),
            system: None,
            call_settings: Map::new(),
            tool_choice: None,
            plan: policies.assistant(record.head.assistant.as_deref()).plan,
            wants_plan: false,
            open_plan: None,
            retries: None,
            traceparent: None,
        },
    };
    if let Some(run) = &run {
        let own = run.snapshot();
        messages.retain(|message| message.id != own.id);
        messages.push(own);
    }
    let toolbox = of_run.server_tools(&policies).with_saved_tools(&of_run.tools);
    let mut context = ModelContext::read(&record.context);
    if run.is_none() {
        context.use_next();
    }
    // Memories that have to do with the next message are recalled when it is there.
    let mut always = Recollection::default();
    if of_run.remembers {
        always.always = always_known(store, &record.head.owner).await?.iter().map(MemoryNote::from).collect();
    }
    let history = History { first: 0, messages: messages.iter().collect() };
    let window = of_run.answering(&policies).1.window(settings.compact_at);
    let goal = window.map(|window| Goal::Within(window.compact_at));
    let fitted = context.fitted(&history, goal, &policies.rules.never_clear, |fit, messages| {
        let mut of_prompt = PromptContext::new(&policies, &settings, &of_run, &toolbox, run.as_ref(), fit);
        of_prompt.recollection = of_prompt.recollection.or(Some(&always));
        prompt(messages.iter().copied(), &of_prompt)
    });
    let assistant = policies.assistants.answering(of_run.assistant.as_deref()).to_owned();
    Ok(Some(Preview {
        assistant,
        model: of_run.answering(&policies).1.model.name().to_owned(),
        is_of_open_run: run.is_some(),
        request: fitted.request,
    }))
}
