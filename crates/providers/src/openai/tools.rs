//! The tools of a request, as providers take them.
//!
//! Inputs are checked against the schema that the tool itself has given. The sent schema may say less, and every provider can read it: one
//! that cannot read the schema of one tool refuses every request with that tool.
//!
//! Invariants: a tool that the model has to call is sent; the order stays; the same tools always give the same text.

use std::borrow::Cow;

use fermata_engine::model::ModelTool;
use fermata_protocol::ToolChoice;
use fermata_tools::InputSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    dialect::{Dialect, Schemas},
    google_schema::google_schema,
    tool_names::ToolNames,
};

/// Keywords that providers refuse at the top of a schema, and those that say nothing to a model.
const NOT_AT_THE_TOP: [&str; 9] =
    ["anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref", "$schema", "$id"];
/// Keywords whose value is one schema.
const ONE: [&str; 10] = [
    "items",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keywords whose value has schemas by name.
const BY_NAME: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];
/// The limit on the subschemas that are looked at for the top of one schema. References may lead round in circles.
const MAX_BRANCHES: usize = 200;

/// A tool on the wire.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct Tool<'a> {
    function: OfferedFunction<'a>,
}

#[derive(Debug, Serialize)]
struct OfferedFunction<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Cow<'a, InputSchema>>,
}

/// The statements of a schema about the fields of an object, with everything that it refers to and combines.
#[derive(Default)]
struct Fields {
    /// Each field with its schema, in the order they were found.
    properties: Map<String, Value>,
    required: Vec<Value>,
}

/// Returns the tools as the provider takes them.
pub(super) fn fit_tools<'a>(
    tools: &'a [ModelTool],
    choice: Option<&ToolChoice>,
    dialect: &Dialect,
    names: &'a ToolNames,
) -> Vec<Tool<'a>> {
    let (kept, _) = within_limit(tools, choice, dialect.max_tools);
    let fitted = kept.into_iter().map(|tool| {
        let ModelTool { name, description, input_schema } = tool;
        let parameters = match fit_schema(input_schema) {
            Some(schema) => Cow::Owned(schema.into()),
            None => Cow::Borrowed(input_schema),
        };
        let parameters = match dialect.schemas {
            Schemas::Json => Some(parameters),
            Schemas::Google => google_schema(&parameters).map(|schema| Cow::Owned(schema.into())),
        };
        let (name, description) = (names.on_the_wire(name), fit_description(description, dialect));
        Tool { function: OfferedFunction { name, description, parameters } }
    });
    fitted.collect()
}

/// Returns a description that the provider takes. The end of a longer one is left out.
fn fit_description<'a>(description: &'a str, dialect: &Dialect) -> Cow<'a, str> {
    let Some(limit) = dialect.max_description else { return description.into() };
    if description.chars().nth(limit).is_none() {
        return description.into();
    }
    description.chars().take(limit - 1).chain(['…']).collect()
}

/// Returns the tools that are sent, and those that are left out because the provider takes no more.
pub(super) fn within_limit<'a>(
    tools: &'a [ModelTool],
    choice: Option<&ToolChoice>,
    max_tools: usize,
) -> (Vec<&'a ModelTool>, Vec<&'a ModelTool>) {
    let is_chosen = |tool: &ModelTool| matches!(choice, Some(ToolChoice::Tool(name)) if *name == tool.name);
    let mut room = max_tools.saturating_sub(tools.iter().filter(|tool| is_chosen(tool)).count());
    tools.iter().partition(|tool| {
        if is_chosen(tool) {
            return true;
        }
        let has_room = room > 0;
        room = room.saturating_sub(1);
        has_room
    })
}

/// Returns the schema in the form that providers read; `None` if it has this form.
fn fit_schema(schema: &Value) -> Option<Value> {
    let is_plain_at_the_top = schema["properties"].is_object()
        && NOT_AT_THE_TOP.iter().all(|keyword| schema.get(keyword).is_none());
    if is_plain_at_the_top && is_plain(schema) {
        return None;
    }
    let root = plain(schema);
    let mut visits_left = MAX_BRANCHES;
    let Fields { properties, mut required } = Fields::of(&root, &root, &mut visits_left);
    let Value::Object(mut fitted) = root else { return Some(json!({"type": "object", "properties": {}})) };
    let notes = [note_alternatives(&fitted, "anyOf"), note_alternatives(&fitted, "oneOf")];
    for note in notes.into_iter().flatten() {
        let description = match fitted.get("description").and_then(Value::as_str) {
            Some(description) => format!("{description}\n{note}"),
            None => note,
        };
        fitted.insert("description".to_owned(), description.into());
    }
    fitted.retain(|keyword, _| !NOT_AT_THE_TOP.contains(&keyword.as_str()));
    fitted.insert("properties".to_owned(), Value::Object(properties));
    required.dedup();
    if required.is_empty() {
        fitted.shift_remove("required");
    } else {
        fitted.insert("required".to_owned(), Value::Array(required));
    }
    Some(Value::Object(fitted))
}

/// Describes which fields belong together, if the schemas of a union require different ones.
fn note_alternatives(schema: &Map<String, Value>, keyword: &str) -> Option<String> {
    let branches = schema.get(keyword)?.as_array()?;
    let mut sets: Vec<String> = Vec::new();
    for branch in branches {
        let names = branch.get("required")?.as_array()?.iter().filter_map(Value::as_str);
        sets.push(names.collect::<Vec<_>>().join(", "));
    }
    sets.dedup();
    (sets.len() > 1).then(|| format!("It needs one of these sets of fields: {}.", sets.join("; ")))
}

// === impl Fields ===

impl Fields {
    fn of(schema: &Value, root: &Value, visits_left: &mut usize) -> Self {
        let mut fields = Self::default();
        if *visits_left == 0 {
            return fields;
        }
        *visits_left -= 1;
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            fields.properties = properties.clone();
        }
        fields.required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#'));
        if let Some(target) = reference.and_then(|pointer| root.pointer(pointer)) {
            fields.add(Self::of(target, root, visits_left), is_closed);
        }
        let list = |keyword| schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
        for part in list("allOf") {
            fields.add(Self::of(part, root, visits_left), is_closed);
        }
        for keyword in ["anyOf", "oneOf"] {
            let branches: Vec<Self> =
                list(keyword).map(|branch| Self::of(branch, root, visits_left)).collect();
            if let Some(either) = branches.into_iter().reduce(Self::or) {
                fields.add(either, is_closed);
            }
        }
        fields
    }

    /// Adds what another schema says about the same object. If the object is closed, only its own fields may be there.
    fn add(&mut self, other: Self, is_closed: bool) {
        for (name, schema) in other.properties {
            match self.properties.get_mut(&name) {
                Some(Value::Object(own)) => {
                    let Value::Object(more) = schema else { continue };
                    for (keyword, value) in more {
                        own.entry(keyword).or_insert(value);
                    }
                }
                Some(_) => {}
                None if is_closed => {}
                None => _ = self.properties.insert(name, schema),
            }
        }
        for name in other.required {
            if !self.required.contains(&name) {
                self.required.push(name);
            }
        }
    }

    /// Returns the statements that hold for an object that fits one of two schemas.
    fn or(mut self, other: Self) -> Self {
        for (name, schema) in other.properties {
            match self.properties.get_mut(&name) {
                Some(own) if *own == schema => {}
                Some(own) => {
                    let joined = either(own.take(), schema);
                    *own = joined;
                }
                None => _ = self.properties.insert(name, schema),
            }
        }
        self.required.retain(|name| other.required.contains(name));
        self
    }
}

/// Returns the schema of a value that fits one of two different schemas.
fn either(one: Value, other: Value) -> Value {
    let values = |schema: &Value| match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        (None, _) => None,
    };
    if let (Some(mut values), Some(more)) = (values(&one), values(&other))
        && one.get("type") == other.get("type")
        && let Value::Object(mut joined) = one.clone()
    {
        // The field tells which of the schemas is meant.
        values.extend(more);
        joined.shift_remove("const");
        joined.insert("enum".to_owned(), Value::Array(values));
        return Value::Object(joined);
    }
    let mut branches = match one {
        Value::Object(mut union) if union.len() == 1 && union.contains_key("anyOf") => {
            match union.shift_remove("anyOf") {
                Some(Value::Array(branches)) => branches,
                _ => Vec::new(),
            }
        }
        one => vec![one],
    };
    if !branches.contains(&other) {
        branches.push(other);
    }
    json!({"anyOf": branches})
}

/// Returns whether [`plain`] would leave the schema as it is.
fn is_plain(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else { return false };
    let is = |name| is_type(keywords, name);
    let is_complete = (!is("object") || keywords.contains_key("properties"))
        && (!is("array") || keywords.contains_key("items"));
    is_complete
        && keywords.iter().all(|(keyword, value)| match (keyword.as_str(), value) {
            ("exclusiveMinimum" | "exclusiveMaximum", value) => value.is_number(),
            ("additionalItems", _) => false,
            ("additionalProperties" | "unevaluatedProperties" | "unevaluatedItems", Value::Bool(_)) => true,
            (keyword, value) if ONE.contains(&keyword) => is_plain(value),
            (keyword, Value::Array(schemas)) if LISTS.contains(&keyword) => schemas.iter().all(is_plain),
            (keyword, Value::Object(schemas)) if BY_NAME.contains(&keyword) => schemas.values().all(is_plain),
            _ => true,
        })
}

/// Returns the schema without what only some providers read: objects without `properties`, lists without `items`, `true` as a schema, and
/// forms of earlier drafts.
fn plain(schema: &Value) -> Value {
    let keywords = match schema {
        Value::Object(keywords) => keywords,
        Value::Bool(false) => return json!({"not": {}}),
        // Everything is allowed.
        _ => return json!({}),
    };
    let mut fitted = Map::new();
    for (keyword, value) in keywords {
        let value = match (keyword.as_str(), value) {
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) | ("additionalItems", _) => continue,
            ("additionalProperties" | "unevaluatedProperties" | "unevaluatedItems", Value::Bool(_)) => {
                value.clone()
            }
            // What follows the items of a tuple is not told.
            ("items", Value::Bool(_)) => json!({}),
            ("items", Value::Array(items)) => match items.as_slice() {
                [] => json!({}),
                items => json!({"anyOf": items.iter().map(plain).collect::<Vec<_>>()}),
            },
            (keyword, value) if ONE.contains(&keyword) => plain(value),
            (keyword, Value::Array(schemas)) if LISTS.contains(&keyword) => {
                schemas.iter().map(plain).collect()
            }
            (keyword, Value::Object(schemas)) if BY_NAME.contains(&keyword) => {
                let schemas = schemas.iter().map(|(name, schema)| (name.clone(), plain(schema)));
                Value::Object(schemas.collect())
            }
            (_, value) => value.clone(),
        };
        fitted.insert(keyword.clone(), value);
    }
    // The fourth draft says by a flag whether the limit itself is excluded.
    for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if keywords.get(flag) == Some(&Value::Bool(true))
            && let Some(value) = fitted.shift_remove(limit)
        {
            fitted.insert(flag.to_owned(), value);
        }
    }
    if is_type(&fitted, "object") {
        fitted.entry("properties").or_insert_with(|| json!({}));
    }
    if is_type(&fitted, "array") {
        fitted.entry("items").or_insert_with(|| json!({}));
    }
    Value::Object(fitted)
}

fn is_type(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(said)) => said == name,
        Some(Value::Array(said)) => said.iter().any(|said| said == name),
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests;
