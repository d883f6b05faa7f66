//! The tools of the run itself: plans, and questions to the user. The run settles their calls; nothing is executed.
//!
//! Each is a [`RunTool`] with a line in [`ALL`]. It decides without I/O and knows the calls of a run, not the run. The run handles all of
//! them alike.

pub mod plan;
pub mod questions;

use fermata_protocol::{Plan, PlanMode, PostedTool};
use fermata_tools::{Call, Decision, Elicitation, RunBy, ToolSpec, Toolbox};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

use self::{
    plan::{MakePlan, UpdatePlan},
    questions::AskUser,
};

/// The tools, in the order of their blocks in the system message.
pub(crate) const ALL: [&dyn RunTool; 3] = [&MakePlan, &UpdatePlan, &AskUser];

/// A tool of the run itself.
pub(crate) trait RunTool: Sync {
    fn name(&self) -> &'static str;

    /// Returns the description of the tool; `None` if the run does not have it.
    fn spec(&self, offer: &Offer<'_>) -> Option<ToolSpec>;

    /// Returns the block of the system message for a run that has the tool.
    fn instructions(&self, _suggests_plan: bool) -> Option<&'static str> {
        None
    }

    /// Checks an input that fits the schema, from the model or from a person who has edited it.
    ///
    /// # Errors
    /// Returns the text for the model or the person if the call cannot be made.
    fn check(&self, _input: &Value, _earlier: &Earlier<'_>, _toolbox: &Toolbox) -> Result<(), String> {
        Ok(())
    }

    /// Starts a call. A question is not saved but asked for here again after a restart, so it must follow from the input alone.
    fn start(&self, input: &Value, plan: Option<&Plan>) -> Started;

    /// Returns a message of the user as the content of the form that the call has asked for; `None` if it does not answer the question.
    fn fit(&self, _input: &Value, _message: &str) -> Option<Map<String, Value>> {
        None
    }

    /// Returns the output of a call that has asked. `content` is the form as the person has sent it; `None` if the person did not answer.
    /// `message` is the message of the user, if the answer is one.
    fn output(&self, _input: &Value, content: Option<&Value>, _message: Option<&str>) -> Value {
        content.cloned().unwrap_or_default()
    }
}

/// The result of starting a call.
pub(crate) enum Started {
    /// It is settled at once, with its output or the text of its error.
    Settled(Result<Value, String>),
    /// The user is asked this, and the answer settles the call.
    Asks(Elicitation),
}

/// The facts about a run that the check of a call needs.
pub(crate) struct Earlier<'a> {
    /// The calls of the run before this one.
    pub calls: Vec<&'a Call>,
    /// The plan that follows from them.
    pub plan: Option<Plan>,
}

/// The settings of a run that decide which of the tools it has.
pub(crate) struct Offer<'a> {
    pub plan: PlanMode,
    /// `true` if the assistant may ask the user.
    pub asks_user: bool,
    /// The tools of the page.
    pub posted: &'a [PostedTool],
}

/// Returns the tools that a run has.
pub(crate) fn specs(offer: &Offer<'_>) -> Vec<ToolSpec> {
    ALL.into_iter().filter_map(|tool| tool.spec(offer)).collect()
}

/// Returns the tool of this name.
pub(crate) fn find(name: &str) -> Option<&'static dyn RunTool> {
    ALL.into_iter().find(|tool| tool.name() == name)
}

/// Returns the tool of a call, if it is one of the run itself. If the run does not have it, a tool of the server may have its name.
pub(crate) fn of_call(call: &Call, toolbox: &Toolbox) -> Option<&'static dyn RunTool> {
    if call.run_by != Some(RunBy::Server) || toolbox.find(&call.tool).is_some_and(|found| !found.is_of_run())
    {
        return None;
    }
    find(&call.tool)
}

/// Returns the calls of a tool among those of a run that has it.
fn calls_of<'a>(
    tool: &dyn RunTool,
    calls: impl IntoIterator<Item = &'a Call>,
) -> impl Iterator<Item = &'a Call> {
    let name = tool.name();
    calls.into_iter().filter(move |call| call.tool == name && call.run_by == Some(RunBy::Server))
}

/// Returns the description of a tool whose input is a `T`.
fn spec_of<T: JsonSchema>(tool: &dyn RunTool, title: &str, description: &str, policy: Decision) -> ToolSpec {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(schema) = schema.as_object_mut() {
        for key in ["$schema", "title", "description"] {
            schema.remove(key);
        }
    }
    ToolSpec {
        name: tool.name().into(),
        title: Some(title.into()),
        description: description.into(),
        input_schema: schema.into(),
        run_by: RunBy::Server,
        server: None,
        policy,
        resource: None,
        timeout: None,
        repeatable: false,
        annotations: None,
    }
}
