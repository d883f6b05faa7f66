//! The approvals of the chats in memory.

use std::cmp::Reverse;

use async_trait::async_trait;
use fermata_protocol::ApprovalId;
use fermata_tools::Owner;
use jiff::Timestamp;

use super::{
    Contents, InMemoryStore,
    chat::{StoredApproval, StoredChat},
    page,
};
use crate::ports::store::{
    ApprovalList, ApprovalRecord, Approvals, ListedFor, ListedState, SavedTerms, StoreError,
    page::ApprovalCursor,
};

impl Contents {
    /// Returns the approvals that a condition picks, for a person.
    fn approvals(
        &self,
        viewer: Option<&Owner>,
        is_wanted: impl Fn(&StoredChat, &StoredApproval) -> bool,
    ) -> Vec<ApprovalRecord> {
        let mut found = Vec::new();
        for (id, chat) in &self.chats {
            let wanted = chat.approvals.iter().filter(|saved| is_wanted(chat, saved));
            found.extend(wanted.filter_map(|saved| chat.approval(id, saved, viewer)));
        }
        found
    }
}

#[async_trait]
impl Approvals for InMemoryStore {
    async fn approval(&self, id: &ApprovalId, viewer: &Owner) -> Result<Option<ApprovalRecord>, StoreError> {
        Ok(self.lock().approvals(Some(viewer), |_, saved| saved.row.id == *id).pop())
    }

    async fn approvals(&self, list: ApprovalList<'_>) -> Result<Vec<ApprovalRecord>, StoreError> {
        let ApprovalList { viewer, of, state, tool, after, limit } = list;
        let mut found = self.lock().approvals(Some(viewer), |chat, StoredApproval { row, .. }| {
            state.has(row.state)
                && tool.is_none_or(|tool| row.tool == tool)
                && match of {
                    ListedFor::Anyone => true,
                    ListedFor::Requester => row.requester == *viewer,
                    ListedFor::Terms(hashes) => {
                        row.terms.as_ref().is_some_and(|terms| hashes.contains(&terms.hash))
                    }
                    ListedFor::Voter => {
                        chat.voters.iter().any(|(approval, voter)| *approval == row.id && voter == viewer)
                    }
                }
        });
        let after = after.map(|(at, id)| (page::whole_microseconds(at), id.as_str().to_owned()));
        let place = |record: &ApprovalRecord| (state.time_of(record), record.id.as_str().to_owned());
        match state {
            ListedState::Waiting => {
                found.retain(|record| after.as_ref().is_none_or(|after| place(record) > *after));
                found.sort_by_key(place);
            }
            ListedState::Settled | ListedState::All => {
                found.retain(|record| after.as_ref().is_none_or(|after| place(record) < *after));
                found.sort_by_key(|record| Reverse(place(record)));
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn approval_terms(&self) -> Result<Vec<SavedTerms>, StoreError> {
        let mut known: Vec<SavedTerms> = Vec::new();
        let contents = self.lock();
        for saved in contents.chats.values().flat_map(|chat| &chat.approvals) {
            if let Some(terms) = &saved.row.terms
                && known.iter().all(|other| other.hash != terms.hash)
            {
                known.push(terms.clone());
            }
        }
        Ok(known)
    }

    async fn changed_approvals(
        &self,
        after: &ApprovalCursor,
        limit: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        let mut found = self.lock().approvals(None, |_, saved| {
            (saved.changed_at, saved.row.id.as_str()) > (after.at, after.id.as_str())
        });
        found.sort_by_key(|record| (record.changed_at, record.id.as_str().to_owned()));
        found.truncate(limit);
        Ok(found)
    }

    async fn put_approval_terms(
        &self,
        id: &ApprovalId,
        terms: Option<&SavedTerms>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut contents = self.lock();
        for saved in contents.chats.values_mut().flat_map(|chat| &mut chat.approvals) {
            if saved.row.id == *id {
                saved.row.terms = terms.cloned();
                saved.changed_at = page::whole_microseconds(at);
            }
        }
        Ok(())
    }
}
