//! Approvals for the people who decide about them: lists, votes, and the changes as they happen.
//!
//! They are read from the store, so any instance answers; a vote goes to the chat of the call. To a principal who may not see an approval,
//! it does not exist.

use std::{pin::Pin, sync::Arc, time::Duration};

use fermata_protocol::{Answer, AnswerKind, AnswerTarget, ApprovalId, PostedVote};
use fermata_tools::{AuditAction, AuditEvent, AuditOutcome, Call, Decider, Owner, Principal, may_decide};
use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use tokio::time::sleep;

use super::Engine;
use crate::{
    api::{
        approval::{Approval, ApprovalFilter, ApprovalPage, ChatOfApproval, Deciding},
        errors::{AnswerError, VoteError},
        request,
    },
    ports::store::{
        ApprovalList, ApprovalRecord, ApprovalState, AuditEntry, ListedFor, ListedState, SavedTerms,
        StoreError, page::ApprovalCursor,
    },
    run::newest_terms,
    services::{OVERLAP, PolicySnapshot},
};

/// Changes that are older than this are not sent again to somebody who comes back.
const REPLAYED: Duration = Duration::from_secs(120);
/// The number of changes that are sent again at most.
const MOST_REPLAYED: usize = 10_000;
/// The number of approvals that are read at once.
const PAGE: usize = 200;
/// The pause between two pages that nobody waits for.
const PAUSE: Duration = Duration::from_millis(20);

/// A change of an approval: its time, and the approval as it is then.
pub type ApprovalChange = (Timestamp, Approval);

// === impl Engine ===

impl Engine {
    /// Returns an approval that a principal has requested, may decide about, or has voted about.
    ///
    /// # Errors
    /// Returns an error if there is none for this principal, or if it cannot be read.
    pub async fn approval(&self, viewer: &Principal, id: &ApprovalId) -> Result<Approval, VoteError> {
        let record = self.services.store.approval(id, &viewer.user).await?;
        record.and_then(|record| self.view_approval(&record, viewer)).ok_or(VoteError::NotFound)
    }

    /// Returns an approval as each of these principals sees it; `None` for those who may not decide about it now, or have approved it.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub async fn approval_for_deciders(
        &self,
        principals: &[Principal],
        id: &ApprovalId,
    ) -> Result<Vec<Option<Approval>>, VoteError> {
        let Some(record) = self.services.store.approval(id, &Owner::new("")).await? else {
            return Ok(vec![None; principals.len()]);
        };
        let seen = principals.iter().map(|principal| {
            let approval = self.view_approval(&record, principal)?;
            let Deciding { may_decide, approved_by, .. } = &approval.decision;
            let is_asked = *may_decide == Some(true) && !approved_by.contains(&principal.user);
            if is_asked { Some(approval) } else { None }
        });
        Ok(seen.collect())
    }

    /// Lists approvals that a principal has requested, may decide about, or has voted about.
    ///
    /// # Errors
    /// Returns an error if they cannot be read, or if the cursor is none of this list.
    pub async fn approvals(
        &self,
        viewer: &Principal,
        filter: &ApprovalFilter,
    ) -> Result<ApprovalPage, VoteError> {
        let cursor = filter.before.as_deref().map(ApprovalCursor::parse).transpose()?;
        let mut after = cursor.map(|ApprovalCursor { at, id }| (at, id));
        let hashes = self.terms_of(viewer).await?;
        let mut approvals = Vec::new();
        loop {
            let list = ApprovalList {
                viewer: &viewer.user,
                of: ListedFor::Requester,
                state: filter.state,
                tool: filter.tool.as_deref(),
                after: after.as_ref().map(|(at, id)| (*at, id)),
                limit: PAGE,
            };
            let mut records = Vec::new();
            let mut is_whole = true;
            for of in [ListedFor::Requester, ListedFor::Terms(&hashes), ListedFor::Voter] {
                if of == ListedFor::Terms(&[]) {
                    continue;
                }
                let found = self.services.store.approvals(ApprovalList { of, ..list }).await?;
                is_whole &= found.len() < PAGE;
                records.extend(found);
            }
            sort(&mut records, filter.state);
            // What follows in one of the lists may come before the end of another.
            records.truncate(if is_whole { usize::MAX } else { PAGE });
            for record in &records {
                after = Some((filter.state.time_of(record), record.id.clone()));
                let Some(approval) = self.view_approval(record, viewer) else { continue };
                // It may have changed since the store was asked.
                let is_wanted = !filter.mine
                    || (approval.state == ApprovalState::Waiting
                        && approval.decision.may_decide == Some(true));
                if !is_wanted {
                    continue;
                }
                approvals.push(approval);
                if approvals.len() == filter.limit {
                    let next = after.map(|(at, id)| ApprovalCursor { at, id }.encode());
                    return Ok(ApprovalPage { approvals, next });
                }
            }
            if is_whole {
                return Ok(ApprovalPage { approvals, next: None });
            }
        }
    }

    /// Counts the vote of a principal.
    ///
    /// # Errors
    /// Returns the reason if it does not count.
    pub async fn vote(&self, by: Decider, id: &ApprovalId, vote: PostedVote) -> Result<Approval, VoteError> {
        let viewer = by.by.clone();
        let Some(record) = self.services.store.approval(id, &viewer.user).await? else {
            return Err(VoteError::NotFound);
        };
        let Some(before) = self.view_approval(&record, &viewer) else {
            self.note_refused_vote(&record, &by).await;
            return Err(VoteError::NotFound);
        };
        let PostedVote { approved, reason, input, input_hash } = vote;
        let kind = AnswerKind::Decision { approved, reason, always: None, input };
        let answer = request::AnswerRequest {
            owner: before.requested_by.clone(),
            by: Decider { shown_hash: input_hash, ..by },
            answers: vec![Answer { of: AnswerTarget::Approval(id.clone()), kind }],
            checked: Vec::new(),
        };
        let answered = self.router.call(&record.chat, answer).await;
        let now = self.approval(&viewer, id).await;
        let error = match answered {
            // After a denial or a withdrawal, the principal may not see the approval any more.
            Ok(_) => return Ok(now.unwrap_or(before)),
            Err(error) => error,
        };
        let approval = Box::new(now.unwrap_or(before));
        Err(match error {
            AnswerError::AlreadyAnswered { .. }
            | AnswerError::Gone { .. }
            | AnswerError::WrongAnswer { .. } => VoteError::AlreadyAnswered(approval),
            AnswerError::ToolChanged(_) if approval.state != ApprovalState::Waiting => {
                VoteError::AlreadyAnswered(approval)
            }
            AnswerError::Changed => VoteError::Changed(approval),
            AnswerError::NotYours(detail) => VoteError::NotYours(detail),
            AnswerError::NotFound(_) => VoteError::NotFound,
            AnswerError::Unavailable(unavailable) => VoteError::Unavailable(unavailable),
            other => VoteError::Refused(Box::new(other)),
        })
    }

    /// Follows the changes of approvals that a principal may see: from now on, or from the change that was the last before. The stream ends if
    /// the reader is too slow; then it has to list the approvals again.
    pub fn approval_changes(
        &self,
        viewer: Principal,
        after: Option<Timestamp>,
    ) -> Pin<Box<dyn Stream<Item = ApprovalChange> + Send>> {
        let engine = self.clone();
        let live = stream::unfold(self.services.approval_feed.follow(), |mut live| async move {
            Some((live.recv().await.ok()?, live))
        });
        let missed = {
            let engine = engine.clone();
            async move {
                let Some(after) = after else { return Vec::new() };
                let oldest = engine.services.clock.now().saturating_sub(REPLAYED).unwrap_or(Timestamp::MIN);
                let after = after.saturating_sub(OVERLAP).unwrap_or(Timestamp::MIN).max(oldest);
                let found = engine
                    .services
                    .store
                    .changed_approvals(&ApprovalCursor::after(after), MOST_REPLAYED)
                    .await;
                found.unwrap_or_default().into_iter().map(Arc::new).collect()
            }
        };
        let records = stream::once(missed).flat_map(stream::iter).chain(live);
        let draining = self.services.shutdown.draining.clone();
        // A follower comes back, to another instance.
        let records = records.take_until(async move { draining.reached().await });
        let visible = records.filter_map(move |record| {
            let seen = engine.view_approval(&record, &viewer);
            std::future::ready(seen.map(|approval| (record.changed_at, approval)))
        });
        Box::pin(visible)
    }

    /// Returns those who decide about a call that waits, under the newest rules, for a principal.
    pub fn deciding(&self, call: &Call, viewer: &Principal) -> Deciding {
        let policies = self.services.policies.current();
        let call = under_newest_rules(call, &policies);
        Deciding::for_principal(&call, viewer, policies.rules.policy.people())
    }

    /// Updates in the background, by the newest rules, who may see each approval that waits. Chats that are not in memory are included.
    pub fn refresh_approvals(&self) {
        let engine = self.clone();
        self.services.shutdown.spawn_background(&self.services.shutdown.draining, async move {
            if let Err(error) = engine.put_newest_terms().await {
                tracing::warn!(%error, "some lists of approvals still follow earlier rules; the next reload of the rules corrects them");
            }
        });
    }

    async fn put_newest_terms(&self) -> Result<(), StoreError> {
        let nobody = Owner::new("");
        let mut after: Option<(Timestamp, ApprovalId)> = None;
        loop {
            let list = ApprovalList {
                viewer: &nobody,
                of: ListedFor::Anyone,
                state: ListedState::Waiting,
                tool: None,
                after: after.as_ref().map(|(at, id)| (*at, id)),
                limit: PAGE,
            };
            let records = self.services.store.approvals(list).await?;
            let policies = self.services.policies.current();
            for record in &records {
                let request = under_newest_rules(&record.call, &policies).approval_request;
                let terms = request.and_then(|request| request.terms).map(SavedTerms::from);
                if terms.as_ref().map(|terms| &terms.hash) != record.terms.as_ref() {
                    let now = self.services.clock.now();
                    self.services.store.put_approval_terms(&record.id, terms.as_ref(), now).await?;
                }
            }
            match records.last() {
                Some(last) if records.len() == PAGE => {
                    after = Some((last.requested_at, last.id.clone()));
                    // Nobody waits for this, and there may be a million.
                    sleep(PAUSE).await;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Returns an approval as a principal may see it, under the newest rules; `None` if the principal may not.
    fn view_approval(&self, record: &ApprovalRecord, viewer: &Principal) -> Option<Approval> {
        let policies = self.services.policies.current();
        let call = under_newest_rules(&record.call, &policies);
        let is_requester =
            call.approval_request.as_ref().is_some_and(|request| viewer.is_user(&request.requester.user));
        let mut approval = Approval::of(&call, &record.id);
        approval.decision = Deciding::for_principal(&call, viewer, policies.rules.policy.people());
        let has_voted = record.has_voted
            || call.approval_request.as_ref().is_some_and(|request| request.is_approved_by(viewer))
            || call.approval_decision.as_ref().is_some_and(|decided| viewer.is_user(&decided.by));
        if !is_requester && !has_voted && approval.decision.may_decide != Some(true) {
            return None;
        }
        if approval.state != ApprovalState::Waiting {
            approval.decision.may_decide = Some(false);
        }
        if is_requester {
            approval.chat = Some(ChatOfApproval { id: record.chat.clone(), title: record.title.clone() });
        }
        Some(approval)
    }

    /// Returns the hashes of the terms under which a principal may decide about the calls of others.
    async fn terms_of(&self, viewer: &Principal) -> Result<Vec<String>, StoreError> {
        let policies = self.services.policies.current();
        let people = policies.rules.policy.people();
        let somebody = Owner::new("");
        let known = self.services.store.approval_terms().await?;
        let own = known.into_iter().filter(|saved| may_decide(viewer, &somebody, &saved.terms, people));
        Ok(own.map(|saved| saved.hash).collect())
    }

    /// Notes that somebody has tried to decide about an approval that is not for them.
    async fn note_refused_vote(&self, record: &ApprovalRecord, by: &Decider) {
        let Some(request) = &record.call.approval_request else { return };
        let policies = self.services.policies.current();
        let event = AuditEvent {
            outcome: Some(AuditOutcome::Refused),
            ..AuditEvent::about(AuditAction::Refused, &record.call)
                .decided_by(by, policies.rules.policy.people())
        };
        let entry = AuditEntry::of_chat(&request.requester.user, &record.chat, None, event);
        if let Err(error) = self.services.store.add_audit(self.services.clock.now(), vec![entry]).await {
            let approval = &record.id;
            tracing::warn!(%approval, %error, "the attempt to decide could not be noted in the audit");
        }
    }
}

/// Returns a call as it is under the newest rules, if it waits for a decision.
fn under_newest_rules(call: &Call, policies: &PolicySnapshot) -> Call {
    let mut current = call.clone();
    if call.awaits_approval()
        && let Some(request) = &mut current.approval_request
    {
        request.terms = newest_terms(call, &*policies.rules.policy, &policies.toolbox, &request.requester);
    }
    current
}

/// Sorts approvals as a list in this state has them, each once.
fn sort(records: &mut Vec<ApprovalRecord>, state: ListedState) {
    records.sort_by(|a, b| {
        let order = (state.time_of(a), a.id.as_str()).cmp(&(state.time_of(b), b.id.as_str()));
        match state {
            ListedState::Waiting => order,
            ListedState::Settled | ListedState::All => order.reverse(),
        }
    });
    records.dedup_by(|a, b| a.id == b.id);
}
