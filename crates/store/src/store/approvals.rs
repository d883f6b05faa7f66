//! The engine's port for approvals.

use async_trait::async_trait;
use fermata_engine::store::{
    ApprovalList, ApprovalRecord, Approvals, SavedTerms, StoreError, page::ApprovalCursor,
};
use fermata_protocol::ApprovalId;
use fermata_tools::Owner;
use jiff::Timestamp;

use super::SqlStore;
use crate::queries::approvals;

#[async_trait]
impl Approvals for SqlStore {
    async fn approval(&self, id: &ApprovalId, viewer: &Owner) -> Result<Option<ApprovalRecord>, StoreError> {
        self.backend.look_up(|mut db| async move { approvals::find(&mut db.get(), id, viewer).await }).await
    }

    async fn approvals(&self, list: ApprovalList<'_>) -> Result<Vec<ApprovalRecord>, StoreError> {
        self.backend.look_up(|mut db| async move { approvals::list(&mut db.get(), list).await }).await
    }

    async fn approval_terms(&self) -> Result<Vec<SavedTerms>, StoreError> {
        self.backend.look_up(|mut db| async move { approvals::terms(&mut db.get()).await }).await
    }

    async fn changed_approvals(
        &self,
        after: &ApprovalCursor,
        limit: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        self.backend
            .look_up(|mut db| async move { approvals::changed(&mut db.get(), after, limit).await })
            .await
    }

    async fn put_approval_terms(
        &self,
        id: &ApprovalId,
        terms: Option<&SavedTerms>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.backend
            .write(|mut db| async move { approvals::set_terms(&mut db.get(), id, terms, at).await })
            .await
    }
}
