//! A tool with the cached properties of its schema.

use std::sync::{Arc, OnceLock};

use fermata_protocol::PostedTool;

use crate::{
    Decision, InputSchema, RunBy, Tool, ToolSpec,
    schema::{self, SchemaCost},
};

/// A tool with the cached properties of its schema.
pub(crate) struct RegisteredTool {
    pub spec: ToolSpec,
    /// The implementation; `None` for a browser's tool, and for one whose calls the run itself settles.
    pub tool: Option<Arc<dyn Tool>>,
    /// The key of the tool's validator in the cache of [`crate::Checker`].
    pub key: OnceLock<[u8; 32]>,
    cost: OnceLock<Result<SchemaCost, String>>,
    fingerprint: OnceLock<String>,
}

// === impl RegisteredTool ===

impl RegisteredTool {
    pub fn new(spec: ToolSpec, tool: Option<Arc<dyn Tool>>) -> Self {
        Self { spec, tool, key: OnceLock::new(), cost: OnceLock::new(), fingerprint: OnceLock::new() }
    }

    pub fn of_browser(tool: &PostedTool) -> Self {
        let spec = ToolSpec {
            name: tool.name.clone(),
            title: None,
            description: tool.description.clone().unwrap_or_default(),
            input_schema: InputSchema::received(tool.input_schema.clone()),
            run_by: RunBy::Browser,
            server: None,
            policy: Decision::Allow,
            resource: None,
            timeout: None,
            repeatable: false,
            annotations: None,
        };
        Self::new(spec, None)
    }

    /// Returns the [`ToolSpec::fingerprint`], which is computed once.
    pub fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| self.spec.fingerprint())
    }

    /// Returns the cost of the schema, which is determined once.
    pub fn cost(&self) -> &Result<SchemaCost, String> {
        self.cost.get_or_init(|| schema::cost(&self.spec.input_schema))
    }
}
