//! The gate: no call of a step runs, on the server or in the browser, until every call of the step is decided.
//!
//! A browser runs a call as soon as it reads `tool-input-available`, so for a browser's call that chunk is the permission and is
//! withheld until the gate opens.

use fermata_protocol::{ApprovalId, UiChunk};
use fermata_tools::{Call, CallState, Cancelled, Decision, ErrorType, Question, RunBy, ToolError};
use serde_json::Value;

use super::{
    Context, Effects, Phase, Run,
    ending::Ending,
    speaking::{Arguments, dynamic},
};

/// How deep an input may be. A client posts it again inside its history, whose nesting is limited to a hundred levels.
const DEEPEST_INPUT: usize = 90;

impl Run {
    /// Looks at every call of the step that the model has just finished, and asks, denies or lets them run.
    pub(super) fn decide(&mut self, arguments: Vec<Arguments>, context: &Context<'_>, effects: &mut Effects) {
        self.state.phase = Phase::Deciding;
        effects.save = true;
        for arguments in arguments {
            self.validate(arguments, context, effects);
        }
        self.settle_denied_by_policy(effects);
        for place in self.step_places() {
            if self.calls[place].is_asked() {
                self.ask_person(place, context, effects);
            }
        }
        self.open_if_decided(context, effects);
        self.mark_parked(context.now);
    }

    /// Checks one call and rules on it.
    fn validate(
        &mut self,
        Arguments { place, text, .. }: Arguments,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        let text = if text.trim().is_empty() {
            // A question needs an input to show, and clients read it from the deltas.
            let tool_call_id = self.calls[place].id.clone();
            self.publish(effects, UiChunk::ToolInputDelta { tool_call_id, input_text_delta: "{}".into() });
            "{}".to_owned()
        } else {
            text
        };
        match check(&self.calls[place], text, context) {
            Err((input, error_text)) => {
                self.calls[place].input = input;
                self.fail_input(place, error_text, context, effects);
            }
            Ok(input) => {
                self.calls[place].input = input;
                let state = self.rule(place, context);
                self.change(place, state, context, effects);
                if self.calls[place].runs_here() {
                    self.show_input(place, effects);
                }
            }
        }
    }

    /// What the policy says about a valid call, as the state it comes into.
    fn rule(&self, place: usize, context: &Context<'_>) -> CallState {
        let call = &self.calls[place];
        let Some(found) = context.toolbox.find(&call.tool) else { return CallState::Scheduled };
        let ruling = context.rules.policy.rule(found.spec(), call.effective_input());
        match ruling.decision {
            Decision::Deny => CallState::Cancelled { cancelled: Cancelled::Denied { reason: ruling.reason } },
            Decision::Ask if !context.always.contains(&call.tool) => CallState::AwaitingApproval,
            Decision::Ask | Decision::Allow => CallState::Scheduled,
        }
    }

    /// Tells of the calls that the policy denies: at once, and without a question.
    fn settle_denied_by_policy(&mut self, effects: &mut Effects) {
        for place in self.step_places() {
            if let CallState::Cancelled { cancelled: Cancelled::Denied { reason } } =
                self.calls[place].state()
            {
                let reason = reason.clone();
                self.show_denial(place, reason, effects);
            }
        }
    }

    fn ask_person(&mut self, place: usize, context: &Context<'_>, effects: &mut Effects) {
        if self.pending().count() > context.limits.parked_calls {
            return self.fail(place, too_many_wait(context), context, effects);
        }
        self.put_question(place, true, context, effects);
        self.calls[place].expires = Some(expiry(context));
        effects.park.push(self.calls[place].id.clone());
    }

    /// Shows a question about a call.
    pub(super) fn put_question(
        &mut self,
        place: usize,
        required: bool,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        let id = ApprovalId::new(context.ids.next("appr_"));
        self.calls[place].question = Some(Question { id: id.clone(), required });
        effects.changed.insert(place);
        let chunk = UiChunk::ToolApprovalRequest {
            approval_id: id,
            tool_call_id: self.calls[place].id.clone(),
            tool_name: self.calls[place].tool.clone(),
            approval_descriptor: None,
            input_schema_input: None,
            reason: None,
            is_automatic: None,
            signature: None,
        };
        self.publish(effects, chunk);
    }

    /// Opens the gate where nothing waits for a decision.
    pub(super) fn open_if_decided(&mut self, context: &Context<'_>, effects: &mut Effects) {
        if self.state.phase == Phase::Deciding && !self.step_calls().any(Call::is_asked) {
            self.open_gate(context, effects);
        }
    }

    fn open_gate(&mut self, context: &Context<'_>, effects: &mut Effects) {
        self.state.phase = Phase::Working;
        self.state.parked_since = None;
        self.state.let_go = false;
        effects.save = true;
        for place in self.step_places() {
            self.withdraw_question(place, effects);
            self.show_denial_by_person(place, effects);
        }
        for place in self.step_places() {
            if *self.calls[place].state() == CallState::Scheduled {
                self.start(place, context, effects);
            }
        }
        self.complete_step_if_settled(context, effects);
    }

    /// Nobody needs an answer any more to a question that the gate did not wait for.
    fn withdraw_question(&self, place: usize, effects: &mut Effects) {
        if self.calls[place].takes_decision() {
            effects.release.push(self.calls[place].id.clone());
        }
    }

    fn start(&mut self, place: usize, context: &Context<'_>, effects: &mut Effects) {
        match self.calls[place].run_by {
            Some(RunBy::Server | RunBy::Mcp) => {
                if self.calls[place].edited.is_some() {
                    self.show_input(place, effects);
                }
                self.change(place, CallState::Executing, context, effects);
                effects.execute.push(self.calls[place].id.clone());
            }
            Some(RunBy::Browser) => self.park(place, context, effects),
            None => self.fail(place, ToolError::internal("There is no such tool."), context, effects),
        }
    }

    fn park(&mut self, place: usize, context: &Context<'_>, effects: &mut Effects) {
        if self.pending().count() >= context.limits.parked_calls {
            return self.fail(place, too_many_wait(context), context, effects);
        }
        self.change(place, CallState::Executing, context, effects);
        self.calls[place].expires = Some(expiry(context));
        effects.park.push(self.calls[place].id.clone());
        self.show_input(place, effects);
    }

    /// A server tool has ended.
    pub fn settle(
        &mut self,
        call: &fermata_protocol::ToolCallId,
        outcome: Result<Value, ToolError>,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        let Some(place) = self.calls.iter().position(|known| known.id == *call) else { return };
        if *self.calls[place].state() != CallState::Executing {
            return;
        }
        match outcome {
            Ok(output) => self.succeed(place, output, context, effects),
            Err(error) => self.fail(place, error, context, effects),
        }
        self.complete_step_if_settled(context, effects);
        self.mark_parked(context.now);
    }

    pub(super) fn succeed(
        &mut self,
        place: usize,
        output: Value,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        self.change(place, CallState::Success { output: output.clone() }, context, effects);
        let chunk = UiChunk::ToolOutputAvailable {
            tool_call_id: self.calls[place].id.clone(),
            output,
            preliminary: None,
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: dynamic(&self.calls[place]),
        };
        self.publish(effects, chunk);
    }

    pub(super) fn fail(
        &mut self,
        place: usize,
        error: ToolError,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        let ToolError { error_type, text, retry_after: _ } = error;
        self.change(place, CallState::Error { error_type, error_text: text.clone() }, context, effects);
        self.show_error(place, text, effects);
    }

    fn fail_input(&mut self, place: usize, error_text: String, context: &Context<'_>, effects: &mut Effects) {
        let error_type = ErrorType::InvalidFormat;
        self.change(place, CallState::Error { error_type, error_text: error_text.clone() }, context, effects);
        let call = &self.calls[place];
        let chunk = UiChunk::ToolInputError {
            tool_call_id: call.id.clone(),
            tool_name: call.tool.clone(),
            input: call.input.clone(),
            error_text,
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: dynamic(call),
            title: None,
        };
        self.publish(effects, chunk);
    }

    /// When every call of the step has its outcome, the model is told, unless it has been asked often enough.
    pub(super) fn complete_step_if_settled(&mut self, context: &Context<'_>, effects: &mut Effects) {
        if self.state.phase != Phase::Working || !self.step_calls().all(|call| call.state().is_final()) {
            return;
        }
        if self.state.step >= context.limits.steps {
            return self.end(Ending::StepLimit, context, effects);
        }
        self.publish(effects, UiChunk::FinishStep);
        self.begin_step(effects);
    }

    pub(super) fn change(
        &mut self,
        place: usize,
        state: CallState,
        context: &Context<'_>,
        effects: &mut Effects,
    ) {
        self.calls[place].enter(state, context.now);
        effects.changed.insert(place);
        effects.save = true;
    }

    fn show_input(&mut self, place: usize, effects: &mut Effects) {
        let call = &self.calls[place];
        let chunk = UiChunk::ToolInputAvailable {
            tool_call_id: call.id.clone(),
            tool_name: call.tool.clone(),
            input: call.effective_input().clone(),
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: dynamic(call),
            title: None,
        };
        self.publish(effects, chunk);
    }

    /// A person's denial is shown when the gate opens, so that it is known then whether a browser's call is still to be run.
    pub(super) fn show_denial_by_person(&mut self, place: usize, effects: &mut Effects) {
        if let Some(reason) = self.denied_by_person(place) {
            self.show_denial(place, reason, effects);
        }
    }

    /// The reason that a person gave for denying the call, where one has.
    pub(super) fn denied_by_person(&self, place: usize) -> Option<Option<String>> {
        let denied = self.calls[place].decided.as_ref().filter(|decided| !decided.approved)?;
        Some(denied.reason.clone())
    }

    /// Stock clients take a denial for unfinished, and never post again, where the step has a call that they still wait for; there it
    /// is told as an error.
    fn show_denial(&mut self, place: usize, reason: Option<String>, effects: &mut Effects) {
        let error_text = Cancelled::Denied { reason: reason.clone() }.text();
        let more_to_come = self
            .step_calls()
            .any(|call| call.is_asked() || (call.run_by == Some(RunBy::Browser) && !call.state().is_final()));
        if more_to_come {
            self.show_error(place, error_text, effects);
        } else {
            let (tool_call_id, dynamic) = (self.calls[place].id.clone(), dynamic(&self.calls[place]));
            self.publish(effects, UiChunk::ToolOutputDenied { tool_call_id, error_text, dynamic });
        }
    }

    pub(super) fn show_error(&mut self, place: usize, error_text: String, effects: &mut Effects) {
        let chunk = UiChunk::ToolOutputError {
            tool_call_id: self.calls[place].id.clone(),
            error_text,
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: dynamic(&self.calls[place]),
        };
        self.publish(effects, chunk);
    }
}

/// The input of a call, or what is wrong with it and what came instead.
fn check(call: &Call, text: String, context: &Context<'_>) -> Result<Value, (Value, String)> {
    let input: Value = match serde_json::from_str(&text) {
        Ok(input) => input,
        Err(fault) => {
            let words = format!(
                "The arguments of {} are not valid JSON ({fault}). Call it again with a JSON object.",
                call.tool
            );
            return Err((Value::String(text), words));
        }
    };
    if depth(&input) > DEEPEST_INPUT {
        let words = format!("The arguments of {} are nested over {DEEPEST_INPUT} levels deep.", call.tool);
        return Err((Value::Null, words));
    }
    let Some(found) = context.toolbox.find(&call.tool) else {
        let known: Vec<&str> = context.toolbox.specs().map(|spec| spec.name.as_str()).collect();
        let words = format!("There is no tool named {:?}. The tools are: {}.", call.tool, known.join(", "));
        return Err((input, words));
    };
    match found.check(&input) {
        Ok(()) => Ok(input),
        Err(fault) => Err((input, format!("The input of {} does not fit its schema: {fault}.", call.tool))),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn too_many_wait(context: &Context<'_>) -> ToolError {
    let limit = context.limits.parked_calls;
    let words = format!("Too many calls of this chat wait for somebody: the limit is {limit}.");
    ToolError::new(ErrorType::RateLimit, words)
}

fn expiry(context: &Context<'_>) -> jiff::Timestamp {
    context.now.saturating_add(context.expire).unwrap_or(jiff::Timestamp::MAX)
}
