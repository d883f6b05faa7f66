//! What may be replaced while an engine runs: the rules, and the tools that come and go.
//!
//! Invariant: a step goes by one [`Current`] from its beginning to its end.

use std::sync::Arc;

use fermata_tools::{
    ChainMode, DefaultPolicy, ErrorPolicy, GateMode, MAX_RETRIES, Pattern, Policy, Tool, ToolSettings,
    ToolSpec, Toolbox, ToolboxError,
};

/// What decides about calls. A step keeps the rules that were in force when it began, but what the newest deny does not run.
#[derive(Clone)]
pub struct Rules {
    /// Allows, asks, denies.
    pub policy: Arc<dyn Policy>,
    /// When the calls of a step may run.
    pub gate: GateMode,
    /// What becomes of calls after the first tool result of a turn.
    pub chain: ChainMode,
    /// What follows a failure.
    pub error_policy: ErrorPolicy,
    /// What is set for tools by name; where several match, the later wins.
    pub tools: Vec<(Pattern, ToolSettings)>,
}

/// What the steps that begin now go by.
pub(crate) struct Current {
    pub rules: Rules,
    /// The tools of this process and of MCP servers, as the rules want them.
    pub toolbox: Toolbox,
    /// Those that the engine was built with.
    pub own: Vec<Arc<dyn Tool>>,
    /// Those that come and go.
    pub others: Vec<Arc<dyn Tool>>,
}

// === impl Rules ===

impl Rules {
    /// The spec as what is set for its name wants it.
    fn adjust(&self, spec: &mut ToolSpec) {
        let name = spec.name.clone();
        self.named(&name).for_each(|settings| settings.apply(spec));
    }

    /// How often a call of a tool that is not there may run again, as far as the settings tell.
    pub(crate) fn retries(&self, tool: &str) -> u32 {
        let repeatable = self.named(tool).filter_map(|settings| settings.repeatable).last();
        if repeatable == Some(true) { MAX_RETRIES } else { 0 }
    }

    fn named<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a ToolSettings> {
        self.tools.iter().filter(|(pattern, _)| pattern.matches(tool)).map(|(_, settings)| settings)
    }
}

impl Default for Rules {
    /// Every tool's own default, the gate over whole steps, nothing set by name.
    fn default() -> Self {
        Self {
            policy: Arc::new(DefaultPolicy),
            gate: GateMode::default(),
            chain: ChainMode::default(),
            error_policy: ErrorPolicy::default(),
            tools: Vec::new(),
        }
    }
}

// === impl Current ===

impl Current {
    /// With the tools that cannot be used, and why.
    pub fn new(
        rules: Rules,
        own: Vec<Arc<dyn Tool>>,
        others: Vec<Arc<dyn Tool>>,
    ) -> (Self, Vec<ToolboxError>) {
        let tools = own.iter().chain(&others).cloned();
        let (toolbox, left_out) = Toolbox::new(tools, |spec| rules.adjust(spec));
        for found in toolbox.specs().filter_map(|spec| toolbox.find(&spec.name)) {
            if let Some(reason) = found.unchecked() {
                let tool = &found.spec().name;
                tracing::warn!(tool, reason, "only the tool itself checks its inputs");
            }
        }
        (Self { rules, toolbox, own, others }, left_out)
    }
}
