//! The record as a model is told it.
//!
//! Invariant: every call in the result has exactly one outcome, right after the message that made it; ids are unique and short,
//! names and inputs of a form that providers take. Whatever a record holds, the next turn works.

use std::collections::HashSet;

use fermata_protocol::{
    FilePart, Role, ToolCallId, ToolChoice, ToolPart, ToolState, UiMessage, UiPart, denial_text,
};
use fermata_tools::{Cancelled, ErrorPolicy, Toolbox};
use serde_json::{Map, Value, json};

use crate::FileUrls;
use crate::content::{told, tool_content};
use crate::model::{ModelCall, ModelContent, ModelMessage, ModelRequest, ModelTool};

/// What a step is asked with, besides the messages.
pub(crate) struct Asking<'a> {
    pub system: Option<&'a str>,
    pub toolbox: &'a Toolbox,
    pub tool_choice: Option<&'a ToolChoice>,
    pub settings: &'a Map<String, Value>,
    /// What follows failures, the model's own among them.
    pub error_policy: &'a ErrorPolicy,
    /// What the model is told to do about a call that failed.
    pub hint: &'a dyn Fn(&ToolCallId) -> Option<&'static str>,
    /// Bytes of text that are told of one output.
    pub output_limit: usize,
    /// Which files by URL it is handed.
    pub file_urls: &'a FileUrls,
}

/// The request for the next step.
pub(crate) fn prompt<'a>(messages: impl Iterator<Item = &'a UiMessage>, asking: &Asking<'_>) -> ModelRequest {
    let mut history = History::default();
    if let Some(system) = asking.system.filter(|system| !system.is_empty()) {
        history.messages.push(ModelMessage::System(system.to_owned()));
    }
    for message in messages {
        history.add(message, asking);
    }
    asking.file_urls.applied_to(&mut history.messages);
    let tools = asking.toolbox.specs().map(|spec| ModelTool {
        name: spec.name.clone(),
        description: spec.description.clone(),
        input_schema: spec.input_schema.clone(),
    });
    ModelRequest {
        messages: history.messages,
        tools: tools.collect(),
        tool_choice: asking.tool_choice.cloned(),
        settings: asking.settings.clone(),
        error_policy: asking.error_policy.clone(),
    }
}

#[derive(Default)]
struct History {
    messages: Vec<ModelMessage>,
    ids: HashSet<String>,
}

impl History {
    fn add(&mut self, message: &UiMessage, asking: &Asking<'_>) {
        match message.role {
            Role::System => {
                let text = text_of(&message.parts);
                if !text.is_empty() {
                    self.messages.push(ModelMessage::System(text));
                }
            }
            Role::User => {
                let content: Vec<ModelContent> = message.parts.iter().filter_map(user_content).collect();
                if !content.is_empty() {
                    self.messages.push(ModelMessage::User(content));
                }
            }
            Role::Assistant => {
                for step in message.parts.split(|part| *part == UiPart::StepStart) {
                    self.add_step(step, asking);
                }
            }
        }
    }

    fn add_step(&mut self, parts: &[UiPart], asking: &Asking<'_>) {
        let mut calls = Vec::new();
        let mut results = Vec::new();
        // Arguments that never became whole were never a call, unless something has been said about it.
        let made = |part: &&ToolPart| !matches!(part.state, ToolState::InputStreaming { .. });
        for part in parts.iter().filter_map(UiPart::as_tool).filter(made) {
            let (call_id, tool) = (self.unique_id(part), tool_name(part.name.as_str()));
            let content = result_of(part, asking);
            calls.push(ModelCall { id: call_id.clone(), tool: tool.clone(), input: input_of(part) });
            results.push(ModelMessage::Tool { call_id, tool, content });
        }
        let (text, reasoning) = (text_of(parts), reasoning_of(parts));
        if text.is_empty() && calls.is_empty() {
            return;
        }
        self.messages.push(ModelMessage::Assistant { reasoning, text, calls });
        self.messages.extend(results);
    }

    fn unique_id(&mut self, part: &ToolPart) -> String {
        let given = part.tool_call_id.as_str();
        let fit = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        let base = if (1..=40).contains(&given.len()) && given.bytes().all(fit) { given } else { "call" };
        let mut id = base.to_owned();
        let mut copies = 1;
        while !self.ids.insert(id.clone()) {
            copies += 1;
            id = format!("{}_{copies}", &base[..base.len().min(30)]);
        }
        id
    }
}

/// What the model is told came of a call.
fn result_of(part: &ToolPart, asking: &Asking<'_>) -> Vec<ModelContent> {
    let limit = asking.output_limit;
    match &part.state {
        ToolState::OutputAvailable { output, .. } => tool_content(output, limit),
        ToolState::OutputError { error_text, .. } => match (asking.hint)(&part.tool_call_id) {
            Some(hint) => told(format!("Error: {error_text}\n{hint}"), limit),
            None => told(format!("Error: {error_text}"), limit),
        },
        ToolState::OutputDenied { error_text: Some(error_text), .. } => told(error_text, limit),
        // A record that a client brought along has the reason in the approval at most.
        ToolState::OutputDenied { .. } => {
            let reason = part.approval.as_ref().and_then(|approval| approval.reason.as_deref());
            told(denial_text(reason), limit)
        }
        ToolState::InputStreaming { .. }
        | ToolState::InputAvailable { .. }
        | ToolState::ApprovalRequested { .. }
        | ToolState::ApprovalResponded { .. } => told(Cancelled::RunEnded.text(), limit),
    }
}

fn input_of(part: &ToolPart) -> Value {
    match part.state.input() {
        Some(input) if input.is_object() => input.clone(),
        Some(_) | None => json!({}),
    }
}

/// The name as providers take it; the model may have made one up.
pub(crate) fn tool_name(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = name.chars().take(64).map(fit).collect();
    if name.is_empty() { "unnamed".into() } else { name }
}

fn text_of(parts: &[UiPart]) -> String {
    parts.iter().filter_map(UiPart::as_text).collect()
}

fn reasoning_of(parts: &[UiPart]) -> String {
    parts.iter().filter_map(reasoning).collect()
}

fn reasoning(part: &UiPart) -> Option<&str> {
    match part {
        UiPart::Reasoning { text, .. } => Some(text),
        UiPart::Text { .. }
        | UiPart::File(_)
        | UiPart::StepStart
        | UiPart::Tool(_)
        | UiPart::Data(_)
        | UiPart::Unknown(_) => None,
    }
}

/// What the model sees of a user's part; parts it has no eyes for are left out.
fn user_content(part: &UiPart) -> Option<ModelContent> {
    match part {
        UiPart::Text { text, .. } if !text.is_empty() => Some(ModelContent::Text(text.clone())),
        UiPart::File(FilePart { media_type, url, filename, .. }) => Some(ModelContent::File {
            media_type: media_type.clone(),
            url: url.clone(),
            filename: filename.clone(),
        }),
        UiPart::Text { .. }
        | UiPart::Reasoning { .. }
        | UiPart::StepStart
        | UiPart::Tool(_)
        | UiPart::Data(_)
        | UiPart::Unknown(_) => None,
    }
}

/// Whether a model sees anything of these parts.
pub(crate) fn says_something(parts: &[UiPart]) -> bool {
    parts.iter().any(|part| user_content(part).is_some())
}
