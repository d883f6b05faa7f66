//! Asking the model for a step: the request, made from the history as far as it fits.

use std::sync::Arc;

use fermata_protocol::{ChatId, Role, SummaryReason, UiMessage, UiPart};
use fermata_tools::SlotRequest;
use futures::FutureExt;
use tokio::time::Instant;

use super::{
    ActiveRun, StepWork, SummaryWork,
    model_stream::{Answer, ModelStream},
    spans::model_span,
};
use crate::{
    context::{
        Fit, Fitted, Goal, History, Window,
        summary::{SummaryPlan, WrittenSummary},
    },
    model::{ModelContent, ModelError, ModelMessage, ModelRequest},
    ports::store::{Files, STORED_FILE, StoreError},
    prompt::{PromptContext, prompt},
    refused::{RefusedParts, Search},
    run::parent_of_step,
    run::{Compaction, CompactionState, Event},
    services::{Patience, Services},
    summarizer::{self, WriteError},
};

/// The number of times that a step is asked for again because its request was too long.
const MAX_OVERFLOWS: u32 = 2;
/// The number of the user's last messages whose memories are recalled.
const RECALLED_WORDS: usize = 3;

/// The messages of a chat, without that of the open run, from one of them on.
pub(super) struct ReadMessages {
    /// The number of messages before these.
    pub first: usize,
    pub messages: Vec<UiMessage>,
}

/// Returns the texts whose memories are recalled: the last words of the user, and what was said before them, so that a question that follows
/// another one is understood as well as that.
fn texts_to_recall(messages: &[UiMessage]) -> Vec<String> {
    let text_of = |message: &UiMessage| {
        let texts: Vec<&str> = message.parts.iter().filter_map(UiPart::as_text).collect();
        texts.join("\n")
    };
    let of = |role: Role| messages.iter().rev().filter(move |message| message.role == role).map(text_of);
    let texts = of(Role::User).take(RECALLED_WORDS).chain(of(Role::Assistant).take(1));
    texts.filter(|text| !text.trim().is_empty()).collect()
}

// === impl ReadMessages ===

impl ReadMessages {
    /// Returns the messages, with that of the run as the last one.
    pub fn with_own<'a>(&'a self, own: &'a UiMessage) -> Vec<&'a UiMessage> {
        // If the readers were sent away in between, the record has an older state of the run's message.
        self.messages.iter().filter(|message| message.id != own.id).chain([own]).collect()
    }
}

// === impl ActiveRun ===

impl ActiveRun {
    /// Asks the model for the step. Before the first one, the run recalls the knowledge of the user.
    pub(super) async fn ask_model(&mut self) -> Result<(), StoreError> {
        self.use_policies(self.services.policies.current());
        self.read_owner_grants().await;
        let capacity = &self.services.model_requests;
        if self.model_slot.is_none() && capacity.is_limited() {
            match capacity.request(&self.record.head.owner) {
                SlotRequest::Granted(slot) => self.model_slot = Some(slot),
                SlotRequest::Queued(turn) => {
                    self.step = StepWork::Queue(turn);
                    // This is shown and not saved, like everything of a step that is asked for again if the process ends.
                    let effects = self.decide(Event::RequestQueued(true));
                    self.log.stage(&effects.after.publish);
                    self.log.publish();
                    return Ok(());
                }
            }
        }
        if self.run.settings.remembers && self.run.state.recollection.is_none() {
            let read = self.read_messages().await?;
            let texts = texts_to_recall(&read.messages);
            self.history = Some(read);
            let (memories, owner, chat) =
                (self.services.memories.clone(), self.record.head.owner.clone(), self.record.chat.clone());
            self.step = StepWork::Recollection(
                async move { memories.recollect(&owner, &chat, &texts).await }.boxed(),
            );
            return Ok(());
        }
        let goal = self.window().map(|window| Goal::Within(window.compact_at));
        let fitted = self.fitted(goal).await?;
        self.send_or_compact(fitted, SummaryReason::Size, 0).await
    }

    /// Sends the request, if nothing more is left out of it than before. Otherwise what falls out is summarized first.
    async fn send_or_compact(
        &mut self,
        fitted: Fitted,
        reason: SummaryReason,
        overflows: u32,
    ) -> Result<(), StoreError> {
        let context = &self.record.context;
        if fitted.fit.left_out <= context.fit.left_out {
            if fitted.fit != context.fit {
                self.save_fit(fitted.fit.clone()).await?;
            }
            return self.send(fitted, overflows, None).await;
        }
        self.record.context.was_full = true;
        let context = &self.record.context;
        if context.is_paused(self.services.clock.now()) {
            self.save_fit(fitted.fit.clone()).await?;
            return self.send(fitted, overflows, None).await;
        }
        let plan = SummaryPlan {
            reason,
            previous: context.fit.summary.clone(),
            most: fitted.fit.left_out,
            rest: None,
            assistant: self.record.head.assistant.clone(),
            model: self.record.head.model.clone(),
            wishes: None,
            memory: self.record.memory_plan(&self.policies),
        };
        let unfitted = self.fitted(None).await?;
        let compaction = Compaction {
            id: self.services.ids.next("cmp_"),
            state: CompactionState::Running,
            messages: fitted.fit.left_out,
            reason,
            tokens_before: self.record.context.tokens_of(&unfitted.request),
            tokens_after: None,
        };
        // This is shown and not saved, like everything of a step that is asked for again if the process ends.
        let effects = self.decide(Event::Compacts(compaction.clone()));
        self.log.stage(&effects.after.publish);
        self.log.publish();
        let writing = Box::pin(summarizer::write(self.services.clone(), self.record.chat.clone(), plan));
        self.step =
            StepWork::Summary(Box::new(SummaryWork { writing, fit: fitted.fit, compaction, overflows }));
        Ok(())
    }

    /// Sends the request with the summary of what falls out of it, or without if none was written.
    pub(super) async fn handle_summary(
        &mut self,
        written: Result<WrittenSummary, WriteError>,
    ) -> Result<(), StoreError> {
        let StepWork::Summary(work) = std::mem::replace(&mut self.step, StepWork::None) else {
            return Ok(());
        };
        let SummaryWork { writing: _, mut fit, mut compaction, overflows } = *work;
        compaction.state = CompactionState::Failed;
        let now = self.services.clock.now();
        match written {
            // A job beside the runs may have been faster, and have covered more.
            Ok(written) if written.covered.messages > self.record.context.summarized() => {
                self.unsaved.extend(self.record.put_summary(&self.services, &written, now));
                self.record.context.next = Some(written.covered);
                self.record.context.note_written_summary();
            }
            Ok(_) => {}
            Err(WriteError::NothingToCover) => {}
            Err(_) => self.record.context.note_failed_summary(now),
        }
        if let Some(covered) = self.record.context.next.take() {
            compaction.state = CompactionState::Done;
            compaction.messages = covered.messages;
            fit.use_summary(covered);
        }
        self.record.context.fit = fit;
        self.unsaved.push(self.record.context.saved());
        let fitted = self.fitted(None).await?;
        compaction.tokens_after = Some(self.record.context.tokens_of(&fitted.request));
        let effects = self.decide(Event::Compacts(compaction));
        self.perform(effects).await?;
        // The summary may be longer than the messages that it stands for.
        let goal = self.window().map(|window| Goal::Within(window.compact_at));
        let fitted = self.fitted(goal).await?;
        if fitted.fit != self.record.context.fit {
            self.save_fit(fitted.fit.clone()).await?;
        }
        self.send(fitted, overflows, None).await
    }

    /// Asks the model again for the step with less, because the provider has refused the request for its length, or may have, before it
    /// said anything. Returns `false` if the request cannot become shorter, or was shortened often enough.
    pub(super) async fn ask_for_less(&mut self, error: &ModelError) -> Result<bool, StoreError> {
        let StepWork::Model(refused) = &self.step else { return Ok(false) };
        let (overflows, retries) = (refused.overflows + 1, refused.retries);
        if overflows > MAX_OVERFLOWS {
            return Ok(false);
        }
        let fitted = self.fitted(Some(Goal::MuchShorter)).await?;
        if fitted.fit == self.record.context.fit {
            let was_not_refused = matches!(error, ModelError::NoAnswer(_)) && retries == 0;
            if was_not_refused {
                self.ask_model().await?;
            }
            return Ok(was_not_refused);
        }
        tracing::info!(
            chat = %self.record.chat,
            run = %self.run.id,
            messages = fitted.fit.left_out,
            cleared = fitted.fit.cleared.len(),
            tokens = fitted.estimated,
            %error,
            "the request was too long for the model, or may have been, and is sent again without older messages and outputs"
        );
        self.send_or_compact(fitted, SummaryReason::Overflow, overflows).await?;
        Ok(true)
    }

    /// Returns the size of the model's window, as far as it is known.
    pub(super) fn window(&self) -> Option<Window> {
        let (_, choice) = self.run.settings.answering(&self.policies);
        choice.window(self.services.settings.compact_at)
    }

    /// Returns the request, with the history fitted to a goal if there is one.
    async fn fitted(&mut self, goal: Option<Goal>) -> Result<Fitted, StoreError> {
        self.fitted_without(goal, RefusedParts::default()).await
    }

    /// Returns the request without these parts of the chat, with the history fitted to a goal if there is one.
    pub(super) async fn fitted_without(
        &mut self,
        goal: Option<Goal>,
        without: RefusedParts,
    ) -> Result<Fitted, StoreError> {
        let read = self.read_messages().await?;
        let own = self.run.message_so_far();
        let history = History { first: read.first, messages: read.with_own(&own) };
        let (policies, settings, run) = (&self.policies, &self.services.settings, &self.run);
        let build = |fit: &_, messages: &[&UiMessage]| -> ModelRequest {
            let of_run = PromptContext::new(policies, settings, &run.settings, &self.toolbox, Some(run), fit);
            let context = PromptContext { without: without.clone(), ..of_run };
            prompt(messages.iter().copied(), &context)
        };
        let fitted = self.record.context.fitted(&history, goal, &policies.rules.never_clear, build);
        self.history = Some(read);
        Ok(fitted)
    }

    /// Returns the other messages of the chat, as far as the model may be sent them.
    pub(super) async fn read_messages(&mut self) -> Result<ReadMessages, StoreError> {
        if let Some(read) = self.history.take() {
            return Ok(read);
        }
        let first = self.record.context.fit.left_out;
        let store = &self.services.store;
        let read = || store.messages_at(&self.record.chat, first..usize::MAX, Files::ByName);
        let messages = self.services.patiently(Patience::Run, read).await?;
        Ok(ReadMessages { first, messages })
    }

    /// Saves which parts are left out, before anything is sent, so that every later request begins as this one does.
    async fn save_fit(&mut self, fit: Fit) -> Result<(), StoreError> {
        self.record.context.fit = fit;
        let change = self.record.context.saved();
        self.record.commit(&self.services, Patience::Run, vec![change]).await
    }

    pub(super) async fn send(
        &mut self,
        fitted: Fitted,
        overflows: u32,
        search: Option<Search>,
    ) -> Result<(), StoreError> {
        let Fitted { request, estimated, .. } = fitted;
        let mut request = with_files(&self.services, &self.record.chat, request).await?;
        let (_, choice) = self.run.settings.answering(&self.policies);
        let model = choice.model.clone();
        let name = Arc::<str>::from(model.name());
        request.traceparent = self.services.traces.as_ref().map(|_| parent_of_step(&self.run));
        let services = self.services.clone();
        let asked = async move {
            services.settings.file_urls.apply_lookups(&mut request.messages, &*services.resolver).await;
            model.stream(request).await
        };
        let retries = match self.step.model() {
            Some(silent) if overflows == 0 => silent.retries + 1,
            Some(_) | None => 0,
        };
        let now = Instant::now();
        self.step = StepWork::Model(ModelStream {
            answer: Answer::Asked(asked.boxed()),
            asked_at: now,
            last_event_at: now,
            saved_at: now,
            has_begun: false,
            retries,
            overflows,
            search: search.map(Box::new),
            estimated,
            span: model_span(&name, &self.run),
            model: name,
        });
        Ok(())
    }
}

/// Puts the files of the chat into a request. They are read only now, because they may be large.
async fn with_files(
    services: &Services,
    chat: &ChatId,
    mut request: ModelRequest,
) -> Result<ModelRequest, StoreError> {
    for message in &mut request.messages {
        let ModelMessage::User(content) = message else { continue };
        for piece in content {
            let ModelContent::File { media_type, url, filename } = piece else { continue };
            if !url.starts_with(STORED_FILE) {
                continue;
            }
            let read = || services.store.file(chat, url);
            match services.patiently(Patience::Run, read).await? {
                Some(data_url) => *url = data_url,
                None => {
                    let name = filename.as_deref().unwrap_or("a file");
                    *piece = ModelContent::Text(format!("[{name} ({media_type}) is not there any more]"));
                }
            }
        }
    }
    Ok(request)
}
