//! Schemas for Gemini, which reads a subset of OpenAPI's and refuses any other keyword.
//!
//! The rest of a schema is left out; the input is checked against the whole schema anyway.

use serde_json::{Map, Value, json};

/// The limit on references within each other, because they may lead round in circles. A deeper value may be anything.
const DEEPEST: usize = 3;
/// The limit on the subschemas of one schema.
const MAX_VISITS: usize = 5_000;
/// Keywords that are passed on as they are.
const KNOWN: [&str; 11] = [
    "title",
    "description",
    "nullable",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "type",
];
/// The formats that are known; any other is refused.
const FORMATS: [&str; 6] = ["enum", "date-time", "float", "double", "int32", "int64"];

struct Reader<'a> {
    root: &'a Value,
    /// The number of references on the way to the current schema.
    depth: usize,
    visits_left: usize,
}

/// Returns the schema of a tool's input; `None` for a tool without input, because an object without fields is refused.
pub(super) fn google_schema(schema: &Value) -> Option<Value> {
    let schema = Reader { root: schema, depth: 0, visits_left: MAX_VISITS }.subset(schema);
    if schema.contains_key("properties") { Some(Value::Object(schema)) } else { None }
}

// === impl Reader ===

impl Reader<'_> {
    fn subset(&mut self, schema: &Value) -> Map<String, Value> {
        let mut kept = Map::new();
        let Value::Object(keywords) = schema else { return kept };
        if self.visits_left == 0 {
            return kept;
        }
        self.visits_left -= 1;
        for keyword in KNOWN {
            if let Some(value) = keywords.get(keyword) {
                kept.insert(keyword.to_owned(), value.clone());
            }
        }
        if let Some(format) = keywords.get("format")
            && FORMATS.iter().any(|known| format == known)
        {
            kept.insert("format".to_owned(), format.clone());
        }
        if let Some(Value::Array(types)) = keywords.get("type") {
            kept.shift_remove("type");
            let branches = types.iter().map(|name| json!({"type": name}));
            self.add_union(&mut kept, &branches.collect::<Vec<_>>());
        }
        let constant = keywords.get("const").map(|value| vec![value.clone()]);
        if let Some(values) = constant.or_else(|| keywords.get("enum")?.as_array().cloned()) {
            let texts: Vec<Value> = values.iter().filter(|value| value.is_string()).cloned().collect();
            let has_null = values.contains(&Value::Null);
            if has_null {
                kept.insert("nullable".to_owned(), true.into());
            }
            // Only texts may be listed.
            if !texts.is_empty() && texts.len() + usize::from(has_null) == values.len() {
                kept.insert("type".to_owned(), "string".into());
                kept.insert("enum".to_owned(), Value::Array(texts));
            }
        }
        if let Some(items) = keywords.get("items") {
            kept.insert("items".to_owned(), Value::Object(self.subset(items)));
        }
        if let Some(properties) = keywords.get("properties").and_then(Value::as_object)
            && !properties.is_empty()
        {
            let fields =
                properties.iter().map(|(name, schema)| (name.clone(), Value::Object(self.subset(schema))));
            kept.insert("properties".to_owned(), Value::Object(fields.collect()));
            let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
            let known =
                required.filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name)));
            let required: Vec<Value> = known.cloned().collect();
            if !required.is_empty() {
                kept.insert("required".to_owned(), Value::Array(required));
            }
        }
        let reference = keywords.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#'));
        if let Some(target) = reference.and_then(|pointer| self.root.pointer(pointer))
            && self.depth < DEEPEST
        {
            self.depth += 1;
            add(&mut kept, self.subset(target));
            self.depth -= 1;
        }
        for part in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            add(&mut kept, self.subset(part));
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(branches) = keywords.get(keyword).and_then(Value::as_array) {
                self.add_union(&mut kept, branches);
            }
        }
        kept
    }

    /// Adds a union. `null` is a flag in it and not a type.
    fn add_union(&mut self, kept: &mut Map<String, Value>, branches: &[Value]) {
        let count = branches.len();
        let mut others: Vec<Map<String, Value>> = branches
            .iter()
            .filter(|branch| branch.get("type") != Some(&Value::from("null")))
            .map(|branch| self.subset(branch))
            .collect();
        if others.len() < count {
            kept.insert("nullable".to_owned(), true.into());
        }
        if others.len() > 1 {
            kept.entry("anyOf").or_insert_with(|| others.into_iter().map(Value::Object).collect());
        } else if let Some(only) = others.pop() {
            add(kept, only);
        }
    }
}

/// Adds the keywords of another schema that also applies.
fn add(kept: &mut Map<String, Value>, other: Map<String, Value>) {
    for (keyword, value) in other {
        kept.entry(keyword).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, expected: Option<Value>) {
        assert_eq!(google_schema(&schema), expected, "{schema}");
    }

    #[test]
    fn a_tool_without_input_has_no_schema() {
        check(json!({"type": "object", "properties": {}, "additionalProperties": false}), None);
    }

    #[test]
    fn what_gemini_does_not_know_is_left_out_or_said_otherwise() {
        for (field, expected) in [
            (
                json!({"type": "string", "format": "uri", "minLength": 1, "default": "a", "examples": []}),
                json!({"type": "string", "minLength": 1}),
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                json!({"type": "string", "format": "date-time"}),
            ),
            (
                json!({"type": "integer", "exclusiveMinimum": 0, "maximum": 5}),
                json!({"maximum": 5, "type": "integer"}),
            ),
            (json!({"type": ["string", "null"]}), json!({"nullable": true, "type": "string"})),
            (
                json!({"type": ["string", "integer"]}),
                json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            ),
            (
                json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
                json!({"nullable": true, "type": "integer"}),
            ),
            (
                json!({"oneOf": [{"const": "a"}, {"const": 1}]}),
                json!({"anyOf": [{"type": "string", "enum": ["a"]}, {}]}),
            ),
            (json!({"enum": ["a", null]}), json!({"nullable": true, "type": "string", "enum": ["a"]})),
            (json!({"type": "integer", "enum": [1, 2]}), json!({"type": "integer"})),
            (json!({"type": "object", "properties": {}, "required": ["a"]}), json!({"type": "object"})),
            (json!({"$ref": "#/$defs/a", "description": "d"}), json!({"description": "d", "type": "string"})),
            (
                json!({"type": "array", "items": {"$ref": "#/$defs/a"}}),
                json!({"type": "array", "items": {"type": "string"}}),
            ),
        ] {
            check(
                json!({
                    "type": "object", "properties": {"x": field}, "required": ["x", "y"],
                    "additionalProperties": false, "$defs": {"a": {"type": "string"}},
                }),
                Some(json!({"type": "object", "properties": {"x": expected}, "required": ["x"]})),
            );
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let tree = json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}});
        assert!(google_schema(&tree).is_some());
        let forked =
            json!({"type": "object", "allOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"a": {}}});
        assert_eq!(google_schema(&forked), Some(json!({"type": "object", "properties": {"a": {}}})));
    }
}
