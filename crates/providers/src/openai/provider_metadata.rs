//! Fields that a provider attaches to an answer or to a call and wants back unchanged, such as signed reasoning.
//!
//! The values are opaque. Their pieces are joined as OpenRouter documents it, and they go back to the message or the call that had them.
//!
//! Invariant: the values go back only to the same model at the same host. Another one cannot verify a signature, and refuses fields that it
//! does not know.

use fermata_protocol::JsonText;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    chunk::Rare,
    dialect::{Dialect, Origin},
    surrogate_halves::without_halves,
};

/// The names of the fields. `reasoning_details` is OpenRouter's, `extra_content` Gemini's, and the others are LiteLLM's.
pub(super) const REASONING_DETAILS: &str = "reasoning_details";
pub(super) const THINKING_BLOCKS: &str = "thinking_blocks";
pub(super) const EXTRA_CONTENT: &str = "extra_content";
pub(super) const PROVIDER_SPECIFIC_FIELDS: &str = "provider_specific_fields";
pub(super) const ALL: [&str; 4] =
    [REASONING_DETAILS, THINKING_BLOCKS, EXTRA_CONTENT, PROVIDER_SPECIFIC_FIELDS];

/// The texts of a piece of reasoning that the next piece may continue.
const TEXTS: [&str; 3] = ["text", "summary", "thinking"];

/// The fields that came with an answer or with a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Attached(Map<String, Value>);

/// The metadata in the form that the engine keeps.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    #[serde(flatten)]
    origin: Option<Origin>,
    /// The id of the call, if the fields of the answer name the call by it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) id: Option<String>,
    pub(super) fields: Attached,
}

// === impl Attached ===

impl Attached {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Adds the received part of a field.
    pub(super) fn add(&mut self, name: &str, piece: Rare) {
        let Some(piece) = piece.map(|piece| *piece) else { return };
        let is_nothing = match &piece {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        if !is_nothing {
            let empty = if piece.is_array() { json!([]) } else { Value::Null };
            join(self.0.entry(name).or_insert(empty), piece);
        }
    }

    /// Adds the metadata of other pieces of the same call.
    pub(super) fn extend(&mut self, more: Self) {
        for (name, piece) in more.0 {
            self.add(&name, Some(Box::new(piece)));
        }
    }

    /// Returns whether an item of a list has this id.
    fn names(&self, id: &str) -> bool {
        let mut items = self.0.values().filter_map(Value::as_array).flatten();
        items.any(|item| item.get("id").is_some_and(|named| named == id))
    }

    /// Returns the metadata of an answer that the engine keeps.
    pub(super) fn keep(&self) -> Option<JsonText> {
        Kept { origin: None, id: None, fields: self.clone() }.into_text()
    }

    /// Returns the metadata that the engine keeps of the call with this id.
    pub(super) fn keep_of_call(&self, id: &str, answer: &Self) -> Option<JsonText> {
        let id = if answer.names(id) { Some(id.to_owned()) } else { None };
        Kept { origin: None, id, fields: self.clone() }.into_text()
    }
}

// === impl Kept ===

impl Kept {
    fn into_text(mut self) -> Option<JsonText> {
        if self.fields.is_empty() && self.id.is_none() {
            return None;
        }
        self.fields.0.values_mut().for_each(repair);
        Some(json!(self).into())
    }

    /// Reads kept metadata. Metadata of another model or another host is left out.
    pub(super) fn read(kept: Option<&JsonText>, dialect: &Dialect) -> Option<Self> {
        let mut kept: Self = kept?.read().ok()?;
        if kept.origin.as_ref() != Some(&dialect.origin) {
            return None;
        }
        kept.fields.0.retain(|name, _| dialect.field(name).is_some());
        Some(kept)
    }
}

/// Notes the origin in the metadata that the engine keeps.
pub(super) fn mark(metadata: &mut JsonText, origin: &Origin) {
    let mut kept = metadata.value();
    kept["host"] = origin.host.as_str().into();
    kept["model"] = origin.model.as_str().into();
    *metadata = kept.into();
}

/// Adds a piece to a value. A list gets the items that it does not have, an object the fields, and anything else is replaced.
fn join(before: &mut Value, piece: Value) {
    match (before, piece) {
        (Value::Array(items), Value::Array(pieces)) => {
            pieces.into_iter().for_each(|piece| push(items, piece))
        }
        (Value::Object(fields), Value::Object(pieces)) => {
            for (name, piece) in pieces {
                join(fields.entry(name).or_insert(Value::Null), piece);
            }
        }
        (before, piece) => *before = piece,
    }
}

/// Adds an item to a list, or to the item that it continues: of its type, with its index, and not signed yet.
fn push(items: &mut Vec<Value>, piece: Value) {
    let continued = match piece.get("index") {
        Some(index) => items.iter_mut().rfind(|item| item.get("index") == Some(index)),
        None => items.last_mut(),
    };
    match (continued, piece) {
        (Some(Value::Object(item)), Value::Object(piece)) if continues(item, &piece) => {
            for (name, value) in piece {
                match (item.get_mut(&name), value) {
                    (Some(Value::String(before)), Value::String(more)) if TEXTS.contains(&name.as_str()) => {
                        before.push_str(&more);
                    }
                    (Some(_), Value::Null) => {}
                    (Some(_), Value::String(text)) if text.is_empty() => {}
                    (_, value) => _ = item.insert(name, value),
                }
            }
        }
        (_, piece) => {
            if !items.contains(&piece) {
                items.push(piece);
            }
        }
    }
}

fn continues(item: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let text = |fields: &Map<String, Value>, name: &str| {
        fields.get(name).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
    };
    let has_text = TEXTS.iter().any(|name| item.get(*name).is_some_and(Value::is_string));
    let says_more = TEXTS.iter().any(|name| !text(piece, name).is_empty());
    let is_signed = !text(item, "signature").is_empty();
    let (id, piece_id) = (text(item, "id"), text(piece, "id"));
    let has_other_id = !id.is_empty() && !piece_id.is_empty() && id != piece_id;
    has_text && item.get("type") == piece.get("type") && !has_other_id && !(is_signed && says_more)
}

/// Joins the halves of characters, which came in two pieces.
fn repair(value: &mut Value) {
    match value {
        Value::String(text) => *text = without_halves(std::mem::take(text)),
        Value::Array(items) => items.iter_mut().for_each(repair),
        Value::Object(fields) => fields.values_mut().for_each(repair),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
