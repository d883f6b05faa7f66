//! Fields of an input by path, as rules and resources name them.

use std::borrow::Cow;

use serde_json::Value;

/// The texts of the values at a path. `a.b` is the field `b` of the field `a`; a field whose own name has dots is found too.
/// A list stands for each of its elements; a value that is no text for its JSON. Empty where there is no such field.
pub(crate) fn texts(input: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(input, path, &mut found);
    found
}

fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(item, path, found)),
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

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        other => found.push(text(other).into_owned()),
    }
}

fn text(value: &Value) -> Cow<'_, str> {
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
        assert_eq!(texts(&input, "a.b"), ["y", "x"]);
        assert_eq!(texts(&input, "list.n"), ["1", "2", "three"]);
        assert_eq!(texts(&input, "flag"), ["true"]);
        assert_eq!(texts(&input, "none"), ["null"]);
        assert_eq!(texts(&input, "a"), [r#"{"b":"x"}"#]);
        assert!(texts(&input, "a.c").is_empty());
        assert!(texts(&json!("text"), "a").is_empty());
    }
}
