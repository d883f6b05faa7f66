//! The input of a call, which comes in deltas, as a whole, or as a refused input.

use serde_json::{Value, json};

use super::{AssembleError, Assembler, tool::ToolUpdate};
use crate::{JsonText, ToolCallId, ToolName, ToolPart, ToolState, UiChunk, UiPart, partial_json};

/// The input of a call that is streamed in deltas.
#[derive(Clone, Debug)]
pub(super) struct StreamedInput {
    call: ToolCallId,
    /// The index of the call's part.
    pub(super) part: usize,
    name: ToolName,
    title: Option<String>,
    tool_metadata: Option<Value>,
    /// The text so far, if deltas have come that the part's state does not include. Otherwise the part has the text.
    pub(super) text: Option<String>,
    /// The encoding of the input. `text` means that the input is the text itself; otherwise it is JSON.
    encoding: Option<String>,
}

fn tool_name(name: &str, dynamic: Option<bool>) -> ToolName {
    if dynamic == Some(true) { ToolName::Dynamic(name.to_owned()) } else { ToolName::Static(name.to_owned()) }
}

// === impl StreamedInput ===

impl StreamedInput {
    /// Returns the inputs that are still streaming in the step that begins at `step_start`.
    pub(super) fn open_in(parts: &[UiPart], step_start: usize) -> Vec<Self> {
        let mut inputs = Vec::new();
        for (index, part) in parts.iter().enumerate().skip(step_start) {
            let Some(part) = part.as_tool() else { continue };
            if let ToolState::InputStreaming { .. } = &part.state {
                inputs.push(Self {
                    call: part.tool_call_id.clone(),
                    part: index,
                    name: part.name.clone(),
                    title: part.extra.get("title").and_then(Value::as_str).map(str::to_owned),
                    tool_metadata: part.extra.get("toolMetadata").cloned(),
                    text: None,
                    encoding: part.extra.get("inputEncoding").and_then(Value::as_str).map(str::to_owned),
                });
            }
        }
        inputs
    }

    /// Returns the part's state with this text as the input so far.
    pub(super) fn state_with(&self, text: String) -> ToolState {
        let input = if self.encoding.as_deref() == Some("text") {
            Some(json!(text))
        } else {
            partial_json::parse(&text)
        };
        ToolState::InputStreaming { input: input.map(JsonText::from), raw_input: Some(text) }
    }
}

// === impl Assembler ===

impl Assembler {
    pub(super) fn start_input(&mut self, chunk: &UiChunk) {
        let UiChunk::ToolInputStart {
            tool_call_id,
            tool_name: name,
            input_encoding,
            provider_executed,
            provider_metadata,
            tool_metadata,
            dynamic,
            title,
        } = chunk
        else {
            return;
        };
        let name = tool_name(name, *dynamic);
        let part = self.update(ToolUpdate {
            call: tool_call_id,
            name: name.clone(),
            state: ToolState::InputStreaming { input: None, raw_input: None },
            title: title.as_deref(),
            tool_metadata: tool_metadata.as_ref(),
            provider_executed: *provider_executed,
            provider_metadata: provider_metadata.as_ref(),
            input_encoding: input_encoding.as_deref(),
        });
        self.inputs.retain(|input| input.call != *tool_call_id);
        self.inputs.push(StreamedInput {
            call: tool_call_id.clone(),
            part,
            name,
            title: title.clone(),
            tool_metadata: tool_metadata.clone(),
            text: None,
            encoding: input_encoding.clone(),
        });
    }

    pub(super) fn append_input(&mut self, call: &ToolCallId, delta: &str) -> Result<(), AssembleError> {
        let Some(index) = self.inputs.iter().rposition(|input| input.call == *call) else {
            return Err(AssembleError(format!("the input of call {call} has not started")));
        };
        if let Some(text) = &mut self.inputs[index].text {
            text.push_str(delta);
            return Ok(());
        }
        // The state of the part is set to streaming here. Its value is parsed later, when it is needed.
        let mut input = self.inputs.remove(index);
        let mut text = match self.tool_mut(input.part) {
            Some(ToolPart { state: ToolState::InputStreaming { raw_input, .. }, .. }) => raw_input.take(),
            Some(_) | None => None,
        }
        .unwrap_or_default();
        text.push_str(delta);
        input.text = Some(text);
        input.part = self.update(ToolUpdate {
            call,
            name: input.name.clone(),
            state: ToolState::InputStreaming { input: None, raw_input: None },
            title: input.title.as_deref(),
            tool_metadata: input.tool_metadata.as_ref(),
            provider_executed: None,
            provider_metadata: None,
            input_encoding: input.encoding.as_deref(),
        });
        self.inputs.push(input);
        Ok(())
    }

    pub(super) fn complete_input(&mut self, chunk: &UiChunk) {
        let UiChunk::ToolInputAvailable {
            tool_call_id,
            tool_name: name,
            input,
            provider_executed,
            provider_metadata,
            tool_metadata,
            dynamic,
            title,
        } = chunk
        else {
            return;
        };
        self.update(ToolUpdate {
            call: tool_call_id,
            name: tool_name(name, *dynamic),
            state: ToolState::InputAvailable { input: input.clone() },
            title: title.as_deref(),
            tool_metadata: tool_metadata.as_ref(),
            provider_executed: *provider_executed,
            provider_metadata: provider_metadata.as_ref(),
            input_encoding: None,
        });
    }

    /// Stores a refused input. It is stored as `input` and as `raw_input`, which distinguishes it from the input of a call that
    /// failed.
    pub(super) fn refuse_input(&mut self, chunk: &UiChunk) {
        let UiChunk::ToolInputError {
            tool_call_id,
            tool_name: name,
            input,
            error_text,
            provider_executed,
            provider_metadata,
            tool_metadata,
            dynamic,
            title: _,
        } = chunk
        else {
            return;
        };
        let known = self.tools_of_step().find(|(_, part)| part.tool_call_id == *tool_call_id);
        let dynamic = known.map_or(*dynamic, |(_, part)| Some(part.name.is_dynamic()));
        self.update(ToolUpdate {
            call: tool_call_id,
            name: tool_name(name, dynamic),
            state: ToolState::OutputError {
                input: Some(input.clone()),
                raw_input: Some(input.clone()),
                error_text: error_text.clone(),
            },
            title: None,
            tool_metadata: tool_metadata.as_ref(),
            provider_executed: *provider_executed,
            provider_metadata: provider_metadata.as_ref(),
            input_encoding: None,
        });
    }

    /// Ends the input of a part whose call goes on, and moves its text into the part.
    pub(super) fn end_input(&mut self, index: usize) {
        let Some(position) = self.inputs.iter().position(|input| input.part == index) else { return };
        let mut input = self.inputs.remove(position);
        let Some(mut text) = input.text.take() else { return };
        text.shrink_to_fit();
        let state = input.state_with(text);
        if let Some(part) = self.tool_mut(index) {
            part.state = state;
        }
    }
}
