//! An input that a simple JSON Schema takes.
//!
//! Only what tools of chats commonly say is looked at; a schema that asks for more gets an input that the server then
//! refuses, as it would a model's.

use serde_json::{Value, json};

/// The number of levels of a schema that are followed.
const DEPTH: usize = 8;

/// An input with every required property.
pub(super) fn input(schema: &Value) -> Value {
    object(schema, DEPTH)
}

fn object(schema: &Value, depth: usize) -> Value {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let names = required.filter_map(Value::as_str);
    let input = names.map(|name| {
        let property = schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&Value::Null);
        (name.to_owned(), value(name, property, depth))
    });
    Value::Object(input.collect())
}

fn value(name: &str, schema: &Value, depth: usize) -> Value {
    let first = |list: &str| schema.get(list).and_then(|list| list.get(0)).cloned();
    if let Some(given) = schema.get("const").or_else(|| schema.get("default")).cloned() {
        return given;
    }
    if let Some(given) = first("enum").or_else(|| first("examples")) {
        return given;
    }
    if depth == 0 {
        return Value::Null;
    }
    if let Some(option) = first("anyOf").or_else(|| first("oneOf")) {
        return value(name, &option, depth - 1);
    }
    let kind = schema.get("type");
    match kind.and_then(Value::as_str).or_else(|| kind?.get(0)?.as_str()) {
        Some("number" | "integer") => number(schema),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        Some("array") => array(name, schema, depth),
        Some("object") => object(schema, depth - 1),
        _ => text(name, schema),
    }
}

fn number(schema: &Value) -> Value {
    let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
    let lowest = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|bound| bound.saturating_add(1)));
    let highest = bound("maximum").unwrap_or(i64::MAX);
    json!(lowest.unwrap_or(1).min(highest))
}

fn array(name: &str, schema: &Value, depth: usize) -> Value {
    let length = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(1, 8);
    let item = schema.get("items").unwrap_or(&Value::Null);
    (0..length).map(|_| value(name, item, depth - 1)).collect()
}

fn text(name: &str, schema: &Value) -> Value {
    let words = match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2026-01-31".to_owned(),
        Some("date-time") => "2026-01-31T12:00:00Z".to_owned(),
        Some("email") => "demo@example.com".to_owned(),
        Some("uri" | "url") => "https://example.com/".to_owned(),
        _ => format!("a {} from the demo", name.replace('_', " ")),
    };
    let limit =
        |name: &str| schema.get(name).and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
    let mut words: String = words.chars().take(limit("maxLength").unwrap_or(usize::MAX)).collect();
    let shortest = limit("minLength").unwrap_or(0).min(1000);
    while words.chars().count() < shortest {
        words.push('.');
    }
    words.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_without_required_properties_is_satisfied_by_an_empty_object() {
        assert_eq!(input(&json!({"type": "object"})), json!({}));
        assert_eq!(input(&json!({"type": "object", "properties": {"a": {"type": "string"}}})), json!({}));
    }

    #[test]
    fn required_properties_are_filled_by_their_types() {
        let schema = json!({
            "type": "object",
            "required": ["city", "days", "unit", "exact", "tags", "place", "when", "x"],
            "properties": {
                "city": {"type": "string", "maxLength": 6},
                "days": {"type": "integer", "minimum": 3},
                "unit": {"enum": ["C", "F"]},
                "exact": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string", "const": "t"}, "minItems": 2},
                "place": {"type": "object", "required": ["lat"], "properties": {"lat": {"type": "number"}}},
                "when": {"type": ["string", "null"], "format": "date"},
            },
        });
        let expected = json!({
            "city": "a city", "days": 3, "unit": "C", "exact": true, "tags": ["t", "t"],
            "place": {"lat": 1}, "when": "2026-01-31", "x": "a x from the demo",
        });
        assert_eq!(input(&schema), expected);
    }

    #[test]
    fn a_schema_that_never_ends_does_not_either_hang_or_overflow() {
        let mut schema = json!({"type": "string"});
        for _ in 0..100 {
            schema = json!({"type": "array", "items": schema});
        }
        let schema = json!({"required": ["deep"], "properties": {"deep": schema}});
        assert!(input(&schema)["deep"].is_array());
    }
}
