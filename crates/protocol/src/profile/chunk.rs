//! Chunks as each version may be sent them.
//!
//! A chunk that a version may see as it is, is not copied: this stands on the path of every delta. Fields that the oldest
//! clients of a version refuse are hints, so they are left out; `reset-step` and `steering-message` have no lesser form and
//! are refused by versions before 7.0.70, so whoever writes them must know its clients.

use std::borrow::Cow;

use super::{DATA_TOOL_APPROVAL, Profile, denial_text_of, question_data};
use crate::{DataChunk, FinishReason, UiChunk};

/// The chunk as this version may see it; `None` where it must not.
pub(super) fn shown(profile: Profile, chunk: &UiChunk) -> Option<Cow<'_, UiChunk>> {
    if profile < Profile::V7 && is_of_version_7(chunk) {
        return None;
    }
    if profile == Profile::V5
        && let Some(chunk) = for_version_5(chunk)
    {
        return Some(Cow::Owned(chunk));
    }
    if !has_unknown_fields(profile, chunk) {
        return Some(Cow::Borrowed(chunk));
    }
    let mut chunk = chunk.clone();
    drop_unknown_fields(profile, &mut chunk);
    Some(Cow::Owned(chunk))
}

fn is_of_version_7(chunk: &UiChunk) -> bool {
    matches!(
        chunk,
        UiChunk::ToolApprovalResponse { .. }
            | UiChunk::ResetStep
            | UiChunk::Custom { .. }
            | UiChunk::ReasoningFile { .. }
            | UiChunk::SteeringMessage { .. }
    )
}

/// What version 5 has no chunk for, said in chunks it has.
fn for_version_5(chunk: &UiChunk) -> Option<UiChunk> {
    if let UiChunk::ToolApprovalRequest { approval_id, tool_call_id, tool_name, reason, .. } = chunk {
        return Some(UiChunk::Data(DataChunk {
            kind: DATA_TOOL_APPROVAL.to_owned(),
            id: Some(approval_id.to_string()),
            data: question_data(approval_id, tool_call_id, tool_name, reason.as_deref()),
            transient: None,
        }));
    }
    if let UiChunk::ToolOutputDenied { tool_call_id, error_text, dynamic } = chunk {
        return Some(UiChunk::ToolOutputError {
            tool_call_id: tool_call_id.clone(),
            error_text: denial_text_of(error_text).into_owned(),
            provider_executed: None,
            provider_metadata: None,
            tool_metadata: None,
            dynamic: *dynamic,
        });
    }
    None
}

/// Whether the oldest clients of this version would refuse the chunk over a field.
fn has_unknown_fields(profile: Profile, chunk: &UiChunk) -> bool {
    let (five, six) = (profile == Profile::V5, profile <= Profile::V6);
    let no_reason = profile < Profile::V7_0_82;
    match chunk {
        UiChunk::Abort { reason } => six && reason.is_some(),
        UiChunk::Finish { finish_reason, .. } => {
            finish_reason.is_some_and(|reason| five || reason == FinishReason::Interrupted)
        }
        UiChunk::TextEnd { citations, .. } => citations.is_some(),
        UiChunk::File { provider_metadata, .. } => five && provider_metadata.is_some(),
        UiChunk::ToolInputStart { input_encoding, provider_metadata, tool_metadata, title, .. } => {
            input_encoding.is_some()
                || (six && (provider_metadata.is_some() || tool_metadata.is_some()))
                || (five && title.is_some())
        }
        UiChunk::ToolInputAvailable { tool_metadata, title, .. } => {
            (six && tool_metadata.is_some()) || (five && title.is_some())
        }
        UiChunk::ToolInputError { provider_metadata, tool_metadata, title, .. } => {
            (six && (provider_metadata.is_some() || tool_metadata.is_some())) || (five && title.is_some())
        }
        UiChunk::ToolApprovalRequest {
            approval_descriptor,
            input_schema_input,
            reason,
            is_automatic,
            signature,
            ..
        } => {
            approval_descriptor.is_some()
                || input_schema_input.is_some()
                || (no_reason && reason.is_some())
                || (six && (is_automatic.is_some() || signature.is_some()))
        }
        UiChunk::ToolOutputAvailable { provider_metadata, tool_metadata, .. }
        | UiChunk::ToolOutputError { provider_metadata, tool_metadata, .. } => {
            six && (provider_metadata.is_some() || tool_metadata.is_some())
        }
        UiChunk::Start { .. }
        | UiChunk::StartStep
        | UiChunk::FinishStep
        | UiChunk::ResetStep
        | UiChunk::Error { .. }
        | UiChunk::MessageMetadata { .. }
        | UiChunk::TextStart { .. }
        | UiChunk::TextDelta { .. }
        | UiChunk::ReasoningStart { .. }
        | UiChunk::ReasoningDelta { .. }
        | UiChunk::ReasoningEnd { .. }
        | UiChunk::ReasoningFile { .. }
        | UiChunk::Custom { .. }
        | UiChunk::SourceUrl { .. }
        | UiChunk::SourceDocument { .. }
        | UiChunk::SteeringMessage { .. }
        | UiChunk::ToolInputDelta { .. }
        | UiChunk::ToolApprovalResponse { .. }
        | UiChunk::ToolOutputDenied { .. }
        | UiChunk::Data(_) => false,
    }
}

/// The other half of [`has_unknown_fields`]: what it finds is gone afterwards.
fn drop_unknown_fields(profile: Profile, chunk: &mut UiChunk) {
    let (five, six) = (profile == Profile::V5, profile <= Profile::V6);
    let no_reason = profile < Profile::V7_0_82;
    match chunk {
        UiChunk::Abort { reason } => drop_if(six, reason),
        UiChunk::Finish { finish_reason, .. } => {
            drop_if(five, finish_reason);
            if *finish_reason == Some(FinishReason::Interrupted) {
                *finish_reason = Some(FinishReason::Other);
            }
        }
        UiChunk::TextEnd { citations, .. } => *citations = None,
        UiChunk::File { provider_metadata, .. } => drop_if(five, provider_metadata),
        UiChunk::ToolInputStart { input_encoding, provider_metadata, tool_metadata, title, .. } => {
            *input_encoding = None;
            drop_if(six, tool_metadata);
            drop_if(six, provider_metadata);
            drop_if(five, title);
        }
        UiChunk::ToolInputAvailable { tool_metadata, title, .. } => {
            drop_if(six, tool_metadata);
            drop_if(five, title);
        }
        UiChunk::ToolInputError { provider_metadata, tool_metadata, title, .. } => {
            drop_if(six, provider_metadata);
            drop_if(six, tool_metadata);
            drop_if(five, title);
        }
        UiChunk::ToolApprovalRequest {
            approval_descriptor,
            input_schema_input,
            reason,
            is_automatic,
            signature,
            ..
        } => {
            (*approval_descriptor, *input_schema_input) = (None, None);
            drop_if(no_reason, reason);
            drop_if(six, is_automatic);
            drop_if(six, signature);
        }
        UiChunk::ToolOutputAvailable { provider_metadata, tool_metadata, .. }
        | UiChunk::ToolOutputError { provider_metadata, tool_metadata, .. } => {
            drop_if(six, provider_metadata);
            drop_if(six, tool_metadata);
        }
        UiChunk::Start { .. }
        | UiChunk::StartStep
        | UiChunk::FinishStep
        | UiChunk::ResetStep
        | UiChunk::Error { .. }
        | UiChunk::MessageMetadata { .. }
        | UiChunk::TextStart { .. }
        | UiChunk::TextDelta { .. }
        | UiChunk::ReasoningStart { .. }
        | UiChunk::ReasoningDelta { .. }
        | UiChunk::ReasoningEnd { .. }
        | UiChunk::ReasoningFile { .. }
        | UiChunk::Custom { .. }
        | UiChunk::SourceUrl { .. }
        | UiChunk::SourceDocument { .. }
        | UiChunk::SteeringMessage { .. }
        | UiChunk::ToolInputDelta { .. }
        | UiChunk::ToolApprovalResponse { .. }
        | UiChunk::ToolOutputDenied { .. }
        | UiChunk::Data(_) => {}
    }
}

fn drop_if<T>(unknown: bool, field: &mut Option<T>) {
    if unknown {
        *field = None;
    }
}
