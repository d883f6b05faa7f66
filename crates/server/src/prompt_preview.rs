//! `fermata prompt`: the request that the model would be sent next in a chat. This asks no model, starts no MCP server and changes nothing.

use std::fmt::{self, Display};

use fermata_engine::{
    model::{ModelContent, ModelMessage},
    preview::{self, Preview, PreviewParts},
    store::StoreError,
    tokens,
};
use fermata_protocol::ChatId;
use fermata_tools::Capacity;

use crate::{
    app::{memory_service, note_limits, settings},
    assistants,
    config::Config,
    tools,
};

/// The reason why there is nothing to print.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The database has no such chat.
    #[error("there is no chat {0} in this database")]
    NoChat(ChatId),
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] fermata_store::OpenError),
    /// The chat cannot be read.
    #[error(transparent)]
    Read(#[from] StoreError),
    /// A model of the settings cannot be built.
    #[error(transparent)]
    Model(#[from] fermata_providers::BuildError),
    /// The client for the web cannot be built.
    #[error(transparent)]
    Web(#[from] reqwest::Error),
}

/// The report about a chat, as it is printed.
struct Report<'a> {
    chat: &'a ChatId,
    preview: &'a Preview,
    /// The names of the MCP servers, whose tools are not known here.
    mcp: Vec<&'a str>,
}

/// Returns the request that the model of the chat would be sent next. Must be called within a tokio runtime.
///
/// # Errors
/// Returns an error if the chat does not exist or cannot be read.
pub async fn report(config: &Config, chat: &ChatId) -> Result<String, PreviewError> {
    let database = config.database.open_for_command().await?;
    let memories = memory_service(&config.memory, &database, None, Capacity::unlimited());
    let parts = PreviewParts {
        assistants: assistants::build(config, None)?,
        rules: config.rules(),
        tools: tools::all(
            database.notes.clone(),
            note_limits(&config.owner_limits),
            memories,
            config.assistant.search_url.as_ref(),
            assistants::has_demo(config),
        )?,
        settings: settings(config),
    };
    let preview = preview::preview(&*database.store, parts, chat).await;
    database.close().await;
    let preview = preview?.ok_or_else(|| PreviewError::NoChat(chat.clone()))?;
    let mcp = config.tables.mcp.keys().map(String::as_str).collect();
    Ok(Report { chat, preview: &preview, mcp }.to_string())
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Preview { assistant, model, is_of_open_run, request } = self.preview;
        writeln!(f, "Chat {}: the assistant {assistant} would ask the model {model}.", self.chat)?;
        if *is_of_open_run {
            writeln!(f, "A run is open, and this is its next request.")?;
        } else {
            writeln!(
                f,
                "No run is open. The next post adds its message, and the page's instructions and tools."
            )?;
        }
        if !self.mcp.is_empty() {
            writeln!(f, "The tools of MCP servers are not part of this: {}.", self.mcp.join(", "))?;
        }
        let (system, history): (Vec<_>, Vec<_>) =
            request.messages.iter().partition(|message| matches!(message, ModelMessage::System(_)));
        let tokens_of = |messages: &[&ModelMessage]| -> u64 {
            messages.iter().map(|message| tokens::of_message(message)).sum()
        };
        let (of_system, of_history) = (tokens_of(&system), tokens_of(&history));
        let of_tools: u64 = request.tools.iter().map(tokens::of_tool).sum();
        writeln!(f, "About {} tokens.", of_system + of_tools + of_history)?;
        writeln!(f, "\n=== System: about {of_system} tokens ===\n")?;
        for message in system {
            write_message(f, message)?;
        }
        writeln!(f, "\n=== Tools: about {of_tools} tokens ===\n")?;
        for tool in &request.tools {
            writeln!(f, "{}: {} (about {} tokens)", tool.name, tool.description, tokens::of_tool(tool))?;
        }
        writeln!(f, "\n=== Messages: about {of_history} tokens ===\n")?;
        for message in history {
            write_message(f, message)?;
        }
        if !request.settings.is_empty() {
            let settings = serde_json::to_string(&request.settings).map_err(|_| fmt::Error)?;
            writeln!(f, "\n=== Settings ===\n\n{settings}")?;
        }
        Ok(())
    }
}

fn write_message(f: &mut fmt::Formatter<'_>, message: &ModelMessage) -> fmt::Result {
    match message {
        ModelMessage::System(text) => writeln!(f, "{text}"),
        ModelMessage::User(content) => writeln!(f, "user: {}", text_of(content)),
        ModelMessage::Assistant { reasoning: _, text, calls, provider_metadata: _ } => {
            if !text.is_empty() {
                writeln!(f, "assistant: {text}")?;
            }
            calls.iter().try_for_each(|call| {
                writeln!(f, "assistant calls {} {} ({})", call.tool, call.input, call.id)
            })
        }
        ModelMessage::Tool { call_id, tool, content } => {
            writeln!(f, "{tool} gives ({call_id}): {}", text_of(content))
        }
    }
}

/// Returns the text of content. A file is named, because it may be as long as a book.
fn text_of(content: &[ModelContent]) -> String {
    let pieces: Vec<String> = content
        .iter()
        .map(|piece| match piece {
            ModelContent::Text(text) => text.clone(),
            ModelContent::File { media_type, filename, .. } => {
                format!("[{} ({media_type})]", filename.as_deref().unwrap_or("a file"))
            }
        })
        .collect();
    pieces.join("\n")
}
