//! One request to the model, and the step that answers it.

use std::collections::HashSet;

use fermata_protocol::FinishReason;
use fermata_tools::{ErrorType, ToolError};
use futures::StreamExt;
use serde_json::json;

use super::{Hooks, Params, RunnerError, Step};
use crate::{
    model::{ModelCall, ModelError, ModelMessage},
    prompt::tool_name,
    step::collector::{
        CollectedStep, InvalidArguments, OutputLimitExceeded, StepChange, StepCollector, StepLimits, cut_off,
        stream_ended_early,
    },
};

/// A step as the model answered it, with those of its calls that cannot run.
pub(super) struct ReceivedStep {
    pub step: Step,
    pub invalid: InvalidCalls,
}

/// Calls that cannot run as the model made them, each with its error.
pub(super) type InvalidCalls = Vec<(ModelCall, ToolError)>;

/// Requests a step from the model and waits until its answer is complete.
pub(super) async fn request_step(
    params: &Params,
    hooks: &dyn Hooks,
    iteration: u32,
) -> Result<ReceivedStep, RunnerError> {
    let answer = tokio::time::timeout(params.model_call_timeout, collect(params, hooks));
    let collected = answer.await.unwrap_or(Err(ModelError::Timeout.into()))?;
    let CollectedStep {
        text,
        reasoning,
        calls: collected_calls,
        files,
        sources,
        provider_metadata,
        usage,
        finish_reason,
    } = collected;
    if finish_reason == FinishReason::Error {
        return Err(ModelError::Provider("the model says that it failed".into()).into());
    }
    let mut used_ids = HashSet::new();
    for message in &params.messages {
        if let ModelMessage::Assistant { calls, .. } = message {
            used_ids.extend(calls.iter().map(|call| call.id.clone()));
        }
    }
    let mut last_id = 0;
    let (mut calls, mut invalid) = (Vec::new(), InvalidCalls::new());
    for collected in collected_calls {
        let (name, of_call) = (collected.tool.clone(), collected.provider_metadata.clone());
        let input = match cut_off(finish_reason) {
            Some(error) => Err((collected.into_received(), error)),
            None => match collected.into_input(finish_reason) {
                // In the form that providers accept, the name may be that of another tool.
                Ok(input) if tool_name(&name) != name => Err((input, params.toolbox().unknown_tool(&name))),
                Ok(input) => Ok(input),
                Err(InvalidArguments { received, error_text }) => {
                    Err((received, ToolError::new(ErrorType::InvalidFormat, error_text)))
                }
            },
        };
        let id = loop {
            last_id += 1;
            let id = format!("call_{last_id}");
            if !used_ids.contains(&id) {
                break id;
            }
        };
        let tool = tool_name(&name);
        let (input, error) = match input {
            Ok(input) => (input, None),
            Err((received, error)) => {
                (if received.is_object() { received } else { json!({}).into() }, Some(error))
            }
        };
        let call = ModelCall { id, tool, input, provider_metadata: of_call };
        invalid.extend(error.map(|error| (call.clone(), error)));
        calls.push(call);
    }
    let step =
        Step { iteration, reasoning, text, calls, files, sources, provider_metadata, usage, finish_reason };
    Ok(ReceivedStep { step, invalid })
}

async fn collect(params: &Params, hooks: &dyn Hooks) -> Result<CollectedStep, RunnerError> {
    let stream = tokio::time::timeout(params.model_timeout, params.model.stream(params.request()));
    let mut events = stream.await.unwrap_or(Err(ModelError::Timeout))?;
    let mut collector = StepCollector::default();
    let limits = StepLimits {
        calls: params.calls_per_step,
        argument_bytes: params.argument_bytes,
        argument_nodes: params.argument_nodes,
        output_bytes: params.step_output_bytes,
    };
    loop {
        let event = tokio::time::timeout(params.model_timeout, events.next());
        let event = event.await.map_err(|_| ModelError::Timeout)?;
        let event = event.unwrap_or_else(|| Err(stream_ended_early()))?;
        hooks.event(&event);
        let changes = collector
            .on_event(event, limits)
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
                | StepChange::Source(_)
                | StepChange::Citation(_) => {}
            }
        }
    }
}
