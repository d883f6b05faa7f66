//! Access to fields of an input by path, for rules and resources.

use std::borrow::Cow;

use serde_json::Value;

/// Returns the values at a path; empty if there is no such field.
///
/// `a.b` is the field `b` of the field `a`, and also a field with the name `a.b`. If the path leads through or to a list, all of its
/// elements are returned, with `None` for an element without the field and for an empty list.
pub(crate) fn values<'a>(input: &'a Value, path: &str) -> Vec<Option<&'a Value>> {
    let mut found = Vec::new();
    walk(input, path, &mut found);
    found
}

fn walk<'a>(value: &'a Value, path: &str, found: &mut Vec<Option<&'a Value>>) {
    match value {
        Value::Array(items) => {
            for item in items {
                let before = found.len();
                walk(item, path, found);
                if found.len() == before {
                    found.push(None);
                }
            }
            if items.is_empty() {
                found.push(None);
            }
        }
        Value::Object(fields) => {
            if let Some(value) = fields.get(path) {
                collect(value, found);
            }
            for (at, _) in path.match_indices('.') {
                if let Some(value) = fields.get(&path[..at]) {
                    walk(value, &path[at + 1..], found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn collect<'a>(value: &'a Value, found: &mut Vec<Option<&'a Value>>) {
    match value {
        Value::Array(items) if items.is_empty() => found.push(None),
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        other => found.push(Some(other)),
    }
}

/// Returns a value as a text: a string as it is, any other value as JSON.
pub(crate) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_through_objects_and_lists() {
        let input = json!({"a": {"b": "x"}, "a.b": "y", "list": [{"n": 1}, {"n": [2, "three"]}], "flag": true, "none": null});
        assert_eq!(values(&input, "a.b"), [Some(&json!("y")), Some(&json!("x"))]);
        assert_eq!(values(&input, "list.n"), [Some(&json!(1)), Some(&json!(2)), Some(&json!("three"))]);
        assert_eq!(values(&input, "flag"), [Some(&json!(true))]);
        assert_eq!(values(&input, "none"), [Some(&json!(null))]);
        assert_eq!(values(&input, "a"), [Some(&json!({"b": "x"}))]);
        assert!(values(&input, "a.c").is_empty());
        assert!(values(&json!("text"), "a").is_empty());
    }

    #[test]
    fn an_element_without_the_field_and_an_empty_list_differ_from_no_field() {
        let input = json!({"list": [{"n": 1}, {}, 5, {"n": []}], "none": [], "nested": ["a", []]});
        assert_eq!(values(&input, "list.n"), [Some(&json!(1)), None, None, None]);
        assert_eq!(values(&input, "none"), [None]);
        assert_eq!(values(&input, "none.n"), [None]);
        assert_eq!(values(&input, "nested"), [Some(&json!("a")), None]);
        assert!(values(&input, "missing").is_empty());
    }
}
