//! The JSON Schema of a tool's input, which everybody who offers the tool shares.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use serde::{Serialize, Serializer};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use crate::schema::{BY_NAME, DATA};

/// The JSON Schema of a tool's input. Clones share it and its text, because a tool is offered with every call of a model.
#[derive(Clone)]
pub struct InputSchema {
    shared: Arc<Shared>,
}

struct Shared {
    schema: Value,
    text: OnceLock<Box<RawValue>>,
}

// === impl InputSchema ===

impl InputSchema {
    /// Returns the schema of a tool that another program describes. Programs in Go write `null` for a list or an object that they do not
    /// have, which no JSON Schema allows, so keywords that are `null` are left out. A schema without a type, or that also allows `null`,
    /// is one of an object.
    pub fn received(mut schema: Value) -> Self {
        // The code that registers tools refuses anything but an object, and any other type.
        if let Value::Object(keywords) = &mut schema {
            remove_nulls(keywords);
            let allows_object = match keywords.get("type") {
                None => true,
                Some(Value::Array(types)) => types.iter().any(|name| name == "object"),
                Some(_) => false,
            };
            if allows_object {
                keywords.insert("type".to_owned(), "object".into());
            }
        }
        schema.into()
    }

    /// Returns the schema as JSON text, which is made once.
    pub fn text(&self) -> &str {
        self.raw().get()
    }

    fn raw(&self) -> &RawValue {
        let Shared { schema, text } = &*self.shared;
        text.get_or_init(|| to_raw_value(schema).expect("the keys of a JSON value are texts"))
    }
}

impl From<Value> for InputSchema {
    fn from(schema: Value) -> Self {
        Self { shared: Arc::new(Shared { schema, text: OnceLock::new() }) }
    }
}

impl Deref for InputSchema {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.shared.schema
    }
}

impl PartialEq for InputSchema {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for InputSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw().serialize(serializer)
    }
}

fn remove_nulls(schema: &mut Map<String, Value>) {
    schema.retain(|keyword, value| {
        !value.is_null() || ["default", "const", "example"].contains(&keyword.as_str())
    });
    for (keyword, value) in schema {
        match value {
            _ if DATA.contains(&keyword.as_str()) => {}
            Value::Object(schemas) if BY_NAME.contains(&keyword.as_str()) => {
                for schema in schemas.values_mut() {
                    match schema {
                        Value::Object(schema) => remove_nulls(schema),
                        Value::Null => *schema = Value::Object(Map::new()),
                        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
                    }
                }
            }
            Value::Object(schema) => remove_nulls(schema),
            Value::Array(items) => {
                items.retain(|item| !item.is_null());
                items.iter_mut().filter_map(Value::as_object_mut).for_each(remove_nulls);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_string, to_value};

    use super::*;

    #[test]
    fn a_schema_is_written_as_it_is_and_its_text_is_shared() {
        let value = json!({"type": "object", "properties": {"day": {"type": "integer"}}});
        let schema = InputSchema::from(value.clone());
        let clone = schema.clone();
        assert_eq!(to_string(&schema).unwrap(), value.to_string());
        assert_eq!(to_value(&schema).unwrap(), value);
        assert_eq!(schema.text().as_ptr(), clone.text().as_ptr());
        assert_eq!(schema["type"], "object");
        assert_ne!(schema, json!({"type": "array"}).into());
    }

    #[test]
    fn what_is_null_in_a_received_schema_is_left_out() {
        for (received, expected) in [
            (json!({}), json!({"type": "object"})),
            (json!({"type": null}), json!({"type": "object"})),
            (json!({"type": ["object", "null"]}), json!({"type": "object"})),
            (json!({"type": "string"}), json!({"type": "string"})),
            (
                json!({"type": "object", "properties": null, "required": null, "$defs": null}),
                json!({"type": "object"}),
            ),
            (
                json!({"type": "object", "properties": {
                    "a": {"type": "array", "items": null, "default": null, "enum": [null], "examples": null},
                    "b": null,
                    "required": {"anyOf": [null, {"const": null}, {"type": "object", "properties": null}]},
                }}),
                json!({"type": "object", "properties": {
                    "a": {"type": "array", "default": null, "enum": [null]},
                    "b": {},
                    "required": {"anyOf": [{"const": null}, {"type": "object"}]},
                }}),
            ),
        ] {
            assert_eq!(*InputSchema::received(received.clone()), expected, "{received}");
        }
    }
}
