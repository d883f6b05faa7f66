//! The engine's port for notices on either database.

use async_trait::async_trait;
use fermata_engine::store::{Attempt, ClaimedNotice, Outbox, SavedNotice, StoreError};
use jiff::Timestamp;

use super::SqlStore;
use crate::{postgres::Effect, queries::outbox};

#[async_trait]
impl Outbox for SqlStore {
    async fn notice_added(&self) {
        self.notice_added.notified().await;
    }

    async fn due_channels(&self, now: Timestamp) -> Result<Vec<String>, StoreError> {
        self.backend.look_up(|mut db| async move { outbox::due_channels(&mut db.get(), now).await }).await
    }

    async fn claim_notices(
        &self,
        channel: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<ClaimedNotice>, StoreError> {
        self.backend
            .transact(Effect::Once, channel.to_owned(), move |mut transaction, channel| async move {
                let claimed = outbox::claim(&mut transaction.get(), &channel, now, until, limit).await?;
                Ok((transaction, claimed))
            })
            .await
    }

    async fn next_notice(&self) -> Result<Option<Timestamp>, StoreError> {
        self.backend.look_up(|mut db| async move { outbox::next(&mut db.get()).await }).await
    }

    async fn note_attempt(
        &self,
        claimed: &ClaimedNotice,
        at: Timestamp,
        attempt: Attempt,
    ) -> Result<(), StoreError> {
        let attempt = &attempt;
        self.backend
            .write(|mut db| async move { outbox::note_attempt(&mut db.get(), claimed, at, attempt).await })
            .await
    }

    async fn open_notices(&self) -> Result<usize, StoreError> {
        self.backend.look_up(|mut db| async move { outbox::open(&mut db.get()).await }).await
    }

    async fn notices(&self, limit: usize) -> Result<Vec<SavedNotice>, StoreError> {
        self.backend.look_up(|mut db| async move { outbox::list(&mut db.get(), limit).await }).await
    }

    async fn retry_notice(&self, id: &str, now: Timestamp) -> Result<bool, StoreError> {
        let is_open =
            self.backend.write(|mut db| async move { outbox::retry(&mut db.get(), id, now).await }).await?;
        if is_open {
            self.notice_added.notify_one();
        }
        Ok(is_open)
    }

    async fn forget_notices(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.backend.write(|mut db| async move { outbox::forget(&mut db.get(), before, limit).await }).await
    }
}
