//! The tool `remember`.

use async_trait::async_trait;
use fermata_engine::{
    MemoryService,
    memories::{MemoryDraft, MemoryToolOutput, REMEMBER},
    store::memories::{MemoryEvent, MemoryId, MemoryOutcome},
};
use fermata_tools::{CallContext, Decision, Resource, ToolError, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::MemoryKindInput;

/// The tool that saves a memory of the owner.
pub struct Remember {
    /// The memories of all owners.
    pub memories: MemoryService,
}

// The comments of the fields are part of the schema, whose fingerprint is in saved grants: if they change, people have to approve the tool again.
/// The input of [`Remember`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// One sentence about the user that holds in all chats.
    text: String,
    /// What it is: preference, fact, entity or instruction.
    #[serde(default)]
    kind: MemoryKindInput,
    /// A name for what there is only one of, such as name or timezone. What had this name before is replaced.
    #[serde(default)]
    slot: Option<String>,
}

#[async_trait]
impl TypedTool for Remember {
    const NAME: &'static str = REMEMBER;
    const TITLE: Option<&'static str> = Some("Remember");
    const DESCRIPTION: &'static str = "Remembers something about the user for all later chats. Use it for what the user would not want to \
        say again, and never for secrets.";
    const POLICY: Decision = Decision::Allow;
    // The memory has the call's id, so a call that runs twice saves it once.
    const REPEATABLE: bool = true;
    type Input = Input;

    fn resource(&self) -> Option<Resource> {
        Some(super::memories_of_owner())
    }

    fn reads_from(&self, _: &Input) -> Option<String> {
        None
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<Value, ToolError> {
        let Input { text, kind, slot } = input;
        let call = context.call.as_str();
        let draft = MemoryDraft {
            id: Some(MemoryId(format!("mem_{}", call.strip_prefix("call_").unwrap_or(call)))),
            kind: kind.into(),
            text,
            slot: slot.filter(|slot| !slot.trim().is_empty()),
            pinned: false,
        };
        let saved = self.memories.save(&context.owner, draft, &super::author(&context, Self::NAME)).await;
        let output = match saved.map_err(|error| super::memory_failed(&context, error))? {
            MemoryOutcome::Changed(MemoryEvent { before: Some(_), after: Some(memory) }) => {
                MemoryToolOutput::Changed((&memory).into())
            }
            MemoryOutcome::Changed(MemoryEvent { after: Some(memory), .. }) => {
                MemoryToolOutput::Saved((&memory).into())
            }
            MemoryOutcome::Unchanged(memory) => MemoryToolOutput::Known((&memory).into()),
            MemoryOutcome::Changed(MemoryEvent { after: None, .. })
            | MemoryOutcome::Unknown
            | MemoryOutcome::Full
            | MemoryOutcome::TooManyAlways => return Err(ToolError::internal("The memory was not saved.")),
        };
        super::output(&output)
    }
}
