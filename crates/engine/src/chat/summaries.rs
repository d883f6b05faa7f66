//! The requests about the summary of a chat.

use std::time::Duration;

use fermata_protocol::SummaryReason;
use fermata_tools::{AuditAction, AuditEvent, Principal};

use super::{ChatActor, ChatState, Handle};
use crate::{
    api::{
        errors::SummaryError,
        request::{CorrectSummary, PlanSummary, SaveSummary},
        view::SummaryView,
    },
    context::{
        SummaryJob,
        summary::{ChatJob, Covered, SummaryPlan, Written, bounded},
    },
    ports::store::{AuditEntry, Change, SummaryRecord},
};

/// A summary that is being written counts as abandoned after this time. It is longer than writing one may take.
const CLAIMED: Duration = Duration::from_secs(120);

impl Handle for PlanSummary {
    async fn handle(&self, actor: &mut ChatActor) -> Result<Option<(String, ChatJob)>, SummaryError> {
        let (services, patience) = (actor.services.clone(), actor.request_patience());
        let is_open = actor.has_open_run();
        if self.asked.is_some() && is_open {
            return Err(SummaryError::RunOpen);
        }
        let Some(record) = actor.record_mut() else { return Err(SummaryError::NotFound) };
        let now = services.clock.now();
        if self.asked.is_none() {
            let of_job = record.context.job.as_ref().map(|job| job.until);
            let waits_until = of_job.max(record.context.paused_until).filter(|until| *until > now);
            if waits_until.is_some() {
                record
                    .commit(&services, patience, vec![Change::ScheduleSummary { due: waits_until }])
                    .await?;
                return Ok(None);
            }
        }
        let policies = services.policies.current();
        let assistant = match &self.asked {
            Some(asked) => {
                let principal = Principal { groups: asked.groups.clone(), ..self.owner.clone().into() };
                let principal = policies.rules.policy.people().complete(&principal);
                let name = policies.assistants.answering(record.head.assistant.as_deref());
                policies.assistants.choose(name, &principal)?
            }
            None => policies.assistant(record.head.assistant.as_deref()),
        };
        let window = assistant.model(record.head.model.as_deref()).window(services.settings.compact_at);
        let recent = record.head.messages.saturating_sub(services.settings.keep_recent);
        let (reason, most, rest, least) = match &self.asked {
            Some(_) => (SummaryReason::Asked, recent, None, 1),
            None => match record.context.full(window) {
                // Half as much as there may be, so that the next summary is not due at once.
                Some(window) => (SummaryReason::Size, record.head.messages, Some(window.compact_at / 2), 1),
                None => (SummaryReason::Every, recent, None, services.settings.summary_every),
            },
        };
        let is_due = most >= record.context.summarized() + least;
        if !is_due && self.asked.is_some() {
            return Err(SummaryError::NothingToCompact);
        }
        let memory = record.memory_plan(&policies);
        let (assistant, model) = (record.head.assistant.clone(), record.head.model.clone());
        let (job, most) = if is_due {
            let previous = record.context.next.as_ref().or(record.context.fit.summary.as_ref()).cloned();
            let wishes = self.asked.clone().and_then(|asked| asked.wishes);
            (
                ChatJob::Summary(SummaryPlan {
                    reason,
                    previous,
                    most,
                    rest,
                    assistant,
                    model,
                    wishes,
                    memory,
                }),
                most,
            )
        } else {
            record.context.was_full = false;
            let to = record.head.messages;
            let noting_due = record.noting_due(&policies);
            match memory {
                Some(memory) if !is_open && noting_due.is_some_and(|due| due <= now) => {
                    (ChatJob::Memories { memory, to, assistant, model }, to)
                }
                _ => {
                    let changes = vec![record.context.saved(), Change::ScheduleSummary { due: noting_due }];
                    record.commit(&services, patience, changes).await?;
                    return Ok(None);
                }
            }
        };
        let until = now.saturating_add(CLAIMED).unwrap_or(now);
        let id = services.ids.next("sum_");
        record.context.job = Some(SummaryJob { id: id.clone(), most, until });
        let claim = vec![record.context.saved(), Change::ScheduleSummary { due: Some(until) }];
        record.commit(&services, patience, claim).await?;
        Ok(Some((id, job)))
    }
}

impl Handle for Box<SaveSummary> {
    async fn handle(&self, actor: &mut ChatActor) -> Result<Option<SummaryView>, SummaryError> {
        let (services, patience) = (actor.services.clone(), actor.request_patience());
        let is_open = actor.has_open_run();
        let Some(record) = actor.record_mut() else { return Err(SummaryError::NotFound) };
        let Some(job) = record.context.job.take_if(|job| job.id == self.job) else { return Ok(None) };
        if self.has_failed {
            record.context.note_failed_summary(services.clock.now());
        }
        let now = services.clock.now();
        let mut changes = Vec::new();
        // What a model has failed to do is tried again after the next run.
        let mut due = if self.has_failed { None } else { record.noting_due(&services.policies.current()) };
        let mut saved = None;
        match &self.written {
            Some(Written::Summary(written)) if written.covered.messages > record.context.summarized() => {
                saved = Some(SummaryView::from(&written.record(now)));
                changes.extend(record.put_summary(&services, written, now));
                record.context.was_full = false;
                record.context.note_written_summary();
                record.context.noted = record.context.noted.max(written.covered.messages);
                record.context.next = Some(written.covered.clone());
                if !is_open {
                    record.context.use_next();
                }
                if written.has_more {
                    due = Some(now);
                }
            }
            Some(Written::Memories { memories, to }) => {
                changes.extend(record.put_memories(&services, memories));
                record.context.noted = record.context.noted.max(*to);
                record.context.note_at.take_if(|_| record.head.messages <= *to);
                due = record.noting_due(&services.policies.current());
            }
            Some(Written::Summary(_)) | None => {}
        }
        // Runs that have ended meanwhile have found the job at work, and left what came after it to the next plan.
        let recent = record.head.messages.saturating_sub(services.settings.keep_recent);
        if recent > job.most && !self.has_failed {
            due = Some(now);
        }
        changes.extend([record.context.saved(), Change::ScheduleSummary { due }]);
        record.commit(&services, patience, changes).await?;
        Ok(saved)
    }
}

impl Handle for CorrectSummary {
    async fn handle(&self, actor: &mut ChatActor) -> Result<SummaryView, SummaryError> {
        let (services, patience) = (actor.services.clone(), actor.request_patience());
        let is_open = actor.has_open_run();
        let Some(record) = actor.record_mut() else { return Err(SummaryError::NotFound) };
        let Some(newest) = services.store.summary(&record.chat, usize::MAX).await? else {
            return Err(SummaryError::NoSummary);
        };
        let covered = Box::new(Covered { summary: bounded(self.summary.clone()), ..Covered::read(&newest) });
        let corrected = SummaryRecord { content: covered.content(), ..newest };
        record.context.next = Some(covered);
        if !is_open {
            record.context.use_next();
        }
        let event = AuditEvent::new(AuditAction::SummaryChanged).by(self.owner.clone(), None);
        let entry = AuditEntry::of_chat(&self.owner, &record.chat, None, event);
        let changes = vec![
            Change::PutSummary(Box::new(corrected.clone())),
            record.context.saved(),
            Change::Audit(Box::new(entry)),
        ];
        record.commit(&services, patience, changes).await?;
        Ok(SummaryView::from(&corrected))
    }
}

impl ChatActor {
    /// Returns whether the chat has a run that is not over.
    pub(super) fn has_open_run(&self) -> bool {
        match &self.state {
            ChatState::Active(active) => !active.is_over(),
            ChatState::Dormant { .. } => true,
            ChatState::Unread | ChatState::Absent | ChatState::Elsewhere(_) | ChatState::Idle(_) => false,
        }
    }
}
