//! Turns a message back into chunks, for readers whose log no longer exists.
//!
//! Folding the chunks gives the message again, with one exception: the decision about a call whose state is still
//! `approval-requested` is left out, because `tool-approval-response` would change that state.
//!
//! Within a step the order is that of a run: the model's output, the approval requests, the data that tools showed while
//! they ran, and the outcomes.

use serde_json::{Map, Value};

use crate::{
    DataChunk, JsonText, ToolPart, ToolState, UiChunk, UiMessage, UiPart, denial_text,
    message::steps::{model_output_end, steps},
};

/// Returns the chunks that build this message: `start`, then each step's parts, each text in one delta, then `finish`.
///
/// Steps before `from_step` (counted from 0) are left out. `start` and `finish` are always there.
pub fn replay(message: &UiMessage, from_step: usize) -> Vec<UiChunk> {
    let mut chunks = vec![UiChunk::Start { message_id: Some(message.id.clone()), message_metadata: None }];
    let mut first_part = 0;
    for (index, step) in steps(&message.parts).enumerate() {
        if index >= from_step {
            replay_step(first_part, step, &mut chunks);
        }
        first_part += step.len();
    }
    chunks.push(UiChunk::Finish { finish_reason: None, message_metadata: message.metadata.clone() });
    chunks
}

/// Returns the chunk with a call's final outcome, or `None` if the call has none yet.
pub fn outcome(part: &ToolPart) -> Option<UiChunk> {
    if part.state.is_settled() { output(part) } else { None }
}

/// Replays one step. `first_part` is the index of the step's first part in the message.
fn replay_step(first_part: usize, step: &[UiPart], chunks: &mut Vec<UiChunk>) {
    let (model_output, rest) = step.split_at(model_output_end(step));
    for (index, part) in (first_part..).zip(model_output) {
        replay_part(index, part, chunks);
    }
    for call in step.iter().filter_map(UiPart::as_tool) {
        let Some(approval) = &call.approval else { continue };
        chunks.push(UiChunk::ToolApprovalRequest {
            approval_id: approval.id.clone(),
            tool_call_id: call.tool_call_id.clone(),
            approval_descriptor: approval.extra.get("descriptor").cloned(),
            input_schema_input: approval.extra.get("inputSchemaInput").cloned(),
            reason: string_field(&approval.extra, "requestReason"),
            is_automatic: approval.extra.get("isAutomatic").and_then(Value::as_bool),
            signature: string_field(&approval.extra, "signature"),
            tool_name: call.name.as_str().to_owned(),
        });
        if let Some(approved) = approval.approved
            && !matches!(call.state, ToolState::ApprovalRequested { .. })
        {
            chunks.push(UiChunk::ToolApprovalResponse {
                approval_id: approval.id.clone(),
                approved,
                reason: approval.reason.clone(),
                provider_executed: None,
                provider_metadata: None,
            });
        }
    }
    for (index, part) in (first_part + model_output.len()..).zip(rest) {
        replay_part(index, part, chunks);
    }
    for call in step.iter().filter_map(UiPart::as_tool) {
        if let (ToolState::InputAvailable { input }, Some(_)) = (&call.state, &call.approval) {
            chunks.push(input_available(call, input));
        }
        chunks.extend(output(call));
    }
    if matches!(step.first(), Some(UiPart::StepStart)) {
        chunks.push(UiChunk::FinishStep);
    }
}

/// Replays the part with this index in the message. A text gets its id from the index, so that ids are unique.
fn replay_part(index: usize, part: &UiPart, chunks: &mut Vec<UiChunk>) {
    match part {
        UiPart::StepStart => chunks.push(UiChunk::StartStep),
        UiPart::Text { text, streaming, provider_metadata, extra } => {
            let (id, provider_metadata) = (format!("part-{index}"), provider_metadata.clone());
            chunks.push(UiChunk::TextStart { id: id.clone(), provider_metadata });
            if !text.is_empty() {
                chunks.push(UiChunk::TextDelta {
                    id: id.clone(),
                    delta: text.clone(),
                    provider_metadata: None,
                });
            }
            if *streaming != Some(true) {
                let citations = extra.get("citations").cloned();
                chunks.push(UiChunk::TextEnd { id, citations, provider_metadata: None });
            }
        }
        UiPart::Reasoning { text, streaming, provider_metadata, extra } => {
            let id = string_field(extra, "id").unwrap_or_else(|| format!("part-{index}"));
            chunks.push(UiChunk::ReasoningStart {
                id: id.clone(),
                provider_metadata: provider_metadata.clone(),
            });
            if !text.is_empty() {
                chunks.push(UiChunk::ReasoningDelta {
                    id: id.clone(),
                    delta: text.clone(),
                    provider_metadata: None,
                });
            }
            if *streaming != Some(true) {
                chunks.push(UiChunk::ReasoningEnd { id, provider_metadata: None });
            }
        }
        UiPart::File(file) => chunks.push(UiChunk::File {
            url: file.url.clone(),
            media_type: file.media_type.clone(),
            provider_metadata: file.extra.get("providerMetadata").cloned(),
        }),
        UiPart::Tool(call) => replay_input(call, chunks),
        UiPart::Data(part) => chunks.push(UiChunk::Data(DataChunk {
            kind: part.kind.clone(),
            id: part.id.clone(),
            data: part.data.clone(),
            transient: part.extra.get("transient").and_then(Value::as_bool),
        })),
        UiPart::Unknown(fields) => chunks.extend(chunk_of_equal_form(fields)),
    }
}

/// Reads a part as a chunk if its type has one form for both. No chunk can express the other unknown parts.
fn chunk_of_equal_form(fields: &Map<String, Value>) -> Option<UiChunk> {
    match fields.get("type")?.as_str()? {
        "source-url" | "source-document" | "custom" | "reasoning-file" | "steering-message" => {
            serde_json::from_value(Value::Object(fields.clone())).ok()
        }
        _ => None,
    }
}

/// Replays a call and its input. A call that has its output is replayed with deltas, because `tool-input-available` would
/// make a browser run it again.
fn replay_input(call: &ToolPart, chunks: &mut Vec<UiChunk>) {
    match &call.state {
        ToolState::InputStreaming { raw_input, .. } => stream_input(call, raw_input.clone(), chunks),
        ToolState::ApprovalRequested { input: Some(input), raw_input: None }
        | ToolState::ApprovalResponded { input: Some(input), raw_input: None }
        | ToolState::OutputDenied { input: Some(input), raw_input: None, .. }
        | ToolState::OutputError { input: Some(input), raw_input: None, .. }
        | ToolState::OutputAvailable { input: Some(input), preliminary: Some(true), .. } => {
            chunks.push(input_available(call, input));
        }
        ToolState::ApprovalRequested { raw_input, .. }
        | ToolState::ApprovalResponded { raw_input, .. }
        | ToolState::OutputDenied { raw_input, .. } => stream_input(call, raw_input.clone(), chunks),
        ToolState::InputAvailable { input } if call.approval.is_none() => {
            chunks.push(input_available(call, input))
        }
        ToolState::InputAvailable { .. } => stream_input(call, None, chunks),
        // Older versions get the provider's metadata only in this chunk.
        ToolState::OutputAvailable { input: Some(input), .. }
            if call.extra.contains_key("callProviderMetadata") =>
        {
            chunks.push(input_available(call, input));
        }
        ToolState::OutputAvailable { input, .. } => {
            stream_input(call, input.as_ref().map(|input| input.as_str().to_owned()), chunks)
        }
        ToolState::OutputError { input, raw_input, .. } if is_refused(input, raw_input) => {
            stream_input(call, None, chunks)
        }
        ToolState::OutputError { raw_input, .. } => {
            stream_input(call, raw_input.as_ref().and_then(|text| text.read().ok()), chunks);
        }
    }
}

/// Returns whether the input was refused. A stored message then has it as `input` and as `raw_input`.
fn is_refused(input: &Option<JsonText>, raw_input: &Option<JsonText>) -> bool {
    raw_input.is_some() && input == raw_input
}

fn stream_input(call: &ToolPart, text: Option<String>, chunks: &mut Vec<UiChunk>) {
    chunks.push(UiChunk::ToolInputStart {
        tool_call_id: call.tool_call_id.clone(),
        tool_name: call.name.as_str().to_owned(),
        input_encoding: string_field(&call.extra, "inputEncoding"),
        provider_executed: provider_executed(call),
        provider_metadata: call.extra.get("callProviderMetadata").cloned(),
        tool_metadata: call.extra.get("toolMetadata").cloned(),
        dynamic: dynamic(call),
        title: string_field(&call.extra, "title"),
    });
    if let Some(input_text_delta) = text {
        chunks.push(UiChunk::ToolInputDelta { tool_call_id: call.tool_call_id.clone(), input_text_delta });
    }
}

fn input_available(call: &ToolPart, input: &JsonText) -> UiChunk {
    UiChunk::ToolInputAvailable {
        tool_call_id: call.tool_call_id.clone(),
        tool_name: call.name.as_str().to_owned(),
        input: input.clone(),
        provider_executed: provider_executed(call),
        provider_metadata: call.extra.get("callProviderMetadata").cloned(),
        tool_metadata: call.extra.get("toolMetadata").cloned(),
        dynamic: dynamic(call),
        title: string_field(&call.extra, "title"),
    }
}

/// Returns the chunk with a call's outcome or preliminary output, or `None` if it has neither.
fn output(call: &ToolPart) -> Option<UiChunk> {
    let tool_call_id = call.tool_call_id.clone();
    let provider_metadata = call.extra.get("resultProviderMetadata").cloned();
    match &call.state {
        ToolState::OutputAvailable { output, preliminary, .. } => Some(UiChunk::ToolOutputAvailable {
            tool_call_id,
            output: output.clone(),
            preliminary: *preliminary,
            provider_executed: None,
            provider_metadata,
            tool_metadata: None,
            dynamic: dynamic(call),
        }),
        ToolState::OutputError { input, raw_input, error_text } if is_refused(input, raw_input) => {
            Some(UiChunk::ToolInputError {
                tool_call_id,
                tool_name: call.name.as_str().to_owned(),
                input: input.clone().unwrap_or_default(),
                error_text: error_text.clone(),
                provider_executed: None,
                provider_metadata,
                tool_metadata: None,
                dynamic: dynamic(call),
                title: None,
            })
        }
        ToolState::OutputError { error_text, .. } => Some(UiChunk::ToolOutputError {
            tool_call_id,
            error_text: error_text.clone(),
            provider_executed: None,
            provider_metadata,
            tool_metadata: None,
            dynamic: dynamic(call),
        }),
        ToolState::OutputDenied { error_text, .. } => Some(UiChunk::ToolOutputDenied {
            tool_call_id,
            error_text: error_text.clone().unwrap_or_else(|| {
                denial_text(call.approval.as_ref().and_then(|approval| approval.reason.as_deref()))
            }),
            dynamic: dynamic(call),
        }),
        ToolState::InputStreaming { .. }
        | ToolState::InputAvailable { .. }
        | ToolState::ApprovalRequested { .. }
        | ToolState::ApprovalResponded { .. } => None,
    }
}

fn dynamic(call: &ToolPart) -> Option<bool> {
    if call.name.is_dynamic() { Some(true) } else { None }
}

fn provider_executed(call: &ToolPart) -> Option<bool> {
    call.extra.get("providerExecuted").and_then(Value::as_bool)
}

fn string_field(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name).and_then(Value::as_str).map(str::to_owned)
}
