//! Typed access to the fields of a body, with errors that a person can act on.

use serde_json::{Map, Value};

use super::RequestError;
use crate::MessageId;

/// The longest id that is taken from a client.
const MAX_ID: usize = 256;
/// The longest text of a sender that an error repeats.
const MAX_QUOTE: usize = 64;

/// The fields of one object of a body, and where it stands.
pub(super) struct Fields<'a> {
    path: String,
    map: &'a Map<String, Value>,
    /// The names that may be asked for. Of a whole body others are not even built.
    known: Option<&'static [&'static str]>,
}

/// What a field should be, and was not.
pub(super) fn wrong(field: &str, was: &Value, should: &str) -> RequestError {
    RequestError(format!("`{field}` is {}; it must be {should}.", described(was)))
}

/// A field that has to be there.
pub(super) fn missing(field: &str, should: &str) -> RequestError {
    RequestError(format!("`{field}` is missing; it must be {should}."))
}

/// A value in a sentence: short ones as they are, long ones by their kind.
fn described(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "empty".to_owned(),
        Value::String(text) if text.chars().count() > 40 => "a long string".to_owned(),
        Value::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The beginning of a text, for an error that names it.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

// === impl Fields ===

impl<'a> Fields<'a> {
    /// The fields of the whole body.
    pub(super) fn of_body(body: &'a Value, known: &'static [&'static str]) -> Result<Self, RequestError> {
        match body {
            Value::Object(map) => Ok(Self { path: String::new(), map, known: Some(known) }),
            other => {
                Err(RequestError(format!("The body is {}; it must be a JSON object.", described(other))))
            }
        }
    }

    /// The fields of the object at `path`.
    pub(super) fn of(path: String, value: &'a Value) -> Result<Self, RequestError> {
        match value {
            Value::Object(map) => Ok(Self { path, map, known: None }),
            other => Err(wrong(&path, other, "an object")),
        }
    }

    /// A field's name as the sender knows it.
    pub(super) fn path(&self, name: &str) -> String {
        match (self.path.is_empty(), name.is_empty()) {
            (true, _) => name.to_owned(),
            (false, true) => self.path.clone(),
            (false, false) => format!("{}.{name}", self.path),
        }
    }

    /// A field as it was sent, `null` included.
    pub(super) fn raw(&self, name: &str) -> Option<&'a Value> {
        debug_assert!(self.known.is_none_or(|known| known.contains(&name)), "{name} is never built");
        self.map.get(name)
    }

    /// A field, `null` counting as absent.
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.raw(name).filter(|value| !value.is_null())
    }

    /// The first of these names that is there.
    pub(super) fn any<'n>(&self, names: &[&'n str]) -> Option<(&'n str, &'a Value)> {
        names.iter().find_map(|name| Some((*name, self.value(name)?)))
    }

    pub(super) fn string(&self, name: &str) -> Result<Option<&'a str>, RequestError> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        value.as_str().map(Some).ok_or_else(|| wrong(&self.path(name), value, "a string"))
    }

    /// A string that says something.
    pub(super) fn words(&self, name: &str) -> Result<Option<&'a str>, RequestError> {
        match self.string(name)? {
            Some("") => Err(wrong(&self.path(name), &Value::from(""), "a string that is not empty")),
            other => Ok(other),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, RequestError> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        value.as_bool().map(Some).ok_or_else(|| wrong(&self.path(name), value, "true or false"))
    }

    pub(super) fn list(&self, name: &str) -> Result<Option<&'a [Value]>, RequestError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(wrong(&self.path(name), other, "a list")),
        }
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<Self>, RequestError> {
        self.value(name).map(|value| Self::of(self.path(name), value)).transpose()
    }

    pub(super) fn message_id(&self, name: &str) -> Result<Option<MessageId>, RequestError> {
        let Some(id) = self.words(name)? else {
            return Ok(None);
        };
        if id.chars().count() > MAX_ID {
            let should = format!("a string of at most {MAX_ID} characters");
            return Err(wrong(&self.path(name), &Value::from(id), &should));
        }
        Ok(Some(MessageId::new(id)))
    }

    pub(super) fn entries(&self) -> &'a Map<String, Value> {
        self.map
    }
}
