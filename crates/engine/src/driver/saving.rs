//! The chat's record, read and written: what of a run is saved, and how a run is taken up that another process has left.

use fermata_protocol::UiChunk;
use fermata_tools::{Owner, always_allowed};

use super::{Driver, Live, Record};
use crate::{
    run::{Effects, Ending, Run, RunState, SavedRun},
    run_log::Writer,
    store::{Change, InstanceId, RunRecord, StoreError},
};

impl Driver {
    /// Reads what is known of the chat.
    pub(super) async fn read(&mut self) -> Result<(), StoreError> {
        self.inner.instances.join(&*self.inner.store).await?;
        self.deaths = self.inner.instances.deaths();
        let me = &self.inner.instances.me;
        self.record = self.inner.store.chat(&self.chat).await?.map(|chat| Record {
            owner: chat.owner,
            fence: chat.fence,
            profile: chat.profile,
            always: always_allowed(&chat.confirmations),
            is_mine: chat.driver.as_ref() == Some(me),
            driver: chat.driver.filter(|driver| driver != me),
            saved_run: chat.open_run.map(Box::new),
        });
        self.has_read = true;
        Ok(())
    }

    /// Whether what is known of the chat is still so.
    pub(super) async fn verify(&mut self) -> Result<(), StoreError> {
        let Some(record) = self.record.as_ref().filter(|_| self.live.is_some()) else { return Ok(()) };
        let saved = self.inner.store.chat(&self.chat).await?;
        if saved.is_some_and(|saved| saved.fence == record.fence) { Ok(()) } else { Err(StoreError::Fenced) }
    }

    /// The same where this instance was taken for dead since it looked last, or may have been.
    pub(super) async fn verify_in_doubt(&mut self) -> Result<(), StoreError> {
        let instances = &self.inner.instances;
        // In this order: a beat counts the death before it takes the doubt away.
        let may_be_dead = instances.may_be_dead();
        let deaths = instances.deaths();
        if may_be_dead || deaths != self.deaths {
            self.verify().await?;
            self.deaths = deaths;
        }
        Ok(())
    }

    /// Takes up the open run, where there is one that nobody drives.
    pub(super) async fn take_up(&mut self) -> Result<(), StoreError> {
        let Some(record) = &mut self.record else { return Ok(()) };
        let Some(saved) = record.saved_run.take().filter(|_| record.driver.is_none()) else { return Ok(()) };
        let (run, log) = restore(*saved)?;
        let current = self.inner.current();
        // Nothing is built for its tools: a schema may be what no process survives.
        let toolbox = current.toolbox.with_saved_tools(&run.state.tools);
        let open = self.inner.open_runs.enter(&record.owner);
        let mut live = Live::new(run, log, current, toolbox, open, self.inner.tasks.clone());
        live.is_driven = record.is_mine;
        self.live = Some(live);
        let mut effects = self.decide(|run, context, effects| *effects = run.resume(context));
        // Nobody else is to take it up from now on. One that waits is only looked at until somebody follows it or answers; where it has
        // nothing any more for which this instance would keep it, it is nobody's.
        let may_rest = |live: &Live| live.is_driven && live.run.may_rest();
        effects.save |= self.is_at_work() || self.live.as_ref().is_some_and(may_rest);
        self.perform(effects).await?;
        self.keep_time().await
    }

    /// Has others know that this instance drives the run, because somebody follows it here.
    pub(super) async fn claim(&mut self) -> Result<(), StoreError> {
        let is_claimed = self.live.as_ref().is_none_or(|live| live.is_driven || live.run.may_rest());
        if is_claimed || !self.inner.store.is_shared() {
            return Ok(());
        }
        self.perform(Effects { save: true, ..Effects::default() }).await
    }

    /// Makes changes to the chat, unless somebody else has changed it meanwhile.
    pub(super) async fn commit(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        let Some(record) = &mut self.record else { return Ok(()) };
        let now = self.inner.clock.now();
        record.fence = self.inner.store.commit(&self.chat, record.fence, now, changes).await?;
        Ok(())
    }

    /// Saves what the run has decided, after these changes to the chat, in one commit.
    pub(super) async fn save(&mut self, before: Vec<Change>, effects: &Effects) -> Result<(), StoreError> {
        let (Some(live), Some(record)) = (&self.live, &self.record) else { return Ok(()) };
        let mut changes = before;
        changes.extend(changes_of(live, effects, &record.owner, &self.inner.instances.me)?);
        let is_closing = self.inner.closing.is_cancelled();
        self.commit(changes).await?;
        let (Some(live), Some(record)) = (&mut self.live, &mut self.record) else { return Ok(()) };
        live.is_driven = !live.run.may_rest();
        live.is_saved_late |= is_closing;
        if live.run.is_saved_by(effects) {
            live.log.note_saved();
        }
        for place in &effects.changed {
            live.spans.note(&live.run.calls[*place]);
        }
        record.always.extend(effects.always.iter().cloned());
        Ok(())
    }
}

/// What is to be saved of the run.
fn changes_of(
    live: &Live,
    effects: &Effects,
    owner: &Owner,
    me: &InstanceId,
) -> Result<Vec<Change>, StoreError> {
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
    if keeps_message(live, effects) {
        changes.push(Change::PutMessage(Box::new(run.snapshot())));
    }
    if let Some(ending) = &effects.over {
        // A reader that looks for its run just then reads the rest of it.
        let rest = live.log.unsaved_whole().into_iter();
        changes.extend(rest.map(|(first, chunks)| Change::AppendChunks { run: id(), first, chunks }));
        changes.push(Change::CloseRun { run: id(), outcome: ending.name() });
    } else if run.is_saved_by(effects) {
        let state = serde_json::to_value(&run.state).map_err(corrupt)?;
        changes.push(Change::SaveRun {
            run: id(),
            state,
            expires: run.expires(),
            waiting: run.is_waiting(),
            let_go: run.state.let_go,
            questions: run.elicitations().count(),
            // Said each time: others may have been told meanwhile that nobody drives it.
            driver: (!run.may_rest()).then(|| me.clone()),
        });
        let (first, chunks) = live.log.unsaved();
        changes.push(Change::AppendChunks { run: id(), first, chunks });
    }
    Ok(changes)
}

/// Whether the message so far goes into the record.
fn keeps_message(live: &Live, effects: &Effects) -> bool {
    match &effects.over {
        // Clients show these however little they say.
        Some(Ending::Finished(_) | Ending::Stopped) => true,
        Some(
            Ending::Superseded
            | Ending::Expired
            | Ending::StepLimit
            | Ending::OutputLimit { .. }
            | Ending::Failed(_)
            | Ending::ToolFailed { .. },
        ) => live.run.has_content(),
        None => live.run.state.let_go,
    }
}

fn restore(saved: RunRecord) -> Result<(Run, Writer), StoreError> {
    let state: RunState = serde_json::from_value(saved.state).map_err(corrupt)?;
    let log = read_chunks(&saved.chunks)?;
    let writer = Writer::restore(saved.id.clone(), &log);
    let run = SavedRun { id: saved.id, message: saved.message, state, calls: saved.calls, log };
    Ok((Run::restore(run).map_err(corrupt)?, writer))
}

/// The chunks of a log as it was saved.
pub(super) fn read_chunks(chunks: &[(u64, String)]) -> Result<Vec<(u64, UiChunk)>, StoreError> {
    let read = chunks.iter().map(|(seq, chunk)| Ok((*seq, UiChunk::from_record(chunk)?)));
    read.collect::<Result<_, serde_json::Error>>().map_err(corrupt)
}

pub(super) fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}
