//! The chat's record, read and written: what of a run is saved, and how a run is taken up that another process has left.

use fermata_protocol::{PostedTool, UiChunk};
use fermata_tools::{Owner, always_allowed};

use super::{Driver, Live, Record};
use crate::{
    run::{Effects, Ending, Run, RunState, SavedRun},
    run_log::Writer,
    store::{Change, RunRecord, StoreError},
};

impl Driver {
    /// Reads what is known of the chat.
    pub(super) async fn load(&mut self) -> Result<(), StoreError> {
        self.record = self.inner.store.chat(&self.chat).await?.map(|chat| Record {
            owner: chat.owner,
            profile: chat.profile,
            always: always_allowed(&chat.confirmations),
            saved_run: chat.open_run.is_some(),
        });
        Ok(())
    }

    /// Takes up the open run, where there is one that nobody drives.
    pub(super) async fn take_up(&mut self) -> Result<(), StoreError> {
        if self.live.is_some() || !self.record.as_ref().is_some_and(|record| record.saved_run) {
            return Ok(());
        }
        let Some(saved) = self.inner.store.chat(&self.chat).await?.and_then(|chat| chat.open_run) else {
            return Ok(());
        };
        let (run, log) = restore(saved)?;
        let current = self.inner.current();
        // A name that the server has taken meanwhile is the server's.
        let is_free = |tool: &&PostedTool| current.toolbox.find(&tool.name).is_none();
        let posted: Vec<_> = run.state.tools.iter().filter(is_free).cloned().collect();
        let toolbox = current.toolbox.with_browser_tools(&posted).map_err(corrupt)?;
        let Some(record) = self.record.as_mut() else { return Ok(()) };
        record.saved_run = false;
        let open = self.inner.open_runs.enter(&record.owner);
        self.live = Some(Live::new(run, log, current, toolbox, open, self.inner.tasks.clone()));
        let effects = self.decide(|run, context, effects| *effects = run.resume(context));
        self.perform(effects).await?;
        self.keep_time().await
    }

    /// Saves what the run has decided, after these changes to the chat, in one commit.
    pub(super) async fn save(&mut self, before: Vec<Change>, effects: &Effects) -> Result<(), StoreError> {
        let (Some(live), Some(record)) = (&mut self.live, &mut self.record) else { return Ok(()) };
        let mut changes = before;
        changes.extend(changes_of(live, effects, &record.owner)?);
        self.inner.store.commit(&self.chat, self.inner.clock.now(), changes).await?;
        if live.run.is_saved_by(effects) {
            live.log.note_saved();
        }
        for place in &effects.changed {
            let call = &live.run.calls[*place];
            live.spans.note(call, live.toolbox.find(&call.tool).is_some());
        }
        record.always.extend(effects.always.iter().cloned());
        Ok(())
    }
}

/// What is to be saved of the run.
fn changes_of(live: &Live, effects: &Effects, owner: &Owner) -> Result<Vec<Change>, StoreError> {
    let run = &live.run;
    let id = || run.id.clone();
    let call = |place: &usize| Box::new(run.calls[*place].clone());
    let mut changes: Vec<Change> =
        effects.changed.iter().map(|place| Change::PutCall { run: id(), call: call(place) }).collect();
    changes.extend(effects.confirmed.iter().map(|place| Change::Confirm {
        run: id(),
        call: call(place),
        by: owner.clone(),
    }));
    let keep_message = match &effects.over {
        // Clients show these however little they say.
        Some(Ending::Finished(_) | Ending::Stopped) => true,
        Some(
            Ending::Superseded
            | Ending::Expired
            | Ending::StepLimit
            | Ending::Failed(_)
            | Ending::ToolFailed { .. },
        ) => run.has_content(),
        None => run.state.let_go,
    };
    if keep_message {
        changes.push(Change::PutMessage(Box::new(run.snapshot())));
    }
    if let Some(ending) = &effects.over {
        changes.push(Change::CloseRun { run: id(), outcome: ending.name() });
    } else if run.is_saved_by(effects) {
        let state = serde_json::to_value(&run.state).map_err(corrupt)?;
        changes.push(Change::SaveRun { run: id(), state, expires: run.expires() });
        let (first, chunks) = live.log.unsaved();
        changes.push(Change::AppendChunks { run: id(), first, chunks });
    }
    Ok(changes)
}

fn restore(saved: RunRecord) -> Result<(Run, Writer), StoreError> {
    let state: RunState = serde_json::from_value(saved.state).map_err(corrupt)?;
    let log = saved.chunks.iter().map(|(seq, chunk)| Ok((*seq, UiChunk::from_record(chunk)?)));
    let log = log.collect::<Result<Vec<_>, serde_json::Error>>().map_err(corrupt)?;
    let writer = Writer::restore(saved.id.clone(), &log);
    let run = SavedRun { id: saved.id, message: saved.message, state, calls: saved.calls, log };
    Ok((Run::restore(run).map_err(corrupt)?, writer))
}

pub(super) fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}
