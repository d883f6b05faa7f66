//! Which tools a run has, by name, and whether an input fits.

use std::{collections::BTreeMap, sync::Arc};

use fermata_protocol::PostedTool;
use serde_json::Value;

use crate::{
    Decision, ErrorType, RunBy, Tool, ToolError, ToolSpec,
    schema::{self, SchemaFault},
};

/// The tools of a run. Cheap to clone: what the server has is shared. A name that both have is the server's.
#[derive(Clone, Default)]
pub struct Toolbox {
    server: Arc<BTreeMap<String, Entry>>,
    browser: Arc<BTreeMap<String, Entry>>,
}

struct Entry {
    spec: ToolSpec,
    validator: jsonschema::Validator,
    tool: Option<Arc<dyn Tool>>,
}

/// A tool of the box.
#[derive(Clone, Copy)]
pub struct Found<'a>(&'a Entry);

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
            match Entry::build(spec, Some(tool)) {
                Ok(entry) => _ = server.insert(entry.spec.name.clone(), entry),
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

    /// The same box with the tools that a browser offers for one run.
    ///
    /// # Errors
    /// [`ToolboxError`] where a name is taken or unfit, or a schema is none.
    pub fn with_browser_tools(&self, posted: &[PostedTool]) -> Result<Self, ToolboxError> {
        let mut browser = BTreeMap::new();
        for tool in posted {
            if self.server.contains_key(&tool.name) {
                return Err(ToolboxError::NameTaken(tool.name.clone()));
            }
            let spec = ToolSpec {
                name: tool.name.clone(),
                description: tool.description.clone().unwrap_or_default(),
                input_schema: tool.input_schema.clone(),
                run_by: RunBy::Browser,
                policy: Decision::Allow,
                resource: None,
                timeout: None,
                repeatable: false,
            };
            if let Some(taken) = browser.insert(tool.name.clone(), Entry::build(spec, None)?) {
                return Err(ToolboxError::NameTaken(taken.spec.name));
            }
        }
        Ok(Self { server: self.server.clone(), browser: Arc::new(browser) })
    }

    /// The tool of this name.
    pub fn find(&self, name: &str) -> Option<Found<'_>> {
        self.server.get(name).or_else(|| self.browser.get(name)).map(Found)
    }

    /// What is said of a call of a tool that the box does not have.
    pub fn lacks(&self, name: &str) -> ToolError {
        let known: Vec<&str> = self.specs().map(|spec| spec.name.as_str()).collect();
        let words = format!("There is no tool named {name:?}. The tools are: {}.", known.join(", "));
        ToolError::new(ErrorType::InvalidFormat, words)
    }

    /// All tools, the server's first, each by name.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.server.values().chain(self.browser.values()).map(|entry| &entry.spec)
    }
}

// === impl Found ===

impl<'a> Found<'a> {
    /// What is known of the tool.
    pub fn spec(self) -> &'a ToolSpec {
        &self.0.spec
    }

    /// What runs it; `None` for a browser's tool.
    pub fn tool(self) -> Option<&'a Arc<dyn Tool>> {
        self.0.tool.as_ref()
    }

    /// What is said of a call whose input misses the schema.
    pub fn misfit(self, fault: &InputError) -> ToolError {
        let words = format!("The input of {} does not fit its schema: {fault}.", self.0.spec.name);
        ToolError::new(ErrorType::InvalidFormat, words)
    }

    /// Checks an input against the schema.
    ///
    /// # Errors
    /// What is wrong with it, at most three faults, each with its place.
    pub fn check(self, input: &Value) -> Result<(), InputError> {
        check(&self.0.validator, input)
    }
}

/// Checks a value against a schema that is used this once; formats such as `email` count.
///
/// # Errors
/// What is wrong with the value, or with the schema.
pub fn check_against(schema: &Value, value: &Value) -> Result<(), InputError> {
    if let Err(SchemaFault::Dialect(words) | SchemaFault::Unusable(words)) = schema::weigh(schema) {
        return Err(InputError(words));
    }
    let options = jsonschema::options().should_validate_formats(true);
    let validator = options.build(schema).map_err(|fault| InputError(describe(&fault)))?;
    check(&validator, value)
}

fn check(validator: &jsonschema::Validator, value: &Value) -> Result<(), InputError> {
    let faults: Vec<String> = validator.iter_errors(value).take(3).map(|fault| describe(&fault)).collect();
    if faults.is_empty() { Ok(()) } else { Err(InputError(faults.join("; "))) }
}

fn describe(fault: &jsonschema::ValidationError<'_>) -> String {
    // A fault quotes the value it is about, which may be megabytes.
    let words: String = fault.to_string().chars().take(300).collect();
    match fault.instance_path().as_str() {
        "" => words,
        place => format!("{place}: {words}"),
    }
}

// === impl Entry ===

impl Entry {
    fn build(spec: ToolSpec, tool: Option<Arc<dyn Tool>>) -> Result<Self, ToolboxError> {
        let fit = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !(1..=64).contains(&spec.name.len()) || !spec.name.bytes().all(fit) {
            return Err(ToolboxError::BadName(spec.name));
        }
        let bad = |reason: String| ToolboxError::BadSchema { name: spec.name.clone(), reason };
        if spec.input_schema.get("type") != Some(&Value::from("object")) {
            return Err(bad("it must have \"type\": \"object\"".into()));
        }
        match schema::weigh(&spec.input_schema) {
            Ok(_) => {}
            // The program behind the tool looks at its inputs itself, too.
            Err(SchemaFault::Dialect(_)) if tool.is_some() => {}
            Err(SchemaFault::Dialect(reason) | SchemaFault::Unusable(reason)) => return Err(bad(reason)),
        }
        let validator =
            jsonschema::validator_for(&spec.input_schema).map_err(|fault| bad(describe(&fault)))?;
        Ok(Self { spec, validator, tool })
    }
}
