//! Merges metadata into a message: objects are merged at any depth, all other values are replaced.

use serde_json::{Map, Value};

/// The keys that clients skip, because in JavaScript they would change an object's prototype.
const SKIPPED: [&str; 3] = ["__proto__", "constructor", "prototype"];

/// Merges the metadata of a chunk into that of the message.
pub(super) fn merge_metadata(known: &mut Option<Value>, new: Option<&Value>) {
    match (known, new) {
        (_, None | Some(Value::Null)) => {}
        (known @ (None | Some(Value::Null)), Some(new)) => *known = Some(new.clone()),
        (Some(known), Some(new)) => {
            let mut merged = spread(known);
            merge(&mut merged, &spread(new));
            *known = Value::Object(merged);
        }
    }
}

fn merge(base: &mut Map<String, Value>, overrides: &Map<String, Value>) {
    for (key, value) in overrides.iter().filter(|(key, _)| !SKIPPED.contains(&key.as_str())) {
        match (base.get_mut(key), value) {
            (Some(Value::Object(base)), Value::Object(value)) => merge(base, value),
            (Some(base), value) => *base = value.clone(),
            (None, value) => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Returns the fields of a value as JavaScript's spread operator does, which clients use: the fields of a list are its items by
/// index, and a number or a boolean has none.
fn spread(value: &Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields.clone(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (index.to_string(), item.clone())).collect()
        }
        Value::String(text) => {
            text.chars().enumerate().map(|(index, c)| (index.to_string(), Value::String(c.into()))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Map::new(),
    }
}
