//! Resuming a run that another process has left.

use std::sync::Arc;

use fermata_protocol::{Assembler, JsonText, ToolState, UiChunk, UiMessage, UiPart};
use fermata_tools::{AuditEvent, Call, CallState, Cancelled};
use jiff::Timestamp;

use super::{ActiveRun, Ownership, RunParts, saving::corrupt};
use crate::{
    ports::store::{AuditEntry, Change, RunRecord, StoreError, json_bytes},
    record::Record,
    run::{
        Activity, Ending, Event, RememberedRun, Run, RunSettings, RunState, SavedRun, drop_unfinished,
        no_output_metadata,
    },
    run_log::{Writer, position::Position, read_records},
    services::{Patience, Services},
};

/// The outcome of resuming a run.
pub(crate) enum Resumption {
    Resumed(Box<ActiveRun>),
    /// The run was ended without being restored.
    Closed(Box<Record>),
}

impl ActiveRun {
    /// Resumes a run that has no other owner. `is_mine` says whether it is saved that this instance owns it, and `remembered` what this
    /// process knows of a run that it had in memory just before.
    pub async fn resume(
        services: &Arc<Services>,
        mut record: Record,
        saved: RunRecord,
        is_mine: bool,
        remembered: Option<&RememberedRun>,
    ) -> Result<Resumption, StoreError> {
        let (run, attempts_before) = (saved.id.clone(), saved.attempts);
        let works = works_by_itself(&saved, services.clock.reached());
        let attempts = if works { attempts_before.saturating_add(1) } else { attempts_before };
        if works {
            // Before anything of the run is looked at: even if it kills this process, the next one knows of the attempt.
            let owner = Some(services.lease.instance.clone());
            record
                .commit(
                    services,
                    Patience::Request,
                    vec![Change::SetRunOwner { run: run.clone(), owner, attempts }],
                )
                .await?;
        }
        let max_attempts = services.settings.limits.attempts;
        let gives_up = works && attempts >= max_attempts;
        if gives_up && attempts >= max_attempts.saturating_mul(2) {
            close_unread(services, &mut record, saved).await?;
            return Ok(Resumption::Closed(Box::new(record)));
        }
        let (mut restored, log) = match restore(saved) {
            Ok(restored) => restored,
            Err(error) => {
                if works {
                    // Another version of the server may be able to read it.
                    let change = Change::SetRunOwner { run, owner: None, attempts: attempts_before };
                    record.commit(services, Patience::Request, vec![change]).await?;
                }
                return Err(error);
            }
        };
        if let Some(remembered) = remembered {
            restored.note_remembered(remembered, services.clock.now());
        }
        let policies = services.policies.current();
        // No schema is compiled here: it may be the one that no process survives.
        let settings = &restored.settings;
        let toolbox = settings.server_tools(&policies).with_saved_tools(&settings.tools);
        let parts = RunParts { run: restored, log, policies, toolbox };
        let ownership = if works || is_mine {
            Ownership::Claimed(services.open_runs.enter(&record.head.owner))
        } else {
            Ownership::Unclaimed
        };
        let mut active = Self::new(services.clone(), record, parts, ownership);
        active.attempts = attempts;
        active.read_owner_grants().await;
        let mut effects = active.decide(if gives_up { Event::GivenUp } else { Event::Resumed });
        // A run that is at work is this instance's own from now on. One that waits is only looked at until it has a reader here or is
        // answered; if it was this instance's own and can be unloaded, it has no owner any more.
        let is_released = matches!(active.ownership, Ownership::Claimed(_)) && active.run.is_unloadable();
        effects.commit.run |= !active.run.is_waiting() || is_released;
        active.perform(effects).await?;
        if !active.is_over() {
            active.keep_deadlines().await?;
        }
        Ok(Resumption::Resumed(Box::new(active)))
    }
}

/// Returns whether a run goes on by itself when it is resumed, and not only when it is answered.
pub(crate) fn works_by_itself(saved: &RunRecord, now: Timestamp) -> bool {
    let is_due =
        |call: &Call| call.awaits_answer() && call.state().expires().is_some_and(|expires| expires <= now);
    !saved.waiting || saved.calls.iter().any(is_due)
}

/// Returns whether the readers of a run were detached, as it was saved.
pub(crate) fn is_detached(saved: &RunRecord) -> Result<bool, StoreError> {
    let state: RunState = serde_json::from_value(saved.state.clone()).map_err(corrupt)?;
    Ok(matches!(state.activity, Activity::Detached { .. }))
}

/// Returns the run as it was saved, only to look at it.
pub(crate) fn read_run(saved: RunRecord) -> Result<Run, StoreError> {
    restore(saved).map(|(run, _)| run)
}

/// Returns the run as it was saved, and its log.
fn restore(saved: RunRecord) -> Result<(Run, Writer), StoreError> {
    let settings: RunSettings = serde_json::from_value(saved.settings).map_err(corrupt)?;
    let state: RunState = serde_json::from_value(saved.state).map_err(corrupt)?;
    let mut log = read_records(&saved.chunks)?;
    drop_unfinished(&state, &mut log);
    let writer = Writer::restore(saved.id.clone(), &log);
    let run = SavedRun { id: saved.id, message: saved.message, settings, state, calls: saved.calls, log };
    Ok((Run::restore(run).map_err(corrupt)?, writer))
}

/// Ends a run that has ended each process which tried to end it in good order: by its rows alone. Readers that look for it find the
/// `error` behind the saved part of its log.
async fn close_unread(services: &Services, record: &mut Record, saved: RunRecord) -> Result<(), StoreError> {
    let (run, now) = (saved.id, services.clock.now());
    tracing::error!(chat = %record.chat, %run, "the run is given up unread: no process that tried to end it survived");
    let mut changes = Vec::new();
    // If its readers were sent away, the message is among the chat's, with calls that cannot be answered from now on.
    let messages = services.store.messages(&record.chat).await?;
    if let Some(message) = messages.into_iter().find(|message| message.id == saved.message) {
        let message = settle_open_calls(message, &saved.calls);
        record.head.bytes += json_bytes(&message);
        changes.push(Change::PutMessage(Box::new(message)));
    }
    if let Some(last) = Ending::CrashLoop.public() {
        // No reader has seen anything of a new epoch. Each process that recovered the run has begun one, and saved it.
        let last_saved = saved.chunks.last().map_or(0, |(last, _)| *last);
        let reached = saved.state["position"].as_u64().unwrap_or(0).max(last_saved);
        let first = Position::from(reached).next_epoch().next().into();
        let chunks = vec![UiChunk::Error { error_text: last }.to_record()];
        changes.push(Change::AppendChunks { run: run.clone(), first, chunks });
    }
    for mut call in saved.calls {
        if call.state().is_final() {
            continue;
        }
        let has_begun = matches!(call.state(), CallState::Executing { .. });
        call.enter(CallState::Cancelled { cancelled: Cancelled::RunEnded }, now);
        let event = match AuditEvent::of_unknown_outcome(&call) {
            Some(unknown) if has_begun => Some(unknown),
            _ => AuditEvent::of_state(&call, &record.head.owner, None),
        };
        if let Some(event) = event {
            let entry = AuditEntry::of_chat(&record.head.owner, &record.chat, Some(&run), event);
            changes.push(Change::Audit(Box::new(entry)));
        }
        changes.push(Change::PutCall { run: run.clone(), call: Box::new(call) });
    }
    changes.push(Change::CloseRun { run, outcome: Ending::CrashLoop.name() });
    record.commit(services, Patience::Request, changes).await
}

/// Settles the calls of a message that are open in it: as their rows say, or as cancelled if their rows are open as well.
fn settle_open_calls(mut message: UiMessage, calls: &[Call]) -> UiMessage {
    let ended = CallState::Cancelled { cancelled: Cancelled::RunEnded };
    let mut told = Vec::new();
    for part in &mut message.parts {
        let UiPart::Tool(part) = part else { continue };
        let (input, raw_input) = match &mut part.state {
            ToolState::InputStreaming { input, raw_input }
            | ToolState::ApprovalRequested { input, raw_input }
            | ToolState::ApprovalResponded { input, raw_input } => (input.take(), raw_input.take()),
            ToolState::InputAvailable { input } => (Some(std::mem::take(input)), None),
            ToolState::OutputAvailable { .. }
            | ToolState::OutputError { .. }
            | ToolState::OutputDenied { .. } => continue,
        };
        let call = calls.iter().find(|call| call.id == part.tool_call_id);
        let state = call.map(Call::state).filter(|state| state.is_final()).unwrap_or(&ended);
        let error_text = match state {
            CallState::Success { output } => {
                let output = output.clone();
                part.state = ToolState::OutputAvailable { input, output, preliminary: None };
                continue;
            }
            CallState::Error { error_text, .. } => error_text.clone(),
            CallState::Cancelled { cancelled } => cancelled.text(),
            CallState::Validating
            | CallState::AwaitingApproval { .. }
            | CallState::Scheduled { .. }
            | CallState::Executing { .. } => continue,
        };
        part.state = ToolState::OutputError { input, raw_input: raw_input.map(JsonText::string), error_text };
        told.extend(no_output_metadata(&part.tool_call_id, state));
    }
    let mut assembler = Assembler::from_message(message);
    for message_metadata in told {
        if let Err(error) = assembler.apply(&UiChunk::MessageMetadata { message_metadata }) {
            tracing::error!(%error, "metadata does not fit into the message");
        }
    }
    assembler.snapshot()
}
