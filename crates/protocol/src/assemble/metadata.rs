//! How a message's metadata grows: objects are merged to any depth, everything else is replaced.

use serde_json::{Map, Value};

/// Keys that a client skips, because in JavaScript they would reach an object's prototype.
const SKIPPED: [&str; 3] = ["__proto__", "constructor", "prototype"];

/// Adds what a chunk says to what is known.
pub(super) fn merge_metadata(known: &mut Option<Value>, new: Option<&Value>) {
    let Some(new) = new.filter(|new| !new.is_null()) else {
        return;
    };
    match known {
        None | Some(Value::Null) => *known = Some(new.clone()),
        Some(known) => {
            let mut merged = fields(known);
            merge(&mut merged, &fields(new));
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

/// A client spreads what it merges: of a list the items count by their index, a number or a flag has no fields.
fn fields(value: &Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields.clone(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, item)| (at.to_string(), item.clone())).collect()
        }
        Value::String(text) => {
            text.chars().enumerate().map(|(at, c)| (at.to_string(), Value::String(c.into()))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Map::new(),
    }
}
