//! The server's own tools. Each has a file, and a line in [`all`].

mod current_time;
mod demo_searches;
mod fetch_url;
mod forget;
mod recall;
mod remember;
mod search_notes;
pub mod web;
mod web_search;
mod write_note;

use std::sync::Arc;

use fermata_engine::{
    MemoryService,
    memories::{self, MemoryError, MemoryToolOutput},
    questions::ASK_USER,
    store::memories::{MemoryAuthor, MemoryOrigin},
};
use fermata_protocol::MemoryKind;
use fermata_store::Notes;
use fermata_tools::{CallContext, ErrorType, Fallback, Resource, Tool, ToolError, typed};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use self::web::WebClient;
use crate::config::{Builtin, Config, Url};

/// The limits on notes.
#[derive(Clone, Copy, Debug)]
pub struct NoteLimits {
    /// The limit on the title and the body of a note together, in bytes.
    pub bytes: usize,
    /// The limit on the notes of an owner.
    pub per_owner: usize,
}

/// Returns the names of the tools of a group.
pub fn names_of(group: Builtin) -> &'static [&'static str] {
    match group {
        Builtin::Time => &["current_time"],
        Builtin::Notes => &["search_notes", "write_note"],
        Builtin::Memory => &memories::TOOLS,
        Builtin::AskUser => &[ASK_USER],
        Builtin::Web => &["fetch_url", "web_search"],
    }
}

/// Returns a warning for each fallback that can be no tool of the server or of its MCP servers.
pub fn warnings_of_fallbacks(config: &Config) -> Vec<String> {
    let known: Vec<&str> = Builtin::ALL.into_iter().flat_map(names_of).copied().collect();
    let mut warnings = Vec::new();
    for (pattern, settings) in &config.tables.tools {
        let Some(Fallback { tool, .. }) = &settings.fallback else { continue };
        let is_of_mcp = config.tables.mcp.keys().any(|server| tool.starts_with(&format!("{server}__")));
        if !known.contains(&tool.as_str()) && !is_of_mcp {
            warnings.push(format!(
                "[tools.\"{pattern}\"] fallback = \"{tool}\": there is no such tool, so no call is made in place of one that has failed. \
                 The server's own tools are {}; those of an MCP server are named <server>__<tool>",
                known.join(", ")
            ));
        }
    }
    warnings
}

/// The tools that only the demo model has.
pub const OF_DEMO: [&str; 2] = demo_searches::NAMES;

/// Returns all tools, those of the demo model only if there is one. The web is searched only with the URL of a SearXNG.
///
/// # Errors
/// Returns an error if no client for the web can be built.
pub fn all(
    notes: Notes,
    limits: NoteLimits,
    memories: MemoryService,
    search_url: Option<&Url>,
    is_demo: bool,
) -> reqwest::Result<Vec<Arc<dyn Tool>>> {
    let mut tools = vec![
        typed(current_time::CurrentTime),
        typed(search_notes::SearchNotes { notes: notes.clone() }),
        typed(write_note::WriteNote { notes, limits }),
        typed(remember::Remember { memories: memories.clone() }),
        typed(recall::Recall { memories: memories.clone() }),
        typed(forget::Forget { memories }),
        typed(fetch_url::FetchUrl { web: WebClient::new()? }),
    ];
    if is_demo {
        tools.push(typed(demo_searches::BusySearch::default()));
        tools.push(typed(demo_searches::BrokenSearch));
    }
    if let Some(url) = search_url {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        tools.push(typed(web_search::WebSearch { url: url.0.clone(), client }));
    }
    Ok(tools)
}

/// The kind of a memory, as a model says it.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum MemoryKindInput {
    Preference,
    #[default]
    Fact,
    Entity,
    Instruction,
}

impl From<MemoryKindInput> for MemoryKind {
    fn from(kind: MemoryKindInput) -> Self {
        match kind {
            MemoryKindInput::Preference => Self::Preference,
            MemoryKindInput::Fact => Self::Fact,
            MemoryKindInput::Entity => Self::Entity,
            MemoryKindInput::Instruction => Self::Instruction,
        }
    }
}

/// Returns the resource of the tools for memories. Only one call at a time uses an owner's memories, so that a call finds what earlier calls
/// of its step have saved.
fn memories_of_owner() -> Resource {
    Resource::per_owner("memory")
}

/// Returns the party that changes memories with a call of this tool.
fn author(context: &CallContext, tool: &str) -> MemoryAuthor {
    let (tool, call, read) = (tool.to_owned(), context.call.clone(), context.read_from.clone());
    MemoryAuthor {
        origin: MemoryOrigin::Tool { tool, call, read },
        chat: Some(context.chat.clone()),
        address: None,
    }
}

/// Returns the error for the model. A failure of the database is logged, and the model does not get its cause.
fn memory_failed(context: &CallContext, error: MemoryError) -> ToolError {
    if let MemoryError::Store(error) = error {
        tracing::error!(
            chat = %context.chat,
            call = %context.call,
            %error,
            "a tool could not use the memories in the database"
        );
        return ToolError::internal("The memories cannot be reached at the moment.");
    }
    ToolError::new(ErrorType::InvalidFormat, error.to_string())
}

/// Returns the output of a memory tool.
fn output(output: &MemoryToolOutput) -> Result<Value, ToolError> {
    serde_json::to_value(output).map_err(|error| ToolError::internal(error.to_string()))
}

/// Returns the resource of the tools for notes. Only one call at a time uses an owner's notes, so that a search finds the notes that earlier
/// calls of its step wrote.
fn notes_of_owner() -> Resource {
    Resource::per_owner("notes")
}

/// Returns the resource of the tools for the web. Only one call at a time makes requests for an owner.
fn web_of_owner() -> Resource {
    Resource::per_owner("web")
}

/// Logs a failure of the database, and returns the error for the model, which does not contain the cause.
fn notes_failed(context: &CallContext, error: &fermata_engine::store::StoreError) -> ToolError {
    tracing::error!(
        chat = %context.chat,
        call = %context.call,
        %error,
        "a tool could not use the notes in the database"
    );
    ToolError::internal("The notes cannot be reached at the moment.")
}
