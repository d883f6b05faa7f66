//! Asking the model for a step: the request, made from the history as far as it fits.

use std::sync::Arc;

use fermata_protocol::{ChatId, UiMessage};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use super::{ActiveRun, ModelStream, StepWork, spans::model_span};
use crate::{
    context::{Fitted, Goal, History, ModelContext, Window},
    model::ModelRequest,
    prompt::{PromptContext, prompt},
    services::Services,
    store::StoreError,
};

/// The number of times that a step is asked for again because its request was too long.
const MAX_OVERFLOWS: u32 = 2;

/// The messages of a chat, without that of the open run, from one of them on.
pub(super) struct ReadMessages {
    /// The number of messages before these.
    pub first: usize,
    pub messages: Vec<UiMessage>,
}

// === impl ReadMessages ===

impl ReadMessages {
    async fn from(services: &Services, chat: &ChatId, first: usize) -> Result<Self, StoreError> {
        let messages = services.store.messages_at(chat, first..usize::MAX).await?;
        Ok(Self { first, messages })
    }
}

// === impl ActiveRun ===

impl ActiveRun {
    /// Asks the model for the step.
    pub(super) async fn ask_model(&mut self) -> Result<(), StoreError> {
        self.use_policies(self.services.policies.current());
        let goal = self.window().map(|window| Goal::Within(window.compact_at));
        let fitted = self.fitted(goal).await?;
        if fitted.fit != self.record.context.fit {
            self.save_fit(&fitted).await?;
        }
        self.send(fitted, 0);
        Ok(())
    }

    /// Asks the model again for the step, because the provider has refused the request for its length before it said anything. Returns
    /// `false` if the request cannot become shorter, or was shortened often enough.
    pub(super) async fn ask_for_less(&mut self) -> Result<bool, StoreError> {
        let StepWork::Model(refused) = &self.step else { return Ok(false) };
        let overflows = refused.overflows + 1;
        if overflows > MAX_OVERFLOWS {
            return Ok(false);
        }
        let fitted = self.fitted(Some(Goal::MuchShorter)).await?;
        if fitted.fit == self.record.context.fit {
            return Ok(false);
        }
        tracing::info!(
            chat = %self.record.chat,
            run = %self.run.id,
            messages = fitted.fit.left_out,
            cleared = fitted.fit.cleared.len(),
            tokens = fitted.estimated,
            "the request was too long for the model, and is sent again without older messages and outputs"
        );
        self.save_fit(&fitted).await?;
        self.send(fitted, overflows);
        Ok(true)
    }

    /// Returns the size of what the model can take, as far as it is known.
    pub(super) fn window(&self) -> Option<Window> {
        self.run.settings.window(&self.policies, self.services.settings.compact_at)
    }

    /// Returns the request, with the history fitted to a goal if there is one.
    async fn fitted(&mut self, goal: Option<Goal>) -> Result<Fitted, StoreError> {
        let mut read = match self.history.take() {
            Some(read) => read,
            None => {
                ReadMessages::from(&self.services, &self.record.chat, self.record.context.fit.left_out)
                    .await?
            }
        };
        if !self.record.context.fit.holds_for(read.first, &read.messages) {
            self.record.context = ModelContext::default();
            read = ReadMessages::from(&self.services, &self.record.chat, 0).await?;
        }
        let own = self.run.snapshot();
        // If the readers were sent away in between, the record has an older state of the run's message.
        let messages = read.messages.iter().filter(|message| message.id != own.id).chain([&own]).collect();
        let history = History { first: read.first, messages };
        let (policies, settings, run) = (&self.policies, &self.services.settings, &self.run);
        let build = |fit: &_, messages: &[&UiMessage]| -> ModelRequest {
            let context =
                PromptContext::new(policies, settings, &run.settings, &self.toolbox, Some(run), fit);
            prompt(messages.iter().copied(), &context)
        };
        let fitted = self.record.context.fitted(&history, goal, &policies.rules.never_clear, build);
        self.history = Some(read);
        Ok(fitted)
    }

    /// Saves what is left out, before anything is sent, so that every later request begins as this one does.
    async fn save_fit(&mut self, fitted: &Fitted) -> Result<(), StoreError> {
        self.record.context.fit = fitted.fit.clone();
        let change = self.record.context.saved();
        self.record.commit(&self.services, vec![change]).await
    }

    fn send(&mut self, fitted: Fitted, overflows: u32) {
        let Fitted { request, estimated, .. } = fitted;
        let (_, choice) = self.run.settings.answering(&self.policies);
        let model = choice.model.clone();
        let name = Arc::<str>::from(model.name());
        let events = stream::once(async move { model.stream(request).await }).try_flatten();
        let retries = match &self.step {
            StepWork::Model(silent) if overflows == 0 => silent.retries + 1,
            StepWork::Model(_) | StepWork::InputChecks(_) | StepWork::None => 0,
        };
        let now = Instant::now();
        self.step = StepWork::Model(ModelStream {
            // The events that the provider has ready are handled together and shown in one write.
            events: events.ready_chunks(64).boxed(),
            asked_at: now,
            last_event_at: now,
            has_begun: false,
            retries,
            overflows,
            estimated,
            span: model_span(&name, &self.run),
            model: name,
        });
    }
}
