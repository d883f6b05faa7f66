//! Which tools a run has, by name, and whether an input fits.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use fermata_protocol::PostedTool;
use serde_json::Value;

use crate::{
    Check, Decision, ErrorType, RunBy, Tool, ToolError, ToolSpec,
    schema::{self, SchemaFault, Weight},
};

/// Bytes of the description of a tool that a browser offers.
const LONGEST_DESCRIPTION: usize = 32 * 1024;
/// Subschemas of all tools that a browser offers, with references unfolded.
const MOST_SUBSCHEMAS: u64 = 100_000;

/// The tools of a run. Cheap to clone: what the server has is shared. A name that both have is the server's.
#[derive(Clone, Default)]
pub struct Toolbox {
    server: Arc<BTreeMap<String, Arc<Entry>>>,
    browser: Arc<BTreeMap<String, Arc<Entry>>>,
}

pub(crate) struct Entry {
    pub spec: ToolSpec,
    pub tool: Option<Arc<dyn Tool>>,
    /// What its validator is known by.
    pub key: OnceLock<[u8; 32]>,
    weight: OnceLock<Result<Weight, SchemaFault>>,
}

/// What the tools of one post may cost together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostedLimits {
    /// Bytes of names, descriptions and schemas.
    pub bytes: usize,
    /// Patterns in schemas.
    pub patterns: usize,
}

/// What the tools of one post cost together, so far.
#[derive(Default)]
struct PostedCost {
    bytes: usize,
    patterns: usize,
    building: u64,
    subschemas: u64,
}

/// A tool of the box.
#[derive(Clone, Copy)]
pub struct ToolRef<'a>(pub(crate) &'a Arc<Entry>);

/// An input that misses the schema, in words for the model and the person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InputError(pub String);

/// Why a tool cannot be put into the box.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    /// The name is taken.
    #[error("the tool name {0} is taken")]
    NameTaken(String),
    /// Providers refuse the name.
    #[error("the tool name {0:?} must be 1 to 64 characters of A-Z, a-z, 0-9, '_' and '-'")]
    BadName(String),
    /// The schema is none, or not one of an object.
    #[error("the input schema of the tool {name} cannot be used: {reason}")]
    BadSchema {
        /// Whose.
        name: String,
        /// Why.
        reason: String,
    },
    /// The tools of a post cost too much together.
    #[error("{0}")]
    TooMuch(String),
}

// === impl Toolbox ===

impl Toolbox {
    /// A box of the tools that this process or an MCP server runs, each as `adjust` leaves its spec. Of two tools with one name the
    /// first is taken. What cannot be used is left out, with the reason.
    pub fn new(
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
        adjust: impl Fn(&mut ToolSpec),
    ) -> (Self, Vec<ToolboxError>) {
        let mut server = BTreeMap::new();
        let mut left_out = Vec::new();
        for tool in tools {
            let mut spec = tool.spec();
            adjust(&mut spec);
            if server.contains_key(&spec.name) {
                left_out.push(ToolboxError::NameTaken(spec.name));
                continue;
            }
            let entry = Entry::new(spec, Some(tool));
            match entry.check() {
                Ok(()) => _ = server.insert(entry.spec.name.clone(), Arc::new(entry)),
                Err(error) => left_out.push(error),
            }
        }
        (Self { server: Arc::new(server), browser: Arc::default() }, left_out)
    }

    /// The browser's tools of this box with what the server has in another.
    #[must_use]
    pub fn with_server_tools_of(&self, other: &Self) -> Self {
        Self { server: other.server.clone(), browser: self.browser.clone() }
    }

    /// The same box with the tools that a browser offers for one run. Nothing is built for them yet.
    ///
    /// # Errors
    /// [`ToolboxError`] if a name is taken or unfit, a schema is none, or they cost too much.
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
            let entry = Entry::of_browser(tool);
            entry.check()?;
            cost.add(&entry, limits)?;
            if let Some(taken) = browser.insert(tool.name.clone(), Arc::new(entry)) {
                return Err(ToolboxError::NameTaken(taken.spec.name.clone()));
            }
        }
        Ok(Self { server: self.server.clone(), browser: Arc::new(browser) })
    }

    /// The same box with tools that a browser offered when its run began; they were looked at then. A name that the server has taken
    /// meanwhile is the server's.
    #[must_use]
    pub fn with_saved_tools(&self, posted: &[PostedTool]) -> Self {
        let browser =
            posted.iter().map(|tool| (tool.name.clone(), Arc::new(Entry::of_browser(tool)))).collect();
        Self { server: self.server.clone(), browser: Arc::new(browser) }
    }

    /// The tool of this name.
    pub fn find(&self, name: &str) -> Option<ToolRef<'_>> {
        self.server.get(name).or_else(|| self.browser.get(name)).map(ToolRef)
    }

    /// What is said of a call of a tool that the box does not have.
    pub fn unknown_tool(&self, name: &str) -> ToolError {
        let known: Vec<&str> = self.specs().map(|spec| spec.name.as_str()).collect();
        let words = format!("There is no tool named {name:?}. The tools are: {}.", known.join(", "));
        ToolError::new(ErrorType::InvalidFormat, words)
    }

    /// All tools, the server's first, each by name.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        let browser = self.browser.values().filter(|entry| !self.server.contains_key(&entry.spec.name));
        self.server.values().chain(browser).map(|entry| &entry.spec)
    }
}

// === impl ToolRef ===

impl<'a> ToolRef<'a> {
    /// What is known of the tool.
    pub fn spec(self) -> &'a ToolSpec {
        &self.0.spec
    }

    /// What runs it; `None` for a browser's tool.
    pub fn tool(self) -> Option<&'a Arc<dyn Tool>> {
        self.0.tool.as_ref()
    }

    /// What is said of a call whose input misses the schema.
    pub fn validation_error(self, fault: &InputError) -> ToolError {
        let words = format!("The input of {} does not fit its schema: {fault}.", self.0.spec.name);
        ToolError::new(ErrorType::InvalidFormat, words)
    }

    /// The check of an input of this tool.
    pub fn check_of(self, input: Value) -> Check {
        Check::of_tool(self.0, input)
    }

    /// Why inputs of this tool are not checked here: a pattern of its schema is of a dialect that may take for ever, and the program that
    /// runs it looks at them itself.
    pub fn unchecked(self) -> Option<&'a str> {
        match self.0.weight() {
            Err(SchemaFault::Dialect(words)) if self.0.tool.is_some() => Some(words),
            Ok(_) | Err(_) => None,
        }
    }
}

// === impl Entry ===

impl Entry {
    fn new(spec: ToolSpec, tool: Option<Arc<dyn Tool>>) -> Self {
        Self { spec, tool, key: OnceLock::new(), weight: OnceLock::new() }
    }

    fn of_browser(tool: &PostedTool) -> Self {
        let spec = ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone().unwrap_or_default(),
            input_schema: tool.input_schema.clone(),
            run_by: RunBy::Browser,
            server: None,
            policy: Decision::Allow,
            resource: None,
            timeout: None,
            repeatable: false,
        };
        Self::new(spec, None)
    }

    /// What the schema costs, found out once.
    pub fn weight(&self) -> &Result<Weight, SchemaFault> {
        self.weight.get_or_init(|| schema::weigh(&self.spec.input_schema))
    }

    fn check(&self) -> Result<(), ToolboxError> {
        let spec = &self.spec;
        let fit = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !(1..=64).contains(&spec.name.len()) || !spec.name.bytes().all(fit) {
            return Err(ToolboxError::BadName(spec.name.clone()));
        }
        let bad = |reason: String| Err(ToolboxError::BadSchema { name: spec.name.clone(), reason });
        if spec.input_schema.get("type") != Some(&Value::from("object")) {
            return bad("it must have \"type\": \"object\"".into());
        }
        match self.weight() {
            Ok(_) => Ok(()),
            Err(SchemaFault::Dialect(_)) if self.tool.is_some() => Ok(()),
            Err(SchemaFault::Dialect(reason) | SchemaFault::Unusable(reason)) => bad(reason.clone()),
        }
    }
}

// === impl PostedCost ===

impl PostedCost {
    /// Adds a tool that is fit by itself.
    fn add(&mut self, entry: &Entry, limits: PostedLimits) -> Result<(), ToolboxError> {
        let spec = &entry.spec;
        let Ok(weight) = entry.weight() else { return Ok(()) };
        if spec.description.len() > LONGEST_DESCRIPTION {
            return Err(ToolboxError::TooMuch(format!(
                "the description of the tool {} has {} bytes; the limit is {LONGEST_DESCRIPTION}",
                spec.name,
                spec.description.len()
            )));
        }
        self.bytes += spec.name.len() + spec.description.len() + weight.bytes;
        self.patterns += weight.patterns;
        self.building += weight.building;
        self.subschemas += weight.subschemas;
        let too_much = |what: String| Err(ToolboxError::TooMuch(format!("together the tools {what}")));
        if self.bytes > limits.bytes {
            return too_much(format!("have more than {} bytes (max_tools_size)", limits.bytes));
        }
        if self.patterns > limits.patterns {
            return too_much(format!(
                "have more than {} patterns in their schemas (max_patterns)",
                limits.patterns
            ));
        }
        if self.building > schema::LARGEST_PATTERNS {
            let most = schema::LARGEST_PATTERNS;
            return too_much(format!("have patterns that stand for more than {most} states"));
        }
        if self.subschemas > MOST_SUBSCHEMAS {
            return too_much(format!("have schemas that unfold to more than {MOST_SUBSCHEMAS} subschemas"));
        }
        Ok(())
    }
}
