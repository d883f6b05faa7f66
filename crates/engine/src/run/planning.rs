//! The plan of the run: when the model has to make one, and what clients see of it.
//!
//! The plan follows from the open plan that the run began with and from its calls (see [`crate::run_tools::plan`]), so nothing else of it is
//! saved with the run. Only clients that ask for it are sent `data-plan` ([`Show::Plan`]).

use fermata_protocol::{DataChunk, Plan, PlanMode, RunId, Show, ToolCallId, ToolChoice, UiChunk};
use fermata_tools::{Call, CallState};
use serde_json::json;

use super::{Deciding, Phase, Run};
use crate::run_tools::plan;

/// The number of plans that cannot be used. Then the run that has to have one goes on without it.
const MAX_FAILURES: usize = 2;

// === impl Run ===

impl Run {
    /// Returns the plan of the run: the open one that it began with, or one that was made since.
    pub fn plan(&self) -> Option<Plan> {
        self.plan_before(None)
    }

    /// Returns the plan before a call of the run was made.
    pub(super) fn plan_before(&self, call: Option<&ToolCallId>) -> Option<Plan> {
        if self.settings.plan == PlanMode::Off {
            return None;
        }
        let calls = self.all_calls().take_while(|other| Some(&other.id) != call);
        plan::of_calls(self.settings.open_plan.clone(), calls)
    }

    /// Returns whether the prompt suggests a plan. It does so until the run ends, so that all of its requests begin alike.
    pub fn suggests_plan(&self) -> bool {
        self.is_free_to_plan() && (self.settings.wants_plan || self.settings.plan == PlanMode::Always)
    }

    /// Returns whether the step has to make a plan. An answer without one is shown all the same.
    pub(super) fn must_plan(&self) -> bool {
        let is_first = self.settings.open_plan.is_none() && self.settings.plan == PlanMode::Always;
        if !is_first || !self.is_free_to_plan() {
            return false;
        }
        let before = || self.all_calls().filter(|call| call.step < self.state.step);
        let has_failed = |call: &Call| matches!(call.state(), CallState::Error { .. });
        before().all(|call| call.tool == plan::MAKE_PLAN && has_failed(call))
            && before().count() < MAX_FAILURES
    }

    /// Returns `false` if there are no plans, or if the user has said which tool to call: then there is nothing to plan.
    fn is_free_to_plan(&self) -> bool {
        let is_free = matches!(self.settings.tool_choice, Some(ToolChoice::Auto) | None);
        is_free && self.settings.plan != PlanMode::Off
    }

    /// Returns whether the step is about the plan: the model makes one, or one waits for a person.
    pub(super) fn is_planning(&self) -> bool {
        if self.settings.plan == PlanMode::Off {
            return false;
        }
        let has_open_plan =
            plan::made(self.step_calls().iter().map(|live| &live.call)).any(|call| !call.state().is_final());
        has_open_plan || (self.state.phase == Phase::Streaming && self.must_plan())
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Tells the client the plan if it has changed, and if the client has asked for that. A run has one part for it, which is replaced.
    pub(super) fn show_plan(&mut self) {
        if !self.run.state.show.contains(&Show::Plan) {
            return;
        }
        let plan = self.run.plan();
        if plan == self.run.shown_plan {
            return;
        }
        let part = |run: &RunId| {
            let (kind, id) = ("data-plan".to_owned(), Some(run.to_string()));
            UiChunk::Data(DataChunk { kind, id, data: json!(plan), transient: None })
        };
        if let Some(earlier) = &self.run.state.earlier
            && self.run.is_in_earlier_message()
        {
            self.effects.commit.earlier.push(part(&earlier.run));
        }
        let chunk = part(&self.run.id);
        self.publish(chunk);
        self.run.shown_plan = plan;
    }
}
