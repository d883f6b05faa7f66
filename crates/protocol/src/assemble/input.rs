//! How a call's input comes: in deltas, whole, or refused.

use serde_json::{Value, json};

use super::{AssembleError, Assembler, tool::ToolUpdate};
use crate::{ToolCallId, ToolName, ToolPart, ToolState, UiChunk, UiPart, partial_json};

/// A call's input while it streams.
#[derive(Clone, Debug)]
pub(super) struct StreamedInput {
    call: ToolCallId,
    /// Where its part is.
    pub(super) part: usize,
    name: ToolName,
    title: Option<String>,
    tool_metadata: Option<Value>,
    text: String,
    /// `text`: the input is the text itself, not JSON.
    encoding: Option<String>,
    /// The part does not show the last deltas yet.
    pub(super) unread: bool,
}

fn tool_name(name: &str, dynamic: Option<bool>) -> ToolName {
    if dynamic == Some(true) { ToolName::Dynamic(name.to_owned()) } else { ToolName::Static(name.to_owned()) }
}

// === impl StreamedInput ===

impl StreamedInput {
    /// The inputs that are still streaming in the step that begins at `step`.
    pub(super) fn open_in(parts: &[UiPart], step: usize) -> Vec<Self> {
        let tools = parts.iter().enumerate().skip(step).filter_map(|(at, part)| Some((at, part.as_tool()?)));
        tools.filter_map(|(at, part)| Self::of(at, part)).collect()
    }

    fn of(at: usize, part: &ToolPart) -> Option<Self> {
        let ToolState::InputStreaming { raw_input, .. } = &part.state else {
            return None;
        };
        Some(Self {
            call: part.tool_call_id.clone(),
            part: at,
            name: part.name.clone(),
            title: part.extra.get("title").and_then(Value::as_str).map(str::to_owned),
            tool_metadata: part.extra.get("toolMetadata").cloned(),
            text: raw_input.clone().unwrap_or_default(),
            encoding: part.extra.get("inputEncoding").and_then(Value::as_str).map(str::to_owned),
            unread: false,
        })
    }

    /// What the part shows of the input so far.
    pub(super) fn state(&self) -> ToolState {
        let plain = self.encoding.as_deref() == Some("text");
        let input = if plain { Some(json!(self.text)) } else { partial_json::parse(&self.text) };
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
            unread: false,
        });
    }

    pub(super) fn add_input(&mut self, call: &ToolCallId, delta: &str) -> Result<(), AssembleError> {
        let Some(at) = self.inputs.iter().rposition(|input| input.call == *call) else {
            return Err(AssembleError(format!("the input of call {call} has not started")));
        };
        self.inputs[at].text.push_str(delta);
        if self.inputs[at].unread {
            return Ok(());
        }
        // The first delta since somebody looked: the part goes back to streaming, and what it shows is read when needed.
        let input = self.inputs[at].clone();
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
        self.inputs[at].part = part;
        self.inputs[at].unread = true;
        Ok(())
    }

    pub(super) fn take_input(&mut self, chunk: &UiChunk) {
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

    /// The record keeps the refused input under both names, which is how it is told from the input of a call that failed.
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
        let shown = self.tools_of_step().find(|(_, part)| part.tool_call_id == *tool_call_id);
        let dynamic = shown.map_or(*dynamic, |(_, part)| Some(part.name.is_dynamic()));
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

    /// Makes the part show the deltas that came since somebody looked.
    pub(super) fn read_input(&mut self, at: usize) {
        let Some(input) = self.inputs.iter_mut().find(|input| input.part == at && input.unread) else {
            return;
        };
        input.unread = false;
        let state = input.state();
        if let Some(part) = self.tool_mut(at) {
            part.state = state;
        }
    }
}
