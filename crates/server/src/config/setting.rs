//! The list of all settings, from the schemas of the structs in [`Config`]. `settings.rs` says how a field becomes a setting.

use std::sync::LazyLock;

use schemars::{JsonSchema, generate::SchemaSettings, schema_for};
use serde_json::{Value, json};

use super::Config;

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// The field of [`Config`] whose struct has it.
    pub(super) section: String,
    /// The key in the file. The option is the same with dashes.
    pub key: String,
    /// The heading of its group in `--help`.
    pub group: String,
    /// The environment variable; `None` if only the file has the setting, which then is no option either.
    pub variable: Option<String>,
    /// The default, as a variable would have it.
    pub default: Option<String>,
    /// The default unless auth is none, if it is another.
    pub(super) default_with_auth: Option<String>,
    /// The purpose of the setting, for people.
    pub about: String,
    /// The consequence of exceeding the value. Every size, number and time has this, and `docs/guide/limits.md` shows it.
    pub over: Option<String>,
    /// The name of the value in `--help`.
    pub value_name: String,
    /// The JSON Schema of the value in the file.
    pub(super) schema: Value,
}

/// Every setting, in the order of `--help` and `--check`.
pub static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let inline = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let config = inline.into_generator().into_root_schema_for::<Config>().to_value();
    let mut settings = Vec::new();
    for (section, group) in properties(&config) {
        for (key, schema) in properties(group) {
            settings.push(Setting::new(section, group, key, without_null(schema)));
        }
    }
    settings
});

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// Returns the schema of a value that is there. TOML has no null for one that is not.
fn without_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some([Value::Object(value), null]) = schema["anyOf"].as_array().map(Vec::as_slice)
        && null["type"] == "null"
    {
        let mut value = value.clone();
        let of_field = schema.as_object().into_iter().flatten().filter(|(name, _)| *name != "anyOf");
        value.extend(of_field.map(|(name, part)| (name.clone(), part.clone())));
        schema = value.into();
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            schema["type"] = only.clone();
        }
    }
    schema
}

/// Returns the words that an enum without data is written as.
pub(super) fn words<T: JsonSchema>() -> Vec<String> {
    words_of(schema_for!(T).as_value())
}

fn words_of(schema: &Value) -> Vec<String> {
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    variants.filter_map(|variant| variant["const"].as_str().map(str::to_owned)).collect()
}

/// Returns the name of a value in `--help`.
fn value_name(schema: &Value) -> String {
    match (schema["title"].as_str(), schema["type"].as_str()) {
        (Some(title), _) => title.to_owned(),
        (None, Some("array")) => format!("{},…", value_name(&schema["items"])),
        (None, Some("integer")) => "NUMBER".to_owned(),
        (None, Some("boolean")) => "true|false".to_owned(),
        (None, Some(_)) => "TEXT".to_owned(),
        (None, None) => words_of(schema).join("|"),
    }
}

/// Returns the schema of a value in the file. A string may stand in the place of every value, because it may name a variable.
fn schema_in_file(mut schema: Value) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        let own = ["title", "description", "default", "format"];
        schema.retain(|name, _| !name.starts_with("x-") && !own.contains(&name.as_str()));
    }
    match schema["type"].as_str() {
        Some("array") => {
            schema["items"] = schema_in_file(schema["items"].take());
            json!({"anyOf": [schema, {"type": "string"}]})
        }
        Some("integer" | "number" | "boolean") => {
            json!({"anyOf": [schema, {"type": "string", "pattern": "\\$\\{.+\\}"}]})
        }
        _ => schema,
    }
}

// === impl Setting ===

impl Setting {
    /// Returns whether the setting has several values, with commas between them.
    pub(super) fn is_list(&self) -> bool {
        self.value_name.ends_with(",…")
    }

    fn new(section: &str, group: &Value, key: &str, schema: Value) -> Self {
        let text = |name: &str| schema[name].as_str().map(str::to_owned);
        let variable = text("x-variable").unwrap_or_else(|| format!("FERMATA_{}", key.to_uppercase()));
        Self {
            section: section.to_owned(),
            key: key.to_owned(),
            group: group["description"].as_str().unwrap_or_default().to_owned(),
            variable: if schema["x-file-only"] == true { None } else { Some(variable) },
            default: text("default"),
            default_with_auth: text("x-default-with-auth"),
            about: text("description").unwrap_or_default().replace('\n', " "),
            over: text("x-over"),
            value_name: value_name(&schema),
            schema: schema_in_file(schema),
        }
    }
}
