//! Recovery: a run whose process ended is resumed by another one, or given up.
//!
//! Unsaved chunks are lost, but readers may have seen them. So the positions that they had in the log are never used again.

use fermata_protocol::RunId;
use fermata_tools::{Call, CallState, Wait, Work};
use jiff::Timestamp;

use super::{Deciding, Ending, Phase, Run, is_at_work};
use crate::run_log::position::Position;

/// The error text of a call that ran while the process ended.
const CUT_OFF: &str = "The server was restarted while this call ran; it may or may not have had its effect.";

/// A run that a process has had in memory, as far as the store may have forgotten it: the store may have been replaced by a standby that
/// lacked the last commits.
#[derive(Debug)]
pub(crate) struct RememberedRun {
    pub id: RunId,
    /// The position of the last chunk that readers may have seen.
    pub position: Position,
    /// The calls of the server and of MCP servers that have begun to run.
    pub begun: Vec<Call>,
}

// === impl Run ===

impl Run {
    /// Returns what would be lost with the store.
    pub fn remembered(&self) -> RememberedRun {
        RememberedRun {
            id: self.id.clone(),
            position: self.state.position,
            begun: self
                .calls
                .iter()
                .filter(|call| call.runs_on_server() && call.times_run() > 0)
                .map(|live| live.call.clone())
                .collect(),
        }
    }

    /// Notes the part of the run that the store has forgotten, before it is resumed: calls that had begun may have had their effect, and no
    /// position names another chunk than readers have seen.
    pub fn note_remembered(&mut self, remembered: &RememberedRun, now: Timestamp) {
        if remembered.id != self.id {
            return;
        }
        if remembered.position > self.state.position {
            self.state.position = remembered.position.next_epoch();
        }
        for begun in &remembered.begun {
            let Some(index) = self.index_of(&begun.id) else { continue };
            let call = &mut self.calls[index];
            match call.state() {
                CallState::Validating | CallState::AwaitingApproval { .. } => {
                    call.enter(CallState::scheduled(Wait::Gate), now);
                }
                CallState::Scheduled { .. } => {}
                CallState::Executing { .. }
                | CallState::Success { .. }
                | CallState::Error { .. }
                | CallState::Cancelled { .. } => continue,
            }
            call.enter(CallState::Executing { work: Work::Server }, now);
            call.approval_decision.clone_from(&begun.approval_decision);
            call.approval_request.clone_from(&begun.approval_request);
            call.idempotency_key.clone_from(&begun.idempotency_key);
        }
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Resumes a run whose process ended. A step that was cut off is asked for again. Of the calls that ran, those that may be repeated run
    /// again, and the others have failed.
    pub(super) fn resume(&mut self) {
        match self.run.state.phase {
            Phase::Streaming => {
                self.skip_lost_positions();
                self.ask_model();
            }
            Phase::Deciding | Phase::Working => {
                self.skip_lost_positions();
                self.withdraw_orphans();
                for index in self.run.step_indexes() {
                    self.resume_call(index);
                }
            }
            Phase::Over => {}
        }
    }

    fn resume_call(&mut self, index: usize) {
        let call = self.run.call(index);
        match call.state() {
            CallState::Scheduled { waits_for: wait } | CallState::Executing { work: Work::Again(wait) } => {
                match wait {
                    Wait::Gate => {}
                    Wait::Tool { .. } => {
                        // An MCP server may connect only now.
                        let since = self.context.now;
                        self.call_mut(index).wait_for(Wait::Tool { since });
                        self.start_or_queue(index);
                    }
                    Wait::Resource | Wait::Capacity => self.start_or_queue(index),
                }
            }
            CallState::Executing { work: Work::Server } => {
                let found = self.context.toolbox.find(&call.tool).map(|found| found.spec().retries());
                let retries = found.unwrap_or_else(|| self.context.rules.retries(&call.tool));
                if call.times_run() > retries as usize {
                    self.settle_as_unknown(index, CUT_OFF);
                } else {
                    self.start_or_queue(index);
                }
            }
            CallState::Executing { work: Work::Browser { .. } | Work::Asking { .. } }
            | CallState::Validating
            | CallState::AwaitingApproval { .. }
            | CallState::Success { .. }
            | CallState::Error { .. }
            | CallState::Cancelled { .. } => {}
        }
    }

    /// Ends a run because no process has made progress with it.
    pub(super) fn give_up(&mut self) {
        self.skip_lost_positions();
        self.withdraw_orphans();
        for index in self.run.step_indexes() {
            if is_at_work(self.run.call(index)) {
                self.settle_as_unknown(index, CUT_OFF);
            }
        }
        self.end_run(Ending::CrashLoop);
    }

    /// Skips the positions of chunks that readers may have seen and that were not saved: those of a step that the model streamed, and those
    /// of partial outputs.
    fn skip_lost_positions(&mut self) {
        if self.run.state.phase == Phase::Streaming
            || self.run.step_calls().iter().any(|call| is_at_work(call))
        {
            self.run.state.position = self.run.state.position.next_epoch();
        }
    }
}
