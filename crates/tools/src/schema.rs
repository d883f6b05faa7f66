//! What a schema may cost, found out before it is used.
//!
//! Schemas come from pages, and checking an input runs on the thread that drives the chat. A schema of a few lines can unfold to a
//! billion checks: by references that double at each level, or by referring to itself twice for the same place of the input. Both are
//! refused here. What is left costs no more than the schema's unfolded size times the input's.

use serde_json::{Map, Value};

/// Bytes of one schema as JSON.
const LONGEST: usize = 256 * 1024;
/// Subschemas of one schema with its references unfolded.
const LARGEST: usize = 10_000;
/// References from within one subschema back to it.
const MOST_OFTEN: usize = 500;
/// Subschemas within one another.
const DEEPEST: usize = 200;

/// Keywords whose subschemas look at the same place of the input.
const HERE: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];
/// Keywords whose subschemas look at properties of any name.
const PROPERTIES: [&str; 4] =
    ["patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"];
/// Keywords whose subschemas look at elements.
const ELEMENTS: [&str; 5] = ["items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"];

/// One step into an input.
#[derive(Clone, Debug, PartialEq)]
enum Step<'a> {
    Property(&'a str),
    AnyProperty,
    Element,
}

/// A subschema that is being unfolded, and where below it the schema refers to it again.
struct Unfolding<'a> {
    schema: &'a Value,
    /// How long the path into the input is here.
    at: usize,
    again: Vec<Vec<Step<'a>>>,
}

struct Walk<'a> {
    root: &'a Value,
    seen: usize,
    path: Vec<Step<'a>>,
    unfolding: Vec<Unfolding<'a>>,
}

/// Refuses a schema that would cost too much.
///
/// # Errors
/// What is wrong with it, in words for who wrote it.
pub(crate) fn check_cost(schema: &Value) -> Result<(), String> {
    let bytes = schema.to_string().len();
    if bytes > LONGEST {
        return Err(format!("it has {bytes} bytes; the limit is {LONGEST}"));
    }
    Walk { root: schema, seen: 0, path: Vec::new(), unfolding: Vec::new() }.unfold(schema)
}

impl<'a> Walk<'a> {
    fn unfold(&mut self, schema: &'a Value) -> Result<(), String> {
        let Some(keywords) = schema.as_object() else { return Ok(()) };
        self.seen += 1;
        if self.seen > LARGEST {
            return Err(format!("it unfolds to more than {LARGEST} subschemas"));
        }
        if self.unfolding.len() >= DEEPEST {
            return Err(format!("it is nested over {DEEPEST} levels deep"));
        }
        self.unfolding.push(Unfolding { schema, at: self.path.len(), again: Vec::new() });
        self.unfold_keywords(keywords)?;
        self.unfolding.pop();
        Ok(())
    }

    fn unfold_keywords(&mut self, keywords: &'a Map<String, Value>) -> Result<(), String> {
        for reference in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(target) =
                keywords.get(reference).and_then(Value::as_str).and_then(|to| self.resolve(to))
            {
                self.follow(target)?;
            }
        }
        for (keyword, value) in keywords {
            let keyword = keyword.as_str();
            if HERE.contains(&keyword) {
                self.unfold_all(value)?;
            } else if keyword == "properties" {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    self.step(Step::Property(name), |walk| walk.unfold(schema))?;
                }
            } else if PROPERTIES.contains(&keyword) {
                self.step(Step::AnyProperty, |walk| walk.unfold_all(value))?;
            } else if ELEMENTS.contains(&keyword) {
                self.step(Step::Element, |walk| walk.unfold_all(value))?;
            }
        }
        Ok(())
    }

    /// A schema, a list of schemas, or an object of schemas by name: the last cannot be told from the first, and counts as both.
    fn unfold_all(&mut self, value: &'a Value) -> Result<(), String> {
        match value {
            Value::Array(schemas) => schemas.iter().try_for_each(|schema| self.unfold(schema)),
            Value::Object(named) if named.values().all(Value::is_object) => {
                self.unfold(value)?;
                named.values().try_for_each(|schema| self.unfold(schema))
            }
            Value::Object(_) => self.unfold(value),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn step(
        &mut self,
        step: Step<'a>,
        inside: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.path.push(step);
        inside(self)?;
        self.path.pop();
        Ok(())
    }

    fn follow(&mut self, target: &'a Value) -> Result<(), String> {
        let Some(known) = self.unfolding.iter_mut().rfind(|known| std::ptr::eq(known.schema, target)) else {
            return self.unfold(target);
        };
        let path = self.path[known.at..].to_vec();
        if known.again.iter().any(|other| same_place(other, &path)) {
            return Err("it refers to itself in two ways for one place of the input".into());
        }
        known.again.push(path);
        if known.again.len() > MOST_OFTEN {
            return Err(format!("it refers to itself more than {MOST_OFTEN} times"));
        }
        Ok(())
    }

    /// What a reference means within the schema; references to elsewhere are not followed by the validator either.
    fn resolve(&self, reference: &str) -> Option<&'a Value> {
        match reference.strip_prefix('#') {
            Some("") => Some(self.root),
            Some(pointer) if pointer.starts_with('/') => self.root.pointer(pointer),
            Some(anchor) => named(self.root, &["$anchor", "$dynamicAnchor"], anchor),
            None => named(self.root, &["$id"], reference),
        }
    }
}

fn named<'a>(schema: &'a Value, keywords: &[&str], name: &str) -> Option<&'a Value> {
    match schema {
        Value::Object(entries) => {
            let is_it =
                keywords.iter().any(|keyword| entries.get(*keyword).and_then(Value::as_str) == Some(name));
            if is_it { Some(schema) } else { entries.values().find_map(|value| named(value, keywords, name)) }
        }
        Value::Array(items) => items.iter().find_map(|item| named(item, keywords, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn same_place(one: &[Step<'_>], other: &[Step<'_>]) -> bool {
    let may_be_same = |pair: (&Step<'_>, &Step<'_>)| match pair {
        (Step::Property(one), Step::Property(other)) => one == other,
        (Step::Element, Step::Element) => true,
        (Step::Element, _) | (_, Step::Element) => false,
        (Step::AnyProperty, _) | (_, Step::AnyProperty) => true,
    };
    one.len() == other.len() && one.iter().zip(other).all(may_be_same)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn doubling(keyword: &str, levels: usize) -> Value {
        let mut definitions = Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({keyword: [next, next]}));
        }
        definitions.insert(format!("d{levels}"), json!({"type": "object"}));
        json!({"type": "object", "$defs": definitions, keyword: [{"$ref": "#/$defs/d0"}]})
    }

    #[test]
    fn references_that_double_at_each_level_are_refused() {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            assert_eq!(check_cost(&doubling(keyword, 5)), Ok(()));
            assert!(check_cost(&doubling(keyword, 30)).unwrap_err().contains("unfolds"), "{keyword}");
        }
    }

    #[test]
    fn a_schema_may_refer_to_itself_but_not_twice_for_one_place() {
        let again = json!({"$ref": "#"});
        let tree = json!({"properties": {"left": again, "right": again, "more": {"items": again}}});
        assert_eq!(check_cost(&tree), Ok(()));
        for twice in [
            json!({"allOf": [{"properties": {"a": again}}, {"properties": {"a": again}}]}),
            json!({"properties": {"a": again}, "patternProperties": {"^a": again}}),
            json!({"items": again, "contains": again}),
            json!({"$anchor": "me", "anyOf": [{"$ref": "#me"}, {"$ref": "#me"}]}),
        ] {
            assert!(check_cost(&twice).unwrap_err().contains("two ways"), "{twice}");
        }
    }

    #[test]
    fn what_is_absurdly_long_or_deep_is_refused() {
        assert!(check_cost(&json!({"description": "x".repeat(LONGEST)})).unwrap_err().contains("bytes"));
        let mut deep = json!({});
        for _ in 0..300 {
            deep = json!({"not": deep});
        }
        assert!(check_cost(&deep).unwrap_err().contains("deep"));
    }
}
