//! The input of a call, which comes in deltas, as a whole, or as a refused input.

use serde_json::{Value, json};

use super::{AssembleError, Assembler, tool::ToolUpdate};
use crate::{ToolCallId, ToolName, ToolState, UiChunk, UiPart, partial_json};

/// The input of a call that is streamed in deltas.
#[derive(Clone, Debug)]
pub(super) struct StreamedInput {
    call: ToolCallId,
    /// The index of the call's part.
    pub(super) part: usize,
    name: ToolName,
    title: Option<String>,
    tool_metadata: Option<Value>,
    text: String,
    /// The encoding of the input. `text` means that the input is the text itself; otherwise it is JSON.
    encoding: Option<String>,
    /// `true` if the part's state does not include the latest deltas yet.
    pub(super) is_part_stale: bool,
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
            if let ToolState::InputStreaming { raw_input, .. } = &part.state {
                inputs.push(Self {
                    call: part.tool_call_id.clone(),
                    part: index,
                    name: part.name.clone(),
                    title: part.extra.get("title").and_then(Value::as_str).map(str::to_owned),
                    tool_metadata: part.extra.get("toolMetadata").cloned(),
                    text: raw_input.clone().unwrap_or_default(),
                    encoding: part.extra.get("inputEncoding").and_then(Value::as_str).map(str::to_owned),
                    is_part_stale: false,
                });
            }
        }
        inputs
    }

    /// Returns the part's state with the input so far.
    pub(super) fn state(&self) -> ToolState {
        let input = if self.encoding.as_deref() == Some("text") {
            Some(json!(self.text))
        } else {
            partial_json::parse(&self.text)
        };
        ToolState::InputStreaming { input, raw_input: Some(self.text.clone()) }
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
            text: String::new(),
            encoding: input_encoding.clone(),
            is_part_stale: false,
        });
    }

    pub(super) fn append_input(&mut self, call: &ToolCallId, delta: &str) -> Result<(), AssembleError> {
        let Some(index) = self.inputs.iter().rposition(|input| input.call == *call) else {
            return Err(AssembleError(format!("the input of call {call} has not started")));
        };
        self.inputs[index].text.push_str(delta);
        if self.inputs[index].is_part_stale {
            return Ok(());
        }
        // The state of the part is set to streaming here. Its value is parsed later, when it is needed.
        let input = self.inputs[index].clone();
        let part = self.update(ToolUpdate {
            call,
            name: input.name.clone(),
            state: ToolState::InputStreaming { input: None, raw_input: None },
            title: input.title.as_deref(),
            tool_metadata: input.tool_metadata.as_ref(),
            provider_executed: None,
            provider_metadata: None,
            input_encoding: input.encoding.as_deref(),
        });
        self.inputs[index].part = part;
        self.inputs[index].is_part_stale = true;
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

    /// Updates the state of a stale part with the latest deltas.
    pub(super) fn refresh_input(&mut self, index: usize) {
        let Some(input) = self.inputs.iter_mut().find(|input| input.part == index && input.is_part_stale)
        else {
            return;
        };
        input.is_part_stale = false;
        let state = input.state();
        if let Some(part) = self.tool_mut(index) {
            part.state = state;
        }
    }
}
