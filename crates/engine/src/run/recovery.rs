//! Recovery: a run whose process ended is resumed by another one, or given up.
//!
//! Whatever was not saved is lost, but readers may have seen it. So the positions that it had in the log are never used again.

use fermata_tools::{CallState, ToolError};

use super::{Deciding, Ending, Phase, is_at_work};

/// The error text of a call that ran while the process ended.
const CUT_OFF: &str = "The server was restarted while this call ran; it may or may not have had its effect.";

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
                    let call = self.run.call(index);
                    if *call.state() == CallState::Scheduled && call.has_passed {
                        self.start_or_queue(index);
                    } else if let Some(question) = self.run.own_question_id(index) {
                        self.effects.after.ask.push(question);
                    } else if is_at_work(call) {
                        let found = self.context.toolbox.find(&call.tool).map(|found| found.spec().retries());
                        let retries = found.unwrap_or_else(|| self.context.rules.retries(&call.tool));
                        if call.times_run() > retries as usize {
                            self.fail(index, ToolError::internal(CUT_OFF));
                        } else {
                            self.run.awaiting_retry.insert(call.id.clone());
                            self.start_or_queue(index);
                        }
                    }
                }
                let waits = self.run.calls.iter().filter(|call| call.accepts_answer());
                self.effects.after.park.extend(waits.map(|call| call.id.clone()));
            }
            Phase::Over => {}
        }
    }

    /// Ends a run with which no process has made progress.
    pub(super) fn give_up(&mut self) {
        self.skip_lost_positions();
        self.withdraw_orphans();
        for index in self.run.step_indexes() {
            if is_at_work(self.run.call(index)) {
                self.fail(index, ToolError::internal(CUT_OFF));
            }
        }
        self.end_run(Ending::CrashLoop);
    }

    /// Skips the positions of chunks that readers may have seen and that were not saved: those of a step that the model streamed, and those
    /// of partial outputs.
    fn skip_lost_positions(&mut self) {
        if self.run.state.phase == Phase::Streaming || self.run.step_calls().iter().any(is_at_work) {
            self.run.state.position = self.run.state.position.next_epoch();
        }
    }
}
