//! The plan of the run: when the model has to make one, and its calls, which the run settles itself.
//!
//! The plan follows from the calls (see [`crate::run_tools::plan`]), so nothing of it is saved with the run. Only clients that ask for it are sent
//! `data-plan` ([`Show::Plan`]).

use std::collections::BTreeSet;

use fermata_protocol::{DataChunk, Plan, PlanMode, RunId, Show, ToolChoice, UiChunk};
use fermata_tools::{Call, CallState, ErrorType, RunBy, ToolError};
use serde_json::json;

use super::{Deciding, Phase, Run};
use crate::run_tools::plan::{self, MAKE_PLAN, PlanCall, PlanOutcome, UPDATE_PLAN};

/// The number of times that the model may fail to make a plan. Then the run goes on without one.
const MAX_FAILURES: usize = 2;

// === impl Run ===

impl Run {
    /// Returns the plan of the run, if one was made.
    pub fn plan(&self) -> Option<Plan> {
        if self.settings.plan == PlanMode::Off {
            return None;
        }
        plan::plan_of(self.calls.iter().filter_map(|call| {
            let outcome = match call.state() {
                CallState::AwaitingApproval => PlanOutcome::Asked,
                CallState::Scheduled | CallState::Executing => PlanOutcome::Begun,
                CallState::Success { .. } => PlanOutcome::Success,
                CallState::Error { .. } => PlanOutcome::Failed,
                CallState::Cancelled { .. } => PlanOutcome::Cancelled,
                // The model has not made the call yet.
                CallState::Validating => return None,
            };
            Some(PlanCall { id: &call.id, tool: &call.tool, input: call.effective_input(), outcome })
        }))
    }

    /// Returns whether the model is offered the tools for plans. Once it is, they are offered until the run ends, so that its requests begin
    /// alike.
    pub fn offers_plan(&self) -> bool {
        self.settings.plan != PlanMode::Off && (self.wants_plan() || self.made_plans().next().is_some())
    }

    /// Returns whether the step has to make a plan.
    pub(super) fn must_plan(&self) -> bool {
        if self.settings.plan == PlanMode::Off || !self.wants_plan() {
            return false;
        }
        let mut failures = usize::try_from(self.state.plan_refusals).unwrap_or(usize::MAX);
        for call in self.made_plans().filter(|call| call.step < self.state.step) {
            match call.state() {
                CallState::Error { .. } => failures += 1,
                CallState::Validating
                | CallState::AwaitingApproval
                | CallState::Scheduled
                | CallState::Executing
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
        let is_of_model = |call: &&Call| !self.is_of_plan(call) && !self.is_made_by_run(call);
        let before = self.calls.iter().filter(|call| call.step < self.state.step).filter(is_of_model);
        let tools: BTreeSet<&str> = before.map(|call| call.tool.as_str()).collect();
        self.settings.wants_plan || tools.len() >= 2
    }

    fn made_plans(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.tool == MAKE_PLAN && self.is_of_plan(call))
    }

    /// Returns whether the run itself settles the call, because it makes or updates the plan.
    pub(super) fn is_of_plan(&self, call: &Call) -> bool {
        self.settings.plan != PlanMode::Off
            && call.run_by == Some(RunBy::Server)
            && [MAKE_PLAN, UPDATE_PLAN].contains(&call.tool.as_str())
    }

    /// Returns whether the step is about the plan: the model makes one, or one waits for a person.
    pub(super) fn is_planning(&self) -> bool {
        let has_open_plan = self
            .step_calls()
            .iter()
            .any(|call| call.tool == MAKE_PLAN && self.is_of_plan(call) && !call.state().is_final());
        has_open_plan || (self.state.phase == Phase::Streaming && self.must_plan())
    }
}

// === impl Deciding ===

impl Deciding<'_> {
    /// Returns the reason why an input of the model makes no plan; `None` for a good plan, and for a call of another tool.
    pub(super) fn plan_error(&self, index: usize) -> Option<String> {
        let call = self.run.call(index);
        if call.tool != MAKE_PLAN || !self.run.is_of_plan(call) {
            return None;
        }
        let earlier = self.run.made_plans().take_while(|made| made.id != call.id);
        let mut earlier = earlier.filter(|made| !matches!(made.state(), CallState::Error { .. }));
        match earlier.next().map(Call::state) {
            Some(CallState::Cancelled { .. }) => Some("There will be no plan for this message. Go on without one.".into()),
            Some(_) => Some("There is a plan for this message already. Go on with it, and report its steps with update_plan.".into()),
            None => plan::check(&call.effective_input().value(), self.context.toolbox).err(),
        }
    }

    /// Settles a call that makes or updates the plan.
    pub(super) fn settle_plan_call(&mut self, index: usize) {
        self.change(index, CallState::Executing);
        let call = self.run.call(index);
        let outcome = if call.tool == MAKE_PLAN {
            Ok(json!({ "state": "accepted" }))
        } else {
            plan::update(self.run.plan().as_ref(), &call.effective_input().value())
        };
        self.settle(index, outcome.map_err(|text| ToolError::new(ErrorType::InvalidFormat, text)));
    }

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
