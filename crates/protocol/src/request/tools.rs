//! Reads the browser tools of a request, in every form that clients send.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{
    PostedTool, RequestError,
    fields::{Fields, missing, shortened, wrong},
};

/// What model providers take as a tool's name.
const NAME: &str = "1 to 64 characters of A-Z, a-z, 0-9, '_' and '-'";
/// Where a tool's input schema may stand.
const SCHEMA: [&str; 3] = ["parameters", "inputSchema", "input_schema"];

/// Reads an object of tools by name (AI SDK, assistant-ui) or a list of tools with names (OpenAI and others).
pub(super) fn parse(tools: &Value) -> Result<Vec<PostedTool>, RequestError> {
    match tools {
        Value::Object(by_name) => by_name
            .iter()
            .map(|(name, tool)| read(name, &Fields::of(format!("tools.{}", shortened(name)), tool)?))
            .collect(),
        Value::Array(list) => {
            let mut read = Vec::with_capacity(list.len());
            let mut names = HashSet::with_capacity(list.len());
            for (at, tool) in list.iter().enumerate() {
                let tool = read_named(at, tool)?;
                if !names.insert(tool.name.clone()) {
                    return Err(RequestError(format!(
                        "`tools[{at}].name` is \"{}\", which an earlier tool has.",
                        tool.name
                    )));
                }
                read.push(tool);
            }
            Ok(read)
        }
        other => Err(wrong("tools", other, "an object of tools by name, or a list of tools")),
    }
}

/// OpenAI puts the tool one level deeper.
fn read_named(at: usize, tool: &Value) -> Result<PostedTool, RequestError> {
    let mut fields = Fields::of(format!("tools[{at}]"), tool)?;
    if let Some(function) = fields.object("function")? {
        fields = function;
    }
    let name = fields.string("name")?.ok_or_else(|| missing(&fields.path("name"), NAME))?;
    read(name, &fields)
}

fn read(name: &str, fields: &Fields<'_>) -> Result<PostedTool, RequestError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !(1..=64).contains(&name.len()) || !name.bytes().all(allowed) {
        return Err(RequestError(format!(
            "`{}` has a name that models do not take; it must be {NAME}.",
            fields.path("")
        )));
    }
    Ok(PostedTool {
        name: name.to_owned(),
        description: fields.string("description")?.map(str::to_owned),
        input_schema: input_schema(fields)?,
    })
}

/// The schema of an object: where it does not say so itself, it is added.
fn input_schema(fields: &Fields<'_>) -> Result<Value, RequestError> {
    let Some((name, mut value)) = fields.any(&SCHEMA) else {
        return Ok(json!({ "type": "object" }));
    };
    let mut path = fields.path(name);
    if let Some(wrapped) = value.get("jsonSchema") {
        (value, path) = (wrapped, format!("{path}.jsonSchema"));
    }
    let schema = Fields::of(path, value)?;
    match schema.value("type") {
        None => {
            let mut typed = Map::from_iter([("type".to_owned(), json!("object"))]);
            typed.extend(
                schema
                    .entries()
                    .iter()
                    .filter(|(key, _)| *key != "type")
                    .map(|(key, value)| (key.clone(), value.clone())),
            );
            Ok(Value::Object(typed))
        }
        Some(Value::String(kind)) if kind == "object" => Ok(value.clone()),
        Some(other) => Err(wrong(&schema.path("type"), other, "\"object\"")),
    }
}
