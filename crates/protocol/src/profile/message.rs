//! Messages as clients of each profile show them: the stored message without what [`super::chunk`] does not send them.
//!
//! The result is exact but for one thing: provider metadata that only `tool-input-start` carried, which versions 5 and 6 are
//! not sent. Code that writes chunks must therefore repeat it on `tool-input-available`.

use std::mem;

use serde_json::{Map, Value};

use super::{DATA_TOOL_APPROVAL, PROVIDER_METADATA, Profile, approval_data, since};
use crate::{
    Approval, DataPart, JsonText, ToolPart, ToolState, UiPart, denial_text,
    message::steps::{model_output_end, steps},
    partial_json,
};

/// Returns the parts as a client of this profile shows them.
pub(super) fn client_view(profile: Profile, parts: &[UiPart]) -> Vec<UiPart> {
    let mut view = Vec::with_capacity(parts.len());
    for step in steps(parts) {
        let (model_output, rest) = step.split_at(model_output_end(step));
        view.extend(model_output.iter().filter_map(|part| part_view(profile, part)));
        if profile.major() == 5 {
            view.extend(step.iter().filter_map(approval_part));
        }
        view.extend(rest.iter().filter_map(|part| part_view(profile, part)));
    }
    view
}

/// Returns the data part that shows version 5 the approval request of a call.
fn approval_part(part: &UiPart) -> Option<UiPart> {
    let call = part.as_tool()?;
    let Approval { id, extra, .. } = call.approval.as_ref()?;
    let reason = extra.get("requestReason").and_then(Value::as_str);
    Some(UiPart::Data(DataPart {
        kind: DATA_TOOL_APPROVAL.to_owned(),
        id: Some(id.to_string()),
        data: approval_data(id, &call.tool_call_id, call.name.as_str(), reason, extra.get("descriptor")),
        extra: Map::new(),
    }))
}

fn part_view(profile: Profile, part: &UiPart) -> Option<UiPart> {
    Some(match part {
        UiPart::Tool(part) => UiPart::Tool(Box::new(tool_view(profile, part))),
        UiPart::Text { .. } if !since::CITATIONS.includes(profile) => {
            let mut part = part.clone();
            if let UiPart::Text { extra, .. } = &mut part {
                extra.shift_remove("citations");
            }
            part
        }
        UiPart::File(file) if !since::FILE_PROVIDER_METADATA.includes(profile) => {
            let mut file = file.clone();
            file.extra.shift_remove("providerMetadata");
            UiPart::File(file)
        }
        UiPart::Unknown(fields) => {
            let since = match fields.get("type").and_then(Value::as_str) {
                Some("custom") if fields.get("kind").is_some_and(|kind| kind == PROVIDER_METADATA) => {
                    return None;
                }
                Some("custom") => Some(since::CUSTOM),
                Some("reasoning-file") => Some(since::REASONING_FILE),
                Some("steering-message") => Some(since::STEERING_MESSAGE),
                Some(_) | None => None,
            };
            if since.is_some_and(|since| !since.includes(profile)) {
                return None;
            }
            part.clone()
        }
        UiPart::Text { .. }
        | UiPart::Reasoning { .. }
        | UiPart::File(_)
        | UiPart::StepStart
        | UiPart::Data(_) => part.clone(),
    })
}

fn tool_view(profile: Profile, part: &ToolPart) -> ToolPart {
    let mut part = part.clone();
    // No client is sent `inputEncoding`, so all of them parse streamed input as partial JSON, even if it is plain text.
    let is_text = part.extra.shift_remove("inputEncoding").is_some();
    if is_text
        && let ToolState::InputStreaming { input, raw_input: Some(raw_input) }
        | ToolState::ApprovalRequested { input, raw_input: Some(raw_input) } = &mut part.state
    {
        *input = partial_json::parse(raw_input).map(JsonText::from);
    }
    let is_refused = matches!(
        &part.state,
        ToolState::OutputError { input, raw_input, .. } if raw_input.is_some() && input == raw_input
    );
    remove_stored_fields(profile, &mut part);
    if let Some(approval) = &mut part.approval {
        for (field, since) in [
            ("descriptor", since::APPROVAL_DESCRIPTOR),
            ("inputSchemaInput", since::APPROVAL_SCHEMA_INPUT),
            ("requestReason", since::APPROVAL_REASON),
            ("isAutomatic", since::APPROVAL_IS_AUTOMATIC),
            ("signature", since::APPROVAL_SIGNATURE),
        ] {
            if !since.includes(profile) {
                approval.extra.shift_remove(field);
            }
        }
    }
    // A refused input has no output, so its metadata came with the input.
    let result_metadata =
        if is_refused { since::INPUT_PROVIDER_METADATA } else { since::OUTPUT_PROVIDER_METADATA };
    for (field, since) in [
        ("title", since::TITLE),
        ("toolMetadata", since::TOOL_METADATA),
        ("resultProviderMetadata", result_metadata),
    ] {
        if !since.includes(profile) {
            part.extra.shift_remove(field);
        }
    }
    if part.state.has_streamed_input() && !since::INPUT_PROVIDER_METADATA.includes(profile) {
        part.extra.shift_remove("callProviderMetadata");
    }
    if profile.major() == 5 { for_version_5(part) } else { part }
}

/// Removes the parts that only the stored message has: the text of a denial, and the mark of a refused input (equal `input` and
/// `raw_input`). Versions 5 and 6 show a refused input of a static tool as `rawInput`, all others show it as `input`.
fn remove_stored_fields(profile: Profile, part: &mut ToolPart) {
    match &mut part.state {
        ToolState::OutputDenied { error_text, .. } if profile.major() > 5 => *error_text = None,
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

/// Adapts a call to version 5, which knows neither approvals nor denials: a call that waits for approval still shows its
/// input, and a denied call shows an error.
fn for_version_5(mut part: ToolPart) -> ToolPart {
    let reason = part.approval.take().and_then(|approval| approval.reason);
    let state = mem::replace(&mut part.state, ToolState::InputStreaming { input: None, raw_input: None });
    part.state = match state {
        ToolState::ApprovalRequested { input, raw_input }
        | ToolState::ApprovalResponded { input, raw_input } => match (input, raw_input) {
            (Some(input), None) => ToolState::InputAvailable { input },
            (input, raw_input) => ToolState::InputStreaming { input, raw_input },
        },
        ToolState::OutputDenied { input, raw_input, error_text } => ToolState::OutputError {
            input,
            raw_input: if part.name.is_dynamic() { None } else { raw_input.map(JsonText::string) },
            error_text: error_text.unwrap_or_else(|| denial_text(reason.as_deref())),
        },
        ToolState::InputStreaming { .. }
        | ToolState::InputAvailable { .. }
        | ToolState::OutputAvailable { .. }
        | ToolState::OutputError { .. } => state,
    };
    part
}
