//! Turns a message back into chunks, for readers whose log is gone.
//!
//! Folding the chunks gives the message again, with one exception: a decision about a call that is still shown as asked is
//! not in them, because the chunk that tells it would change what is shown. Nothing here knows why somebody needs it.
//!
//! Per step the order is that of a run: what the model made, the questions, what tools showed while they ran, the outcomes.

use serde_json::{Map, Value};

use crate::{
    Approval, DataChunk, DataPart, ToolPart, ToolState, UiChunk, UiMessage, UiPart, denial_text,
    message::steps::{questions_place, steps},
};

/// The chunks that make this message from nothing: `start`, then each step's parts (deltas merged), then `finish`.
/// `from_step` (counted from 0) leaves out the steps before it, but never `start`.
pub fn replay(message: &UiMessage, from_step: usize) -> Vec<UiChunk> {
    let mut chunks = vec![UiChunk::Start { message_id: Some(message.id.clone()), message_metadata: None }];
    let mut first = 0;
    for (at, step) in steps(&message.parts).enumerate() {
        if at >= from_step {
            replay_step(first, step, &mut chunks);
        }
        first += step.len();
    }
    chunks.push(UiChunk::Finish { finish_reason: None, message_metadata: message.metadata.clone() });
    chunks
}

/// The chunk that tells a settled call's outcome; `None` where it has none yet.
pub fn outcome(part: &ToolPart) -> Option<UiChunk> {
    part.state.is_settled().then(|| output(part)).flatten()
}

/// `first`: which part of the message the step's first is; text is named after its part, so no name comes twice.
fn replay_step(first: usize, step: &[UiPart], chunks: &mut Vec<UiChunk>) {
    let begun = matches!(step.first(), Some(UiPart::StepStart));
    let (made, shown) = step.split_at(questions_place(step));
    for (at, part) in made.iter().enumerate() {
        replay_part(first + at, part, chunks);
    }
    let calls = || step.iter().filter_map(UiPart::as_tool);
    for call in calls() {
        replay_question(call, chunks);
    }
    for (at, part) in shown.iter().enumerate() {
        replay_part(first + made.len() + at, part, chunks);
    }
    for call in calls() {
        if let (ToolState::InputAvailable { input }, Some(_)) = (&call.state, &call.approval) {
            chunks.push(input_available(call, input));
        }
        chunks.extend(output(call));
    }
    if begun {
        chunks.push(UiChunk::FinishStep);
    }
}

fn replay_part(at: usize, part: &UiPart, chunks: &mut Vec<UiChunk>) {
    match part {
        UiPart::StepStart => chunks.push(UiChunk::StartStep),
        UiPart::Text { text, streaming, provider_metadata, extra } => {
            let (id, provider_metadata) = (format!("part-{at}"), provider_metadata.clone());
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
            let id = text_of(extra, "id").unwrap_or_else(|| format!("part-{at}"));
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
        UiPart::Tool(call) => introduce(call, chunks),
        UiPart::Data(part) => chunks.push(UiChunk::Data(data(part))),
        // Parts that have the very form of their chunk; of others no chunk can tell.
        UiPart::Unknown(fields) => chunks.extend(as_chunk(fields)),
    }
}

fn as_chunk(fields: &Map<String, Value>) -> Option<UiChunk> {
    let same_form = ["source-url", "source-document", "custom", "reasoning-file", "steering-message"];
    let kind = fields.get("type")?.as_str()?;
    if same_form.contains(&kind) { serde_json::from_value(Value::Object(fields.clone())).ok() } else { None }
}

fn data(part: &DataPart) -> DataChunk {
    DataChunk {
        kind: part.kind.clone(),
        id: part.id.clone(),
        data: part.data.clone(),
        transient: part.extra.get("transient").and_then(Value::as_bool),
    }
}

/// Shows a call and its input. A call that has its output is shown by deltas, because `tool-input-available` makes a
/// browser run it once more.
fn introduce(call: &ToolPart, chunks: &mut Vec<UiChunk>) {
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
        // Older versions are told the provider's metadata by this chunk only.
        ToolState::OutputAvailable { input: Some(input), .. }
            if call.extra.contains_key("callProviderMetadata") =>
        {
            chunks.push(input_available(call, input));
        }
        ToolState::OutputAvailable { input, .. } => {
            stream_input(call, input.as_ref().map(Value::to_string), chunks)
        }
        ToolState::OutputError { input, raw_input, .. } if is_refused(input, raw_input) => {
            stream_input(call, None, chunks)
        }
        ToolState::OutputError { raw_input, .. } => {
            stream_input(call, raw_input.as_ref().and_then(Value::as_str).map(str::to_owned), chunks);
        }
    }
}

/// The record keeps a refused input under both names.
fn is_refused(input: &Option<Value>, raw_input: &Option<Value>) -> bool {
    raw_input.is_some() && input == raw_input
}

fn stream_input(call: &ToolPart, text: Option<String>, chunks: &mut Vec<UiChunk>) {
    chunks.push(UiChunk::ToolInputStart {
        tool_call_id: call.tool_call_id.clone(),
        tool_name: call.name.as_str().to_owned(),
        input_encoding: text_of(&call.extra, "inputEncoding"),
        provider_executed: provider_executed(call),
        provider_metadata: call.extra.get("callProviderMetadata").cloned(),
        tool_metadata: call.extra.get("toolMetadata").cloned(),
        dynamic: dynamic(call),
        title: text_of(&call.extra, "title"),
    });
    if let Some(input_text_delta) = text {
        chunks.push(UiChunk::ToolInputDelta { tool_call_id: call.tool_call_id.clone(), input_text_delta });
    }
}

fn input_available(call: &ToolPart, input: &Value) -> UiChunk {
    UiChunk::ToolInputAvailable {
        tool_call_id: call.tool_call_id.clone(),
        tool_name: call.name.as_str().to_owned(),
        input: input.clone(),
        provider_executed: provider_executed(call),
        provider_metadata: call.extra.get("callProviderMetadata").cloned(),
        tool_metadata: call.extra.get("toolMetadata").cloned(),
        dynamic: dynamic(call),
        title: text_of(&call.extra, "title"),
    }
}

fn replay_question(call: &ToolPart, chunks: &mut Vec<UiChunk>) {
    let Some(approval) = &call.approval else { return };
    chunks.push(question(call, approval));
    if let (Some(approved), false) =
        (approval.approved, matches!(call.state, ToolState::ApprovalRequested { .. }))
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

fn question(call: &ToolPart, approval: &Approval) -> UiChunk {
    UiChunk::ToolApprovalRequest {
        approval_id: approval.id.clone(),
        tool_call_id: call.tool_call_id.clone(),
        approval_descriptor: approval.extra.get("descriptor").cloned(),
        input_schema_input: approval.extra.get("inputSchemaInput").cloned(),
        reason: text_of(&approval.extra, "requestReason"),
        is_automatic: approval.extra.get("isAutomatic").and_then(Value::as_bool),
        signature: text_of(&approval.extra, "signature"),
        tool_name: call.name.as_str().to_owned(),
    }
}

/// What came of a call so far.
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
            error_text: error_text.clone().unwrap_or_else(|| denial_text(reason(call))),
            dynamic: dynamic(call),
        }),
        ToolState::InputStreaming { .. }
        | ToolState::InputAvailable { .. }
        | ToolState::ApprovalRequested { .. }
        | ToolState::ApprovalResponded { .. } => None,
    }
}

fn reason(call: &ToolPart) -> Option<&str> {
    call.approval.as_ref()?.reason.as_deref()
}

fn dynamic(call: &ToolPart) -> Option<bool> {
    call.name.is_dynamic().then_some(true)
}

fn provider_executed(call: &ToolPart) -> Option<bool> {
    call.extra.get("providerExecuted").and_then(Value::as_bool)
}

fn text_of(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name).and_then(Value::as_str).map(str::to_owned)
}
