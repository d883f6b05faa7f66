//! Chunks as clients of each profile may be sent them.
//!
//! A chunk that needs no change is borrowed and not copied, because this runs for every delta. Fields that a client refuses are
//! only hints, so they are left out. `reset-step` and `steering-message` cannot be expressed in any other way, so code that
//! writes them must know its clients.

use std::borrow::Cow;

use super::{DATA_TOOL_APPROVAL, PROVIDER_METADATA, Profile, approval_data, denial_text_of, since};
use crate::{DataChunk, FinishReason, UiChunk};

/// The error in place of a finish reason that the client does not know.
const INTERRUPTED: &str = "The answer was interrupted. Load the chat again in a moment.";

/// Returns the chunk as this profile may see it, or `None` if it must not be sent.
pub(super) fn client_view(profile: Profile, chunk: &UiChunk) -> Option<Cow<'_, UiChunk>> {
    if is_unknown(profile, chunk) {
        return None;
    }
    if matches!(chunk, UiChunk::Custom { kind, .. } if kind == PROVIDER_METADATA) {
        return None;
    }
    if profile.major() == 5
        && let Some(chunk) = for_version_5(chunk)
    {
        return Some(Cow::Owned(chunk));
    }
    if let UiChunk::Finish { finish_reason: Some(FinishReason::Interrupted), .. } = chunk
        && !since::FINISH_INTERRUPTED.includes(profile)
    {
        // Any other reason would have the client take the message for whole, and perhaps post it again.
        return Some(Cow::Owned(UiChunk::Error { error_text: INTERRUPTED.to_owned() }));
    }
    if !has_unknown_fields(profile, chunk) {
        return Some(Cow::Borrowed(chunk));
    }
    let mut chunk = chunk.clone();
    drop_unknown_fields(profile, &mut chunk);
    Some(Cow::Owned(chunk))
}

/// Returns whether every client is sent the chunk as it is.
pub(super) fn is_for_all(chunk: &UiChunk) -> bool {
    // The oldest clients know the least, and of a major version that is its first release.
    [Profile::V5, Profile::V6, Profile::V7]
        .into_iter()
        .all(|profile| matches!(client_view(profile, chunk), Some(Cow::Borrowed(_))))
}

/// Expresses a chunk that version 5 does not have by one that it has. Returns `None` for chunks that version 5 has.
fn for_version_5(chunk: &UiChunk) -> Option<UiChunk> {
    if let UiChunk::ToolApprovalRequest {
        approval_id,
        tool_call_id,
        tool_name,
        reason,
        approval_descriptor,
        ..
    } = chunk
    {
        return Some(UiChunk::Data(DataChunk {
            kind: DATA_TOOL_APPROVAL.to_owned(),
            id: Some(approval_id.to_string()),
            data: approval_data(
                approval_id,
                tool_call_id,
                tool_name,
                reason.as_deref(),
                approval_descriptor.as_ref(),
            ),
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

/// Defines the check for unknown chunks, the check for unknown fields and the removal of these fields from one table, so that
/// they agree.
///
/// The table names every kind of chunk, so a new one does not compile without a decision about the clients that know it and its
/// fields. A new field compiles without a decision: it has to be added unless all clients accept it.
macro_rules! field_versions {
    (
        with_versioned_fields: { $($chunk:ident { $($field:ident: $since:ident),+ })+ }
        newer_chunks: { $($newer:ident: $newer_since:ident),+ }
        others: { $($other:ident)+ }
    ) => {
        /// Returns whether clients of this profile must not be sent the chunk in any form.
        fn is_unknown(profile: Profile, chunk: &UiChunk) -> bool {
            match chunk {
                $(UiChunk::$newer { .. } => !since::$newer_since.includes(profile),)+
                $(UiChunk::$chunk { .. })|+ | $(UiChunk::$other { .. })|+ => false,
            }
        }

        /// Returns whether clients of this profile would refuse the chunk because of a field.
        fn has_unknown_fields(profile: Profile, chunk: &UiChunk) -> bool {
            match chunk {
                $(UiChunk::$chunk { $($field,)+ .. } => {
                    $(($field.is_some() && !since::$since.includes(profile)))||+
                })+
                $(UiChunk::$newer { .. })|+ | $(UiChunk::$other { .. })|+ => false,
            }
        }

        /// Removes the fields that clients of this profile would refuse.
        fn drop_unknown_fields(profile: Profile, chunk: &mut UiChunk) {
            match chunk {
                $(UiChunk::$chunk { $($field,)+ .. } => {
                    $(if !since::$since.includes(profile) {
                        *$field = None;
                    })+
                })+
                $(UiChunk::$newer { .. })|+ | $(UiChunk::$other { .. })|+ => {}
            }
        }
    };
}

field_versions! {
    // Chunks with fields that clients refuse before a profile.
    with_versioned_fields: {
        Abort { reason: ABORT_REASON }
        Finish { finish_reason: FINISH_REASON }
        TextEnd { citations: CITATIONS }
        File { provider_metadata: FILE_PROVIDER_METADATA }
        ToolInputStart {
            input_encoding: INPUT_ENCODING,
            provider_metadata: INPUT_PROVIDER_METADATA,
            tool_metadata: TOOL_METADATA,
            title: TITLE
        }
        ToolInputAvailable { tool_metadata: TOOL_METADATA, title: TITLE }
        ToolInputError {
            provider_metadata: INPUT_PROVIDER_METADATA,
            tool_metadata: TOOL_METADATA,
            title: TITLE
        }
        ToolApprovalRequest {
            approval_descriptor: APPROVAL_DESCRIPTOR,
            input_schema_input: APPROVAL_SCHEMA_INPUT,
            reason: APPROVAL_REASON,
            is_automatic: APPROVAL_IS_AUTOMATIC,
            signature: APPROVAL_SIGNATURE
        }
        ToolOutputAvailable { provider_metadata: OUTPUT_PROVIDER_METADATA, tool_metadata: TOOL_METADATA }
        ToolOutputError { provider_metadata: OUTPUT_PROVIDER_METADATA, tool_metadata: TOOL_METADATA }
    }
    // Chunks that clients before a profile are not sent at all.
    newer_chunks: {
        ResetStep: RESET_STEP,
        ReasoningFile: REASONING_FILE,
        Custom: CUSTOM,
        SteeringMessage: STEERING_MESSAGE,
        ToolApprovalResponse: APPROVAL_RESPONSE
    }
    // Chunks that every client is sent with all fields, unless `for_version_5` has another form for version 5.
    others: {
        Start StartStep FinishStep Error MessageMetadata TextStart TextDelta ReasoningStart ReasoningDelta ReasoningEnd
        SourceUrl SourceDocument ToolInputDelta ToolOutputDenied Data
    }
}
