//! The JSON Schema of `fermata.toml`. Editors complete, explain and check the file with it.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Map, Value, json};

use super::{
    assistants::AssistantSettings,
    channels::{ChannelTable, NotifyRequester},
    context::ContextTable,
    errors::ErrorsTable,
    identity::UserSettings,
    mcp::ServerTable,
    models::ModelSettings,
    policy::RuleTable,
    setting::{SETTINGS, Setting},
    tools::ToolsTable,
};

/// The tables of the file.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "it describes the file, which is read table by table, because each has a place of its own"
)]
struct FileTables {
    /// The rules about calls. The first that matches decides; if none does, the tool's own default counts.
    policy: Option<Vec<RuleTable>>,
    /// Settings for tools, by a glob over the name. If several match, the last one counts.
    tools: Option<BTreeMap<String, ToolsTable>>,
    /// The MCP servers, by name.
    mcp: Option<BTreeMap<String, ServerTable>>,
    /// The consequence of a failure, by its type.
    errors: Option<ErrorsTable>,
    /// The outputs that stay in the history that a model is sent.
    context: Option<ContextTable>,
    /// The models that assistants have besides the one of the main settings, by name.
    models: Option<BTreeMap<String, ModelSettings>>,
    /// The assistants, by name. Each inherits all other settings from the main ones, which are the assistant default.
    assistants: Option<BTreeMap<String, AssistantSettings>>,
    /// The users who are in groups, by name.
    users: Option<BTreeMap<String, UserSettings>>,
    /// The channels that bring approvals and other events to people and services, by name.
    channels: Option<BTreeMap<String, ChannelTable>>,
    /// The channels that bring a requester's own waiting calls to them.
    notify_requester: Option<NotifyRequester>,
}

/// Returns the JSON Schema of the file, in draft 7, which editors of TOML know.
pub fn file_schema() -> Value {
    // A title is the name of a value in `--help`.
    let untitled = RecursiveTransform(|schema: &mut Schema| {
        if let Some(schema) = schema.as_object_mut() {
            schema.shift_remove("title");
        }
    });
    let settings = SchemaSettings::draft07().with_transform(untitled);
    let mut schema = settings.into_generator().into_root_schema_for::<FileTables>();
    let mut properties: Map<String, Value> = SETTINGS.iter().map(property).collect();
    if let Some(Value::Object(tables)) = schema.remove("properties") {
        properties.extend(tables);
    }
    schema.insert("title".into(), json!("The settings of Fermata"));
    schema.insert("description".into(), json!("fermata.toml; every key may be left out."));
    schema.insert("properties".into(), Value::Object(properties));
    schema.to_value()
}

/// Returns a setting's key and its schema.
fn property(setting: &Setting) -> (String, Value) {
    let mut description = setting.about.clone();
    if let Some(default) = &setting.default {
        description += &format!(" Default: {default}.");
    }
    if let Some(variable) = &setting.variable {
        description += &format!(" Variable: {variable}.");
    }
    let mut schema = setting.schema.clone();
    schema["description"] = description.into();
    (setting.key.clone(), schema)
}
