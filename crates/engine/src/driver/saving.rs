//! The chat's record, read and written: what of a run is saved, and how a run is taken up that another process has left.

use fermata_protocol::{ToolState, UiChunk, UiMessage, UiPart};
use fermata_tools::{Call, CallState, Cancelled, Owner, grants};
use jiff::Timestamp;

use super::{Driver, Live, Record};
use crate::{
    run::{Effects, Ending, LOST_PLACES, Run, RunSettings, RunState, SavedRun},
    run_log::Writer,
    store::{Change, InstanceId, RunRecord, StoreError, json_bytes},
};

impl Driver {
    /// Reads what is known of the chat.
    pub(super) async fn read(&mut self) -> Result<(), StoreError> {
        self.inner.instances.join(&self.inner.store, &self.inner.clock).await?;
        self.deaths = self.inner.instances.deaths();
        let me = &self.inner.instances.me;
        self.record = self.inner.store.chat(&self.chat).await?.map(|chat| Record {
            owner: chat.owner,
            fence: chat.fence,
            profile: chat.profile,
            bytes: chat.bytes.saturating_sub(chat.open_run.as_ref().map_or(0, |run| run.message_bytes)),
            grants: grants(&chat.confirmations, &chat.grant_ends),
            is_mine: chat.driver.as_ref() == Some(me),
            driver: chat.driver.filter(|driver| driver != me),
            saved_run: chat.open_run.map(Box::new),
        });
        let owner = self.record.as_ref().map(|record| record.owner.clone());
        self.inner.chats.note_owner(&self.chat, owner);
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
        let (id, counted) = (saved.id.clone(), saved.attempts);
        let begins = begins_work(&saved, self.inner.clock.reached());
        let attempts = if begins { counted.saturating_add(1) } else { counted };
        if begins {
            // Before anything of it is looked at: whatever it does to this process, the next one knows of the attempt.
            let driver = Some(self.inner.instances.me.clone());
            self.commit(vec![Change::Drive { run: id.clone(), driver, attempts }]).await?;
            if let Some(record) = &mut self.record {
                record.is_mine = true;
            }
        }
        let most = self.inner.settings.limits.attempts;
        let gives_up = begins && attempts >= most;
        if gives_up && attempts >= most.saturating_mul(2) {
            return self.close_unread(*saved).await;
        }
        let mut live = match self.restore(*saved) {
            Ok(live) => live,
            Err(error) => {
                if begins {
                    // Another version of the server may be able to read it.
                    self.commit(vec![Change::Drive { run: id, driver: None, attempts: counted }]).await?;
                }
                return Err(error);
            }
        };
        (live.attempts, live.is_taken_up) = (attempts, true);
        self.live = Some(live);
        let mut effects = self.decide(|run, context, effects| {
            if gives_up { run.give_up(context, effects) } else { *effects = run.resume(context) }
        });
        // Nobody else is to take it up from now on. One that waits is only looked at until somebody follows it or answers; where it has
        // nothing any more for which this instance would keep it, it is nobody's.
        let may_rest = |live: &Live| live.driven.is_some() && live.run.may_rest();
        effects.save |= self.is_at_work() || self.live.as_ref().is_some_and(may_rest);
        self.perform(effects).await?;
        if let Some(live) = &mut self.live {
            live.is_taken_up = false;
        }
        self.keep_time().await
    }

    /// The run as it was saved. Nothing is built for its tools: a schema may be what no process survives.
    fn restore(&self, saved: RunRecord) -> Result<Live, StoreError> {
        let has_settings = !saved.settings.is_null();
        let (run, log) = restore(saved)?;
        let current = self.inner.policies.current();
        let toolbox = current.toolbox.with_saved_tools(&run.settings.tools);
        let mine = self.record.as_ref().filter(|record| record.is_mine);
        let driven = mine.map(|record| self.inner.open_runs.enter(&record.owner));
        let mut live = Live::new(run, log, current, toolbox, driven, self.inner.tasks.clone());
        live.has_settings = has_settings;
        Ok(live)
    }

    /// Ends a run that has ended each process which tried to end it in good order: by its rows alone. Those who look for it find the
    /// `error` behind what was saved of its log.
    async fn close_unread(&mut self, saved: RunRecord) -> Result<(), StoreError> {
        let (run, now) = (saved.id, self.inner.clock.now());
        tracing::error!(chat = %self.chat, %run, "the run is given up unread: no process that tried to end it survived");
        let mut changes = Vec::new();
        // A message whose readers were let go is in the record, with calls that nobody can answer from now on.
        let messages = self.inner.store.messages(&self.chat).await?;
        if let Some(mut message) = messages.into_iter().find(|message| message.id == saved.message) {
            settle_open_calls(&mut message, &saved.calls);
            if let Some(record) = &mut self.record {
                record.bytes += json_bytes(&message);
            }
            changes.push(Change::PutMessage(Box::new(message)));
        }
        if let Some(last) = Ending::CrashLoop.public() {
            let first = place_after(&saved.state, &saved.chunks);
            let chunks = vec![UiChunk::Error { error_text: last }.to_record()];
            changes.push(Change::AppendChunks { run: run.clone(), first, chunks });
        }
        for mut call in saved.calls.into_iter().filter(|call| !call.state().is_final()) {
            call.enter(CallState::Cancelled { cancelled: Cancelled::RunEnded }, now);
            changes.push(Change::PutCall { run: run.clone(), call: Box::new(call) });
        }
        changes.push(Change::CloseRun { run, outcome: Ending::CrashLoop.name() });
        self.commit(changes).await
    }

    /// Has others know that this instance drives the run, because somebody follows it here.
    pub(super) async fn claim(&mut self) -> Result<(), StoreError> {
        let is_claimed = self.live.as_ref().is_none_or(|live| live.driven.is_some() || live.run.may_rest());
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
        let (Some(live), Some(record)) = (&mut self.live, &self.record) else { return Ok(()) };
        if live.run.gets_on(effects, live.is_taken_up) {
            live.attempts = 0;
        }
        let left = if effects.over.is_some() && keeps_message(live, effects) {
            json_bytes(&live.run.snapshot())
        } else {
            0
        };
        let mut changes = before;
        changes.extend(changes_of(live, effects, &record.owner, &self.inner.instances.me)?);
        let is_closing = self.inner.closing.is_cancelled();
        self.commit(changes).await?;
        let (Some(live), Some(record)) = (&mut self.live, &mut self.record) else { return Ok(()) };
        // Before anybody sees the end, who may post at once.
        if effects.over.is_some() || live.run.may_rest() {
            live.driven = None;
        } else if live.driven.is_none() {
            live.driven = Some(self.inner.open_runs.enter(&record.owner));
        }
        live.is_saved_late |= is_closing;
        if live.run.is_saved_by(effects) {
            live.has_settings = true;
            live.log.note_saved();
        }
        for place in &effects.changed {
            live.spans.note(&live.run.calls[*place]);
        }
        record.bytes += left;
        record.grants.extend(effects.grants.iter().cloned());
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
        fingerprint: fingerprint(&run.calls[*place], effects),
    }));
    changes.extend(effects.audit.iter().map(|event| Change::Audit {
        owner: owner.clone(),
        run: Some(id()),
        event: Box::new(event.clone()),
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
        if !live.has_settings {
            let settings = serde_json::to_value(&run.settings).map_err(corrupt)?;
            changes.push(Change::PutSettings { run: id(), settings });
        }
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
            attempts: live.attempts,
        });
        let (first, chunks) = live.log.unsaved();
        changes.push(Change::AppendChunks { run: id(), first, chunks });
    }
    Ok(changes)
}

/// What the tool of a call is that was allowed for always just now.
fn fingerprint(call: &Call, effects: &Effects) -> Option<String> {
    let allows = call.approval_decision.as_ref().is_some_and(|decided| decided.approved && decided.always);
    let (_, grant) = effects.grants.iter().find(|(tool, _)| allows && *tool == call.tool)?;
    grant.fingerprint.clone()
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
            | Ending::ChatLimit { .. }
            | Ending::Failed(_)
            | Ending::CrashLoop
            | Ending::ToolFailed { .. },
        ) => live.run.has_content(),
        None => live.run.state.let_go,
    }
}

/// A place in a log, of which only what is saved is known, that no reader has seen anything at.
fn place_after(state: &serde_json::Value, chunks: &[(u64, String)]) -> u64 {
    let saved = chunks.last().map_or(0, |(last, _)| *last);
    // Each process that took up the run has jumped ahead, and saved where to.
    let reached = state["seq"].as_u64().unwrap_or(0).max(saved);
    reached.saturating_add(LOST_PLACES)
}

/// Has the calls of a message that are open there end as their rows say, and those that are open in both as calls do whose run has ended.
fn settle_open_calls(message: &mut UiMessage, calls: &[Call]) {
    for part in &mut message.parts {
        let UiPart::Tool(part) = part else { continue };
        let (input, raw_input) = match &mut part.state {
            ToolState::InputStreaming { input, raw_input }
            | ToolState::ApprovalRequested { input, raw_input }
            | ToolState::ApprovalResponded { input, raw_input } => (input.take(), raw_input.take()),
            ToolState::InputAvailable { input } => (Some(input.take()), None),
            ToolState::OutputAvailable { .. }
            | ToolState::OutputError { .. }
            | ToolState::OutputDenied { .. } => continue,
        };
        let call = calls.iter().find(|call| call.id == part.tool_call_id);
        let error_text = match call.map(Call::state) {
            Some(CallState::Success { output }) => {
                let output = output.clone();
                part.state = ToolState::OutputAvailable { input, output, preliminary: None };
                continue;
            }
            Some(CallState::Error { error_text, .. }) => error_text.clone(),
            Some(CallState::Cancelled { cancelled }) => cancelled.text(),
            Some(
                CallState::Validating
                | CallState::AwaitingApproval
                | CallState::Scheduled
                | CallState::Executing,
            )
            | None => Cancelled::RunEnded.text(),
        };
        part.state = ToolState::OutputError { input, raw_input: raw_input.map(Into::into), error_text };
    }
}

/// Whether a run that is taken up goes on by itself, and not only when somebody answers.
fn begins_work(saved: &RunRecord, now: Timestamp) -> bool {
    let is_due = |call: &Call| call.awaits_answer() && call.expires.is_some_and(|expires| expires <= now);
    !saved.waiting || saved.calls.iter().any(is_due)
}

fn restore(saved: RunRecord) -> Result<(Run, Writer), StoreError> {
    // Earlier versions saved both as one.
    let settings = if saved.settings.is_null() { saved.state.clone() } else { saved.settings };
    let settings: RunSettings = serde_json::from_value(settings).map_err(corrupt)?;
    let state: RunState = serde_json::from_value(saved.state).map_err(corrupt)?;
    let log = read_chunks(&saved.chunks)?;
    let writer = Writer::restore(saved.id.clone(), &log);
    let run = SavedRun { id: saved.id, message: saved.message, settings, state, calls: saved.calls, log };
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
