//! Finds tool parts and updates them.
//!
//! A call is searched for in the current step first, and then from the end of the message.

use serde_json::{Map, Value, json};

use super::{AssembleError, Assembler};
use crate::{ApprovalId, ToolCallId, ToolName, ToolPart, ToolState, UiPart};

/// The values that a chunk sets in a part.
pub(super) struct ToolUpdate<'a> {
    pub(super) call: &'a ToolCallId,
    pub(super) name: ToolName,
    pub(super) state: ToolState,
    pub(super) title: Option<&'a str>,
    pub(super) tool_metadata: Option<&'a Value>,
    pub(super) provider_executed: Option<bool>,
    pub(super) provider_metadata: Option<&'a Value>,
    pub(super) input_encoding: Option<&'a str>,
}

/// Sets a field, unless the value is absent or `null`.
pub(super) fn set_field(fields: &mut Map<String, Value>, name: &str, value: Option<&Value>) {
    match value {
        None | Some(Value::Null) => {}
        Some(value) => {
            fields.insert(name.to_owned(), value.clone());
        }
    }
}

// === impl Assembler ===

impl Assembler {
    pub(super) fn tool_mut(&mut self, index: usize) -> Option<&mut ToolPart> {
        match self.message.parts.get_mut(index)? {
            UiPart::Tool(part) => Some(part),
            UiPart::Text { .. }
            | UiPart::Reasoning { .. }
            | UiPart::File(_)
            | UiPart::StepStart
            | UiPart::Data(_)
            | UiPart::Unknown(_) => None,
        }
    }

    pub(super) fn tool_of_approval(&self, approval: &ApprovalId) -> Option<usize> {
        self.message.parts.iter().position(|part| {
            let request = part.as_tool().and_then(|part| part.approval.as_ref());
            request.is_some_and(|request| request.id == *approval)
        })
    }

    pub(super) fn tool_of_call(&self, call: &ToolCallId) -> Result<usize, AssembleError> {
        if let Some((index, _)) = self.tools_of_step().find(|(_, part)| part.tool_call_id == *call) {
            return Ok(index);
        }
        let parts = &self.message.parts;
        parts
            .iter()
            .rposition(|part| part.as_tool().is_some_and(|part| part.tool_call_id == *call))
            .ok_or_else(|| AssembleError(format!("there is no call {call}")))
    }

    /// Returns the tool parts of the current step, each with its index.
    pub(super) fn tools_of_step(&self) -> impl Iterator<Item = (usize, &ToolPart)> {
        let parts = self.message.parts.iter().enumerate().skip(self.step_start);
        parts.filter_map(|(index, part)| Some((index, part.as_tool()?)))
    }

    /// Updates the call's part in the current step, or adds one. Returns the index of the part.
    pub(super) fn update(&mut self, update: ToolUpdate<'_>) -> usize {
        let known = self.tools_of_step().find(|(_, part)| {
            part.tool_call_id == *update.call && part.name.is_dynamic() == update.name.is_dynamic()
        });
        let index = match known {
            Some((index, _)) => index,
            None => {
                self.message.parts.push(UiPart::Tool(Box::new(ToolPart {
                    tool_call_id: update.call.clone(),
                    name: update.name.clone(),
                    state: ToolState::InputStreaming { input: None, raw_input: None },
                    approval: None,
                    extra: Map::new(),
                })));
                self.message.parts.len() - 1
            }
        };
        self.inputs.retain(|input| input.part != index);
        if let Some(part) = self.tool_mut(index) {
            update.apply(part);
        }
        index
    }
}

// === impl ToolUpdate ===

impl ToolUpdate<'_> {
    fn apply(self, part: &mut ToolPart) {
        let provider_metadata_name = match self.state {
            ToolState::OutputAvailable { .. } | ToolState::OutputError { .. } => "resultProviderMetadata",
            ToolState::InputStreaming { .. }
            | ToolState::InputAvailable { .. }
            | ToolState::ApprovalRequested { .. }
            | ToolState::ApprovalResponded { .. }
            | ToolState::OutputDenied { .. } => "callProviderMetadata",
        };
        part.name = self.name;
        part.state = self.state;
        let extra = &mut part.extra;
        set_field(extra, "title", self.title.map(Value::from).as_ref());
        set_field(extra, "toolMetadata", self.tool_metadata);
        set_field(extra, "providerExecuted", self.provider_executed.map(Value::Bool).as_ref());
        set_field(extra, provider_metadata_name, self.provider_metadata);
        match self.input_encoding {
            Some(encoding) => set_field(extra, "inputEncoding", Some(&json!(encoding))),
            None => {
                extra.shift_remove("inputEncoding");
            }
        }
    }
}
