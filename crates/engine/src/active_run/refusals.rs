//! Asking again for a step that the provider has refused, without the parts of the chat that may be the reason.

use super::{ActiveRun, StepWork};
use crate::{
    ports::store::StoreError,
    refused::{RefusedParts, Search},
    run::Event,
};

impl ActiveRun {
    /// Asks again for a step that was refused before the model said anything. Returns the reason of the first refusal if there is nothing
    /// more to leave out.
    pub(super) async fn ask_without(&mut self, reason: String) -> Result<Option<String>, StoreError> {
        let (search, overflows) = match &mut self.step {
            StepWork::Model(refused) if !refused.has_begun => (refused.search.take(), refused.overflows),
            _ => return Ok(Some(reason)),
        };
        let search = match search {
            Some(search) => *search,
            None => {
                let read = self.read_messages().await?;
                let own = self.run.message_so_far();
                let messages = read.with_own(&own);
                let known = RefusedParts::of(&messages, &self.model_name());
                let search = Search::new(reason, &messages, &known);
                self.history = Some(read);
                search
            }
        };
        let search = match search.next() {
            Ok(search) => search,
            Err(reason) => return Ok(Some(reason)),
        };
        let fitted = self.fitted_without(None, search.without.clone()).await?;
        self.send(fitted, overflows, Some(search)).await?;
        Ok(None)
    }

    /// Notes the parts that were left out of a request that the provider has taken after it had refused others.
    pub(super) async fn note_refused(&mut self) -> Result<(), StoreError> {
        let search = match &mut self.step {
            StepWork::Model(stream) if stream.has_begun => stream.search.take(),
            _ => return Ok(()),
        };
        let Some(search) = search else { return Ok(()) };
        let read = self.read_messages().await?;
        let own = self.run.message_so_far();
        let parts = search.without.described(&read.with_own(&own), &self.model_name(), &search.reason);
        self.history = Some(read);
        tracing::warn!(
            chat = %self.record.chat,
            run = %self.run.id,
            reason = search.reason,
            ?parts,
            "the provider refused the conversation, and answers without these parts of it"
        );
        let effects = self.decide(Event::PartsRefused(parts));
        if let Some(effects) = self.perform_at_once(effects) {
            Box::pin(self.perform_saved(effects)).await?;
        }
        Ok(())
    }

    fn model_name(&self) -> String {
        let (_, choice) = self.run.settings.answering(&self.policies);
        choice.model.name().to_owned()
    }
}
