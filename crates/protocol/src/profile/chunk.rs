//! Chunks as clients of each profile may be sent them.
//!
//! A chunk that needs no change is borrowed and not copied, because this runs for every delta. Fields that the oldest clients
//! of a profile refuse are only hints, so they are left out. `reset-step` and `steering-message` cannot be expressed in any
//! other way, and clients before 7.0.70 refuse them, so code that writes them must know its clients.

use std::borrow::Cow;

use super::{DATA_TOOL_APPROVAL, Profile, approval_data, denial_text_of};
use crate::{DataChunk, FinishReason, UiChunk};

/// Returns the chunk as this profile may see it, or `None` if it must not be sent.
pub(super) fn client_view(profile: Profile, chunk: &UiChunk) -> Option<Cow<'_, UiChunk>> {
    if is_unknown(profile, chunk) {
        return None;
    }
    if profile == Profile::V5
        && let Some(chunk) = for_version_5(chunk)
    {
        return Some(Cow::Owned(chunk));
    }
    let is_interrupted =
        matches!(chunk, UiChunk::Finish { finish_reason: Some(FinishReason::Interrupted), .. });
    if !is_interrupted && !has_unknown_fields(profile, chunk) {
        return Some(Cow::Borrowed(chunk));
    }
    let mut chunk = chunk.clone();
    drop_unknown_fields(profile, &mut chunk);
    // The oldest clients of version 7 do not know this reason either.
    if let UiChunk::Finish { finish_reason: Some(reason @ FinishReason::Interrupted), .. } = &mut chunk {
        *reason = FinishReason::Other;
    }
    Some(Cow::Owned(chunk))
}

/// Expresses a chunk that version 5 does not have by one that it has. Returns `None` for chunks that version 5 has.
fn for_version_5(chunk: &UiChunk) -> Option<UiChunk> {
    if let UiChunk::ToolApprovalRequest { approval_id, tool_call_id, tool_name, reason, .. } = chunk {
        return Some(UiChunk::Data(DataChunk {
            kind: DATA_TOOL_APPROVAL.to_owned(),
            id: Some(approval_id.to_string()),
            data: approval_data(approval_id, tool_call_id, tool_name, reason.as_deref()),
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

/// The first profile whose oldest clients accept a chunk or field.
const V6: Option<Profile> = Some(Profile::V6);
const V7: Option<Profile> = Some(Profile::V7);
const V7_0_82: Option<Profile> = Some(Profile::V7_0_82);
/// The oldest clients of every profile refuse the field.
const NEVER: Option<Profile> = None;

fn accepts(profile: Profile, since: Option<Profile>) -> bool {
    since.is_some_and(|since| profile >= since)
}

/// Defines the check for unknown chunks, the check for unknown fields and the removal of these fields from one table, so that
/// they agree.
///
/// The table names every kind of chunk, so a new one does not compile without a decision about which clients know it and its
/// fields. A new field compiles without a decision: it has to be added unless the oldest clients of every profile accept it.
macro_rules! field_versions {
    (
        with_versioned_fields: { $($chunk:ident { $($field:ident: $since:ident),+ })+ }
        newer_chunks: { $($newer:ident: $newer_since:ident),+ }
        others: { $($other:ident)+ }
    ) => {
        /// Returns whether clients of this profile must not be sent the chunk in any form.
        fn is_unknown(profile: Profile, chunk: &UiChunk) -> bool {
            match chunk {
                $(UiChunk::$newer { .. } => !accepts(profile, $newer_since),)+
                $(UiChunk::$chunk { .. })|+ | $(UiChunk::$other { .. })|+ => false,
            }
        }

        /// Returns whether the oldest clients of this profile would refuse the chunk because of a field.
        fn has_unknown_fields(profile: Profile, chunk: &UiChunk) -> bool {
            match chunk {
                $(UiChunk::$chunk { $($field,)+ .. } => {
                    $(($field.is_some() && !accepts(profile, $since)))||+
                })+
                $(UiChunk::$newer { .. })|+ | $(UiChunk::$other { .. })|+ => false,
            }
        }

        /// Removes the fields that the oldest clients of this profile would refuse.
        fn drop_unknown_fields(profile: Profile, chunk: &mut UiChunk) {
            match chunk {
                $(UiChunk::$chunk { $($field,)+ .. } => {
                    $(if !accepts(profile, $since) {
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
        Abort { reason: V7 }
        Finish { finish_reason: V6 }
        TextEnd { citations: NEVER }
        File { provider_metadata: V6 }
        ToolInputStart { input_encoding: NEVER, provider_metadata: V7, tool_metadata: V7, title: V6 }
        ToolInputAvailable { tool_metadata: V7, title: V6 }
        ToolInputError { provider_metadata: V7, tool_metadata: V7, title: V6 }
        ToolApprovalRequest {
            approval_descriptor: NEVER,
            input_schema_input: NEVER,
            reason: V7_0_82,
            is_automatic: V7,
            signature: V7
        }
        ToolOutputAvailable { provider_metadata: V7, tool_metadata: V7 }
        ToolOutputError { provider_metadata: V7, tool_metadata: V7 }
    }
    // Chunks that clients before a profile are not sent at all.
    newer_chunks: { ResetStep: V7, ReasoningFile: V7, Custom: V7, SteeringMessage: V7, ToolApprovalResponse: V7 }
    // Chunks that every client is sent with all fields, unless `for_version_5` has another form for version 5.
    others: {
        Start StartStep FinishStep Error MessageMetadata TextStart TextDelta ReasoningStart ReasoningDelta ReasoningEnd
        SourceUrl SourceDocument ToolInputDelta ToolOutputDenied Data
    }
}
