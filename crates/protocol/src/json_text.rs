//! JSON values that are kept as their text.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

/// A JSON value as compact text, which clones share.
///
/// A [`Value`] takes up to a hundred times the memory of its text. So the text is kept and passed on, and code that looks into it
/// reads the value and drops it again. Two texts are equal if their values are; the order of keys makes no difference.
#[derive(Clone)]
pub struct JsonText(Arc<RawValue>);

// === impl JsonText ===

impl JsonText {
    /// Returns a JSON string.
    pub fn string(text: String) -> Self {
        Value::String(text).into()
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Returns the value.
    pub fn value(&self) -> Value {
        let value = self.read();
        debug_assert!(value.is_ok(), "a value that was written can be read");
        value.unwrap_or_default()
    }

    /// Reads the value as a type.
    ///
    /// # Errors
    /// Returns an error if the value does not have the form of the type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Returns whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }
}

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        Self(to_raw_value(value).expect("the keys of a JSON value are texts").into())
    }
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl Default for JsonText {
    /// Returns `null`.
    fn default() -> Self {
        Value::Null.into()
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str() || self.value() == other.value()
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    /// Reads any value. The text that it came from may have spaces, or a key twice.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, json, to_string, to_value};

    use super::*;

    #[test]
    fn a_value_is_written_compactly_and_its_text_is_shared() {
        let text: JsonText =
            from_str("{ \"b\": 1e3, \"a\": [18446744073709551615, null], \"b\": 2 }").unwrap();
        assert_eq!(text.as_str(), r#"{"b":2,"a":[18446744073709551615,null]}"#);
        assert_eq!(to_string(&text).unwrap(), text.as_str());
        assert_eq!(to_value(&text).unwrap(), json!({"b": 2, "a": [u64::MAX, null]}));
        assert_eq!(text.clone().as_str().as_ptr(), text.as_str().as_ptr());
        assert!(text.is_object() && !JsonText::default().is_object());
    }

    #[test]
    fn the_order_of_keys_makes_no_difference() {
        assert_eq!(JsonText::from(json!({"a": 1, "b": 2})), json!({"b": 2, "a": 1}).into());
        assert_ne!(JsonText::from(json!([1, 2])), json!([2, 1]).into());
    }
}
