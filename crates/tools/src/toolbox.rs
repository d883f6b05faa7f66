//! The tools of a run, by name.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use fermata_protocol::{JsonText, PostedTool};
use serde_json::Value;

use crate::{
    ApprovalMode, Check, Confirm, Decision, DecisionSource, ErrorType, InputError, Policy, PolicyDecision,
    Presentation, Principal, RunBy, Scope, Tool, ToolError, ToolSpec, absent_fields::without_absent_fields,
    checker::Schema, presentation, registered_tool::RegisteredTool, schema,
};

/// The limit on the description of a browser's tool, in bytes.
const LONGEST_DESCRIPTION: usize = 32 * 1024;
/// The limit on the subschemas of all tools of a browser, with references unfolded.
const MAX_SUBSCHEMAS: u64 = 100_000;

/// The tools of a run. It is cheap to clone.
///
/// If the server and the browser have a tool of one name, it is the server's.
#[derive(Clone, Default)]
pub struct Toolbox {
    server: Arc<BTreeMap<String, Arc<RegisteredTool>>>,
    browser: Arc<BTreeMap<String, Arc<RegisteredTool>>>,
}

/// The limits on all tools of one post together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostedLimits {
    /// The bytes of names, descriptions and schemas.
    pub bytes: usize,
    /// The number of patterns in schemas.
    pub patterns: usize,
}

/// The cost of the tools of one post that were added so far.
#[derive(Default)]
struct PostedCost {
    bytes: usize,
    patterns: usize,
    building: u64,
    subschemas: u64,
}

/// A tool in a [`Toolbox`].
#[derive(Clone, Copy)]
pub struct ToolRef<'a>(pub(crate) &'a Arc<RegisteredTool>);

/// The reason why a tool cannot be added to a [`Toolbox`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    /// Another tool has the name.
    #[error("the tool name {0} is taken")]
    NameTaken(String),
    /// The name does not have the form that providers accept.
    #[error("the tool name {0:?} must be 1 to 64 characters of A-Z, a-z, 0-9, '_' and '-'")]
    BadName(String),
    /// The schema is invalid, too expensive, or not an object schema.
    #[error("the input schema of the tool {name} cannot be used: {reason}")]
    BadSchema {
        /// The tool's name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The tools of a post exceed a limit together.
    #[error("{0}")]
    TooMuch(String),
}

// === impl Toolbox ===

impl Toolbox {
    /// Creates a toolbox of tools that this process or an MCP server runs, and returns it with the errors of the tools that were left
    /// out. `adjust` may change each tool's spec. If two tools have one name, the second is left out.
    pub fn new(
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
        adjust: impl Fn(&mut ToolSpec),
    ) -> (Self, Vec<ToolboxError>) {
        let mut server = BTreeMap::new();
        let mut errors = Vec::new();
        for tool in tools {
            let mut spec = tool.spec();
            adjust(&mut spec);
            if let Some(title) = &mut spec.title {
                presentation::clip(title, presentation::LONGEST_TITLE);
            }
            if server.contains_key(&spec.name) {
                errors.push(ToolboxError::NameTaken(spec.name));
                continue;
            }
            let registered = RegisteredTool::new(spec, Some(tool));
            match check(&registered) {
                Ok(()) => _ = server.insert(registered.spec.name.clone(), Arc::new(registered)),
                Err(error) => errors.push(error),
            }
        }
        (Self { server: Arc::new(server), browser: Arc::default() }, errors)
    }

    /// Returns a toolbox with those of the server's tools whose names pass a test.
    #[must_use]
    pub fn restricted(&self, has: impl Fn(&str) -> bool) -> Self {
        let mut server = BTreeMap::clone(&self.server);
        server.retain(|name, _| has(name));
        Self { server: Arc::new(server), browser: self.browser.clone() }
    }

    /// Returns a toolbox with the browser's tools of `self` and the server's tools of `other`.
    #[must_use]
    pub fn with_server_tools_of(&self, other: &Self) -> Self {
        Self { server: other.server.clone(), browser: self.browser.clone() }
    }

    /// Returns a toolbox where the server's tools of `newer` replace those of `self`. Tools that `newer` does not have stay.
    #[must_use]
    pub fn with_newer_tools_of(&self, newer: &Self) -> Self {
        let mut server = BTreeMap::clone(&self.server);
        server.extend(newer.server.iter().map(|(name, tool)| (name.clone(), tool.clone())));
        Self { server: Arc::new(server), browser: self.browser.clone() }
    }

    /// Returns a toolbox with tools whose calls the run itself settles. They go before the server's tools of the same names.
    #[must_use]
    pub fn with_tools_of_run(&self, specs: impl IntoIterator<Item = ToolSpec>) -> Self {
        let mut server = BTreeMap::clone(&self.server);
        let tools = specs.into_iter().map(|spec| RegisteredTool::new(spec, None));
        server.extend(tools.map(|tool| (tool.spec.name.clone(), Arc::new(tool))));
        Self { server: Arc::new(server), browser: self.browser.clone() }
    }

    /// Returns a toolbox with the server's tools of `self` and the tools that a browser posted for a run. Their validators are built
    /// later.
    ///
    /// # Errors
    /// Returns an error if a name is taken or invalid, a schema cannot be used, or the tools exceed a limit.
    pub fn with_browser_tools(
        &self,
        posted: &[PostedTool],
        limits: PostedLimits,
    ) -> Result<Self, ToolboxError> {
        let mut browser = BTreeMap::new();
        let mut cost = PostedCost::default();
        for tool in posted {
            if self.server.contains_key(&tool.name) {
                return Err(ToolboxError::NameTaken(tool.name.clone()));
            }
            let registered = RegisteredTool::of_browser(tool);
            check(&registered)?;
            cost.add(&registered, limits)?;
            if let Some(earlier) = browser.insert(tool.name.clone(), Arc::new(registered)) {
                return Err(ToolboxError::NameTaken(earlier.spec.name.clone()));
            }
        }
        Ok(Self { server: self.server.clone(), browser: Arc::new(browser) })
    }

    /// Returns a toolbox with the server's tools of `self` and the browser's tools of a saved run, which were checked when the run began.
    #[must_use]
    pub fn with_saved_tools(&self, posted: &[PostedTool]) -> Self {
        let browser = posted
            .iter()
            .map(|tool| (tool.name.clone(), Arc::new(RegisteredTool::of_browser(tool))))
            .collect();
        Self { server: self.server.clone(), browser: Arc::new(browser) }
    }

    /// Returns the tool of this name.
    pub fn find(&self, name: &str) -> Option<ToolRef<'_>> {
        self.server.get(name).or_else(|| self.browser.get(name)).map(ToolRef)
    }

    /// Creates the error of a call to a tool that does not exist.
    pub fn unknown_tool(&self, name: &str) -> ToolError {
        let known: Vec<&str> = self.specs().map(|spec| spec.name.as_str()).collect();
        let text = format!("There is no tool named {name:?}. The tools are: {}.", known.join(", "));
        ToolError::new(ErrorType::InvalidFormat, text)
    }

    /// Returns the specs of all tools: the server's first, each group in the order of names.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        let browser = self.browser.values().filter(|tool| !self.server.contains_key(&tool.spec.name));
        self.server.values().chain(browser).map(|tool| &tool.spec)
    }
}

// === impl ToolRef ===

impl<'a> ToolRef<'a> {
    /// Returns the tool's description.
    pub fn spec(self) -> &'a ToolSpec {
        &self.0.spec
    }

    /// Returns the tool's [`ToolSpec::fingerprint`].
    pub fn fingerprint(self) -> &'a str {
        self.0.fingerprint()
    }

    /// Returns the tool's implementation; `None` for a browser's tool, and for one whose calls the run itself settles.
    pub fn tool(self) -> Option<&'a Arc<dyn Tool>> {
        self.0.tool.as_ref()
    }

    /// Returns whether the run itself settles the calls of this tool.
    pub fn is_of_run(self) -> bool {
        self.0.tool.is_none() && self.0.spec.run_by == RunBy::Server
    }

    /// Returns the decision about a call with this input: the stricter one of the tool's own and the policy's.
    pub fn decide(self, policy: &dyn Policy, requester: &Principal, input: &Value) -> PolicyDecision {
        let spec = self.spec();
        match self.confirm(input) {
            Confirm::ByPolicy(_) => policy.decide(requester, spec, input),
            Confirm::Allow => {
                policy.decide(requester, &ToolSpec { policy: Decision::Allow, ..spec.clone() }, input)
            }
            Confirm::Ask(_) => {
                let by_policy = policy.decide(requester, spec, input);
                if by_policy.decision == Decision::Deny || policy.approval() == ApprovalMode::Auto {
                    return by_policy;
                }
                if by_policy.decision == Decision::Ask {
                    return PolicyDecision { by: DecisionSource::Tool, ..by_policy };
                }
                PolicyDecision::new(Decision::Ask, DecisionSource::Tool)
            }
            Confirm::Deny(reason) => PolicyDecision {
                reason: Some(reason),
                ..PolicyDecision::new(Decision::Deny, DecisionSource::Tool)
            },
        }
    }

    /// Returns where the output of a call with this input comes from, for people, if others than the user and this server have a say in it:
    /// a page, an MCP server, or the source that the tool names ([`Tool::reads_from`]).
    pub fn reads_from(self, input: &JsonText) -> Option<String> {
        let mut source = match (self.spec().run_by, self.tool()) {
            (RunBy::Browser, _) => "the page".into(),
            (RunBy::Mcp, _) => match &self.spec().server {
                Some(server) => format!("the MCP server {server}"),
                None => "an MCP server".into(),
            },
            // The run itself settles the calls of such a tool.
            (RunBy::Server, None) => return None,
            // A tool that panics is not trusted to say that it reads nothing.
            (RunBy::Server, Some(tool)) => catch_unwind(AssertUnwindSafe(|| tool.reads_from(&input.value())))
                .unwrap_or_else(|_| Some(self.spec().name.clone()))?,
        };
        presentation::clip(&mut source, presentation::LONGEST_DESCRIPTION);
        Some(source)
    }

    /// Returns the scopes of "always" for a call with this input, the narrowest first: the tool's proposals, or else the tool itself
    /// and its MCP server. A tool that panics proposes nothing.
    pub fn scopes(self, input: &Value) -> Vec<Scope> {
        let spec = self.spec();
        let proposed = match self.tool() {
            Some(tool) => catch_unwind(AssertUnwindSafe(|| tool.scopes(input))).unwrap_or(Some(Vec::new())),
            None => None,
        };
        let mut scopes = proposed.unwrap_or_else(|| {
            let server = spec.server.as_deref().map(Scope::server);
            std::iter::once(Scope::tool(&spec.name)).chain(server).collect()
        });
        scopes.retain(|scope| scope.id.len() <= presentation::LONGEST_SCOPE_ID);
        for scope in &mut scopes {
            presentation::clip(&mut scope.label, presentation::LONGEST_SCOPE);
            presentation::clip(&mut scope.covers, presentation::LONGEST_SCOPE);
        }
        scopes
    }

    /// Returns how a call with this input is presented to a person. Texts that are too long are cut.
    pub fn presentation(self, input: &Value) -> Presentation {
        let (title, server, scopes) =
            (self.spec().title.clone(), self.spec().server.clone(), self.scopes(input));
        let Some(tool) = self.tool() else {
            return Presentation { title, server, scopes, ..Presentation::default() };
        };
        let mut description = catch_unwind(AssertUnwindSafe(|| tool.describe(input))).unwrap_or_default();
        if let Some(description) = &mut description {
            presentation::clip(description, presentation::LONGEST_DESCRIPTION);
        }
        let mut details = match self.confirm(input) {
            Confirm::ByPolicy(details) => details,
            Confirm::Ask(details) => Some(details),
            Confirm::Allow | Confirm::Deny(_) => None,
        };
        if let Some(details) = &mut details {
            details.clip();
        }
        Presentation { title, server, description, details, scopes }
    }

    /// Returns the tool's own answer about a call with this input. A tool that panics has the call denied.
    fn confirm(self, input: &Value) -> Confirm {
        let Some(tool) = self.tool() else { return Confirm::default() };
        catch_unwind(AssertUnwindSafe(|| tool.confirm(input)))
            .unwrap_or_else(|_| Confirm::Deny("The tool failed when it was asked about this input.".into()))
    }

    /// Creates the error of a call whose input violates the schema.
    pub fn validation_error(self, error: &InputError) -> ToolError {
        let text = format!("The input of {} does not fit its schema: {error}.", self.0.spec.name);
        ToolError::new(ErrorType::InvalidFormat, text)
    }

    /// Returns the input that a model means: without `null` for fields that it leaves out. Models write it although the schema does not allow
    /// it there.
    pub fn intended_input(self, input: JsonText) -> JsonText {
        if !input.as_str().contains("null") {
            return input;
        }
        without_absent_fields(&self.spec().input_schema, &input.value()).map_or(input, JsonText::from)
    }

    /// Creates the check of an input against this tool's schema.
    pub fn check_of(self, input: impl Into<JsonText>) -> Check {
        Check { schema: Schema::Tool(self.0.clone()), value: input.into() }
    }

    /// Returns the reasons why some patterns of this tool's schema are not checked.
    pub fn unchecked_patterns(self) -> Option<&'a str> {
        let relaxed = self.0.cost().as_ref().ok()?.relaxed.as_ref()?;
        Some(&relaxed.reasons)
    }
}

/// Checks the name and the schema of a tool.
fn check(tool: &RegisteredTool) -> Result<(), ToolboxError> {
    let spec = &tool.spec;
    let is_plain = spec.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if !(1..=64).contains(&spec.name.len()) || !is_plain {
        return Err(ToolboxError::BadName(spec.name.clone()));
    }
    if spec.input_schema.get("type") != Some(&Value::from("object")) {
        let reason = "it must have \"type\": \"object\"".into();
        return Err(ToolboxError::BadSchema { name: spec.name.clone(), reason });
    }
    match tool.cost() {
        Ok(_) => Ok(()),
        Err(reason) => Err(ToolboxError::BadSchema { name: spec.name.clone(), reason: reason.clone() }),
    }
}

// === impl PostedCost ===

impl PostedCost {
    /// Adds a tool that passed its own check.
    fn add(&mut self, tool: &RegisteredTool, limits: PostedLimits) -> Result<(), ToolboxError> {
        let spec = &tool.spec;
        let Ok(cost) = tool.cost() else { return Ok(()) };
        if spec.description.len() > LONGEST_DESCRIPTION {
            return Err(ToolboxError::TooMuch(format!(
                "the description of the tool {} has {} bytes; the limit is {LONGEST_DESCRIPTION}",
                spec.name,
                spec.description.len()
            )));
        }
        self.bytes += spec.name.len() + spec.description.len() + cost.bytes;
        self.patterns += cost.patterns;
        self.building += cost.building;
        self.subschemas += cost.subschemas;
        let excess = if self.bytes > limits.bytes {
            format!("have more than {} bytes (max_tools_size)", limits.bytes)
        } else if self.patterns > limits.patterns {
            format!("have more than {} patterns in their schemas (max_patterns)", limits.patterns)
        } else if self.building > schema::LARGEST_PATTERNS {
            format!("have patterns that stand for more than {} states", schema::LARGEST_PATTERNS)
        } else if self.subschemas > MAX_SUBSCHEMAS {
            format!("have schemas that unfold to more than {MAX_SUBSCHEMAS} subschemas")
        } else {
            return Ok(());
        };
        Err(ToolboxError::TooMuch(format!("together the tools {excess}")))
    }
}
