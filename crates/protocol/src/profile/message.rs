//! Messages as each version shows them: the record without what [`super::chunk`] keeps from the version's clients.
//!
//! The record can tell all but one thing: provider metadata that only `tool-input-start` carried, which versions 5 and 6
//! are not sent. Whoever writes chunks repeats it on `tool-input-available`.

use serde_json::{Map, Value};

use super::{DATA_TOOL_APPROVAL, Profile, question_data};
use crate::{
    DataPart, ToolPart, ToolState, UiPart, denial_text,
    message::steps::{questions_place, steps},
    partial_json,
};

/// The parts as this version shows them.
pub(super) fn shown(profile: Profile, parts: &[UiPart]) -> Vec<UiPart> {
    let mut shown = Vec::with_capacity(parts.len());
    for step in steps(parts) {
        let asked = if profile == Profile::V5 { questions_of(step) } else { Vec::new() };
        let model_made = questions_place(step);
        shown.extend(step[..model_made].iter().filter_map(|part| shown_part(profile, part)));
        shown.extend(asked);
        shown.extend(step[model_made..].iter().filter_map(|part| shown_part(profile, part)));
    }
    shown
}

fn questions_of(step: &[UiPart]) -> Vec<UiPart> {
    let asked =
        step.iter().filter_map(UiPart::as_tool).filter_map(|part| Some((part, part.approval.as_ref()?)));
    asked
        .map(|(part, approval)| {
            UiPart::Data(DataPart {
                kind: DATA_TOOL_APPROVAL.to_owned(),
                id: Some(approval.id.to_string()),
                data: question_data(
                    &approval.id,
                    &part.tool_call_id,
                    part.name.as_str(),
                    approval.extra.get("requestReason").and_then(Value::as_str),
                ),
                extra: Map::new(),
            })
        })
        .collect()
}

fn shown_part(profile: Profile, part: &UiPart) -> Option<UiPart> {
    Some(match part {
        UiPart::Tool(part) => UiPart::Tool(Box::new(shown_tool(profile, part))),
        UiPart::Text { .. } => {
            let mut part = part.clone();
            if let UiPart::Text { extra, .. } = &mut part {
                extra.shift_remove("citations");
            }
            part
        }
        UiPart::File(file) if profile == Profile::V5 => {
            let mut file = file.clone();
            file.extra.shift_remove("providerMetadata");
            UiPart::File(file)
        }
        UiPart::Unknown(fields) if profile < Profile::V7 && is_of_version_7(fields) => return None,
        UiPart::Reasoning { .. }
        | UiPart::File(_)
        | UiPart::StepStart
        | UiPart::Data(_)
        | UiPart::Unknown(_) => part.clone(),
    })
}

fn is_of_version_7(fields: &Map<String, Value>) -> bool {
    matches!(
        fields.get("type").and_then(Value::as_str),
        Some("custom" | "reasoning-file" | "steering-message")
    )
}

fn shown_tool(profile: Profile, part: &ToolPart) -> ToolPart {
    let mut part = part.clone();
    read_as_json(&mut part);
    hide_record(profile, &mut part);
    if let Some(approval) = &mut part.approval {
        for field in ["descriptor", "inputSchemaInput"] {
            approval.extra.shift_remove(field);
        }
        if profile < Profile::V7_0_82 {
            approval.extra.shift_remove("requestReason");
        }
        if profile < Profile::V7 {
            approval.extra.shift_remove("isAutomatic");
            approval.extra.shift_remove("signature");
        }
    }
    if profile < Profile::V7 {
        part.extra.shift_remove("toolMetadata");
        part.extra.shift_remove("resultProviderMetadata");
        if part.state.has_streamed_input() {
            part.extra.shift_remove("callProviderMetadata");
        }
    }
    if profile == Profile::V5 { for_version_5(part) } else { part }
}

/// No version is told how streamed input is encoded, so all read it as JSON until it is complete.
fn read_as_json(part: &mut ToolPart) {
    if part.extra.shift_remove("inputEncoding").is_none() {
        return;
    }
    if let ToolState::InputStreaming { input, raw_input: Some(raw_input) }
    | ToolState::ApprovalRequested { input, raw_input: Some(raw_input) } = &mut part.state
    {
        *input = partial_json::parse(raw_input);
    }
}

/// Takes out what only the record knows: why a call was denied, and that an input was refused. Of a refused input versions 5
/// and 6 show the raw form where the tool is static.
fn hide_record(profile: Profile, part: &mut ToolPart) {
    match &mut part.state {
        ToolState::OutputDenied { error_text, .. } if profile > Profile::V5 => *error_text = None,
        ToolState::OutputError { input, raw_input, .. } if raw_input.is_some() && *input == *raw_input => {
            if profile < Profile::V7 && !part.name.is_dynamic() {
                *input = None;
            } else {
                *raw_input = None;
            }
        }
        ToolState::OutputDenied { .. }
        | ToolState::OutputError { .. }
        | ToolState::InputStreaming { .. }
        | ToolState::InputAvailable { .. }
        | ToolState::ApprovalRequested { .. }
        | ToolState::ApprovalResponded { .. }
        | ToolState::OutputAvailable { .. } => {}
    }
}

/// Version 5 knows no questions and no denials: it goes on showing the input, and a denial is an error.
fn for_version_5(mut part: ToolPart) -> ToolPart {
    let dynamic = part.name.is_dynamic();
    let reason = part.approval.take().and_then(|approval| approval.reason);
    part.extra.shift_remove("title");
    let state =
        std::mem::replace(&mut part.state, ToolState::InputStreaming { input: None, raw_input: None });
    part.state = match state {
        ToolState::ApprovalRequested { input, raw_input }
        | ToolState::ApprovalResponded { input, raw_input } => match (input, raw_input) {
            (Some(input), None) => ToolState::InputAvailable { input },
            (input, raw_input) => ToolState::InputStreaming { input, raw_input },
        },
        ToolState::OutputDenied { input, raw_input, error_text } => ToolState::OutputError {
            input,
            raw_input: raw_input.filter(|_| !dynamic).map(Value::String),
            error_text: error_text.unwrap_or_else(|| denial_text(reason.as_deref())),
        },
        ToolState::InputStreaming { .. }
        | ToolState::InputAvailable { .. }
        | ToolState::OutputAvailable { .. }
        | ToolState::OutputError { .. } => state,
    };
    part
}
