//! The tool `forget`.

use async_trait::async_trait;
use fermata_engine::{
    MemoryService,
    memories::{FORGET, MemoryToolOutput},
    store::memories::MemoryId,
};
use fermata_tools::{CallContext, Decision, Resource, ToolError, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The tool that deletes a memory of the owner.
pub struct Forget {
    /// The memories of all owners.
    pub memories: MemoryService,
}

// The comments of the fields are part of the schema, whose fingerprint is in saved grants: if they change, people have to approve the tool again.
/// The input of [`Forget`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The id of the memory, as recall gives it.
    id: String,
}

#[async_trait]
impl TypedTool for Forget {
    const NAME: &'static str = FORGET;
    const TITLE: Option<&'static str> = Some("Forget");
    const DESCRIPTION: &'static str =
        "Forgets one thing that is remembered about the user. The id comes from recall or remember.";
    const POLICY: Decision = Decision::Allow;
    type Input = Input;

    fn resource(&self) -> Option<Resource> {
        Some(super::memories_of_owner())
    }

    fn reads_from(&self, _: &Input) -> Option<String> {
        None
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<Value, ToolError> {
        let author = super::author(&context, Self::NAME);
        let forgotten = self.memories.forget(&context.owner, MemoryId(input.id), &author).await;
        let memory = forgotten.map_err(|error| super::memory_failed(&context, error))?;
        super::output(&MemoryToolOutput::Forgotten((&memory).into()))
    }
}
