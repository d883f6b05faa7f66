//! Writing the summaries that are due, beside the runs.
//!
//! A chat whose summary is due is known to the database, so any instance writes it if this one ends. A job is claimed by a commit to its
//! chat, so two instances do not write the same one.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fermata_protocol::ChatId;
use fermata_tools::Owner;
use futures::{StreamExt, stream};
use tokio::time::timeout;

use super::Router;
use crate::{
    api::{
        errors::SummaryError,
        request::{Asked, PlanSummary, SaveSummary},
        view::SummaryView,
    },
    ports::store::StoreError,
    summarizer::{self, WriteError},
};

/// The number of summaries that are due that wait for their turn at a time.
const MAX_WAITING: usize = 100;
/// The time that a page waits for the turn of the summary that it has asked for.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);
/// The number of chats with a summary that is due that are looked for at a time.
const MAX_DUE: usize = 100;

/// Locks the chats whose summaries wait or are being written, for a few instructions.
fn lock(known: &Mutex<HashSet<ChatId>>) -> MutexGuard<'_, HashSet<ChatId>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Router {
    /// Writes summaries until it is dropped.
    pub async fn write_summaries(self: Arc<Self>) {
        let due = stream::unfold(self.clone(), async |router| {
            let next = router.services.due_summaries.next().await?;
            Some((next, router))
        });
        // A chat is found again while its summary waits for its turn.
        let known = Mutex::new(HashSet::new());
        due.for_each_concurrent(MAX_WAITING, async |(chat, owner): (ChatId, Owner)| {
            if !lock(&known).insert(chat.clone()) {
                return;
            }
            let written = self.write_summary(&owner, &chat, None).await;
            lock(&known).remove(&chat);
            let error = match written {
                // The chat may be gone by now, and what failed has been logged.
                Ok(_) | Err(SummaryError::NotFound | SummaryError::NothingToCompact | SummaryError::NotWritten) => return,
                Err(error) => error,
            };
            tracing::warn!(%chat, %error, "the summary of a chat could not be planned or saved; it is tried again later");
        })
        .await;
    }

    /// Finds summaries that are due, of this instance and of those that have ended.
    pub(super) async fn find_due_summaries(&self) -> Result<(), StoreError> {
        let now = self.services.clock.reached();
        for (chat, owner) in self.services.store.due_summaries(now, MAX_DUE).await? {
            self.services.due_summaries.add(chat, owner);
        }
        Ok(())
    }

    /// Writes a summary of a chat and saves it, if one is due or the user has asked for it.
    pub async fn write_summary(
        self: &Arc<Self>,
        owner: &Owner,
        chat: &ChatId,
        asked: Option<Asked>,
    ) -> Result<Option<SummaryView>, SummaryError> {
        // The chat is not claimed while others use the model.
        let turn = self.services.model_requests.acquire(owner);
        let (_slot, _permit) = if asked.is_some() {
            let slot = timeout(TURN_TIMEOUT, turn).await.map_err(|_| SummaryError::NoModelRequest)?;
            (slot, None)
        } else {
            (turn.await, self.services.due_summaries.writing.acquire().await.ok())
        };
        let plan = PlanSummary { owner: owner.clone(), asked };
        let Some((job, plan)) = self.call(chat, plan).await? else { return Ok(None) };
        let written = summarizer::work(self.services.clone(), chat.clone(), plan).await;
        let refusal = match &written {
            Ok(_) => None,
            Err(WriteError::NothingToCover) => Some(SummaryError::NothingToCompact),
            Err(_) => Some(SummaryError::NotWritten),
        };
        let has_failed = matches!(refusal, Some(SummaryError::NotWritten));
        let save = SaveSummary { owner: owner.clone(), job, written: written.ok(), has_failed };
        let saved = self.call(chat, Box::new(save)).await?;
        match refusal {
            Some(refusal) => Err(refusal),
            None => Ok(saved),
        }
    }
}
