//! Tool parts: where they are, and how a chunk is written into one.
//!
//! A call is looked for in the current step first, then from the message's end.

use serde_json::{Map, Value, json};

use super::{AssembleError, Assembler};
use crate::{ApprovalId, ToolCallId, ToolName, ToolPart, ToolState, UiPart};

/// What a chunk says about a part.
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

/// Sets a field, where there is something to set.
pub(super) fn put(fields: &mut Map<String, Value>, name: &str, value: Option<&Value>) {
    if let Some(value) = value.filter(|value| !value.is_null()) {
        fields.insert(name.to_owned(), value.clone());
    }
}

// === impl Assembler ===

impl Assembler {
    pub(super) fn tool_mut(&mut self, at: usize) -> Option<&mut ToolPart> {
        match self.message.parts.get_mut(at)? {
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
        let asked = |part: &ToolPart| part.approval.as_ref().is_some_and(|asked| asked.id == *approval);
        self.message.parts.iter().position(|part| part.as_tool().is_some_and(asked))
    }

    pub(super) fn tool_of_call(&self, call: &ToolCallId) -> Result<usize, AssembleError> {
        let in_step = self.tools_of_step().find(|(_, part)| part.tool_call_id == *call).map(|(at, _)| at);
        let is_it = |part: &UiPart| part.as_tool().is_some_and(|part| part.tool_call_id == *call);
        in_step
            .or_else(|| self.message.parts.iter().rposition(is_it))
            .ok_or_else(|| AssembleError(format!("there is no call {call}")))
    }

    pub(super) fn tools_of_step(&self) -> impl Iterator<Item = (usize, &ToolPart)> {
        let parts = self.message.parts.iter().enumerate().skip(self.step);
        parts.filter_map(|(at, part)| Some((at, part.as_tool()?)))
    }

    /// Writes what a chunk says into its part of the current step, or makes the part; says where it is.
    pub(super) fn update(&mut self, update: ToolUpdate<'_>) -> usize {
        let is_it = |part: &ToolPart| {
            part.tool_call_id == *update.call && part.name.is_dynamic() == update.name.is_dynamic()
        };
        let shown = self.tools_of_step().find(|(_, part)| is_it(part)).map(|(at, _)| at);
        let at = shown.unwrap_or_else(|| {
            self.message.parts.push(UiPart::Tool(Box::new(ToolPart {
                tool_call_id: update.call.clone(),
                name: update.name.clone(),
                state: ToolState::InputStreaming { input: None, raw_input: None },
                approval: None,
                extra: Map::new(),
            })));
            self.message.parts.len() - 1
        });
        for input in self.inputs.iter_mut().filter(|input| input.part == at) {
            input.unread = false;
        }
        if let Some(part) = self.tool_mut(at) {
            update.write(part);
        }
        at
    }
}

// === impl ToolUpdate ===

impl ToolUpdate<'_> {
    fn write(self, part: &mut ToolPart) {
        let of_result =
            matches!(self.state, ToolState::OutputAvailable { .. } | ToolState::OutputError { .. });
        part.name = self.name;
        part.state = self.state;
        let extra = &mut part.extra;
        put(extra, "title", self.title.map(Value::from).as_ref());
        put(extra, "toolMetadata", self.tool_metadata);
        put(extra, "providerExecuted", self.provider_executed.map(Value::Bool).as_ref());
        put(
            extra,
            if of_result { "resultProviderMetadata" } else { "callProviderMetadata" },
            self.provider_metadata,
        );
        match self.input_encoding {
            Some(encoding) => put(extra, "inputEncoding", Some(&json!(encoding))),
            None => {
                extra.shift_remove("inputEncoding");
            }
        }
    }
}
