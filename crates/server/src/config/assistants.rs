//! `[assistants.<name>]`: an assistant that people can talk to. It inherits all other settings from the main ones.

use std::{fs, path::Path};

use fermata_engine::assistants::ClientSystem;
use fermata_protocol::PlanMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::NonEmpty;

/// An assistant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssistantSettings {
    /// The title that people see.
    pub title: Option<String>,
    /// The instructions for the model.
    pub instructions: Option<String>,
    /// The use of the instructions that pages post; by default, as in the main settings.
    pub client_system: Option<ClientSystem>,
    /// The names of its models. The first is the default. Without this, it has the model of the main settings.
    pub models: Option<Vec<String>>,
    /// The globs of the tools that it may call; by default, all.
    pub tools: Option<Vec<String>>,
    /// The groups of built-in tools; by default, as in the main settings.
    pub builtin: Option<Vec<Builtin>>,
    /// The use of plans; by default, as in the main settings.
    pub plan: Option<PlanMode>,
    /// Messages that a page may suggest for a beginning.
    pub suggestions: Vec<String>,
    /// The globs of the owners who may talk to it.
    pub owners: Option<Vec<String>>,
    /// The globs of the groups whose members may talk to it. If this and `owners` are absent, everybody may.
    pub groups: Option<Vec<String>>,
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

/// An assistant as a table of the file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Assistant")]
pub(super) struct AssistantTable {
    /// The title that people see. By default, the name of the assistant.
    title: Option<NonEmpty>,
    /// The instructions for the model, which come before everything else.
    instructions: Option<String>,
    /// A file with the instructions, in place of instructions. Its path is relative to this file.
    instructions_file: Option<NonEmpty>,
    /// The use of the instructions that pages post: append (after the assistant's own), ignore, or refuse (422). By default,
    /// client_system of the main settings.
    client_system: Option<ClientSystem>,
    /// The names of its models: those of [models], or the name of the model of the main settings. The first is the default, and a
    /// post may choose another. By default, the model of the main settings.
    models: Option<Vec<NonEmpty>>,
    /// The tools of the server and of MCP servers that it may call, as globs over their names. By default, all.
    tools: Option<Vec<NonEmpty>>,
    /// The groups of built-in tools that it may call. By default, builtin of the main settings.
    builtin: Option<Vec<Builtin>>,
    /// The use of plans: off, auto, always or ask. By default, plan of the main settings.
    plan: Option<PlanMode>,
    /// Messages that a page may suggest for a beginning.
    suggestions: Option<Vec<NonEmpty>>,
    /// The owners who may talk to it, as globs over their names. For others it does not exist. By default, everybody may.
    owners: Option<Vec<NonEmpty>>,
    /// The groups whose members may talk to it, as globs, besides the users in owners.
    groups: Option<Vec<NonEmpty>>,
}

/// The limit on the name of an assistant or of a model, in bytes.
const MAX_NAME: usize = 64;

/// Checks the name of an assistant or of a model.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let fits =
        (1..=MAX_NAME).contains(&name.len()) && name.trim() == name && !name.contains(char::is_control);
    if fits { Ok(()) } else { Err(format!("the name {name:?} must be 1 to {MAX_NAME} bytes of text")) }
}

/// Returns the text of a file of instructions. A relative path begins at the folder of the file of settings.
pub(super) fn read_instructions(settings: Option<&str>, path: &str) -> Result<String, String> {
    let folder = settings.and_then(|settings| Path::new(settings).parent());
    let found = folder.map_or_else(|| Path::new(path).to_owned(), |folder| folder.join(path));
    fs::read_to_string(&found).map_err(|error| format!("{}: cannot be read: {error}", found.display()))
}

// === impl Builtin ===

impl Builtin {
    /// All groups.
    pub const ALL: [Self; 5] = [Self::Time, Self::Notes, Self::Memory, Self::AskUser, Self::Web];
}

// === impl AssistantTable ===

impl AssistantTable {
    /// Returns the assistant. `file` is the path of the file of settings.
    ///
    /// # Errors
    /// Returns an error with the key that is wrong, and the reason.
    pub(super) fn read(self, file: &str) -> Result<AssistantSettings, (&'static str, String)> {
        let texts = |list: Vec<NonEmpty>| list.into_iter().map(|NonEmpty(text)| text).collect::<Vec<_>>();
        let instructions = match (self.instructions, self.instructions_file) {
            (Some(_), Some(_)) => {
                return Err(("instructions_file", "instructions is also set; use one of them".into()));
            }
            (None, Some(NonEmpty(path))) => {
                Some(read_instructions(Some(file), &path).map_err(|reason| ("instructions_file", reason))?)
            }
            (instructions, None) => instructions,
        };
        let models = self.models.map(texts);
        if models.as_ref().is_some_and(Vec::is_empty) {
            return Err((
                "models",
                "an assistant needs a model; leave the key out for that of the main settings".into(),
            ));
        }
        Ok(AssistantSettings {
            title: self.title.map(|NonEmpty(title)| title),
            instructions,
            client_system: self.client_system,
            models,
            tools: self.tools.map(texts),
            builtin: self.builtin,
            plan: self.plan,
            suggestions: self.suggestions.map(texts).unwrap_or_default(),
            owners: self.owners.map(texts),
            groups: self.groups.map(texts),
        })
    }
}
