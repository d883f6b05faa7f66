//! `[assistants.<name>]`: an assistant that people can talk to. It inherits all other settings from the main ones.

use std::{fs, path::Path};

use fermata_engine::assistants::ClientSystem;
use fermata_protocol::PlanMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::NonEmpty;

/// An assistant, as a table of the file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Assistant")]
pub struct AssistantSettings {
    /// The title that people see. By default, the name of the assistant.
    pub title: Option<NonEmpty>,
    /// The instructions for the model, which come before everything else.
    pub instructions: Option<String>,
    /// A file with the instructions, in place of instructions. Its path is relative to this file.
    instructions_file: Option<NonEmpty>,
    /// The use of the instructions that pages post: append (after the assistant's own), ignore, or refuse (422). By default,
    /// client_system of the main settings.
    pub client_system: Option<ClientSystem>,
    /// The names of its models: those of the table models, or the name of the model of the main settings. The first is the default, and a
    /// post may choose another. By default, the model of the main settings.
    pub models: Option<Vec<NonEmpty>>,
    /// The tools of the server and of MCP servers that it may call, as globs over their names. By default, all.
    pub tools: Option<Vec<NonEmpty>>,
    /// The groups of built-in tools that it may call. By default, builtin of the main settings.
    pub builtin: Option<Vec<Builtin>>,
    /// The use of plans: off, auto, always or ask. By default, plan of the main settings.
    pub plan: Option<PlanMode>,
    /// Messages that a page may suggest for a beginning.
    #[serde(default)]
    pub suggestions: Vec<NonEmpty>,
    /// The owners who may talk to it, as globs over their names. For others it does not exist. By default, everybody may.
    pub owners: Option<Vec<NonEmpty>>,
    /// The groups whose members may talk to it, as globs, besides the users in owners.
    pub groups: Option<Vec<NonEmpty>>,
}

/// A group of built-in tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Builtin {
    /// The time in any time zone: current_time.
    Time,
    /// Notes of the owner, in the database: search_notes and write_note.
    Notes,
    /// Memories of the owner in all chats: remember, recall and forget.
    Memory,
    /// Questions to the user, with guesses: ask_user.
    AskUser,
    /// The web: fetch_url, and web_search if search_url is set.
    Web,
}

/// The limit on the name of an assistant or of a model, in bytes.
const MAX_NAME: usize = 64;

/// Checks the name of an assistant or of a model.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let fits =
        (1..=MAX_NAME).contains(&name.len()) && name.trim() == name && !name.contains(char::is_control);
    if fits { Ok(()) } else { Err(format!("the name {name:?} must be 1 to {MAX_NAME} bytes of text")) }
}

/// Returns instructions, or the text of the file that has them. Its path may be relative to the folder of the file of settings.
pub(super) fn read_instructions(
    instructions: &Option<String>,
    path: Option<&str>,
    settings: Option<&str>,
) -> Result<Option<String>, String> {
    let Some(path) = path else { return Ok(instructions.clone()) };
    if instructions.is_some() {
        return Err("instructions is also set; use one of them".into());
    }
    let folder = settings.and_then(|settings| Path::new(settings).parent());
    let found = folder.map_or_else(|| Path::new(path).to_owned(), |folder| folder.join(path));
    let text = fs::read_to_string(&found)
        .map_err(|error| format!("{}: cannot be read: {error}", found.display()))?;
    Ok(Some(text))
}

// === impl Builtin ===

impl Builtin {
    /// All groups.
    pub const ALL: [Self; 5] = [Self::Time, Self::Notes, Self::Memory, Self::AskUser, Self::Web];
}

// === impl AssistantSettings ===

impl AssistantSettings {
    /// Reads the file of instructions. `settings` is the path of the file of settings.
    ///
    /// # Errors
    /// Returns an error with the key that is wrong, and the reason.
    pub(super) fn complete(mut self, settings: &str) -> Result<Self, (&'static str, String)> {
        let path = self.instructions_file.as_ref().map(|path| path.0.as_str());
        self.instructions = read_instructions(&self.instructions, path, Some(settings))
            .map_err(|reason| ("instructions_file", reason))?;
        if self.models.as_ref().is_some_and(Vec::is_empty) {
            let reason = "an assistant needs a model; leave the key out for that of the main settings";
            return Err(("models", reason.into()));
        }
        Ok(self)
    }
}
