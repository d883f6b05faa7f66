//! The approvals of this server's engine, as channels see them.

use std::sync::Arc;

use async_trait::async_trait;
use fermata_engine::{Approval, Engine, Store, VoteError};
use fermata_protocol::{ApprovalId, PostedVote};
use fermata_tools::{Decider, Owner, Principal};

use super::{ApprovalDesk, DeskError};

/// The engine, with its store.
pub struct EngineDesk {
    pub engine: Engine,
    pub store: Arc<dyn Store>,
}

#[async_trait]
impl ApprovalDesk for EngineDesk {
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, DeskError> {
        // Nobody in particular looks at it.
        let record = self.store.approval(id, &Owner::new("")).await;
        let record = record.map_err(|error| DeskError::Unavailable(error.to_string()))?;
        Ok(record.map(|record| Approval::of(&record.call, id)))
    }

    async fn approval_for(
        &self,
        principal: &Principal,
        id: &ApprovalId,
    ) -> Result<Option<Approval>, DeskError> {
        match self.engine.approval(principal, id).await {
            Ok(approval) => Ok(Some(approval)),
            Err(VoteError::NotFound) => Ok(None),
            Err(error) => Err(DeskError::Unavailable(error.to_string())),
        }
    }

    async fn approval_for_deciders(
        &self,
        principals: &[Principal],
        id: &ApprovalId,
    ) -> Result<Vec<Option<Approval>>, DeskError> {
        let seen = self.engine.approval_for_deciders(principals, id).await;
        seen.map_err(|error| DeskError::Unavailable(error.to_string()))
    }

    async fn vote(&self, by: Decider, id: &ApprovalId, vote: PostedVote) -> Result<Approval, VoteError> {
        self.engine.vote(by, id, vote).await
    }
}
