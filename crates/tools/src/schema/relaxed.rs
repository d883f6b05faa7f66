//! Schemas without the patterns that cannot be checked.
//!
//! Pages and MCP servers write patterns for engines that take exponential time, and that know constructs that the engine here does not.
//! One such pattern is no reason to refuse a tool, so it is left out of the schema that inputs are checked against.
//!
//! Invariant: a value that fits the schema also fits the relaxed one. Therefore a keyword that refuses more when a subschema accepts more is
//! left out with it.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{BY_NAME, DATA};

/// Removes patterns from schemas.
pub(super) struct Relaxation<'a> {
    pub patterns: HashSet<&'a str>,
    /// True if the values of data keywords may be used as schemas.
    pub includes_data: bool,
}

// === impl Relaxation ===

impl Relaxation<'_> {
    /// Returns the schema without the patterns.
    pub fn relax(&self, schema: &Value) -> Value {
        match schema {
            Value::Object(keywords) => Value::Object(self.relax_keywords(keywords)),
            Value::Array(items) => items.iter().map(|item| self.relax(item)).collect(),
            other => other.clone(),
        }
    }

    fn relax_keywords(&self, keywords: &Map<String, Value>) -> Map<String, Value> {
        let mut relaxed = Map::new();
        let changes = |keyword: &str| keywords.get(keyword).is_some_and(|value| self.may_change(value));
        let drops_condition = changes("if");
        for (keyword, value) in keywords {
            match (keyword.as_str(), value) {
                ("pattern", Value::String(pattern)) if self.patterns.contains(pattern.as_str()) => {}
                ("not", value) if self.may_change(value) => {}
                ("if" | "then" | "else", _) if drops_condition => {}
                ("maxContains", _) if changes("contains") => {}
                ("oneOf", Value::Array(_)) if changes("oneOf") => {
                    // Several of them may fit now.
                    let any = json!({"anyOf": self.relax(value)});
                    match relaxed.entry("allOf").or_insert_with(|| json!([])) {
                        Value::Array(all) => all.push(any),
                        other => *other = json!([any]),
                    }
                }
                ("allOf", Value::Array(items)) => {
                    let items = items.iter().map(|item| self.relax(item));
                    if let Value::Array(all) = relaxed.entry("allOf").or_insert_with(|| json!([])) {
                        all.extend(items);
                    }
                }
                ("patternProperties", Value::Object(schemas)) => {
                    let mut kept = Map::new();
                    for (pattern, schema) in schemas {
                        if self.patterns.contains(pattern.as_str()) {
                            // Any property may be one of these, so none is an additional one.
                            kept.entry("").or_insert(true.into());
                        } else {
                            kept.insert(pattern.clone(), self.relax(schema));
                        }
                    }
                    relaxed.insert(keyword.clone(), kept.into());
                }
                (name, Value::Object(schemas)) if BY_NAME.contains(&name) => {
                    let schemas = schemas.iter().map(|(name, schema)| (name.clone(), self.relax(schema)));
                    relaxed.insert(keyword.clone(), Value::Object(schemas.collect()));
                }
                (name, value) if DATA.contains(&name) && !self.includes_data => {
                    relaxed.insert(keyword.clone(), value.clone());
                }
                (_, value) => {
                    relaxed.insert(keyword.clone(), self.relax(value));
                }
            }
        }
        relaxed
    }

    /// Returns whether a subschema has such a pattern, or a reference that may lead to one.
    fn may_change(&self, schema: &Value) -> bool {
        match schema {
            Value::Object(keywords) => keywords.iter().any(|(keyword, value)| match value {
                Value::String(text) => {
                    (keyword == "pattern" && self.patterns.contains(text.as_str()))
                        || keyword.ends_with("Ref")
                        || keyword == "$ref"
                }
                value => {
                    let names = if keyword == "patternProperties" { value.as_object() } else { None };
                    names.is_some_and(|names| names.keys().any(|name| self.patterns.contains(name.as_str())))
                        || self.may_change(value)
                }
            }),
            Value::Array(items) => items.iter().any(|item| self.may_change(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
}
