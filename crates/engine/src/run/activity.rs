//! The activity of a run: it works, it waits, or it waits without readers.

use std::collections::BTreeSet;

use fermata_protocol::{Profile, Show};
use fermata_tools::CallState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Checkpoint, Context, Deciding, Phase, Run, RunHold, later};
use crate::{ports::store::AnswerRoute, settings::Hold};

/// The activity of a run, computed after each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Activity {
    /// Something of the run is at work, or the run is over.
    Working,
    /// The run continues only when somebody answers. Its readers are held from this time on.
    Waiting { since: Timestamp },
    /// The run continues only when somebody answers, and its readers were detached.
    Detached { since: Timestamp },
}

// === impl Run ===

impl Run {
    /// Notes the current position of the log as one where a client that answers can continue to read.
    fn note_checkpoint(&mut self, is_waiting: bool) {
        let checkpoint = Checkpoint {
            step: self.state.step,
            position: self.state.position,
            open: self.state.phase == Phase::Working,
        };
        let is_known = if is_waiting {
            self.state.checkpoints.last() == Some(&checkpoint)
        } else {
            // A page may answer its own call by posting, even while other calls of the step are at work. One checkpoint is enough for that.
            !self.step_calls().iter().any(|call| call.awaits_answer())
                || self
                    .state
                    .checkpoints
                    .iter()
                    .any(|known| known.step == checkpoint.step && known.open == checkpoint.open)
        };
        if !is_known {
            self.state.checkpoints.push(checkpoint);
        }
    }

    /// Returns whether the run waits for an answer and its readers were detached.
    pub fn is_detached(&self) -> bool {
        matches!(self.state.activity, Activity::Detached { .. })
    }

    /// Returns the time when the readers are detached if nobody answers; `None` while something is at work.
    pub fn hold_ends(&self) -> Option<Timestamp> {
        match self.state.activity {
            Activity::Waiting { since } => Some(later(since, self.state.hold.duration())),
            Activity::Working | Activity::Detached { .. } => None,
        }
    }

    /// Notes that a client continues to read with a version, a hold and wishes of its own. The hold begins again.
    pub(super) fn on_followed(
        &mut self,
        profile: Profile,
        hold: RunHold,
        show: BTreeSet<Show>,
        context: &Context<'_>,
    ) {
        self.state.profile = profile;
        self.state.hold = hold;
        self.state.show = show;
        self.state.activity = match self.state.activity {
            Activity::Working => Activity::Working,
            Activity::Waiting { .. } | Activity::Detached { .. } => Activity::Waiting { since: context.now },
        };
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Does what any event may have made possible: calls that may run begin, a step whose calls are all settled is completed, and it is
    /// noted whether the run waits. Partial outputs alone make no checkpoint, because they are not saved by themselves.
    pub(super) fn advance(&mut self) {
        match self.run.state.phase {
            Phase::Deciding if !self.run.awaits_approval() => {
                self.ask_again_about_overruled();
                if !self.run.awaits_approval() {
                    self.open_gate();
                }
            }
            Phase::Working => self.start_decided(),
            Phase::Deciding | Phase::Streaming | Phase::Over => {}
        }
        self.complete_step_if_settled();
        self.show_calls();
        self.show_run();
        let is_waiting = self.run.is_waiting();
        if self.effects.after.publish.is_empty() || self.effects.after.publishes_lasting_chunks() {
            self.run.note_checkpoint(is_waiting);
        }
        if !is_waiting {
            self.run.state.activity = Activity::Working;
        } else if self.run.state.activity == Activity::Working {
            self.run.state.activity = Activity::Waiting { since: self.context.now };
        }
    }

    /// Ends the trial of a page that has answered without posting the chat again: it reads on, so it needs its stream.
    pub(super) fn end_trial(&mut self) {
        if self.run.state.hold == RunHold::Trial && !self.run.is_detached() {
            self.run.state.hold = RunHold::For(Hold::AUTO);
            self.effects.commit.answer_route = Some(AnswerRoute::ToolResult);
        }
    }

    /// Detaches the readers while calls wait.
    pub(super) fn on_hold_ended(&mut self) {
        if self.run.state.phase == Phase::Deciding && self.run.state.profile.major() > 5 {
            // A call that the gate withholds is neither asked about nor settled, and would keep a stock client from ever posting again. So an
            // approval is also requested for it, although the gate does not wait for the answer.
            for index in self.run.step_indexes() {
                let call = self.run.call(index);
                if matches!(call.state(), CallState::Scheduled { .. }) && call.approval_request.is_none() {
                    self.request_approval(index, false);
                }
            }
        }
        if let Activity::Waiting { since } = self.run.state.activity {
            self.run.state.activity = Activity::Detached { since };
        }
    }
}
