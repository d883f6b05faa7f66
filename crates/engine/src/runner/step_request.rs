//! One request to the model, and the step with which it answers.

use std::collections::HashSet;

use fermata_protocol::FinishReason;
use fermata_tools::{ErrorType, ToolError};
use futures::StreamExt;
use serde_json::json;

use super::{Hooks, Params, RunnerError, Step};
use crate::{
    model::{ModelCall, ModelError, ModelMessage},
    prompt::tool_name,
    step_collector::{
        CollectedStep, InvalidArguments, OutputLimitExceeded, StepChange, StepCollector, stream_ended_early,
    },
};

/// A step as the model answered it, with those of its calls that cannot run.
pub(super) struct ReceivedStep {
    pub step: Step,
    pub invalid: InvalidCalls,
}

/// Calls that cannot run as the model made them, each with its error.
pub(super) type InvalidCalls = Vec<(ModelCall, ToolError)>;

/// Generates ids that no call of a conversation has yet.
struct UnusedCallIds {
    used: HashSet<String>,
    count: usize,
}

/// Requests a step from the model and waits until its answer is complete.
pub(super) async fn request_step(
    params: &Params,
    hooks: &dyn Hooks,
    iteration: u32,
) -> Result<ReceivedStep, RunnerError> {
    let answer = tokio::time::timeout(params.model_call_timeout, collect(params, hooks));
    let collected = answer.await.unwrap_or(Err(ModelError::Timeout.into()))?;
    let cut_off = collected.cut_off();
    let CollectedStep { text, reasoning, calls: collected_calls, files, sources, usage, finish_reason } =
        collected;
    if finish_reason == FinishReason::Error {
        return Err(ModelError::Provider("the model says that it failed".into()).into());
    }
    let mut ids = UnusedCallIds::new(&params.messages);
    let (mut calls, mut invalid) = (Vec::new(), InvalidCalls::new());
    for collected in collected_calls {
        let name = collected.tool.clone();
        let input = match &cut_off {
            Some(error) => Err((collected.into_received(), error.clone())),
            None => match collected.into_input(finish_reason) {
                // In the form that providers accept, the name may be that of another tool.
                Ok(input) if tool_name(&name) != name => Err((input, params.toolbox().unknown_tool(&name))),
                Ok(input) => Ok(input),
                Err(InvalidArguments { received, error_text }) => {
                    Err((received, ToolError::new(ErrorType::InvalidFormat, error_text)))
                }
            },
        };
        let (id, tool) = (ids.next(), tool_name(&name));
        match input {
            Ok(input) => calls.push(ModelCall { id, tool, input }),
            Err((received, error)) => {
                let input = if received.is_object() { received } else { json!({}) };
                let call = ModelCall { id, tool, input };
                invalid.push((call.clone(), error));
                calls.push(call);
            }
        }
    }
    let step = Step { iteration, reasoning, text, calls, files, sources, usage, finish_reason };
    Ok(ReceivedStep { step, invalid })
}

async fn collect(params: &Params, hooks: &dyn Hooks) -> Result<CollectedStep, RunnerError> {
    let stream = tokio::time::timeout(params.model_timeout, params.model.stream(params.request()));
    let mut events = stream.await.unwrap_or(Err(ModelError::Timeout))?;
    let mut collector = StepCollector::default();
    loop {
        let event = tokio::time::timeout(params.model_timeout, events.next());
        let event = event.await.map_err(|_| ModelError::Timeout)?;
        let event = event.unwrap_or_else(|| Err(stream_ended_early()))?;
        hooks.event(&event);
        let changes = collector
            .on_event(event, params.step_limits())
            .map_err(|OutputLimitExceeded { bytes }| RunnerError::OutputLimit(bytes))?;
        for change in changes {
            match change {
                StepChange::Completed(step) => return Ok(step),
                StepChange::CallLeftOut => {
                    tracing::warn!(chat = %params.chat, "a call is left out, because its step has too many");
                }
                StepChange::ArgumentsWithoutCall { key } => {
                    tracing::warn!(chat = %params.chat, key, "arguments came for a call that never began");
                }
                StepChange::PartStarted(_)
                | StepChange::PartGrew(..)
                | StepChange::PartEnded(_)
                | StepChange::CallStarted { .. }
                | StepChange::ArgumentsGrew { .. }
                | StepChange::File { .. }
                | StepChange::Source(_) => {}
            }
        }
    }
}

// === impl UnusedCallIds ===

impl UnusedCallIds {
    fn new(messages: &[ModelMessage]) -> Self {
        let calls = messages.iter().flat_map(|message| match message {
            ModelMessage::Assistant { calls, .. } => calls.as_slice(),
            ModelMessage::System(_) | ModelMessage::User(_) | ModelMessage::Tool { .. } => &[],
        });
        Self { used: calls.map(|call| call.id.clone()).collect(), count: 0 }
    }

    fn next(&mut self) -> String {
        loop {
            self.count += 1;
            let id = format!("call_{}", self.count);
            if self.used.insert(id.clone()) {
                return id;
            }
        }
    }
}
