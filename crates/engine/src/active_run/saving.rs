//! Saving a run's decisions: one commit with everything that has to survive before anything is done or shown.

use fermata_protocol::GrantedFor;
use fermata_tools::MemoryWrites;
use tokio::time::Instant;

use super::{ActiveRun, Ownership, StepWork};
use crate::{
    ports::store::{AuditEntry, Change, InstanceId, StoreError, json_bytes},
    run::{Commit, Decided, Effects, Ending, Run},
    services::Patience,
};

impl ActiveRun {
    /// Saves the run and the changes to its chat, in one commit.
    pub(super) async fn save(&mut self, commit: &Commit, ending: Option<&Ending>) -> Result<(), StoreError> {
        if commit.is_progress {
            self.attempts = 0;
        }
        let is_kept = keeps_message(&self.run, ending);
        let message_bytes = if ending.is_some() && is_kept { json_bytes(&self.run.snapshot()) } else { 0 };
        // A run that waits when the server ends is for any instance to resume, and one that is unloaded as well.
        let is_draining = self.services.shutdown.draining.is_reached();
        let is_owned =
            ending.is_none() && !self.run.is_unloadable() && !(is_draining && self.run.is_waiting());
        let owner = is_owned.then(|| self.services.lease.instance.clone());
        let mut changes = std::mem::take(&mut self.unsaved);
        if !commit.earlier.is_empty() {
            changes.extend(self.change_earlier_message(&commit.earlier).await?);
        }
        let plan = self.run.plan();
        if plan != self.saved_plan
            && let Some(plan) = &plan
        {
            let (run, plan) = (self.run.id.clone(), Box::new(plan.clone()));
            changes.push(Change::PutPlan { run, plan });
        }
        changes.extend(self.changes(commit, ending, owner)?);
        if ending.is_some() {
            changes.extend(self.unremembered());
        }
        let status = self.run.status();
        if status != self.record.head.status {
            self.record.head.status = status.clone();
            changes.push(Change::PutStatus { status });
        }
        let summary_is_due = ending.is_some() && self.summary_is_due();
        if summary_is_due {
            changes.push(Change::ScheduleSummary { due: Some(self.services.clock.now()) });
        }
        if ending.is_some() && self.record.memory_plan(&self.policies).is_some() {
            let quiet = self.services.clock.now().saturating_add(self.services.settings.memory_after).ok();
            self.record.context.note_at = quiet;
            changes.push(self.record.context.saved());
            if !summary_is_due {
                changes.push(Change::ScheduleSummary { due: quiet });
            }
        }
        let begins = changes.iter().any(|change| matches!(change, Change::OpenRun { .. }));
        let patience = if begins { Patience::Request } else { Patience::Run };
        self.record.commit(&self.services, patience, changes).await?;
        self.is_saved = true;
        self.saved_plan = plan;
        if summary_is_due {
            self.services.due_summaries.add(self.record.chat.clone(), self.record.head.owner.clone());
        }

        if commit.run {
            self.log.note_saved();
            // The run is counted before its readers see anything, because they may post at once.
            if !is_owned {
                self.ownership = Ownership::Unclaimed;
            } else if matches!(self.ownership, Ownership::Unclaimed) {
                self.ownership = Ownership::Claimed(self.services.open_runs.enter(&self.record.head.owner));
            }
        }
        if let Some(route) = commit.answer_route {
            self.services.holds.remember(&self.record.head.owner, route);
            tracing::info!(
                chat = %self.record.chat,
                run = %self.run.id,
                "a stock page answered by POST /chat/tool-result while its stream was open; with hold = auto, streams of this owner's stock \
                 pages are held for five minutes from now on"
            );
        }
        if commit.calls.iter().any(|index| self.run.calls[*index].approval_request.is_some()) {
            self.services.approval_feed.note_change();
        }
        for index in &commit.calls {
            self.spans.record(&self.run.calls[*index]);
        }
        self.record.head.bytes += message_bytes;
        for (_, grant) in &commit.grants {
            self.record.grants.add(grant.clone());
        }
        Ok(())
    }

    /// Notes that nothing of the run's message is to be remembered without anybody being asked, because the model had read something from outside
    /// when it wrote it. Returns the change to save.
    fn unremembered(&mut self) -> Option<Change> {
        let remembers =
            self.run.settings.remembers && self.policies.rules.memory_writes != MemoryWrites::Free;
        if !remembers || self.run.outside_sources(u32::MAX).is_empty() {
            return None;
        }
        self.record.context.unremembered.add([self.run.message.clone()]);
        Some(self.record.context.saved())
    }

    /// Returns whether a summary of the chat is to be written after the run.
    fn summary_is_due(&self) -> bool {
        let settings = &self.services.settings;
        let context = &self.record.context;
        // With the message of the run.
        let messages = self.record.head.messages + 1;
        messages >= context.summarized() + settings.keep_recent + settings.summary_every
            || context.full(self.window()).is_some()
    }

    /// Saves the words of the model so far. If the store is away, they are saved with the next ones.
    pub(super) async fn save_spoken(&mut self) -> Result<(), StoreError> {
        match self.save_answer(Patience::Glance, Some(self.services.lease.instance.clone())).await {
            Ok(()) | Err(StoreError::Unavailable(_)) => {}
            Err(error) => return Err(error),
        }
        if let StepWork::Model(stream) = &mut self.step {
            stream.saved_at = Instant::now();
        }
        Ok(())
    }

    /// Saves the run in the middle of a step, with the part of it that readers have been shown.
    pub(super) async fn save_answer(
        &mut self,
        patience: Patience,
        owner: Option<InstanceId>,
    ) -> Result<(), StoreError> {
        let changes = self.changes(&Commit { run: true, ..Commit::default() }, None, owner)?;
        self.record.commit(&self.services, patience, changes).await?;
        self.log.note_saved();
        Ok(())
    }

    /// Notes that the process has lived on for a while after it has resumed the run.
    pub(super) async fn note_harmless(&mut self) -> Result<(), StoreError> {
        self.attempts = 0;
        let (run, owner) = (self.run.id.clone(), Some(self.services.lease.instance.clone()));
        let change = Change::SetRunOwner { run, owner, attempts: 0 };
        self.record.commit(&self.services, Patience::Run, vec![change]).await
    }

    /// Saves that this instance owns the run, because it has a reader here now.
    pub async fn claim(&mut self) -> Result<(), StoreError> {
        let is_claimed = matches!(self.ownership, Ownership::Claimed(_)) || self.run.is_unloadable();
        if is_claimed || !self.services.store.is_shared() {
            return Ok(());
        }
        let commit = Commit { run: true, ..Commit::default() };
        self.perform(Effects { commit, ..Effects::default() }).await
    }

    /// Returns the changes of a commit to the saved run.
    fn changes(
        &self,
        commit: &Commit,
        ending: Option<&Ending>,
        owner: Option<InstanceId>,
    ) -> Result<Vec<Change>, StoreError> {
        let run = &self.run;
        let mut changes = Vec::new();
        if commit.is_news {
            changes.push(Change::Touched);
        }
        for index in &commit.calls {
            changes.push(Change::PutCall {
                run: run.id.clone(),
                call: Box::new(run.calls[*index].call.clone()),
            });
        }
        for Decided { call: index, decision } in &commit.decisions {
            let grant = commit.grants.iter().find(|(granted, _)| granted == index).map(|(_, grant)| grant);
            changes.push(Change::Confirm {
                run: run.id.clone(),
                call: Box::new(run.calls[*index].call.clone()),
                decision: Box::new(decision.clone()),
                terms: grant.map(|grant| Box::new(grant.terms.clone())),
            });
            if let Some(grant) = grant
                && grant.terms.granted_for == GrantedFor::Owner
            {
                let owner = self.record.head.owner.clone();
                changes.push(Change::GrantToOwner { owner, grant: Box::new(grant.clone()) });
            }
        }
        if let Some(route) = commit.answer_route {
            changes.push(Change::Answered { owner: self.record.head.owner.clone(), route });
        }
        for notice in &commit.notices {
            changes.push(Change::Notify(Box::new(notice.clone())));
        }
        for event in &commit.audit {
            let (owner, chat) = (&self.record.head.owner, &self.record.chat);
            let entry = AuditEntry::of_chat(owner, chat, Some(&run.id), event.clone());
            changes.push(Change::Audit(Box::new(entry)));
        }
        if keeps_message(run, ending) {
            changes.push(Change::PutMessage(Box::new(run.snapshot())));
        }
        if ending.is_some() || commit.run {
            // A reader that looks for its run after this reads the rest of it.
            for (first, chunks) in self.log.unsaved() {
                changes.push(Change::AppendChunks { run: run.id.clone(), first: first.into(), chunks });
            }
        }
        if let Some(ending) = ending {
            changes.push(Change::CloseRun { run: run.id.clone(), outcome: ending.name() });
        } else if commit.run {
            changes.push(Change::SaveRun {
                run: run.id.clone(),
                state: serde_json::to_value(&run.state).map_err(corrupt)?,
                expires: run.expires(),
                // The question of a tool ends with this process, so without it the run goes on by itself.
                waiting: run.is_waiting() && !run.is_pinned(),
                detached: run.is_detached(),
                questions: run.elicitations().count(),
                // Repeated with each commit, because the run may have been released meanwhile.
                owner,
                attempts: self.attempts,
            });
        }
        Ok(changes)
    }
}

/// Returns whether the message so far goes into the chat's messages.
fn keeps_message(run: &Run, ending: Option<&Ending>) -> bool {
    match ending {
        // Clients show these however little they say.
        Some(Ending::Finished(_) | Ending::Stopped) => true,
        Some(
            Ending::Superseded
            | Ending::Expired
            | Ending::StepLimit
            | Ending::OutputLimit { .. }
            | Ending::ChatLimit { .. }
            | Ending::Failed(_)
            | Ending::CrashLoop
            | Ending::ToolFailed { .. }
            | Ending::ToolNotCalled { .. },
        ) => run.has_content(),
        None => run.is_detached(),
    }
}

pub(super) fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}
