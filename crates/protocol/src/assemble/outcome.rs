//! The approval request, the decision and the outcome of a call.

use serde_json::{Map, Value};

use super::{AssembleError, Assembler, tool::set_field};
use crate::{Approval, JsonText, ToolCallId, ToolPart, ToolState, UiChunk, profile::denial_text_of};

// === impl Assembler ===

impl Assembler {
    pub(super) fn request_approval(&mut self, chunk: &UiChunk) -> Result<(), AssembleError> {
        let UiChunk::ToolApprovalRequest {
            approval_id,
            tool_call_id,
            approval_descriptor,
            input_schema_input,
            reason,
            is_automatic,
            signature,
            tool_name: _,
        } = chunk
        else {
            return Ok(());
        };
        let mut extra = Map::new();
        set_field(&mut extra, "descriptor", approval_descriptor.as_ref());
        set_field(&mut extra, "inputSchemaInput", input_schema_input.as_ref());
        set_field(&mut extra, "requestReason", reason.as_deref().map(Value::from).as_ref());
        if *is_automatic == Some(true) {
            set_field(&mut extra, "isAutomatic", Some(&Value::Bool(true)));
        }
        set_field(&mut extra, "signature", signature.as_deref().map(Value::from).as_ref());
        let index = self.tool_of_call(tool_call_id)?;
        self.end_input(index);
        if let Some(part) = self.tool_mut(index) {
            part.approval = Some(Approval { id: approval_id.clone(), approved: None, reason: None, extra });
            part.advance(|input, raw_input| ToolState::ApprovalRequested {
                input,
                raw_input: raw_input.and_then(into_text),
            });
        }
        Ok(())
    }

    pub(super) fn apply_decision(&mut self, chunk: &UiChunk) -> Result<(), AssembleError> {
        let UiChunk::ToolApprovalResponse {
            approval_id,
            approved,
            reason,
            provider_executed,
            provider_metadata,
        } = chunk
        else {
            return Ok(());
        };
        let Some(index) = self.tool_of_approval(approval_id) else {
            return Err(AssembleError(format!("no call has the approval {approval_id}")));
        };
        self.end_input(index);
        if let Some(part) = self.tool_mut(index) {
            if let Some(approval) = &mut part.approval {
                approval.approved = Some(*approved);
                if reason.is_some() {
                    approval.reason.clone_from(reason);
                }
            }
            set_field(&mut part.extra, "providerExecuted", provider_executed.map(Value::Bool).as_ref());
            set_field(&mut part.extra, "callProviderMetadata", provider_metadata.as_ref());
            part.advance(|input, raw_input| ToolState::ApprovalResponded {
                input,
                raw_input: raw_input.and_then(into_text),
            });
        }
        Ok(())
    }

    pub(super) fn succeed(&mut self, chunk: &UiChunk) -> Result<(), AssembleError> {
        let UiChunk::ToolOutputAvailable {
            tool_call_id,
            output,
            preliminary,
            provider_executed,
            provider_metadata,
            tool_metadata,
            dynamic: _,
        } = chunk
        else {
            return Ok(());
        };
        let (output, preliminary) = (output.clone(), *preliminary);
        let Some(part) = self.part_of_call(tool_call_id)? else {
            return Ok(());
        };
        part.advance(|input, _| ToolState::OutputAvailable { input, output, preliminary });
        set_outcome_fields(part, *provider_executed, provider_metadata.as_ref(), tool_metadata.as_ref());
        Ok(())
    }

    pub(super) fn fail(&mut self, chunk: &UiChunk) -> Result<(), AssembleError> {
        let UiChunk::ToolOutputError {
            tool_call_id,
            error_text,
            provider_executed,
            provider_metadata,
            tool_metadata,
            dynamic: _,
        } = chunk
        else {
            return Ok(());
        };
        let error_text = error_text.clone();
        let Some(part) = self.part_of_call(tool_call_id)? else {
            return Ok(());
        };
        // Clients drop the streamed text of a dynamic call here, and keep that of a static one.
        let is_dynamic = part.name.is_dynamic();
        part.advance(|input, raw_input| ToolState::OutputError {
            input,
            raw_input: if is_dynamic { None } else { raw_input },
            error_text,
        });
        set_outcome_fields(part, *provider_executed, provider_metadata.as_ref(), tool_metadata.as_ref());
        Ok(())
    }

    pub(super) fn deny(&mut self, call: &ToolCallId, error_text: &str) -> Result<(), AssembleError> {
        let error_text = Some(denial_text_of(error_text).into_owned());
        let Some(part) = self.part_of_call(call)? else {
            return Ok(());
        };
        part.advance(|input, raw_input| ToolState::OutputDenied {
            input,
            raw_input: raw_input.and_then(into_text),
            error_text,
        });
        Ok(())
    }

    /// Returns the part of a call with the input that has arrived so far.
    fn part_of_call(&mut self, call: &ToolCallId) -> Result<Option<&mut ToolPart>, AssembleError> {
        let index = self.tool_of_call(call)?;
        self.end_input(index);
        Ok(self.tool_mut(index))
    }
}

fn set_outcome_fields(
    part: &mut ToolPart,
    provider_executed: Option<bool>,
    provider_metadata: Option<&Value>,
    tool_metadata: Option<&Value>,
) {
    set_field(&mut part.extra, "providerExecuted", provider_executed.map(Value::Bool).as_ref());
    set_field(&mut part.extra, "resultProviderMetadata", provider_metadata);
    set_field(&mut part.extra, "toolMetadata", tool_metadata);
    part.extra.shift_remove("inputEncoding");
}

fn into_text(value: JsonText) -> Option<String> {
    value.read().ok()
}
