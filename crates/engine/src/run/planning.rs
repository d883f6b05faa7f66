//! The plan of the run: when the model has to make one, and what clients see of it.
//!
//! The plan follows from the calls (see [`crate::run_tools::plan`]), so nothing of it is saved with the run. Only clients that ask for it are sent
//! `data-plan` ([`Show::Plan`]).

use std::collections::BTreeSet;

use fermata_protocol::{DataChunk, Plan, PlanMode, RunId, Show, ToolChoice, UiChunk};
use fermata_tools::{Call, CallState};
use serde_json::json;

use super::{Deciding, Phase, Run};
use crate::run_tools::plan;

/// The number of times that the model may fail to make a plan. Then the run goes on without one.
const MAX_FAILURES: usize = 2;

// === impl Run ===

impl Run {
    /// Returns the plan of the run, if one was made.
    pub fn plan(&self) -> Option<Plan> {
        if self.settings.plan == PlanMode::Off {
            return None;
        }
        plan::of_calls(self.all_calls())
    }

    /// Returns whether the model is offered the tools for plans. Once it is, they are offered until the run ends, so that its requests begin
    /// alike.
    pub fn offers_plan(&self) -> bool {
        self.settings.plan != PlanMode::Off
            && (self.wants_plan() || plan::made(self.all_calls()).next().is_some())
    }

    /// Returns whether the step has to make a plan.
    pub(super) fn must_plan(&self) -> bool {
        if self.settings.plan == PlanMode::Off || !self.wants_plan() {
            return false;
        }
        let mut failures = usize::try_from(self.state.plan_refusals).unwrap_or(usize::MAX);
        for call in plan::made(self.all_calls()).filter(|call| call.step < self.state.step) {
            match call.state() {
                CallState::Error { .. } => failures += 1,
                CallState::Validating
                | CallState::AwaitingApproval { .. }
                | CallState::Scheduled { .. }
                | CallState::Executing { .. }
                | CallState::Success { .. }
                | CallState::Cancelled { .. } => return false,
            }
        }
        failures < MAX_FAILURES
    }

    /// Returns whether a plan is wanted: the words of the user ask for one, or two different tools were called before this step. If the user
    /// has said which tool to call, there is nothing to plan.
    fn wants_plan(&self) -> bool {
        match self.settings.tool_choice {
            Some(ToolChoice::None | ToolChoice::Required | ToolChoice::Tool(_)) => return false,
            Some(ToolChoice::Auto) | None => {}
        }
        let is_of_model = |call: &&Call| !plan::is_of_plan(&call.tool) && !self.is_made_by_run(call);
        let before = self.all_calls().filter(|call| call.step < self.state.step).filter(is_of_model);
        let tools: BTreeSet<&str> = before.map(|call| call.tool.as_str()).collect();
        self.settings.wants_plan || tools.len() >= 2
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
