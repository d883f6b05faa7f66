//! The JSON Schema of a tool's input, which everybody who offers the tool shares.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
};

use serde::{Serialize, Serializer};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

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
}
